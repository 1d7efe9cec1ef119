/*
 * Inside run/capture: text that waits to be handed out, newest kept when there is too much.
 *
 * A ring of bytes and a ring of segments; a segment is text of one stream and about one time.
 * Invariants: bytes plus a charge for each segment stay within the limit, so that neither a flood
 * of text nor one of single bytes takes more; text is cut between characters, and after a line
 * where one ends nearby.
 */
#ifndef RUN_CAPTURE_SPOOL_H
#define RUN_CAPTURE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPOOL_SEGMENT_CHARGE = 64 };

struct spool_segment {
    int64_t at_ms; /* of its first byte */
    int stream;
    size_t bytes;
};

struct spool {
    char *data;
    size_t room, start, len;
    struct spool_segment *segments;
    size_t segment_room, segment_start, segment_count;
};

/* A zeroed spool is an empty one. */
void spool_done(struct spool *spool);

/* Forgets the text, keeps the memory. */
void spool_clear(struct spool *spool);

/* Bytes and charges. */
size_t spool_cost(const struct spool *spool);

/* What a push of this stream and time would be charged beside its bytes. */
size_t spool_charge(const struct spool *spool, int stream, int64_t at_ms);

/* Adds text that the caller has made room for. 0 or TEND_ENOMEM. */
int spool_push(struct spool *spool, int stream, int64_t at_ms, const char *text, size_t len);

/* Drops the oldest text until at least this much is free again; returns how many bytes went. */
size_t spool_drop(struct spool *spool, size_t cost);

const struct spool_segment *spool_segment(const struct spool *spool, size_t index);

/* Copies len bytes from the given place, counted from the oldest byte. */
void spool_copy(const struct spool *spool, size_t from, size_t len, char *out);

#endif
