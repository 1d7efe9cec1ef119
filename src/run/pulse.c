/*
 * The pulse of a runner: a thread that heartbeats the leases of all tasks, so that they are held
 * however busy or slow the tasks themselves are, sees which were lost, and brings the controls
 * operators have given (SH-12).
 *
 * A task whose lease could not be extended for two thirds of its time must stop what it runs: the
 * lease may end, and the job run elsewhere, while the store is out of reach from here. Not so while
 * nobody can write to the store. lease_watch.h has these rules; the task and its minder look at
 * safe_until_ms. To see in time that nobody can write, the pulse waits for the store no longer than
 * a part of the shortest lease. That holds for each of its calls, also for those that only look.
 *
 * A lease whose row another session has locked is neither extended nor lost: it keeps its
 * safe_until_ms, the others are extended, and it is tried again soon.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "queue/control.h"
#include "queue/lease.h"
#include "run/runner.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 400, /* how often controls and lost leases are looked for */
    HURRY_BELOW_MS = 2 * LEASE_BEATS * LOOK_MS, /* a new lease so short does not wait for a look */
};

/* Leases of the tasks at one moment; the tasks may have ended since, so they are found by lease. */
struct roll {
    struct tend_lease *leases;
    int64_t *lengths_ms;
    int *each;
    size_t count;
    int64_t shortest_ms; /* lease */
};

static struct roll call_roll(tend_runner *runner)
{
    struct roll roll = {.shortest_ms = 60000};
    pthread_mutex_lock(&runner->mutex);
    roll.leases = calloc(runner->task_count + 1, sizeof *roll.leases);
    roll.each = calloc(runner->task_count + 1, sizeof *roll.each);
    roll.lengths_ms = calloc(runner->task_count + 1, sizeof *roll.lengths_ms);
    if (roll.leases != NULL && roll.each != NULL && roll.lengths_ms != NULL) {
        for (const struct task *task = runner->tasks; task != NULL; task = task->next) {
            if (task->ended || task->lost)
                continue;
            roll.lengths_ms[roll.count] = task->watch.lease_ms;
            roll.leases[roll.count++] = task->lease;
            if (task->watch.lease_ms < roll.shortest_ms)
                roll.shortest_ms = task->watch.lease_ms;
        }
    }
    pthread_mutex_unlock(&runner->mutex);
    return roll;
}

/* How long the store is waited for. */
static int64_t patience_ms(const struct roll *roll)
{
    return lease_patience_ms(roll->shortest_ms);
}

static void roll_done(struct roll *roll)
{
    free(roll->leases);
    free(roll->lengths_ms);
    free(roll->each);
}

/* Whether a lease could not be extended because another session has locked its row, and that was
 * not told before. */
static bool is_newly_locked(tend_runner *runner, const struct roll *roll, size_t i)
{
    pthread_mutex_lock(&runner->mutex);
    struct task *task = task_find(runner, roll->leases[i].id, roll->leases[i].token);
    bool locked = roll->each[i] == TEND_EBUSY;
    bool newly = task != NULL && locked && !task->row_locked;
    if (task != NULL && (locked || roll->each[i] == 0))
        task->row_locked = locked;
    pthread_mutex_unlock(&runner->mutex);
    return newly;
}

/* Its own thread finds out: see job_end.c. */
static bool is_reported(tend_runner *runner, struct tend_lease lease)
{
    pthread_mutex_lock(&runner->mutex);
    const struct task *task = task_find(runner, lease.id, lease.token);
    bool reported = task != NULL && task->reports;
    pthread_mutex_unlock(&runner->mutex);
    return reported;
}

