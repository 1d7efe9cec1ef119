/*
 * The runner itself: made, claims and hands out jobs, stops. See runner.h.
 *
 * Stopping: claims end at once. A task that is between two attempts of a step gives its job back.
 * The others are waited for, with the steps they have left, up to stop_ms, or not at all; then
 * every task ends its attempt and gives its job back. tend_runner_run returns when the last thread
 * has ended, so nothing stays leased or running (LS-6).
 *
 * Unless the server is silent, or another process keeps an SQLite store from being written: a
 * runner that stops waits for neither longer than stop_ms, from the signal on, and then only a few
 * seconds in all (db_hurry). An interrupt does not reach a write that waits, as it must not:
 * whatever else the handle writes is in the same line. What it could not give back it says, and
 * the lease ends by itself. Housekeeping is not begun any more.
 */
#include "run/runner.h"

#include "base/clock.h"
#include "queue/handle.h"
#include "queue/recover.h"
#include "queue/wait.h"
#include "queue/worker.h"
#include "run/collector.h"
#include "run/statsd.h"
#include "run/sweep.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STOP_DEFAULT_MS = 30000,
    CLAIM_MOST = 100,
    STORE_AGAIN_MS = 500,
    WAIT_MS = 5000,
    WAIT_LEAST_MS = 5,    /* however soon a claim says that it may be asked again */
    CLAIM_LATE_MS = 2000, /* a claim whose answer was lost may be saved so much later */
    STOP_CALL_MS = 1000,  /* how long a call waits for a silent server once what runs must end */
};

void tend_runner_options_init(struct tend_runner_options *options)
{
    *options = (struct tend_runner_options){.limit_others = TEND_UNSET, .stop_ms = STOP_DEFAULT_MS};
}

static void tell(tend_runner *runner, struct tend_runner_news news, const char *format,
                 va_list args)
{
    char text[1024];
    if (runner->options.tell == NULL)
        return;
    vsnprintf(text, sizeof text, format, args);
    news.text = text;
    pthread_mutex_lock(&runner->tell_mutex);
    runner->options.tell(runner->options.tell_arg, &news);
    pthread_mutex_unlock(&runner->tell_mutex);
}

void runner_tell(tend_runner *runner, enum tend_news_kind kind, int64_t job_id, int state,
                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(runner,
         (struct tend_runner_news){
             .kind = kind, .job_id = job_id, .number = TEND_UNSET, .state = state},
         format, args);
    va_end(args);
}

void runner_tell_step(tend_runner *runner, int64_t job_id, int64_t number, int state,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(runner,
         (struct tend_runner_news){
             .kind = TEND_NEWS_STEP, .job_id = job_id, .number = number, .state = state},
         format, args);
    va_end(args);
}

/* --- claiming --- */

/* Jobs that can start now: how many, and which kinds not. */
struct wish {
    size_t count;
    const char *not_kinds[BULKHEADS_MAX + 1]; /* one more for jobs that say no kind */
    size_t not_kind_count;
    bool tries; /* whether this worker can run jobs again */
    char names[BULKHEADS_MAX][KIND_BYTES];
};

static void make_wish(tend_runner *runner, struct wish *wish)
{
    const char *full[BULKHEADS_MAX];
    size_t full_count;
    wish->not_kind_count = 0;
    pthread_mutex_lock(&runner->mutex);
    wish->tries = runner->lack.pause_ms > 0;
    wish->count = lack_room(&runner->lack, bulkhead_room(&runner->bulkheads, full, &full_count));
    for (size_t i = 0; i < full_count; i++) {
        memcpy(wish->names[i], full[i], strlen(full[i]) + 1);
        wish->not_kinds[wish->not_kind_count++] = wish->names[i];
        if (strcmp(full[i], bulkhead_kind("")) == 0)
            wish->not_kinds[wish->not_kind_count++] = "";
    }
    pthread_mutex_unlock(&runner->mutex);
    if (wish->count > CLAIM_MOST)
        wish->count = CLAIM_MOST;
}

/* Every job of the haul gets a thread; one that cannot is given back. If that fails too, it is
 * leased to this worker and nobody here knows of it, as after a claim whose answer was lost. */
