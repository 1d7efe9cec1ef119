/*
 * What one attempt writes: redacted, made UTF-8, bounded, with the time, readable while it runs.
 *
 *     bytes ─▶ redaction ─▶ UTF-8 ─┬─▶ head ──┐
 *      (a state per stream)        ├─▶ tail ──┴─▶ capture_take ─▶ tend_output_append
 *                                  ├─▶ last line, for a terminal
 *                                  └─▶ the last 16 KiB of lines, for summary and classification
 *
 * The head (256 KiB) is handed out as it comes. After it only the newest text (256 KiB) waits to be
 * taken; what had to make room is counted in dropped_bytes of the piece that follows. So the caller
 * takes at its own pace, and memory stays the same however much is written. Pieces of the tail that
 * newer ones have pushed out of the last 256 KiB can be deleted from the store: the batch says
 * which.
 *
 * Invariants: nothing leaves that has not been redacted; text begins and ends between characters;
 * NUL and bytes that are no UTF-8 are U+FFFD, other control characters stay. Not a reader of pipes
 * and not thread-safe: it belongs to the thread of its attempt. A zeroed capture may be asked and
 * done, but not fed.
 */
#ifndef RUN_CAPTURE_H
#define RUN_CAPTURE_H

#include "base/buf.h"
#include "core/redact.h"
#include "run/capture_spool.h"

#include <tend.h>

struct arena;
struct err;

enum {
    CAPTURE_STREAMS = 2, /* 1 stdout, 2 stderr */
    CAPTURE_LINE_BYTES = 512,
    CAPTURE_TAIL_GROUPS = 72,
};

struct capture_limits {
    size_t head_bytes;    /* 0: 256 KiB */
    size_t tail_bytes;    /* 0: 256 KiB; at least 4 KiB */
    size_t summary_bytes; /* 0: 16 KiB */
};

/* Pieces of the tail that were handed out, some together, so that their number is bounded. */
struct capture_group {
    int64_t first_seq;
    uint64_t text_bytes;
    uint64_t dropped_bytes; /* that are noted in them */
};

struct capture_batch {
    const struct tend_output *pieces; /* in the arena */
    size_t count;
    /*
     * When discard_to_seq > 0: after these pieces are stored, those from discard_from_seq on and
     * before discard_to_seq belong to the middle and are to be deleted, and discard_bytes added to
     * dropped_bytes of piece discard_to_seq.
     */
    int64_t discard_from_seq, discard_to_seq;
    int64_t discard_bytes;
};

struct capture {
    /* To be read by anybody. */
    uint64_t total_bytes;   /* as the process wrote them, on both streams */
    uint64_t dropped_bytes; /* of text, left out */
    int64_t last_output_ms; /* time of the last byte, also of one left out; 0: none yet */

    struct capture_limits limits;
    struct redact_stream redact[CAPTURE_STREAMS];
    char partial[CAPTURE_STREAMS][4]; /* the beginning of a character */
    size_t partial_bytes[CAPTURE_STREAMS];
    struct buf redacted, clean; /* of the slice in work */

    struct spool head, tail;
    size_t head_left; /* cost the head may still take; 0: it is complete */
    uint64_t dropped_before_tail;
    int64_t next_seq;
    struct capture_group groups[CAPTURE_TAIL_GROUPS];
    size_t group_count;
    uint64_t tail_stored_bytes;

    struct buf recent;                     /* whole lines: at least the last summary_bytes */
    int recent_stream;                     /* that wrote its end, from 0 */
    struct buf open_line[CAPTURE_STREAMS]; /* the line that has not ended */
    int last_stream;                       /* that wrote at all, from 0 */
    struct buf summary;                    /* what capture_tail returned */
    char line[CAPTURE_STREAMS][CAPTURE_LINE_BYTES + 3]; /* with the rest of a character */
    size_t line_bytes[CAPTURE_STREAMS];
    char last_line[CAPTURE_LINE_BYTES + 1];
};

/* limits may be NULL. The redactor is borrowed until capture_done. */
void capture_init(struct capture *capture, const struct redactor *redactor,
                  const struct capture_limits *limits);
void capture_done(struct capture *capture);

/* Bytes as read from a pipe, stream 1 or 2. 0 or TEND_ENOMEM. */
int capture_feed(struct capture *capture, int stream, const void *bytes, size_t len, int64_t now_ms,
                 struct err *err);

/* A note of the worker (stream 0), redacted and in UTF-8 already. It is kept with the output, but
 * is neither the last line nor part of the tail: it says nothing about the failure. 0 or
 * TEND_ENOMEM.
 */
int capture_say(struct capture *capture, const char *text, size_t len, int64_t now_ms);

/* Both streams have ended: what was held back comes out. 0 or TEND_ENOMEM. */
int capture_end(struct capture *capture, int64_t now_ms, struct err *err);

/* What has come since the last time, in the arena. 0, or TEND_ENOMEM and nothing is taken. */
int capture_take(struct capture *capture, struct arena *arena, struct capture_batch *ret,
                 struct err *err);

/* The newest line with something on it, as far as it is there; "" before there is any. */
const char *capture_last_line(const struct capture *capture);

/* The last text of both streams, line by line as each stream wrote it, from the beginning of a line
 * where possible; valid until the next feed or tail. NUL-terminated. "" without memory. */
const char *capture_tail(struct capture *capture, size_t *ret_bytes);

/* Appends "[… 12.3 MiB left out …]". */
void capture_note(struct buf *buf, uint64_t dropped_bytes);

#endif
