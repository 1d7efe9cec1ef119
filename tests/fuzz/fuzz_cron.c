/* core/cron: times found lie ahead, come in order, and every schedule can be described. */
#include "base/buf.h"
#include "base/civil.h"
#include "base/err.h"
#include "core/cron.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "* * * * *",       "*/15 9-17 * * mon-fri",
    "0 0 29 2 */7",    "5,10,20-40/5 0 1,15 jan-mar,dec 7",
    "15 3 13 * fri",   "0 0 30 2 *",
    "@every 1h30m",    "@weekly",
    "59 23 31 12 6,0", NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct cron cron;
    struct err err = {0};
    if (cron_parse(text, &cron, &err) < 0) {
        must(strlen(err.text) > 0);
        free(text);
        return 0;
    }
    int64_t last_ms = INT64_C(1769853600123);
    for (int i = 0; i < 5; i++) {
        int64_t next_ms = cron_next(&cron, NULL, last_ms);
        if (next_ms < 0)
            break;
        must(next_ms > last_ms);
        must(cron.every_ms > 0 || next_ms % MS_PER_MINUTE == 0);
        /* Nothing lies between: asked from just before, the answer is the same. */
        must(cron_next(&cron, NULL, next_ms - 1) == next_ms);
        last_ms = next_ms;
    }
    struct buf described;
    buf_init(&described);
    cron_describe(&cron, NULL, &described);
    must(described.len > 0 && !described.failed);
    buf_done(&described);
    free(text);
    return 0;
}
