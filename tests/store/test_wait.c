/*
 * Waiting: what wakes a claim, a lock or tend_wait, from this process and from others, and that
 * waiting costs next to nothing. Real clock; every wait is for a condition, within PATIENCE_MS.
 */
#include "support/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A thread that waits for one job of queue q. */
struct waiter {
    tend *t;
    pthread_t thread;
    int64_t wait_ms;
    int rc;
    int64_t id;
    long long ended_ms;
    bool with_lock;
    int64_t while_pid;
};

static void *wait_for_job(void *arg)
{
    struct waiter *waiter = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    claim.wait_ms = waiter->wait_ms;
    claim.while_pid = waiter->while_pid;
    waiter->rc = waiter->with_lock ? tend_next_with_lock(waiter->t, &claim, &jobs, NULL)
                                   : tend_claim_jobs(waiter->t, &claim, &jobs, NULL);
    waiter->ended_ms = test_clock_ms();
    if (waiter->rc > 0) {
        waiter->id = jobs->items[0].id;
        tend_jobs_free(jobs);
    }
    return NULL;
}

/* A claim that comes up empty registers the worker first: its event says that the thread is on its
 * way. */
static struct waiter waiter_start(tend *t)
{
    return (struct waiter){.t = t, .wait_ms = PATIENCE_MS};
}

static void waiter_go(struct waiter *waiter)
{
    check_int(pthread_create(&waiter->thread, NULL, wait_for_job, waiter), ==, 0);
    wait_until(count_events("worker.joined") > 0, PATIENCE_MS);
}

static void waiter_gets(struct waiter *waiter, int64_t id)
{
    pthread_join(waiter->thread, NULL);
    check_rc(waiter->t, waiter->rc, 1);
    check_int(waiter->id, ==, id);
}

/* A process that only lives. */
static void just_live(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
}

/* --- what wakes a claim --- */

TEST(wait, a_claim_is_woken_by_an_add_through_the_same_handle)
{
    tend *t = store_open_real("w");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    long long added_ms = test_clock_ms();
    waiter_gets(&waiter, add_one(t, "q"));
    printf("# woken after %lld ms\n", waiter.ended_ms - added_ms);
}

TEST(wait, a_claim_is_woken_by_an_add_through_another_handle)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    waiter_gets(&waiter, add_one(other, "q"));
}

static void add_when_told(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("adder");
    helper_hear(parent);
    helper_say(parent, test_clock_ms());
    helper_say(parent, add_one(t, "q"));
}

TEST(wait, a_claim_is_woken_by_an_add_of_another_process)
{
    struct helper adder = helper_start(add_when_told, NULL);
    tend *t = store_open_real("w");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    helper_say(&adder, 0);
    int64_t added_ms = helper_hear(&adder);
    waiter_gets(&waiter, helper_hear(&adder));
    printf("# woken after %lld ms\n", waiter.ended_ms - (long long)added_ms);
    helper_join(&adder);
}

TEST(wait, a_claim_is_woken_when_a_scheduled_job_comes_due)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    struct waiter waiter = waiter_start(t);
    spec.delay_ms = 200;
    int64_t id = add_spec(t, &spec);
    waiter_go(&waiter);
    waiter_gets(&waiter, id);
    check_int(job_of(t, id)->seen_at_ms, >=, job_of(t, id)->due_at_ms);
}

TEST(wait, a_claim_that_waits_hears_of_a_job_scheduled_meanwhile)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    spec.delay_ms = 200;
    waiter_gets(&waiter, add_spec(t, &spec));
}

TEST(wait, a_claim_is_woken_when_another_lease_expires)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    int64_t id = add_one(t, "q");
    claim.flags = TEND_CLAIM_BY_TIME;
    claim.ttl_ms = 200;
    claim_with(t, &claim);
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    waiter_gets(&waiter, id);
}

