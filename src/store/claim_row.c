#include "store/claim_row.h"

#include <tend.h>

/* Where each column of a job comes from: a column of the answer, or what is known here. */
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
    [36] = 27, [37] = IS_NULL, [38] = 28,       [39] = IS_NULL,   [40] = 29,
};
_Static_assert(sizeof sources / sizeof *sources == CLAIM_COLUMNS, "a source for every column");

static struct db_value value_of(int source, const struct db_value *answer,
                                const struct db_value *params)
{
    switch (source) {
    case IS_QUEUE:
        return params[CLAIM_PARAM_QUEUE];
    case IS_RUNNING:
        return db_int(TEND_RUNNING);
    case IS_OWNER:
        return params[CLAIM_PARAM_OWNER];
    case IS_WORKER:
        return params[CLAIM_PARAM_WORKER];
    case IS_CLAIMED:
        return db_text("job.claimed");
    case IS_NULL:
        return db_null();
    default:
        return answer[source];
    }
}

bool claim_rows_complete(struct db_result *rows, const struct db_value *params, struct arena *arena)
{
    struct db_value *jobs = arena_alloc(arena, rows->rows * CLAIM_COLUMNS * sizeof *jobs + 1);
    if (jobs == NULL)
        return false;
    for (size_t row = 0; row < rows->rows; row++) {
        const struct db_value *answer = db_at(rows, row, 0);
        struct db_value *job = &jobs[row * CLAIM_COLUMNS];
        for (int column = 0; column < CLAIM_COLUMNS; column++)
            job[column] = value_of(sources[column], answer, params);
    }
    rows->values = jobs;
    rows->columns = CLAIM_COLUMNS;
    return true;
}
