/*
 * Answers of PostgreSQL that cannot be read, or that come late: what those who asked are told,
 * alone and together with others (store/pg_flight.c, store/pg_group.c).
 *
 * libpq makes up a result without SQLSTATE when it has no memory for the one that the server sent.
 * PQgetResult of this program does so for the results that a test spoils. That of a synchronisation
 * point it drops; PQmakeEmptyPGresult, by which libpq makes it, fails here when a test wants it to.
 */
#include "queue/handle.h"
#include "store/pg_db.h"
#include "support/store.h"

#include <dlfcn.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BIG_BYTES = 20000, PARTY = 4 };

/* --- results that libpq has no memory for --- */

enum spoil { SPOIL_NOTHING, SPOIL_BIG_ROWS, SPOIL_REFUSALS };

static atomic_int spoiled;

static bool has_big_row(const PGresult *result)
{
    for (int column = 0; PQntuples(result) > 0 && column < PQnfields(result); column++)
        if (PQgetlength(result, 0, column) >= BIG_BYTES)
            return true;
    return false;
}

PGresult *PQgetResult(PGconn *conn)
{
    PGresult *(*real)(PGconn *) = (PGresult * (*)(PGconn *)) dlsym(RTLD_NEXT, "PQgetResult");
    PGresult *result = real(conn);
    enum spoil spoil = (enum spoil)atomic_load(&spoiled);
    bool refusal = PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL;
    if ((spoil == SPOIL_BIG_ROWS && has_big_row(result)) || (spoil == SPOIL_REFUSALS && refusal)) {
        PQclear(result);
        return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
    }
    return result;
}

/* How many synchronisation points from now libpq has no memory for one; 0: it has, for all. */
static atomic_int lose_point;
static _Atomic(PGconn *) loser; /* whose point was lost, as long as it is open */
static atomic_int lost, waited; /* how many were lost, and what was read of losers after that */

PGresult *PQmakeEmptyPGresult(PGconn *conn, ExecStatusType status)
{
    PGresult *(*real)(PGconn *, ExecStatusType) =
        (PGresult * (*)(PGconn *, ExecStatusType)) dlsym(RTLD_NEXT, "PQmakeEmptyPGresult");
    if (status != PGRES_PIPELINE_SYNC || atomic_load(&lose_point) == 0 ||
        atomic_fetch_sub(&lose_point, 1) != 1)
        return real(conn, status);
    atomic_store(&loser, conn);
    atomic_fetch_add(&lost, 1);
    return NULL;
}

int PQconsumeInput(PGconn *conn)
{
    int (*real)(PGconn *) = (int (*)(PGconn *))dlsym(RTLD_NEXT, "PQconsumeInput");
    if (conn == atomic_load(&loser))
        atomic_fetch_add(&waited, 1);
    return real(conn);
}

void PQfinish(PGconn *conn)
{
    void (*real)(PGconn *) = (void (*)(PGconn *))dlsym(RTLD_NEXT, "PQfinish");
    if (conn == atomic_load(&loser))
        atomic_store(&loser, NULL);
    real(conn);
}

/* --- threads that commit together --- */

struct guest {
    tend *t;
    pthread_t thread;
    const char *kind;        /* of the job it adds; NULL: it adds none */
    struct tend_lease lease; /* that it completes; id 0: none, it claims from "big" */
    int rc;
    int64_t id; /* of the job added */
    const char *said;
};

static pthread_barrier_t all_are_here;

static void *ask(void *arg)
{
    struct guest *guest = arg;
    struct tend_job_spec spec = spec_for("q");
    struct tend_claim claim = claim_for("big");
    struct tend_added added = {0};
    struct tend_jobs *jobs;
    pthread_barrier_wait(&all_are_here);
    if (guest->kind != NULL) {
        spec.kind = guest->kind;
        guest->rc = tend_add(guest->t, &spec, &added);
        guest->id = added.id;
    } else if (guest->lease.id != 0) {
        guest->rc = tend_complete(guest->t, &guest->lease, 1, NULL, NULL);
    } else {
        guest->rc = tend_claim_jobs(guest->t, &claim, &jobs, NULL);
        if (guest->rc > 0)
            tend_jobs_free(jobs);
    }
    guest->said = keep_text("%s", tend_errmsg(guest->t));
    return NULL;
}

/* All at once. The first of them waits for the others, and mostly all come in time. */
static void ask_together(tend *t, struct guest guests[PARTY])
{
    struct pg_group *group = &((struct pg_db *)t->db)->group;
    t->workers_next_ms = t->alarms_next_ms =
        INT64_MAX; /* a claim is one flight, not a look before */
    pthread_mutex_lock(&group->mutex);
    group->flying = 1; /* the first finds one flight free, the others none */
    group->coming_back = PARTY;
    group->average_ns = INT64_C(1000000000);
    group->gather_rest = 0;
    pthread_mutex_unlock(&group->mutex);
    check_int(pthread_barrier_init(&all_are_here, NULL, PARTY), ==, 0);
    for (int i = 0; i < PARTY; i++) {
        guests[i].t = t;
        check_int(pthread_create(&guests[i].thread, NULL, ask, &guests[i]), ==, 0);
    }
    for (int i = 0; i < PARTY; i++)
        pthread_join(guests[i].thread, NULL);
    pthread_barrier_destroy(&all_are_here);
    pthread_mutex_lock(&group->mutex);
    group->flying = 0;
    pthread_mutex_unlock(&group->mutex);
}

