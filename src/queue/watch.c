/*
 * tend_wait_jobs: sleeps until a job changes.
 *
 * A change rings the bell of the job's queue, with two exceptions (bell.h): a claim, and the end of
 * a short job in a queue without limits. So a waiter also looks by itself, the more often the
 * younger the last change is, and once a second at least. Where a queue's bell rings all the time,
 * it looks every LOOK_LEAST_MS.
 */
#include "base/buf.h"
#include "core/state.h"
#include "queue/recover.h"
#include "queue/wait.h"
#include "store/queries.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_LEAST_MS = 20, LOOK_MOST_MS = 1000, JOBS_MOST = 100000 };

struct watch_call {
    const struct tend_watch *jobs; /* as last seen */
    struct tend_watch *now;        /* as they are */
    size_t count;
    const char *ids;   /* as a JSON array */
    uint64_t bells;    /* of their queues */
    int64_t look_ms;   /* until the next look by itself */
    int64_t looked_ms; /* monotonic: when the last began */
};

/* NULL: there is no such job. */
static const struct job_watch_row *row_of(const struct job_watch_rows *rows, int64_t id)
{
    size_t low = 0;
    size_t high = rows->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (db_num(rows->at[middle].id) < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows->count && db_num(rows->at[low].id) == id ? &rows->at[low] : NULL;
}

/* Half the time for which nothing has changed. */
static int64_t pause_of(int64_t changed_ms, int64_t now_ms)
{
    int64_t half_ms = (now_ms - changed_ms) / 2;
    return half_ms < LOOK_LEAST_MS  ? LOOK_LEAST_MS
           : half_ms > LOOK_MOST_MS ? LOOK_MOST_MS
                                    : half_ms;
}

static void read_jobs(struct watch_call *call, const struct job_watch_rows *rows)
{
    for (size_t i = 0; i < call->count; i++) {
        const struct job_watch_row *row = row_of(rows, call->jobs[i].id);
        call->now[i] = (struct tend_watch){.id = call->jobs[i].id, .version = 1, .state = -1};
        if (row == NULL)
            continue;
        call->now[i].version = db_num(row->version);
        call->now[i].state = (int)db_num(row->state);
    }
}

static int look_body(struct db_tx *tx, void *arg)
{
    struct watch_call *call = arg;
    struct job_watch_rows rows;
    const struct job_watch_params params = {.ids = db_text(call->ids), .now = db_now(tx)};
    int rc = run_job_watch(tx, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    call->bells = 0;
    call->look_ms = LOOK_MOST_MS;
    for (size_t i = 0; i < rows.count; i++) {
        const struct job_watch_row *row = &rows.at[i];
        int64_t pause_ms = pause_of(db_num(row->changed_at), db_num(row->now));
        call->bells |= db_bell_of(db_str(row->queue));
        if (!state_is_finished((enum job_state)db_num(row->state)) && pause_ms < call->look_ms)
            call->look_ms = pause_ms;
    }
    read_jobs(call, &rows);
    return 0;
}

static int count_changed(const struct watch_call *call)
{
    int changed = 0;
    for (size_t i = 0; i < call->count; i++)
        changed += call->jobs[i].version != call->now[i].version ||
                   call->jobs[i].state != call->now[i].state;
    return changed;
}

/* Until a bell rings after `heard`, or it is time for the next look. */
static int sleep_once(tend *t, const struct watch_call *call, uint64_t heard,
                      const struct wait_clock *clock)
{
    int64_t patience_ms = wait_clock_patience(clock);
    int rc = wait_watch(t, clock);
    if (rc < 0)
        return rc;
    recover_on_timer(t, patience_ms, wait_clock_limit(clock, LOOK_MOST_MS));
    rc = db_wait(t->db, call->bells, heard, wait_clock_limit(clock, call->look_ms), handle_err(t));
    int64_t least_ms = call->looked_ms + LOOK_LEAST_MS - db_mono_ms(t->db);
    if (rc == DB_RANG && least_ms > 0) /* what rings in this pause is heard by the look after it */
        rc = db_wait(t->db, 0, 0, wait_clock_limit(clock, least_ms), handle_err(t));
    if (rc == DB_INTERRUPTED)
        return handle_fail(t, TEND_EINTERRUPTED, "interrupted while waiting for jobs");
    if (rc == DB_DEATH)
        recover_dead_quietly(t, patience_ms);
    return rc < 0 ? rc : 0;
}

/* Looks until something has changed, or the time is over. How many have changed. */
static int watch(tend *t, struct watch_call *call, const struct wait_clock *clock)
{
    for (;;) {
        uint64_t bells = call->bells;
        uint64_t heard = db_bell(t->db, bells);
        call->looked_ms = db_mono_ms(t->db);
        int rc = handle_read_within(t, wait_clock_patience(clock), look_body, call);
        if (rc < 0 || (rc = count_changed(call)) > 0)
            return rc;
        if (wait_clock_over(clock))
            return 0;
        /* Before the first look their bells were not known. */
        if (bells == call->bells && (rc = sleep_once(t, call, heard, clock)) < 0)
            return rc;
    }
}

int tend_wait_jobs(tend *t, struct tend_watch *jobs, size_t count, int64_t timeout_ms)
{
    if (count == 0 || count > JOBS_MOST)
        return handle_fail(t, TEND_EINVAL, "%zu jobs cannot be waited for; give 1 to %d", count,
                           JOBS_MOST);
    if (timeout_ms < -1)
        return handle_fail(t, TEND_EINVAL, "waiting for %lld ms is not possible; -1 is for ever",
                           (long long)timeout_ms);
    struct watch_call call = {.jobs = jobs, .count = count, .now = calloc(count, sizeof *call.now)};
    struct wait_clock clock = wait_clock_start(timeout_ms);
    struct buf ids;
    buf_init(&ids);
    for (size_t i = 0; i < count; i++)
        buf_printf(&ids, "%s%" PRId64, i == 0 ? "[" : ",", jobs[i].id);
    buf_putc(&ids, ']');
    call.ids = ids.data;
    int rc = ids.failed || call.now == NULL
                 ? handle_fail(t, TEND_ENOMEM, "out of memory while waiting for %zu jobs", count)
                 : watch(t, &call, &clock);
    if (rc > 0)
        memcpy(jobs, call.now, count * sizeof *jobs);
    free(call.now);
    buf_done(&ids);
    return rc;
}
