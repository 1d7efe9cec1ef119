/* run/capture: what an attempt writes is bounded, timestamped, UTF-8, redacted (SH-15, SH-16),
 * and a classifier gets whole lines (SH-5). */
#include "base/arena.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "run/capture.h"
#include "unit/case.h"

#include <stdio.h>
#include <string.h>

static const struct redact_variable environment[] = {{"A_TOKEN", "hunter2-and-more"}};

struct box {
    struct redactor *redactor;
    struct capture capture;
    struct arena arena;
    struct buf text; /* everything taken, with notes where something was left out */
    int64_t last_seq;
    uint64_t dropped_bytes;
    size_t pieces;
};

static void box_init(struct box *box, const struct capture_limits *limits)
{
    *box = (struct box){0};
    const struct redact_known known = {.variables = environment, .variable_count = 1};
    check_int(redactor_new(&known, &box->redactor, NULL), ==, 0);
    capture_init(&box->capture, box->redactor, limits);
    arena_init(&box->arena);
    buf_init(&box->text);
}

static void box_done(struct box *box)
{
    capture_done(&box->capture);
    redactor_free(box->redactor);
    arena_done(&box->arena);
    buf_done(&box->text);
}

static void feed(struct box *box, int stream, const char *text, int64_t now_ms)
{
    check_int(capture_feed(&box->capture, stream, text, strlen(text), now_ms, NULL), ==, 0);
}

static struct capture_batch take(struct box *box)
{
    struct capture_batch batch;
    arena_reset(&box->arena);
    check_int(capture_take(&box->capture, &box->arena, &batch, NULL), ==, 0);
    for (size_t i = 0; i < batch.count; i++) {
        const struct tend_output *piece = &batch.pieces[i];
        check_int(piece->seq, ==, box->last_seq + 1);
        check_int(piece->text_bytes, >, 0);
        check(utf8_valid(piece->text, piece->text_bytes));
        if (piece->dropped_bytes > 0)
            capture_note(&box->text, (uint64_t)piece->dropped_bytes);
        buf_append(&box->text, piece->text, piece->text_bytes);
        box->last_seq = piece->seq;
        box->dropped_bytes += (uint64_t)piece->dropped_bytes;
        box->pieces++;
    }
    return batch;
}

static void end(struct box *box)
{
    check_int(capture_end(&box->capture, 9999, NULL), ==, 0);
}

TEST(capture, text_is_handed_out_with_stream_and_time)
{
    struct box box;
    box_init(&box, NULL);
    feed(&box, 1, "one\n", 1000);
    feed(&box, 1, "two\n", 1010);
    feed(&box, 2, "oops\n", 1011);
    feed(&box, 1, "three\n", 2000);
    feed(&box, 1, "four\n", 2100);
    struct capture_batch batch = take(&box);
    static const struct {
        int64_t at_ms;
        int stream;
        const char *text;
    } expected[] = {
        {1000, 1, "one\ntwo\n"}, {1011, 2, "oops\n"}, {2000, 1, "three\n"}, {2100, 1, "four\n"}};
    check_int(batch.count, ==, CASES(expected));
    for (size_t i = 0; i < CASES(expected); i++) {
        check_int(batch.pieces[i].at_ms, ==, expected[i].at_ms);
        check_int(batch.pieces[i].stream, ==, expected[i].stream);
        check_str(batch.pieces[i].text, expected[i].text);
        check_int(batch.pieces[i].dropped_bytes, ==, 0);
    }
    check_int(box.capture.last_output_ms, ==, 2100);
    check_int(box.capture.total_bytes, ==, 24);
    check_int(take(&box).count, ==, 0);
    box_done(&box);
}

TEST(capture, secrets_are_gone_before_anything_is_seen)
{
    struct box box;
    box_init(&box, NULL);
    feed(&box, 1, "it is hunter2-", 1);
    feed(&box, 2, "hunter2-and-m", 2);
    take(&box);
    check_str(box.text.data, "it is ");
    check_str(capture_last_line(&box.capture), "it is");
    feed(&box, 1, "and-more\n", 3);
    feed(&box, 2, "ore\n", 4);
    end(&box);
    take(&box);
    check_str(box.text.data, "it is [redacted]\n[redacted]\n");
    check_str(capture_last_line(&box.capture), "[redacted]");
    size_t bytes;
    check(!strstr(capture_tail(&box.capture, &bytes), "hunter2"));
    box_done(&box);
}