static tend *open_shared(void)
{
    struct tend_options options = store_options("w");
    options.connections = 4;
    options.clock_ms = NULL;
    return store_open_with(&options);
}

/* How many transactions wrote the events since. */
static int64_t transactions_since(int64_t event_id)
{
    return sql_int("SELECT count(DISTINCT xmin::text) FROM event WHERE id > %lld",
                   (long long)event_id);
}

static int64_t newest_event(void)
{
    return sql_int("SELECT coalesce(max(id), 0) FROM event");
}

/* --- no memory for an answer --- */

static void add_big(tend *t, int count)
{
    static char payload[BIG_BYTES + 3];
    struct tend_job_spec spec = spec_for("big");
    memset(payload, 'x', sizeof payload - 1);
    payload[0] = payload[sizeof payload - 2] = '"';
    spec.payload = payload;
    for (int i = 0; i < count; i++)
        add_spec(t, &spec);
}

static void check_added(const struct guest *guest)
{
    check_int(guest->rc, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE id = %lld AND kind = '%s'",
                      (long long)guest->id, guest->kind),
              ==, 1);
}

/*
 * Symptom: a claim's answer could not be read for want of memory, and threads whose adds were
 * committed with it were told that they had failed. They added their jobs again.
 */
TEST_WITHIN(postgres_answer, one_that_cannot_be_read_concerns_only_those_it_is_for, 120)
{
    tend *t = open_shared();
    int rounds = 0;
    int64_t before;
    add_big(t, 1);
    check_int(claim_one(t, "big").id, >, 0); /* now it knows the queue, and a claim is one flight */
    sql_exec("DELETE FROM job");
    do {
        struct guest guests[PARTY] = {{.kind = "a"}, {0}, {.kind = "b"}, {0}};
        add_big(t, 2);
        before = newest_event();
        atomic_store(&spoiled, SPOIL_BIG_ROWS);
        ask_together(t, guests);
        atomic_store(&spoiled, SPOIL_NOTHING);
        rounds++;
        for (int i = 0; i < PARTY; i++) {
            if (guests[i].kind != NULL) {
                check_added(&guests[i]);
                continue;
            }
            check_int(guests[i].rc, ==, TEND_EUNREACHABLE);
            check_contains(guests[i].said, "out of memory");
            check_contains(guests[i].said, "whether it was saved is not known");
        }
        check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q'"), ==, 2 * rounds);
        check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'big' AND state = 2"), ==,
                  2 * rounds);
    } while (transactions_since(before) > 1);
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.claimed'"), ==, 1 + 2 * rounds);
    check(!db_is_blocked(t->db));
    check_int(add_one(t, "q"), >, 0);
}

/* Nothing was written, and that is known. */
TEST(postgres_answer, a_read_without_memory_for_its_answer_says_so)
{
    tend *t = open_shared();
    struct tend_filter filter;
    struct tend_jobs *jobs;
    tend_filter_init(&filter);
    add_big(t, 1);
    atomic_store(&spoiled, SPOIL_BIG_ROWS);
    check_rc(t, tend_list(t, &filter, &jobs), TEND_ENOMEM);
    atomic_store(&spoiled, SPOIL_NOTHING);
    check_ok(t, tend_list(t, &filter, &jobs));
    tend_jobs_free(jobs);
}

/*
 * Symptom: as above, for an answer that made no sense: completions that were committed together
 * with adds whose ids did not come back were told of an internal error.
 */
TEST_WITHIN(postgres_answer, ids_that_are_missing_concern_only_those_who_added, 120)
{
    tend *t = open_shared();
    int rounds = 0;
    sql_exec("CREATE TABLE swallowed (by xid8 DEFAULT pg_current_xact_id());"
             "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN INSERT INTO %s.swallowed DEFAULT VALUES; RETURN NULL; END';"
             "CREATE TRIGGER swallow BEFORE INSERT ON job FOR EACH ROW WHEN (NEW.kind = 'no') "
             "EXECUTE FUNCTION swallow()",
             store_schema());
    do {
        struct guest guests[PARTY] = {{.kind = "no"}, {0}, {.kind = "no"}, {0}};
        sql_exec("DELETE FROM swallowed");
        for (int i = 1; i < PARTY; i += 2) {
            add_one(t, "q");
            guests[i].lease = claim_one(t, "q");
        }
        ask_together(t, guests);
        rounds++;
        for (int i = 0; i < PARTY; i++)
            check_int(guests[i].rc, ==, i % 2 == 0 ? TEND_EINTERNAL : 0);
        check_int(sql_int("SELECT count(*) FROM swallowed"), ==, 2);
        check_int(sql_int("SELECT count(*) FROM job WHERE state = 4"), ==, 2 * rounds);
    } while (sql_int("SELECT count(*) FROM event WHERE what = 'job.completed' AND "
                     "xmin IN (SELECT by::xid FROM swallowed)") == 0);
}

