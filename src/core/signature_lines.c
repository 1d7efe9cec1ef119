/* See signature_lines.h. */
#include "core/signature_lines.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

static bool is_end(char byte)
{
    return byte == '\n' || byte == '\r';
}

static bool is_blank(struct tail_line line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.text[i] != ' ' && line.text[i] != '\t')
            return false;
    return true;
}

size_t tail_lines(const char *text, size_t len, struct tail_line ret_lines[TAIL_LINES])
{
    size_t count = 0;
    size_t first = len > TAIL_BYTES ? len - TAIL_BYTES : 0;
    size_t end = len;
    while (end > first && count < TAIL_LINES) {
        size_t start = end;
        while (start > first && !is_end(text[start - 1]))
            start--;
        struct tail_line line = {text + start, end - start};
        if (!is_blank(line))
            ret_lines[count++] = line;
        end = start > first ? start - 1 : first;
    }
    return count;
}

enum { ESCAPE = 0x1B, BELL = 0x07 };

/* Behind the escape sequence that starts at `at`. One that does not end within the line goes to
 * its end. */
static size_t skip_escape(const char *text, size_t len, size_t at)
{
    size_t next = at + 1;
    if (next == len)
        return len;
    if (text[next] == '[') { /* CSI: parameters, then one byte from @ to ~ */
        for (next++; next < len && (unsigned char)text[next] < 0x40; next++)
            ;
        return next < len ? next + 1 : len;
    }
    if (text[next] == ']') { /* OSC: up to BEL or ESC \ */
        for (next++; next < len && text[next] != BELL && text[next] != ESCAPE; next++)
            ;
        if (next < len && text[next] == ESCAPE && next + 1 < len && text[next + 1] == '\\')
            next++;
        return next < len ? next + 1 : len;
    }
    return (unsigned char)text[next] < 0x80 ? next + 1 : next;
}

/* C0, DEL, and C1 in its two bytes. */
static bool is_control(const char *text, size_t sequence)
{
    unsigned char first = (unsigned char)text[0];
    if (sequence == 1)
        return first < 0x20 || first == 0x7F;
    return first == 0xC2 && (unsigned char)text[1] < 0xA0;
}

size_t tail_line_plain(struct tail_line line, char out[LINE_BYTES + 1])
{
    size_t len = 0;
    for (size_t at = 0; at < line.len && len < LINE_BYTES;) {
        unsigned char byte = (unsigned char)line.text[at];
        if (byte == ESCAPE) {
            at = skip_escape(line.text, line.len, at);
            continue;
        }
        size_t sequence = utf8_sequence(line.text + at, line.len - at);
        if (len + sequence > LINE_BYTES)
            break;
        if (sequence == 0) {
            out[len++] = '?';
            at++;
            continue;
        }
        if (is_control(line.text + at, sequence))
            out[len++] = ' ';
        else
            for (size_t i = 0; i < sequence; i++)
                out[len++] = line.text[at + i];
        at += sequence;
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    size_t blanks = 0;
    while (blanks < len && out[blanks] == ' ')
        blanks++;
    memmove(out, out + blanks, len - blanks);
    out[len - blanks] = '\0';
    return len - blanks;
}
