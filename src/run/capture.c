/* See capture.h. */
#include "run/capture.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "core/signature_lines.h"

#include <string.h>

enum {
    DEFAULT_KEPT_BYTES = 256 * 1024,
    DEFAULT_SUMMARY_BYTES = 16 * 1024,
    TAIL_MIN_BYTES = 4096,
    SLICE_BYTES = 16 * 1024, /* worked on at once: it stays in the cache, and buffers stay small */
    LINE_LOOK_BYTES = 4096,
    OPEN_LINE_BYTES = 8 * 1024, /* of a line that has not ended */
    GROUPS_OF_TAIL = 64,
};

void capture_init(struct capture *capture, const struct redactor *redactor,
                  const struct capture_limits *limits)
{
    *capture = (struct capture){.next_seq = 1};
    if (limits)
        capture->limits = *limits;
    struct capture_limits *own = &capture->limits;
    own->head_bytes = own->head_bytes > 0 ? own->head_bytes : DEFAULT_KEPT_BYTES;
    own->tail_bytes = own->tail_bytes > 0 ? own->tail_bytes : DEFAULT_KEPT_BYTES;
    own->tail_bytes = own->tail_bytes > TAIL_MIN_BYTES ? own->tail_bytes : TAIL_MIN_BYTES;
    own->summary_bytes = own->summary_bytes > 0 ? own->summary_bytes : DEFAULT_SUMMARY_BYTES;
    capture->head_left = own->head_bytes;
    for (size_t i = 0; i < CAPTURE_STREAMS; i++)
        redact_init(&capture->redact[i], redactor);
    buf_init(&capture->redacted);
    buf_init(&capture->clean);
    buf_init(&capture->recent);
    buf_init(&capture->summary);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++)
        buf_init(&capture->open_line[i]);
}

void capture_done(struct capture *capture)
{
    for (size_t i = 0; i < CAPTURE_STREAMS; i++)
        redact_done(&capture->redact[i]);
    buf_done(&capture->redacted);
    buf_done(&capture->clean);
    buf_done(&capture->recent);
    buf_done(&capture->summary);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++)
        buf_done(&capture->open_line[i]);
    spool_done(&capture->head);
    spool_done(&capture->tail);
}

/* ---- the last line ---- */

static void show_line(struct capture *capture, size_t s)
{
    char plain[CAPTURE_LINE_BYTES + 1];
    size_t meter = line_meter_bytes(capture->line[s], capture->line_bytes[s]);
    size_t len =
        text_plain(capture->line[s] + meter, capture->line_bytes[s] - meter, plain, sizeof plain);
    if (len > 0)
        memcpy(capture->last_line, plain, len + 1);
}

/* A line drawn over and over with \r counts as one each time. */
static void follow_lines(struct capture *capture, size_t s, const char *text, size_t len)
{
    size_t at = 0;
    if (len > 2 * CAPTURE_LINE_BYTES) {
        at = utf8_floor(text, len, len - 2 * CAPTURE_LINE_BYTES);
        capture->line_bytes[s] = 0;
    }
    for (; at < len; at++) {
        if (text[at] == '\n' || text[at] == '\r') {
            show_line(capture, s);
            capture->line_bytes[s] = 0;
        } else if (capture->line_bytes[s] < sizeof capture->line[s]) {
            capture->line[s][capture->line_bytes[s]++] = text[at];
        }
    }
    show_line(capture, s);
}

const char *capture_last_line(const struct capture *capture)
{
    return capture->last_line;
}

/* ---- the last text ---- */

/* Text at the end of the summary; what is older makes room. */
static void append_recent(struct capture *capture, size_t s, const char *text, size_t len)
{
    struct buf *recent = &capture->recent;
    size_t most = capture->limits.summary_bytes;
    if (len > most) {
        text += len - most;
        len = most;
    }
    if (recent->len + len + 2 > 2 * most) {
        size_t kept = recent->len < most - len ? recent->len : most - len;
        memmove(recent->data, recent->data + recent->len - kept, kept);
        recent->len = kept;
    }
    /* A line of one stream does not go on in the other. */
    bool switched = capture->recent_stream != (int)s;
    if (switched && recent->len > 0 && recent->data[recent->len - 1] != '\n')
        buf_putc(recent, '\n');
    capture->recent_stream = (int)s;
    buf_append(recent, text, len);
}

