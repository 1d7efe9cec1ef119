/* What follows a failed attempt: SH-1, SH-3, SH-6, SH-7, SH-11. */
#include "base/rng.h"
#include "core/heal.h"
#include "unit/case.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

static struct budgets budgets_of(int64_t attempts, int64_t limit, int64_t resets)
{
    struct budgets budgets = budget_none();
    budgets.step_max_attempts = attempts;
    budgets.step_no_progress_limit = limit;
    budgets.job_self_heal_max_resets = resets;
    return budget_merge(&budgets, NULL, NULL, NULL);
}

static struct heal begin(int64_t attempts, int64_t limit, int64_t resets, bool has_workspace)
{
    struct heal heal;
    struct budgets budgets = budgets_of(attempts, limit, resets);
    heal_begin_job(&heal, 0, has_workspace);
    heal_begin_step(&heal, &budgets);
    return heal;
}

static struct heal_verdict fail_with(struct heal *heal, enum failure_class class,
                                     const char *signature, const char *diff_hash)
{
    struct heal_attempt attempt = {.class = class, .signature = signature, .diff_hash = diff_hash};
    struct heal_verdict verdict;
    heal_after_failure(heal, &attempt, &verdict);
    return verdict;
}

/* One letter per attempt: its signature and diff; the answers as letters s, h, f, x. */
static const char *walk(struct heal *heal, const char *failures)
{
    static char answers[64];
    size_t at = 0;
    for (; failures[at]; at++) {
        char name[] = {failures[at], '\0'};
        struct heal_verdict verdict = fail_with(heal, CLASS_TRANSIENT_RUNTIME, name, "d");
        answers[at] = "shfx"[verdict.action];
    }
    answers[at] = '\0';
    return answers;
}

TEST(heal, with_the_defaults_soft_then_hard_then_exhausted)
{
    /* 3 attempts, 2 alike, 1 reset: SH-6, SH-7, SH-11 in one story. */
    struct budgets defaults = budget_merge(NULL, NULL, NULL, NULL);
    struct heal heal;
    heal_begin_job(&heal, 0, true);
    heal_begin_step(&heal, &defaults);
    struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_SOFT);
    check_int(verdict.attempt, ==, 1);
    check(!verdict.no_progress);
    check_contains(verdict.reason, "attempt 2 of 3 follows");
    verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_HARD);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check(verdict.no_progress);
    check_contains(verdict.reason, "2 attempts in a row failed alike; hard reset 1 of 1");
    verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_EXHAUSTED);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check(verdict.retryable);
    check_contains(verdict.reason, "the step's attempts (3) are used up");
    check_int(heal.resets_used, ==, 1);
}

TEST(heal, attempts_that_differ_are_soft_until_they_are_used_up)
{
    struct heal heal = begin(4, 2, 1, true);
    check_str(walk(&heal, "ABC"), "sss");
    struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "D", "d");
    check_int(verdict.action, ==, HEAL_EXHAUSTED);
    check_int(verdict.class, ==, CLASS_TRANSIENT_RUNTIME);
    check(verdict.retryable && !verdict.no_progress);
    check_int(heal.resets_used, ==, 0);
}

