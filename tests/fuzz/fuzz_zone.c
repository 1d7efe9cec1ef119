/* core/zone: whatever the bytes of a time zone file, every time lies in a span of it, and a
 * schedule in it goes forward. The input is the file in hexadecimal, or the rule at its end as it
 * is. */
#include "base/timetext.h"
#include "core/cron.h"
#include "core/zone_rule.h"
#include "fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    /* version 1 with two changes; 2 with a rule; 3 with daylight saving time all year */
    "545a696600000000000000000000000000000000000000000000000000000000000000020000000300000004"
    "000000001dcd6500010200000e10000000001c200000ffffcec8000058585800",
    "545a696632000000000000000000000000000000000000000000000000000000000000000000000100000004"
    "00000000000058585800545a6966320000000000000000000000000000000000000000000000000000000000"
    "00020000000300000004ffffffff6fa261f8000000003b9aca00010200000c88000000000e10000000001c20"
    "0000585858000a4345542d31434553542c4d332e352e302c4d31302e352e302f330a",
    "545a696633000000000000000000000000000000000000000000000000000000000000000000000100000004"
    "00000000000058585800545a6966330000000000000000000000000000000000000000000000000000000000"
    "00000000000100000004000000000000585858000a455354354544542c302f302c4a3336352f32350a",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "IST-1GMT0,M10.5.0,M3.5.0/1",
    NULL,
};

static int digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                                        : -1;
}

static size_t from_hex(const uint8_t *data, size_t size, uint8_t *out)
{
    size_t len = 0;
    for (size_t i = 0; i + 1 < size && digit(data[i]) >= 0 && digit(data[i + 1]) >= 0; i += 2)
        out[len++] = (uint8_t)(digit(data[i]) << 4 | digit(data[i + 1]));
    return len;
}

static void ask(const struct zone *zone)
{
    static const int64_t times[] = {INT64_MIN + 1, -4000000000, -1,         0,
                                    499999999,     500000000,   1769853600, 32503680000,
                                    INT64_MAX - 1};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct zone_span span = zone_span_at(zone, times[i]);
        must(span.offset_s >= -ZONE_OFFSET_MAX_S && span.offset_s <= ZONE_OFFSET_MAX_S);
        must(span.begin_s < span.end_s);
        if (times[i] > TIME_MIN_MS / 1000 && times[i] < TIME_MAX_MS / 1000)
            must(span.begin_s <= times[i] && times[i] < span.end_s);
    }
    static const char *const schedules[] = {"30 2 * * *", "*/15 * * * *", "0 */3 1 * *"};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct cron cron;
        must(cron_parse(schedules[i], &cron, NULL) == 0);
        int64_t ms = INT64_C(1769853600123);
        for (int k = 0; k < 20; k++) {
            int64_t next_ms = cron_next(&cron, zone, ms);
            must(next_ms > ms);
            must(cron_next(&cron, zone, next_ms - 1) == next_ms);
            ms = next_ms;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct zone zone = {0};
    uint8_t *bytes = malloc(size + 1);
    char *text = fuzz_text(data, size);
    must(bytes);
    arena_init(&arena);
    if (zone_parse(bytes, from_hex(data, size, bytes), &arena, &zone, NULL) == 0)
        ask(&zone);
    zone = (struct zone){.has_rule = true};
    if (zone_rule_parse(text, &zone.rule))
        ask(&zone);
    arena_done(&arena);
    free(text);
    free(bytes);
    return 0;
}