/* The length of the text up to the end of its last whole line. */
static size_t whole_lines(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] != '\n' && text[len - 1] != '\r')
        len--;
    return len;
}

/* Both streams write when they like, in the middle of each other's lines. A line waits for its end,
 * so that whoever reads the summary sees lines as they were written. */
static void remember(struct capture *capture, size_t s, const char *text, size_t len)
{
    struct buf *open = &capture->open_line[s];
    size_t whole = whole_lines(text, len);
    capture->last_stream = (int)s;
    if (whole == 0 && open->len + len <= OPEN_LINE_BYTES) {
        buf_append(open, text, len);
        return;
    }
    append_recent(capture, s, open->data, open->len);
    buf_clear(open);
    if (whole == 0)
        whole = len; /* too long to wait for */
    append_recent(capture, s, text, whole);
    if (len - whole <= OPEN_LINE_BYTES)
        buf_append(open, text + whole, len - whole);
    else
        append_recent(capture, s, text + whole, len - whole);
}

/* Where the newest `most` bytes begin: after a line where possible, always between characters. */
static size_t newest_from(const struct buf *text, size_t most)
{
    size_t from = 0;
    if (text->len > most) {
        from = text->len - most;
        size_t look = text->len - from < LINE_LOOK_BYTES ? text->len - from : LINE_LOOK_BYTES;
        const char *newline = memchr(text->data + from, '\n', look);
        if (newline)
            from = (size_t)(newline - text->data) + 1;
    }
    while (from < text->len && ((unsigned char)text->data[from] & 0xC0) == 0x80)
        from++;
    return from;
}

const char *capture_tail(struct capture *capture, size_t *ret_bytes)
{
    /* The line that was written to last comes last. */
    const int order[CAPTURE_STREAMS] = {1 - capture->last_stream, capture->last_stream};
    struct buf *summary = &capture->summary;
    int written_by = capture->recent_stream;
    *ret_bytes = 0;
    if (capture->recent.len + capture->open_line[0].len + capture->open_line[1].len == 0)
        return ""; /* also of a zeroed one */
    buf_clear(summary);
    buf_append(summary, capture->recent.data, capture->recent.len);
    for (size_t i = 0; i < CAPTURE_STREAMS; i++) {
        const struct buf *open = &capture->open_line[order[i]];
        if (open->len == 0)
            continue;
        bool ended = summary->len == 0 || summary->data[summary->len - 1] == '\n';
        if (!ended && written_by != order[i])
            buf_putc(summary, '\n');
        buf_append(summary, open->data, open->len);
        written_by = order[i];
    }
    if (summary->failed)
        return "";
    size_t from = newest_from(summary, capture->limits.summary_bytes);
    *ret_bytes = summary->len - from;
    return summary->data + from;
}

/* ---- head and tail ---- */

/* The largest cut <= most after a line that ends nearby, or between characters. */
static size_t cut_before(const char *text, size_t len, size_t most)
{
    size_t look = most < LINE_LOOK_BYTES ? most : LINE_LOOK_BYTES;
    const char *newline = memrchr(text + most - look, '\n', look);
    return newline ? (size_t)(newline - text) + 1 : utf8_floor(text, len, most);
}

/* Returns how much went to the head. */
static size_t push_head(struct capture *capture, int stream, int64_t now_ms, const char *text,
                        size_t len, int *ret_code)
{
    size_t charge = spool_charge(&capture->head, stream, now_ms);
    size_t most = capture->head_left > charge ? capture->head_left - charge : 0;
    size_t fits = len <= most ? len : cut_before(text, len, most);
    *ret_code = spool_push(&capture->head, stream, now_ms, text, fits);
    capture->head_left = fits == len ? capture->head_left - charge - fits : 0;
    return fits;
}

