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

static unsigned default_classes(void)
{
    unsigned classes = 0;
    check(retry_classes_parse(RETRY_CLASSES_DEFAULT, &classes));
    return classes;
}

static struct heal begin(int64_t attempts, int64_t limit, int64_t resets, bool has_workspace)
{
    struct heal heal;
    struct budgets budgets = budgets_of(attempts, limit, resets);
    heal_begin_job(&heal, 0, has_workspace, default_classes());
    heal_begin_step(&heal, &budgets);
    return heal;
}

static struct heal_verdict fail_with(struct heal *heal, enum failure_class class,
                                     const char *signature, const char *diff_hash)
{
    struct heal_attempt attempt = {
        .class = class, .signature = signature, .diff_hash = diff_hash, .failures = -1};
    struct heal_verdict verdict;
    heal_after_failure(heal, &attempt, &verdict);
    return verdict;
}

static int unknown_before(const struct heal *heal, const char *signature, const char *diff_hash,
                          int64_t failures)
{
    const struct heal_attempt attempt = {
        .signature = signature, .diff_hash = diff_hash, .failures = failures};
    return heal_unknown_before(heal, &attempt);
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

TEST(heal, with_the_defaults_all_three_attempts_are_made)
{
    /* The third attempt was never made: a limit of 2 acted at the first repeat. */
    struct budgets defaults = budget_merge(NULL, NULL, NULL, NULL);
    struct heal heal;
    heal_begin_job(&heal, 0, true, default_classes());
    heal_begin_step(&heal, &defaults);
    struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_SOFT);
    check_int(verdict.attempt, ==, 1);
    check(!verdict.no_progress);
    check_contains(verdict.reason, "attempt 2 of 3 follows");
    verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_SOFT);
    check(!verdict.no_progress);
    check_contains(verdict.reason, "attempt 3 of 3 follows");
    verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_HARD);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check(verdict.no_progress && !verdict.retryable);
    check_str(verdict.reason, "3 attempts in a row failed alike; hard reset 1 of 1");
}

TEST(heal, with_the_defaults_a_hard_reset_brings_its_own_attempt)
{
    /* It never came: after three attempts that are alike all three were used up. */
    struct budgets defaults = budget_merge(NULL, NULL, NULL, NULL);
    static const struct {
        const char *last, *reason;
        enum failure_class class;
    } cases[] = {
        {"A", "4 attempts in a row failed alike; the attempt after the hard reset failed too",
         CLASS_STUCK_NO_PROGRESS},
        {"B", "the attempt after the hard reset failed too", CLASS_TRANSIENT_RUNTIME},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct heal heal;
        heal_begin_job(&heal, 0, true, default_classes());
        heal_begin_step(&heal, &defaults);
        check_str(walk(&heal, "AAA"), "ssh");
        struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, cases[i].last, "d");
        check_int(verdict.action, ==, HEAL_EXHAUSTED);
        check_int(verdict.class, ==, cases[i].class);
        check_int(verdict.attempt, ==, 4);
        check(verdict.retryable);
        check_str(verdict.reason, cases[i].reason);
        check_int(heal.resets_used, ==, 1);
        /* The next step has no reset left. */
        heal_begin_step(&heal, &defaults);
        check_str(walk(&heal, "AA"), "ss");
        verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
        check_str(verdict.reason,
                  "3 attempts in a row failed alike; the step's attempts (3) are used up");
    }
}

