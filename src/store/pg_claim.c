/*
 * Where a claim begins to look. Normally at the beginning: the most urgent job, then the one due
 * first. But while a transaction is held open anywhere in the database, the index entries of jobs
 * that were claimed since cannot be removed, and every claim reads all of them again, which takes a
 * queue that is being drained down to a fraction of its rate.
 *
 * So each claim tells how many entries it has read. If that is out of proportion to what it found,
 * the claims after it begin behind the job claimed last; at the beginning again after
 * FROM_START_MS, and whenever fewer came than were wanted. Only then can a job that was added in
 * front be overtaken, and for no longer than that; where nothing is in the way, the order is strict
 * (CL-4).
 */
#include "store/pg_db.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    FROM_START_MS = 100,
    ENTRIES_PER_JOB = 4, /* more than that, and a few: something is in the way */
    ENTRIES_FREE = 500,
};

/* Columns of a job as the caller expects them ("define: job") by which claimed ones are ordered. */
enum { CLAIM_ID = 0, CLAIM_PRIORITY = 4, CLAIM_DUE_AT = 5 };
/* Parameters of job_claim. */
enum { PARAM_QUEUE = 0, PARAM_COUNT = 1, PARAM_OWNER = 2, PARAM_WORKER = 3, CLAIM_PARAMS = 9 };

/* Where each of those columns comes from: a column of the answer ("define: claimed"), or what is
 * known here. */
enum {
    IS_QUEUE = -1,
    IS_RUNNING = -2,
    IS_OWNER = -3,
    IS_WORKER = -4,
    IS_CLAIMED = -5,
    IS_NULL = -6
};
static const signed char sources[] = {
    [0] = 0,   [1] = IS_QUEUE, [2] = 1,         [3] = IS_RUNNING, [4] = 2,           [5] = 3,
    [6] = 4,   [7] = IS_OWNER, [8] = IS_WORKER, [9] = 5,          [10] = 6,          [11] = 9,
    [12] = 7,  [13] = 8,       [14] = 9,        [15] = IS_OWNER,  [16] = IS_CLAIMED, [17] = IS_NULL,
    [18] = 10, [19] = 11,      [20] = IS_NULL,  [21] = 12,        [22] = 13,         [23] = 14,
    [24] = 15, [25] = 16,      [26] = 17,       [27] = 18,        [28] = 19,         [29] = 20,
    [30] = 21, [31] = 22,      [32] = 23,       [33] = 24,        [34] = 25,         [35] = 26,
    [36] = 27,
};
enum { COLUMNS = sizeof sources / sizeof *sources };

void pg_claims_init(struct pg_claims *claims)
{
    *claims = (struct pg_claims){0};
    pthread_mutex_init(&claims->mutex, NULL);
}

void pg_claims_done(struct pg_claims *claims)
{
    pthread_mutex_destroy(&claims->mutex);
}

/* Under the mutex. */
static struct pg_position *find(struct pg_claims *claims, const char *queue)
{
    for (size_t i = 0; i < PG_CLAIM_QUEUES; i++)
        if (strcmp(claims->positions[i].queue, queue) == 0)
            return &claims->positions[i];
    return NULL;
}

static struct pg_position *find_or_replace(struct pg_claims *claims, const char *queue)
{
    struct pg_position *position = find(claims, queue);
    if (position == NULL) {
        position = &claims->positions[claims->next++ % PG_CLAIM_QUEUES];
        *position = (struct pg_position){0};
        snprintf(position->queue, sizeof position->queue, "%s", queue);
    }
    return position;
}

/* Fills in the position to begin behind; false: at the beginning. */
static bool begin_behind(struct pg_claims *claims, const char *queue, struct db_value *ret)
{
    pthread_mutex_lock(&claims->mutex);
    struct pg_position *position = find(claims, queue);
    bool behind = position != NULL && position->used &&
                  clock_mono_ms() - position->from_start_ms < FROM_START_MS;
    if (behind) {
        ret[0] = db_int(position->priority);
        ret[1] = db_int(position->due_at);
        ret[2] = db_int(position->id);
    }
    pthread_mutex_unlock(&claims->mutex);
    return behind;
}