/* What the store said of each lease; extended_ms: when those that are held were extended, or 0. */
static void note(tend_runner *runner, const struct roll *roll, int64_t extended_ms)
{
    for (size_t i = 0; i < roll->count; i++) {
        if (roll->each[i] == TEND_ELEASELOST && !is_reported(runner, roll->leases[i]))
            task_lose(runner, roll->leases[i]);
        if (extended_ms != 0 && is_newly_locked(runner, roll, i))
            runner_tell(
                runner, TEND_NEWS_NOTE, roll->leases[i].id, -1,
                "job %lld: its lease cannot be extended: another session has locked its row",
                (long long)roll->leases[i].id);
    }
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < roll->count; i++) {
        struct task *task = task_find(runner, roll->leases[i].id, roll->leases[i].token);
        if (task == NULL || roll->each[i] != 0 || extended_ms == 0)
            continue;
        lease_watch_beat(&task->watch, extended_ms);
        task_wake(task);
    }
    pthread_mutex_unlock(&runner->mutex);
}

/* Leases could not be extended. If nobody can write, they will get that time back. */
static void note_blocked(tend_runner *runner)
{
    int64_t blocked_ms = lease_blocked_ms(runner->t);
    if (blocked_ms == 0)
        return;
    pthread_mutex_lock(&runner->mutex);
    for (struct task *task = runner->tasks; task != NULL; task = task->next)
        if (!task->ended && !task->lost && lease_watch_blocked(&task->watch, blocked_ms))
            task_keep(task);
    pthread_mutex_unlock(&runner->mutex);
    if (!runner->store_blocked)
        runner_tell(
            runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
            "nobody can write to the store: no lease ends meanwhile, and what runs goes on");
    runner->store_blocked = true;
}

static char *copy(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

/* A pause that has not taken hold yet is taken back by a resume. Under the mutex. */
static void take_back_pauses(struct task *task)
{
    for (struct order **at = &task->orders; *at != NULL;) {
        struct order *order = *at;
        if (strcmp(order->action, "pause") != 0 && strcmp(order->action, "takeover") != 0) {
            at = &order->next;
            continue;
        }
        *at = order->next;
        order_free(order);
    }
}

/* A control that is told again is not taken twice. Under the mutex. */
static void give_order(struct task *task, const struct tend_control *control)
{
    if (control->id <= task->last_order)
        return;
    if (strcmp(control->action, "resume") == 0)
        take_back_pauses(task);
    struct order **at = &task->orders;
    while (*at != NULL)
        at = &(*at)->next;
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return; /* it is told again */
    *order = (struct order){.id = control->id,
                            .action = copy(control->action),
                            .step_id = copy(control->step_id),
                            .actor = copy(control->actor),
                            .reason = copy(control->reason),
                            .step_index = control->step_index};
    if (order->action == NULL || order->actor == NULL) {
        order_free(order);
        return;
    }
    task->last_order = control->id;
    *at = order;
    task_wake(task);
}

static void bring_orders(tend_runner *runner, int64_t wait_ms, const struct tend_lease *leases,
                         size_t count)
{
    struct tend_controls *controls;
    if (control_take(runner->t, wait_ms, leases, count, &controls) < 0)
        return; /* they are told again */
    pthread_mutex_lock(&runner->mutex);
    for (size_t i = 0; i < controls->count; i++) {
        struct task *task = task_find(runner, controls->items[i].job_id, 0);
        if (task != NULL)
            give_order(task, &controls->items[i]);
    }
    pthread_mutex_unlock(&runner->mutex);
    tend_controls_free(controls);
}

/*
 * A lease keeps the length it was given: whoever set the queue's anew meanwhile must not make it
 * shorter than its owner believes. One call for each length there is. Whether the store has
 * answered for any.
 */
static bool beat_all(tend_runner *runner, const struct roll *roll)
{
    size_t begin = 0;
    bool answered = false;
    for (size_t i = 0; i < roll->count; i++)
        roll->each[i] = TEND_EUNREACHABLE; /* unless it is told otherwise */
    for (size_t end = 1; end <= roll->count; end++) {
        if (end < roll->count && roll->lengths_ms[end] == roll->lengths_ms[begin])
            continue;
        int rc = lease_heartbeat(runner->t, patience_ms(roll), roll->leases + begin, end - begin,
                                 roll->lengths_ms[begin], roll->each + begin);
        for (size_t i = begin; i < end; i++)
            answered |= roll->each[i] == 0 || roll->each[i] == TEND_ELEASELOST;
        begin = end;
        if (rc < 0 && rc != TEND_ELEASELOST && rc != TEND_EBUSY)
            break;
    }
    return answered;
}

/* When it begins, and when it is over. */
static void tell_outage(tend_runner *runner, bool away)
{
    if (away == runner->store_away)
        return;
    runner->store_away = away;
    runner->away_ms = clock_mono_ms();
    runner->store_blocked = false;
    if (away)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1, "leases cannot be extended: %s",
                    tend_errmsg(runner->t));
    else
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1, "the store answers again");
}

