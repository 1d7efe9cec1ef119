/* See redact.h. The stream: walks the text, asks the matchers, decides each byte once. */
#include "core/redact.h"

#include "base/arena.h"
#include "core/redact_set.h"

/*
 * A private key goes on as long as there is base64: words of that length, no farther apart than
 * that. So a log that only speaks of "BEGIN PRIVATE KEY" is not lost to its end.
 */
enum {
    KEY_WORD_BYTES = 32,
    KEY_GAP_BYTES = 512,
};

enum {
    SLICE_BYTES = 16 * 1024,           /* of a text with sequences, worked on at once */
    SEQUENCES_BYTES = 4 * SLICE_BYTES, /* that wait for text; more of them are left out */
};

static void begin(struct redact_stream *stream)
{
    stream->at = 0;
    stream->covered_to = 0;
    stream->key_to = UINT64_MAX;
    stream->runs_active = 0;
    stream->pending_count = 0;
    stream->marked = false;
    memset(stream->back, '\n', sizeof stream->back);
}

void redact_init(struct redact_stream *stream, const struct redactor *redactor)
{
    *stream = (struct redact_stream){.redactor = redactor};
    buf_init(&stream->held);
    buf_init(&stream->raw);
    buf_init(&stream->unstyled);
    buf_init(&stream->sequences);
    begin(stream);
}

void redact_done(struct redact_stream *stream)
{
    buf_done(&stream->held);
    buf_done(&stream->raw);
    buf_done(&stream->unstyled);
    buf_done(&stream->sequences);
}

/* ---- what was found is entered ---- */

/* Another key may begin where one has just ended, and before one that is cut short has. */
static void enter_key(struct redact_stream *stream, uint64_t from)
{
    bool open = stream->runs_active & 1u << REDACT_RUN_KEY && !stream->key_ending;
    if (!open)
        stream->key_word_bytes = 0;
    if (!open || stream->key_to < from + KEY_GAP_BYTES)
        stream->key_to = from + KEY_GAP_BYTES;
    stream->key_ending = false;
}

static void join(struct redact_pending *into, const struct redact_pending *other)
{
    into->from = other->from < into->from ? other->from : into->from;
    into->to = other->to > into->to ? other->to : into->to;
    into->runs |= other->runs;
}

/* Kept in order. Where there is no room, what lies between two of them is left out as well. */
static void enter_pending(struct redact_stream *stream, const struct redact_pending *find)
{
    struct redact_pending *pending = stream->pending;
    unsigned i = stream->pending_count;
    while (i > 0 && pending[i - 1].from > find->from)
        i--;
    if (i > 0 && pending[i - 1].from == find->from) {
        join(&pending[i - 1], find);
    } else if (stream->pending_count == REDACT_PENDING) {
        join(&pending[i > 0 ? i - 1 : 0], find);
    } else {
        memmove(&pending[i + 1], &pending[i], (stream->pending_count - i) * sizeof *pending);
        pending[i] = *find;
        stream->pending_count++;
    }
}

static void cover(struct redact_stream *stream, const struct redact_pending *find)
{
    stream->covered_to = find->to > stream->covered_to ? find->to : stream->covered_to;
    stream->runs_active |= find->runs;
}

static void enter_one(struct redact_stream *stream, const struct redact_pending *find)
{
    if (find->from == stream->at)
        cover(stream, find);
    else
        enter_pending(stream, find);
}

/* Entering the same find again changes nothing: a place may be asked anew when more has come. */
static void enter(struct redact_stream *stream, const struct redact_find *find)
{
    if (find->ends_key) {
        stream->key_to = stream->at + find->to;
        stream->key_ending = true;
        return;
    }
    uint64_t from = stream->at + find->from, to = stream->at + find->to;
    if (find->run == REDACT_RUN_KEY)
        enter_key(stream, to);
    if (from < to)
        enter_one(stream, &(struct redact_pending){.from = from, .to = to});
    if (find->run != REDACT_RUN_NONE)
        enter_one(stream, &(struct redact_pending){.from = to, .to = to, .runs = 1u << find->run});
}

/* ---- is the byte at `at` left out? ---- */

static bool key_ends(struct redact_stream *stream, unsigned char byte)
{
    bool base64 = redact_is_alnum(byte) || byte == '+' || byte == '/' || byte == '=';
    stream->key_word_bytes = base64 ? stream->key_word_bytes + 1 : 0;
    if (stream->key_word_bytes >= KEY_WORD_BYTES && !stream->key_ending) {
        stream->key_word_bytes = KEY_WORD_BYTES;
        stream->key_to = stream->at + KEY_GAP_BYTES;
    }
    return stream->at >= stream->key_to;
}