/*
 * Symptom: without memory for the result of a synchronisation point, a claim waited for another
 * one, with its rows locked, until the server ended the session.
 */
TEST(postgres_answer, a_synchronisation_point_that_is_lost_is_not_waited_for)
{
    enum { POINTS = 4 }; /* of looks before the claim, of the claim, of the bell */
    struct tend_claim claim = claim_for("q");
    for (int point = 1; point <= POINTS; point++) {
        tend *t = open_shared();
        struct tend_jobs *jobs;
        add_one(t, "q");
        atomic_store(&lose_point, point);
        int rc = tend_claim_jobs(t, &claim, &jobs, NULL);
        atomic_store(&lose_point, 0);
        check_int(waited, ==, 0);
        if (rc > 0) { /* on another connection */
            tend_jobs_free(jobs);
            continue;
        }
        check_int(rc, ==, TEND_EUNREACHABLE);
        check_contains(tend_errmsg(t), "out of memory");
        check_contains(tend_errmsg(t), "whether it was saved is not known");
    }
    check_int(lost, >=, 2);
}

/* --- refusals --- */

/* A refusal without memory for its reason is one all the same: nothing was saved. */
TEST_WITHIN(postgres_answer, a_refusal_that_cannot_be_read_is_a_refusal, 120)
{
    tend *t = open_shared();
    sql_exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN RAISE EXCEPTION ''not this one''; END';"
             "CREATE TRIGGER refuse BEFORE INSERT ON job FOR EACH ROW WHEN (NEW.kind = 'no') "
             "EXECUTE FUNCTION refuse()");
    for (int rounds = 1; rounds <= 5; rounds++) {
        struct guest guests[PARTY] = {{.kind = "a"}, {.kind = "no"}, {.kind = "b"}, {.kind = "c"}};
        atomic_store(&spoiled, SPOIL_REFUSALS);
        ask_together(t, guests);
        atomic_store(&spoiled, SPOIL_NOTHING);
        for (int i = 0; i < PARTY; i++)
            check_int(guests[i].rc, ==, i == 1 ? TEND_ENOMEM : 0);
        check_int(sql_int("SELECT count(*) FROM job"), ==, 3 * rounds);
    }
}

/*
 * Symptom: what the server refused as late as at the commit (a deferred constraint, a serialization
 * failure) was acknowledged: "tend add" printed the id of a job that was not there.
 */
TEST_WITHIN(postgres_answer, BY_2_what_is_refused_at_the_commit_is_not_acknowledged, 120)
{
    tend *t = open_shared();
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    sql_exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
             "'BEGIN RAISE EXCEPTION ''not at the commit''; END';"
             "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON job DEFERRABLE INITIALLY DEFERRED "
             "FOR EACH ROW WHEN (NEW.kind = 'no') EXECUTE FUNCTION refuse()");
    spec.kind = "no";
    check_rc(t, tend_add(t, &spec, &added), TEND_EINTERNAL);
    check_contains(tend_errmsg(t), "not at the commit");
    for (int rounds = 1; rounds <= 5; rounds++) {
        struct guest guests[PARTY] = {{.kind = "a"}, {.kind = "no"}, {.kind = "b"}, {.kind = "c"}};
        ask_together(t, guests);
        for (int i = 0; i < PARTY; i++)
            check_int(guests[i].rc, ==, i == 1 ? TEND_EINTERNAL : 0);
        check_int(sql_int("SELECT count(*) FROM job"), ==, 3 * rounds);
    }
}

static int complete_without_memory(struct db_tx *tx, void *arg)
{
    const struct tend_lease *lease = arg;
    const struct db_value params[] = {db_int(lease->id), db_int(lease->token), db_null(),
                                      db_now(tx)};
    int64_t changed;
    int rc = db_each(tx, Q_JOB_COMPLETE, DB_LAST, params, 1, &changed);
    return rc < 0 ? rc : TEND_ENOMEM;
}

/* Symptom: a claim had no memory for what it had claimed, and said "" as if nothing had happened.
 * The jobs were leased. */
TEST(postgres_answer, BY_9_what_is_saved_and_then_not_kept_is_told_as_not_known)
{
    tend *t = open_shared();
    struct arena arena;
    struct err err = {0};
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    arena_init(&arena);
    check_int(db_write(t->db, &arena, complete_without_memory, &lease, &err), ==,
              TEND_EUNREACHABLE);
    check_contains(err.text, "out of memory; this was while saving: whether it was saved is not");
    check_int(state_of(t, id), ==, TEND_DONE);
    arena_done(&arena);
}
