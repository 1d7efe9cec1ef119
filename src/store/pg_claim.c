/*
 * Where a claim begins to look. Normally at the beginning: the most urgent job, then the one due
 * first. But while a transaction is held open anywhere in the database, the index entries of jobs
 * that were claimed since cannot be removed, and every claim reads all of them again, which takes a
 * queue that is being drained down to a fraction of its rate.
 *
 * So each claim tells how many entries it has read. If that is out of proportion to what it found,
 * the claims after it begin behind the job claimed last; at the beginning again after
 * FROM_START_MS, and whenever fewer came than were wanted.
 *
 * The order is strict all the same (CL-4): such a claim finds nothing, and the next one begins at
 * the beginning, when a job can be had before the position. It is one that came back or was added
 * with a time in the past, which are in an index of their own (job_cut_in), or one added since the
 * last look from the beginning, which its due time says. The one rule that is not kept: a job whose
 * adding took longer than SETTLED_MS to commit, or that was added while the server's clock was set
 * back, may be overtaken, for FROM_START_MS at most.
 *
 * Time and the decision come from the test where it gives them (db_options), so that a simulated
 * history that goes wrong goes wrong again.
 */
#include "store/pg_db.h"

#include "base/clock.h"
#include "store/claim_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    FROM_START_MS = 100,
    FROM_START_TEST_MS = 3600000, /* where a test decides */
    SETTLED_MS = 100,             /* transactions that began before may still commit */
    ENTRIES_PER_JOB = 4,          /* more than that, and a few: something is in the way */
    ENTRIES_FREE = 500,
};

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

static int64_t clock_of(const struct pg_db *db)
{
    return db->options.clock_ms != NULL ? db->options.clock_ms(db->options.clock_arg)
                                        : clock_mono_ms();
}

/* Fills in the position to begin behind; false: at the beginning. */
static bool begin_behind(struct pg_db *db, const char *queue, struct db_value *ret)
{
    struct pg_claims *claims = &db->claims;
    const struct db_options *options = &db->options;
    int64_t now_ms = clock_of(db);
    int64_t longest_ms = options->claim_behind != NULL ? FROM_START_TEST_MS : FROM_START_MS;
    pthread_mutex_lock(&claims->mutex);
    struct pg_position *position = find(claims, queue);
    bool behind = position != NULL && position->used && now_ms >= position->from_start_ms &&
                  now_ms - position->from_start_ms < longest_ms &&
                  (options->claim_behind == NULL || options->claim_behind(options->clock_arg));
    if (behind) {
        ret[0] = db_int(position->priority);
        ret[1] = db_int(position->due_at);
        ret[2] = db_int(position->id);
        ret[3] = db_int(position->from_start_at - SETTLED_MS);
    }
    pthread_mutex_unlock(&claims->mutex);
    return behind;
}

struct pg_call *pg_claim_call(struct db_tx *tx, const struct db_value *params, bool keep,
                              struct db_result *result)
{
    struct pg_db *db = (struct pg_db *)tx->db;
    struct db_value *all = arena_alloc(tx->arena, (CLAIM_PARAMS + 4) * sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, params, CLAIM_PARAMS * sizeof *all);
    /* These two go into the answer. */
    for (int i = CLAIM_PARAM_QUEUE; i <= CLAIM_PARAM_OWNER;
         i += CLAIM_PARAM_OWNER - CLAIM_PARAM_QUEUE) {
        all[i].text = arena_strndup(tx->arena, params[i].text, params[i].bytes);
        if (all[i].text == NULL)
            return NULL;
    }
    bool behind = begin_behind(db, all[CLAIM_PARAM_QUEUE].text, &all[CLAIM_PARAMS]);
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

bool pg_claim_alike(const struct pg_call *one, const struct pg_call *other)
{
    for (int i = 0; i < CLAIM_PARAMS; i++) {
        const struct db_value *a = &one->claim[i];
        const struct db_value *b = &other->claim[i];
        if (i == CLAIM_PARAM_COUNT)
            continue;
        if (a->type != b->type || (a->type == DB_INT && a->number != b->number) ||
            (a->type == DB_TEXT && strcmp(a->text, b->text) != 0))
            return false;
    }
    return true;
}

int64_t pg_claim_count(const struct pg_call *call)
{
    return call->claim[CLAIM_PARAM_COUNT].number;
}

struct pg_call *pg_claim_again(const struct pg_call *call, int64_t count, struct db_result *result)
{
    struct db_value params[CLAIM_PARAMS];
    memcpy(params, call->claim, sizeof params);
    params[CLAIM_PARAM_COUNT] = db_int(count);
    return pg_claim_call(call->tx, params, true, result);
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
    if (!claim_rows_complete(result, call->claim, call->tx->arena))
        return false;
    if (result->rows > 1) /* they are ours */
        qsort((struct db_value *)result->values, result->rows,
              CLAIM_COLUMNS * sizeof *result->values, claim_order);
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

static void learn(struct pg_db *db, const struct pg_call *call, const struct db_result *rows,
                  int64_t entries)
{
    struct pg_claims *claims = &db->claims;
    int64_t now_ms = clock_of(db);
    bool from_start = call->query == Q_JOB_CLAIM;
    const char *queue = call->claim[CLAIM_PARAM_QUEUE].text;
    bool enough = (int64_t)rows->rows == call->claim[CLAIM_PARAM_COUNT].number;
    bool in_the_way = db->options.claim_behind != NULL ||
                      entries > ENTRIES_FREE + ENTRIES_PER_JOB * (int64_t)rows->rows;
    pthread_mutex_lock(&claims->mutex);
    struct pg_position *position = find(claims, queue);
    if (position == NULL && in_the_way && enough)
        position = find_or_replace(claims, queue);
    if (position != NULL) {
        if (from_start) {
            position->from_start_ms = now_ms;
            position->used = in_the_way && rows->rows > 0;
            if (position->used)
                position->from_start_at = db_number(rows, 0, CLAIM_CHANGED_AT);
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
    learn(db, call, rows, entries);
    return true;
}
