/*
 * What running steps costs: a step that does nothing against starting the same command and one
 * durable commit; a thousand steps at once; a gigabyte of output; how soon a control takes hold.
 */
#include "bench/child.h"
#include "bench/side.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 9, STEPS_A_ROUND = 150, CROWD = 1000, CONTROLS = 40, PATIENCE_S = 60 };

static const char command[] = "/bin/true";

/* --- a runner in a thread of this process --- */

struct workshop {
    struct place place;
    tend *t, *looker; /* the runner's handle, and one to look on */
    tend_runner *runner;
    pthread_t thread;
    bool runs;
    char folder[PLACE_URL_BYTES + 8];
};

static void *work(void *arg)
{
    tend_runner_run(arg);
    return NULL;
}

static int fail_with(tend *t)
{
    return bench_fail("%s", t != NULL ? tend_errmsg(t) : "out of memory");
}

static void workshop_close(struct workshop *shop)
{
    char remove[PLACE_URL_BYTES + 32];
    if (shop->runs) {
        tend_runner_stop(shop->runner, 1);
        pthread_join(shop->thread, NULL);
    }
    tend_runner_free(shop->runner);
    tend_close(shop->t);
    tend_close(shop->looker);
    snprintf(remove, sizeof remove, "rm -rf '%s'", shop->folder);
    if (shop->folder[0] != '\0' && system(remove) != 0)
        bench_fail("folder %s cannot be removed", shop->folder);
    place_clear(&shop->place);
}

static int workshop_open(struct workshop *shop, const struct bench *bench,
                         const struct bench_case *self)
{
    static const char *const queues[] = {SIDE_QUEUE};
    struct tend_runner_options options;
    char url[PLACE_URL_BYTES];
    *shop = (struct workshop){.place = place_of(bench, self, "tend")};
    if (place_clear(&shop->place) < 0 || place_url(&shop->place, url) < 0)
        return -1;
    snprintf(shop->folder, sizeof shop->folder, "%s/steps", bench->folder);
    if (tend_open(&shop->t, url, NULL) < 0)
        return fail_with(shop->t);
    if (tend_open(&shop->looker, url, NULL) < 0)
        return fail_with(shop->looker);
    tend_runner_options_init(&options);
    options.queues = queues;
    options.queue_count = 1;
    options.folder = shop->folder;
    if (tend_runner_new(&shop->runner, shop->t, &options) < 0)
        return fail_with(shop->t);
    if (pthread_create(&shop->thread, NULL, work, shop->runner) != 0)
        return bench_fail("no thread could be started");
    shop->runs = true;
    return 0;
}

static int add(tend *t, const char *payload, int64_t *ret_id)
{
    struct tend_job_spec spec;
    struct tend_added added;
    tend_job_spec_init(&spec);
    spec.queue = SIDE_QUEUE;
    spec.payload = payload;
    if (tend_add(t, &spec, &added) < 0)
        return fail_with(t);
    *ret_id = added.id;
    return 0;
}

/* Seconds since began when the job is in that state. */
static int wait_for_state(struct workshop *shop, int64_t id, int wanted, double began,
                          double *ret_seconds)
{
    for (;;) {
        struct tend_jobs *jobs;
        if (tend_get(shop->looker, id, &jobs) < 0)
            return fail_with(shop->looker);
        int state = jobs->items[0].state;
        tend_jobs_free(jobs);
        *ret_seconds = bench_seconds() - began;
        if (state == wanted)
            return 0;
        if (state == TEND_FAILED || *ret_seconds > PATIENCE_S)
            return bench_fail("a job of steps is %s, not %s", tend_state_name(state),
                              tend_state_name(wanted));
        bench_sleep_ms(1);
    }
}

/* Seconds until the job is done. */
static int do_job(struct workshop *shop, const char *payload, double *ret_seconds)
{
    int64_t id = 0;
    double began = bench_seconds();
    if (add(shop->looker, payload, &id) < 0)
        return -1;
    return wait_for_state(shop, id, TEND_DONE, began, ret_seconds);
}

/* --- a step that does nothing --- */

static char *noop_plan(size_t steps)
{
    size_t room = steps * (sizeof command + 32) + 32;
    char *plan = malloc(room);
    size_t len = plan == NULL ? 0 : (size_t)snprintf(plan, room, "{\"steps\":[");
    for (size_t i = 0; plan != NULL && i < steps; i++)
        len += (size_t)snprintf(plan + len, room - len, "%s{\"exec\":[\"%s\"]}", i == 0 ? "" : ",",
                                command);
    if (plan != NULL)
        snprintf(plan + len, room - len, "]}");
    return plan;
}

static int spawn_and_commit(void *session)
{
    char *argv[] = {(char *)command, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, command, NULL, NULL, argv, environ) != 0)
        return bench_fail("%s cannot be started", command);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return side_raw_sqlite.add(session, 1);
}

