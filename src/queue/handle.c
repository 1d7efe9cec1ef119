#include "queue/handle.h"

#include "base/clock.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/timetext.h"
#include "queue/worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECOVERY_DEFAULT_MS = 60000, RECOVERY_MAX_MS = 86400000 };

const char *tend_version(void)
{
    return TEND_VERSION;
}

const char *tend_strerror(int code)
{
    switch (code) {
#define X(name, value, text)                                                                       \
    case TEND_##name:                                                                              \
        return text;
        TEND_ERRORS(X)
#undef X
    default:
        return code >= 0 ? "done" : "unknown error";
    }
}

struct err *handle_err(tend *t)
{
    struct err *err = err_table_mine(&t->errors);
    return err != NULL ? err : &t->open_error;
}

const char *tend_errmsg(tend *t)
{
    if (t == NULL)
        return "out of memory";
    return t->db == NULL ? t->open_error.text : handle_err(t)->text;
}

int handle_fail(tend *t, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err_vset(handle_err(t), code, format, args);
    va_end(args);
    return code;
}

void handle_log(tend *t, const char *format, ...)
{
    char line[1024];
    va_list args;
    if (t->options.log == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    t->options.log(t->options.log_arg, line);
}

double handle_random(tend *t)
{
    pthread_mutex_lock(&t->mutex);
    double random = rng_double(&t->rng);
    pthread_mutex_unlock(&t->mutex);
    return random;
}

const char *handle_owner(const tend *t, const char *who)
{
    return who != NULL ? who : t->name;
}

int name_check(const char *what, const char *name, struct err *err)
{
    if (name_ok(name))
        return 0;
    return err_set(err, TEND_EINVAL,
                   "'%.80s' cannot name a %s; give 1 to 200 bytes of UTF-8 text without control "
                   "characters",
                   name, what);
}

int handle_check_name(tend *t, const char *what, const char *name)
{
    return name_ok(name) ? 0 : name_check(what, name, handle_err(t));
}

int handle_check_time(tend *t, const char *what, int64_t ms, int64_t low_ms, int64_t high_ms)
{
    char given[DURATION_TEXT_BYTES];
    char range[DURATION_RANGE_BYTES];
    if (ms >= low_ms && ms <= high_ms)
        return 0;
    return handle_fail(t, TEND_EINVAL, "%s is %s; it must be %s", what, duration_text(ms, given),
                       duration_range_text(low_ms, high_ms, range));
}

const char *handle_clean_text(struct arena *arena, const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t len = text == NULL ? 0 : strlen(text);
    if (text == NULL || utf8_valid(text, len))
        return text;
    char *clean = arena_alloc(arena, len * (sizeof replacement - 1) + 1);
    char *end = clean;
    for (size_t at = 0; clean != NULL && at < len;) {
        size_t sequence = utf8_sequence(text + at, len - at);
        end = sequence == 0 ? stpcpy(end, replacement) : mempcpy(end, text + at, sequence);
        at += sequence == 0 ? 1 : sequence;
    }
    if (clean == NULL)
        return "";
    *end = '\0';
    return clean;
}

int handle_write_within(tend *t, int64_t wait_ms, db_body *body, void *arg)
{
    struct arena arena;
    arena_init(&arena);
    int rc = db_write_within(t->db, wait_ms, &arena, body, arg, handle_err(t));
    arena_done(&arena);
    return rc;
}

int handle_write(tend *t, db_body *body, void *arg)
{
    return handle_write_within(t, -1, body, arg);
}

int handle_read_within(tend *t, int64_t wait_ms, db_body *body, void *arg)
{
    struct arena arena;
    arena_init(&arena);
    int rc = db_read_within(t->db, wait_ms, &arena, body, arg, handle_err(t));
    arena_done(&arena);
    return rc;
}

int handle_read(tend *t, db_body *body, void *arg)
{
    return handle_read_within(t, -1, body, arg);
}

/* What is not given. */
enum { CONNECTIONS = 8, BUSY_MS = 30000 };

void tend_options_init(struct tend_options *options)
{
    *options = (struct tend_options){
        .connections = CONNECTIONS, .busy_ms = BUSY_MS, .recovery_ms = TEND_UNSET};
}

/*
 * Host and pid are for people. The rest is drawn: two containers can have one host name and the
 * same pid, and a pid comes again.
 */
static void default_name(char *out, size_t size, struct rng *rng)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    char host[128];
    char drawn[6] = "";
    for (size_t i = 0; i + 1 < sizeof drawn; i++)
        drawn[i] = letters[rng_below(rng, sizeof letters - 1)];
    if (proc_host(host, sizeof host) < 0)
        snprintf(host, sizeof host, "localhost");
    snprintf(out, size, "%s:%lld:%s", host, (long long)getpid(), drawn);
}