struct pg_call *pg_claim_call(struct db_tx *tx, const struct db_value *params, bool keep,
                              struct db_result *result)
{
    struct pg_db *db = (struct pg_db *)tx->db;
    struct db_value *all = arena_alloc(tx->arena, (CLAIM_PARAMS + 3) * sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, params, CLAIM_PARAMS * sizeof *all);
    /* These two go into the answer. */
    for (int i = PARAM_QUEUE; i <= PARAM_OWNER; i += PARAM_OWNER - PARAM_QUEUE) {
        all[i].text = arena_strndup(tx->arena, params[i].text, params[i].bytes);
        if (all[i].text == NULL)
            return NULL;
    }
    bool behind = begin_behind(&db->claims, all[PARAM_QUEUE].text, &all[CLAIM_PARAMS]);
    struct pg_call *call =
        pg_call_run(tx, behind ? Q_JOB_CLAIM_AFTER : Q_JOB_CLAIM, all, keep, result);
    if (call != NULL)
        call->claim = all;
    return call;
}

bool pg_claim_is(const struct pg_call *call)
{
    return call->claim != NULL;
}

static struct db_value value_of(int column, const struct db_value *answer,
                                const struct db_value *params)
{
    switch (sources[column]) {
    case IS_QUEUE:
        return params[PARAM_QUEUE];
    case IS_RUNNING:
        return db_int(TEND_RUNNING);
    case IS_OWNER:
        return params[PARAM_OWNER];
    case IS_WORKER:
        return params[PARAM_WORKER];
    case IS_CLAIMED:
        return db_text("job.claimed");
    case IS_NULL:
        return db_null();
    default:
        return answer[(int)sources[column]];
    }
}

static int compare_number(const struct db_value *a, const struct db_value *b, int column)
{
    return (a[column].number > b[column].number) - (a[column].number < b[column].number);
}

static int claim_order(const void *left, const void *right)
{
    int order = compare_number(left, right, CLAIM_PRIORITY);
    if (order == 0)
        order = compare_number(left, right, CLAIM_DUE_AT);
    return order != 0 ? order : compare_number(left, right, CLAIM_ID);
}

/*
 * Whole jobs, in the order in which they are handed out (CL-4): the server updates rows in the
 * order it finds them by id.
 */
static bool complete(const struct pg_call *call, struct db_result *result)
{
    struct db_value *jobs = arena_alloc(call->tx->arena, result->rows * COLUMNS * sizeof *jobs + 1);
    if (jobs == NULL)
        return false;
    for (size_t row = 0; row < result->rows; row++)
        for (int column = 0; column < COLUMNS; column++)
            jobs[row * COLUMNS + (size_t)column] =
                value_of(column, db_at(result, row, 0), call->claim);
    if (result->rows > 1)
        qsort(jobs, result->rows, COLUMNS * sizeof *jobs, claim_order);
    result->values = jobs;
    result->columns = COLUMNS;
    return true;
}

/* To a claimed job; other threads may have got further already. */
static void move_on(struct pg_position *position, const struct db_value *job, bool from_start)
{
    int64_t priority = job[CLAIM_PRIORITY].number;
    int64_t due_at = job[CLAIM_DUE_AT].number;
    int64_t id = job[CLAIM_ID].number;
    bool ahead = priority != position->priority ? priority > position->priority
                 : due_at != position->due_at   ? due_at > position->due_at
                                                : id > position->id;
    if (!from_start && !ahead)
        return;
    position->priority = priority;
    position->due_at = due_at;
    position->id = id;
}

static void learn(struct pg_claims *claims, const struct pg_call *call,
                  const struct db_result *rows, int64_t entries)
{
    bool from_start = call->query == Q_JOB_CLAIM;
    const char *queue = call->claim[PARAM_QUEUE].text;
    bool enough = (int64_t)rows->rows == call->claim[PARAM_COUNT].number;
    bool in_the_way = entries > ENTRIES_FREE + ENTRIES_PER_JOB * (int64_t)rows->rows;
    pthread_mutex_lock(&claims->mutex);
    struct pg_position *position = find(claims, queue);
    if (position == NULL && in_the_way && enough)
        position = find_or_replace(claims, queue);
    if (position != NULL) {
        if (from_start) {
            position->from_start_ms = clock_mono_ms();
            position->used = in_the_way;
        }
        position->used = position->used && enough;
        if (position->used)
            move_on(position, db_at(rows, rows->rows - 1, 0), from_start);
    }
    pthread_mutex_unlock(&claims->mutex);
}

bool pg_claim_answer(const struct pg_call *call, struct db_result *rows)
{
    struct pg_db *db = (struct pg_db *)call->tx->db;
    int64_t entries = rows->rows > 0 ? db_number(rows, 0, rows->columns - 1) : 0;
    if (!complete(call, rows))
        return false;
    learn(&db->claims, call, rows, entries);
    return true;
}