TEST(wait, a_claim_is_woken_when_a_schedule_fires)
{
    tend *t = store_open_real("w");
    struct tend_schedule schedule;
    struct waiter waiter = waiter_start(t);
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@every 1s";
    schedule.queue = "q";
    waiter_go(&waiter);
    check_ok(t, tend_schedule_put(t, &schedule, NULL));
    pthread_join(waiter.thread, NULL);
    check_rc(t, waiter.rc, 1);
}

TEST(wait, a_claim_is_woken_when_the_pause_ends)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    set_queue(t, "q", "paused", "on");
    int64_t id = add_one(t, "q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    set_queue(other, "q", "paused", "off");
    waiter_gets(&waiter, id);
}

TEST(wait, a_claim_is_woken_when_a_limit_makes_room)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    set_queue(t, "q", "concurrency", "1");
    add_one(t, "q");
    struct tend_lease lease = claim_one(other, "q");
    int64_t id = add_one(t, "q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    check_ok(other, tend_complete(other, &lease, 1, NULL, NULL));
    waiter_gets(&waiter, id);
}

/* The one who completes has not claimed through this handle: a command, or a remote caller. */
TEST(wait, a_claim_is_woken_when_a_stranger_completes)
{
    tend *t = store_open_real("w");
    tend *claimer = store_open_real("v");
    tend *completer = store_open_real("u");
    struct tend_claim claim = claim_for("q");
    set_queue(t, "q", "serial", "on");
    add_one(t, "q");
    claim.flags = TEND_CLAIM_BY_TIME;
    struct tend_lease lease = claim_with(claimer, &claim);
    int64_t id = add_one(t, "q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    check_ok(completer, tend_complete(completer, &lease, 1, NULL, NULL));
    waiter_gets(&waiter, id);
}

TEST(wait, a_claim_is_woken_when_a_token_of_the_rate_is_due)
{
    tend *t = store_open_real("w");
    set_queue(t, "q", "rate", "1/1s");
    add_one(t, "q");
    claim_one(t, "q");
    int64_t id = add_one(t, "q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    waiter_gets(&waiter, id);
}

TEST(wait, a_claim_is_woken_by_release_resume_and_redrive)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(other, "q");
    struct waiter waiter = waiter_start(t);
    waiter_go(&waiter);
    check_ok(other, tend_release(other, &lease, 1, 0, NULL, NULL));
    waiter_gets(&waiter, id);

    check_ok(other, tend_act(other, TEND_HOLD, id, NULL, NULL));
    waiter = waiter_start(t);
    waiter_go(&waiter);
    check_ok(other, tend_act(other, TEND_RESUME, id, NULL, NULL));
    waiter_gets(&waiter, id);

    check_ok(other, tend_act(other, TEND_CANCEL, id, NULL, NULL));
    waiter = waiter_start(t);
    waiter_go(&waiter);
    check_ok(other, tend_act(other, TEND_REDRIVE, id, NULL, NULL));
    waiter_gets(&waiter, id);
}

TEST(wait, a_claim_under_the_processing_lock_is_woken_when_that_is_free)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_one(t, "q");
    check_rc(other, tend_next_with_lock(other, &claim, &jobs, NULL), 1);
    struct tend_lease lease = lease_of(&jobs->items[0]);
    tend_jobs_free(jobs);
    int64_t id = add_one(t, "q");
    struct waiter waiter = waiter_start(t);
    waiter.with_lock = true;
    waiter_go(&waiter);
    check_ok(other, tend_complete(other, &lease, 1, NULL, NULL));
    waiter_gets(&waiter, id);
}

TEST(wait, complete_and_claim_waits_for_the_next)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct helper adder = helper_start(add_when_told, NULL);
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    helper_say(&adder, 0);
    claim.wait_ms = PATIENCE_MS;
    check_rc(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, &claim, &jobs, NULL), 1);
    helper_hear(&adder);
    check_int(jobs->items[0].id, ==, helper_hear(&adder));
    check_int(state_of(other, lease.id), ==, TEND_DONE);
    tend_jobs_free(jobs);
    helper_join(&adder);
}