static void hand_out(tend_runner *runner, struct tend_jobs *jobs, int64_t claimed_mono_ms)
{
    static const char no_place[] = "no thread, memory or descriptors for another job";
    struct haul *haul = calloc(1, sizeof *haul);
    if (haul != NULL)
        *haul = (struct haul){.jobs = jobs, .users = 1};
    for (size_t i = 0; i < jobs->count; i++) {
        const struct tend_job *job = &jobs->items[i];
        struct tend_lease lease = {.id = job->id, .token = job->token};
        int rc = haul == NULL ? TEND_ENOMEM : task_start(runner, haul, job, claimed_mono_ms);
        if (rc == 0)
            continue;
        int64_t delay_ms = lack_found(runner, lease, rc, no_place, 0);
        if (tend_release(runner->t, &lease, 1, delay_ms, no_place, NULL) < 0)
            runner->claim_lost_ms = clock_mono_ms();
    }
    pthread_mutex_lock(&runner->mutex);
    bool unused = haul == NULL || --haul->users == 0;
    pthread_mutex_unlock(&runner->mutex);
    if (unused) {
        tend_jobs_free(jobs);
        free(haul);
    }
}

/*
 * One look at one queue. Returns as tend_claim_jobs. *ret_answered: the queue has told why there is
 * nothing, so it is not the store that failed. *ret_until_ms: when to ask again, in store time.
 */
static int claim_from(tend_runner *runner, const char *queue, bool *ret_answered,
                      int64_t *ret_until_ms)
{
    struct tend_none none = {.until_ms = TEND_UNSET};
    struct wish wish;
    struct tend_claim claim;
    struct tend_jobs *jobs;
    make_wish(runner, &wish);
    tend_claim_init(&claim);
    claim.queue = queue;
    claim.count = wish.count;
    claim.flags =
        TEND_CLAIM_UNSTARTED; /* the first attempt starts it, or git, whichever is first */
    claim.not_kinds = wish.not_kinds;
    claim.not_kind_count = wish.not_kind_count;
    claim.job_id = runner->options.job_id;
    int64_t claimed_mono_ms = clock_mono_ms();
    int rc = tend_claim_jobs(runner->t, &claim, &jobs, &none);
    *ret_answered = rc == none.code;
    *ret_until_ms = rc < 0 ? none.until_ms : TEND_UNSET;
    if (rc > 0 && wish.tries)
        lack_try(runner,
                 (struct tend_lease){.id = jobs->items[0].id, .token = jobs->items[0].token});
    if (rc > 0)
        hand_out(runner, jobs, claimed_mono_ms);
    if (rc == TEND_ENOMEM)
        lack_claim_failed(runner, tend_errmsg(runner->t));
    if (rc == TEND_EUNREACHABLE)
        runner->claim_lost_ms = clock_mono_ms();
    return rc;
}

/*
 * A claim that did not reach the store, or whose answer did not come back, may have leased jobs to
 * this worker that nobody here knows of: they are given back. Once at once, and once more when the
 * claim can no longer be under way. Only this thread claims, so the tasks are all that is known.
 */
static void settle_lost_claim(tend_runner *runner)
{
    if (runner->claim_lost_ms == 0)
        return;
    bool late = clock_mono_ms() >= runner->claim_lost_ms + CLAIM_LATE_MS;
    size_t count = 0;
    pthread_mutex_lock(&runner->mutex);
    struct tend_lease *known = calloc(runner->task_count + 1, sizeof *known);
    for (const struct task *task = runner->tasks; known != NULL && task != NULL; task = task->next)
        known[count++] = task->lease;
    pthread_mutex_unlock(&runner->mutex);
    int rc = known == NULL ? TEND_ENOMEM : worker_release_unknown(runner->t, known, count);
    free(known);
    if (rc > 0)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
                    "the answer to a claim was lost; what it had claimed is given back (%d)", rc);
    if (rc >= 0 && late)
        runner->claim_lost_ms = 0;
}

/* A round over all queues, each first in its turn. */
struct round {
    int claimed;      /* how many jobs in all */
    bool answered;    /* by any queue: the store could be written */
    size_t nothing;   /* how many queues have answered that they are empty or paused */
    int64_t until_ms; /* store time: the first at which a claim said to ask again; TEND_UNSET */
    int failed;       /* the last code that is no answer, nor a lack (lack.h), or 0 */
};

static struct round go_round(tend_runner *runner, size_t first)
{
    struct round round = {.until_ms = TEND_UNSET};
    size_t count = runner->options.queue_count;
    for (size_t i = 0; i < count && runner->stop == STOP_NOT && lack_pause(runner) == 0; i++) {
        bool answered;
        int64_t until_ms;
        int rc =
            claim_from(runner, runner->options.queues[(first + i) % count], &answered, &until_ms);
        if (until_ms != TEND_UNSET && (round.until_ms == TEND_UNSET || until_ms < round.until_ms))
            round.until_ms = until_ms;
        round.answered |= rc > 0 || answered;
        if (rc > 0)
            round.claimed += rc;
        else if (answered)
            round.nothing += rc == TEND_EEMPTY || rc == TEND_EPAUSED;
        else if (rc != TEND_EINTERRUPTED && rc != TEND_ENOMEM)
            round.failed = rc;
    }
    return round;
}

