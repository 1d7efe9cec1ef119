/* Output of attempts (SH-16): appended in order, paged, followed while it grows. */
#include "steps.h"

#include <stdlib.h>

static struct tend_output piece_of(int64_t seq, const char *text)
{
    return (struct tend_output){
        .seq = seq, .at_ms = TEND_UNSET, .stream = 1, .text = text, .text_bytes = strlen(text)};
}

static struct tend_outputs *read_output(tend *t, int64_t job_id, int64_t number, int64_t seq,
                                        size_t limit)
{
    struct tend_outputs *outputs;
    check_ok(t, tend_output_read(t, job_id, number, seq, limit, &outputs));
    return outputs;
}

/* The whole output of a job, read in pages of `limit`. */
static const char *all_output(tend *t, int64_t job_id, size_t limit)
{
    char *text = keep_text("%s", "");
    int64_t number = 0;
    int64_t seq = 0;
    for (;;) {
        struct tend_outputs *page = read_output(t, job_id, number, seq, limit);
        check_int(page->count, <=, limit);
        for (size_t i = 0; i < page->count; i++) {
            text = keep_text("%s%lld.%lld:%s ", text, (long long)page->items[i].number,
                             (long long)page->items[i].seq, page->items[i].text);
            number = page->items[i].number;
            seq = page->items[i].seq;
        }
        size_t count = page->count;
        tend_outputs_free(page);
        if (count == 0)
            return text;
    }
}

TEST(output, SH_16_pieces_come_back_as_they_were_given)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    const struct tend_output pieces[] = {
        {.seq = 1, .at_ms = 1234, .stream = 1, .text = "häl\nlo", .text_bytes = 7},
        {.seq = 2,
         .at_ms = TEND_UNSET,
         .stream = 2,
         .dropped_bytes = 99,
         .text = "e",
         .text_bytes = 1},
        {.seq = 5, .at_ms = 1, .stream = 0, .text = NULL},
    };
    const char *events = events_of(t, lease.id);
    clock_advance(8);
    check_ok(t, tend_output_append(t, lease, number, pieces, 3));
    struct tend_outputs *outputs = read_output(t, lease.id, 0, 0, 0);
    check_int(outputs->count, ==, 3);
    check_int(outputs->items[0].number, ==, number);
    check_int(outputs->items[0].seq, ==, 1);
    check_int(outputs->items[0].at_ms, ==, 1234);
    check_int(outputs->items[0].stream, ==, 1);
    check_int(outputs->items[0].dropped_bytes, ==, 0);
    check_str(outputs->items[0].text, "häl\nlo");
    check_int(outputs->items[0].text_bytes, ==, 7);
    check_int(outputs->items[1].at_ms, ==, clock_now());
    check_int(outputs->items[1].stream, ==, 2);
    check_int(outputs->items[1].dropped_bytes, ==, 99);
    check_str(outputs->items[2].text, "");
    check_int(outputs->items[2].seq, ==, 5);
    tend_outputs_free(outputs);
    check_str(events_of(t, lease.id), events);
}

TEST(output, what_is_no_text_becomes_text)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    const struct tend_output piece = {.seq = 1,
                                      .stream = 1,
                                      .text = "a\0b\xff"
                                              "c",
                                      .text_bytes = 5};
    check_ok(t, tend_output_append(t, lease, number, &piece, 1));
    struct tend_outputs *outputs = read_output(t, lease.id, 0, 0, 0);
    check_str(outputs->items[0].text, "a\xef\xbf\xbd"
                                      "b\xef\xbf\xbd"
                                      "c");
    tend_outputs_free(outputs);
}

TEST(output, pages_follow_each_other_over_all_attempts)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_lease other = lease_with_steps(t, THREE_STEPS);
    check_ok(t, tend_output_append(t, other, begin_step(t, other, 1, "build"),
                                   (struct tend_output[]){piece_of(1, "other")}, 1));
    const char *expected = "";
    for (int64_t number = 1; number <= 3; number++) {
        check_int(begin_step(t, lease, number, "s"), ==, number);
        struct tend_output pieces[7];
        for (int64_t i = 0; i < 7; i++) {
            const char *text = keep_text("%lld0%lld", (long long)number, (long long)i);
            pieces[i] = piece_of(i + 1, text);
            expected =
                keep_text("%s%lld.%lld:%s ", expected, (long long)number, (long long)i + 1, text);
        }
        check_ok(t, tend_output_append(t, lease, number, pieces, 7));
        end_step(t, lease, number, TEND_ATTEMPT_SUCCEEDED);
    }
    check_str(all_output(t, lease.id, 1), expected);
    check_str(all_output(t, lease.id, 4), expected);
    check_str(all_output(t, lease.id, 100), expected);
    struct tend_outputs *outputs = read_output(t, lease.id, 2, 6, 3);
    check_int(outputs->count, ==, 3);
    check_str(outputs->items[0].text, "206");
    check_str(outputs->items[1].text, "300");
    tend_outputs_free(outputs);
}

