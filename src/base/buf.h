/*
 * A growable run of bytes that is always a C string.
 *
 * Not a string library: it only appends. Invariants: data[len] is NUL at all times after
 * buf_init; once memory has run out, `failed` stays true, further appends do nothing, and the
 * caller checks once at the end instead of after every call.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;  /* NUL-terminated; never NULL after buf_init */
    size_t len;  /* bytes in use, without the NUL */
    size_t cap;  /* bytes allocated, with room for the NUL; 0 while nothing is allocated */
    bool failed; /* an append ran out of memory: the content is incomplete */
};

void buf_init(struct buf *buf);

/* Frees the memory; the buffer is empty and usable again afterwards. */
void buf_done(struct buf *buf);

/* Empties the buffer, keeps its memory, forgets a failure. */
void buf_clear(struct buf *buf);

void buf_append(struct buf *buf, const void *data, size_t len);
void buf_puts(struct buf *buf, const char *text);
void buf_putc(struct buf *buf, char byte);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_int(struct buf *buf, int64_t number);

/*
 * Appends text as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD each,
 * so that what comes out is valid JSON whatever went in.
 */
void buf_json_string(struct buf *buf, const char *text, size_t len);

/*
 * Hands the content over: the caller frees it with free(); the buffer is empty afterwards.
 * NULL when memory ran out at any point.
 */
char *buf_take(struct buf *buf);

#endif
