#include "base/clock.h"
#include "base/thread.h"
#include "queue/handle.h"
#include "run/runner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK_BYTES = 1024 * 1024, /* what is nested deeply is read recursively */
    AGAIN_MS = 50,
};

/* --- orders --- */

void order_free(struct order *order)
{
    if (order == NULL)
        return;
    free(order->action);
    free(order->step_id);
    free(order->actor);
    free(order->reason);
    free(order);
}

struct order *task_next_order(struct task *task)
{
    pthread_mutex_lock(&task->runner->mutex);
    struct order *order = task->orders;
    if (order != NULL)
        task->orders = order->next;
    pthread_mutex_unlock(&task->runner->mutex);
    return order;
}

bool order_is_urgent(const struct order *order)
{
    return strcmp(order->action, "pause") != 0 && strcmp(order->action, "resume") != 0;
}

/* --- signals --- */

void flag_set(int fd)
{
    uint64_t one = 1;
    ssize_t ignored = write(fd, &one, sizeof one);
    (void)ignored;
}

void flag_clear(int fd)
{
    uint64_t count;
    ssize_t ignored = read(fd, &count, sizeof count);
    (void)ignored;
}

void task_wake(struct task *task)
{
    flag_set(task->wake_fd);
}

void task_alarm(struct task *task)
{
    flag_set(task->wake_fd);
    flag_set(task->cancel_fd);
}

enum task_signal task_signal(struct task *task)
{
    pthread_mutex_lock(&task->runner->mutex);
    enum task_signal signal = TASK_GO_ON;
    flag_clear(task->wake_fd);
    for (const struct order *order = task->orders; order != NULL; order = order->next)
        if (order_is_urgent(order))
            signal = TASK_ORDERED;
    if (task->runner->stop == STOP_NOW)
        signal = TASK_STOP;
    if (task->stopped != 0)
        signal = TASK_CANCELLED;
    if (task->lost)
        signal = TASK_LOST;
    pthread_mutex_unlock(&task->runner->mutex);
    return signal;
}

const char *task_stop_text(struct task *task, char out[STOP_TEXT_BYTES])
{
    const char *worker = task->runner->t->name;
    pthread_mutex_lock(&task->runner->mutex);
    const struct order *order = task->orders;
    while (order != NULL && !order_is_urgent(order))
        order = order->next;
    if (task->runner->stop == STOP_NOW)
        snprintf(out, STOP_TEXT_BYTES, "worker %.200s was told to stop", worker);
    else if (order != NULL)
        snprintf(out, STOP_TEXT_BYTES, "%.40s by %.150s%s%.300s", order->action, order->actor,
                 order->reason != NULL ? ": " : "", order->reason != NULL ? order->reason : "");
    else
        snprintf(out, STOP_TEXT_BYTES, "worker %.200s could not keep its lease in time", worker);
    pthread_mutex_unlock(&task->runner->mutex);
    return out;
}

int64_t task_safe_until(struct task *task)
{
    pthread_mutex_lock(&task->runner->mutex);
    int64_t until_ms = task->watch.safe_until_ms;
    pthread_mutex_unlock(&task->runner->mutex);
    return until_ms;
}

void task_keep(struct task *task)
{
    if (task->tree != NULL) /* its thread may be waiting for the store */
        tree_keep(task->tree, task->watch.safe_until_ms);
    task_wake(task);
}

