/* See buf.h. */
#include "base/buf.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *buf)
{
    /* cap 0 marks the shared empty string, which is never written to nor freed. */
    *buf = (struct buf){.data = (char *)""};
}

void buf_done(struct buf *buf)
{
    if (buf->cap > 0)
        free(buf->data);
    buf_init(buf);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->cap > 0)
        buf->data[0] = '\0';
}

/* Makes room for `more` bytes and the NUL. */
static bool buf_reserve(struct buf *buf, size_t more)
{
    if (buf->failed)
        return false;
    if (more < buf->cap - buf->len && buf->cap > 0)
        return true;

    size_t need;
    if (__builtin_add_overflow(buf->len, more, &need) || __builtin_add_overflow(need, 1, &need)) {
        buf->failed = true;
        return false;
    }
    size_t cap = buf->cap > 0 ? buf->cap : 64;
    while (cap < need && cap <= SIZE_MAX / 2)
        cap *= 2;
    if (cap < need)
        cap = need;

    char *data = realloc(buf->cap > 0 ? buf->data : NULL, cap);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = '\0';
    return true;
}

void buf_append(struct buf *buf, const void *data, size_t len)
{
    if (len == 0 || !buf_reserve(buf, len))
        return;
    memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_puts(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void buf_putc(struct buf *buf, char byte)
{
    buf_append(buf, &byte, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);

    size_t room = buf->cap > buf->len ? buf->cap - buf->len : 0;
    int len = vsnprintf(room > 0 ? buf->data + buf->len : NULL, room, format, args);
    if (len < 0) {
        buf->failed = true;
        if (room > 0)
            buf->data[buf->len] = '\0';
    } else if (buf->failed) {
        if (room > 0)
            buf->data[buf->len] = '\0';
    } else if ((size_t)len < room) {
        buf->len += (size_t)len;
    } else if (buf_reserve(buf, (size_t)len)) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    } else if (room > 0) {
        buf->data[buf->len] = '\0'; /* take back what the first try left behind */
    }
    va_end(again);
    va_end(args);
}

void buf_int(struct buf *buf, int64_t number)
{
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        *--at = '-';
    buf_append(buf, at, (size_t)(digits + sizeof digits - at));
}

static void json_escape_byte(struct buf *buf, unsigned char byte)
{
    switch (byte) {
    case '"':
        buf_append(buf, "\\\"", 2);
        break;
    case '\\':
        buf_append(buf, "\\\\", 2);
        break;
    case '\n':
        buf_append(buf, "\\n", 2);
        break;
    case '\r':
        buf_append(buf, "\\r", 2);
        break;
    case '\t':
        buf_append(buf, "\\t", 2);
        break;
    default:
        buf_printf(buf, "\\u%04x", byte);
    }
}

void buf_json_string(struct buf *buf, const char *text, size_t len)
{
    buf_putc(buf, '"');
    size_t plain = 0; /* start of the run not yet copied */
    size_t at = 0;
    while (at < len) {
        unsigned char byte = (unsigned char)text[at];
        if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
            at++;
            continue;
        }
        size_t sequence = byte >= 0x80 ? utf8_sequence(text + at, len - at) : 0;
        if (sequence > 0) {
            at += sequence;
            continue;
        }
        buf_append(buf, text + plain, at - plain);
        if (byte >= 0x80)
            buf_append(buf, "\xEF\xBF\xBD", 3);
        else
            json_escape_byte(buf, byte);
        plain = ++at;
    }
    buf_append(buf, text + plain, at - plain);
    buf_putc(buf, '"');
}

char *buf_take(struct buf *buf)
{
    /* An empty result must still be memory the caller can free. */
    if (buf->failed || !buf_reserve(buf, 0)) {
        buf_done(buf);
        return NULL;
    }
    char *data = buf->data;
    buf_init(buf);
    return data;
}
