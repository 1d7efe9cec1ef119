/* Claims that look at jobs one by one: keys that are at their limit, kinds that are not wanted. */
#ifndef QUEUE_CHOICE_H
#define QUEUE_CHOICE_H

#include "queue/limits.h"

bool choice_needed(const struct claim_want *want, const struct queue_settings *settings);

/*
 * Up to count jobs; what was leased is in ret. When that is nothing, none says why. want->look has
 * where it has looked, and whether there is more to look at in another transaction.
 */
int choice_claim(struct db_tx *tx, const struct claim_want *want,
                 const struct queue_settings *settings, int64_t count,
                 struct job_claim_one_rows *ret, struct tend_none *none);

/* Whether it would find one, or may when it looks further. Reads only. If not, none says why. */
int choice_peek(struct db_tx *tx, const struct claim_want *want,
                const struct queue_settings *settings, bool *ret, struct tend_none *none);

#endif