static bool run_ends(struct redact_stream *stream, enum redact_run run, unsigned char byte,
                     bool escaped)
{
    bool line_ends = redact_is_line_end(byte);
    switch (run) {
    case REDACT_RUN_WORD:
        return !redact_is_word(byte);
    case REDACT_RUN_TOKEN:
        return !redact_is_token(byte);
    case REDACT_RUN_VALUE:
        return !redact_is_value(byte);
    case REDACT_RUN_BARE:
        return byte <= ' ';
    case REDACT_RUN_REST:
        return line_ends;
    case REDACT_RUN_DOUBLE:
        return line_ends || (byte == '"' && !escaped);
    case REDACT_RUN_SINGLE:
        return line_ends || (byte == '\'' && !escaped);
    case REDACT_RUN_BACK:
        return line_ends || (byte == '`' && !escaped);
    case REDACT_RUN_ESCAPED:
        return line_ends || byte == '"' || byte == '\\';
    case REDACT_RUN_TAG:
        return line_ends || byte == '<';
    case REDACT_RUN_LINE:
        return line_ends || redact_is_quote(byte);
    case REDACT_RUN_KEY:
        return key_ends(stream, byte);
    case REDACT_RUN_NONE:
    case REDACT_RUNS:
        break;
    }
    return true;
}

/* escaped: the byte before is a backslash. */
static bool is_covered(struct redact_stream *stream, unsigned char byte, bool escaped)
{
    unsigned due = 0;
    while (due < stream->pending_count && stream->pending[due].from <= stream->at)
        cover(stream, &stream->pending[due++]);
    if (due > 0) {
        stream->pending_count -= due;
        memmove(stream->pending, stream->pending + due,
                stream->pending_count * sizeof *stream->pending);
    }
    for (unsigned run = 1; stream->runs_active >> run; run++) {
        unsigned bit = 1u << run;
        if (stream->runs_active & bit && run_ends(stream, run, byte, escaped))
            stream->runs_active &= ~bit;
    }
    return stream->runs_active != 0 || stream->at < stream->covered_to;
}

/* ---- asking ---- */

/* Asks the patterns from first to end; false when one needs more text. */
static bool ask(struct redact_stream *stream, const struct redact_view *view, uint32_t first,
                uint32_t end)
{
    uint32_t gram = redact_gram(view->text);
    bool decided = true;
    for (uint32_t i = first; i < end; i++) {
        const struct redact_pattern *pattern = &stream->redactor->patterns[i];
        if ((gram ^ pattern->gram) & pattern->gram_mask)
            continue;
        struct redact_find find = {0};
        enum redact_verdict verdict = pattern->matcher(stream->redactor, pattern, view, &find);
        if (verdict == REDACT_YES)
            enter(stream, &find);
        else if (verdict == REDACT_MORE)
            decided = false;
    }
    return decided;
}

static bool ask_word(struct redact_stream *stream, const struct redact_view *view)
{
    struct redact_find finds[REDACT_WORD_FINDS];
    bool decided;
    size_t count = redact_ask_word(stream->redactor, view, finds, &decided);
    for (size_t i = 0; i < count; i++)
        enter(stream, &finds[i]);
    return decided;
}

/* Asks every pattern that may begin at the view; false when more text is needed. */
static bool ask_patterns(struct redact_stream *stream, const struct redact_view *view)
{
    if (view->len < REDACT_GRAM_BYTES)
        return view->at_end;
    const uint32_t *group = stream->redactor->group;
    unsigned own = redact_group(redact_gram(view->text));
    bool decided = ask(stream, view, 0, group[0]);
    return ask(stream, view, group[own], group[own + 1]) && decided;
}

static bool ask_dsn(struct redact_stream *stream, const struct redact_view *view)
{
    struct redact_find find = {0};
    enum redact_verdict verdict = redact_match_dsn(view, &find);
    if (verdict == REDACT_YES)
        enter(stream, &find);
    return verdict != REDACT_MORE;
}

/* ---- the walk ---- */

/* A sequence that waits; its bytes follow it. */
struct sequence {
    uint64_t at; /* before this byte of the text */
    size_t len;
};

/* Where the next one stands; UINT64_MAX: there is none. */
static uint64_t next_sequence(const struct redact_stream *stream)
{
    struct sequence next;
    if (stream->sequences_out == stream->sequences.len)
        return UINT64_MAX;
    memcpy(&next, stream->sequences.data + stream->sequences_out, sizeof next);
    return next.at;
}

/* Those that stand before the byte `at`. */
static void put_sequences(struct redact_stream *stream, uint64_t at, struct buf *out)
{
    struct buf *waiting = &stream->sequences;
    while (stream->sequences_out < waiting->len && next_sequence(stream) <= at) {
        struct sequence next;
        memcpy(&next, waiting->data + stream->sequences_out, sizeof next);
        buf_append(out, waiting->data + stream->sequences_out + sizeof next, next.len);
        stream->sequences_out += sizeof next + next.len;
    }
    if (stream->sequences_out == waiting->len) {
        buf_clear(waiting);
        stream->sequences_out = 0;
    }
}