static int bare_rate(void *session, double *ret_rate)
{
    double began = bench_seconds();
    for (int i = 0; i < STEPS_A_ROUND; i++)
        if (spawn_and_commit(session) < 0)
            return -1;
    *ret_rate = STEPS_A_ROUND / (bench_seconds() - began);
    return 0;
}

/* The first pair warms up and does not count. */
static int race_noop(struct bench *bench, struct workshop *shop, void *session, double rates[2],
                     double *ret_ratio)
{
    double bare[ROUNDS];
    double ours[ROUNDS];
    double ratios[ROUNDS];
    int rounds = bench->quick ? 2 : ROUNDS;
    char *plan = noop_plan(STEPS_A_ROUND);
    int rc = plan == NULL ? bench_fail("out of memory") : 0;
    for (int i = -1; rc == 0 && i < rounds; i++) {
        int at = i < 0 ? 0 : i;
        double seconds = 1;
        rc = bare_rate(session, &bare[at]);
        if (rc == 0)
            rc = do_job(shop, plan, &seconds);
        ours[at] = STEPS_A_ROUND / seconds;
        ratios[at] = ours[at] / bare[at];
        if (rc == 0)
            rc = bench_progress(bench, i + 2, rounds + 1);
    }
    free(plan);
    if (rc == 0) {
        rates[0] = bench_median(bare, (size_t)rounds);
        rates[1] = bench_median(ours, (size_t)rounds);
        *ret_ratio = bench_median(ratios, (size_t)rounds);
    }
    return rc;
}

int bench_noop(struct bench *bench, const struct bench_case *self)
{
    struct workshop shop = {.runs = false};
    struct place place = place_of(bench, self, "raw");
    void *store = NULL;
    void *session = NULL;
    double rates[2] = {0};
    double ratio = 0;
    int rc = place_clear(&place);
    if (rc == 0)
        rc = side_raw_sqlite.open(&store, &place, 1);
    if (rc == 0)
        rc = side_raw_sqlite.session_open(store, &session);
    if (rc == 0 && (rc = workshop_open(&shop, bench, self)) == 0)
        rc = race_noop(bench, &shop, session, rates, &ratio);
    workshop_close(&shop);
    if (session != NULL)
        side_raw_sqlite.session_close(session);
    if (store != NULL)
        side_raw_sqlite.close(store);
    place_clear(&place);
    struct bench_result result = {.name = self->name,
                                  .unit = "/s",
                                  .raw = rates[0],
                                  .ours = rates[1],
                                  .ratio = ratio,
                                  .goal = GOAL_RATIO,
                                  .target = self->target};
    snprintf(result.what, sizeof result.what, "%s", self->text);
    if (rc == 0)
        bench_add(bench, result);
    return rc;
}

/* --- controls --- */

static int wait_for_process(struct workshop *shop, int64_t id)
{
    double until = bench_seconds() + PATIENCE_S;
    for (bool runs = false; !runs; bench_sleep_ms(1)) {
        struct tend_attempts *attempts;
        if (tend_attempts(shop->looker, id, &attempts) < 0)
            return fail_with(shop->looker);
        runs = attempts->count > 0 && attempts->items[0].pid != TEND_UNSET;
        tend_attempts_free(attempts);
        if (bench_seconds() > until)
            return bench_fail("a step does not begin");
    }
    return 0;
}

/* A step that would run for long is taken over: its process has ended and the job is held. */
static int control_once(struct workshop *shop, int round, double *ret_ms)
{
    struct tend_control_result result;
    int64_t id = 0;
    double seconds = 0;
    if (add(shop->looker, "{\"exec\":[\"sleep\",\"600\"]}", &id) < 0 ||
        wait_for_process(shop, id) < 0)
        return -1;
    bench_sleep_ms(round * 37 % 400); /* at any time between two looks of the worker */
    double began = bench_seconds();
    if (tend_control(shop->looker, id, "takeover", NULL, NULL, "bench", &result) < 0)
        return fail_with(shop->looker);
    if (wait_for_state(shop, id, TEND_HELD, began, &seconds) < 0)
        return -1;
    *ret_ms = seconds * 1e3;
    return tend_act(shop->looker, TEND_CANCEL, id, "bench", NULL) < 0 ? fail_with(shop->looker) : 0;
}

int bench_control(struct bench *bench, const struct bench_case *self)
{
    struct workshop shop;
    double values_ms[CONTROLS];
    int rounds = bench->quick ? 3 : CONTROLS;
    int rc = workshop_open(&shop, bench, self);
    for (int i = 0; rc == 0 && i < rounds; i++) {
        rc = control_once(&shop, i, &values_ms[i]);
        if (rc == 0)
            rc = bench_progress(bench, i + 1, rounds);
    }
    workshop_close(&shop);
    if (rc == 0)
        bench_add_latency(bench, self, values_ms, (size_t)rounds);
    return rc;
}