/* --- the end of waiting --- */

TEST(wait, a_claim_that_may_not_wait_answers_at_once_and_one_that_may_waits_its_time)
{
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none;
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    claim.wait_ms = 100;
    long long begin_ms = test_clock_ms();
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, &none), TEND_EEMPTY);
    check_int(none.code, ==, TEND_EEMPTY);
    check_int(test_clock_ms() - begin_ms, >=, 100);
}

/* Symptom: the claim waited on, and then leased the next job to the dead for its whole time. */
TEST(wait, a_claim_for_a_process_ends_with_it)
{
    struct helper process = helper_start(just_live, NULL);
    tend *t = store_open_real("w");
    struct waiter waiter = waiter_start(t);
    waiter.while_pid = process.pid;
    waiter_go(&waiter);
    helper_kill(&process);
    pthread_join(waiter.thread, NULL);
    check_rc(t, waiter.rc, TEND_ESTATE);
    int64_t id = add_one(t, "q");
    check_int(state_of(t, id), ==, TEND_PENDING);
}

static void *wait_for_lock(void *arg)
{
    struct waiter *waiter = arg;
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.owner = "waiter";
    request.wait_ms = waiter->wait_ms;
    request.while_pid = waiter->while_pid;
    waiter->rc = tend_lock_acquire(waiter->t, &request, NULL);
    return NULL;
}

/* Symptom: the lock went to the dead as soon as it was free, and was held for 300 s. */
TEST(wait, a_wait_for_a_lock_ends_with_the_process_it_is_for)
{
    struct helper process = helper_start(just_live, NULL);
    tend *t = store_open_real("w");
    struct tend_lock lock;
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.owner = "holder";
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, &lock));
    struct waiter waiter = waiter_start(t);
    waiter.while_pid = process.pid;
    check_int(pthread_create(&waiter.thread, NULL, wait_for_lock, &waiter), ==, 0);
    wait_until(count_events("worker.joined") > 0, PATIENCE_MS);
    helper_kill(&process);
    pthread_join(waiter.thread, NULL);
    check_rc(t, waiter.rc, TEND_ESTATE);
    check_rc(t, tend_lock_release(t, "deploy", "holder"), 1);
    check_rc(t, tend_lock_get(t, "deploy", &lock), 0);
}

TEST(wait, an_interrupt_ends_a_claim_and_one_before_it_is_not_lost)
{
    tend *t = store_open_real("w");
    struct waiter waiter = waiter_start(t);
    waiter.wait_ms = -1;
    waiter_go(&waiter);
    tend_interrupt(t);
    pthread_join(waiter.thread, NULL);
    check_int(waiter.rc, ==, TEND_EINTERRUPTED);
    /* The handle is as good as before. */
    int64_t id = add_one(t, "q");
    check_int(claim_one(t, "q").id, ==, id);
}

static tend *interrupted;

static void on_signal(int number)
{
    (void)number;
    tend_interrupt(interrupted);
}

TEST(wait, an_interrupt_may_come_from_a_signal_handler)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct waiter waiter = waiter_start(interrupted = store_open_real("w"));
    sigaction(SIGUSR1, &action, NULL);
    waiter.wait_ms = -1;
    waiter_go(&waiter);
    pthread_kill(waiter.thread, SIGUSR1);
    pthread_join(waiter.thread, NULL);
    check_int(waiter.rc, ==, TEND_EINTERRUPTED);
}

