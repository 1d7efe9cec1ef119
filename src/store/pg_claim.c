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
 * last look from the beginning, which its due time says. A handle forgets the position when it has
 * undone a transaction. What is left: a job whose adding took longer than SETTLED_MS to commit, one
 * added while the server's clock was set back, and one that another handle claimed and undid may be
 * overtaken, for FROM_START_MS at most.
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

void pg_claims_forget(struct pg_claims *claims)
{
    pthread_mutex_lock(&claims->mutex);
    for (size_t i = 0; i < PG_CLAIM_QUEUES; i++)
        claims->positions[i].used = false;
    pthread_mutex_unlock(&claims->mutex);
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

/* job_claim_after has the parameters of job_claim, and the position behind them. */
union claim_params {
    struct job_claim_params from_start;
    struct job_claim_after_params behind;
};
_Static_assert(offsetof(struct job_claim_after_params, after_priority) ==
                   sizeof(struct job_claim_params),
               "the same parameters, and more");

/* Fills in the position to begin behind; false: at the beginning. */
static bool begin_behind(struct pg_db *db, const char *queue, struct job_claim_after_params *ret)
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
        ret->after_priority = db_int(position->priority);
        ret->after_due_at = db_int(position->due_at);
        ret->after_id = db_int(position->id);
        ret->looked_at = db_int(position->from_start_at - SETTLED_MS);
    }
    pthread_mutex_unlock(&claims->mutex);
    return behind;
}

struct pg_call *pg_claim_call(struct db_tx *tx, const struct db_value *params, bool keep,
                              struct db_result *result)
{
    struct pg_db *db = (struct pg_db *)tx->db;
    const struct job_claim_params *given = (const struct job_claim_params *)params;
    union claim_params *all = arena_alloc(tx->arena, sizeof *all);
    if (all == NULL)
        return NULL;
    struct job_claim_params *claim = &all->from_start;
    *claim = *given;
    /* These two go into the answer. */
    claim->queue.text = arena_strndup(tx->arena, given->queue.text, given->queue.bytes);
    claim->owner.text = arena_strndup(tx->arena, given->owner.text, given->owner.bytes);
    if (claim->queue.text == NULL || claim->owner.text == NULL)
        return NULL;
    bool behind = begin_behind(db, claim->queue.text, &all->behind);
    struct pg_call *call =
        pg_call_run(tx, behind ? Q_JOB_CLAIM_AFTER : Q_JOB_CLAIM, DB_VALUES(all), keep, result);
    if (call != NULL)
        call->claim = claim;
    return call;
}

bool pg_claim_is(const struct pg_call *call)
{
    return call->claim != NULL;
}

bool pg_claim_alike(const struct pg_call *one, const struct pg_call *other)
{
    const struct db_value *a = DB_VALUES(one->claim);
    const struct db_value *b = DB_VALUES(other->claim);
    const struct db_value *end = DB_VALUES(one->claim + 1);
    for (; a < end; a++, b++) {
        if (a == &one->claim->count)
            continue;
        if (a->type != b->type || (a->type == DB_INT && a->number != b->number) ||
            (a->type == DB_TEXT && strcmp(a->text, b->text) != 0))
            return false;
    }
    return true;
}

int64_t pg_claim_count(const struct pg_call *call)
{
    return call->claim->count.number;
}

struct pg_call *pg_claim_again(const struct pg_call *call, int64_t count, struct db_result *result)
{
    struct job_claim_params params = *call->claim;
    params.count = db_int(count);
    return pg_claim_call(call->tx, DB_VALUES(&params), true, result);
}

static int compare_numbers(const struct db_value *a, const struct db_value *b)
{
    return (a->number > b->number) - (a->number < b->number);
}

static int claim_order(const void *left, const void *right)
{
    const struct job_columns *a = left;
    const struct job_columns *b = right;
    int order = compare_numbers(&a->priority, &b->priority);
    if (order == 0)
        order = compare_numbers(&a->due_at, &b->due_at);
    return order != 0 ? order : compare_numbers(&a->id, &b->id);
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
        qsort((struct job_columns *)result->values, result->rows, sizeof(struct job_columns),
              claim_order);
    return true;
}

/* To a claimed job; other threads may have got further already. */
static void move_on(struct pg_position *position, const struct job_columns *job, bool from_start)
{
    int64_t priority = job->priority.number;
    int64_t due_at = job->due_at.number;
    int64_t id = job->id.number;
    bool ahead = priority != position->priority ? priority > position->priority
                 : due_at != position->due_at   ? due_at > position->due_at
                                                : id > position->id;
    if (!from_start && !ahead)
        return;
    position->priority = priority;
    position->due_at = due_at;
    position->id = id;
}

static void learn(struct pg_db *db, const struct pg_call *call, const struct job_columns *jobs,
                  size_t count, int64_t entries)
{
    struct pg_claims *claims = &db->claims;
    int64_t now_ms = clock_of(db);
    bool from_start = call->query == Q_JOB_CLAIM;
    const char *queue = call->claim->queue.text;
    bool enough = (int64_t)count == call->claim->count.number;
    bool in_the_way = db->options.claim_behind != NULL ||
                      entries > ENTRIES_FREE + ENTRIES_PER_JOB * (int64_t)count;
    pthread_mutex_lock(&claims->mutex);
    struct pg_position *position = find(claims, queue);
    if (position == NULL && in_the_way && enough)
        position = find_or_replace(claims, queue);
    if (position != NULL) {
        if (from_start) {
            position->from_start_ms = now_ms;
            position->used = in_the_way && count > 0;
            if (position->used)
                position->from_start_at = db_num(jobs[0].changed_at);
        }
        position->used = position->used && enough;
        if (position->used)
            move_on(position, &jobs[count - 1], from_start);
    }
    pthread_mutex_unlock(&claims->mutex);
}

bool pg_claim_answer(const struct pg_call *call, struct db_result *rows)
{
    struct pg_db *db = (struct pg_db *)call->tx->db;
    const struct job_claim_rows answer = {.result = *rows};
    int64_t entries = answer.count > 0 ? db_num(answer.at[0].entries) : 0;
    if (!complete(call, rows))
        return false;
    learn(db, call, (const struct job_columns *)rows->values, rows->rows, entries);
    return true;
}
