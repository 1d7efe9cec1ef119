/* base/timetext: whatever is read is printed and read back to the same number. */
#include "base/err.h"
#include "base/timetext.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "1d2h3m4s5ms",
    "1.5s",
    "0",
    "250ms",
    "106751991167d7h12m55.807s",
    "2026-01-31T10:00:00.123Z",
    "2026-01-31 10:00:00+01:30",
    "2016-12-31T23:59:60Z",
    "2024-02-29",
    "@1767225600.25",
    "@-62167219200",
    "now",
    NULL,
};

static void try_duration(const char *text)
{
    int64_t ms, back_ms;
    struct err err = {0};
    if (duration_parse(text, &ms, &err) < 0) {
        must(strlen(err.text) > 0);
        return;
    }
    char printed[DURATION_TEXT_BYTES];
    must(ms >= 0);
    must(duration_parse(duration_text(ms, printed), &back_ms, NULL) == 0);
    must(back_ms == ms);
}

static void try_time(const char *text)
{
    int64_t ms, back_ms;
    struct err err = {0};
    if (time_parse(text, 0, &ms, &err) < 0) {
        must(strlen(err.text) > 0);
        return;
    }
    char printed[TIME_TEXT_BYTES];
    must(ms >= TIME_MIN_MS && ms <= TIME_MAX_MS);
    must(time_parse(time_text(ms, printed), 0, &back_ms, NULL) == 0);
    must(back_ms == ms);
}

/* The first eight bytes as a number: every int64 can be printed. */
static void try_printing(const uint8_t *data)
{
    int64_t ms;
    char duration[DURATION_TEXT_BYTES], relative[DURATION_TEXT_BYTES], time[TIME_TEXT_BYTES];
    memcpy(&ms, data, sizeof ms);
    must(strlen(duration_text(ms, duration)) + 1 < sizeof duration);
    must(strlen(relative_text(ms, ~ms, relative)) + 1 < sizeof relative);
    must(strlen(time_text(ms, time)) + 1 < sizeof time);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    try_duration(text);
    try_time(text);
    if (size >= 8)
        try_printing(data);
    free(text);
    return 0;
}
