/*
 * Jobs as a claim answers them. Of each job come the columns that the claimer cannot know ("define:
 * claimed" in sql/claim.sql); the others are put in here, so that no engine has to carry them for
 * every row.
 */
#ifndef STORE_CLAIM_ROW_H
#define STORE_CLAIM_ROW_H

#include "store/db.h"

/* Parameters of job_claim. */
enum {
    CLAIM_PARAM_QUEUE = 0,
    CLAIM_PARAM_COUNT = 1,
    CLAIM_PARAM_OWNER = 2,
    CLAIM_PARAM_WORKER = 3,
    CLAIM_PARAMS = 9,
};

/* Columns of a whole job ("define: job") by which claimed ones are ordered, when that was, and how
 * many there are.
 */
enum {
    CLAIM_ID = 0,
    CLAIM_PRIORITY = 4,
    CLAIM_DUE_AT = 5,
    CLAIM_CHANGED_AT = 14,
    CLAIM_COLUMNS = 41
};

/*
 * Makes whole jobs of the rows; columns behind those of "claimed" are left out. The texts of params
 * go into the jobs as they are, so they must live as long. False: out of memory.
 */
bool claim_rows_complete(struct db_result *rows, const struct db_value *params,
                         struct arena *arena);

#endif
