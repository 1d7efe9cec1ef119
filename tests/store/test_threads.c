/*
 * Many at once, threads and processes: CL-3 (a job is handed out once per lease), RC-6 (recoverers
 * at once: counts add up), CL-7, and group commit. Locks and limits under a crowd are in
 * test_contention.c.
 */
#include "support/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 8 };

/* One thread of a crowd. */
struct member {
    tend *t;
    int number;
    int64_t count, other;
    pthread_t thread;
};

static void crowd(struct member *members, tend *shared, void *(*body)(void *))
{
    for (int i = 0; i < THREADS; i++) {
        tend *own = shared != NULL ? shared : store_open_real(keep_text("worker-%d", i));
        members[i] = (struct member){.t = own, .number = i};
    }
    for (int i = 0; i < THREADS; i++)
        check_int(pthread_create(&members[i].thread, NULL, body, &members[i]), ==, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
}

/* --- claiming: CL-3 --- */

enum { JOBS = 600, ID_ROOM = 20 * JOBS };

/* How often each job was handed out; in shared memory for processes. */
static int *handed_out;

static void count_handouts_in_shared_memory(void)
{
    handed_out = mmap(NULL, ID_ROOM * sizeof *handed_out, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(handed_out != MAP_FAILED);
}

static int64_t drain(tend *t, size_t batch)
{
    struct tend_lease leases[32];
    int64_t total = 0;
    size_t got;
    while ((got = claim_many(t, "q", batch, leases)) > 0) {
        for (size_t i = 0; i < got; i++) {
            check_int(leases[i].id, <, ID_ROOM);
            __atomic_add_fetch(&handed_out[leases[i].id], 1, __ATOMIC_SEQ_CST);
        }
        check_ok(t, tend_complete(t, leases, got, NULL, NULL));
        total += (int64_t)got;
    }
    return total;
}

static void check_each_was_handed_out_once(void)
{
    int64_t jobs = 0;
    for (size_t id = 0; id < ID_ROOM; id++) {
        check_int(handed_out[id], <=, 1);
        jobs += handed_out[id];
    }
    check_int(jobs, ==, JOBS);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4 AND token = "
                      "(SELECT token_base + 1 FROM store)"),
              ==, JOBS);
    check_int(count_events("job.claimed"), ==, JOBS);
    check_int(count_events("job.completed"), ==, JOBS);
}

static void *drain_thread(void *arg)
{
    struct member *member = arg;
    member->count = drain(member->t, 1 + (size_t)member->number % 4 * 5);
    return NULL;
}

TEST_WITHIN(threads, CL_3_threads_with_their_own_handles_get_each_job_once, 120)
{
    struct member members[THREADS];
    count_handouts_in_shared_memory();
    add_number(store_open_real("adder"), "q", JOBS);
    crowd(members, NULL, drain_thread);
    check_each_was_handed_out_once();
}

TEST_WITHIN(threads, CL_3_threads_with_one_handle_get_each_job_once, 120)
{
    struct member members[THREADS];
    tend *t = store_open_real("all");
    count_handouts_in_shared_memory();
    add_number(t, "q", JOBS);
    crowd(members, t, drain_thread);
    check_each_was_handed_out_once();
}

static void drain_process(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("process");
    helper_hear(parent);
    helper_say(parent, drain(t, 3));
    store_close(t);
}

TEST_WITHIN(threads, CL_3_processes_get_each_job_once, 120)
{
    enum { PROCESSES = 6 };
    struct helper processes[PROCESSES];
    int64_t total = 0;
    count_handouts_in_shared_memory();
    tend *t = store_open_real("adder");
    add_number(t, "q", JOBS);
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = helper_start(drain_process, NULL);
    for (int i = 0; i < PROCESSES; i++)
        helper_say(&processes[i], 0);
    for (int i = 0; i < PROCESSES; i++) {
        total += helper_hear(&processes[i]);
        helper_join(&processes[i]);
    }
    check_int(total, ==, JOBS);
    check_each_was_handed_out_once();
}

/* --- recovering: RC-6 --- */

static void *recover_thread(void *arg)
{
    struct member *member = arg;
    struct tend_recovery recovery = recover_now(member->t);
    member->count = recovery.entries_reclaimed;
    member->other = recovery.locks_cleaned;
    return NULL;
}

