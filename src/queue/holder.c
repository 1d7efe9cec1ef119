#include "queue/holder.h"

#include "base/timetext.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Columns 2 to 5 of job_skipped and job_row_holder. */
static void put_holder(const struct db_result *rows, size_t row, char out[HOLDER_BYTES])
{
    int64_t pid = db_number(rows, row, 2);
    const char *host = db_string(rows, row, 4);
    char since[DURATION_TEXT_BYTES];
    out[0] = '\0';
    if (pid != TEND_UNSET)
        snprintf(out, HOLDER_BYTES, "session %d of the server (%.32s%s%.32s), for %s", (int)pid,
                 db_string(rows, row, 3), host != NULL ? " on " : "", host != NULL ? host : "",
                 span_text(db_number(rows, row, 5), since));
}

int holder_read(struct db_tx *tx, int64_t job_id, char ret[HOLDER_BYTES])
{
    struct db_result rows;
    const struct db_value params[] = {db_int(job_id)};
    ret[0] = '\0';
    if (!db_concurrent(tx))
        return 0;
    int rc = db_run(tx, Q_JOB_ROW_HOLDER, 0, params, &rows);
    if (rc == 0 && rows.rows > 0)
        put_holder(&rows, 0, ret);
    return rc;
}

/* Rows of job_skipped, job_held or job_left. */
static void put_skipped(const struct db_result *rows, struct tend_recovery *ret)
{
    ret->entries_skipped = rows->rows > 0 ? db_number(rows, 0, 1) : 0;
    ret->skipped_by[0] = '\0';
    for (size_t i = 0; i < rows->rows; i++)
        ret->skipped_ids[i] = db_number(rows, i, 0);
    if (rows->rows > 0)
        put_holder(rows, 0, ret->skipped_by);
}

static int read_skipped(struct db_tx *tx, enum db_query query, int64_t silent_ms,
                        struct tend_recovery *ret)
{
    struct db_result rows = {0};
    const struct db_value params[] = {db_now(tx), db_int_or_null(silent_ms),
                                      db_int(TEND_SKIPPED_NAMED)};
    int rc = db_concurrent(tx) ? db_run(tx, query, 0, params, &rows) : 0;
    if (rc == 0)
        put_skipped(&rows, ret);
    return rc;
}

int holder_read_skipped(struct db_tx *tx, int64_t silent_ms, struct tend_recovery *ret)
{
    return read_skipped(tx, Q_JOB_SKIPPED, silent_ms, ret);
}

int holder_read_held(struct db_tx *tx, struct tend_recovery *ret)
{
    return read_skipped(tx, Q_JOB_HELD, TEND_UNSET, ret);
}

int holder_read_left(struct db_tx *tx, int64_t worker_id, bool all, struct tend_recovery *ret)
{
    struct db_result rows = {0};
    struct tend_recovery left = {0};
    const struct db_value params[] = {db_int(worker_id), db_int(TEND_SKIPPED_NAMED)};
    int rc = db_concurrent(tx) ? db_run(tx, Q_JOB_LEFT, 0, params, &rows) : 0;
    if (rc < 0 || rows.rows == 0)
        return rc;
    put_skipped(&rows, &left);
    if (all)
        left.entries_skipped = db_number(&rows, 0, 6);
    holder_add_skipped(ret, &left);
    return (int)db_number(&rows, 0, 6);
}

static size_t named(const struct tend_recovery *recovery)
{
    return recovery->entries_skipped < TEND_SKIPPED_NAMED ? (size_t)recovery->entries_skipped
                                                          : TEND_SKIPPED_NAMED;
}

static bool names(const struct tend_recovery *recovery, int64_t id)
{
    for (size_t i = 0; i < named(recovery); i++)
        if (recovery->skipped_ids[i] == id)
            return true;
    return false;
}

void holder_add_skipped(struct tend_recovery *ret, const struct tend_recovery *more)
{
    if (ret->entries_skipped == 0)
        memcpy(ret->skipped_by, more->skipped_by, sizeof ret->skipped_by);
    for (size_t i = 0; i < named(more); i++) {
        if (names(ret, more->skipped_ids[i]))
            continue;
        size_t at = named(ret);
        if (at < TEND_SKIPPED_NAMED)
            ret->skipped_ids[at] = more->skipped_ids[i];
        ret->entries_skipped++;
    }
    ret->entries_skipped += more->entries_skipped - (int64_t)named(more);
}

struct busy_call {
    int64_t job_id;
    char by[HOLDER_BYTES];
};

static int busy_body(struct db_tx *tx, void *arg)
{
    struct busy_call *call = arg;
    return holder_read(tx, call->job_id, call->by);
}

int holder_explain_busy(tend *t, int rc, int64_t job_id, const char *what)
{
    struct busy_call call = {.job_id = job_id};
    if (rc != TEND_EBUSY)
        return rc;
    struct err kept = *handle_err(t);
    if (handle_read(t, busy_body, &call) < 0 || call.by[0] == '\0') {
        *handle_err(t) = kept;
        return rc;
    }
    return handle_fail(
        t, TEND_EBUSY,
        "job %lld cannot be %s now: its row is locked by %s, which is writing or was "
        "cut off while it wrote; try again when that session has ended",
        (long long)job_id, what, call.by);
}

void holder_pause(void)
{
    enum { AGAIN_MS = 20 };
    nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
}
