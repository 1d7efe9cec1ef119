/*
 * Inside core/redact: sequences that style text on a terminal. They may stand anywhere in a text,
 * also inside a token or between a name and its value, and mean nothing.
 *
 * Sequences that move the cursor are no part of this: what follows them stands elsewhere, so that
 * the text around them is not one.
 */
#include "core/redact_set.h"

enum { BELL = 0x07, STYLE_MAX_BYTES = 64 };

/* What is missing at the end of the text may still come. */
static int unfinished(bool at_end)
{
    return at_end ? 0 : REDACT_SEQUENCE_MORE;
}

/* ESC [ numbers, and m for a style or K for an erased line. */
static int style_bytes(const unsigned char *text, size_t len, bool at_end)
{
    size_t at = 2;
    while (at < len && at < STYLE_MAX_BYTES && text[at] >= '0' && text[at] <= '?')
        at++;
    if (at == len)
        return unfinished(at_end);
    return text[at] == 'm' || text[at] == 'K' ? (int)at + 1 : 0;
}

/* ESC ] text, up to BEL or ESC backslash. */
static int title_bytes(const unsigned char *text, size_t len, bool at_end)
{
    size_t at = 2;
    while (at < len && at < REDACT_SEQUENCE_MAX_BYTES && text[at] != BELL &&
           text[at] != REDACT_ESCAPE && !redact_is_line_end(text[at]))
        at++;
    if (at < len && text[at] == BELL)
        return (int)at + 1;
    if (at == len || (text[at] == REDACT_ESCAPE && at + 1 == len))
        return unfinished(at_end);
    return text[at] == REDACT_ESCAPE && text[at + 1] == '\\' ? (int)at + 2 : 0;
}

int redact_sequence_bytes(const unsigned char *text, size_t len, bool at_end, bool *ret_holds_text)
{
    *ret_holds_text = false;
    if (len < 2)
        return unfinished(at_end);
    switch (text[1]) {
    case '[':
        return style_bytes(text, len, at_end);
    case ']':
        *ret_holds_text = true;
        return title_bytes(text, len, at_end);
    case '(': /* a character set: one byte names it */
    case ')':
        return len > 2 ? 3 : unfinished(at_end);
    default:
        return 0;
    }
}
