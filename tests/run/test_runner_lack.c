/*
 * BY-9: what a worker lacks is no failure of its jobs (run/lack.h).
 *
 * Symptom of them all: a worker whose disk was full, or that had too few descriptors, failed each
 * job twice within milliseconds, "alike", before its command had started. The jobs were given up
 * (stuck_no_progress), and the worker claimed the next ones, before healthy workers could.
 */
#include "base/clock.h"
#include "run/runner.h"
#include "runner_case.h"
#include "support/mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What a runner has said. */
static atomic_int said_cannot, said_again;

static void listen(void *arg, const struct tend_runner_news *news)
{
    (void)arg;
    printf("# %s\n", news->text);
    if (strstr(news->text, "this worker cannot run jobs now") != NULL)
        atomic_fetch_add(&said_cannot, 1);
    if (strcmp(news->text, "this worker can run jobs again") == 0)
        atomic_fetch_add(&said_again, 1);
}

static struct tend_runner_options listening(const char *folder)
{
    struct tend_runner_options options = runner_options();
    options.folder = folder;
    options.tell = listen;
    return options;
}

/* The folder of a runner becomes one that nobody can write to, not even root. */
static void take_folder(const char *folder)
{
    check_int(rename(folder, keep_text("%s.away", folder)), ==, 0);
    check_int(symlink("/sys", folder), ==, 0);
}

static void bring_folder(const char *folder)
{
    check_int(unlink(folder), ==, 0);
    check_int(rename(keep_text("%s.away", folder), folder), ==, 0);
}

static void check_nothing_charged(void)
{
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts > 0 OR crashes > 0"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE state NOT IN (0, 1)"), ==, 0);
}

TEST(runner_lack, BY_9_a_worker_without_its_folder_gives_jobs_back_and_goes_on_when_it_has_it)
{
    enum { JOBS = 4 };
    tend *t = store_open_real("w");
    struct tend_runner_options options = listening("run");
    struct running_runner running = runner_start(store_open_real("sick"), &options);
    take_folder("run");
    for (int i = 0; i < JOBS; i++)
        add_plan(t, "{\"run\":\"true\"}");
    wait_until(count_events("job.released") > JOBS, PATIENCE_MS); /* it has tried again */
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.released' AND why LIKE "
                      "'worker sick cannot run it: making folder %%run/job-%%'"),
              >, JOBS);
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts > 0 OR crashes > 0"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, 0);
    check_int(said_cannot, ==, 1);
    check_int(said_again, ==, 0);
    bring_folder("run");
    wait_until(count_events("job.completed") == JOBS, PATIENCE_MS);
    check_int(said_again, ==, 1);
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts <> 1"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, JOBS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