/* The last len bytes before the place, with the sequences among them. */
static void put_plain(struct redact_stream *stream, const unsigned char *text, size_t len,
                      struct buf *out)
{
    uint64_t at = stream->at - len;
    if (len == 0)
        return;
    while (next_sequence(stream) < stream->at) {
        uint64_t next = next_sequence(stream);
        size_t before = next > at ? (size_t)(next - at) : 0;
        buf_append(out, text, before);
        put_sequences(stream, next, out);
        text += before;
        len -= before;
        at += before;
    }
    buf_append(out, text, len);
    stream->marked = false;
}

static void put_mark(struct redact_stream *stream, struct buf *out)
{
    put_sequences(stream, stream->at, out);
    if (!stream->marked)
        buf_puts(out, REDACT_MARK);
    stream->marked = true;
}

static bool nothing_open(const struct redact_stream *stream)
{
    return stream->runs_active == 0 && stream->pending_count == 0 &&
           stream->at >= stream->covered_to;
}

/* The last bytes that were decided, for matchers that look back. */
static void remember(struct redact_stream *stream, const unsigned char *text, size_t len)
{
    if (len >= REDACT_BACK_BYTES) {
        memcpy(stream->back, text + len - REDACT_BACK_BYTES, REDACT_BACK_BYTES);
        return;
    }
    memmove(stream->back, stream->back + len, REDACT_BACK_BYTES - len);
    memcpy(stream->back + REDACT_BACK_BYTES - len, text, len);
}

/* Asks whatever may begin at i, and goes on to the next place; false when more text is needed. */
static bool ask_here(struct redact_stream *stream, struct redact_scan *scan, size_t *dsn, size_t i)
{
    const struct redact_view *whole = scan->whole;
    const struct redact_view here = {.text = whole->text + i,
                                     .len = whole->len - i,
                                     .at_end = whole->at_end,
                                     .behind = i,
                                     .back = whole->back};
    bool decided = true;
    while (redact_scan_place(scan) == i) { /* two blocks may tell of it */
        if (redact_scan_is_beginning(scan))
            decided = ask_patterns(stream, &here) && decided;
        if (redact_scan_is_word(scan))
            decided = ask_word(stream, &here) && decided;
        redact_scan_on(scan);
    }
    if (*dsn == i) {
        decided = ask_dsn(stream, &here) && decided;
        *dsn = redact_next_dsn(whole, i + 1);
    }
    return decided;
}

/* Decides as many bytes as can be decided; returns their number. */
static size_t walk(struct redact_stream *stream, const unsigned char *text, size_t len, bool at_end,
                   struct buf *out)
{
    const struct redact_view whole = {
        .text = text, .len = len, .at_end = at_end, .back = stream->back};
    struct redact_scan scan;
    redact_scan_init(&scan, stream->redactor, &whole);
    size_t dsn = redact_next_dsn(&whole, 0);
    size_t plain = 0; /* from here to i: clean, not yet out */
    size_t i = 0;
    while (i < len) {
        size_t place = redact_scan_place(&scan);
        size_t next = place < dsn ? place : dsn;
        if (next > i && nothing_open(stream)) {
            stream->at += next - i;
            i = next;
            continue;
        }
        if (next == i && !ask_here(stream, &scan, &dsn, i))
            break;
        bool escaped = (i > 0 ? text[i - 1] : stream->back[REDACT_BACK_BYTES - 1]) == '\\';
        if (is_covered(stream, text[i], escaped)) {
            put_plain(stream, text + plain, i - plain, out);
            put_mark(stream, out);
            plain = i + 1;
        }
        i++;
        stream->at++;
    }
    put_plain(stream, text + plain, i - plain, out);
    put_sequences(stream, stream->at, out);
    remember(stream, text, i);
    return i;
}

/* Keeps what walk() has not decided. */
static void hold(struct redact_stream *stream, const unsigned char *text, size_t len)
{
    buf_clear(&stream->held);
    buf_append(&stream->held, text, len);
}

/*
 * What is held is completed with only as much of the new text as any matcher may want to see;
 * the rest is walked where it lies. Returns how much of the new text is used up.
 */
static size_t walk_held(struct redact_stream *stream, const unsigned char *text, size_t len,
                        struct buf *out)
{
    struct buf *held = &stream->held;
    size_t before = held->len;
    size_t lookahead = stream->redactor->lookahead_bytes;
    size_t borrowed = len < lookahead ? len : lookahead;
    buf_append(held, text, borrowed);
    if (held->failed)
        return len;
    size_t done = walk(stream, (unsigned char *)held->data, held->len, false, out);
    if (done >= before && borrowed < len) {
        buf_clear(held);
        return done - before;
    }
    size_t rest = held->len - done;
    memmove(held->data, held->data + done, rest);
    held->len = rest;
    held->data[rest] = '\0';
    return borrowed;
}

