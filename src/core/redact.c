/* See redact.h. The stream: walks the text, asks the matchers, decides each byte once. */
#include "core/redact.h"

#include "base/arena.h"
#include "core/redact_set.h"

static const uint64_t nowhere = UINT64_MAX;

/*
 * A private key goes on as long as there is base64: words of that length, no farther apart than
 * that. So a log that only speaks of "BEGIN PRIVATE KEY" is not lost to its end.
 */
enum {
    KEY_WORD_BYTES = 32,
    KEY_GAP_BYTES = 512,
};

static void begin(struct redact_stream *stream)
{
    stream->at = 0;
    stream->covered_to = 0;
    stream->span_from = stream->span_to = nowhere;
    stream->key_to = nowhere;
    stream->runs_active = stream->runs_ahead = 0;
    stream->before = '\n';
    stream->marked = false;
}

void redact_init(struct redact_stream *stream, const struct redactor *redactor)
{
    *stream = (struct redact_stream){.redactor = redactor};
    buf_init(&stream->held);
    begin(stream);
}

void redact_done(struct redact_stream *stream)
{
    buf_done(&stream->held);
}

/* ---- what was found is entered ---- */

static void enter_span(struct redact_stream *stream, uint64_t from, uint64_t to)
{
    if (from == stream->at) {
        stream->covered_to = to > stream->covered_to ? to : stream->covered_to;
    } else if (stream->span_from == nowhere) {
        stream->span_from = from;
        stream->span_to = to;
    } else {
        stream->span_from = from < stream->span_from ? from : stream->span_from;
        stream->span_to = to > stream->span_to ? to : stream->span_to;
    }
}

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

static void enter_run(struct redact_stream *stream, enum redact_run run, uint64_t from)
{
    unsigned bit = 1u << run;
    if (run == REDACT_RUN_KEY)
        enter_key(stream, from);
    if (from == stream->at) {
        stream->runs_active |= bit;
        return;
    }
    if (!(stream->runs_ahead & bit) || from < stream->run_from[run])
        stream->run_from[run] = from;
    stream->runs_ahead |= bit;
}

/* Entering the same find again changes nothing: a place may be asked anew when more has come. */
static void enter(struct redact_stream *stream, const struct redact_find *find)
{
    if (find->ends_key) {
        stream->key_to = stream->at + find->to;
        stream->key_ending = true;
        return;
    }
    if (find->from < find->to)
        enter_span(stream, stream->at + find->from, stream->at + find->to);
    if (find->run != REDACT_RUN_NONE)
        enter_run(stream, find->run, stream->at + find->from);
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

static bool run_ends(struct redact_stream *stream, enum redact_run run, unsigned char byte)
{
    bool line_ends = byte == '\n' || byte == '\r';
    bool escaped = stream->before == '\\';
    switch (run) {
    case REDACT_RUN_WORD:
        return !redact_is_word(byte);
    case REDACT_RUN_TOKEN:
        return !redact_is_token(byte);
    case REDACT_RUN_VALUE:
        return !redact_is_value(byte);
    case REDACT_RUN_DOUBLE:
        return line_ends || (byte == '"' && !escaped);
    case REDACT_RUN_SINGLE:
        return line_ends || (byte == '\'' && !escaped);
    case REDACT_RUN_BACK:
        return line_ends || (byte == '`' && !escaped);
    case REDACT_RUN_ESCAPED:
        return line_ends || byte == '"' || byte == '\\';
    case REDACT_RUN_KEY:
        return key_ends(stream, byte);
    case REDACT_RUN_NONE:
    case REDACT_RUNS:
        break;
    }
    return true;
}

/* Ends the runs that this byte ends, begins those that begin here; true when one goes on. */
static bool run_covers(struct redact_stream *stream, unsigned char byte)
{
    for (unsigned run = 1; stream->runs_ahead >> run; run++) {
        unsigned bit = 1u << run;
        if (stream->runs_ahead & bit && stream->run_from[run] == stream->at) {
            stream->runs_ahead &= ~bit;
            stream->runs_active |= bit;
        }
    }
    for (unsigned run = 1; stream->runs_active >> run; run++) {
        unsigned bit = 1u << run;
        if (stream->runs_active & bit && run_ends(stream, run, byte))
            stream->runs_active &= ~bit;
    }
    return stream->runs_active != 0;
}

static bool is_covered(struct redact_stream *stream, unsigned char byte)
{
    if (stream->at == stream->span_from) {
        enter_span(stream, stream->span_from, stream->span_to);
        stream->span_from = stream->span_to = nowhere;
    }
    bool by_run = run_covers(stream, byte);
    return by_run || stream->at < stream->covered_to;
}

/* ---- where something may begin ---- */

static inline unsigned in_filter_at(const uint64_t *filter, const unsigned char *text)
{
    return redact_in_filter(filter, redact_slot(redact_gram(text)));
}

/* The first index from i on, before end, with four bytes a pattern begins with; or end. */
static size_t next_beginning(const struct redactor *set, const unsigned char *text, size_t i,
                             size_t end)
{
    while (i < end && !in_filter_at(set->grams, text + i))
        i++;
    return i;
}

/* The first index from start on at which a pattern may begin; len when there is none. */
static size_t next_candidate(const struct redactor *set, const struct redact_view *view,
                             size_t start)
{
    enum { BLOCK = 8 };
    const unsigned char *text = view->text;
    const uint64_t *near = set->near;
    size_t i = start;
    /* Every second place, four of them with one branch: nearly all text goes by here. */
    for (; i + BLOCK + REDACT_GRAM_BYTES <= view->len; i += BLOCK) {
        if (__builtin_expect(in_filter_at(near, text + i) | in_filter_at(near, text + i + 2) |
                                 in_filter_at(near, text + i + 4) |
                                 in_filter_at(near, text + i + 6),
                             0)) {
            /* The first place may tell of a beginning just before it. */
            size_t found = next_beginning(set, text, i > start ? i - 1 : i, i + BLOCK);
            if (found < i + BLOCK)
                return found;
        }
    }
    if (i > start)
        i--;
    size_t whole = view->len >= REDACT_GRAM_BYTES ? view->len - REDACT_GRAM_BYTES + 1 : 0;
    if (i < whole) {
        i = next_beginning(set, text, i, whole);
        if (i < whole)
            return i;
    }
    if (view->at_end)
        return view->len;
    for (; i < view->len; i++) {
        if (redact_in_filter(set->prefixes, redact_prefix_slot(text + i, view->len - i)))
            break;
    }
    return i;
}

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
        enum redact_verdict verdict = pattern->matcher(pattern, view, &find);
        if (verdict == REDACT_YES)
            enter(stream, &find);
        else if (verdict == REDACT_MORE)
            decided = false;
    }
    return decided;
}

