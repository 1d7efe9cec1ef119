/*
 * What the tests that maltreat a server, a line or a crowd have in common: a store under load, and
 * the verdict when the load has come to its end.
 */
#ifndef TEND_CRASH_LOAD_H
#define TEND_CRASH_LOAD_H

#include "crowd.h"

/* Makes the store, and a crowd over it with one who reads along. Others are added by the test. */
void load_begin(struct crowd *crowd);
/* How many jobs were acknowledged by now. */
size_t load_acked(void);
/* Lives on until something more is acknowledged: the crowd has got over what was done to it. */
void load_goes_on(struct crowd *crowd);
/* Lets the crowd come to its end and judges: all of verdict.h that holds for every store. */
void load_end(struct crowd *crowd);

#endif
