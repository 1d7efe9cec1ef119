#include "store/hurry.h"

#include "base/clock.h"

#include <stddef.h>

void hurry_set(struct hurry *hurry, int64_t most_ms)
{
    __atomic_store_n(&hurry->since_ms, clock_mono_ms(), __ATOMIC_SEQ_CST);
    __atomic_store_n(&hurry->most_ms, most_ms, __ATOMIC_SEQ_CST);
}

int64_t hurry_until(const struct hurry *hurry, int64_t begun_ms, int64_t until_ms)
{
    int64_t most_ms = hurry == NULL ? 0 : __atomic_load_n(&hurry->most_ms, __ATOMIC_SEQ_CST);
    if (most_ms == 0)
        return until_ms;
    if (most_ms < HURRY_LEAST_MS)
        most_ms = HURRY_LEAST_MS;
    int64_t since_ms = __atomic_load_n(&hurry->since_ms, __ATOMIC_SEQ_CST);
    int64_t hurried_ms = (since_ms > begun_ms ? since_ms : begun_ms) + most_ms + HURRY_MARGIN_MS;
    return hurried_ms < until_ms ? hurried_ms : until_ms;
}
