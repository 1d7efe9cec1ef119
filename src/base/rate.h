/*
 * Rates as people write them: "20/60s" is twenty per minute. Text only; core/limit.h keeps to it.
 */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include "base/timetext.h"

#include <stdint.h>

struct err;

#define RATE_COUNT_MAX INT64_C(1000000000)

enum { RATE_TEXT_BYTES = DURATION_TEXT_BYTES + 24 };

/*
 * "20/60s", "5/s", "100/1m": a count of 1 to 1000000000, a slash, and a duration above 0 or a unit
 * alone. 0 or TEND_EINVAL; err may be NULL.
 */
int rate_parse(const char *text, int64_t *ret_count, int64_t *ret_period_ms, struct err *err);

/* "20/1m"; read back by rate_parse. */
const char *rate_text(int64_t count, int64_t period_ms, char out[RATE_TEXT_BYTES]);

#endif