static int push_tail(struct capture *capture, int stream, int64_t now_ms, const char *text,
                     size_t len)
{
    struct spool *tail = &capture->tail;
    size_t limit = capture->limits.tail_bytes;
    uint64_t dropped = 0;
    size_t most = limit - SPOOL_SEGMENT_CHARGE;
    if (len > most) {
        /* The newest part alone fills it. */
        size_t cut = len - most;
        const char *newline =
            memchr(text + cut, '\n', LINE_LOOK_BYTES < most ? LINE_LOOK_BYTES : most);
        if (newline && newline + 1 < text + len)
            cut = (size_t)(newline - text) + 1;
        while (cut < len && ((unsigned char)text[cut] & 0xC0) == 0x80)
            cut++;
        dropped = tail->len + cut;
        spool_clear(tail);
        text += cut;
        len -= cut;
    }
    size_t cost = spool_cost(tail) + SPOOL_SEGMENT_CHARGE + len;
    if (cost > limit)
        dropped += spool_drop(tail, cost - limit);
    capture->dropped_before_tail += dropped;
    capture->dropped_bytes += dropped;
    return spool_push(tail, stream, now_ms, text, len);
}

static int push(struct capture *capture, int stream, int64_t now_ms, const char *text, size_t len)
{
    int r = 0;
    if (capture->head_left > 0) {
        size_t used = push_head(capture, stream, now_ms, text, len, &r);
        text += used;
        len -= used;
    }
    return r == 0 && len > 0 ? push_tail(capture, stream, now_ms, text, len) : r;
}

int capture_say(struct capture *capture, const char *text, size_t len, int64_t now_ms)
{
    return push(capture, 0, now_ms, text, len);
}

/* Clean text goes everywhere it has to. */
static int keep(struct capture *capture, size_t s, int64_t now_ms, const char *text, size_t len)
{
    if (len == 0)
        return 0;
    follow_lines(capture, s, text, len);
    remember(capture, s, text, len);
    int r = push(capture, (int)s + 1, now_ms, text, len);
    return capture->recent.failed || capture->open_line[s].failed ? TEND_ENOMEM : r;
}

/* ---- what comes in ---- */

/* What the redaction has let through, made UTF-8; the beginning of a character waits for its end.
 */
static int pass_on(struct capture *capture, size_t s, int64_t now_ms, bool at_end)
{
    struct buf *redacted = &capture->redacted, *clean = &capture->clean;
    buf_clear(clean);
    size_t used = utf8_clean(clean, redacted->data, redacted->len, at_end);
    if (redacted->failed || clean->failed)
        return TEND_ENOMEM;
    capture->partial_bytes[s] = redacted->len - used;
    memcpy(capture->partial[s], redacted->data + used, redacted->len - used);
    return keep(capture, s, now_ms, clean->data, clean->len);
}

static void begin_slice(struct capture *capture, size_t s)
{
    buf_clear(&capture->redacted);
    buf_append(&capture->redacted, capture->partial[s], capture->partial_bytes[s]);
}

static int no_memory(struct err *err)
{
    return err_set(err, TEND_ENOMEM, "no memory for the output of a step");
}

int capture_feed(struct capture *capture, int stream, const void *bytes, size_t len, int64_t now_ms,
                 struct err *err)
{
    size_t s = stream == 2;
    const char *at = bytes;
    if (len > 0)
        capture->last_output_ms = now_ms;
    capture->total_bytes += len;
    while (len > 0) {
        size_t slice = len < SLICE_BYTES ? len : SLICE_BYTES;
        begin_slice(capture, s);
        redact_feed(&capture->redact[s], at, slice, &capture->redacted);
        if (pass_on(capture, s, now_ms, false) < 0)
            return no_memory(err);
        at += slice;
        len -= slice;
    }
    return 0;
}

int capture_end(struct capture *capture, int64_t now_ms, struct err *err)
{
    for (size_t s = 0; s < CAPTURE_STREAMS; s++) {
        begin_slice(capture, s);
        redact_end(&capture->redact[s], &capture->redacted);
        if (pass_on(capture, s, now_ms, true) < 0)
            return no_memory(err);
    }
    return 0;
}

/* ---- what goes out ---- */