TEST(capture, characters_split_across_reads_are_whole)
{
    struct box box;
    box_init(&box, NULL);
    feed(&box, 1, "a\xE2\x82", 1);
    feed(&box, 2, "\xF0\x9F", 1);
    take(&box);
    check_str(box.text.data, "a");
    feed(&box, 1, "\xAC b\xE2", 1);
    feed(&box, 2, "\x98\x80", 1);
    end(&box);
    take(&box);
    check_str(box.text.data, "a\xE2\x82\xAC b\xF0\x9F\x98\x80\xEF\xBF\xBD");
    box_done(&box);
}

TEST(capture, what_is_no_text_becomes_replacement_characters)
{
    struct box box;
    box_init(&box, NULL);
    static const char bytes[] = "a\0b\xFFz\x1B[1m\t\r\n\xC0\x80\xED\xA0\x80";
    check_int(capture_feed(&box.capture, 1, bytes, sizeof bytes - 1, 1, NULL), ==, 0);
    end(&box);
    take(&box);
    check_str(box.text.data, "a\xEF\xBF\xBD"
                             "b\xEF\xBF\xBDz\x1B[1m\t\r\n"
                             "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    box_done(&box);
}

TEST(capture, head_and_tail_are_kept_and_the_middle_is_counted)
{
    struct box box;
    struct capture_limits limits = {.head_bytes = 8192, .tail_bytes = 8192};
    box_init(&box, &limits);
    char line[32];
    uint64_t written = 0;
    for (int i = 0; i < 100000; i++) {
        written += (uint64_t)snprintf(line, sizeof line, "line %06d\n", i);
        feed(&box, 1, line, i);
    }
    end(&box);
    take(&box);
    check_int(box.capture.total_bytes, ==, written);
    check_contains(box.text.data, "line 000000\n");
    check_contains(box.text.data, "line 000500\n");
    check_contains(box.text.data, "line 099999\n");
    check_contains(box.text.data, "line 099500\n");
    check_contains(box.text.data, "[\xE2\x80\xA6 1.1 MiB left out \xE2\x80\xA6]line ");
    check(!strstr(box.text.data, "line 050000"));
    check_int(box.text.len, <, 8192 + 8192 + 64);
    check_int(box.dropped_bytes, ==, box.capture.dropped_bytes);
    /* Kept and dropped together are all of it, but for the note. */
    uint64_t note_bytes = strlen("[\xE2\x80\xA6 1.1 MiB left out \xE2\x80\xA6]");
    check_int(box.text.len - note_bytes + box.dropped_bytes, ==, written);
    box_done(&box);
}

/* The text is redacted first and cut then: a cut leaves no part of a secret. */
TEST(capture, SH_15_a_secret_at_the_limits_is_gone_wherever_they_cut)
{
    static const char line[] = "hunter2-and-more\n";
    struct capture_limits limits = {.head_bytes = 8192, .tail_bytes = 8192};
    for (size_t shift = 0; shift < sizeof line; shift++) {
        struct box box;
        box_init(&box, &limits);
        for (size_t i = 0; i < shift; i++)
            feed(&box, 1, "\n", 1);
        for (int i = 0; i < 3000; i++)
            feed(&box, 1, line, 1);
        end(&box);
        take(&box);
        check_int(box.dropped_bytes, >, 0);
        check(!strpbrk(box.text.data, "hnm")); /* letters of the secret alone */
        box_done(&box);
    }
}

TEST(capture, a_flood_of_single_bytes_is_bounded_too)
{
    struct box box;
    struct capture_limits limits = {.head_bytes = 8192, .tail_bytes = 8192};
    box_init(&box, &limits);
    for (int i = 0; i < 100000; i++)
        feed(&box, 1 + i % 2, "x", i);
    end(&box);
    take(&box);
    check_int(box.pieces, <=, 2 * 8192 / SPOOL_SEGMENT_CHARGE);
    check_int(box.text.len, <, 512);
    box_done(&box);
}

TEST(capture, one_huge_read_leaves_its_head_and_its_end)
{
    struct box box;
    struct capture_limits limits = {.head_bytes = 5000, .tail_bytes = 5000};
    box_init(&box, &limits);
    struct buf text;
    buf_init(&text);
    for (int i = 0; i < 50000; i++)
        buf_puts(&text, "\xE2\x82\xAC"); /* no line ends anywhere */
    check_int(capture_feed(&box.capture, 1, text.data, text.len, 1, NULL), ==, 0);
    end(&box);
    struct capture_batch batch = take(&box);
    check_int(batch.count, ==, 2);
    check_int(batch.pieces[0].text_bytes % 3, ==, 0);
    check_int(batch.pieces[1].text_bytes % 3, ==, 0);
    check_int(batch.pieces[1].text_bytes, >, 4800);
    check_int((int64_t)(batch.pieces[0].text_bytes + batch.pieces[1].text_bytes) +
                  batch.pieces[1].dropped_bytes,
              ==, text.len);
    buf_done(&text);
    box_done(&box);
}

/* A store that does as the batches say. */
struct stored {
    size_t bytes[20000];
    int64_t dropped[20000];
    int64_t last_seq;
};

static void store(struct stored *stored, const struct capture_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct tend_output *piece = &batch->pieces[i];
        check_int(piece->seq, <, CASES(stored->bytes));
        stored->bytes[piece->seq] = piece->text_bytes;
        stored->dropped[piece->seq] = piece->dropped_bytes;
        stored->last_seq = piece->seq;
    }
    if (batch->discard_to_seq == 0)
        return;
    for (int64_t seq = batch->discard_from_seq; seq < batch->discard_to_seq; seq++)
        stored->bytes[seq] = 0, stored->dropped[seq] = 0;
    check_int(stored->bytes[batch->discard_to_seq], >, 0);
    stored->dropped[batch->discard_to_seq] += batch->discard_bytes;
}