/* --- much output --- */

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

int bench_output(struct bench *bench, const struct bench_case *self)
{
    struct workshop shop;
    double seconds = 0;
    double used = 0;
    char plan[256];
    long long bytes = bench->quick ? 64 << 20 : 1 << 30;
    int rc = workshop_open(&shop, bench, self);
    snprintf(
        plan, sizeof plan,
        "{\"run\":\"yes '2026-11-15 10:00:00 INFO compiled module 17 of 200 in 0.3 s' | head -c "
        "%lld\"}",
        bytes);
    if (rc == 0) {
        used = cpu_seconds();
        rc = do_job(&shop, plan, &seconds);
        used = cpu_seconds() - used;
    }
    workshop_close(&shop);
    struct bench_result result = {.name = self->name,
                                  .unit = "MB/s",
                                  .raw = -1,
                                  .ours = (double)bytes / 1e6 / used,
                                  .ratio = -1,
                                  .goal = GOAL_AT_LEAST,
                                  .target = self->target};
    snprintf(result.what, sizeof result.what, "%s", self->text);
    if (rc == 0)
        bench_add(bench, result);
    return rc;
}

/* --- many at once --- */

static int64_t parent_of(pid_t pid)
{
    char path[64];
    char line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    long long parent = 0;
    if (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *end = strrchr(line, ')');
        if (end != NULL)
            sscanf(end, ") %*c %lld", &parent);
    }
    if (file != NULL)
        fclose(file);
    return parent;
}

/* What a process adds to the memory in use: what it shares counts by its share. */
static int64_t share_kib(pid_t pid)
{
    char path[64];
    char line[256];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Pss:", 4) == 0)
            kib = strtoll(line + 4, NULL, 10);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* The worker, its nursery and the minders; not the commands themselves. */
static double crowd_mib(pid_t worker)
{
    double kib = (double)child_peak_kib(worker);
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        int64_t parent = pid <= 0 ? 0 : parent_of(pid);
        if (parent > 1 && (parent == worker || parent_of((pid_t)parent) == worker))
            kib += (double)share_kib(pid);
    }
    if (proc != NULL)
        closedir(proc);
    return kib / 1024;
}

static int wait_for_crowd(struct bench *bench, tend *t, size_t count)
{
    double until = bench_seconds() + PATIENCE_S;
    for (size_t running = 0; running < count;) {
        struct tend_attempts *attempts;
        bench_sleep_ms(100);
        if (tend_attempts_running(t, count + 1, &attempts) < 0)
            return fail_with(t);
        running = attempts->count;
        tend_attempts_free(attempts);
        if (bench_progress(bench, (double)running, (double)count) < 0)
            return -1;
        if (bench_seconds() > until)
            return bench_fail("only %zu of %zu steps run after %d s", running, count, PATIENCE_S);
    }
    bench_sleep_ms(1000); /* the last ones have been started */
    return 0;
}

int bench_crowd(struct bench *bench, const struct bench_case *self)
{
    struct place place = place_of(bench, self, "tend");
    struct child worker = {.pid = 0};
    char url[PLACE_URL_BYTES];
    char limit[32];
    char folder[PLACE_URL_BYTES];
    tend *t = NULL;
    size_t count = bench->quick ? CROWD / 20 : CROWD;
    int rc = place_clear(&place);
    if (rc == 0)
        rc = place_url(&place, url);
    if (rc == 0 && tend_open(&t, url, NULL) < 0)
        rc = fail_with(t);
    int64_t id = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add(t, "{\"exec\":[\"sleep\",\"600\"]}", &id);
    snprintf(limit, sizeof limit, "shell=%zu", count);
    snprintf(folder, sizeof folder, "%.900s/crowd", bench->folder);
    char *argv[] = {"tend",    "work", "--store",  url,    "-q", SIDE_QUEUE,
                    "--limit", limit,  "--folder", folder, NULL};
    if (rc == 0)
        rc = child_spawn(&worker, argv);
    if (rc == 0)
        rc = wait_for_crowd(bench, t, count);
    double mib = rc == 0 ? crowd_mib(worker.pid) : 0;
    child_done(&worker);
    tend_close(t);
    place_clear(&place);
    struct bench_result result = {.name = self->name,
                                  .unit = "MiB",
                                  .raw = -1,
                                  .ours = mib,
                                  .ratio = -1,
                                  .goal = GOAL_AT_MOST,
                                  .target = self->target};
    snprintf(result.what, sizeof result.what, "%s", self->text);
    if (rc == 0)
        bench_add(bench, result);
    return rc;
}