TEST(heal, rows_of_failures_and_what_follows)
{
    static const struct {
        int64_t attempts, limit, resets;
        bool workspace;
        const char *failures, *answers;
    } cases[] = {
        {1, 2, 1, true, "A", "x"},
        {9, 2, 1, true, "AA", "sh"},
        {9, 2, 1, false, "AA", "sx"},
        {9, 2, 0, true, "AA", "sx"},
        {9, 1, 1, true, "AA", "sh"},   /* it takes two to be alike */
        {9, 3, 1, true, "AAA", "ssh"}, /* SH-3: the limit counts attempts in a row */
        {9, 3, 1, true, "AABAAA", "sssssh"} /* a different one between begins anew */,
        {9, 2, 1, true, "AAA", "shx"}, /* the same in a fresh workspace */
        {9, 2, 2, true, "AAAA", "shhx"},
        {9, 2, 1, true, "AABB", "shsx"},
        {9, 2, 1, true, "ABAB", "sssh"}, /* back and forth */
        {9, 2, 1, true, "ABABA", "ssshx"},
        {9, 3, 1, true, "ABABAB", "sssssh"},
        {9, 2, 1, true, "ABCABC", "ssssss"},
        {9, 2, 1, true, "XABAB", "ssssh"},
        {9, 3, 1, true, "AABABAB", "ssssssh"},
        {9, 2, 1, true, "ABACAB", "ssssss"},
        {4, 2, 1, true, "ABAB", "sssx"}, /* seen, but nothing is left to try */
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct heal heal =
            begin(cases[i].attempts, cases[i].limit, cases[i].resets, cases[i].workspace);
        check_case(strcmp(walk(&heal, cases[i].failures), cases[i].answers) == 0,
                   cases[i].failures);
    }
}

TEST(heal, progress_is_a_new_signature_or_a_new_diff)
{
    /* SH-3: both must be the same; no diff is like no diff. */
    static const struct {
        const char *signature[2], *diff[2];
        bool stuck;
    } cases[] = {
        {{"A", "A"}, {"1", "1"}, true},    {{"A", "A"}, {"1", "2"}, false},
        {{"A", "B"}, {"1", "1"}, false},   {{"A", "A"}, {"", ""}, true},
        {{"A", "A"}, {NULL, NULL}, true},  {{"A", "A"}, {NULL, ""}, true},
        {{"A", "A"}, {"", "1"}, false},    {{"", NULL}, {"1", "1"}, true},
        {{"AB", "A"}, {"C", "BC"}, false},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct heal heal = begin(9, 2, 1, true);
        fail_with(&heal, CLASS_TRANSIENT_RUNTIME, cases[i].signature[0], cases[i].diff[0]);
        struct heal_verdict verdict =
            fail_with(&heal, CLASS_TRANSIENT_RUNTIME, cases[i].signature[1], cases[i].diff[1]);
        check_int(verdict.no_progress, ==, cases[i].stuck);
        check_int(verdict.action, ==, cases[i].stuck ? HEAL_HARD : HEAL_SOFT);
    }
}

TEST(heal, deterministic_classes_fail_at_once)
{
    /* SH-4 */
    static const enum failure_class classes[] = {
        CLASS_DETERMINISTIC_CONTRACT, CLASS_DETERMINISTIC_POLICY, CLASS_DETERMINISTIC_REPO};
    for (size_t i = 0; i < CASES(classes); i++) {
        for (int64_t attempts = 1; attempts <= 3; attempts++) {
            struct heal heal = begin(attempts, 2, 1, true);
            struct heal_verdict verdict = fail_with(&heal, classes[i], "A", "d");
            check_int(verdict.action, ==, HEAL_FAIL);
            check_int(verdict.class, ==, classes[i]);
            check(!verdict.retryable);
            check_str(verdict.reason, "this class is not tried again");
            check_str(heal_strategy_name(verdict.action), "");
        }
    }
}

TEST(heal, a_step_that_says_it_is_stuck_is_believed)
{
    struct heal heal = begin(9, 5, 1, true);
    struct heal_verdict verdict = fail_with(&heal, CLASS_STUCK_NO_PROGRESS, "A", "1");
    check_int(verdict.action, ==, HEAL_HARD);
    check(!verdict.no_progress);
    verdict = fail_with(&heal, CLASS_STUCK_NO_PROGRESS, "B", "2");
    check_int(verdict.action, ==, HEAL_EXHAUSTED);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check_contains(verdict.reason, "the job's hard resets (1) are used up");
}

