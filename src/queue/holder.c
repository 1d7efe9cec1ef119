#include "queue/holder.h"

#include "base/timetext.h"

#include <stdio.h>

/* Columns 2 to 5 of job_skipped and job_row_holder. */
static void put_holder(const struct db_result *rows, size_t row, char out[HOLDER_BYTES])
{
    int64_t pid = db_number(rows, row, 2);
    const char *host = db_string(rows, row, 4);
    char since[DURATION_TEXT_BYTES];
    out[0] = '\0';
    if (pid != TEND_UNSET)
        snprintf(out, HOLDER_BYTES, "session %lld of the server (%.40s%s%.40s), for %s",
                 (long long)pid, db_string(rows, row, 3), host != NULL ? " on " : "",
                 host != NULL ? host : "", duration_text(db_number(rows, row, 5), since));
}

int holder_read(struct db_tx *tx, int64_t job_id, char ret[HOLDER_BYTES])
{
    struct db_result rows;
    const struct db_value params[] = {db_int(job_id)};
    ret[0] = '\0';
    int rc = db_concurrent(tx) ? db_run(tx, Q_JOB_ROW_HOLDER, 0, params, &rows) : 0;
    if (rc == 0 && db_concurrent(tx) && rows.rows > 0)
        put_holder(&rows, 0, ret);
    return rc;
}

int holder_read_skipped(struct db_tx *tx, int64_t silent_ms, struct tend_recovery *ret)
{
    struct db_result rows;
    const struct db_value params[] = {db_now(tx), db_int_or_null(silent_ms),
                                      db_int(TEND_SKIPPED_NAMED)};
    ret->entries_skipped = 0;
    ret->skipped_by[0] = '\0';
    if (!db_concurrent(tx))
        return 0;
    int rc = db_run(tx, Q_JOB_SKIPPED, 0, params, &rows);
    for (size_t i = 0; rc == 0 && i < rows.rows; i++) {
        ret->skipped_ids[i] = db_number(&rows, i, 0);
        ret->entries_skipped = db_number(&rows, i, 1);
        if (i == 0)
            put_holder(&rows, i, ret->skipped_by);
    }
    return rc;
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
