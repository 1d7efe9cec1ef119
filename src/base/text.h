/*
 * Text as people read it: UTF-8, names, columns in a table.
 *
 * Not a Unicode library: widths come from a short table of ranges that is good enough to keep
 * columns straight, and no locale is consulted.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum { NAME_MAX_BYTES = 200 };

/*
 * Length in bytes (1 to 4) of the UTF-8 sequence at the start of text; 0 when there is none:
 * no bytes, a stray or missing continuation byte, an overlong form, a surrogate, beyond U+10FFFF.
 */
size_t utf8_sequence(const char *text, size_t len);

/* The code point of a valid sequence, whose length utf8_sequence has told. */
uint32_t utf8_decode(const char *text, size_t sequence);

bool utf8_valid(const char *text, size_t len);

/*
 * The largest cut <= at that does not split a sequence of text (len bytes long). Where the bytes
 * are no UTF-8 there is nothing to split, and the cut is at itself.
 */
size_t utf8_floor(const char *text, size_t len, size_t at);

/*
 * Appends text as UTF-8 without NUL: each byte that is no part of a sequence, and each NUL, becomes
 * U+FFFD. Returns how many bytes were used: all of them, but for a sequence at the end that more
 * bytes may complete; with at_end, nothing more comes.
 */
size_t utf8_clean(struct buf *buf, const char *text, size_t len, bool at_end);

/*
 * Whether text can name a queue, kind, owner or lock: 1 to 200 bytes of UTF-8 without control
 * characters (C0, DEL, C1). NULL is no name.
 */
bool name_ok(const char *text);

/* The ending of a noun after a number: "" for 1, else "s". */
const char *plural(int64_t count);

/* The same number for the same text in every process (FNV-1a); all of its bits are fit for use. */
uint64_t text_hash(const char *text);

/* Columns the text takes on a terminal; control characters and stray bytes count one each. */
size_t text_width(const char *text, size_t len);

/*
 * Appends text in at most `columns` columns, cut with "…" when it is longer. Control characters
 * become spaces and stray bytes U+FFFD, so that a table stays a table. With pad, fills up with
 * spaces to exactly `columns`.
 */
void text_fit(struct buf *buf, const char *text, size_t len, size_t columns, bool pad);

/*
 * A line as a person reads it, in out: without the escape sequences that steer a terminal (colours,
 * titles), other control characters as spaces, stray bytes as ?, no spaces at its ends, cut between
 * characters to size - 1 bytes. Returns its length.
 */
size_t text_plain(const char *text, size_t len, char *out, size_t size);

#endif