/* Asks every pattern that may begin at the view; false when more text is needed. */
static bool find_here(struct redact_stream *stream, const struct redact_view *view)
{
    if (view->len < REDACT_GRAM_BYTES)
        return view->at_end;
    const uint32_t *group = stream->redactor->group;
    unsigned own = redact_group(redact_gram(view->text));
    bool decided = ask(stream, view, 0, group[0]);
    return ask(stream, view, group[own], group[own + 1]) && decided;
}

/* ---- the walk ---- */

static void put_plain(struct redact_stream *stream, const unsigned char *text, size_t len,
                      struct buf *out)
{
    if (len == 0)
        return;
    buf_append(out, text, len);
    stream->marked = false;
}

static void put_mark(struct redact_stream *stream, struct buf *out)
{
    if (!stream->marked)
        buf_puts(out, REDACT_MARK);
    stream->marked = true;
}

static bool nothing_open(const struct redact_stream *stream)
{
    return !(stream->runs_active | stream->runs_ahead) && stream->span_from == nowhere &&
           stream->at >= stream->covered_to;
}

/* Decides as many bytes as can be decided; returns their number. */
static size_t walk(struct redact_stream *stream, const unsigned char *text, size_t len, bool at_end,
                   struct buf *out)
{
    const struct redact_view whole = {.text = text, .len = len, .at_end = at_end};
    size_t plain = 0; /* from here to i: clean, not yet out */
    size_t i = 0;
    size_t candidate = next_candidate(stream->redactor, &whole, 0);
    while (i < len) {
        if (candidate > i && nothing_open(stream)) {
            stream->at += candidate - i;
            stream->before = text[candidate - 1];
            i = candidate;
            continue;
        }
        if (candidate == i) {
            struct redact_view here = {text + i, len - i, stream->before, at_end};
            if (!find_here(stream, &here))
                break;
            candidate = next_candidate(stream->redactor, &whole, i + 1);
        }
        if (is_covered(stream, text[i])) {
            put_plain(stream, text + plain, i - plain, out);
            put_mark(stream, out);
            plain = i + 1;
        }
        stream->before = text[i++];
        stream->at++;
    }
    put_plain(stream, text + plain, i - plain, out);
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

void redact_feed(struct redact_stream *stream, const void *bytes, size_t len, struct buf *out)
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

void redact_end(struct redact_stream *stream, struct buf *out)
{
    if (stream->held.failed)
        out->failed = true;
    else
        walk(stream, (unsigned char *)stream->held.data, stream->held.len, true, out);
    buf_done(&stream->held);
    begin(stream);
}

const char *redact_text(const struct redactor *redactor, struct arena *arena, const char *text)
{
    size_t len = strlen(text);
    struct redact_stream stream;
    redact_init(&stream, redactor);
    struct buf out;
    buf_init(&out);
    walk(&stream, (const unsigned char *)text, len, true, &out);
    const char *clean = text;
    if (out.failed)
        clean = NULL;
    else if (out.len != len || memcmp(out.data, text, len) != 0)
        clean = arena_strndup(arena, out.data, out.len);
    buf_done(&out);
    redact_done(&stream);
    return clean;
}
