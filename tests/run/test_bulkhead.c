/* WF-7: slots per kind. */
#include "run/bulkhead.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

static struct bulkheads bulkheads_with(const struct tend_kind_limit *limits, size_t count,
                                       int64_t limit_others)
{
    struct bulkheads bulkheads;
    bulkheads_init(&bulkheads, limits, count, limit_others);
    return bulkheads;
}

static int fill(struct bulkheads *bulkheads, const char *kind)
{
    int count = 0;
    while (bulkhead_take(bulkhead_of(bulkheads, kind)))
        count++;
    return count;
}

TEST(bulkhead, WF_7_five_of_a_shell_ten_of_http_five_of_any_other)
{
    struct bulkheads bulkheads = bulkheads_with(NULL, 0, TEND_UNSET);
    check_int(fill(&bulkheads, "shell"), ==, 5);
    check_int(fill(&bulkheads, "http"), ==, 10);
    check_int(fill(&bulkheads, "sleep"), ==, 5);
    check_int(fill(&bulkheads, "resize"), ==, 5);
    check_str(bulkhead_kind(""), "shell");
}

TEST(bulkhead, WF_7_a_limit_is_of_its_kind_and_the_others_have_theirs)
{
    const struct tend_kind_limit limits[] = {{.kind = "shell", .limit = 7},
                                             {.kind = "resize", .limit = 1}};
    struct bulkheads bulkheads = bulkheads_with(limits, 2, 3);
    check_int(fill(&bulkheads, "shell"), ==, 7);
    check_int(fill(&bulkheads, "resize"), ==, 1);
    check_int(fill(&bulkheads, "http"), ==, 3);
    check_int(fill(&bulkheads, "sleep"), ==, 3);
}

/* As many as fit whatever their kinds are; full ones are named, however many. */
TEST(bulkhead, WF_7_room_is_never_nothing_and_names_every_full_kind)
{
    struct bulkheads bulkheads = bulkheads_with(NULL, 0, TEND_UNSET);
    const char *full[BULKHEADS_MAX];
    size_t count;
    check_int(bulkhead_room(&bulkheads, full, &count), ==, 5);
    check_int(count, ==, 0);
    check(bulkhead_take(bulkhead_of(&bulkheads, "shell")));
    check_int(bulkhead_room(&bulkheads, full, &count), ==, 4);
    for (int i = 0; i < 100; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, "kind-%d", i);
        fill(&bulkheads, kind);
    }
    check_int(bulkhead_room(&bulkheads, full, &count), ==, 4);
    check_int(count, ==, 100);
}

/* A slot that is free is for those who wait, not for another claim. */
TEST(bulkhead, WF_7_free_slots_are_for_those_who_wait)
{
    struct bulkheads bulkheads = bulkheads_with(NULL, 0, 2);
    struct bulkhead *http = bulkhead_of(&bulkheads, "http");
    const char *full[BULKHEADS_MAX];
    size_t count;
    check_int(fill(&bulkheads, "http"), ==, 2);
    check(bulkhead_wait(http));
    bulkhead_give(http);
    bulkhead_room(&bulkheads, full, &count);
    check_int(count, ==, 1);
    check(bulkhead_take(http));
    bulkhead_wait_no_more(http);
    bulkhead_give(http);
    bulkhead_room(&bulkheads, full, &count);
    check_int(count, ==, 0);
}

TEST(bulkhead, those_who_wait_are_bounded)
{
    struct bulkheads bulkheads = bulkheads_with(NULL, 0, TEND_UNSET);
    int count = 0;
    while (bulkhead_wait(bulkhead_of(&bulkheads, "http")) && count < 100000)
        count++;
    check_int(count, ==, 100);
    check(bulkhead_wait(bulkhead_of(&bulkheads, "shell")));
}

/* Kinds come and go in a worker that lives long. */
TEST(bulkhead, WF_7_kinds_that_are_not_in_use_take_no_room)
{
    const struct tend_kind_limit limit = {.kind = "mine", .limit = 2};
    struct bulkheads bulkheads = bulkheads_with(&limit, 1, TEND_UNSET);
    for (int i = 0; i < 10 * BULKHEADS_MAX; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, "kind-%d", i);
        struct bulkhead *bulkhead = bulkhead_of(&bulkheads, kind);
        check_str(bulkhead->kind, kind);
        check(bulkhead_take(bulkhead));
        bulkhead_give(bulkhead);
    }
    check_int(fill(&bulkheads, "mine"), ==, 2);
}

/* More at once than can be told apart: they share, and whoever gives back gives to where it took.
 */
TEST(bulkhead, more_kinds_than_can_be_told_apart_share_a_place)
{
    struct bulkheads bulkheads = bulkheads_with(NULL, 0, TEND_UNSET);
    struct bulkhead *taken[BULKHEADS_MAX + 4];
    for (int i = 0; i < BULKHEADS_MAX + 4; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, "kind-%d", i);
        taken[i] = bulkhead_of(&bulkheads, kind);
        check(bulkhead_take(taken[i]));
    }
    check(!bulkhead_take(bulkhead_of(&bulkheads, "another")));
    for (int i = 0; i < BULKHEADS_MAX + 4; i++)
        bulkhead_give(taken[i]);
    check_int(fill(&bulkheads, "another"), ==, 5);
    check_int(fill(&bulkheads, "shell"), ==, 5);
}
