/* See text.h. */
#include "base/text.h"

#include "base/buf.h"

#include <string.h>

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

size_t utf8_sequence(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    if (first < 0xE0)
        return len >= 2 && is_continuation(text[1]) ? 2 : 0;

    unsigned char second = len >= 2 ? (unsigned char)text[1] : 0;
    unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (second < lowest || second > highest)
        return 0;
    if (first < 0xF0)
        return len >= 3 && is_continuation(text[2]) ? 3 : 0;
    return len >= 4 && is_continuation(text[2]) && is_continuation(text[3]) ? 4 : 0;
}

bool utf8_valid(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t sequence = utf8_sequence(text + at, len - at);
        if (sequence == 0)
            return false;
        at += sequence;
    }
    return true;
}

size_t utf8_floor(const char *text, size_t len, size_t at)
{
    if (at >= len)
        return len;
    for (size_t back = 1; back <= 3 && back <= at; back++) {
        size_t start = at - back;
        if (is_continuation(text[start]))
            continue;
        size_t sequence = utf8_sequence(text + start, len - start);
        return start + sequence > at ? start : at;
    }
    return at;
}

uint32_t utf8_decode(const char *text, size_t sequence)
{
    static const unsigned char first_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t point = (unsigned char)text[0] & first_mask[sequence];
    for (size_t i = 1; i < sequence; i++)
        point = point << 6 | ((unsigned char)text[i] & 0x3F);
    return point;
}

/* Bytes from the start of text that are ASCII and not NUL, eight at a time. */
static size_t plain_span(const char *text, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    size_t at = 0;
    for (; at + 8 <= len; at += 8) {
        uint64_t word;
        memcpy(&word, text + at, 8);
        if ((word | (word - ones)) & highs)
            break;
    }
    while (at < len && (unsigned char)text[at] - 1u < 0x7F)
        at++;
    return at;
}

/* Whether these bytes, which are no sequence, are the beginning of one. */
static bool is_unfinished(const char *text, size_t len)
{
    if (len == 0 || len >= 4)
        return false;
    unsigned char first = (unsigned char)text[0];
    if (len == 1)
        return first >= 0xC2 && first <= 0xF4;
    char filled[4] = {0, 0, (char)0x80, (char)0x80};
    memcpy(filled, text, len);
    return utf8_sequence(filled, sizeof filled) > len;
}

size_t utf8_clean(struct buf *buf, const char *text, size_t len, bool at_end)
{
    size_t plain = 0; /* from here on not yet copied */
    size_t at = 0;
    while (at < len) {
        at += plain_span(text + at, len - at);
        if (at == len)
            break;
        size_t sequence = text[at] == '\0' ? 0 : utf8_sequence(text + at, len - at);
        if (sequence == 0 && !at_end && is_unfinished(text + at, len - at))
            break;
        if (sequence == 0) {
            buf_append(buf, text + plain, at - plain);
            buf_puts(buf, "\xEF\xBF\xBD");
            plain = at + 1;
        }
        at += sequence > 0 ? sequence : 1;
    }
    buf_append(buf, text + plain, at - plain);
    return at;
}

static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point < 0xA0);
}

bool name_ok(const char *text)
{
    if (!text)
        return false;
    size_t len = strnlen(text, NAME_MAX_BYTES + 1);
    if (len == 0 || len > NAME_MAX_BYTES)
        return false;
    for (size_t at = 0; at < len;) {
        size_t sequence = utf8_sequence(text + at, len - at);
        if (sequence == 0 || is_control(utf8_decode(text + at, sequence)))
            return false;
        at += sequence;
    }
    return true;
}

struct range {
    uint32_t first, last;
};

/* Combining marks, joiners and variation selectors: they sit on the character before. */
static const struct range zero_width[] = {
    {0x0300, 0x036F},   {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x0900, 0x0902},   {0x093C, 0x093C}, {0x0941, 0x0948}, {0x0E31, 0x0E31}, {0x0E34, 0x0E3A},
    {0x0E47, 0x0E4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E},
    {0x2060, 0x2064},   {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF},
    {0xE0100, 0xE01EF},
};

