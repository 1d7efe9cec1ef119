/* See logs_text.h. */
#include "cli/logs_text.h"

#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "run/capture.h"

#include <inttypes.h>
#include <string.h>

void logs_text_init(struct logs_text *text, struct cli *cli, bool stamps)
{
    *text = (struct logs_text){
        .cli = cli, .terminal = cli->width > 0, .stamps = stamps, .last_stream = -1};
}

/* --- what may go to a terminal --- */

/* Length of a sequence that only sets colours, "ESC [ 1 ; 31 m"; 0: it is none. */
static size_t color_sequence(const char *text, size_t bytes)
{
    if (bytes < 3 || text[0] != '\033' || text[1] != '[')
        return 0;
    size_t at = 2;
    while (at < bytes && strchr("0123456789;:", text[at]) && text[at])
        at++;
    return at < bytes && text[at] == 'm' ? at + 1 : 0;
}

/* How many bytes from text on are nothing a terminal acts on. */
static size_t harmless(const char *text, size_t bytes)
{
    size_t at = 0;
    for (; at < bytes; at++) {
        unsigned char byte = (unsigned char)text[at];
        bool c1 = byte == 0xC2 && at + 1 < bytes && (unsigned char)text[at + 1] < 0xA0;
        if ((byte < ' ' && byte != '\t') || byte == 0x7F || c1)
            break;
    }
    return at;
}

/* One line without its end: colours stay, other control characters become ^X. */
static void put_safe(struct buf *out, bool color, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t len = harmless(text + at, bytes - at);
        buf_append(out, text + at, len);
        at += len;
        if (at == bytes)
            return;
        size_t sequence = color_sequence(text + at, bytes - at);
        if (sequence > 0 && color)
            buf_append(out, text + at, sequence);
        if (sequence > 0) {
            at += sequence;
        } else if ((unsigned char)text[at] == 0xC2) {
            buf_puts(out, "\xEF\xBF\xBD");
            at += 2;
        } else {
            buf_putc(out, '^');
            buf_putc(out, (char)(text[at] ^ 0x40));
            at++;
        }
    }
}

/* --- a piece, line by line --- */

static enum color stream_color(int stream)
{
    return stream == 2 ? COLOR_RED : stream == 1 ? COLOR_NONE : COLOR_DIM;
}

static void put_line(struct logs_text *text, struct buf *out, const struct tend_output *piece,
                     const char *line, size_t bytes, bool ended)
{
    struct cli *cli = text->cli;
    enum color color = stream_color(piece->stream);
    char time[TIME_TEXT_BYTES];
    if (text->stamps && !text->in_line[piece->stream])
        buf_printf(out, "%s%s%s ", text->terminal ? color_on(cli, COLOR_DIM) : "",
                   time_text(piece->at_ms, time), text->terminal ? color_off(cli, COLOR_DIM) : "");
    if (!text->terminal) {
        buf_append(out, line, bytes);
    } else {
        if (bytes > 0 && line[bytes - 1] == '\r' && ended)
            bytes--;
        buf_puts(out, color_on(cli, color));
        put_safe(out, cli->color, line, bytes);
        buf_puts(out, color_off(cli, color));
    }
    if (ended)
        buf_putc(out, '\n');
    text->in_line[piece->stream] = !ended;
}

static void put_lines(struct logs_text *text, struct buf *out, const struct tend_output *piece)
{
    const char *at = piece->text;
    const char *end = at + piece->text_bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        put_line(text, out, piece, at, (size_t)((stop ? stop : end) - at), stop != NULL);
        at = stop ? stop + 1 : end;
    }
}

/* On a terminal, where both streams meet, nothing goes on in a line of the other. */
static void break_line(struct logs_text *text, struct buf *out, int stream)
{
    int last = text->last_stream;
    bool meets = text->terminal && last >= 0 && last != stream;
    if (meets && text->in_line[last]) {
        buf_putc(out, '\n');
        text->in_line[last] = false;
    }
    text->last_stream = stream;
}

static void put_dropped(struct logs_text *text, struct buf *out, const struct tend_output *piece)
{
    if (piece->dropped_bytes <= 0)
        return;
    if (text->in_line[piece->stream])
        buf_putc(out, '\n');
    text->in_line[piece->stream] = false;
    buf_puts(out, text->terminal ? color_on(text->cli, COLOR_DIM) : "");
    capture_note(out, (uint64_t)piece->dropped_bytes);
    buf_puts(out, text->terminal ? color_off(text->cli, COLOR_DIM) : "");
    buf_putc(out, '\n');
}

/* What is said to standard error comes behind what went to standard output before. */
static void hand_out(struct logs_text *text, bool to_stderr, struct buf *piece_text)
{
    if (!to_stderr) {
        buf_append(&text->cli->out, piece_text->data, piece_text->len);
    } else {
        cli_flush(text->cli);
        cli_write_error(piece_text);
    }
    buf_done(piece_text);
}

void logs_text_piece(struct logs_text *text, const struct tend_output *piece)
{
    struct buf out;
    buf_init(&out);
    break_line(text, &out, piece->stream);
    put_dropped(text, &out, piece);
    put_lines(text, &out, piece);
    if (piece->stream == 0 && text->in_line[0]) {
        buf_putc(&out, '\n');
        text->in_line[0] = false;
    }
    hand_out(text, !text->terminal && piece->stream != 1, &out);
}

void logs_text_break(struct logs_text *text)
{
    for (int stream = 0; stream < 3; stream++) {
        bool here = text->terminal || stream == 1;
        if (here && text->in_line[stream])
            buf_putc(&text->cli->out, '\n');
        if (here)
            text->in_line[stream] = false;
    }
}

void logs_text_header(struct logs_text *text, const struct tend_attempt *attempt, bool with_state)
{
    struct cli *cli = text->cli;
    struct buf out;
    char time[TIME_TEXT_BYTES];
    buf_init(&out);
    break_line(text, &out, 0);
    buf_puts(&out, text->terminal ? color_on(cli, COLOR_BOLD) : "");
    buf_printf(&out, "== %" PRId64 ": step %s, attempt %" PRId64, attempt->number, attempt->step_id,
               attempt->attempt);
    if (strcmp(attempt->strategy, "first") != 0)
        buf_printf(&out, " (%s)", attempt->strategy);
    buf_printf(&out, ", %s%s%s", time_text(attempt->started_at_ms, time), with_state ? ", " : "",
               with_state ? tend_attempt_state_name(attempt->state) : "");
    buf_puts(&out, text->terminal ? color_off(cli, COLOR_BOLD) : "");
    buf_putc(&out, '\n');
    hand_out(text, !text->terminal, &out);
}