/* Text without sequences. */
static void feed_text(struct redact_stream *stream, const void *bytes, size_t len, struct buf *out)
{
    const unsigned char *text = bytes;
    while (stream->held.len > 0 && len > 0 && !stream->held.failed) {
        size_t used = walk_held(stream, text, len, out);
        text += used;
        len -= used;
    }
    if (len > 0 && !stream->held.failed) {
        size_t done = walk(stream, text, len, false, out);
        if (done < len)
            hold(stream, text + done, len - done);
    }
    if (stream->held.failed)
        out->failed = true;
}

/* ---- sequences ---- */

/* Waits to come out before the byte `at`. A link that it holds may have a password in it. */
static void enter_sequence(struct redact_stream *stream, uint64_t at, const unsigned char *text,
                           size_t len, bool holds_text)
{
    struct buf *waiting = &stream->sequences;
    struct sequence sequence = {.at = at};
    size_t start = waiting->len;
    if (waiting->len + sizeof sequence + len > SEQUENCES_BYTES)
        return;
    buf_append(waiting, &sequence, sizeof sequence);
    if (holds_text) {
        struct redact_stream own;
        redact_init(&own, stream->redactor);
        walk(&own, text, len, true, waiting);
        redact_done(&own);
    } else {
        buf_append(waiting, text, len);
    }
    if (waiting->failed)
        return;
    sequence.len = waiting->len - start - sizeof sequence;
    memcpy(waiting->data + start, &sequence, sizeof sequence);
}

/* Takes the sequences out of stream->raw and feeds the rest. One that has not ended stays. */
static void feed_raw(struct redact_stream *stream, bool at_end, struct buf *out)
{
    const unsigned char *text = (const unsigned char *)stream->raw.data;
    size_t len = stream->raw.len, at = 0;
    uint64_t begin_at = stream->at + stream->held.len;
    buf_clear(&stream->unstyled);
    while (at < len) {
        bool holds_text;
        const unsigned char *escape = memchr(text + at, REDACT_ESCAPE, len - at);
        size_t end = escape ? (size_t)(escape - text) : len;
        buf_append(&stream->unstyled, text + at, end - at);
        at = end;
        if (!escape)
            break;
        int bytes = redact_sequence_bytes(escape, len - at, at_end, &holds_text);
        if (bytes == REDACT_SEQUENCE_MORE)
            break;
        if (bytes == 0)
            buf_putc(&stream->unstyled, (char)text[at++]);
        else
            enter_sequence(stream, begin_at + stream->unstyled.len, escape, (size_t)bytes,
                           holds_text);
        at += (size_t)bytes;
    }
    feed_text(stream, stream->unstyled.data, stream->unstyled.len, out);
    put_sequences(stream, stream->at, out);
    if (stream->raw.failed || stream->unstyled.failed || stream->sequences.failed)
        out->failed = true;
    else if (len > 0)
        memmove(stream->raw.data, text + at, len - at);
    stream->raw.len = len - at;
}

void redact_feed(struct redact_stream *stream, const void *bytes, size_t len, struct buf *out)
{
    const unsigned char *text = bytes;
    if (stream->raw.len == 0 && (len == 0 || !memchr(text, REDACT_ESCAPE, len))) {
        feed_text(stream, text, len, out);
        return;
    }
    while (len > 0) {
        size_t slice = len < SLICE_BYTES ? len : SLICE_BYTES;
        buf_append(&stream->raw, text, slice);
        feed_raw(stream, false, out);
        text += slice;
        len -= slice;
    }
}

void redact_end(struct redact_stream *stream, struct buf *out)
{
    feed_raw(stream, true, out);
    if (stream->held.failed)
        out->failed = true;
    else
        walk(stream, (unsigned char *)stream->held.data, stream->held.len, true, out);
    buf_done(&stream->held);
    buf_done(&stream->raw);
    buf_done(&stream->unstyled);
    buf_done(&stream->sequences);
    stream->sequences_out = 0;
    begin(stream);
}

const char *redact_text(const struct redactor *redactor, struct arena *arena, const char *text)
{
    size_t len = strlen(text);
    struct redact_stream stream;
    redact_init(&stream, redactor);
    struct buf out;
    buf_init(&out);
    redact_feed(&stream, text, len, &out);
    redact_end(&stream, &out);
    const char *clean = text;
    if (out.failed)
        clean = NULL;
    else if (out.len != len || memcmp(out.data, text, len) != 0)
        clean = arena_strndup(arena, out.data, out.len);
    buf_done(&out);
    redact_done(&stream);
    return clean;
}
