/* See attempt_secret.h. */
#include "run/attempt_secret.h"

#include "base/err.h"
#include "base/text.h"
#include "run/secret.h"

#include <stdio.h>
#include <string.h>

/* A value while it is looked up, and for what. */
struct search {
    struct attempt *attempt;
    const char *user; /* "header", "variable", "body": what needs the value */
    const char *user_name;
    bool raw; /* any bytes will do */
    size_t bytes;
};

/* ---- why a value cannot be had ---- */

static const char *place_name(const struct secret_name *secret)
{
    return secret->place == SECRET_IN_ENV ? "variable" : "file";
}

/* Always TEND_EINVAL: the job fails, for no worker of this kind can do it. */
static int missing(struct search *search, const struct secret_name *secret, const char *why)
{
    struct job_run *run = search->attempt->run;
    search->attempt->no_secret = true;
    if (secret->place == SECRET_IN_ENV && strcmp(search->user, "variable") == 0 &&
        strcmp(search->user_name, secret->name) == 0) /* as --env-from writes it: said once */
        snprintf(run->last_error, sizeof run->last_error, "variable \"%.400s\" (--env-from) %s",
                 secret->name, why);
    else
        snprintf(run->last_error, sizeof run->last_error,
                 "%s%s%.80s%s needs %s \"%.400s\", which %s", search->user,
                 search->user_name[0] ? " \"" : "", search->user_name,
                 search->user_name[0] ? "\"" : "", place_name(secret), secret->name, why);
    return TEND_EINVAL;
}

/* The worker's own trouble; always negative. */
static int lacks(struct search *search, int code, const char *text)
{
    job_lacks(search->attempt->run, code, text);
    return code;
}

static int no_memory(struct search *search)
{
    return lacks(search, TEND_ENOMEM, "out of memory for the secrets of a step");
}

/* ---- looking it up ---- */

/* The value behind its prefix. */
static int put_prefix(struct search *search, const struct secret_name *secret, const char **ret)
{
    size_t prefix_bytes = strlen(secret->prefix);
    if (prefix_bytes == 0)
        return 0;
    char *both = arena_alloc(&search->attempt->secrets, prefix_bytes + search->bytes + 1);
    if (both == NULL)
        return no_memory(search);
    memcpy(both, secret->prefix, prefix_bytes);
    memcpy(both + prefix_bytes, *ret, search->bytes + 1);
    search->bytes += prefix_bytes;
    *ret = both;
    return 0;
}

/* A value too short to be kept out of the output is refused where it is meant to be secret; DEBUG=1
 * need not be. */
static bool must_be_kept_out(const struct search *search, const struct secret_name *secret)
{
    return secret->place == SECRET_IN_FILE ||
           redact_variable_is_secret(search->attempt->run->redactor, secret->name) ||
           redact_name_is_secret(search->attempt->run->redactor, search->user_name);
}

static int look_up(struct search *search, const struct secret_name *secret, const char **ret)
{
    const char *value;
    char why[SECRET_WHY_BYTES];
    int rc = secret_read(secret, &search->attempt->secrets, &value, &search->bytes, why);
    if (rc == TEND_EINVAL)
        return missing(search, secret, why);
    if (rc < 0)
        return lacks(search, rc, why);
    if (!search->raw && strlen(value) != search->bytes)
        return missing(search, secret, "holds a zero byte");
    if (!redact_finds(value, search->bytes) && must_be_kept_out(search, secret))
        return missing(search, secret,
                       "is shorter than 4 bytes: a secret that short cannot be kept out of the "
                       "output");
    if (!job_know_secret(search->attempt->run, value, search->bytes))
        return no_memory(search);
    *ret = value;
    return put_prefix(search, secret, ret);
}

/* ---- what an attempt needs ---- */

static int find_text(struct search *search, const struct named_text *text, struct named_text *ret)
{
    *ret = *text;
    search->user_name = text->name;
    return text->secret == NULL ? 0 : look_up(search, text->secret, &ret->value);
}

static int find_env(struct attempt *attempt)
{
    struct search search = {.attempt = attempt, .user = "variable"};
    const struct named_texts *both[] = {&attempt->run->plan.env, &attempt->step->env};
    struct named_text *items =
        arena_zalloc(&attempt->secrets, (both[0]->count + both[1]->count + 1) * sizeof *items);
    if (items == NULL)
        return no_memory(&search);
    attempt->env = (struct named_texts){.items = items};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < both[i]->count; j++) {
            int rc = find_text(&search, &both[i]->items[j], &items[attempt->env.count++]);
            if (rc < 0)
                return rc;
        }
    return 0;
}

static int find_headers(struct attempt *attempt, struct http_plan *http)
{
    struct search search = {.attempt = attempt, .user = "header"};
    struct named_text *items =
        arena_zalloc(&attempt->secrets, (http->headers.count + 1) * sizeof *items);
    if (items == NULL)
        return no_memory(&search);
    for (size_t i = 0; i < http->headers.count; i++) {
        const struct named_text *given = &http->headers.items[i];
        int rc = find_text(&search, given, &items[i]);
        if (rc < 0)
            return rc;
        if (given->secret != NULL && strpbrk(items[i].value, "\r\n") != NULL)
            return missing(&search, given->secret, "has a line break, and a header is one line");
    }
    http->headers.items = items;
    return 0;
}

/* A value inside a JSON body. */
static int look_up_inner(void *context, const struct secret_name *secret, const char **ret)
{
    struct search *search = context;
    int rc = look_up(search, secret, ret);
    if (rc == 0 && !utf8_valid(*ret, strlen(*ret)))
        rc = missing(search, secret, "is not UTF-8, as JSON must be");
    return rc;
}

static int find_body(struct attempt *attempt, struct http_plan *http)
{
    struct search search = {.attempt = attempt, .user = "the body", .user_name = ""};
    int rc = 0;
    if (http->body_secret != NULL) {
        search.raw = true;
        rc = look_up(&search, http->body_secret, &http->body);
        http->body_bytes = search.bytes;
    } else if (http->body_names_secrets) {
        rc = spec_fill_body(http, &attempt->secrets, look_up_inner, &search, &http->body);
        http->body_bytes = rc < 0 ? 0 : strlen(http->body);
        if (rc == TEND_ENOMEM)
            rc = no_memory(&search);
    }
    return rc;
}

static int find_http(struct attempt *attempt)
{
    struct http_plan *http = arena_zalloc(&attempt->secrets, sizeof *http);
    if (http == NULL)
        return no_memory(&(struct search){.attempt = attempt});
    *http = *attempt->step->http;
    attempt->http = http;
    int rc = find_headers(attempt, http);
    return rc < 0 ? rc : find_body(attempt, http);
}

bool attempt_find_secrets(struct attempt *attempt)
{
    int rc = 0;
    if (attempt->step->kind == STEP_HTTP)
        rc = find_http(attempt);
    else if (attempt->step->kind != STEP_SLEEP)
        rc = find_env(attempt);
    if (rc < 0 && !attempt->no_secret)
        return false;
    if (job_renew_redactor(attempt->run) == 0)
        return true;
    no_memory(&(struct search){.attempt = attempt});
    return false;
}

void attempt_fail_secret(struct attempt *attempt)
{
    attempt->end = ATTEMPT_FAILED;
    attempt->ending = (struct ending){.kind = ENDED_NO_SECRET};
}
