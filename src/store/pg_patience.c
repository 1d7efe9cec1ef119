/*
 * How long a call may take.
 *
 * As a rule a call has busy_ms: so long it tries to reach the server, stands in line for a
 * connection and waits for a lock, each by itself (lock_timeout and statement_timeout of the
 * session), and for each answer a little longer, so that the server can say first what held it up.
 *
 * Rule: a call whose caller is in a hurry, who has less than that (db_write_within), ends by its
 * deadline, or LEAST_MS after its last statement was sent, whatever it waits for. The server is
 * told in the same flight, for that transaction; so it costs no round trip, and what was held up by
 * a lock ends with a refusal, of which one knows that nothing was saved. Work that takes longer
 * than LEAST_MS is not for those in a hurry.
 *
 * Rule: a handle that is told to hurry (db_hurry, by a runner that stops) has all its calls in a
 * hurry. Those under way end so much time after it was told; for that, whoever waits for the server
 * looks up every HURRY_LOOK_MS (pg_exec.c).
 */
#include "base/clock.h"
#include "store/pg_db.h"

#include <stdio.h>

enum {
    LEAST_MS = HURRY_LEAST_MS,          /* for a statement, however late it is */
    LOCK_MARGIN_MS = 100,               /* a wait for a lock ends before its statement does */
    ANSWER_MARGIN_MS = HURRY_MARGIN_MS, /* ... and that before we give up */
    ALIKE_MS = 250,
    CONNECT_LEAST_MS = 2000, /* without hurry */
};

static int64_t left_ms(const struct pg_patience *patience, int64_t least_ms)
{
    int64_t left = patience->deadline_ms - clock_mono_ms();
    return left > least_ms ? left : least_ms;
}

struct pg_patience pg_patience_start(const struct pg_db *db, int64_t wait_ms)
{
    int64_t most_ms = __atomic_load_n(&db->hurry.most_ms, __ATOMIC_SEQ_CST);
    if (most_ms > 0 && (wait_ms < 0 || wait_ms > most_ms))
        wait_ms = most_ms;
    bool hurried = wait_ms >= 0 && wait_ms < db->options.busy_ms;
    int64_t now_ms = clock_mono_ms();
    return (struct pg_patience){
        .begun_ms = now_ms,
        .deadline_ms = now_ms + (hurried ? wait_ms : db->options.busy_ms),
        .hurried = hurried,
    };
}

int64_t pg_patience_deadline(const struct pg_patience *patience, const struct pg_db *db)
{
    return hurry_until(&db->hurry, patience->begun_ms, patience->deadline_ms);
}

int64_t pg_patience_answer_ms(const struct pg_patience *patience, const struct pg_db *db)
{
    return patience->hurried ? left_ms(patience, LEAST_MS) + ANSWER_MARGIN_MS : pg_db_limit_ms(db);
}

int64_t pg_patience_connect_ms(const struct pg_patience *patience)
{
    return patience->hurried ? left_ms(patience, 0) + ANSWER_MARGIN_MS
                             : left_ms(patience, CONNECT_LEAST_MS);
}

bool pg_patience_alike(const struct pg_patience *one, const struct pg_patience *other)
{
    int64_t apart_ms = one->deadline_ms - other->deadline_ms;
    return one->hurried == other->hurried &&
           (!one->hurried || (apart_ms <= ALIKE_MS && apart_ms >= -ALIKE_MS));
}

const char *pg_patience_sql(const struct pg_patience *patience, char out[PG_HURRY_BYTES])
{
    if (!patience->hurried)
        return NULL;
    long long lock_ms = left_ms(patience, LEAST_MS);
    snprintf(out, PG_HURRY_BYTES,
             "SELECT set_config('lock_timeout', '%lldms', true), "
             "set_config('statement_timeout', '%lldms', true)",
             lock_ms, lock_ms + LOCK_MARGIN_MS);
    return out;
}