TEST(heal, with_one_attempt_more_soft_soft_hard_exhausted)
{
    /* SH-6, SH-7, SH-11 in one story. */
    struct heal heal = begin(4, 2, 1, true);
    check_str(walk(&heal, "AA"), "ss");
    struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_HARD);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check(verdict.no_progress && !verdict.retryable);
    check_contains(verdict.reason, "3 attempts in a row failed alike; hard reset 1 of 1");
    verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
    check_int(verdict.action, ==, HEAL_EXHAUSTED);
    check_int(verdict.class, ==, CLASS_STUCK_NO_PROGRESS);
    check(verdict.retryable);
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
        /* 1 acts at the first repeat, 2 after the second, 3 after the third. */
        {9, 1, 1, true, "AA", "sh"},
        {9, 2, 1, true, "AAA", "ssh"},
        {9, 3, 1, true, "AAAA", "sssh"},
        {9, 1, 1, false, "AA", "sx"},
        {9, 2, 1, false, "AAA", "ssx"},
        {9, 3, 1, false, "AAAA", "sssx"},
        {9, 2, 0, true, "AAA", "ssx"},
        {3, 2, 1, true, "AAAA", "sshx"}, /* the third of three is made, and one for the reset */
        {3, 2, 1, true, "AAAB", "sshx"},
        {3, 2, 2, true, "AAAAA", "sshhx"}, /* one for each reset */
        {3, 2, 0, true, "AAA", "ssx"},
        {3, 2, 1, false, "AAA", "ssx"},
        {3, 3, 1, true, "AAA", "ssx"},
        {9, 2, 1, true, "AABAAA", "sssssh"}, /* a different one between begins anew */
        {9, 2, 1, true, "AAAA", "sshx"},     /* the same in a fresh workspace */
        {9, 2, 2, true, "AAAAA", "sshhx"},
        {9, 2, 1, true, "AAABBB", "sshssx"},
        /* Back and forth: at least two attempts repeat the one two before them. */
        {9, 1, 1, true, "ABAB", "sssh"},
        {9, 2, 1, true, "ABAB", "sssh"},
        {9, 3, 1, true, "ABABA", "ssssh"},
        {9, 4, 1, true, "ABABAB", "sssssh"},
        {9, 2, 1, true, "ABABA", "ssshx"},
        {9, 2, 1, true, "ABCABC", "ssssss"},
        {9, 2, 1, true, "XABAB", "ssssh"},
        {9, 3, 1, true, "AABABA", "sssssh"},
        {9, 2, 1, true, "ABACAB", "ssssss"},
        {4, 2, 1, true, "ABABA", "ssshx"},
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
        struct heal heal = begin(9, 1, 1, true);
        fail_with(&heal, CLASS_TRANSIENT_RUNTIME, cases[i].signature[0], cases[i].diff[0]);
        struct heal_verdict verdict =
            fail_with(&heal, CLASS_TRANSIENT_RUNTIME, cases[i].signature[1], cases[i].diff[1]);
        check_int(verdict.no_progress, ==, cases[i].stuck);
        check_int(verdict.action, ==, cases[i].stuck ? HEAL_HARD : HEAL_SOFT);
    }
}

/* The same signature and diff; as many failures as the output counts. */
static struct heal_verdict fail_counting(struct heal *heal, int64_t failures)
{
    const struct heal_attempt attempt = {
        .class = CLASS_TRANSIENT_RUNTIME, .signature = "A", .diff_hash = "d", .failures = failures};
    struct heal_verdict verdict;
    heal_after_failure(heal, &attempt, &verdict);
    return verdict;
}

/* Symptom: it counted as no change, and a step that made progress was stuck. */
TEST(heal, a_diff_that_is_not_known_is_like_no_other)
{
    struct heal heal = begin(20, 1, 1, true);
    const struct heal_attempt unknown = {
        .unknown = true, .signature = "s", .diff_hash = HEAL_DIFF_UNKNOWN, .failures = -1};
    for (int i = 0; i < 4; i++) {
        struct heal_verdict verdict;
        check_int(unknown_before(&heal, "s", HEAL_DIFF_UNKNOWN, -1), ==, 0);
        heal_after_failure(&heal, &unknown, &verdict);
        check_int(verdict.action, ==, HEAL_SOFT);
    }
    static const char *const diffs[] = {"", HEAL_DIFF_UNKNOWN, "", ""};
    for (int i = 0; i < 4; i++)
        check_int(fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "s", diffs[i]).action, ==,
                  i < 3 ? HEAL_SOFT : HEAL_HARD);
}

