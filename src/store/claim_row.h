/*
 * Jobs as a claim answers them. Of each job come the columns that the claimer cannot know ("define:
 * claimed" in sql/claim.sql); the others are put in here, so that no engine has to carry them for
 * every row.
 */
#ifndef STORE_CLAIM_ROW_H
#define STORE_CLAIM_ROW_H

#include "store/queries.h"

/* A whole job of what a claim with these parameters has answered; their texts go into it as they
 * are. */
void claimed_job(const struct claimed_columns *claimed, const struct job_claim_params *params,
                 struct job_columns *ret);

/*
 * Makes whole jobs of all rows of job_claim or job_claim_after; what else they have is left out.
 * The texts of params must live as long as the jobs. False: out of memory.
 */
bool claim_rows_complete(struct db_result *rows, const struct job_claim_params *params,
                         struct arena *arena);

#endif
