/*
 * The keeper's session: its connection and what is done over it, by the keeper's thread alone.
 *
 * The bell. Nobody sends a NOTIFY that nobody waits for. Who waits shows it by shared advisory
 * locks in all of PG_BELL_SLOTS slots; who has news tries for an exclusive lock in the slot of its
 * own backend, and rings only when it cannot have it. (One slot would do; many keep those with news
 * out of each other's way.) No wake-up is lost, because the waiter takes its locks before its last
 * look for work:
 *
 *   - Most try after their commit (bell_sql). If the try came before the waiter had its locks, the
 * commit could be seen before the look, and the look finds it; otherwise the try fails, and the
 * bell rings.
 *   - The adding of jobs tries within its transaction (nobody_waits) and keeps the lock until it
 * ends, which is after its commit can be seen. If it got the lock, the waiter could not have all of
 * its own before that, and its look finds the job; if not, the bell rings after the commit.
 *
 * That a look follows is seen to by counting the taking of the locks as a ring of all bells. Locks
 * end with the session, so a dead waiter costs nobody anything.
 *
 * Which bells rang is the payload of the NOTIFY: a bit mask in hexadecimal digits, nothing for all
 * of them, or "workers" when somebody is to choose a neighbour anew.
 *
 * The neighbour. Every handle with a waiting thread looks after the next worker above its own,
 * going around, by trying that worker's liveness lock every PROBE_MS. A blocking request for the
 * lock would need no timer, but would keep a snapshot open for as long as it waits, and no dead row
 * of the database could be removed meanwhile, which is what slows claims down most.
 */
#include "store/pg_session.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <tend.h>
#include <unistd.h>

enum {
    PROBE_MS = 50,
    CHOOSE_MS = 5000, /* how often the neighbour is chosen anew without a reason */
    LOCK_TRIES = 20,  /* a neighbour may just be probing a lock that is wanted */
    LOCK_AGAIN_MS = 500,
    /* With the jitter far below the grace, after which others take a lost worker for dead. */
    RECONNECT_FIRST_MS = 50,
    RECONNECT_LONGEST_MS = 300,
    CONNECT_FIRST_MS = 1000, /* how long the first try may take; each that fails doubles it */
    CONNECT_LONGEST_MS = 10000,
    ANSWER_MS = 2000, /* a keeper that hangs loses its workers */
    SILENCE_S = 1,    /* after which the kernel looks whether the server is still there */
    SILENT_PROBES = 3,
    GONE_LOOK_MS = 60000, /* there is nothing to come back to */
    REMIND_MS = 30,       /* a lost worker is reported again after its grace, with this to spare */
};

void pg_session_init(struct pg_session *session, struct pg_db *db)
{
    *session = (struct pg_session){.db = db, .remind_at_ms = {INT64_MAX, INT64_MAX}};
}

void pg_session_done(struct pg_session *session)
{
    pg_disconnect(session->pg);
    free(session->held);
}

