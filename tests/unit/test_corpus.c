/*
 * The verdicts on the corpus of outputs, in figures: SH-4 and SH-5. `unit_corpus -v` prints, for
 * both parts, how often each answer was right (precision), how many that deserved it got it
 * (recall), and which was taken for which. Of the part to tune on it lists what is wrong; the
 * measured part keeps its secrets, so that nobody tunes on it.
 */
#include "core/classify.h"
#include "unit/case.h"
#include "unit/corpus_case.h"

#include <stdio.h>
#include <string.h>

/* What an operator would say. TESTS is a red test suite, UNKNOWN that nobody can know. */
enum answer {
    ANSWER_TRANSIENT,
    ANSWER_UNKNOWN,
    ANSWER_TESTS,
    ANSWER_CONTRACT,
    ANSWER_POLICY,
    ANSWER_REPO,
    ANSWER_COUNT,
};

static const char *const answer_names[ANSWER_COUNT] = {
    [ANSWER_TRANSIENT] = "transient", [ANSWER_UNKNOWN] = "unknown", [ANSWER_TESTS] = "tests",
    [ANSWER_CONTRACT] = "contract",   [ANSWER_POLICY] = "policy",   [ANSWER_REPO] = "repo",
};

static enum answer parse_answer(const struct corpus_case *one)
{
    for (int i = 0; i < ANSWER_COUNT; i++)
        if (strcmp(answer_names[i], one->answer) == 0)
            return (enum answer)i;
    test_fail(__FILE__, __LINE__, "\"%s\": there is no answer \"%s\"", one->name, one->answer);
}

struct score {
    int counts[ANSWER_COUNT][ANSWER_COUNT]; /* deserved, given */
    int total, right;
    int ended_needlessly;   /* deserved another attempt */
    int retried_needlessly; /* no other attempt can help */
};

static bool is_final(enum answer answer)
{
    return answer == ANSWER_CONTRACT || answer == ANSWER_POLICY || answer == ANSWER_REPO;
}

static enum answer answer_of(const struct classification *got)
{
    if (strcmp(got->rule, "text.tests") == 0)
        return ANSWER_TESTS;
    if (got->unknown)
        return ANSWER_UNKNOWN;
    return got->class == CLASS_DETERMINISTIC_CONTRACT ? ANSWER_CONTRACT
           : got->class == CLASS_DETERMINISTIC_POLICY ? ANSWER_POLICY
           : got->class == CLASS_DETERMINISTIC_REPO   ? ANSWER_REPO
                                                      : ANSWER_TRANSIENT;
}

static void count(struct score *score, enum answer deserved, enum answer given)
{
    score->counts[deserved][given]++;
    score->total++;
    score->right += deserved == given;
    score->ended_needlessly += is_final(given) && !is_final(deserved);
    score->retried_needlessly += !is_final(given) && is_final(deserved);
}

static void measure(const char *part, bool list_misses, struct score *ret)
{
    struct corpus corpus;
    struct classifier *rules = NULL;
    corpus_load(&corpus, part);
    check_int(classifier_new(&rules, NULL), ==, 0);
    *ret = (struct score){0};
    for (size_t i = 0; i < corpus.count; i++) {
        const struct corpus_case *one = &corpus.cases[i];
        struct evidence evidence = {.ending = {ENDED_EXIT, one->exit_code},
                                    .tail = one->output,
                                    .tail_bytes = one->output_bytes};
        struct classification got;
        classify(rules, &evidence, &got);
        enum answer given = answer_of(&got);
        enum answer deserved = parse_answer(one);
        count(ret, deserved, given);
        if (list_misses && given != deserved)
            printf("%s, not %s: %s\n    by %s: %s\n", answer_names[given], answer_names[deserved],
                   one->name, got.rule, got.line);
    }
    classifier_free(rules);
    corpus_done(&corpus);
}

static int column_sum(const struct score *score, int given)
{
    int sum = 0;
    for (int deserved = 0; deserved < ANSWER_COUNT; deserved++)
        sum += score->counts[deserved][given];
    return sum;
}

static int row_sum(const struct score *score, int deserved)
{
    int sum = 0;
    for (int given = 0; given < ANSWER_COUNT; given++)
        sum += score->counts[deserved][given];
    return sum;
}

/* In thousandths; of nothing, everything is right. */
static int share(int part, int whole)
{
    return whole > 0 ? part * 1000 / whole : 1000;
}

static void print(const char *part, const struct score *score)
{
    printf("%s: %d of %d right; %d ended needlessly, %d retried needlessly\n", part, score->right,
           score->total, score->ended_needlessly, score->retried_needlessly);
    printf("%-10s", "deserved");
    for (int given = 0; given < ANSWER_COUNT; given++)
        printf("%10s", answer_names[given]);
    printf("%10s%10s\n", "precision", "recall");
    for (int row = 0; row < ANSWER_COUNT; row++) {
        printf("%-10s", answer_names[row]);
        for (int given = 0; given < ANSWER_COUNT; given++)
            printf("%10d", score->counts[row][given]);
        int right = score->counts[row][row];
        printf("%10.3f%10.3f\n", share(right, column_sum(score, row)) / 1000.0,
               share(right, row_sum(score, row)) / 1000.0);
    }
}

/* What has been reached, in thousandths, in the order of the answers: transient, unknown, tests,
 * contract, policy, repo. A lower figure is a step back. */
struct floor {
    int precision[ANSWER_COUNT];
    int recall[ANSWER_COUNT];
    int ended_needlessly_most;
    int retried_needlessly_most;
};

static void check_floor(const struct score *score, const struct floor *floor)
{
    for (int i = 0; i < ANSWER_COUNT; i++) {
        int right = score->counts[i][i];
        const char *name = answer_names[i];
        check_case(share(right, column_sum(score, i)) >= floor->precision[i], name);
        check_case(share(right, row_sum(score, i)) >= floor->recall[i], name);
    }
    check_int(score->ended_needlessly, <=, floor->ended_needlessly_most);
    check_int(score->retried_needlessly, <=, floor->retried_needlessly_most);
}

TEST(corpus, the_part_to_tune_on_gets_the_answers_of_an_operator)
{
    static const struct floor floor = {
        .precision = {980, 980, 980, 980, 980, 980},
        .recall = {980, 980, 980, 980, 980, 980},
        .ended_needlessly_most = 0,
        .retried_needlessly_most = 3,
    };
    struct score score;
    measure("tune", true, &score);
    print("tune", &score);
    check_int(score.total, >=, 1180);
    check_floor(&score, &floor);
}

/* What these rules reached on outputs that they had not seen, less a little for changes that have
 * nothing to do with them. */
TEST(corpus, the_part_that_is_only_measured_gets_nearly_the_same)
{
    static const struct floor floor = {
        .precision = {970, 540, 970, 950, 970, 970},
        .recall = {900, 950, 960, 810, 900, 880},
        .ended_needlessly_most = 1,
        .retried_needlessly_most = 22,
    };
    struct score score;
    measure("measure", false, &score);
    print("measure", &score);
    check_int(score.total, >=, 400);
    check_floor(&score, &floor);
}