TEST(runner_lack, BY_9_a_worker_that_can_gets_the_work_of_one_that_cannot)
{
    enum { JOBS = 40 };
    tend *t = store_open_real("w");
    struct tend_runner_options sick_options = listening("sick");
    struct tend_runner_options well_options = listening("well");
    struct running_runner sick = runner_start(store_open_real("sick"), &sick_options);
    struct running_runner well = runner_start(store_open_real("well"), &well_options);
    take_folder("sick");
    for (int i = 0; i < JOBS; i++)
        add_plan(t, "{\"run\":\"sleep 0.1\"}");
    wait_until(count_events("job.completed") == JOBS, PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts <> 1"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, JOBS);
    check_int(count_events("job.released"), <, JOBS);
    tend_runner_stop(sick.runner, 0);
    tend_runner_stop(well.runner, 0);
    runner_join(&sick);
    runner_join(&well);
}

/* Runs until drained; what it says when it cannot. */
static const char *drain_in_vain(tend *t, const struct tend_runner_options *options,
                                 void (*spoil)(const char *folder))
{
    tend_runner *runner;
    check_ok(t, tend_runner_new(&runner, t, options));
    if (spoil != NULL)
        spoil(options->folder);
    check_int(tend_runner_run(runner), ==, TEND_EIO);
    const char *said = keep_text("%s", tend_errmsg(t));
    tend_runner_free(runner);
    return said;
}

/* It neither waits for ever nor says that nothing is left. */
TEST(runner_lack, BY_9_a_worker_that_drains_gives_up_and_says_why)
{
    tend *t = store_open_real("w");
    add_plan(t, "{\"run\":\"true\"}");
    add_plan(t, "{\"run\":\"true\"}");
    struct tend_runner_options options = listening("run");
    const char *said = drain_in_vain(t, &options, take_folder);
    check_contains(said, "this worker cannot run jobs: making folder");
    check_contains(said, "--folder");
    check_nothing_charged();
    bring_folder("run");
    struct running_runner running = runner_start(t, &options);
    wait_until(count_events("job.completed") == 2, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* A full file system where this process may mount one, else a file where a folder should be. */
static const char *folder_without_room(void)
{
    const char *small = keep_text("%s/small", test_folder());
    char zeroes[4096] = {0};
    check_int(mkdir("small", 0777), ==, 0);
    if (!mounts_own() || !mounts_disk(small, "64k")) {
        check_int(system("touch small/job-1"), ==, 0);
        return small;
    }
    int fd = open("small/ballast", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    while (write(fd, zeroes, sizeof zeroes) > 0)
        ;
    close(fd);
    return small;
}

TEST(runner_lack, BY_9_no_disk_left_charges_nothing)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    options.folder = folder_without_room();
    int64_t id = add_plan(t, "{\"run\":\"true\"}");
    check_contains(drain_in_vain(t, &options, NULL), "small/job-1");
    check_nothing_charged();
    check(job_of(t, id)->error_text == NULL);
}

TEST(runner_lack, BY_9_a_workspace_without_a_folder_is_no_failure_of_the_job)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = listening("run");
    check_int(system("exec >/dev/null 2>&1; git init -q -b main repo && cd repo && "
                     "git config user.email a@b && git config user.name n && "
                     "git commit -q --allow-empty -m one"),
              ==, 0);
    int64_t id = add_plan(
        t, keep_text("{\"workspace\":{\"repo\":\"%s/repo\"},\"run\":\"true\"}", test_folder()));
    struct running_runner running = runner_start(store_open_real("sick"), &options);
    take_folder("run");
    wait_until(count_events("job.released") == 1, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_nothing_charged();
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
}

/* How often a handle has asked for the time, which each of its reads and writes does. */
static atomic_int asked;

static int64_t count_and_tell(void *arg)
{
    (void)arg;
    atomic_fetch_add(&asked, 1);
    return clock_wall_ms();
}

static int64_t tries_of(tend_runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    int64_t tries = runner->lack.tries;
    pthread_mutex_unlock(&runner->mutex);
    return tries;
}

/* Symptom: without descriptors a worker could not wait either. It said that it tries again in 1s,
 * and asked the store for news thousands of times a second meanwhile. */
TEST(runner_lack, BY_9_a_worker_that_cannot_even_wait_pauses_all_the_same)
{
    enum { SOME = 300 }; /* two pauses of 1 s and 2 s, and a few reads for each look at the news */
    tend *t = store_open_real("w");
    struct tend_options sick_options = store_options("sick");
    struct tend_runner_options options = listening("run");
    struct rlimit before;
    sick_options.clock_ms = count_and_tell;
    struct running_runner running = runner_start(store_open_with(&sick_options), &options);
    int64_t warm = add_plan(t, "{\"sleep\":\"0s\"}"); /* whatever the store opens is open */
    wait_until(state_of(t, warm) == TEND_DONE, PATIENCE_MS);
    check_int(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    struct rlimit limit = {.rlim_cur = 1, .rlim_max = before.rlim_max}; /* a poll has more */
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    int64_t id = add_plan(t, "{\"sleep\":\"0s\"}");
    wait_until(tries_of(running.runner) >= 1, PATIENCE_MS);
    int asked_before = asked;
    wait_until(tries_of(running.runner) >= 3, PATIENCE_MS);
    check_int(asked - asked_before, <, SOME);
    check_int(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

enum { FEW = 8 }; /* more than anybody polls */

/* No descriptor is left from now on. */
static void take_descriptors(struct rlimit *before, int taken[FEW])
{
    check_int(getrlimit(RLIMIT_NOFILE, before), ==, 0);
    const struct rlimit limit = {.rlim_cur = FEW, .rlim_max = before->rlim_max};
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    for (int i = 0; i < FEW; i++)
        taken[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void give_descriptors(const struct rlimit *before, const int taken[FEW])
{
    for (int i = 0; i < FEW; i++)
        if (taken[i] >= 0)
            close(taken[i]);
    check_int(setrlimit(RLIMIT_NOFILE, before), ==, 0);
}

/* The worker has no descriptors from the beginning of the step until after its end. */
static void check_not_run_again(tend *t, const char *file, const char *report)
{
    const struct timespec until_ended = {.tv_sec = 2, .tv_nsec = 500000000};
    int taken[FEW];
    struct rlimit before;
    int64_t id = add_plan(t, keep_text("{\"run\":\"echo paid >> %s; sleep 1; %s\"}", file, report));
    wait_until(file_text(file) != NULL, PATIENCE_MS);
    take_descriptors(&before, taken);
    nanosleep(&until_ended, NULL);
    give_descriptors(&before, taken);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    check_str(file_text(file), "paid\n");
    check_contains(job_of(t, id)->result, "\"x\":\"1\"");
}

/* Symptom: a step that had succeeded was run again, because its worker had no descriptor just when
 * the report was to be opened. */
TEST(runner_lack, BY_9_a_step_that_has_ended_is_not_run_again_for_want_of_a_descriptor)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = listening("run");
    struct running_runner running = runner_start(t, &options);
    check_not_run_again(t, "open", "echo x=1 >> $TEND_OUTPUT");
    /* This file is not open yet: a descriptor is waited for. */
    check_not_run_again(t, "replaced", "echo x=1 > new; mv new $TEND_OUTPUT");
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* Nobody listens at that port: with descriptors the call fails, and that is the job's. */
TEST(runner_lack, BY_9_an_http_call_without_descriptors_is_no_failure_of_the_job)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = listening("run");
    struct running_runner running = runner_start(store_open_real("sick"), &options);
    int64_t warm = add_plan(t, "{\"sleep\":\"0s\"}"); /* whatever the store opens is open */
    wait_until(state_of(t, warm) == TEND_DONE, PATIENCE_MS);
    struct rlimit before = leave_descriptors(4);
    int64_t id = add_plan(t, "{\"http\":{\"url\":\"http://127.0.0.1:1/\"}}");
    wait_until(sql_int("SELECT count(*) FROM event WHERE what = 'job.released' AND why LIKE "
                       "'%%no descriptors for an HTTP call'") > 0,
               PATIENCE_MS);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_int(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    wait_until(count_events("job.retry_scheduled") == 1, PATIENCE_MS);
    check_int(job_of(t, id)->attempts, ==, 1);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* What the job names itself is missing everywhere: it must not be given back for ever. */
TEST(runner_lack, what_a_job_names_itself_is_its_own_failure)
{
    tend *t = store_open_real("w");
    const char *plans[] = {
        "{\"exec\":[\"no-such-command\"]}",
        "{\"run\":\"./no-such-command\"}",
        "{\"run\":\"true\",\"cwd\":\"no-such-folder\"}",
        "{\"workspace\":{\"repo\":\"/no-such-repository\"},\"run\":\"true\"}",
        keep_text("{\"exec\":[\"true\",\"%0200000d\"]}", 1),
    };
    struct tend_runner_options options = listening("run");
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        add_plan(t, plans[i]);
    run_with(t, &options);
    check_int(count_events("job.failed"), ==, sizeof plans / sizeof *plans);
    check_int(count_events("job.released"), ==, 0);
    check_int(said_cannot, ==, 0);
}

/* Nothing can be released while the store has this trigger. */
static void refuse_releases(void)
{
    sql_exec("%s", store_is_postgres()
                       ? "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                         "'BEGIN RAISE EXCEPTION ''not now''; END';"
                         "CREATE TRIGGER refuse BEFORE UPDATE ON job FOR EACH ROW "
                         "WHEN (NEW.changed_what = 'job.released') EXECUTE FUNCTION refuse()"
                       : "CREATE TRIGGER refuse BEFORE UPDATE ON job "
                         "WHEN NEW.changed_what = 'job.released' "
                         "BEGIN SELECT RAISE(ABORT, 'not now'); END");
}

static void allow_releases(void)
{
    sql_exec("DROP TRIGGER refuse%s", store_is_postgres() ? " ON job" : "");
}

/* It stayed leased by the living worker for as long as its lease, and a worker that was to drain
 * left it. */
TEST(runner_lack, a_job_that_got_no_thread_and_could_not_be_released_is_given_back_later)
{
    const struct timespec moment = {.tv_nsec = 300000000};
    tend *t = store_open_real("w");
    struct tend_runner_options options = listening("run");
    set_queue(t, "q", "lease", "1h");
    struct running_runner running = runner_start(store_open_real("sick"), &options);
    int64_t warm = add_plan(t, "{\"sleep\":\"0s\"}"); /* whatever the store opens is open */
    wait_until(state_of(t, warm) == TEND_DONE, PATIENCE_MS);
    refuse_releases();
    struct rlimit before;
    int64_t id;
    do { /* descriptors of the job before may be free only now */
        before = leave_descriptors(0);
        id = add_plan(t, "{\"sleep\":\"0s\"}");
        wait_until(said_cannot == 1 || state_of(t, id) == TEND_DONE, PATIENCE_MS);
        if (said_cannot == 0)
            check_int(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    } while (said_cannot == 0);
    nanosleep(&moment, NULL); /* until it has tried to release the job; nothing tells that */
    check_int(state_of(t, id), ==, TEND_RUNNING);
    check_int(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
    allow_releases();
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    check_int(job_of(t, id)->crashes, ==, 0);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* --- the command of a handler --- */

/* What a worker with one handler says of it. */
static atomic_int said_handler;

static void listen_for_handler(void *arg, const struct tend_runner_news *news)
{
    (void)arg;
    printf("# %s\n", news->text);
    if (strstr(news->text, "has no handler for kind 'mail' that can be started") != NULL)
        atomic_fetch_add(&said_handler, 1);
}

static int64_t add_mail(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    spec.kind = "mail";
    return add_spec(t, &spec);
}

static struct tend_runner_totals drain_with_handler(tend *t, const char *command)
{
    struct tend_handler handler = {.kind = "mail", .command = command};
    struct tend_runner_options options = listening("run");
    struct tend_runner_totals totals;
    tend_runner *runner;
    options.handlers = &handler;
    options.handler_count = 1;
    options.tell = listen_for_handler;
    check_ok(t, tend_runner_new(&runner, t, &options));
    check_ok(t, tend_runner_run(runner));
    tend_runner_count(runner, &totals);
    tend_runner_free(runner);
    return totals;
}

/* Symptom: 'tend work --handler mail=./send-mial' ended each job of the kind for good, as if the
 * job had named the command. */
TEST(runner_lack, BY_9_a_handler_whose_command_is_missing_is_no_failure_of_the_job)
{
    enum { JOBS = 3 };
    tend *t = store_open_real("w");
    int64_t id = add_mail(t);
    for (int i = 1; i < JOBS; i++)
        add_mail(t);
    struct tend_runner_totals totals = drain_with_handler(t, "./send-mial");
    check_int(totals.unfit, ==, JOBS);
    check_int(totals.given_back, ==, JOBS);
    check_int(totals.failed, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE attempts > 0 OR crashes > 0"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE state <> 0"), ==, 0);
    check_contains(job_of(t, id)->changed_why, "it has no handler for kind 'mail' that can be "
                                               "started: \"./send-mial\" ended with 127");
    check_int(said_handler, ==, 1);
    sql_exec("UPDATE job SET due_at = 1, alarm_at = 1");
    wait_until(drain_with_handler(t, "true").done > 0 && state_of(t, id) == TEND_DONE, PATIENCE_MS);
    check_int(job_of(t, id)->attempts, ==, 1);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE attempt <> 1"), ==, 0);
}

TEST(runner_lack, BY_9_a_handler_that_cannot_be_executed_is_no_failure_of_the_job)
{
    tend *t = store_open_real("w");
    int64_t id = add_mail(t);
    check_int(drain_with_handler(t, "/dev/null").unfit, ==, 1);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_contains(job_of(t, id)->changed_why, "ended with 126");
}

/* Symptom: a script that did its work and then missed a tool did that work again and again. */
TEST(runner_lack, a_handler_that_misses_a_tool_of_its_own_has_failed)
{
    tend *t = store_open_real("w");
    int64_t id = add_mail(t);
    check_int(drain_with_handler(t, "true; no-such-tool").failed, ==, 1);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_int(job_of(t, id)->attempts, ==, 1);
    check_str(job_of(t, id)->error_class, "deterministic_contract");
}

/* One that runs says what its failure is. */
TEST(runner_lack, a_handler_that_declares_a_class_has_failed_whatever_its_exit_status)
{
    tend *t = store_open_real("w");
    int64_t id = add_mail(t);
    int64_t failed =
        drain_with_handler(t, "echo class=deterministic_policy >> $TEND_OUTPUT; exit 127").failed;
    check_int(failed, ==, 1);
    check_str(job_of(t, id)->error_class, "deterministic_policy");
}