TEST(heal, fewer_failures_are_progress_though_signature_and_diff_are_alike)
{
    /* 9, 8 and 7 failing tests counted as the same failure. */
    static const struct {
        int64_t counts[4];
        const char *answers;
    } cases[] = {
        {{9, 8, 7, 6}, "ssss"}, {{9, 9, 9, 9}, "sshh"},   {{9, 9, 8, 8}, "ssss"},
        {{7, 8, 9, 9}, "sshh"}, {{9, -1, 8, -1}, "sshh"}, {{-1, -1, -1, -1}, "sshh"},
        {{9, 8, 8, 8}, "sssh"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct heal heal = begin(9, 2, 9, true);
        char answers[5] = "";
        for (int at = 0; at < 4; at++)
            answers[at] = "shfx"[fail_counting(&heal, cases[i].counts[at]).action];
        check_case(strcmp(answers, cases[i].answers) == 0, cases[i].answers);
    }
}

TEST(heal, an_unknown_failure_with_fewer_failures_is_not_the_same_again)
{
    struct heal heal = begin(9, 2, 1, true);
    const struct heal_attempt nine = {
        .class = CLASS_TRANSIENT_RUNTIME, .unknown = true, .signature = "A", .failures = 9};
    heal_remember(&heal, &nine);
    check_int(unknown_before(&heal, "A", NULL, 8), ==, 0);
    check_int(unknown_before(&heal, "A", NULL, 9), ==, 1);
    check_int(unknown_before(&heal, "A", NULL, -1), ==, 1);
}

/* Lower-case letters are failures outside the workspace. */
static const char *walk_outside(struct heal *heal, const char *failures)
{
    static char answers[64];
    size_t at = 0;
    for (; failures[at]; at++) {
        char name[] = {failures[at], '\0'};
        const struct heal_attempt attempt = {.class = CLASS_TRANSIENT_RUNTIME,
                                             .signature = name,
                                             .outside = failures[at] >= 'a',
                                             .failures = -1};
        struct heal_verdict verdict;
        heal_after_failure(heal, &attempt, &verdict);
        check(!attempt.outside || !verdict.no_progress);
        answers[at] = "shfx"[verdict.action];
    }
    answers[at] = '\0';
    return answers;
}

TEST(heal, a_failure_outside_the_workspace_never_leads_to_a_hard_reset)
{
    /* A network that was away for a second used up the job's only hard reset. */
    static const struct {
        int64_t attempts, limit;
        const char *failures, *answers;
    } cases[] = {
        {9, 1, "nnnnnnnnn", "ssssssssx"},
        {3, 2, "nnn", "ssx"},
        {9, 1, "AnA", "ssh"}, /* left out of the row, which goes on */
        {9, 2, "AnAnA", "ssssh"},
        {9, 2, "AnBnAnB", "ssssssh"},
        {9, 1, "nAnB", "ssss"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct heal heal = begin(cases[i].attempts, cases[i].limit, 1, true);
        check_case(strcmp(walk_outside(&heal, cases[i].failures), cases[i].answers) == 0,
                   cases[i].failures);
    }
}

TEST(heal, the_pause_doubles_from_the_first_to_the_longest_with_jitter)
{
    static const int64_t bases[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    struct budgets defaults = budget_merge(NULL, NULL, NULL, NULL);
    struct heal heal;
    heal_begin_job(&heal, 0, false, default_classes());
    heal_begin_step(&heal, &defaults);
    for (size_t i = 0; i < CASES(bases); i++) {
        const struct heal_verdict soft = {.action = HEAL_SOFT, .attempt = (int64_t)i + 1};
        int64_t least = heal_pause_ms(&heal, &soft, -1, 0.0);
        int64_t middle = heal_pause_ms(&heal, &soft, -1, 0.5);
        int64_t most = heal_pause_ms(&heal, &soft, -1, 0.999999);
        check_int(middle, ==, bases[i]);
        check_int(least, >=, bases[i] * 8 / 10);
        check_int(least, <, bases[i]);
        check_int(most, <=, bases[i] * 12 / 10);
        check_int(most, <=, 30000);
    }
}

TEST(heal, the_longer_of_the_pause_and_what_was_asked_for_counts)
{
    struct budgets budgets = budget_merge(NULL, NULL, NULL, NULL);
    const struct heal_verdict soft = {.action = HEAL_SOFT, .attempt = 1};
    const struct heal_verdict hard = {.action = HEAL_HARD, .attempt = 1};
    struct heal heal;
    heal_begin_job(&heal, 0, true, default_classes());
    heal_begin_step(&heal, &budgets);
    check_int(heal_pause_ms(&heal, &soft, 20, 0.5), ==, 1000);
    check_int(heal_pause_ms(&heal, &soft, 7000, 0.5), ==, 7000);
    check_int(heal_pause_ms(&heal, &hard, -1, 0.5), ==, 0); /* a fresh workspace needs no time */
    check_int(heal_pause_ms(&heal, &hard, 7000, 0.5), ==, 7000);
    budgets.step_pause_ms = 0;
    heal_begin_step(&heal, &budgets);
    check_int(heal_pause_ms(&heal, &soft, -1, 0.5), ==, 0);
    check_int(heal_pause_ms(&heal, &soft, 7000, 0.5), ==, 7000);
    budgets.step_pause_ms = 60000; /* longer than the longest: that one counts */
    heal_begin_step(&heal, &budgets);
    check_int(heal_pause_ms(&heal, &soft, -1, 0.5), ==, 30000);
}

TEST(heal, the_queue_tries_again_which_classes_the_job_names)
{
    /* 003 7.2: the classes were fixed. */
    static const struct {
        const char *classes;
        bool transient, stuck, policy;
    } cases[] = {
        {RETRY_CLASSES_DEFAULT, true, true, false},
        {"none", false, false, false},
        {"stuck_no_progress", false, true, false},
        {"deterministic_policy,transient_runtime", true, false, true},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        unsigned classes = 0;
        struct budgets budgets = budgets_of(1, 2, 0);
        struct heal heal;
        check(retry_classes_parse(cases[i].classes, &classes));
        heal_begin_job(&heal, 0, true, classes);
        heal_begin_step(&heal, &budgets);
        struct heal_verdict verdict = fail_with(&heal, CLASS_TRANSIENT_RUNTIME, "A", "d");
        check_int(verdict.action, ==, HEAL_EXHAUSTED);
        check_int(verdict.retryable, ==, cases[i].transient);
        heal_begin_step(&heal, &budgets);
        check_int(fail_with(&heal, CLASS_STUCK_NO_PROGRESS, "A", "d").retryable, ==,
                  cases[i].stuck);
        heal_begin_step(&heal, &budgets);
        verdict = fail_with(&heal, CLASS_DETERMINISTIC_POLICY, "A", "d");
        check_int(verdict.action, ==, HEAL_FAIL);
        check_int(verdict.retryable, ==, cases[i].policy);
        check_str(verdict.reason, cases[i].policy ? "only the queue tries this class again"
                                                  : "this class is not tried again");
    }
}

TEST(heal, a_list_of_classes_that_is_none_is_refused)
{
    static const char *const lists[] = {"",
                                        ",",
                                        "transient_runtime,",
                                        "transient",
                                        "none,",
                                        " none",
                                        "transient_runtime,,stuck_no_progress"};
    for (size_t i = 0; i < CASES(lists); i++) {
        unsigned classes = 77;
        check_case(!retry_classes_parse(lists[i], &classes) && classes == 77, lists[i]);
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
    /* SH-5, SH-3, with the classifier. A step whose changes went on was called stuck at its second
     * attempt, and lost them to a hard reset. */
    struct heal heal = begin(9, 9, 1, true);
    static const char *const signatures[] = {"A", "A", "B", "A", "A"};
    static const char *const diffs[] = {"1", "2", "2", "3", "1"};
    static const enum heal_action actions[] = {HEAL_SOFT, HEAL_SOFT, HEAL_SOFT, HEAL_SOFT,
                                               HEAL_HARD};
    for (size_t i = 0; i < CASES(signatures); i++) {
        struct evidence evidence = {.ending = {ENDED_EXIT, 1},
                                    .unknown_before =
                                        unknown_before(&heal, signatures[i], diffs[i], -1)};
        struct classification class;
        classify(NULL, &evidence, &class);
        struct heal_attempt attempt = {.class = class.class,
                                       .unknown = class.unknown,
                                       .signature = signatures[i],
                                       .diff_hash = diffs[i],
                                       .failures = -1};
        struct heal_verdict verdict;
        heal_after_failure(&heal, &attempt, &verdict);
        check_int(verdict.action, ==, actions[i]);
        check_contains(verdict.reason, i == 4 ? "the same unknown failure came twice" : "follows");
    }
    check_int(unknown_before(&heal, "A", "1", -1), ==, 2);
    check_int(unknown_before(&heal, "A", "3", -1), ==, 1);
    check_int(unknown_before(&heal, "A", "4", -1), ==, 0);
    check_int(unknown_before(&heal, "C", "1", -1), ==, 0);
}

TEST(heal, unknown_signatures_are_kept_up_to_a_bound)
{
    struct heal heal = begin(1000, 1000, 1, true);
    for (int i = 0; i < 3 * HEAL_UNKNOWN_KEPT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        struct heal_attempt attempt = {
            .class = CLASS_TRANSIENT_RUNTIME, .unknown = true, .signature = name, .failures = -1};
        struct heal_verdict verdict;
        check_int(unknown_before(&heal, name, NULL, -1), ==, 0);
        heal_after_failure(&heal, &attempt, &verdict);
        check_int(unknown_before(&heal, name, NULL, -1), ==, 1);
    }
    check_int(unknown_before(&heal, "0", NULL, -1), ==, 0);
}

TEST(heal, the_next_step_begins_anew_but_resets_belong_to_the_job)
{
    struct heal heal = begin(9, 2, 1, true);
    struct budgets budgets = budgets_of(9, 2, 1);
    check_str(walk(&heal, "AAA"), "ssh");
    heal_begin_step(&heal, &budgets);
    check_int(unknown_before(&heal, "A", NULL, -1), ==, 0);
    check_str(walk(&heal, "AAA"), "ssx");
    /* As a successor does that finds the reset in the store. */
    heal_begin_job(&heal, 1, true, default_classes());
    heal_begin_step(&heal, &budgets);
    check_str(walk(&heal, "AAA"), "ssx");
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
    for (int period = 1; period <= 2; period++) {
        int repeats = 0;
        for (int i = count - 1; i >= period && history[i] == history[i - period]; i--)
            repeats++;
        if (repeats >= (limit < period ? period : limit))
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
    heal_begin_job(&heal, resets_before, workspace, default_classes());
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
            check_int(made, <=, attempts + heal.resets_used);
            check_int(verdict.attempt, ==, made);
            check(strlen(verdict.reason) > 0);
            going = verdict.action == HEAL_SOFT || verdict.action == HEAL_HARD;
            check(!going || failure_class_retryable(class));
            check(verdict.action != HEAL_SOFT || made < attempts);
            check_int(verdict.action == HEAL_FAIL, ==, !failure_class_retryable(class));
            check_int(verdict.retryable, ==, verdict.action == HEAL_EXHAUSTED);
            check(verdict.action != HEAL_SOFT || !stuck);
            check(verdict.action != HEAL_HARD || (stuck && workspace));
            check_int(heal.resets_used - resets_now, ==, verdict.action == HEAL_HARD);
            check(heal.resets_used <= resets || heal.resets_used == resets_before);
            if (verdict.action == HEAL_EXHAUSTED) {
                check_int(verdict.class, ==,
                          stuck ? CLASS_STUCK_NO_PROGRESS : CLASS_TRANSIENT_RUNTIME);
                check(!stuck || !workspace || resets_now >= resets);
                check(made >= attempts || stuck);
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
            const struct heal_attempt failed = {.class = CLASS_TRANSIENT_RUNTIME,
                                                .unknown = true,
                                                .signature = name,
                                                .failures = -1};
            heal_after_failure(&seen, &failed, &first);
            if (at + 1 < count)
                heal_remember(&taken_up, &failed);
            else
                heal_after_failure(&taken_up, &failed, &second);
        }
        check_int(second.action, ==, first.action);
        check_int(second.attempt, ==, (int64_t)count);
        check_int(second.no_progress, ==, first.no_progress);
        check_int(unknown_before(&taken_up, "A", NULL, -1), ==,
                  unknown_before(&seen, "A", NULL, -1));
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