TEST(threads, RC_6_recoverers_at_once_reclaim_each_once_and_their_counts_add_up)
{
    enum { STALE = 700, LOCKS = 20 };
    struct member members[THREADS];
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct tend_lock_request request;
    struct tend_jobs *jobs;
    int64_t entries = 0;
    int64_t locks = 0;
    add_number(t, "q", STALE);
    claim.count = STALE;
    claim.ttl_ms = 1;
    claim.flags = TEND_CLAIM_BY_TIME; /* a registered worker that lives would be warned first */
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), STALE);
    tend_jobs_free(jobs);
    tend_lock_request_init(&request);
    request.ttl_ms = 1;
    for (int i = 0; i < LOCKS; i++) {
        request.name = keep_text("lock-%d", i);
        check_ok(t, tend_lock_acquire(t, &request, NULL));
    }
    wait_until(tend_is_lock_stale(t, request.name) == 1, PATIENCE_MS);
    crowd(members, NULL, recover_thread);
    for (int i = 0; i < THREADS; i++) {
        entries += members[i].count;
        locks += members[i].other;
    }
    check_int(entries, ==, STALE);
    check_int(locks, ==, LOCKS);
    check_int(count_events("job.recovered"), ==, STALE);
    check_int(count_events("lock.recovered"), ==, LOCKS);
    check_int(sql_int("SELECT count(*) FROM job WHERE crashes <> 1"), ==, 0);
}

static void recover_process(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("process");
    helper_hear(parent);
    helper_say(parent, recover_now(t).entries_reclaimed);
}

TEST(threads, RC_6_recovering_processes_at_once_reclaim_each_once)
{
    enum { PROCESSES = 4, STALE = 700 };
    struct helper processes[PROCESSES];
    struct tend_recovery stats;
    tend *t = store_open_real("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    int64_t entries = 0;
    add_number(t, "q", STALE);
    claim.count = STALE;
    claim.ttl_ms = 1;
    claim.flags = TEND_CLAIM_BY_TIME; /* a registered worker that lives would be warned first */
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), STALE);
    tend_jobs_free(jobs);
    wait_until(tend_get_recovery_stats(t, &stats) == 0 && stats.entries_reclaimed == STALE,
               PATIENCE_MS);
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = helper_start(recover_process, NULL);
    for (int i = 0; i < PROCESSES; i++)
        helper_say(&processes[i], 0);
    for (int i = 0; i < PROCESSES; i++) {
        entries += helper_hear(&processes[i]);
        helper_join(&processes[i]);
    }
    check_int(entries, ==, STALE);
    check_int(count_events("job.recovered"), ==, STALE);
}

/* --- group commit --- */

enum { ADDS = 200 };
static int64_t added_ids[THREADS][ADDS];

static void *add_thread(void *arg)
{
    struct member *member = arg;
    for (int i = 0; i < ADDS; i++)
        added_ids[member->number][i] = add_one(member->t, "q");
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

static void check_all_were_added(void)
{
    int64_t *ids = &added_ids[0][0];
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 1; i < ADDS; i++) /* acknowledged one after the other */
            check_int(added_ids[thread][i], >, added_ids[thread][i - 1]);
    qsort(ids, THREADS * ADDS, sizeof *ids, by_value);
    for (int i = 1; i < THREADS * ADDS; i++)
        check_int(ids[i], >, ids[i - 1]);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q'"), ==, THREADS * ADDS);
}

TEST_WITHIN(threads, adds_of_many_threads_through_one_handle_are_all_there, 120)
{
    struct member members[THREADS];
    crowd(members, store_open_real("all"), add_thread);
    check_all_were_added();
}

static int64_t cancelled_id;

/* Every other thread only does what fails: it must not disturb those it shares a commit with. */
static void *add_or_fail_thread(void *arg)
{
    struct member *member = arg;
    struct tend_job_spec spec = spec_for("conflicts");
    struct tend_added added;
    if (member->number % 2 == 0)
        return add_thread(arg);
    spec.unique_key = "taken";
    spec.subject = "mine";
    for (int i = 0; i < ADDS; i++) {
        added_ids[member->number][i] = 0;
        check_rc(member->t, tend_add(member->t, &spec, &added), TEND_ECONFLICT);
        check_contains(tend_errmsg(member->t), "taken");
        check_rc(member->t, tend_act(member->t, TEND_HOLD, 987654321, NULL, NULL), TEND_ENOTFOUND);
        check_contains(tend_errmsg(member->t), "987654321"); /* each thread has its own sentence */
        if (i % 10 == 0)
            check_rc(member->t, tend_act(member->t, TEND_REDRIVE, cancelled_id, NULL, NULL),
                     TEND_ECONFLICT);
    }
    return NULL;
}

