/* See rate.h. */
#include "base/rate.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

static int refuse(struct err *err, const char *text, const char *wrong)
{
    return err_set(err, TEND_EINVAL, "\"%s\" is not a rate like 20/60s or 5/s: %s", text, wrong);
}

int rate_parse(const char *text, int64_t *ret_count, int64_t *ret_period_ms, struct err *err)
{
    const char *at = text;
    int64_t count = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        count = count * 10 + (*at - '0');
        if (count > RATE_COUNT_MAX)
            return refuse(err, text, "the count is above 1000000000");
    }
    if (at == text || *at != '/')
        return refuse(err, text, "a count is expected, then a slash");
    if (count == 0)
        return refuse(err, text, "the count must be at least 1; to stop a queue, pause it");
    at++;

    /* A unit alone means one of it. */
    char one[8];
    if (*at < '0' || *at > '9') {
        if (strlen(at) > 2)
            return refuse(err, text, "after the slash comes a duration or a unit");
        snprintf(one, sizeof one, "1%s", at);
        at = one;
    }
    int64_t period_ms;
    if (duration_parse(at, &period_ms, NULL) < 0)
        return refuse(err, text, "after the slash comes a duration or a unit");
    if (period_ms == 0)
        return refuse(err, text, "the period must be longer than 0");
    *ret_count = count;
    *ret_period_ms = period_ms;
    return 0;
}

const char *rate_text(int64_t count, int64_t period_ms, char out[RATE_TEXT_BYTES])
{
    char period[DURATION_TEXT_BYTES];
    snprintf(out, RATE_TEXT_BYTES, "%lld/%s", (long long)count, duration_text(period_ms, period));
    return out;
}
