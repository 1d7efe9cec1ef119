/* See store.h: the store and its handles, the clock, jobs and claims, processes. */
#include "support/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANDLES_MAX = 64, KEPT_MAX = 65536, LOG_BYTES = 65536 };

/* What is given out and freed at the end of the test. */
struct kept {
    void *item;
    void (*release)(void *item);
};

static struct {
    pthread_mutex_t mutex;
    pid_t owner; /* the process that closes at its exit; forked ones must not */
    tend *handles[HANDLES_MAX];
    struct kept kept[KEPT_MAX];
    size_t kept_count;
    char log[LOG_BYTES];
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* In shared memory, for the processes of a test; begins anew for each test, which is a process
 * group. */
static struct {
    int64_t now_ms;
    pid_t group;
} * fake_clock;

__attribute__((constructor)) static void make_clock(void)
{
    fake_clock =
        mmap(NULL, sizeof *fake_clock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fake_clock == MAP_FAILED)
        abort();
}

static int64_t *the_clock(void)
{
    if (__atomic_load_n(&fake_clock->group, __ATOMIC_SEQ_CST) != getpgrp()) {
        __atomic_store_n(&fake_clock->now_ms, CLOCK_START_MS, __ATOMIC_SEQ_CST);
        __atomic_store_n(&fake_clock->group, getpgrp(), __ATOMIC_SEQ_CST);
    }
    return &fake_clock->now_ms;
}

int64_t clock_now(void)
{
    return __atomic_load_n(the_clock(), __ATOMIC_SEQ_CST);
}

void clock_advance(int64_t ms)
{
    __atomic_add_fetch(the_clock(), ms, __ATOMIC_SEQ_CST);
}

void clock_set(int64_t ms)
{
    __atomic_store_n(the_clock(), ms, __ATOMIC_SEQ_CST);
}

int64_t clock_read(void *unused)
{
    (void)unused;
    return clock_now();
}

/* --- the end of the test --- */

static void clean_up(void)
{
    if (getpid() != all.owner)
        return;
    for (size_t i = all.kept_count; i > 0; i--)
        all.kept[i - 1].release(all.kept[i - 1].item);
    for (size_t i = 0; i < HANDLES_MAX; i++)
        tend_close(all.handles[i]);
    store_sql_close();
}

static void clean_up_at_exit(void)
{
    if (all.owner == getpid())
        return;
    all.owner = getpid();
    memset(all.handles, 0, sizeof all.handles);
    all.kept_count = 0;
    atexit(clean_up);
}

static void keep(void *item, void (*release)(void *))
{
    pthread_mutex_lock(&all.mutex);
    clean_up_at_exit();
    if (all.kept_count == KEPT_MAX)
        test_fail(__FILE__, __LINE__, "a test keeps too much");
    all.kept[all.kept_count++] = (struct kept){item, release};
    pthread_mutex_unlock(&all.mutex);
}

char *keep_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        test_fail(__FILE__, __LINE__, "out of memory");
    va_end(args);
    keep(text, free);
    return text;
}

/* --- the store --- */

bool store_is_postgres(void)
{
    const char *store = getenv("TEND_TEST_STORE");
    return store != NULL && strcmp(store, "postgres") == 0;
}

const char *store_path(void)
{
    return test_path("tend.db");
}

const char *store_schema(void)
{
    return keep_text("t_%d_0", (int)getpgrp());
}

const char *store_url(void)
{
    if (!store_is_postgres())
        return keep_text("sqlite:%s", store_path());
    const char *server = getenv("TEND_TEST_PG_URL");
    if (server == NULL)
        test_fail(__FILE__, __LINE__, "TEND_TEST_PG_URL is not set; use tools/with-postgres");
    return keep_text("%s%ctend_schema=%s", server, strchr(server, '?') != NULL ? '&' : '?',
                     store_schema());
}

static void write_log(void *arg, const char *line)
{
    (void)arg;
    pthread_mutex_lock(&all.mutex);
    size_t used = strlen(all.log);
    snprintf(all.log + used, sizeof all.log - used, "%s\n", line);
    pthread_mutex_unlock(&all.mutex);
}

const char *store_log(void)
{
    pthread_mutex_lock(&all.mutex);
    char *copy = strdup(all.log);
    pthread_mutex_unlock(&all.mutex);
    keep(copy, free);
    return copy;
}

struct tend_options store_options(const char *name)
{
    struct tend_options options;
    tend_options_init(&options);
    options.name = name;
    options.log = write_log;
    options.clock_ms = clock_read;
    return options;
}