static bool list_spool(struct capture *capture, const struct spool *spool, struct arena *arena,
                       struct tend_output *pieces)
{
    size_t from = 0;
    for (size_t i = 0; i < spool->segment_count; i++) {
        const struct spool_segment *segment = spool_segment(spool, i);
        char *text = arena_alloc(arena, segment->bytes + 1);
        if (!text)
            return false;
        spool_copy(spool, from, segment->bytes, text);
        text[segment->bytes] = '\0';
        from += segment->bytes;
        pieces[i] = (struct tend_output){
            .seq = capture->next_seq + (int64_t)i,
            .at_ms = segment->at_ms,
            .stream = segment->stream,
            .text = text,
            .text_bytes = segment->bytes,
        };
    }
    return true;
}

/* A piece of the tail is on its way to the store. */
static void note_tail(struct capture *capture, const struct tend_output *piece)
{
    uint64_t unit = capture->limits.tail_bytes / GROUPS_OF_TAIL;
    struct capture_group *group = NULL;
    if (capture->group_count > 0)
        group = &capture->groups[capture->group_count - 1];
    if (!group || group->text_bytes >= unit) {
        group = &capture->groups[capture->group_count++];
        *group = (struct capture_group){.first_seq = piece->seq};
    }
    group->text_bytes += piece->text_bytes;
    group->dropped_bytes += (uint64_t)piece->dropped_bytes;
    capture->tail_stored_bytes += piece->text_bytes;
}

/* What newer pieces have pushed out of the tail belongs to the middle now. */
static void discard_old(struct capture *capture, struct capture_batch *batch)
{
    uint64_t gone = 0;
    size_t count = 0;
    while (count + 1 < capture->group_count &&
           capture->tail_stored_bytes - capture->groups[count].text_bytes >=
               capture->limits.tail_bytes) {
        const struct capture_group *group = &capture->groups[count++];
        capture->tail_stored_bytes -= group->text_bytes;
        capture->dropped_bytes += group->text_bytes;
        gone += group->text_bytes + group->dropped_bytes;
    }
    if (count == 0)
        return;
    if (batch->discard_to_seq == 0)
        batch->discard_from_seq = capture->groups[0].first_seq;
    batch->discard_to_seq = capture->groups[count].first_seq;
    batch->discard_bytes = (int64_t)gone; /* what went before in this batch is part of it */
    capture->group_count -= count;
    memmove(capture->groups, capture->groups + count,
            capture->group_count * sizeof *capture->groups);
    /* The store adds it to this piece, and it goes with it when its turn comes. */
    capture->groups[0].dropped_bytes += gone;
}

int capture_take(struct capture *capture, struct arena *arena, struct capture_batch *ret,
                 struct err *err)
{
    size_t heads = capture->head.segment_count, tails = capture->tail.segment_count;
    struct capture_batch batch = {.count = heads + tails};
    struct tend_output *pieces = arena_alloc(arena, batch.count * sizeof *pieces);
    if (!pieces || !list_spool(capture, &capture->head, arena, pieces))
        return no_memory(err);
    if (!list_spool(capture, &capture->tail, arena, pieces + heads))
        return no_memory(err);
    batch.pieces = pieces;
    for (size_t i = 0; i < tails; i++) {
        struct tend_output *piece = &pieces[heads + i];
        piece->seq += (int64_t)heads;
        if (i == 0)
            piece->dropped_bytes = (int64_t)capture->dropped_before_tail;
        note_tail(capture, piece);
        discard_old(capture, &batch);
    }
    if (tails > 0)
        capture->dropped_before_tail = 0;
    capture->next_seq += (int64_t)batch.count;
    if (capture->head_left == 0)
        spool_done(&capture->head); /* it will not be needed again */
    else
        spool_clear(&capture->head);
    spool_clear(&capture->tail);
    *ret = batch;
    return 0;
}

void capture_note(struct buf *buf, uint64_t dropped_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)dropped_bytes;
    size_t unit = 0;
    for (; amount >= 1024.0 && unit + 1 < sizeof units / sizeof *units; unit++)
        amount /= 1024.0;
    if (unit == 0)
        buf_printf(buf, "[\xE2\x80\xA6 %llu %s left out \xE2\x80\xA6]",
                   (unsigned long long)dropped_bytes, dropped_bytes == 1 ? "byte" : units[0]);
    else
        buf_printf(buf, "[\xE2\x80\xA6 %.1f %s left out \xE2\x80\xA6]", amount, units[unit]);
}
