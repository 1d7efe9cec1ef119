/*
 * The store URL. Parameters that begin with tend_ are ours and are taken out; the rest is libpq's.
 *
 * Invariant: no text made here contains a password.
 */
#include "base/buf.h"
#include "base/text.h"
#include "store/pg_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

/* What is set where the URL says nothing: a server that is cut off is noticed within half a minute.
 */
static const struct {
    const char *keyword, *value;
} defaults[] = {
    {"fallback_application_name", "tend"}, {"connect_timeout", "10"}, {"keepalives_idle", "10"},
    {"keepalives_interval", "5"},          {"keepalives_count", "3"}, {"tcp_user_timeout", "20000"},
    {"client_encoding", "UTF8"},
};
enum { DEFAULTS = sizeof defaults / sizeof *defaults };

static bool schema_ok(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return len > 0 && len < PG_SCHEMA_BYTES && name[len] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9');
}

/* One of our own parameters, name=value. */
static int take_own(struct pg_url *url, const char *pair, size_t len, struct err *err)
{
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)len, pair);
    char *value = strchr(text, '=');
    if (value != NULL)
        *value++ = '\0';
    if (value != NULL && strcmp(text, "tend_schema") == 0) {
        if (!schema_ok(value))
            return err_set(
                err, TEND_EINVAL,
                "tend_schema in the store URL is '%s'; give up to 63 small letters, digits "
                "and underscores",
                value);
        snprintf(url->schema, sizeof url->schema, "%s", value);
        return 0;
    }
    if (value != NULL && strcmp(text, "tend_pooler") == 0) {
        if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
            return err_set(err, TEND_EINVAL, "tend_pooler in the store URL must be 0 or 1");
        url->pooler = value[0] == '1';
        url->pooler_given = true;
        return 0;
    }
    return err_set(
        err, TEND_EINVAL,
        "'%s' in the store URL means nothing; tend knows tend_schema=NAME and tend_pooler=0|1",
        text);
}

/* Copies the URL without our parameters. */
static int strip(struct pg_url *url, const char *text, struct buf *out, struct err *err)
{
    size_t base = strcspn(text, "?");
    char joint = '?';
    buf_append(out, text, base);
    for (const char *at = text + base; *at == '?' || *at == '&';) {
        at++;
        size_t len = strcspn(at, "&");
        int rc = 0;
        if (memmem(at, len, "?tend_", 6) != NULL) {
            rc = err_set(err, TEND_EINVAL,
                         "the store URL has a second '?'; join further parameters with '&'");
        } else if (strncmp(at, "tend_", 5) == 0) {
            rc = take_own(url, at, len, err);
        } else if (len > 0) {
            buf_putc(out, joint);
            buf_append(out, at, len);
            joint = '&';
        }
        if (rc < 0)
            return rc;
        at += len;
    }
    return out->failed ? err_set(err, TEND_ENOMEM, "out of memory while reading the store URL") : 0;
}

static const char *option(const struct pg_url *url, const char *keyword)
{
    for (PQconninfoOption *at = url->parsed; at->keyword != NULL; at++)
        if (strcmp(at->keyword, keyword) == 0)
            return at->val;
    return NULL;
}

static void describe(struct pg_url *url)
{
    const char *host = option(url, "host");
    const char *hostaddr = option(url, "hostaddr");
    const char *port = option(url, "port");
    const char *name = option(url, "dbname");
    if (host == NULL || host[0] == '\0')
        host = hostaddr != NULL && hostaddr[0] != '\0' ? hostaddr : "the local socket";
    snprintf(url->where, sizeof url->where, "%.100s%s%.20s%s%.60s", host,
             port != NULL && port[0] != '\0' ? ", port " : "", port != NULL ? port : "",
             name != NULL && name[0] != '\0' ? ", database " : "", name != NULL ? name : "");
}

static bool several_hosts(const struct pg_url *url)
{
    const char *host = option(url, "host");
    const char *hostaddr = option(url, "hostaddr");
    return (host != NULL && strchr(host, ',') != NULL) ||
           (hostaddr != NULL && strchr(hostaddr, ',') != NULL);
}

