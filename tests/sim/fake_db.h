/*
 * A store engine around a real one: every call goes through here, and here faults strike.
 *
 * It also keeps the callers to the letter of db.h: the result of a query marked DB_LATER is
 * withheld until the next one that is not, nothing may follow DB_LAST, and a body may be run twice.
 *
 * Liveness is the simulation's own, because all actors live in one process: an actor is alive until
 * it crashes, and its registration is written as one of another pid namespace, so that nobody asks
 * the kernel about it.
 */
#ifndef SIM_FAKE_DB_H
#define SIM_FAKE_DB_H

#include "sim.h"

enum { MAX_LATER = 16 };

/* The result of a query marked DB_LATER. */
struct withheld {
    struct db_result *result;
    struct db_result result_value;
    int64_t *each;
    int64_t *each_value;
    size_t count;
};

struct fake_db {
    struct db base;
    struct db_engine engine;
    struct db *real;
    struct world *world;
    struct actor *actor;

    /* The transaction under way. */
    bool writing;
    bool discard;   /* it is to be undone whatever comes of it */
    bool last_seen; /* a query with DB_LAST has been run */
    int fail_at;    /* the query that fails, counted from 1; 0: none */
    int queries;
    int late_error; /* of a query marked DB_LATER */
    struct withheld later[MAX_LATER];
    size_t later_count;
    struct db_value now;
    struct clock_mark at; /* when it began */
    bool changed;         /* it has changed something */
    uint64_t ring;
};

int fake_out_of_reach(struct fake_db *fake, struct err *err);

/* What happens before a call; 0 when it shall go on. */
int fake_before(struct fake_db *fake, enum point point, bool *ret_again, struct err *err);

/* fake_live.c */
uint64_t fake_bell(struct db *db, uint64_t bells);
int fake_wait(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms, struct err *err);
int64_t fake_mono_ms(const struct db *db);
void fake_interrupt(struct db *db);
int fake_watch(struct db *db, const struct db_watched *workers, size_t count, struct err *err);
int fake_alive_begin(struct db *db, int64_t worker_id, int64_t wait_ms, struct err *err);
void fake_alive_end(struct db *db, int64_t worker_id);
bool fake_alive_buried(struct db *db, int64_t worker_id);
int fake_alive_deny(struct db_tx *tx, int64_t worker_id);
int fake_alive_check(struct db *db, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                     bool *ret_alive, struct err *err);

#endif