tend *store_open_with(const struct tend_options *options)
{
    tend *t;
    int rc = tend_open(&t, store_url(), options);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "opening %s: %s", store_url(), tend_errmsg(t));
    pthread_mutex_lock(&all.mutex);
    clean_up_at_exit();
    size_t slot = 0;
    while (slot < HANDLES_MAX && all.handles[slot] != NULL)
        slot++;
    if (slot == HANDLES_MAX)
        test_fail(__FILE__, __LINE__, "a test opens too many handles");
    all.handles[slot] = t;
    pthread_mutex_unlock(&all.mutex);
    return t;
}

tend *store_open(const char *name)
{
    struct tend_options options = store_options(name);
    return store_open_with(&options);
}

tend *store_open_real(const char *name)
{
    struct tend_options options = store_options(name);
    options.clock_ms = NULL;
    return store_open_with(&options);
}

tend *store_open_busy(const char *name, int64_t busy_ms)
{
    struct tend_options options = store_options(name);
    options.busy_ms = busy_ms;
    return store_open_with(&options);
}

void store_close(tend *t)
{
    pthread_mutex_lock(&all.mutex);
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (all.handles[i] == t)
            all.handles[i] = NULL;
    pthread_mutex_unlock(&all.mutex);
    tend_close(t);
}

int store_check_rc(const char *file, int line, const char *what, tend *t, int actual, int expected)
{
    test_count_check();
    if (actual != expected)
        test_fail(file, line, "%s is %d (%s), not %d (%s): %s", what, actual, tend_strerror(actual),
                  expected, tend_strerror(expected), tend_errmsg(t));
    return actual;
}

/* --- jobs --- */

struct tend_job_spec spec_for(const char *queue)
{
    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    spec.queue = queue;
    return spec;
}

int64_t add_spec(tend *t, const struct tend_job_spec *spec)
{
    struct tend_added added = {.id = -1, .outcome = -99};
    check_ok(t, tend_add(t, spec, &added));
    check_int(added.outcome, ==, TEND_OK);
    check_int(added.id, >, 0);
    return added.id;
}

int64_t add_one(tend *t, const char *queue)
{
    struct tend_job_spec spec = spec_for(queue);
    return add_spec(t, &spec);
}

void add_number(tend *t, const char *queue, size_t count)
{
    struct tend_job_spec *specs = calloc(count, sizeof *specs);
    struct tend_added *added = calloc(count, sizeof *added);
    for (size_t i = 0; i < count; i++)
        specs[i] = spec_for(queue);
    check_ok(t, tend_add_many(t, specs, count, added));
    free(specs);
    free(added);
}

static void free_jobs(void *jobs)
{
    tend_jobs_free(jobs);
}

static void free_events(void *events)
{
    tend_events_free(events);
}

const struct tend_job *job_of(tend *t, int64_t id)
{
    struct tend_jobs *jobs;
    check_ok(t, tend_get(t, id, &jobs));
    keep(jobs, free_jobs);
    check_int(jobs->count, ==, 1);
    check_int(jobs->items[0].id, ==, id);
    return &jobs->items[0];
}

int state_of(tend *t, int64_t id)
{
    return job_of(t, id)->state;
}

const char *events_of(tend *t, int64_t id)
{
    struct tend_events *events;
    check_ok(t, tend_job_events(t, id, &events));
    keep(events, free_events);
    const char *text = "";
    for (size_t i = 0; i < events->count; i++)
        text = keep_text("%s%s%s", text, i == 0 ? "" : " ", events->items[i].what);
    return text;
}

const struct tend_event *last_event_of(tend *t, int64_t id)
{
    struct tend_events *events;
    check_ok(t, tend_job_events(t, id, &events));
    keep(events, free_events);
    check_int(events->count, >, 0);
    return &events->items[events->count - 1];
}

int64_t count_events(const char *what)
{
    return sql_int("SELECT count(*) FROM event WHERE what = '%s'", what);
}

/* --- claims --- */

struct tend_claim claim_for(const char *queue)
{
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.queue = queue;
    return claim;
}

struct tend_lease lease_of(const struct tend_job *job)
{
    return (struct tend_lease){.id = job->id, .token = job->token};
}

struct tend_lease claim_with(tend *t, const struct tend_claim *claim)
{
    struct tend_jobs *jobs;
    check_rc(t, tend_claim_jobs(t, claim, &jobs, NULL), 1);
    check_int(jobs->count, ==, 1);
    check_int(jobs->items[0].state, ==, TEND_RUNNING);
    struct tend_lease lease = lease_of(&jobs->items[0]);
    tend_jobs_free(jobs);
    return lease;
}

