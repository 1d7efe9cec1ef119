/* See quoted.h. */
#include "core/quoted.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 64 }; /* a longer one is no prefix */

struct span {
    const char *text;
    size_t len;
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static struct span trim(struct span span)
{
    while (span.len > 0 && is_blank(span.text[span.len - 1]))
        span.len--;
    while (span.len > 0 && is_blank(span.text[0])) {
        span.text++;
        span.len--;
    }
    return span;
}

/* The line that begins at the text; *ret_rest is what follows its end. */
static struct span first_line(struct span text, struct span *ret_rest)
{
    size_t len = 0;
    while (len < text.len && text.text[len] != '\n' && text.text[len] != '\r')
        len++;
    size_t used = len < text.len ? len + 1 : len;
    *ret_rest = (struct span){text.text + used, text.len - used};
    return (struct span){text.text, len};
}

/* Whether the line ends with the wanted text, but for blanks; *ret_prefix: how much is before. */
static bool ends_with(struct span line, struct span wanted, size_t *ret_prefix)
{
    size_t at = line.len;
    for (size_t i = wanted.len; i > 0; i--) {
        if (is_blank(wanted.text[i - 1]))
            continue;
        while (at > 0 && is_blank(line.text[at - 1]))
            at--;
        if (at == 0 || line.text[at - 1] != wanted.text[i - 1])
            return false;
        at--;
    }
    *ret_prefix = at;
    return true;
}

/* Whether the text begins with the wanted one, but for blanks; *ret_used: how long it is there. */
static bool begins_with(struct span text, struct span wanted, size_t *ret_used)
{
    size_t at = 0;
    for (size_t i = 0; i < wanted.len; i++) {
        if (is_blank(wanted.text[i]))
            continue;
        while (at < text.len && is_blank(text.text[at]))
            at++;
        if (at == text.len || text.text[at] != wanted.text[i])
            return false;
        at++;
    }
    *ret_used = at;
    return true;
}

static bool is_quote_mark(char byte)
{
    return is_blank(byte) || (byte != '\0' && strchr(">|#*+-:", byte) != NULL);
}

/* "name": … */
static bool is_member(struct span line)
{
    return line.text[0] == '"' && memmem(line.text, line.len, "\": ", 3) != NULL;
}

static bool repeats_line(struct span line, struct span given_line)
{
    size_t prefix;
    if (!ends_with(line, given_line, &prefix))
        return false;
    if (is_member(given_line))
        return prefix <= PREFIX_BYTES;
    while (prefix > 0 && is_quote_mark(line.text[prefix - 1]))
        prefix--;
    return prefix == 0;
}

/* The lines of the given text that are not blank. */
struct given_lines {
    struct span *items;
    size_t count;
};

/* False: no memory. */
static bool split_given(struct span given, struct given_lines *ret)
{
    size_t room = 1;
    for (size_t i = 0; i < given.len; i++)
        room += given.text[i] == '\n' || given.text[i] == '\r';
    *ret = (struct given_lines){.items = malloc(room * sizeof *ret->items)};
    while (ret->items && given.len > 0) {
        struct span line = trim(first_line(given, &given));
        if (line.len > 0)
            ret->items[ret->count++] = line;
    }
    return ret->items != NULL;
}

static bool repeats_any_line(struct span line, const struct given_lines *given)
{
    for (size_t i = 0; line.len > 0 && i < given->count; i++)
        if (repeats_line(line, given->items[i]))
            return true;
    return false;
}

/* What the line has after the whole given text; false: it does not have that. */
static bool cut_whole(struct span line, struct span given, struct span *ret_rest)
{
    size_t used;
    for (size_t i = 0; i < line.len && i <= PREFIX_BYTES; i++) {
        struct span from = {line.text + i, line.len - i};
        if (line.text[i] != given.text[0] || !begins_with(from, given, &used))
            continue;
        *ret_rest = (struct span){from.text + used, from.len - used};
        return true;
    }
    return false;
}

void quoted_drop(const char *tail, size_t tail_bytes, const char *given, struct buf *out)
{
    struct span left = {tail, tail_bytes};
    const struct span wanted = trim((struct span){given, strlen(given)});
    struct given_lines lines;
    if (!split_given(wanted, &lines)) {
        out->failed = true;
        return;
    }
    while (left.len > 0) {
        const char *begin = left.text;
        struct span line = first_line(left, &left);
        size_t end_bytes = (size_t)(left.text - begin) - line.len;
        bool repeats = wanted.len > 0 && repeats_any_line(line, &lines);
        if (wanted.len > 0 && cut_whole(line, wanted, &line))
            repeats = trim(line).len == 0;
        if (repeats)
            continue;
        buf_append(out, line.text, line.len);
        buf_append(out, line.text + line.len, end_bytes);
    }
    free(lines.items);
}