TEST(heal, an_unknown_failure_is_soft_once_and_then_escalates)
{
    /* SH-5, with the classifier: same signature, but the diff moves on. */
    struct heal heal = begin(9, 2, 1, true);
    static const char *const signatures[] = {"A", "B", "A"};
    static const char *const diffs[] = {"1", "2", "3"};
    static const enum heal_action actions[] = {HEAL_SOFT, HEAL_SOFT, HEAL_HARD};
    for (size_t i = 0; i < CASES(signatures); i++) {
        struct evidence evidence = {.ending = {ENDED_EXIT, 1},
                                    .unknown_before = heal_unknown_before(&heal, signatures[i])};
        struct classification class;
        classify(NULL, &evidence, &class);
        struct heal_attempt attempt = {.class = class.class,
                                       .unknown = class.unknown,
                                       .signature = signatures[i],
                                       .diff_hash = diffs[i]};
        struct heal_verdict verdict;
        heal_after_failure(&heal, &attempt, &verdict);
        check_int(verdict.action, ==, actions[i]);
        check_contains(verdict.reason, i == 2 ? "nobody knows came back" : "follows");
    }
    check_int(heal_unknown_before(&heal, "A"), ==, 2);
    check_int(heal_unknown_before(&heal, "C"), ==, 0);
}

TEST(heal, unknown_signatures_are_kept_up_to_a_bound)
{
    struct heal heal = begin(1000, 1000, 1, true);
    for (int i = 0; i < 3 * HEAL_UNKNOWN_KEPT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        struct heal_attempt attempt = {
            .class = CLASS_TRANSIENT_RUNTIME, .unknown = true, .signature = name};
        struct heal_verdict verdict;
        check_int(heal_unknown_before(&heal, name), ==, 0);
        heal_after_failure(&heal, &attempt, &verdict);
        check_int(heal_unknown_before(&heal, name), ==, 1);
    }
    check_int(heal_unknown_before(&heal, "0"), ==, 0);
}

TEST(heal, the_next_step_begins_anew_but_resets_belong_to_the_job)
{
    struct heal heal = begin(9, 2, 1, true);
    struct budgets budgets = budgets_of(9, 2, 1);
    check_str(walk(&heal, "AA"), "sh");
    heal_begin_step(&heal, &budgets);
    check_int(heal_unknown_before(&heal, "A"), ==, 0);
    check_str(walk(&heal, "AA"), "sx");
    /* As a successor does that finds the reset in the store. */
    heal_begin_job(&heal, 1, true);
    heal_begin_step(&heal, &budgets);
    check_str(walk(&heal, "AA"), "sx");
}

TEST(heal, feeding_the_recorded_attempts_again_leads_to_the_same_state)
{
    struct heal first = begin(9, 3, 2, true);
    struct heal second = begin(9, 3, 2, true);
    walk(&first, "ABAAB");
    walk(&second, "ABAAB");
    char rest[64];
    snprintf(rest, sizeof rest, "%s", walk(&first, "BBA"));
    check_str(walk(&second, "BBA"), rest);
}

TEST(heal, strategies_have_the_names_of_the_contract)
{
    /* SH-13 */
    check_str(heal_strategy_name(HEAL_SOFT), "soft_reset");
    check_str(heal_strategy_name(HEAL_HARD), "hard_reset");
    check_str(heal_strategy_name(HEAL_EXHAUSTED), "");
}

/* The rows of a history by definition, from its whole length. */
static bool stuck_by_definition(const char *history, int count, int64_t limit)
{
    limit = limit < 2 ? 2 : limit;
    for (int period = 1; period <= 2; period++) {
        int64_t length = period * limit;
        bool row = count >= length;
        for (int i = count - 1; row && i >= count - length + period; i--)
            row = history[i] == history[i - period];
        if (row && (period == 1 || count < 2 || history[count - 1] != history[count - 2]))
            return true;
    }
    return false;
}