static bool look(tend_runner *runner, const struct roll *roll)
{
    int rc = lease_check(runner->t, patience_ms(roll), roll->leases, roll->count, roll->each);
    return rc == 0 || rc == TEND_ELEASELOST;
}

/* A heartbeat when it is time, else only a look. Answers with when the last heartbeat was. */
static int64_t beat(tend_runner *runner, struct roll *roll, int64_t last_beat_ms)
{
    if (runner->store_away)
        note_blocked(runner); /* also before the next wait */
    int64_t now_ms = clock_mono_ms();
    int64_t pause_ms = lease_beat_pause_ms(roll->shortest_ms);
    bool beats = now_ms >= last_beat_ms + pause_ms;
    bool answered = beats ? beat_all(runner, roll) : look(runner, roll);
    tell_outage(runner, !answered);
    if (answered)
        note(runner, roll, beats ? now_ms : 0);
    else
        note_blocked(runner);
    if (!answered || !beats)
        return last_beat_ms;
    for (size_t i = 0; i < roll->count; i++)
        if (roll->each[i] != 0 && roll->each[i] != TEND_ELEASELOST)
            return now_ms - pause_ms * 3 / 4; /* what was skipped is tried again soon */
    return now_ms;
}

static bool goes_on(tend_runner *runner)
{
    pthread_mutex_lock(&runner->mutex);
    bool goes_on = !runner->pulse_ends;
    pthread_mutex_unlock(&runner->mutex);
    return goes_on;
}

static void *pulse(void *arg)
{
    tend_runner *runner = arg;
    int64_t last_beat_ms = 0;
    while (goes_on(runner)) {
        struct roll roll = call_roll(runner);
        int64_t pause_ms = lease_beat_pause_ms(roll.shortest_ms) / 2;
        if (roll.count > 0) {
            last_beat_ms = beat(runner, &roll, last_beat_ms);
            if (!runner->store_away)
                bring_orders(runner, patience_ms(&roll), roll.leases, roll.count);
        } else if (runner->answered_ms > runner->away_ms) {
            tell_outage(runner, false); /* of which the last lease saw no more */
        }
        roll_done(&roll);
        struct pollfd fd = {.fd = runner->pulse_fd, .events = POLLIN};
        if (poll(&fd, 1, (int)(pause_ms < LOOK_MS ? pause_ms : LOOK_MS)) > 0)
            flag_clear(runner->pulse_fd);
    }
    return NULL;
}

void pulse_hurry(struct task *task)
{
    if (task->watch.lease_ms < HURRY_BELOW_MS)
        flag_set(task->runner->pulse_fd);
}

void pulse_bring_orders(struct task *task)
{
    bring_orders(task->runner, -1, &task->lease, 1);
}

int pulse_start(tend_runner *runner)
{
    runner->pulse_ends = false;
    int rc = thread_start(&runner->pulse_thread, 0, pulse, runner);
    runner->pulse_runs = rc == 0;
    return rc == 0 ? 0 : TEND_EIO;
}

void pulse_end(tend_runner *runner)
{
    if (!runner->pulse_runs)
        return;
    pthread_mutex_lock(&runner->mutex);
    runner->pulse_ends = true;
    pthread_mutex_unlock(&runner->mutex);
    flag_set(runner->pulse_fd);
    pthread_join(runner->pulse_thread, NULL);
    runner->pulse_runs = false;
}
