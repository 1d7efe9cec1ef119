/* base/rate and core/limit: a rate that is read is printed and read back, and a limit keeps it. */
#include "base/err.h"
#include "base/rate.h"
#include "core/limit.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "20/60s", "5/s", "100/1m", "1000000000/ms", "7/1h30m", "3/0.5s", "1/106751991167d", NULL,
};

static void try_limit(int64_t count, int64_t period_ms)
{
    struct limit limit;
    int64_t now_ms = INT64_C(1769853600000);
    limit_init(&limit, count, period_ms, now_ms);
    must(limit_take(&limit, now_ms, INT64_MAX) == count);
    for (int i = 0; i < 20; i++) {
        int64_t next_ms = limit_next_ms(&limit, now_ms);
        if (next_ms < 0)
            return;
        must(next_ms > now_ms);
        must(limit_take(&limit, next_ms - 1, 1) == 0);
        int64_t granted = limit_take(&limit, next_ms, INT64_MAX);
        must(granted >= 1 && granted <= count);
        now_ms = next_ms;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    int64_t count, period_ms, back_count, back_period_ms;
    struct err err = {0};
    if (rate_parse(text, &count, &period_ms, &err) < 0) {
        must(strlen(err.text) > 0);
    } else {
        char printed[RATE_TEXT_BYTES];
        must(count >= 1 && period_ms >= 1);
        must(rate_parse(rate_text(count, period_ms, printed), &back_count, &back_period_ms, NULL) ==
             0);
        must(back_count == count && back_period_ms == period_ms);
        try_limit(count, period_ms);
    }
    free(text);
    return 0;
}