TEST(capture, taking_often_does_not_fill_the_store)
{
    /* What may begin a secret waits for its end. */
    enum { HELD_BACK_BYTES = 64 };
    struct box box;
    struct capture_limits limits = {.head_bytes = 8192, .tail_bytes = 8192};
    static struct stored stored;
    box_init(&box, &limits);
    struct rng rng;
    rng_seed(&rng, 4);
    char block[3000];
    memset(block, '#', sizeof block); /* begins nothing that would be held back */
    uint64_t written = 0;
    for (int i = 0; i < 5000; i++) {
        size_t len = rng_below(&rng, 100) == 0 ? sizeof block : rng_below(&rng, 300);
        check_int(capture_feed(&box.capture, 1 + i % 2, block, len, i * 100, NULL), ==, 0);
        written += len;
        if (rng_below(&rng, 20) > 0)
            continue;
        struct capture_batch batch = take(&box);
        store(&stored, &batch);
        uint64_t kept = 0, dropped = 0;
        for (int64_t seq = 1; seq <= stored.last_seq; seq++) {
            kept += stored.bytes[seq];
            dropped += (uint64_t)stored.dropped[seq];
        }
        /* Head, tail, and at most what one piece and one group of pieces are larger. */
        check_int(kept, <, 8192 + 8192 + 3000 + 128);
        check_int(kept + dropped, <=, written);
        check_int(kept + dropped + HELD_BACK_BYTES, >=, written);
        check_int(dropped, ==, box.capture.dropped_bytes);
    }
    end(&box);
    struct capture_batch last = take(&box);
    store(&stored, &last);
    uint64_t all = 0;
    for (int64_t seq = 1; seq <= stored.last_seq; seq++)
        all += stored.bytes[seq] + (uint64_t)stored.dropped[seq];
    check_int(all, ==, written);
    box_done(&box);
}

/* The last line has no colours, so that the halves of a secret in two colours met in it. */
TEST(capture, a_secret_in_two_colours_is_not_joined_in_the_last_line)
{
    struct box box;
    box_init(&box, NULL);
    feed(&box, 1, "pw \x1B[1mhunter2-\x1B", 1);
    feed(&box, 1, "[0mand-more.\n", 2);
    check_str(capture_last_line(&box.capture), "pw [redacted].");
    take(&box);
    check_str(box.text.data, "pw \x1B[1m[redacted]\x1B[0m.\n");
    box_done(&box);
}

