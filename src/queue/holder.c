#include "queue/holder.h"

#include "base/timetext.h"
#include "store/queries.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void put_holder(const struct holder_columns *holder, char out[HOLDER_BYTES])
{
    int64_t pid = db_num(holder->pid);
    const char *host = db_str(holder->host);
    char since[DURATION_TEXT_BYTES];
    out[0] = '\0';
    if (pid != TEND_UNSET)
        snprintf(out, HOLDER_BYTES, "session %d of the server (%.32s%s%.32s), for %s", (int)pid,
                 db_str(holder->program), host != NULL ? " on " : "", host != NULL ? host : "",
                 span_text(db_num(holder->for_ms), since));
}

int holder_read(struct db_tx *tx, int64_t job_id, char ret[HOLDER_BYTES])
{
    struct job_row_holder_rows rows;
    ret[0] = '\0';
    if (!db_concurrent(tx))
        return 0;
    int rc = run_job_row_holder(tx, 0, (struct job_row_holder_params){.id = db_int(job_id)}, &rows);
    if (rc == 0 && rows.count > 0)
        put_holder(&rows.at[0].holder, ret);
    return rc;
}

/* job_skipped or job_held, which have the same parameters and columns. */
static int read_skipped(struct db_tx *tx, enum db_query query, int64_t silent_ms,
                        struct tend_recovery *ret)
{
    struct job_skipped_rows rows = {0};
    const struct job_skipped_params params = {.now = db_now(tx),
                                              .silent_ms = db_int_or_null(silent_ms),
                                              .limit = db_int(TEND_SKIPPED_NAMED)};
    _Static_assert(sizeof params == sizeof(struct job_held_params) &&
                       sizeof *rows.at == sizeof(struct job_held_row),
                   "one takes the place of the other");
    int rc = db_concurrent(tx) ? db_run(tx, query, 0, DB_VALUES(&params), &rows.result) : 0;
    if (rc != 0)
        return rc;
    ret->entries_skipped = rows.count > 0 ? db_num(rows.at[0].held) : 0;
    ret->skipped_by[0] = '\0';
    for (size_t i = 0; i < rows.count; i++)
        ret->skipped_ids[i] = db_num(rows.at[i].id);
    if (rows.count > 0)
        put_holder(&rows.at[0].holder, ret->skipped_by);
    return 0;
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
    struct job_left_rows rows = {0};
    struct tend_recovery left = {0};
    const struct job_left_params params = {.worker_id = db_int(worker_id),
                                           .limit = db_int(TEND_SKIPPED_NAMED)};
    int rc = db_concurrent(tx) ? run_job_left(tx, 0, params, &rows) : 0;
    if (rc < 0 || rows.count == 0)
        return rc;
    int64_t total = db_num(rows.at[0].total);
    left.entries_skipped = all ? total : db_num(rows.at[0].held);
    for (size_t i = 0; i < rows.count; i++)
        left.skipped_ids[i] = db_num(rows.at[i].id);
    put_holder(&rows.at[0].holder, left.skipped_by);
    holder_add_skipped(ret, &left);
    return (int)total;
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
