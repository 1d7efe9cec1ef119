/* See signature_lines.h. */
#include "core/signature_lines.h"

#include "base/text.h"

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

/* "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0curl: (6) …" */
size_t line_meter_bytes(const char *text, size_t len)
{
    static const char message[] = "curl: (";
    static const char meter[] = "0123456789 -:.kMGTP";
    const char *error = len == 0 ? NULL : memmem(text, len, message, sizeof message - 1);
    size_t before = error == NULL ? 0 : (size_t)(error - text);
    for (size_t i = 0; i < before; i++)
        if (text[i] == '\0' || strchr(meter, text[i]) == NULL)
            return 0;
    return before;
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
        size_t meter = line_meter_bytes(text + start, end - start);
        struct tail_line line = {text + start + meter, end - start - meter};
        if (!is_blank(line))
            ret_lines[count++] = line;
        end = start > first ? start - 1 : first;
    }
    return count;
}

size_t tail_line_plain(struct tail_line line, char out[LINE_BYTES + 1])
{
    return text_plain(line.text, line.len, out, LINE_BYTES + 1);
}

enum { PART_STEP = LINE_BYTES - PART_OVERLAP_BYTES };

size_t tail_line_parts(struct tail_line line)
{
    if (line.len <= LINE_BYTES)
        return 1;
    return 1 + (line.len - LINE_BYTES + PART_STEP - 1) / PART_STEP;
}

struct line_part tail_line_part(struct tail_line line, size_t number, char out[LINE_BYTES + 1])
{
    size_t from = number * PART_STEP;
    size_t left = line.len - from;
    struct tail_line piece = {line.text + from, left < LINE_BYTES ? left : LINE_BYTES};
    return (struct line_part){
        .text = out,
        .len = tail_line_plain(piece, out),
        .first = number == 0,
        .last = left <= LINE_BYTES,
    };
}
