/* Waits that take no time: the clock is moved by as much as the wait would last, and nothing else
 * happens meanwhile. So a test sees how long somebody would have slept, however fast it runs. */
#ifndef TEND_TEST_LEAP_H
#define TEND_TEST_LEAP_H

#include "support/store.h"

#include "queue/handle.h"
#include "store/db_engine.h"

static struct {
    struct db_engine engine;
    int64_t waits;         /* how many there were */
    void (*on_wait)(void); /* called before each; may be NULL */
} leap;

static inline int leap_wait(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms,
                            struct err *err)
{
    (void)db;
    (void)bells;
    (void)seen;
    (void)err;
    leap.waits++;
    if (leap.on_wait != NULL)
        leap.on_wait();
    clock_advance(timeout_ms);
    return DB_TIMEOUT;
}

static inline int64_t leap_mono_ms(const struct db *db)
{
    (void)db;
    return clock_now();
}

/* From now on, for this handle, which must have been opened by store_open. */
static inline void leap_over_waits(tend *t)
{
    leap.engine = *t->db->engine;
    leap.engine.wait = leap_wait;
    leap.engine.mono_ms = leap_mono_ms;
    t->db->engine = &leap.engine;
}

/* Waits for a job of this queue, which must come. */
static inline void wait_for_one(tend *t, const char *queue)
{
    struct tend_claim claim = claim_for(queue);
    claim.wait_ms = PATIENCE_MS;
    claim_with(t, &claim);
}

/* Adds a job that is due after delay_ms, and waits for it: it must come at that moment. */
static inline void check_a_delayed_job_is_in_time(tend *t, int64_t delay_ms)
{
    struct tend_job_spec spec = spec_for("delayed");
    spec.delay_ms = delay_ms;
    add_spec(t, &spec);
    int64_t due_ms = clock_now() + delay_ms;
    wait_for_one(t, "delayed");
    check_int(clock_now(), ==, due_ms);
}

#endif
