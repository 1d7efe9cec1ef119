/*
 * See zone.h. Every count and time of a file is taken for a lie until it was compared with the
 * size: the file may be damaged.
 */
#include "core/zone.h"

#include "base/civil.h"
#include "base/err.h"
#include "core/zone_rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    HEADER_BYTES = 44,
    TYPE_BYTES = 6,
    TYPES_MAX = 256,
    CHANGES_MAX = 100000,
    FOOTER_MAX = 256,
};

/* Files may begin at -2^59, "always"; sums with an offset stay in range. */
static const int64_t TIMES_MAX_S = INT64_C(1) << 60;

/* --- reading --- */

static uint64_t big_endian(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

struct header {
    uint8_t version;
    uint64_t isut, isstd, leap, time, type, chars; /* how many of each */
};

static const char *read_header(const uint8_t *at, size_t size, struct header *ret)
{
    if (size < HEADER_BYTES || memcmp(at, "TZif", 4) != 0)
        return "it is not a time zone file";
    *ret = (struct header){
        .version = at[4],
        .isut = big_endian(at + 20, 4),
        .isstd = big_endian(at + 24, 4),
        .leap = big_endian(at + 28, 4),
        .time = big_endian(at + 32, 4),
        .type = big_endian(at + 36, 4),
        .chars = big_endian(at + 40, 4),
    };
    if (ret->type < 1 || ret->type > TYPES_MAX || ret->time > CHANGES_MAX)
        return "it is damaged";
    return NULL;
}

/* Of the block after the header; times of time_bytes each. */
static uint64_t block_bytes(const struct header *header, size_t time_bytes)
{
    return header->time * (time_bytes + 1) + header->type * TYPE_BYTES + header->chars +
           header->leap * (time_bytes + 4) + header->isstd + header->isut;
}

static const char *read_types(const uint8_t *at, const struct header *header,
                              int32_t offsets[TYPES_MAX])
{
    for (uint64_t i = 0; i < header->type; i++) {
        offsets[i] = (int32_t)(uint32_t)big_endian(at + i * TYPE_BYTES, 4);
        if (offsets[i] < -ZONE_OFFSET_MAX_S || offsets[i] > ZONE_OFFSET_MAX_S)
            return "an offset in it is impossible";
    }
    return NULL;
}

/* The block of one version: its changes. NULL, or what is wrong. */
static const char *read_block(const uint8_t *at, const struct header *header, size_t time_bytes,
                              struct zone_change *changes, struct zone *zone)
{
    int32_t offsets[TYPES_MAX];
    const uint8_t *indexes = at + header->time * time_bytes;
    const char *wrong = read_types(indexes + header->time, header, offsets);
    if (wrong != NULL)
        return wrong;
    if (header->leap != 0)
        return "it counts leap seconds; give the zone without \"right/\"";
    for (uint64_t i = 0; i < header->time; i++) {
        uint64_t time = big_endian(at + i * time_bytes, time_bytes);
        changes[i].at_s = time_bytes == 4 ? (int32_t)(uint32_t)time : (int64_t)time;
        if (changes[i].at_s < -TIMES_MAX_S || changes[i].at_s > TIMES_MAX_S)
            return "a time in it is impossible";
        if (indexes[i] >= header->type || (i > 0 && changes[i].at_s <= changes[i - 1].at_s))
            return "it is damaged";
        changes[i].offset_s = offsets[indexes[i]];
    }
    zone->changes = changes;
    zone->change_count = header->time;
    zone->first_offset_s = offsets[0];
    return NULL;
}

/* "\nCET-1CEST,M3.5.0,M10.5.0/3\n"; between the newlines may be nothing. */
static const char *read_footer(const uint8_t *at, size_t size, struct zone *zone)
{
    char text[FOOTER_MAX];
    const uint8_t *end = size < 2 || at[0] != '\n' ? NULL : memchr(at + 1, '\n', size - 1);
    if (end == NULL || end - at > FOOTER_MAX)
        return "its end is missing";
    size_t len = (size_t)(end - at) - 1;
    memcpy(text, at + 1, len);
    text[len] = '\0';
    zone->has_rule = len > 0;
    if (len > 0 && (strlen(text) != len || !zone_rule_parse(text, &zone->rule)))
        return "its rule for the future is not understood";
    return NULL;
}

/* NULL, or what is wrong; "" when memory is out. */
static const char *read_file(const uint8_t *at, size_t size, struct arena *arena, struct zone *zone)
{
    struct header header;
    size_t time_bytes = 4;
    const char *wrong = read_header(at, size, &header);
    if (wrong != NULL)
        return wrong;
    if (header.version >= '2') { /* the same again with times of eight bytes, which count */
        uint64_t skip = HEADER_BYTES + block_bytes(&header, 4);
        if (skip > size)
            return "it is cut off";
        at += skip;
        size -= skip;
        time_bytes = 8;
        if ((wrong = read_header(at, size, &header)) != NULL)
            return wrong;
    }
    at += HEADER_BYTES;
    size -= HEADER_BYTES;
    uint64_t bytes = block_bytes(&header, time_bytes);
    if (bytes > size)
        return "it is cut off";
    struct zone_change *changes = arena_alloc(arena, (header.time + 1) * sizeof *changes);
    if (changes == NULL)
        return "";
    wrong = read_block(at, &header, time_bytes, changes, zone);
    return wrong != NULL || time_bytes == 4 ? wrong : read_footer(at + bytes, size - bytes, zone);
}

int zone_parse(const void *bytes, size_t size, struct arena *arena, struct zone *ret,
               struct err *err)
{
    struct zone zone = {0};
    const char *wrong = read_file(bytes, size, arena, &zone);
    if (wrong != NULL && *wrong == '\0')
        return err_set(err, TEND_ENOMEM, "out of memory");
    if (wrong != NULL)
        return err_set(err, TEND_EINVAL, "%s", wrong);
    *ret = zone;
    return 0;
}

/* --- asking --- */

/* How many changes lie at or before a time. */
static size_t changes_until(const struct zone *zone, int64_t at_s)
{
    size_t low = 0;
    size_t high = zone->change_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at_s <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct zone_span zone_span_at(const struct zone *zone, int64_t at_s)
{
    if (zone == NULL)
        return (struct zone_span){INT64_MIN, INT64_MAX, 0};
    size_t passed = changes_until(zone, at_s);
    struct zone_span span = {
        .begin_s = passed > 0 ? zone->changes[passed - 1].at_s : INT64_MIN,
        .end_s = passed < zone->change_count ? zone->changes[passed].at_s : INT64_MAX,
        .offset_s = passed > 0 ? zone->changes[passed - 1].offset_s : zone->first_offset_s,
    };
    if (passed < zone->change_count || !zone->has_rule)
        return span;
    struct zone_span by_rule = zone_rule_span(&zone->rule, at_s);
    if (by_rule.begin_s < span.begin_s)
        by_rule.begin_s = span.begin_s;
    return by_rule;
}

const char *zone_time_text(const struct zone *zone, int64_t ms, char out[ZONE_TIME_BYTES])
{
    int64_t at_s = floor_div(ms, 1000);
    int32_t offset_s = zone_span_at(zone, at_s).offset_s;
    int64_t there_s = at_s + offset_s;
    int64_t days = floor_div(there_s, 86400);
    int second = (int)(there_s - days * 86400);
    struct civil date = civil_from_days(days);
    int len =
        snprintf(out, ZONE_TIME_BYTES, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)date.year,
                 date.month, date.day, second / 3600, second / 60 % 60, second % 60);
    if (zone == NULL)
        snprintf(out + len, ZONE_TIME_BYTES - (size_t)len, "Z");
    else
        snprintf(out + len, ZONE_TIME_BYTES - (size_t)len, "%c%02d:%02d", offset_s < 0 ? '-' : '+',
                 abs(offset_s) / 3600, abs(offset_s) / 60 % 60);
    return out;
}
