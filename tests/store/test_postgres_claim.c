/*
 * Claims on PostgreSQL: they begin behind the last one while dead index entries are in their way
 * (store/pg_claim.c), and skip what others have locked. Neither may change the order (CL-4).
 */
#include "support/store.h"

#include "queue/handle.h"
#include "store/db_engine.h"
#include "store/queries.h"

static bool always(void *unused)
{
    (void)unused;
    return true;
}

/* A handle whose claims begin behind the last one whenever they can. */
static tend *open_behind(const char *name)
{
    struct db_options options = {
        .connections = 2, .busy_ms = PATIENCE_MS, .clock_ms = clock_read, .claim_behind = always};
    tend *t = store_open(name);
    db_close(t->db);
    t->db = NULL;
    check_int(db_open(&t->db, store_url(), &options, handle_err(t)), ==, 0);
    return t;
}

static int64_t add_with(tend *t, int priority, int64_t due_at_ms)
{
    struct tend_job_spec spec = spec_for("q");
    spec.priority = priority;
    spec.due_at_ms = due_at_ms;
    return add_spec(t, &spec);
}

/* Twenty jobs, of which three are claimed one by one. */
static struct tend_lease begin(tend *t)
{
    add_number(t, "q", 20);
    clock_advance(MINUTE_MS / 4);
    claim_one(t, "q");
    struct tend_lease second = claim_one(t, "q");
    claim_one(t, "q");
    return second;
}

/* Symptom: a simulated history in which a job given back was overtaken, and not again. */
TEST(postgres_claim, CL_4_a_job_given_back_by_another_handle_is_next)
{
    tend *t = open_behind("w");
    tend *other = store_open("v");
    struct tend_lease lease = begin(t);
    check_ok(other, tend_release(other, &lease, 1, 0, NULL, NULL));
    check_int(claim_one(t, "q").id, ==, lease.id);
    check_int(claim_one(t, "q").id, ==, lease.id + 2);
}

TEST(postgres_claim, CL_4_a_more_urgent_job_added_since_is_next)
{
    tend *t = open_behind("w");
    struct tend_lease lease = begin(t);
    int64_t urgent = add_with(store_open("v"), 0, TEND_UNSET);
    check_int(claim_one(t, "q").id, ==, urgent);
    check_int(claim_one(t, "q").id, ==, lease.id + 2);
}

TEST(postgres_claim, CL_4_a_job_added_with_a_time_in_the_past_is_next)
{
    tend *t = open_behind("w");
    struct tend_lease lease = begin(t);
    int64_t early = add_with(store_open("v"), TEND_PRIORITY_DEFAULT, clock_now() - MINUTE_MS);
    check_int(claim_one(t, "q").id, ==, early);
    check_int(claim_one(t, "q").id, ==, lease.id + 2);
}

/* Nothing behind the position, but a job before it: the queue is not empty. */
TEST(postgres_claim, CL_2_a_queue_is_not_said_to_be_empty_because_of_where_a_claim_began)
{
    tend *t = open_behind("w");
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    claim_one(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    check_rc(t, tend_next_with_lock(t, &claim, &jobs, NULL), 1);
    check_int(jobs->items[0].id, ==, lease.id);
    tend_jobs_free(jobs);
}

/* --- transactions that were undone --- */

static int locking_body(struct db_tx *tx, void *arg)
{
    struct job_claim_one_rows rows;
    const struct job_claim_one_params params = {.id = db_int(*(int64_t *)arg),
                                                .count = db_int(1),
                                                .owner = db_text("x"),
                                                .now = db_now(tx),
                                                .usual_ms = db_int(60000),
                                                .starts = db_int(1),
                                                .kind = db_text("")};
    int rc = run_job_claim_one(tx, 0, params, &rows);
    check_int(rows.count, ==, 1);
    return rc < 0 ? rc : err_set(db_err(tx), TEND_EINTERNAL, "undone");
}

static int claiming_body(struct db_tx *tx, void *arg)
{
    (void)arg;
    struct db_result rows;
    const struct job_claim_params params = {.queue = db_text("q"),
                                            .count = db_int(1),
                                            .owner = db_text("x"),
                                            .now = db_now(tx),
                                            .usual_ms = db_int(60000),
                                            .starts = db_int(1),
                                            .settings_version = db_int(0)};
    int rc = db_run(tx, Q_JOB_CLAIM, 0, DB_VALUES(&params), &rows);
    check_int(rows.rows, ==, 1);
    return rc < 0 ? rc : err_set(db_err(tx), TEND_EINTERNAL, "undone");
}

/*
 * Symptom: the end of an undone transaction was sent and not waited for, and a call right after it
 * skipped the rows that it still held: the recovery left a stale job, the claim took a younger one.
 */
TEST(postgres_claim, CL_4_what_an_undone_transaction_held_can_be_had_when_it_has_returned)
{
    enum { ROUNDS = 200 };
    struct db_options options = {.connections = 2, .busy_ms = PATIENCE_MS, .clock_ms = clock_read};
    tend *t = store_open("w");
    struct arena arena;
    struct err err;
    struct db *db;
    arena_init(&arena);
    check_int(db_open(&db, store_url(), &options, &err), ==, 0);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t id = add_one(t, "q");
        check_int(db_write(db, &arena, locking_body, &id, &err), ==, TEND_EINTERNAL);
        check_int(claim_one(t, "q").id, ==, id);
    }
    db_close(db);
    arena_done(&arena);
}

/* Symptom: after a claim that was undone, the next one began behind the job it had not taken. */
TEST(postgres_claim, CL_4_a_claim_that_was_undone_is_not_begun_behind)
{
    tend *t = open_behind("w");
    struct arena arena;
    struct err err;
    int64_t first = add_one(t, "q");
    add_one(t, "q");
    arena_init(&arena);
    check_int(db_write(t->db, &arena, claiming_body, NULL, &err), ==, TEND_EINTERNAL);
    check_int(claim_one(t, "q").id, ==, first);
    arena_done(&arena);
}
