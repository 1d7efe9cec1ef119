#include "unit/zone_case.h"

#include "base/err.h"
#include "base/zone_file.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct zone *parse(const struct buf *bytes, const char *name)
{
    static struct arena arena; /* until the test ends */
    struct zone *zone = arena_zalloc(&arena, sizeof *zone);
    struct err err = {0};
    if (zone_parse(bytes->data, bytes->len, &arena, zone, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    return zone;
}

const struct zone *system_zone(const char *name)
{
    struct buf bytes;
    struct err err = {0};
    buf_init(&bytes);
    if (zone_file_read(name, &bytes, &err) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    const struct zone *zone = parse(&bytes, name);
    buf_done(&bytes);
    return zone;
}

void other_use_zone(const char *name)
{
    setenv("TZ", name, 1);
    tzset();
}

int32_t other_offset(int64_t at_s)
{
    time_t time = (time_t)at_s;
    struct tm local;
    check(localtime_r(&time, &local) != NULL);
    return (int32_t)local.tm_gmtoff;
}

/* --- making --- */

static void put_number(struct buf *out, int64_t number, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;)
        buf_putc(out, (char)((uint64_t)number >> 8 * i & 0xFF));
}

/* A type of its own for each change, one for the time before. */
static void put_block(struct buf *out, char version, size_t time_bytes, int32_t first_offset_s,
                      const struct made_change *changes, size_t count)
{
    buf_append(out, "TZif", 4);
    buf_putc(out, version);
    put_number(out, 0, 15 - 7);
    put_number(out, 0, 7);
    put_number(out, 0, 4);                  /* isut */
    put_number(out, 0, 4);                  /* isstd */
    put_number(out, 0, 4);                  /* leap */
    put_number(out, (int64_t)count, 4);     /* time */
    put_number(out, (int64_t)count + 1, 4); /* type */
    put_number(out, 4, 4);                  /* chars */
    for (size_t i = 0; i < count; i++)
        put_number(out, changes[i].at_s, time_bytes);
    for (size_t i = 0; i < count; i++)
        put_number(out, (int64_t)i + 1, 1);
    put_number(out, first_offset_s, 4);
    put_number(out, 0, 2);
    for (size_t i = 0; i < count; i++) {
        put_number(out, changes[i].offset_s, 4);
        put_number(out, 0, 2);
    }
    buf_append(out, "QQQ", 4);
}

void zone_make(struct buf *out, char version, int32_t first_offset_s,
               const struct made_change *changes, size_t count, const char *footer)
{
    put_block(out, version, 4, first_offset_s, changes, version == '\0' ? count : 0);
    if (version == '\0')
        return;
    put_block(out, version, 8, first_offset_s, changes, count);
    buf_printf(out, "\n%s\n", footer);
}

const struct zone *zone_made(char version, int32_t first_offset_s,
                             const struct made_change *changes, size_t count, const char *footer)
{
    struct buf bytes;
    buf_init(&bytes);
    zone_make(&bytes, version, first_offset_s, changes, count, footer);
    const struct zone *zone = parse(&bytes, footer);
    buf_done(&bytes);
    return zone;
}