TEST(capture, the_last_line_is_the_newest_with_something_on_it)
{
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"first\n", "first"},
        {"middle,", "middle,"},
        {" end\n\n  \n", "middle, end"},
        {" 10%\r 20%\r", "20%"},
        {"\n", "20%"},
        {"\xC3\xA4!", "\xC3\xA4!"},
        /* Symptom: colours showed as " [31mred text [0m". */
        {"\n\033[31mred \033[1mtext\033[0m\n", "red text"},
        {"\033]0;a title\007shown\n", "shown"},
        {"\033[2K\r\033[0m\n", "shown"},
        /* Symptom: a summary began with curl's meter, which its message follows in the same line.
         */
        {"\r  0     0    0     0    0     0      0      0 --:--:--  0:00:01 --:--:--     0curl: (6) "
         "Could not resolve host: api\n",
         "curl: (6) Could not resolve host: api"},
        {"see 12 curl: (6)\n", "see 12 curl: (6)"},
    };
    struct box box;
    box_init(&box, NULL);
    check_str(capture_last_line(&box.capture), "");
    for (size_t i = 0; i < CASES(cases); i++) {
        feed(&box, 1, cases[i].text, 1);
        check_str(capture_last_line(&box.capture), cases[i].line);
    }
    feed(&box, 2, "other stream\n", 1);
    check_str(capture_last_line(&box.capture), "other stream");
    for (int i = 0; i < 1000; i++)
        feed(&box, 1, "\xC3\xA4", 1);
    check_int(strlen(capture_last_line(&box.capture)), <=, CAPTURE_LINE_BYTES);
    check(utf8_valid(capture_last_line(&box.capture), strlen(capture_last_line(&box.capture))));
    box_done(&box);
}

TEST(capture, the_summary_has_the_last_lines_of_both_streams)
{
    struct box box;
    struct capture_limits limits = {.summary_bytes = 1000};
    box_init(&box, &limits);
    size_t bytes;
    check_str(capture_tail(&box.capture, &bytes), "");
    check_int(bytes, ==, 0);
    char line[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        feed(&box, 1, line, i);
    }
    feed(&box, 1, "half a job;", 5);
    feed(&box, 2, "fatal: it broke\n", 6);
    const char *tail = capture_tail(&box.capture, &bytes);
    check_int(bytes, ==, strlen(tail));
    check_int(bytes, <=, 1000);
    check_int(bytes, >, 900);
    check(strncmp(tail, "line ", 5) == 0);
    check_contains(tail, "line 999\nfatal: it broke\nhalf a job;");
    box_done(&box);
}