TEST_WITHIN(threads, a_call_that_fails_does_not_disturb_the_others_of_its_commit, 120)
{
    struct member members[THREADS];
    tend *t = store_open_real("all");
    struct tend_job_spec spec = spec_for("conflicts");
    spec.unique_key = "taken";
    spec.subject = "theirs";
    cancelled_id = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled_id, NULL, NULL));
    add_spec(t, &spec);
    crowd(members, t, add_or_fail_thread);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q'"), ==, THREADS / 2 * ADDS);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'conflicts'"), ==, 2);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.redriven'"), ==, 0);
}

/* --- races for one thing --- */

static struct tend_lease contested;

static void *complete_thread(void *arg)
{
    struct member *member = arg;
    check_ok(member->t, tend_complete(member->t, &contested, 1, NULL, NULL));
    return NULL;
}

TEST(threads, a_lease_completed_by_many_at_once_is_completed_once)
{
    struct member members[THREADS];
    tend *t = store_open_real("w");
    add_one(t, "q");
    contested = claim_one(t, "q");
    crowd(members, NULL, complete_thread);
    check_str(events_of(t, contested.id), "job.added job.claimed job.completed");
    check_int(job_of(t, contested.id)->attempts, ==, 1);
}

static void *end_thread(void *arg)
{
    struct member *member = arg;
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;
    if (member->number % 4 == 0)
        member->count = tend_complete(member->t, &contested, 1, NULL, NULL);
    else if (member->number % 4 == 1)
        member->count = tend_act(member->t, TEND_CANCEL, contested.id, NULL, NULL);
    else if (member->number % 4 == 2)
        member->count = tend_fail(member->t, contested, &failure, NULL);
    else
        member->count = tend_heartbeat(member->t, &contested, 1, TEND_UNSET, NULL);
    return NULL;
}

/* RC-11: whoever comes first wins, and the record shows that one alone. */
TEST(threads, complete_fail_and_cancel_at_once_end_a_job_once)
{
    struct member members[THREADS];
    tend *t = store_open_real("w");
    for (int round = 0; round < 10; round++) {
        add_one(t, "q");
        contested = claim_one(t, "q");
        crowd(members, t, end_thread);
        int state = state_of(t, contested.id);
        check(state == TEND_DONE || state == TEND_CANCELLED || state == TEND_FAILED);
        const char *ends[] = {[TEND_DONE] = "job.completed",
                              [TEND_CANCELLED] = "job.cancelled",
                              [TEND_FAILED] = "job.failed"};
        check_str(events_of(t, contested.id), keep_text("job.added job.claimed %s", ends[state]));
    }
}

static void *same_key_thread(void *arg)
{
    struct member *member = arg;
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.unique_key = "k";
    check_ok(member->t, tend_add(member->t, &spec, &added));
    member->count = added.outcome == TEND_OK;
    member->other = added.id;
    return NULL;
}

/* CL-7 */
TEST(threads, one_key_submitted_by_many_at_once_is_one_job)
{
    struct member members[THREADS];
    int64_t added = 0;
    crowd(members, NULL, same_key_thread);
    for (int i = 0; i < THREADS; i++) {
        added += members[i].count;
        check_int(members[i].other, ==, members[0].other);
    }
    check_int(added, ==, 1);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

/* --- closing --- */

struct guest {
    tend *t;
    pthread_barrier_t barrier;
};

static void *fail_and_stay(void *arg)
{
    struct guest *guest = arg;
    check_rc(guest->t, tend_queue_set(guest->t, "", NULL, 0, NULL), TEND_EINVAL);
    pthread_barrier_wait(&guest->barrier); /* it has used the handle */
    pthread_barrier_wait(&guest->barrier); /* the handle is closed */
    return NULL;
}

/* The sentence of such a thread was never freed: the build with the leak checker tells. */
TEST(threads, a_handle_is_closed_while_a_thread_that_used_it_lives_on)
{
    struct guest guest = {.t = store_open("w")};
    pthread_t thread;
    pthread_barrier_init(&guest.barrier, NULL, 2);
    check_int(pthread_create(&thread, NULL, fail_and_stay, &guest), ==, 0);
    pthread_barrier_wait(&guest.barrier);
    store_close(guest.t);
    pthread_barrier_wait(&guest.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&guest.barrier);
}