static void walk_at_random(struct rng *rng)
{
    int64_t attempts = 1 + (int64_t)rng_below(rng, 12);
    int64_t limit = 1 + (int64_t)rng_below(rng, 4);
    int64_t resets = (int64_t)rng_below(rng, 3);
    int64_t resets_before = (int64_t)rng_below(rng, 2);
    bool workspace = rng_below(rng, 3) > 0;
    struct budgets budgets = budgets_of(attempts, limit, resets);
    struct heal heal;
    heal_begin_job(&heal, resets_before, workspace);
    for (int step = 0; step < 4; step++) {
        char history[16] = "";
        int made = 0;
        heal_begin_step(&heal, &budgets);
        for (bool going = true; going;) {
            enum failure_class class =
                rng_below(rng, 12) == 0 ? (enum failure_class)(1 + rng_below(rng, CLASS_COUNT - 1))
                                        : CLASS_TRANSIENT_RUNTIME;
            char name[] = {(char)('A' + rng_below(rng, 2 + rng_below(rng, 2))), '\0'};
            int64_t resets_now = heal.resets_used;
            struct heal_verdict verdict = fail_with(&heal, class, name, NULL);
            history[made++] = name[0];
            bool stuck =
                class == CLASS_STUCK_NO_PROGRESS || stuck_by_definition(history, made, limit);
            check_int(made, <=, attempts);
            check_int(verdict.attempt, ==, made);
            check(strlen(verdict.reason) > 0);
            going = verdict.action == HEAL_SOFT || verdict.action == HEAL_HARD;
            check(!going || failure_class_retryable(class));
            check(!going || made < attempts);
            check_int(verdict.action == HEAL_FAIL, ==, !failure_class_retryable(class));
            check_int(verdict.retryable, ==, verdict.action == HEAL_EXHAUSTED);
            check(verdict.action != HEAL_SOFT || !stuck);
            check(verdict.action != HEAL_HARD || (stuck && workspace));
            check_int(heal.resets_used - resets_now, ==, verdict.action == HEAL_HARD);
            check(heal.resets_used <= resets || heal.resets_used == resets_before);
            if (verdict.action == HEAL_EXHAUSTED) {
                check_int(verdict.class, ==,
                          stuck ? CLASS_STUCK_NO_PROGRESS : CLASS_TRANSIENT_RUNTIME);
                check(made == attempts || (stuck && (!workspace || resets_now >= resets)));
            }
        }
    }
}

/* A step taken up under another lease decides as if it had never been left. */
TEST(heal, failures_that_are_remembered_count_as_those_that_were_seen)
{
    static const char *const histories[] = {"AA", "ABA", "ABABA", "ABCD", "AAAA"};
    for (size_t i = 0; i < sizeof histories / sizeof *histories; i++) {
        struct heal seen = begin(6, 2, 9, true);
        struct heal taken_up = begin(6, 2, 9, true);
        struct heal_verdict first = {0};
        struct heal_verdict second = {0};
        size_t count = strlen(histories[i]);
        for (size_t at = 0; at < count; at++) {
            char name[] = {histories[i][at], '\0'};
            const struct heal_attempt failed = {
                .class = CLASS_TRANSIENT_RUNTIME, .unknown = true, .signature = name};
            heal_after_failure(&seen, &failed, &first);
            if (at + 1 < count)
                heal_remember(&taken_up, &failed);
            else
                heal_after_failure(&taken_up, &failed, &second);
        }
        check_int(second.action, ==, first.action);
        check_int(second.attempt, ==, (int64_t)count);
        check_int(second.no_progress, ==, first.no_progress);
        check_int(heal_unknown_before(&taken_up, "A"), ==, heal_unknown_before(&seen, "A"));
    }
}

TEST(heal, verdicts_have_names_and_are_found_by_them)
{
    for (int action = HEAL_SOFT; action <= HEAL_EXHAUSTED; action++)
        check_int(heal_verdict_parse(heal_verdict_name((enum heal_action)action)), ==, action);
    check_int(heal_verdict_parse(NULL), ==, HEAL_SOFT);
}

TEST(heal, random_walks_keep_every_budget)
{
    struct rng rng;
    rng_seed(&rng, 2026);
    for (int i = 0; i < 20000; i++)
        walk_at_random(&rng);
}