/* Tells the waiting threads. */
static void tell(struct pg_db *db, uint64_t bells, unsigned deaths)
{
    struct waiter *waiter = &db->waiter;
    uint64_t one = 1;
    pthread_mutex_lock(&waiter->mutex);
    waiter_ring(waiter, bells);
    waiter->deaths += deaths;
    pthread_cond_broadcast(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
    ssize_t ignored = write(waiter->nudge_fd, &one, sizeof one);
    (void)ignored;
}

/* --- the connection --- */

/* err says why. */
static void drop(struct pg_session *session)
{
    pg_disconnect(session->pg);
    session->pg = NULL;
    session->held_count = 0;
    session->registered = false;
    session->neighbour = 0;
    session->connect_at_ms = clock_mono_ms();
    tell(session->db, DB_BELLS_ALL, 0); /* nobody may rely on it any more */
}

/* What the server says of a statement that it has ended because it waited or ran too long. */
static bool waited(const char *state, bool for_many)
{
    return state != NULL &&
           (strcmp(state, "55P03") == 0 || (for_many && strcmp(state, "57014") == 0));
}

/*
 * Runs a statement; the first value of its answer goes to ret (may be NULL). False: the session is
 * gone, or the statement has waited too long for a lock; of one that waits for_many, the time of
 * all the waits together may have been too long.
 */
static bool ask_for(struct pg_session *session, const char *sql, bool for_many, char *ret,
                    size_t size)
{
    if (session->pg == NULL)
        return false;
    PGresult *result = pg_exec(session->pg, sql, ANSWER_MS, NULL);
    ExecStatusType status = PQresultStatus(result);
    bool fine = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (fine && ret != NULL)
        snprintf(ret, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool waited_too_long = waited(state, for_many);
    if (result == NULL)
        pg_error_silent(session->db->url.where, ANSWER_MS, &session->err);
    else if (!fine && !waited_too_long)
        pg_error(result, "a statement of the keeper", session->db->url.where, &session->err);
    PQclear(result);
    if (!fine && !waited_too_long)
        drop(session);
    return fine;
}

static bool ask(struct pg_session *session, const char *sql, char *ret, size_t size)
{
    return ask_for(session, sql, false, ret, size);
}

static void try_later(struct pg_session *session)
{
    session->connect_limit_ms *= 2;
    session->connect_delay_ms *= 2;
    if (session->connect_delay_ms == 0)
        session->connect_delay_ms = RECONNECT_FIRST_MS;
    if (session->connect_delay_ms > RECONNECT_LONGEST_MS)
        session->connect_delay_ms = RECONNECT_LONGEST_MS;
    double share = 0.5 + pg_db_random(session->db);
    session->connect_at_ms = clock_mono_ms() + (int64_t)((double)session->connect_delay_ms * share);
}

/*
 * The keeper may have nothing to say for hours, and a server that went away without a word, as in a
 * failover, would be missed only when the new one has taken its workers for dead. The kernel asks
 * for it, which wakes nobody. (On a socket of this machine there is nothing to ask.)
 */
static void watch_line(PGconn *pg)
{
    const int on = 1;
    const int seconds = SILENCE_S;
    const int probes = SILENT_PROBES;
    const unsigned ms = 1000 * SILENCE_S * (SILENT_PROBES + 1);
    int fd = PQsocket(pg);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* NULL, with the sentence in err. */
static PGconn *connect_own(struct pg_session *session)
{
    struct pg_db *db = session->db;
    bool refused = false;
    bool ours = true;
    PGconn *pg = NULL;
    int64_t limit_ms = session->connect_limit_ms;
    limit_ms = limit_ms < CONNECT_FIRST_MS     ? CONNECT_FIRST_MS
               : limit_ms > CONNECT_LONGEST_MS ? CONNECT_LONGEST_MS
                                               : limit_ms;
    session->connect_limit_ms = limit_ms;
    int rc = pg_connect(&pg, &db->url, limit_ms, &db->hurry, &refused, &session->err);
    if (rc == 0)
        rc = pg_settings_apply(pg, db, ANSWER_MS, &ours, &session->err);
    if (rc == 0 && !ours)
        rc = pg_settings_shared(db, &session->err);
    if (rc == 0) {
        watch_line(pg);
        return pg;
    }
    pg_disconnect(pg);
    return NULL;
}

void pg_session_connect(struct pg_session *session)
{
    struct pg_db *db = session->db;
    char sql[384 + sizeof db->identity_sql];
    char identity[64] = "";
    if (session->pg != NULL || clock_mono_ms() < session->connect_at_ms)
        return;
    if (pg_gone(db)) {
        session->connect_at_ms = clock_mono_ms() + GONE_LOOK_MS;
        return;
    }
    PGconn *pg = connect_own(session);
    if (pg == NULL) {
        try_later(session);
        return;
    }
    session->pg = pg;
    snprintf(
        sql, sizeof sql,
        "SELECT set_config('application_name', current_setting('application_name') || ' keeper', "
        "false); SET lock_timeout = '1s'; SET statement_timeout = '%dms'; "
        "SET synchronous_commit = off; LISTEN \"%s\"; %s",
        ANSWER_MS - 200, db->url.channel, db->identity_sql);
    if (!ask(session, sql, identity, sizeof identity)) {
        if (session->err.code == TEND_ENOTADB)
            pg_gone_say(db, &session->err);
        try_later(session);
        return;
    }
    if (pg_gone_check(db, identity, &session->err) < 0) {
        drop(session);
        try_later(session);
        return;
    }
    session->connect_delay_ms = 0;
    session->connect_limit_ms = 0;
    session->choose_at_ms = 0;
    session->locks_at_ms = 0;
    err_clear(&session->err);
    if (session->ever_connected)
        tell(db, DB_BELLS_ALL, 0); /* they may have rung meanwhile */
    session->ever_connected = true;
}

/* --- liveness locks --- */

static bool has(const int64_t *ids, size_t count, int64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Calls a function of advisory locks on a worker's; false: it did not do it. */
static bool call_lock(struct pg_session *session, const char *function, int64_t id)
{
    char sql[128];
    char answer[8] = "";
    snprintf(sql, sizeof sql, "SELECT %s(%d, %d)", function,
             (int)pg_lock_class(&session->db->url, PG_LOCK_ALIVE), (int)(int32_t)id);
    return ask(session, sql, answer, sizeof answer) && answer[0] == 't';
}

/*
 * Never blocking: after a cut line the server may take its time to give up the session that had the
 * lock before, which counts as a sign of life until then.
 */
static bool take_lock(struct pg_session *session, int64_t id)
{
    for (int i = 0; i < LOCK_TRIES && session->pg != NULL; i++) {
        if (call_lock(session, "pg_try_advisory_lock", id))
            return true;
        pg_db_sleep(1);
    }
    return false;
}

enum claim { CLAIM_HELD, CLAIM_NOT_NOW, CLAIM_BURIED };

/*
 * With the lock in hand nobody can take the worker for dead any more (db_alive_deny); so it is now
 * that one can see whether somebody has. And it was back, whoever has missed it before.
 */
static enum claim add_lock(struct pg_session *session, int64_t id)
{
    char sql[160];
    char answer[8] = "";
    int64_t *grown = realloc(session->held, (session->held_count + 1) * sizeof *grown);
    if (grown == NULL)
        return CLAIM_NOT_NOW;
    session->held = grown;
    if (!take_lock(session, id))
        return CLAIM_NOT_NOW;
    snprintf(sql, sizeof sql, "UPDATE \"%s\".worker SET lost_at = NULL WHERE id = %lld RETURNING 1",
             session->db->url.schema, (long long)id);
    bool asked = ask(session, sql, answer, sizeof answer);
    if (asked && answer[0] == '1') {
        session->held[session->held_count++] = id;
        return CLAIM_HELD;
    }
    call_lock(session, "pg_advisory_unlock", id);
    return asked ? CLAIM_BURIED : CLAIM_NOT_NOW;
}

size_t pg_session_hold(struct pg_session *session, int64_t *workers, size_t count)
{
    char sql[128];
    bool changed = false;
    size_t missing = 0;
    for (size_t i = 0; i < session->held_count;) {
        if (has(workers, count, session->held[i])) {
            i++;
            continue;
        }
        call_lock(session, "pg_advisory_unlock", session->held[i]);
        if (session->pg == NULL)
            return count;
        session->held[i] = session->held[--session->held_count];
        changed = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (has(session->held, session->held_count, workers[i]))
            continue;
        enum claim claim =
            clock_mono_ms() >= session->locks_at_ms ? add_lock(session, workers[i]) : CLAIM_NOT_NOW;
        missing += claim == CLAIM_NOT_NOW;
        changed |= claim == CLAIM_HELD;
        if (claim == CLAIM_BURIED)
            workers[i] = 0;
    }
    if (missing > 0 && clock_mono_ms() >= session->locks_at_ms)
        session->locks_at_ms = clock_mono_ms() + LOCK_AGAIN_MS;
    if (changed) { /* everybody who waits chooses a neighbour anew */
        snprintf(sql, sizeof sql, "SELECT pg_notify('%s', 'workers')", session->db->url.channel);
        ask(session, sql, NULL, 0);
    }
    return session->pg == NULL ? count : missing;
}

/* --- the bell --- */

static bool call_slots(struct pg_session *session, const char *function)
{
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT %s(%d, slot) FROM generate_series(0, %d) AS slot", function,
             (int)pg_lock_class(&session->db->url, PG_LOCK_BELL), PG_BELL_SLOTS - 1);
    return ask_for(session, sql, true, NULL, 0);
}

void pg_session_register(struct pg_session *session, bool waits)
{
    int64_t now_ms = clock_mono_ms();
    if (session->pg == NULL || waits == session->registered || now_ms < session->register_at_ms)
        return;
    if (!waits) {
        if (call_slots(session, "pg_advisory_unlock_shared"))
            session->registered = false;
        return;
    }
    if (call_slots(session, "pg_advisory_lock_shared")) {
        session->registered = true;
        tell(session->db, DB_BELLS_ALL, 0);
    } else if (session->pg != NULL) {
        /* A transaction that adds jobs is stuck, perhaps its process is stopped. The locks that
           were had are kept by the server although the statement failed. */
        call_slots(session, "pg_advisory_unlock_shared");
        session->register_at_ms = now_ms + LOCK_AGAIN_MS;
    }
}

void pg_session_hear(struct pg_session *session)
{
    uint64_t bells = 0;
    if (session->pg == NULL)
        return;
    if (PQconsumeInput(session->pg) != 1) {
        pg_error_lost(session->pg, session->db->url.where, &session->err);
        drop(session);
        return;
    }
    for (PGnotify *note; (note = PQnotifies(session->pg)) != NULL; PQfreemem(note)) {
        if (strcmp(note->extra, "workers") == 0)
            session->choose_at_ms = 0;
        else
            bells |= note->extra[0] == '\0' ? DB_BELLS_ALL : strtoull(note->extra, NULL, 16);
    }
    if (bells != 0)
        tell(session->db, bells, 0);
}

/* --- the neighbour --- */

/* The next above the highest of our own, going around, of those that are alive. */
static void choose_neighbour(struct pg_session *session, int64_t now_ms)
{
    char sql[640];
    char found[32];
    uint32_t self = 0; /* the server knows of an id what fits into the key of a lock */
    for (size_t i = 0; i < session->held_count; i++)
        if ((uint32_t)session->held[i] > self)
            self = (uint32_t)session->held[i];
    session->choose_at_ms = now_ms + CHOOSE_MS;
    snprintf(sql, sizeof sql,
             "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = %d AND "
             "objsubid = 2 AND mode = 'ExclusiveLock' AND granted AND pid <> pg_backend_pid() AND "
             "database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
             "ORDER BY objid::bigint < %u, objid::bigint LIMIT 1",
             (int)pg_lock_class(&session->db->url, PG_LOCK_ALIVE), self);
    if (ask(session, sql, found, sizeof found))
        session->neighbour = strtoll(found, NULL, 10);
}

static void neighbour_is_lost(struct pg_session *session, int64_t now_ms)
{
    int64_t again_ms = now_ms + session->db->base.engine->alive_grace_ms + REMIND_MS;
    session->neighbour = 0;
    session->choose_at_ms = now_ms;
    session->remind_at_ms[0] = again_ms;
    session->remind_at_ms[1] =
        again_ms + 10 * REMIND_MS; /* in case the first came a little early */
    tell(session->db, 0, 1);
}

void pg_session_probe(struct pg_session *session)
{
    int64_t now_ms = clock_mono_ms();
    if (now_ms >= session->choose_at_ms)
        choose_neighbour(session, now_ms);
    if (session->pg == NULL || session->neighbour == 0 || now_ms < session->probe_at_ms)
        return;
    session->probe_at_ms = now_ms + PROBE_MS;
    if (call_lock(session, "pg_try_advisory_xact_lock_shared", session->neighbour))
        neighbour_is_lost(session, now_ms);
}

void pg_session_remind(struct pg_session *session)
{
    for (int i = 0; i < 2; i++) {
        if (clock_mono_ms() < session->remind_at_ms[i])
            continue;
        session->remind_at_ms[i] = INT64_MAX;
        tell(session->db, 0, 1);
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int pg_session_idle_ms(const struct pg_session *session, bool waits)
{
    int64_t now_ms = clock_mono_ms();
    int64_t at_ms = earlier(session->remind_at_ms[0], session->remind_at_ms[1]);
    if (session->pg == NULL)
        at_ms = earlier(at_ms, session->connect_at_ms);
    else if (waits)
        at_ms = earlier(at_ms, session->choose_at_ms);
    if (waits && session->neighbour != 0)
        at_ms = earlier(at_ms, session->probe_at_ms);
    if (session->pg != NULL && session->locks_at_ms > now_ms)
        at_ms = earlier(at_ms, session->locks_at_ms);
    if (at_ms == INT64_MAX)
        return -1;
    return at_ms <= now_ms ? 0 : (int)earlier(at_ms - now_ms, 60000);
}