/*
 * Whether the runner stays and tries again. A store that is read-only from the first is told at
 * once: nothing is under way that waiting would save, and the URL may name a standby.
 */
static bool passes(int rc, bool has_worked)
{
    return lease_trouble_passes(rc) && (rc != TEND_EREADONLY || has_worked);
}

/* Only what every queue has said in this round counts: a claim that failed or was interrupted says
 * nothing about its queue. */
static bool is_drained(tend_runner *runner, const struct round *round)
{
    pthread_mutex_lock(&runner->mutex);
    bool idle = runner->task_count == 0 && clock_mono_ms() >= runner->back_ms;
    pthread_mutex_unlock(&runner->mutex);
    return runner->options.drain != 0 && idle && runner->claim_lost_ms == 0 &&
           round->nothing == runner->options.queue_count;
}

/* After something that cannot be done now, and would fail again at once. */
static void wait_for_stop(tend_runner *runner, int64_t most_ms)
{
    struct pollfd stop = {.fd = runner->stop_fd, .events = POLLIN};
    poll(&stop, 1, (int)(most_ms < STORE_AGAIN_MS ? most_ms : STORE_AGAIN_MS));
}

/* Sleeps until the bell of a queue rings, a task ends or changes its kind (which interrupts the
 * sleep), or the time is over; for a while also where the store cannot be listened to, because it
 * cannot be reached or there are no descriptors or memory for it. */
static void wait_for_news(tend_runner *runner, int64_t wait_ms)
{
    uint64_t bells = 0;
    if (runner->claim_lost_ms != 0 && wait_ms > STORE_AGAIN_MS)
        wait_ms = STORE_AGAIN_MS;
    for (size_t i = 0; i < runner->options.queue_count; i++)
        bells |= db_bell_of(runner->options.queues[i]);
    if (wait_ms < WAIT_LEAST_MS)
        wait_ms = WAIT_LEAST_MS;
    int rc = wait_for_bells(runner->t, bells, &runner->seen, wait_ms);
    if (rc < 0 && rc != TEND_EINTERRUPTED)
        wait_for_stop(runner, wait_ms);
}

/* Sleeps until there may be something to claim: there are news, or the time has come that a claim
 * named. */
static void wait_for_work(tend_runner *runner, const struct round *round)
{
    int64_t wait_ms = WAIT_MS;
    int64_t now_ms;
    if (round->until_ms != TEND_UNSET && tend_now(runner->t, &now_ms) == 0 &&
        round->until_ms - now_ms < wait_ms)
        wait_ms = round->until_ms - now_ms;
    wait_for_news(runner, wait_ms);
}

static int claim_until_stopped(tend_runner *runner)
{
    int told = 0;
    bool has_worked = false;
    for (size_t turn = 0; runner->stop == STOP_NOT; turn++) {
        task_reap(runner);
        settle_lost_claim(runner);
        int rc = lack_give_up(runner);
        if (rc < 0)
            return rc;
        int64_t pause_ms = lack_pause(runner);
        if (pause_ms > 0) {
            wait_for_news(runner, pause_ms);
            continue;
        }
        struct round round = go_round(runner, turn);
        if (runner->stop == STOP_NOT) /* one that is never idle never waits */
            recover_on_timer(runner->t, -1, -1);
        has_worked |= round.answered;
        if (round.answered)
            runner->answered_ms = clock_mono_ms();
        if (round.failed < 0 && (!passes(round.failed, has_worked) || db_gone(runner->t->db)))
            return round.failed;
        if (round.failed != told && round.failed < 0)
            runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1, "%s", tend_errmsg(runner->t));
        told = round.failed;
        if (is_drained(runner, &round))
            return 0;
        if (round.claimed > 0 || lack_pause(runner) > 0)
            continue;
        if (round.failed < 0)
            wait_for_stop(runner, STORE_AGAIN_MS);
        else
            wait_for_work(runner, &round);
    }
    return 0;
}

/* --- stopping --- */

/* The calls that wait for a silent server, too. */
static void hurry(tend_runner *runner)
{
    int64_t most_ms = runner->stop == STOP_NOW ? 0 : runner->options.stop_ms;
    db_hurry(runner->t->db, most_ms > STOP_CALL_MS ? most_ms : STOP_CALL_MS);
}