struct tend_lease claim_as(tend *t, const char *queue, const char *owner)
{
    struct tend_claim claim = claim_for(queue);
    claim.owner = owner;
    return claim_with(t, &claim);
}

struct tend_lease claim_one(tend *t, const char *queue)
{
    return claim_as(t, queue, NULL);
}

size_t claim_many(tend *t, const char *queue, size_t count, struct tend_lease *leases)
{
    struct tend_claim claim = claim_for(queue);
    struct tend_jobs *jobs;
    claim.count = count;
    int got = tend_claim_jobs(t, &claim, &jobs, NULL);
    test_count_check();
    if (got == TEND_EEMPTY || got == TEND_ELIMITED || got == TEND_EBUSY || got == TEND_EPAUSED)
        return 0;
    if (got < 0)
        test_fail(__FILE__, __LINE__, "claiming from %s: %s", queue, tend_errmsg(t));
    check_int(jobs->count, ==, got);
    check_int(got, <=, count);
    for (size_t i = 0; leases != NULL && i < jobs->count; i++)
        leases[i] = lease_of(&jobs->items[i]);
    tend_jobs_free(jobs);
    return (size_t)got;
}

struct tend_none claim_none(tend *t, const char *queue)
{
    struct tend_claim claim = claim_for(queue);
    struct tend_none none = {0};
    struct tend_jobs *jobs = NULL;
    int rc = tend_claim_jobs(t, &claim, &jobs, &none);
    check_int(rc, <, 0);
    check_int(none.code, ==, rc);
    check(jobs == NULL);
    check(tend_errmsg(t)[0] != '\0');
    return none;
}

void set_queue(tend *t, const char *queue, const char *setting, const char *value)
{
    const struct tend_setting settings[] = {{setting, value}};
    check_ok(t, tend_queue_set(t, queue, settings, 1, "operator"));
}

int64_t act_on_all(tend *t, enum tend_action action, const struct tend_filter *filter,
                   const char *by, const char *why)
{
    struct tend_acted *acted = NULL;
    check_ok(t, tend_act_on_all(t, action, filter, by, why, &acted));
    int64_t count = acted->count;
    tend_acted_free(acted);
    return count;
}

struct tend_recovery recover_now(tend *t)
{
    struct tend_recovery recovery = {.locks_cleaned = -1};
    check_ok(t, tend_detect_and_recover_stale(t, &recovery));
    return recovery;
}

void check_nothing_announced(tend *t, int64_t running_id)
{
    struct tend_recovery announced;
    struct tend_explanation why;
    struct tend_locks *locks;
    check_ok(t, tend_get_recovery_stats(t, &announced));
    check_int(announced.entries_reclaimed, ==, 0);
    check_int(announced.locks_cleaned, ==, 0);
    check_ok(t, tend_explain(t, running_id, &why));
    check(strstr(why.text, "expired") == NULL);
    check_ok(t, tend_lock_list(t, &locks));
    for (size_t i = 0; i < locks->count; i++)
        check_int(locks->items[i].expired, ==, 0);
    tend_locks_free(locks);
}

/* --- processes --- */

struct helper helper_start(void (*body)(struct helper *, void *), void *arg)
{
    int down[2];
    int up[2];
    if (pipe(down) != 0 || pipe(up) != 0)
        test_fail(__FILE__, __LINE__, "no pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        test_fail(__FILE__, __LINE__, "no fork");
    if (pid == 0) {
        struct helper parent = {.pid = getppid(), .read_fd = down[0], .write_fd = up[1]};
        close(down[1]);
        close(up[0]);
        body(&parent, arg);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    return (struct helper){.pid = pid, .read_fd = up[0], .write_fd = down[1]};
}

void helper_say(struct helper *other, int64_t number)
{
    if (write(other->write_fd, &number, sizeof number) != (ssize_t)sizeof number)
        test_fail(__FILE__, __LINE__, "nobody listens");
}

int64_t helper_hear(struct helper *other)
{
    int64_t number;
    if (read(other->read_fd, &number, sizeof number) != (ssize_t)sizeof number)
        test_fail(__FILE__, __LINE__, "the other process has ended without a word");
    return number;
}

static void close_pipes(struct helper *helper)
{
    close(helper->read_fd);
    close(helper->write_fd);
}

void helper_kill(struct helper *helper)
{
    kill(helper->pid, SIGKILL);
    waitpid(helper->pid, NULL, 0);
    close_pipes(helper);
}

void helper_join(struct helper *helper)
{
    int status = -1;
    check_int(waitpid(helper->pid, &status, 0), ==, helper->pid);
    check_int(status, ==, 0);
    close_pipes(helper);
}