/* RC-1: what the caller says, else the environment, else 60 s. */
static int recovery_interval(int64_t asked_ms, int64_t *ret_ms, struct err *err)
{
    const char *text = getenv("TEND_RECOVERY_INTERVAL_MS");
    *ret_ms = asked_ms == TEND_UNSET ? RECOVERY_DEFAULT_MS : asked_ms;
    if (asked_ms != TEND_UNSET || text == NULL)
        return 0;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0 || number > RECOVERY_MAX_MS)
        return err_set(err, TEND_EINVAL,
                       "TEND_RECOVERY_INTERVAL_MS is '%s'; it must be from 0 (no timer) to %d",
                       text, RECOVERY_MAX_MS);
    *ret_ms = number;
    return 0;
}

static void log_notice(void *arg, const char *text)
{
    handle_log(arg, "%s", text);
}

/* In the child of a fork. Another thread may have held one, and is not there to unlock it; one that
 * was registering the worker, or waited for that, is not there either. */
static void renew_mutexes(void *arg)
{
    tend *t = arg;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->registered, NULL);
    t->registering = false;
    err_table_after_fork(&t->errors);
}

/* Keeps copies: the options are the caller's. */
static int take_names(tend *t, const struct tend_options *options)
{
    default_name(t->name, sizeof t->name, &t->rng);
    if (options->name != NULL) {
        if (name_check("worker", options->name, &t->open_error) < 0)
            return TEND_EINVAL;
        snprintf(t->name, sizeof t->name, "%s", options->name);
    }
    if (options->hook != NULL) {
        if (name_check("hook", options->hook, &t->open_error) < 0)
            return TEND_EINVAL;
        snprintf(t->hook, sizeof t->hook, "%s", options->hook);
        t->options.hook = t->hook;
    }
    return 0;
}

int tend_open(tend **ret, const char *url, const struct tend_options *options)
{
    struct tend_options defaults;
    tend_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    tend *t = calloc(1, sizeof *t);
    *ret = t;
    if (t == NULL)
        return TEND_ENOMEM;
    if (err_table_init(&t->errors) < 0) {
        free(t);
        *ret = NULL;
        return TEND_ENOMEM;
    }
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->registered, NULL);
    t->options = *options;
    if (t->options.connections <= 0)
        t->options.connections = CONNECTIONS;
    if (t->options.busy_ms <= 0)
        t->options.busy_ms = BUSY_MS;
    rng_seed_random(&t->rng);
    int rc = take_names(t, options);
    if (rc == 0)
        rc = recovery_interval(options->recovery_ms, &t->options.recovery_ms, &t->open_error);
    if (rc < 0)
        return rc;
    struct db_options db_options = {
        .must_exist = options->must_exist != 0,
        .beside_workers = options->beside_workers != 0,
        .durability_normal = options->durability_normal != 0,
        .connections = t->options.connections,
        .busy_ms = t->options.busy_ms,
        .open_ms = options->open_ms,
        .clock_ms = options->clock_ms,
        .clock_arg = options->clock_arg,
        .notice = log_notice,
        .notice_arg = t,
        .uptime_ms = options->uptime_ms,
    };
    t->link = (struct fork_link){.child = renew_mutexes, .arg = t};
    forks_add(&t->link);
    return db_open(&t->db, url != NULL ? url : "", &db_options, &t->open_error);
}

void tend_close(tend *t)
{
    if (t == NULL)
        return;
    if (t->db != NULL && !db_is_forked(t->db))
        worker_leave(t);
    db_close(t->db);
    forks_remove(&t->link);
    free(t->buried);
    err_table_done(&t->errors);
    pthread_cond_destroy(&t->registered);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

static int now_body(struct db_tx *tx, void *arg)
{
    return db_time(tx, arg);
}

int handle_now(tend *t, int64_t wait_ms, int64_t *ret_ms)
{
    return handle_read_within(t, wait_ms, now_body, ret_ms);
}

int tend_now(tend *t, int64_t *ret_ms)
{
    return handle_now(t, -1, ret_ms);
}

void tend_interrupt(tend *t)
{
    db_interrupt(t->db);
}