void task_sleep(struct task *task, int64_t ms)
{
    struct pollfd fd = {.fd = task->wake_fd, .events = POLLIN};
    poll(&fd, 1, ms < 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* --- lost leases --- */

struct task *task_find(tend_runner *runner, int64_t id, int64_t token)
{
    struct task *task = runner->tasks;
    while (task != NULL && (task->lease.id != id || (token != 0 && task->lease.token != token)))
        task = task->next;
    return task != NULL && !task->ended ? task : NULL;
}

/* The state, if the job was cancelled or held while it was leased and has not moved since; says by
 * whom and why. 0: not so; or as the store says. */
static int ask_stopped(tend *t, struct tend_lease lease, char *why, size_t size)
{
    struct tend_jobs *jobs;
    int rc = tend_get(t, lease.id, &jobs);
    if (rc < 0)
        return rc == TEND_ENOTFOUND ? 0 : rc;
    const struct tend_job *job = &jobs->items[0];
    int state = job->state;
    bool stopped =
        (state == TEND_CANCELLED || state == TEND_HELD) && job->stopped_token == lease.token;
    bool told = job->changed_why != NULL && job->changed_why[0] != '\0';
    snprintf(why, size, "%s by %s%s%s", tend_state_name(state), job->changed_by, told ? ": " : "",
             told ? job->changed_why : "");
    tend_jobs_free(jobs);
    return stopped ? state : 0;
}

void task_lose(tend_runner *runner, struct tend_lease lease)
{
    char why[sizeof runner->tasks->stopped_why];
    int stopped = ask_stopped(runner->t, lease, why, sizeof why);
    pthread_mutex_lock(&runner->mutex);
    struct task *task = task_find(runner, lease.id, lease.token);
    if (task != NULL && stopped > 0) {
        if (task->stopped != stopped)
            memcpy(task->stopped_why, why, sizeof why);
        task->stopped = stopped;
        lease_watch_beat(&task->watch, clock_mono_ms()); /* for so long it may stop what runs */
    }
    if (task != NULL) {
        /* Out of reach: what is cancelled or held stays so until its time is over. */
        task->lost |= stopped == 0 || task->stopped == 0;
        task_alarm(task);
    }
    pthread_mutex_unlock(&runner->mutex);
}

bool task_try_again(struct task *task, int rc)
{
    if (rc >= 0)
        return false;
    if (rc == TEND_ELEASELOST) {
        task_lose(task->runner, task->lease);
        return false;
    }
    enum task_signal signal = task_signal(task);
    bool ends = signal == TASK_STOP || signal == TASK_CANCELLED;
    if (signal == TASK_LOST || db_gone(task->runner->t->db) ||
        !lease_tells_again(&task->telling, rc, ends, clock_mono_ms()))
        return false;
    if (rc == TEND_ENOMEM && !task->short_told) { /* of the store's troubles the pulse tells */
        runner_tell(task->runner, TEND_NEWS_NOTE, task->lease.id, -1,
                    "job %lld: out of memory or descriptors; it is tried again",
                    (long long)task->lease.id);
        task->short_told = true;
    }
    const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000L};
    nanosleep(&pause, NULL); /* not task_sleep: a signal that is there already would make it none */
    return true;
}

/* --- slots --- */

/* Tells those who wait for it. False: it had none. Under the mutex. */
static bool give_slot(struct task *task)
{
    struct bulkhead *slot = task->slot;
    if (slot == NULL)
        return false;
    bulkhead_give(slot);
    task->slot = NULL;
    for (struct task *other = task->runner->tasks; other != NULL; other = other->next)
        if (other->waits_for == slot)
            task_wake(other);
    return true;
}

/* Under the mutex. */
static void wait_no_more(struct task *task)
{
    if (task->waits_for != NULL)
        bulkhead_wait_no_more(task->waits_for);
    task->waits_for = NULL;
}

enum task_slot task_slot(struct task *task, const char *kind)
{
    tend_runner *runner = task->runner;
    pthread_mutex_lock(&runner->mutex);
    struct bulkhead *bulkhead = bulkhead_of(&runner->bulkheads, kind);
    bool gave = task->slot != bulkhead && give_slot(task);
    if (task->slot == NULL && bulkhead_take(bulkhead))
        task->slot = bulkhead;
    if (task->slot != NULL || task->waits_for != bulkhead)
        wait_no_more(task);
    if (task->slot == NULL && task->waits_for == NULL && bulkhead_wait(bulkhead))
        task->waits_for = bulkhead;
    enum task_slot has = task->slot != NULL        ? SLOT_TAKEN
                         : task->waits_for != NULL ? SLOT_AWAITED
                                                   : SLOT_NONE;
    pthread_mutex_unlock(&runner->mutex);
    if (gave)
        tend_interrupt(runner->t); /* the claiming thread, if it waits for news */
    return has;
}

bool task_rest(struct task *task)
{
    tend_runner *runner = task->runner;
    pthread_mutex_lock(&runner->mutex);
    struct bulkhead *bulkhead = task->slot;
    bool rests = bulkhead != NULL && bulkhead_rest(bulkhead);
    if (rests) {
        task->rests_of = bulkhead;
        give_slot(task);
    }
    pthread_mutex_unlock(&runner->mutex);
    if (rests)
        tend_interrupt(runner->t); /* the claiming thread, if it waits for news */
    return rests;
}

void task_rest_over(struct task *task)
{
    pthread_mutex_lock(&task->runner->mutex);
    bulkhead_rest_over(task->rests_of);
    task->rests_of = NULL;
    pthread_mutex_unlock(&task->runner->mutex);
}

/* --- their life --- */

static void task_free(struct task *task)
{
    if (--task->haul->users == 0) {
        tend_jobs_free(task->haul->jobs);
        free(task->haul);
    }
    while (task->orders != NULL) {
        struct order *order = task->orders;
        task->orders = order->next;
        order_free(order);
    }
    if (task->wake_fd >= 0)
        close(task->wake_fd);
    if (task->cancel_fd >= 0)
        close(task->cancel_fd);
    free(task);
}

static void *body(void *arg)
{
    struct task *task = arg;
    tend_runner *runner = task->runner;
    job_run(task);
    pthread_mutex_lock(&runner->mutex);
    give_slot(task);
    wait_no_more(task);
    task->ended = true;
    pthread_mutex_unlock(&runner->mutex);
    tend_interrupt(runner->t); /* the claiming thread, if it waits for news */
    return NULL;
}

/* Its own time, or the queue's: what the lease was given at the claim, and keeps. */
static int64_t lease_length(const struct tend_job *job)
{
    return job->until_ms - job->seen_at_ms;
}

int task_start(tend_runner *runner, struct haul *haul, const struct tend_job *job,
               int64_t claimed_mono_ms)
{
    struct task *task = calloc(1, sizeof *task);
    if (task == NULL)
        return TEND_ENOMEM;
    *task = (struct task){.runner = runner,
                          .job = job,
                          .haul = haul,
                          .lease = {.id = job->id, .token = job->token},
                          .watch = {.lease_ms = lease_length(job)},
                          .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                          .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_lock(&runner->mutex);
    haul->users++;
    lease_watch_beat(&task->watch, claimed_mono_ms);
    struct bulkhead *bulkhead = bulkhead_of(&runner->bulkheads, bulkhead_kind(job->kind));
    if (bulkhead_take(bulkhead))
        task->slot = bulkhead;
    task->next = runner->tasks;
    runner->tasks = task;
    runner->task_count++;
    pulse_hurry(task);
    int rc = task->wake_fd < 0 || task->cancel_fd < 0
                 ? EMFILE
                 : thread_start(&task->thread, STACK_BYTES, body, task);
    if (rc != 0) {
        runner->tasks = task->next;
        runner->task_count--;
        if (task->slot != NULL)
            bulkhead_give(task->slot);
        task_free(task);
    }
    pthread_mutex_unlock(&runner->mutex);
    return rc == 0 ? 0 : TEND_EIO;
}

void task_reap(tend_runner *runner)
{
    struct task *ended = NULL;
    pthread_mutex_lock(&runner->mutex);
    for (struct task **at = &runner->tasks; *at != NULL;) {
        struct task *task = *at;
        if (!task->ended) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        runner->task_count--;
        task->next = ended;
        ended = task;
    }
    pthread_mutex_unlock(&runner->mutex);
    while (ended != NULL) {
        struct task *task = ended;
        ended = task->next;
        pthread_join(task->thread, NULL);
        task_free(task);
    }
}