/* An error that the other stream cut in two used not to be recognised. */
TEST(capture, a_line_that_the_other_stream_cuts_is_whole_in_the_summary)
{
    static const struct {
        const char *name;
        const char *pieces[8]; /* "1text" or "2text" */
        const char *summary;
    } cases[] = {
        {"cut once",
         {"2error: permission ", "1compiling a.c\n", "2denied\n"},
         "compiling a.c\nerror: permission denied\n"},
        {"cut by a piece of a line",
         {"2error: permission ", "150%", "2denied\n", "1 done\n"},
         "error: permission denied\n50% done\n"},
        {"byte by byte", {"2a", "1x", "2b", "1y", "2c\n", "1z\n"}, "abc\nxyz\n"},
        {"not ended", {"1one\n", "2two", "1three", "2four"}, "one\nthree\ntwofour"},
        {"many lines at once", {"1a", "2b\nc\nd", "1e\n", "2f\n"}, "b\nc\nae\ndf\n"},
        {"carriage returns", {"110%\r20%", "2no\n", "1\r30%\n"}, "10%\r\nno\n20%\r30%\n"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct box box;
        size_t bytes;
        box_init(&box, NULL);
        for (size_t n = 0; n < CASES(cases[i].pieces) && cases[i].pieces[n]; n++)
            feed(&box, cases[i].pieces[n][0] - '0', cases[i].pieces[n] + 1, 1);
        end(&box);
        check_str(capture_tail(&box.capture, &bytes), cases[i].summary);
        check_case_int(bytes, strlen(cases[i].summary), cases[i].name);
        box_done(&box);
    }
}

TEST(capture, a_line_without_end_does_not_wait_for_ever)
{
    struct box box;
    size_t bytes;
    box_init(&box, NULL);
    feed(&box, 2, "begin", 1);
    for (int i = 0; i < 20000; i++)
        feed(&box, 2, "0123456789", 1);
    feed(&box, 1, "other\n", 2);
    feed(&box, 2, "end\n", 3);
    const char *tail = capture_tail(&box.capture, &bytes);
    check_contains(tail, "\nother\n");
    check_contains(tail, "end\n");
    check_int(bytes, <=, 16 * 1024);
    box_done(&box);
}

/* SH-16: what the worker adds is no evidence of a failure. */
TEST(capture, a_note_of_the_worker_is_kept_and_is_neither_last_line_nor_summary)
{
    static const char note[] = "warning: line 3 of TEND_OUTPUT: what is this\n";
    struct box box;
    struct capture_batch batch;
    struct err err;
    size_t bytes;
    box_init(&box, NULL);
    feed(&box, 2, "it broke\n", 1);
    check_int(capture_say(&box.capture, note, strlen(note), 2), ==, 0);
    check_str(capture_last_line(&box.capture), "it broke");
    check_str(capture_tail(&box.capture, &bytes), "it broke\n");
    check_int(capture_end(&box.capture, 3, &err), ==, 0);
    check_int(capture_take(&box.capture, &box.arena, &batch, &err), ==, 0);
    check_int(batch.count, ==, 2);
    check_int(batch.pieces[1].stream, ==, 0);
    check_str(batch.pieces[1].text, note);
    box_done(&box);
}

TEST(capture, a_zeroed_capture_can_be_asked_and_done)
{
    struct capture capture = {0};
    size_t bytes;
    check_str(capture_last_line(&capture), "");
    check_str(capture_tail(&capture, &bytes), "");
    capture_done(&capture);
}

TEST(capture, notes_are_in_units_people_read)
{
    static const struct {
        uint64_t bytes;
        const char *note;
    } cases[] = {
        {1, "[\xE2\x80\xA6 1 byte left out \xE2\x80\xA6]"},
        {1023, "[\xE2\x80\xA6 1023 bytes left out \xE2\x80\xA6]"},
        {12897485, "[\xE2\x80\xA6 12.3 MiB left out \xE2\x80\xA6]"},
        {UINT64_C(1) << 50, "[\xE2\x80\xA6 1024.0 TiB left out \xE2\x80\xA6]"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct buf buf;
        buf_init(&buf);
        capture_note(&buf, cases[i].bytes);
        check_str(buf.data, cases[i].note);
        buf_done(&buf);
    }
}

static const char *const fragments[] = {
    "hunter2-and-more",
    "hunter2-",
    "plain text",
    "\n",
    "\xE2\x82\xAC",
    "\xE2",
    "\xFF",
    "\r",
    " ",
    "password=abc ",
    "\xF0\x9F\x98\x80",
    "-----BEGIN PRIVATE KEY-----\n",
    "ghp_0123456789abcdefABCD",
};

TEST(capture, any_cutting_of_the_reads_gives_the_same_text)
{
    struct rng rng;
    rng_seed(&rng, 16);
    struct buf text;
    buf_init(&text);
    for (int round = 0; round < 3000; round++) {
        struct box whole, pieces;
        box_init(&whole, NULL);
        box_init(&pieces, NULL);
        buf_clear(&text);
        for (uint64_t n = rng_below(&rng, 20); n > 0; n--)
            buf_puts(&text, fragments[rng_below(&rng, CASES(fragments))]);
        feed(&whole, 1, text.data, 1);
        for (size_t at = 0; at < text.len;) {
            size_t len = 1 + rng_below(&rng, 12);
            len = len < text.len - at ? len : text.len - at;
            check_int(capture_feed(&pieces.capture, 1, text.data + at, len, 1, NULL), ==, 0);
            at += len;
            if (rng_below(&rng, 4) == 0)
                take(&pieces);
        }
        end(&whole);
        end(&pieces);
        take(&whole);
        take(&pieces);
        check_str(pieces.text.data, whole.text.data);
        check_case(!strstr(whole.text.data, "hunter2-and-more"), text.data);
        size_t bytes;
        check_str(capture_tail(&pieces.capture, &bytes), whole.text.data);
        box_done(&whole);
        box_done(&pieces);
    }
    buf_done(&text);
}

TEST(capture, memory_stays_the_same_however_much_is_written)
{
    struct box box;
    box_init(&box, NULL);
    char block[65536];
    struct rng rng;
    rng_seed(&rng, 5);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)rng_below(&rng, 256);
    size_t after_first = 0;
    for (int i = 0; i < 200; i++) {
        check_int(capture_feed(&box.capture, 1 + i % 2, block, sizeof block, i, NULL), ==, 0);
        size_t held = box.capture.head.room + box.capture.tail.room + box.capture.recent.cap +
                      box.capture.open_line[0].cap + box.capture.open_line[1].cap +
                      box.capture.redacted.cap + box.capture.clean.cap;
        if (i == 63)
            after_first = held;
        check_int(held, <, 1536 * 1024);
        if (i > 63)
            check_int(held, ==, after_first);
    }
    box_done(&box);
}
