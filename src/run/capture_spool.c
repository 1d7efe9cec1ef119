/* See capture_spool.h. */
#include "run/capture_spool.h"

#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    MERGE_MS = 50,             /* text that comes within is one segment */
    SEGMENT_BYTES = 64 * 1024, /* a segment does not grow beyond this by much */
    LINE_LOOK_BYTES = 4096,    /* how far a cut may move to come after a line */
    FIRST_ROOM_BYTES = 1024,
    FIRST_SEGMENTS = 16,
};

void spool_done(struct spool *spool)
{
    free(spool->data);
    free(spool->segments);
    *spool = (struct spool){0};
}

void spool_clear(struct spool *spool)
{
    spool->start = spool->len = 0;
    spool->segment_start = spool->segment_count = 0;
}

size_t spool_cost(const struct spool *spool)
{
    return spool->len + spool->segment_count * SPOOL_SEGMENT_CHARGE;
}

const struct spool_segment *spool_segment(const struct spool *spool, size_t index)
{
    return &spool->segments[(spool->segment_start + index) % spool->segment_room];
}

/* The newest segment, when this stream and time still belong to it. */
static struct spool_segment *open_segment(const struct spool *spool, int stream, int64_t at_ms)
{
    if (spool->segment_count == 0)
        return NULL;
    size_t last = (spool->segment_start + spool->segment_count - 1) % spool->segment_room;
    struct spool_segment *segment = &spool->segments[last];
    bool same = segment->stream == stream && segment->bytes < SEGMENT_BYTES &&
                at_ms - segment->at_ms <= MERGE_MS;
    return same ? segment : NULL;
}

size_t spool_charge(const struct spool *spool, int stream, int64_t at_ms)
{
    return open_segment(spool, stream, at_ms) ? 0 : SPOOL_SEGMENT_CHARGE;
}

void spool_copy(const struct spool *spool, size_t from, size_t len, char *out)
{
    size_t at = len > 0 ? (spool->start + from) % spool->room : 0;
    size_t first = len < spool->room - at ? len : spool->room - at;
    if (len == 0)
        return;
    memcpy(out, spool->data + at, first);
    memcpy(out + first, spool->data, len - first);
}

/* Both rings grow by moving what they hold to the front of a larger one. */
static int reserve_bytes(struct spool *spool, size_t need)
{
    if (need <= spool->room)
        return 0;
    size_t room = spool->room > 0 ? spool->room : FIRST_ROOM_BYTES;
    while (room < need)
        room *= 2;
    char *data = malloc(room);
    if (!data)
        return TEND_ENOMEM;
    if (spool->room > 0)
        spool_copy(spool, 0, spool->len, data);
    free(spool->data);
    spool->data = data;
    spool->room = room;
    spool->start = 0;
    return 0;
}

static int reserve_segment(struct spool *spool)
{
    if (spool->segment_count != spool->segment_room) /* it is never above */
        return 0;
    size_t room = spool->segment_room > 0 ? spool->segment_room * 2 : FIRST_SEGMENTS;
    struct spool_segment *segments = malloc(room * sizeof *segments);
    if (!segments)
        return TEND_ENOMEM;
    for (size_t i = 0; i < spool->segment_count; i++)
        segments[i] = *spool_segment(spool, i);
    free(spool->segments);
    spool->segments = segments;
    spool->segment_room = room;
    spool->segment_start = 0;
    return 0;
}

int spool_push(struct spool *spool, int stream, int64_t at_ms, const char *text, size_t len)
{
    if (len == 0)
        return 0;
    if (reserve_bytes(spool, spool->len + len) < 0 || reserve_segment(spool) < 0)
        return TEND_ENOMEM;
    struct spool_segment *segment = open_segment(spool, stream, at_ms);
    if (!segment) {
        size_t next = (spool->segment_start + spool->segment_count++) % spool->segment_room;
        segment = &spool->segments[next];
        *segment = (struct spool_segment){.at_ms = at_ms, .stream = stream};
    }
    segment->bytes += len;
    size_t end = (spool->start + spool->len) % spool->room;
    size_t first = len < spool->room - end ? len : spool->room - end;
    memcpy(spool->data + end, text, first);
    memcpy(spool->data, text + first, len - first);
    spool->len += len;
    return 0;
}

static char byte_at(const struct spool *spool, size_t at)
{
    return spool->data[(spool->start + at) % spool->room];
}

/* The place, from `at` on and within a segment, where its text may begin. */
static size_t cut_after(const struct spool *spool, size_t at, size_t end)
{
    size_t look_end = at + LINE_LOOK_BYTES < end ? at + LINE_LOOK_BYTES : end;
    for (size_t i = at; i < look_end; i++) {
        if (byte_at(spool, i > 0 ? i - 1 : 0) == '\n' && i > 0)
            return i;
    }
    while (at < end && ((unsigned char)byte_at(spool, at) & 0xC0) == 0x80)
        at++;
    return at;
}

static void drop_bytes(struct spool *spool, size_t bytes)
{
    spool->start = (spool->start + bytes) % spool->room;
    spool->len -= bytes;
}

size_t spool_drop(struct spool *spool, size_t cost)
{
    size_t dropped = 0, freed = 0;
    while (freed < cost && spool->segment_count > 0) {
        struct spool_segment *oldest = &spool->segments[spool->segment_start];
        size_t cut = oldest->bytes;
        if (cost - freed < cut)
            cut = cut_after(spool, cost - freed, oldest->bytes);
        drop_bytes(spool, cut);
        dropped += cut;
        freed += cut;
        oldest->bytes -= cut;
        if (oldest->bytes == 0) {
            spool->segment_start = (spool->segment_start + 1) % spool->segment_room;
            spool->segment_count--;
            freed += SPOOL_SEGMENT_CHARGE;
        }
    }
    return dropped;
}