TEST(output, pieces_told_twice_are_there_once_and_as_they_were_first)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    struct tend_output pieces[6];
    for (int64_t i = 0; i < 6; i++)
        pieces[i] = piece_of(i + 1, keep_text("%lld", (long long)i));
    check_ok(t, tend_output_append(t, lease, number, pieces, 4));
    const char *before = store_snapshot();
    pieces[0].text = "9";
    clock_advance(10);
    check_ok(t, tend_output_append(t, lease, number, pieces, 4));
    check_str(store_snapshot(), before);
    check_ok(t, tend_output_append(t, lease, number, pieces, 6));
    check_str(all_output(t, lease.id, 9), "1.1:0 1.2:1 1.3:2 1.4:3 1.5:4 1.6:5 ");
}

/* SH-16: bounded; what was kept at first is left out when there is more behind it. */
TEST(output, pieces_are_discarded_once_and_the_piece_behind_them_says_how_much)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    struct tend_output pieces[5];
    for (int64_t i = 0; i < 5; i++)
        pieces[i] = piece_of(i + 1, keep_text("%lld", (long long)i));
    pieces[3].dropped_bytes = 10;
    check_ok(t, tend_output_append(t, lease, number, pieces, 5));
    check_ok(t, tend_output_discard(t, lease, number, 2, 4, 7));
    check_ok(t, tend_output_discard(t, lease, number, 2, 4, 7)); /* repeated */
    check_str(sql_rows("SELECT seq, dropped_bytes FROM output ORDER BY seq"), "1|0\n4|17\n5|0\n");
    const char *before = store_snapshot();
    struct tend_lease lost = {.id = lease.id, .token = lease.token - 1};
    check_rc(t, tend_output_discard(t, lost, number, 4, 5, 7), TEND_ELEASELOST);
    check_str(store_snapshot(), before);
}

TEST(output, bad_pieces_are_refused_and_none_is_no_error)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    struct tend_output pieces[] = {piece_of(1, "a"), piece_of(0, "b")};
    check_rc(t, tend_output_append(t, lease, number, pieces, 2), TEND_EINVAL);
    pieces[1] = piece_of(2, "b");
    pieces[1].stream = 3;
    check_rc(t, tend_output_append(t, lease, number, pieces, 2), TEND_EINVAL);
    pieces[1].stream = 1;
    pieces[1].dropped_bytes = -1;
    check_rc(t, tend_output_append(t, lease, number, pieces, 2), TEND_EINVAL);
    check_rc(t, tend_output_append(t, lease, 0, pieces, 1), TEND_EINVAL);
    check_ok(t, tend_output_append(t, lease, number, pieces, 0));
    check_int(sql_int("SELECT count(*) FROM output"), ==, 0);
}

static void write_lines(struct helper *parent, void *arg)
{
    enum { LINES = 300 };
    tend *t = store_open("writer");
    struct tend_lease lease = *(struct tend_lease *)arg;
    for (int64_t seq = 1; seq <= LINES; seq += 3) {
        const struct tend_output pieces[] = {piece_of(seq, "x"), piece_of(seq + 1, "y"),
                                             piece_of(seq + 2, "z")};
        check_ok(t, tend_output_append(t, lease, 1, pieces, 3));
    }
    helper_say(parent, LINES);
    helper_hear(parent);
    store_close(t);
}

/* SH-16: from another process, while it is written; nothing is missed, nothing comes twice. */
TEST(output, SH_16_a_follower_sees_everything_in_order)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    begin_step(t, lease, 1, "build");
    struct helper writer = helper_start(write_lines, &lease);
    int64_t seq = 0;
    while (seq < 300) {
        struct tend_outputs *page = read_output(t, lease.id, 1, seq, 7);
        for (size_t i = 0; i < page->count; i++)
            check_int(page->items[i].seq, ==, ++seq);
        tend_outputs_free(page);
    }
    check_int(helper_hear(&writer), ==, 300);
    helper_say(&writer, 0);
    helper_join(&writer);
}

/* 200 pieces of 64 KiB. */
TEST(output, large_pieces_and_many_of_them)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    int64_t number = begin_step(t, lease, 1, "build");
    char *text = malloc(65537);
    memset(text, 'x', 65536);
    text[65536] = '\0';
    struct tend_output pieces[50];
    for (int64_t seq = 1; seq <= 200;) {
        for (size_t i = 0; i < 50; i++)
            pieces[i] = piece_of(seq++, text);
        check_ok(t, tend_output_append(t, lease, number, pieces, 50));
    }
    struct tend_outputs *outputs = read_output(t, lease.id, number, 190, 5);
    check_int(outputs->count, ==, 5);
    check_int(outputs->items[4].seq, ==, 195);
    check_int(outputs->items[4].text_bytes, ==, 65536);
    tend_outputs_free(outputs);
    free(text);
}