void tend_runner_stop(tend_runner *runner, int at_once)
{
    int wanted = at_once ? STOP_NOW : STOP_DRAIN;
    int present = runner->stop;
    int64_t never = 0;
    atomic_compare_exchange_strong(&runner->stopped_at_ms, &never, clock_mono_ms());
    while (present < wanted && !atomic_compare_exchange_weak(&runner->stop, &present, wanted))
        continue;
    hurry(runner);
    flag_set(runner->stop_fd);
    tend_interrupt(runner->t);
}

static size_t tasks_left(tend_runner *runner)
{
    task_reap(runner);
    pthread_mutex_lock(&runner->mutex);
    size_t left = runner->task_count;
    pthread_mutex_unlock(&runner->mutex);
    return left;
}

/* A task that pauses between attempts ends when the runner drains, every other one when it stops at
 * once. */
static void tell_tasks(tend_runner *runner, int stop)
{
    pthread_mutex_lock(&runner->mutex);
    for (struct task *task = runner->tasks; task != NULL; task = task->next) {
        if (stop != STOP_NOW) {
            task_wake(task);
            continue;
        }
        task_alarm(task);
        if (task->tree != NULL) /* its thread may be waiting for the store */
            tree_stop(task->tree, task->grace_ms);
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* The tasks end by themselves, or are told to when it takes too long. */
static void wait_for_tasks(tend_runner *runner)
{
    int told = STOP_NOT;
    while (tasks_left(runner) > 0) {
        if (runner->stop != STOP_NOT &&
            clock_mono_ms() >= runner->stopped_at_ms + runner->options.stop_ms)
            runner->stop = STOP_NOW;
        if (runner->stop != told) {
            told = runner->stop;
            if (told == STOP_NOW)
                hurry(runner);
            tell_tasks(runner, told);
        }
        struct pollfd fd = {.fd = runner->stop_fd, .events = told == STOP_NOW ? 0 : POLLIN};
        uint64_t ignored;
        if (poll(&fd, 1, 20) > 0 && read(runner->stop_fd, &ignored, sizeof ignored) < 0)
            break;
    }
}

static void say_note(void *arg, const char *text)
{
    runner_tell(arg, TEND_NEWS_NOTE, TEND_UNSET, -1, "%s", text);
}

int tend_runner_run(tend_runner *runner)
{
    struct err err;
    int rc = tree_pool_open(&runner->pool, runner->options.helper_path, &err);
    if (rc < 0)
        return runner_fail(runner, &err);
    if (pulse_start(runner) < 0) {
        tree_pool_close(runner->pool);
        return handle_fail(runner->t, TEND_EIO, "no thread could be started");
    }
    const char *statsd = runner->options.statsd;
    if (statsd != NULL &&
        statsd_open(&runner->statsd, statsd, STATSD_AGAIN_MS, say_note, runner, &err) < 0)
        say_note(runner, err.text);
    const struct sweep_ear ear = runner_ear(runner);
    sweep_left_behind(runner->t, &ear, 0);
    collector_start(runner);
    rc = claim_until_stopped(runner);
    if (rc < 0) /* of what runs on a store that is gone, nothing can be saved any more */
        tend_runner_stop(runner, db_gone(runner->t->db));
    wait_for_tasks(runner);
    collector_end(runner);
    pulse_end(runner);
    statsd_close(runner->statsd);
    runner->statsd = NULL;
    tree_pool_close(runner->pool);
    runner->pool = NULL;
    return rc;
}

/* --- looking --- */

size_t tend_runner_look(tend_runner *runner, struct tend_running *ret, size_t max)
{
    size_t count = 0;
    int64_t now_ms = clock_mono_ms();
    pthread_mutex_lock(&runner->mutex);
    for (const struct task *task = runner->tasks; task != NULL && count < max; task = task->next) {
        if (!task->viewed)
            continue;
        ret[count] = task->view;
        ret[count].running_ms = now_ms - task->begun_mono_ms;
        ret[count].silent_ms = task->sleeps ? 0 : now_ms - task->heard_mono_ms;
        if (task->pause_until_ms > now_ms)
            ret[count].pause_ms = task->pause_until_ms - now_ms;
        count++;
    }
    pthread_mutex_unlock(&runner->mutex);
    return count;
}

void tend_runner_count(tend_runner *runner, struct tend_runner_totals *ret)
{
    pthread_mutex_lock(&runner->mutex);
    *ret = runner->totals;
    pthread_mutex_unlock(&runner->mutex);
}
