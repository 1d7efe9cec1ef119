#include "core/pace.h"

/* NTP slews by 500 µs a second at most, which is half of DRIFT_PART. */
enum { SLOWER_PART = 16, DRIFT_PART = 1000 };
static const int64_t jump_slack_us = 1000000; /* of a clock that is asked over a network */

int64_t pace_since(const struct pace_mark *mark, int64_t boottime_us)
{
    int64_t since_us = boottime_us - mark->boottime_us;
    return since_us <= 0 ? mark->store_us : mark->store_us + since_us - since_us / SLOWER_PART;
}

int64_t pace_unlived(const struct pace_mark *from, const struct pace_mark *to)
{
    int64_t lived_us = to->monotonic_us - from->monotonic_us;
    int64_t unlived_us = to->store_us - from->store_us - lived_us;
    return unlived_us > PACE_SLACK_US + lived_us / DRIFT_PART ? unlived_us : 0;
}

int64_t pace_owed(const struct pace_mark *from, const struct pace_mark *to, int64_t blocked_us)
{
    int64_t most_us = to->store_us - from->store_us;
    int64_t owed_us = pace_unlived(from, to) + blocked_us;
    if (owed_us > most_us)
        owed_us = most_us;
    return owed_us > PACE_SLACK_US ? owed_us : 0;
}

int64_t pace_jump(const struct pace_mark *from, const struct pace_mark *to, int64_t error_us)
{
    int64_t since_us = to->boottime_us - from->boottime_us;
    int64_t by_us = to->store_us - from->store_us - since_us;
    int64_t most_us = jump_slack_us + error_us + (since_us < 0 ? 0 : since_us / DRIFT_PART);
    return by_us > most_us || by_us < -most_us ? by_us : 0;
}
