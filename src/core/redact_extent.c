/*
 * Inside core/redact: where a value that stands alone ends. In NAME=value of a shell, in an option
 * of a command or in a .netrc, a value goes on to the next blank, whatever it is made of. But it
 * may stand in brackets or in a list, and what closes these is no part of it.
 */
#include "core/redact_set.h"

enum { BARE_BYTES = 256 }; /* a longer value is left out as a run */

/* The closing bracket has its opening one in the value. */
static bool is_opened(const unsigned char *value, size_t len, int closing)
{
    static const char pairs[] = ")(}{][><";
    const char *pair = strchr(pairs, closing);
    return memchr(value, pair[1], len) != NULL;
}

static bool closes(const unsigned char *value, size_t len)
{
    int last = value[len - 1];
    if (last == ',' || last == ';')
        return true;
    if (redact_is_quote(last))
        return memchr(value, last, len - 1) == NULL;
    return strchr(")}]>", last) && !is_opened(value, len - 1, last);
}

enum redact_verdict redact_cover_bare(const struct redact_view *view, size_t at, int quote,
                                      struct redact_find *ret_find)
{
    int byte = 0;
    size_t len = 0;
    while (len < BARE_BYTES && (byte = redact_peek(view, at + len)) > ' ' && byte != quote)
        len++;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    bool cut = len == BARE_BYTES;
    while (!cut && len > 1 && closes(view->text + at, len))
        len--;
    *ret_find = (struct redact_find){
        .from = at, .to = at + len, .run = cut ? REDACT_RUN_BARE : REDACT_RUN_NONE};
    return len > 0 ? REDACT_YES : REDACT_NO;
}

enum redact_verdict redact_cover_escaped(const struct redact_view *view, size_t at,
                                         struct redact_find *ret_find)
{
    int byte = 0;
    size_t len = 0, depth = 0, slashes = 0;
    while (depth + 2 <= at && view->text[at - 2 - depth] == '\\')
        depth++;
    *ret_find = (struct redact_find){.from = at, .to = at, .run = REDACT_RUN_ESCAPED};
    for (; len < BARE_BYTES && (byte = redact_peek(view, at + len)) >= ' '; len++) {
        if (byte == '"' && slashes <= depth) {
            *ret_find = (struct redact_find){.from = at, .to = at + len - slashes};
            return len > slashes ? REDACT_YES : REDACT_NO;
        }
        slashes = byte == '\\' ? slashes + 1 : 0;
    }
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}
