/*
 * Making a connection as PQconnectdbParams does, but silently: that one prints what a server says
 * while the connection is being made (its last words, as a rule) before anybody could keep it from
 * that. So the connection is made step by step, and the notices are taken from the first step on.
 *
 * What PQconnectdbParams would do besides is done here: the time limit, and the turn of the hosts,
 * of which each has that limit for itself.
 */
#include "base/clock.h"
#include "store/pg_db.h"

#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

/* Names no file, which libpq bears in silence. */
#define NO_PASSFILE "/dev/null/none"

/* A library does not print; what matters comes back as an error. */
static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* --- what the URL says --- */

static const char *value_of(const struct pg_url *url, const char *keyword)
{
    return url->values[pg_url_find(url, keyword)];
}

static size_t elements(const char *list)
{
    size_t count = 1;
    for (; list != NULL && *list != '\0'; list++)
        count += *list == ',';
    return count;
}

/* The n-th of the list, for free(); one that has only one counts for all. */
static char *element(const char *list, size_t n)
{
    if (elements(list) > 1)
        for (; n > 0; n--)
            list = strchr(list, ',') + 1;
    return strndup(list, strcspn(list, ","));
}

/* In how many turns it is tried: one by one, where the lists fit together. */
static size_t turns(const struct pg_url *url)
{
    const char *host = value_of(url, "host");
    const char *hostaddr = value_of(url, "hostaddr");
    size_t count = elements(hostaddr != NULL ? hostaddr : host);
    size_t ports = elements(value_of(url, "port"));
    bool fit = (ports == 1 || ports == count) &&
               (host == NULL || hostaddr == NULL || elements(host) == count);
    return fit ? count : 1;
}

/* As libpq reads it: none, or at least two seconds; but never more than the caller has. */
static int64_t time_limit_ms(const struct pg_url *url, int64_t most_ms)
{
    const char *text = value_of(url, "connect_timeout");
    int64_t seconds = text != NULL ? strtoll(text, NULL, 10) : 0;
    int64_t limit_ms = seconds < 2 ? 2000 : seconds * 1000;
    return seconds <= 0 || limit_ms > most_ms ? most_ms : limit_ms;
}

/* libpq does not use a file of passwords that others can read, and prints that it does not. */
static bool passfile_is_unfit(const struct pg_url *url)
{
    char path[4096];
    struct stat status;
    const char *given = value_of(url, "passfile");
    const char *home = getenv("HOME");
    struct passwd entry;
    struct passwd *found = NULL;
    char names[1024];
    if (given == NULL)
        given = getenv("PGPASSFILE");
    if ((home == NULL || *home == '\0') &&
        getpwuid_r(geteuid(), &entry, names, sizeof names, &found) == 0 && found != NULL)
        home = entry.pw_dir;
    if (given != NULL && *given != '\0')
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/.pgpass", home != NULL ? home : "");
    return stat(path, &status) == 0 &&
           (!S_ISREG(status.st_mode) || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0);
}

/* --- one host --- */

/* Goes on when the server has; false: it has not within its time. */
static bool wait_for(PGconn *pg, short events, int64_t until_ms, const struct hurry *hurry)
{
    int64_t begun_ms = clock_mono_ms();
    for (;;) {
        struct pollfd fd = {.fd = PQsocket(pg), .events = events};
        int64_t left_ms = hurry_until(hurry, begun_ms, until_ms) - clock_mono_ms();
        if (left_ms <= 0)
            return false;
        if (poll(&fd, 1, (int)(left_ms < HURRY_LOOK_MS ? left_ms : HURRY_LOOK_MS)) > 0)
            return true;
    }
}

/* *ret_silent: it failed because there was no answer in time. */
static PGconn *connect_to(const char *const *keywords, const char *const *values, int64_t limit_ms,
                          const struct hurry *hurry, bool *ret_silent)
{
    *ret_silent = false;
    PGconn *pg = PQconnectStartParams(keywords, values, 0);
    if (pg == NULL)
        return NULL;
    PQsetNoticeProcessor(pg, ignore_notice, NULL);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    int64_t until_ms = clock_mono_ms() + limit_ms;
    while (PQstatus(pg) != CONNECTION_BAD && next != PGRES_POLLING_OK &&
           next != PGRES_POLLING_FAILED) {
        *ret_silent =
            !wait_for(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ms, hurry);
        if (*ret_silent) {
            if (PQstatus(pg) != CONNECTION_STARTED)
                break;
            /* An address that does not answer: libpq goes to the next one of the name. */
            shutdown(PQsocket(pg), SHUT_RDWR);
            until_ms = clock_mono_ms() + limit_ms;
        }
        next = PQconnectPoll(pg);
    }
    return pg;
}

/* --- all hosts --- */

static int fail(PGconn *pg, const struct pg_url *url, bool silent, struct err *err)
{
    return silent ? err_set(err, TEND_EUNREACHABLE,
                            "PostgreSQL at %s does not answer in time; is the server well, and is "
                            "the URL right?",
                            url->where)
                  : pg_error_connect(pg, url, err);
}

/* The sentence of PgBouncer, with what it refuses behind it. */
static bool refuses_options(const PGconn *pg)
{
    return strstr(PQerrorMessage(pg), "unsupported startup parameter") != NULL;
}

int pg_connect(PGconn **ret, const struct pg_url *url, int64_t most_ms, const struct hurry *hurry,
               bool *ret_refused, struct err *err)
{
    static const char *const lists[] = {"host", "hostaddr", "port"};
    enum { LISTS = sizeof lists / sizeof *lists };
    int64_t limit_ms = time_limit_ms(url, most_ms);
    size_t count = turns(url);
    size_t width = pg_url_find(url, ""); /* of all that are */
    bool silent = false;
    PGconn *pg = NULL;
    *ret_refused = false;
    const char **keywords = calloc(width + 2, sizeof *keywords);
    const char **values = calloc(width + 2, sizeof *values);
    for (size_t n = 0; keywords != NULL && values != NULL && n < count; n++) {
        char *own[LISTS] = {NULL};
        memcpy(keywords, url->keywords, width * sizeof *keywords);
        memcpy(values, url->values, width * sizeof *values);
        for (size_t i = 0; count > 1 && i < LISTS; i++)
            if (value_of(url, lists[i]) != NULL)
                values[pg_url_find(url, lists[i])] = own[i] = element(value_of(url, lists[i]), n);
        if (passfile_is_unfit(url)) {
            size_t at = pg_url_find(url, "passfile");
            keywords[at] = "passfile";
            values[at] = NO_PASSFILE;
        }
        PQfinish(pg);
        pg = connect_to(keywords, values, limit_ms, hurry, &silent);
        for (size_t i = 0; i < LISTS; i++)
            free(own[i]);
        if (PQstatus(pg) == CONNECTION_OK)
            break;
        *ret_refused |= refuses_options(pg);
    }
    free(keywords);
    free(values);
    if (PQstatus(pg) == CONNECTION_OK) {
        forks_add_socket(PQsocket(pg));
        *ret = pg;
        return 0;
    }
    int rc = fail(pg, url, silent, err);
    PQfinish(pg);
    return rc;
}

void pg_disconnect(PGconn *pg)
{
    if (pg != NULL)
        forks_remove_socket(PQsocket(pg));
    PQfinish(pg);
}