/* East Asian wide and fullwidth, and emoji shown as such by default. */
static const struct range double_width[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},
    {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x26A1, 0x26A1},
    {0x26D4, 0x26D4},   {0x2705, 0x2705},   {0x274C, 0x274C},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},
    {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
    {0xA000, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F7E0, 0x1F7EB}, {0x1F900, 0x1F9FF},
    {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
};

static bool in_ranges(uint32_t point, const struct range *ranges, size_t count)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (point > ranges[middle].last)
            low = middle + 1;
        else if (point < ranges[middle].first)
            count = middle;
        else
            return true;
    }
    return false;
}

static size_t point_width(uint32_t point)
{
    if (point < 0x300)
        return 1;
    if (in_ranges(point, zero_width, sizeof zero_width / sizeof *zero_width))
        return 0;
    return in_ranges(point, double_width, sizeof double_width / sizeof *double_width) ? 2 : 1;
}

/* Columns of what starts at text; its bytes go to ret_bytes. Stray bytes are one column. */
static size_t next_width(const char *text, size_t len, size_t *ret_bytes)
{
    size_t sequence = utf8_sequence(text, len);
    *ret_bytes = sequence > 0 ? sequence : 1;
    return sequence > 0 ? point_width(utf8_decode(text, sequence)) : 1;
}

const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

size_t text_width(const char *text, size_t len)
{
    size_t columns = 0;
    for (size_t at = 0, bytes = 0; at < len; at += bytes)
        columns += next_width(text + at, len - at, &bytes);
    return columns;
}

static void put_displayable(struct buf *buf, const char *text, size_t bytes)
{
    if (utf8_sequence(text, bytes) == 0)
        buf_puts(buf, "\xEF\xBF\xBD");
    else if (is_control(utf8_decode(text, bytes)))
        buf_putc(buf, ' ');
    else
        buf_append(buf, text, bytes);
}

void text_fit(struct buf *buf, const char *text, size_t len, size_t columns, bool pad)
{
    bool cut = text_width(text, len) > columns;
    size_t room = cut && columns > 0 ? columns - 1 : columns;
    size_t used = 0;
    for (size_t at = 0, bytes = 0; at < len; at += bytes) {
        size_t width = next_width(text + at, len - at, &bytes);
        if (used + width > room)
            break;
        put_displayable(buf, text + at, bytes);
        used += width;
    }
    if (cut && columns > 0) {
        buf_puts(buf, "\xE2\x80\xA6");
        used++;
    }
    for (; pad && used < columns; used++)
        buf_putc(buf, ' ');
}

/* --- without what steers a terminal --- */

enum { ESCAPE = 0x1B, BELL = 0x07 };

/* The end of the escape sequence that starts at `at`. One that does not end within the text goes to
 * its end. */
static size_t escape_end(const char *text, size_t len, size_t at)
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

/* Takes the spaces off both ends; the length that is left. */
static size_t trim(char *text, size_t len)
{
    size_t blanks = 0;
    while (len > 0 && text[len - 1] == ' ')
        len--;
    while (blanks < len && text[blanks] == ' ')
        blanks++;
    memmove(text, text + blanks, len - blanks);
    text[len - blanks] = '\0';
    return len - blanks;
}

size_t text_plain(const char *text, size_t len, char *out, size_t size)
{
    size_t used = 0;
    for (size_t at = 0; at < len && used < size - 1;) {
        if (text[at] == ESCAPE) {
            at = escape_end(text, len, at);
            continue;
        }
        size_t sequence = utf8_sequence(text + at, len - at);
        if (used + sequence > size - 1)
            break;
        if (sequence == 0)
            out[used++] = '?';
        else if (is_control(utf8_decode(text + at, sequence)))
            out[used++] = ' ';
        else
            for (size_t i = 0; i < sequence; i++)
                out[used++] = text[at + i];
        at += sequence > 0 ? sequence : 1;
    }
    return trim(out, used);
}