TEST(wait, an_interrupt_ends_every_thread_that_waits)
{
    enum { COUNT = 4 };
    tend *t = store_open_real("w");
    struct waiter waiters[COUNT];
    for (int i = 0; i < COUNT; i++) {
        waiters[i] = waiter_start(t);
        waiters[i].wait_ms = -1;
        waiter_go(&waiters[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        /* One that was not yet asleep hears the next. */
        long long deadline_ms = test_clock_ms() + PATIENCE_MS;
        while (pthread_tryjoin_np(waiters[i].thread, NULL) != 0) {
            check_int(test_clock_ms(), <, deadline_ms);
            tend_interrupt(t);
            test_pause();
        }
        check_int(waiters[i].rc, ==, TEND_EINTERRUPTED);
    }
}

TEST(wait, of_many_who_wait_one_gets_the_job_and_the_others_go_on_waiting)
{
    enum { COUNT = 5 };
    tend *t = store_open_real("w");
    struct waiter waiters[COUNT];
    for (int i = 0; i < COUNT; i++) {
        waiters[i] = waiter_start(t);
        waiter_go(&waiters[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        add_one(t, "q");
        wait_until(sql_int("SELECT count(*) FROM job WHERE state = 2") == i + 1, PATIENCE_MS);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(waiters[i].thread, NULL);
        check_rc(t, waiters[i].rc, 1);
        for (int k = 0; k < i; k++)
            check_int(waiters[k].id, !=, waiters[i].id);
    }
}

/* --- tend_wait --- */

TEST(wait, tend_wait_answers_once_for_each_news)
{
    tend *t = store_open_real("w");
    tend *other = store_open_real("v");
    check_rc(t, tend_wait(t, 0), 1); /* look first */
    check_rc(t, tend_wait(t, 0), 0);
    add_one(other, "q");
    check_rc(t, tend_wait(t, PATIENCE_MS), 1);
    check_rc(t, tend_wait(t, 0), 0);
    tend_interrupt(t);
    check_rc(t, tend_wait(t, PATIENCE_MS), TEND_EINTERRUPTED);
}

struct news {
    tend *t;
    atomic_long told;
    atomic_bool over;
};

static void *count_news(void *arg)
{
    struct news *news = arg;
    while (!atomic_load(&news->over)) {
        int rc = tend_wait(news->t, store_is_postgres() ? 1 : 0);
        check_rc(news->t, rc, rc == 1 ? 1 : 0);
        atomic_fetch_add(&news->told, rc);
    }
    return NULL;
}

/* What rang in the moment in which the time was over was counted as told, and was not. */
TEST(wait, tend_wait_loses_no_news_when_its_time_is_over)
{
    tend *t = store_open_real("w");
    struct news news = {.t = store_open_real("v")};
    pthread_t thread;
    check_int(pthread_create(&thread, NULL, count_news, &news), ==, 0);
    wait_until(atomic_load(&news.told) > 0, PATIENCE_MS);
    for (int i = 0; i < 300; i++) {
        long before = atomic_load(&news.told);
        add_one(t, "q");
        wait_until(atomic_load(&news.told) > before, PATIENCE_MS);
    }
    atomic_store(&news.over, true);
    pthread_join(thread, NULL);
}

/* It ran its timers once, before it slept: what expired later was left to others. */
TEST(wait, tend_wait_recovers_on_its_timer_while_it_sleeps)
{
    struct tend_options options = store_options("w");
    struct tend_lock_request request;
    options.recovery_ms = 100;
    tend *t = store_open_with(&options);
    tend_lock_request_init(&request);
    request.name = "l";
    request.owner = "ghost";
    request.ttl_ms = SECOND_MS;
    request.flags = TEND_CLAIM_BY_TIME;
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    clock_advance(MINUTE_MS);
    while (count_events("lock.recovered") == 0)
        check_rc(t, tend_wait(t, PATIENCE_MS), 1);
}

/* There may be work that was not there before: a job came due. */
TEST(wait, tend_wait_tells_of_a_scheduled_job_that_comes_due)
{
    tend *t = store_open_real("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 300;
    int64_t id = add_spec(t, &spec);
    while (tend_wait(t, 0) == 1)
        continue;
    long long begin_ms = test_clock_ms();
    check_rc(t, tend_wait(t, PATIENCE_MS), 1);
    check_int(test_clock_ms() - begin_ms, <, PATIENCE_MS / 2);
    check_int(claim_one(t, "q").id, ==, id);
}