/* The arrays libpq wants: what the URL says, then what it leaves open. */
static int collect(struct pg_url *url, struct err *err)
{
    size_t count = 0;
    while (url->parsed[count].keyword != NULL)
        count++;
    /* Besides: target_session_attrs, options, and the NULL at the end. */
    url->keywords = calloc(count + DEFAULTS + 3, sizeof *url->keywords);
    url->values = calloc(count + DEFAULTS + 3, sizeof *url->values);
    if (url->keywords == NULL || url->values == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory while reading the store URL");
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (url->parsed[i].val == NULL || url->parsed[i].val[0] == '\0')
            continue;
        url->keywords[n] = url->parsed[i].keyword;
        url->values[n++] = url->parsed[i].val;
    }
    for (size_t i = 0; i < DEFAULTS; i++) {
        if (option(url, defaults[i].keyword) != NULL)
            continue;
        url->keywords[n] = defaults[i].keyword;
        url->values[n++] = defaults[i].value;
    }
    /* With several hosts the one that can be written is meant. */
    url->several_hosts = several_hosts(url);
    if (url->several_hosts && option(url, "target_session_attrs") == NULL) {
        url->keywords[n] = "target_session_attrs";
        url->values[n++] = "read-write";
    }
    return 0;
}

/* libpq quotes what it could not read, which may be the password: the message ends before it. */
static void cut_message(char *message)
{
    size_t len = strcspn(message, ":\"\n");
    while (len > 0 && message[len - 1] == ' ')
        len--;
    message[len] = '\0';
}

/* A channel's name has no more bytes than a schema's: of a long one it has a part, and what tells
 * it from others. */
static void name_channel(struct pg_url *url)
{
    int len = snprintf(url->channel, sizeof url->channel, "tend_%s", url->schema);
    if (len >= (int)sizeof url->channel)
        snprintf(url->channel, sizeof url->channel, "tend_%.40s_%016llx", url->schema,
                 (unsigned long long)text_hash(url->schema));
}

int pg_url_parse(struct pg_url *url, const char *text, struct err *err)
{
    struct buf stripped;
    char *message = NULL;
    *url = (struct pg_url){.schema = "tend"};
    buf_init(&stripped);
    int rc = strip(url, text, &stripped, err);
    name_channel(url);
    if (rc == 0) {
        url->parsed = PQconninfoParse(stripped.data, &message);
        if (url->parsed == NULL) {
            if (message != NULL)
                cut_message(message);
            rc = err_set(err, TEND_EINVAL,
                         "the store URL is no PostgreSQL URL: %.*s; the form is "
                         "postgresql://USER@HOST:PORT/DATABASE",
                         message == NULL ? 13 : (int)strlen(message),
                         message == NULL ? "out of memory" : message);
        } else {
            rc = collect(url, err);
        }
    }
    if (rc == 0)
        describe(url);
    PQfreemem(message);
    buf_done(&stripped);
    return rc;
}

size_t pg_url_find(const struct pg_url *url, const char *keyword)
{
    size_t i = 0;
    while (url->keywords[i] != NULL && strcmp(url->keywords[i], keyword) != 0)
        i++;
    return i;
}

/*
 * What libpq would send besides: of the URL, of PGOPTIONS, or of a service file. It tells only for
 * a connection, so one is begun that cannot get as far as a socket; with a password, so that it
 * does not look for one.
 */
char *pg_url_given_options(const struct pg_url *url)
{
    const char *of_url = option(url, "options");
    size_t width = pg_url_find(url, "");
    char *given = NULL;
    if (of_url != NULL)
        return strdup(of_url);
    const char **keywords = calloc(width + 3, sizeof *keywords);
    const char **values = calloc(width + 3, sizeof *values);
    if (keywords != NULL && values != NULL) {
        memcpy(keywords, url->keywords, width * sizeof *keywords);
        memcpy(values, url->values, width * sizeof *values);
        keywords[width] = "password";
        values[width] = "none";
        keywords[width + 1] = "sslmode";
        values[width + 1] = "none at all";
        PGconn *pg = PQconnectStartParams(keywords, values, 0);
        PQconninfoOption *all = PQconninfo(pg);
        for (PQconninfoOption *at = all; at != NULL && at->keyword != NULL && given == NULL; at++)
            if (strcmp(at->keyword, "options") == 0 && at->val != NULL)
                given = strdup(at->val);
        PQconninfoFree(all);
        PQfinish(pg);
    }
    free(keywords);
    free(values);
    return given;
}

void pg_url_set_options(struct pg_url *url, char *options)
{
    size_t at = pg_url_find(url, "options");
    const char *of_url = option(url, "options");
    free(url->options);
    url->options = options;
    url->values[at] = options != NULL ? options : of_url;
    url->keywords[at] = url->values[at] != NULL ? "options" : NULL;
}

void pg_url_done(struct pg_url *url)
{
    free(url->options);
    free(url->keywords);
    free(url->values);
    PQconninfoFree(url->parsed);
    *url = (struct pg_url){0};
}

/* FNV-1a over purpose and schema: two stores in one database must not meet in their locks. */
int32_t pg_lock_class(const struct pg_url *url, enum pg_lock_class class)
{
    uint32_t hash = 2166136261u ^ (uint32_t) class;
    for (const char *at = url->schema; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return (int32_t)(hash & 0x7fffffff);
}
