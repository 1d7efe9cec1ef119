/*
 * What the text of an output says about a failure.
 *
 * Every line has a kind (classify_kinds.c, classify_context.c). Passing tests, progress, quoted
 * source, warnings and notes are no evidence. Diagnostics of compilers and linters are about the
 * work, which another attempt may mend, so they are none either. Of the others, the line with the
 * highest score decides:
 *
 *     score = weight of the rule × how much the line is like an error × nearness to the end
 *
 * Ending a job takes more than retrying it: a higher score, and no words for a retry that are as
 * sure. An error that the program got over cannot end it: see note_work.
 *
 * A red test suite is a failure of its own, text.tests. What its report says before is the
 * runner's affair; only an error after the report, at the beginning of a line, outweighs it. A
 * green suite is over as well: only what comes after it counts.
 */
#include "core/classify_rules.h"

#include <stdio.h>
#include <string.h>

/* Scores are products of these. */
enum {
    LIKE_PLAIN = 1,
    LIKE_TOLD = 2,  /* "tool: message", below an error, or nothing but the phrase */
    LIKE_ERROR = 3, /* begins as errors do */
    NEAR_LAST = 13, /* the last line that counts */
    NEAR_FULL = 10, /* among the last lines that count */
    NEAR_SOME = 6,
    NEAR_LITTLE = 2,
    FULL_LINES = 12, /* that are near the end */
    SOME_LINES = 40,
    GREEN_REACH = 4,         /* lines above a green summary that still belong to it */
    ERROR_REACH = 8,         /* lines below an error that belong to it */
    EXPLANATION_LINES = 5,   /* that a tool adds to an error, at most */
    PASSING_LINES = 2,       /* of work, after which a tool has told something in passing */
    RETRY_SCORE = 20,        /* PROOF in a plain line somewhat up */
    END_SCORE = 50,          /* EVIDENCE in an error near the end, PROOF where a tool told it */
    ASKED_BYTES = 16 * 1024, /* that rules are asked about: bounds the time */
};

struct candidate {
    int score;
    int like;    /* how much the line is like an error */
    size_t line; /* from the end */
    size_t part;
    size_t rule;
};

struct judgement {
    struct matcher matcher;
    struct judged lines[TAIL_LINES]; /* the last one first */
    size_t count;
    size_t after_report; /* lines that come after the report of a test runner */
    bool red;
    size_t red_line; /* the one that tells it */
    size_t position; /* lines that counted so far */
    bool stranger;   /* below the line in hand is an error that no rule knows */
    size_t stranger_line;
    bool overruled; /* the program got over what the line in hand says */
    size_t work;    /* lines below it that tell of work */
    bool defect;    /* near the end a program says that it has a defect */
    struct candidate retry, end;
    enum rule_weight rival; /* of the surest words for a retry that were not got over */
};

/* What lines begin with when they belong to the line above: a blank, or the frame of a box. */
static bool is_indented(const struct tail_line *line, const char *plain, size_t prefix)
{
    bool framed = prefix > 0 && (unsigned char)plain[0] >= 0x80;
    return line->text[0] == ' ' || line->text[0] == '\t' || framed;
}

static struct line_part plain_part(struct judgement *judgement, struct tail_line line,
                                   size_t number, char out[LINE_BYTES + 1])
{
    struct line_part part = tail_line_part(line, number, out);
    if (!part.first)
        return part;
    size_t prefix = matcher_prefix(&judgement->matcher, part);
    part.text += prefix;
    part.len -= prefix;
    return part;
}

static void find_kinds(struct judgement *judgement, const char *tail, size_t tail_bytes)
{
    struct tail_line lines[TAIL_LINES];
    char plain[LINE_BYTES + 1];
    judgement->count = tail_lines(tail, tail_bytes, lines);
    for (size_t i = 0; i < judgement->count; i++) {
        struct line_part part = plain_part(judgement, lines[i], 0, plain);
        judgement->lines[i] = (struct judged){
            .line = lines[i],
            .kind = matcher_kind(&judgement->matcher, part),
            .indented = is_indented(&lines[i], plain, (size_t)(part.text - plain)),
        };
    }
}

/* The summary tells more than a single test that failed; where there are both, it is shown. A
 * green summary with a red one right above it is red: the runner asks for more than passing. */
static void find_report(struct judgement *judgement)
{
    size_t until = judgement->count;
    judgement->after_report = judgement->count;
    for (size_t i = 0; i < until; i++) {
        enum line_kind kind = judgement->lines[i].kind;
        bool red = kind == LINE_TEST_FAILED || kind == LINE_SUITE_RED;
        if (!red && kind != LINE_SUITE_GREEN)
            continue;
        if (judgement->after_report == judgement->count)
            judgement->after_report = i;
        if (red && (!judgement->red || kind == LINE_SUITE_RED))
            judgement->red_line = i;
        judgement->red = judgement->red || red;
        if (kind == LINE_SUITE_RED)
            until = i;
        else if (kind == LINE_SUITE_GREEN && until > i + GREEN_REACH)
            until = i + GREEN_REACH;
    }
}

static bool below_error(const struct judgement *judgement, size_t line)
{
    for (size_t i = line + 1; i < judgement->count && i <= line + ERROR_REACH; i++)
        if (judgement->lines[i].kind == LINE_ERROR)
            return true;
    return false;
}

/* How much the line is like an error; 0: it is no evidence. */
static int likeness(const struct judgement *judgement, size_t line)
{
    const struct judged *judged = &judgement->lines[line];
    if (judgement->red && (judged->indented || judged->kind != LINE_ERROR))
        return 0;
    switch (judged->kind) {
    case LINE_ERROR:
    case LINE_DEFECT:
        return LIKE_ERROR;
    case LINE_TOLD:
    case LINE_LOOKED:
    case LINE_USAGE:
        return LIKE_TOLD;
    case LINE_PLAIN:
    case LINE_OUTCOME:
        return below_error(judgement, line) ? LIKE_TOLD : LIKE_PLAIN;
    case LINE_WARNING:
        return LIKE_TOLD; /* for the few rules that ask */
    default:
        return 0;
    }
}

/* Work that goes on leaves an error behind. Quoted source, stack frames and hints belong to it. */
static bool is_progress(enum line_kind kind)
{
    return kind == LINE_HEALTHY || kind == LINE_TEST_PASSED;
}

static int nearness(size_t position)
{
    return position == 0           ? NEAR_LAST
           : position < FULL_LINES ? NEAR_FULL
           : position < SOME_LINES ? NEAR_SOME
                                   : NEAR_LITTLE;
}

static void consider(struct candidate *best, const struct candidate *other)
{
    if (other->score > best->score)
        *best = *other;
}

/* How near to the end it is does not matter for a rival: after a failure of the network often the
 * cleaning up fails, or what needs the file that did not come. */
static void consider_retry(struct judgement *judgement, const struct candidate *other,
                           const struct text_rule *rule)
{
    consider(&judgement->retry, other);
    if (other->score >= RETRY_SCORE && other->like >= LIKE_TOLD && !judgement->overruled &&
        !(rule->flags & NO_RIVAL) && rule->weight > judgement->rival)
        judgement->rival = rule->weight;
}

/* "Permission denied." alone on its line is no prose. */
static bool says_nothing_else(const struct matcher *matcher, struct line_part part)
{
    return matcher->start == 0 && matcher->end + 1 >= part.len;
}

/* The match lies between two backticks: the line speaks about these words. */
static bool is_backticked(const struct matcher *matcher, struct line_part part)
{
    size_t before = 0;
    for (size_t i = 0; i < matcher->start; i++)
        before += part.text[i] == '`';
    return before % 2 == 1 && memchr(part.text + matcher->end, '`', part.len - matcher->end);
}

/* Whether the other line, which comes later, may follow from what a tool told in the line: it names
 * the tool, or says only that something could not be done. */
static bool may_follow_from(struct tail_line line, struct tail_line other)
{
    static const char *const results[] = {"fail",   "abort", "could not",
                                          "cannot", "can't", "unable"};
    char text[LINE_BYTES + 1];
    const char *colon = memchr(line.text, ':', line.len);
    const char *tool = line.text;
    size_t len = tail_line_plain(other, text);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (!colon || strcasestr(text, results[i]))
            return true;
    for (const char *byte = line.text; byte < colon; byte++)
        tool = *byte == '/' || *byte == ' ' ? byte + 1 : tool;
    return memmem(text, len, tool, (size_t)(colon - tool)) != NULL;
}

/*
 * "find: /root: Permission denied": what a tool tells in passing is not why the program failed when
 * an error that nobody knows comes later, from somebody else. Nor is what a tool that only looks
 * around tells when work comes later.
 */
static bool is_in_passing(const struct judgement *judgement, size_t line, enum rule_weight weight)
{
    const struct judged *judged = &judgement->lines[line];
    if (judged->kind == LINE_LOOKED)
        return judgement->stranger || judgement->work >= PASSING_LINES;
    return judged->kind == LINE_TOLD && weight < VERDICT && judgement->stranger &&
           judgement->lines[judgement->stranger_line].kind == LINE_ERROR &&
           !may_follow_from(judged->line, judgement->lines[judgement->stranger_line].line);
}

/* Whether the match in this line can end the job. */
static bool may_end(const struct judgement *judgement, size_t line, enum rule_weight weight,
                    struct line_part part)
{
    return !judgement->overruled && !is_in_passing(judgement, line, weight) &&
           judgement->lines[line].kind != LINE_DEFECT && !is_backticked(&judgement->matcher, part);
}

/* Asks all rules about a piece of a line, and keeps the best for either outcome. Returns whether
 * one of them knows it. */
static bool ask_rules(struct judgement *judgement, struct candidate at, int near,
                      struct line_part part)
{
    size_t count;
    const struct text_rule *table = text_rule_table(&count);
    bool warning = judgement->lines[at.line].kind == LINE_WARNING;
    bool known = false;
    for (size_t i = 0; i < count; i++) {
        if ((warning && !(table[i].flags & IN_WARNINGS)) ||
            !matcher_rule(&judgement->matcher, i, part))
            continue;
        known = true;
        at.rule = i;
        bool alone = at.like == LIKE_PLAIN && says_nothing_else(&judgement->matcher, part);
        at.score = (int)table[i].weight * (alone ? LIKE_TOLD : at.like) * near;
        if (failure_class_retryable(table[i].class))
            consider_retry(judgement, &at, &table[i]);
        else if (may_end(judgement, at.line, table[i].weight, part))
            consider(&judgement->end, &at);
    }
    return known;
}

/*
 * A program that works on after an error has got over it, and the error cannot end the job. It has
 * worked on when an error that no rule knows comes later, with work in between; when a defect or an
 * error of a compiler comes later; or when there is more below than an explanation. Errors right
 * below each other are one: the last often tells what became of the first.
 */
static void note_work(struct judgement *judgement, size_t line, bool known)
{
    const struct judged *judged = &judgement->lines[line];
    bool plain = judged->kind == LINE_PLAIN || judged->kind == LINE_OUTCOME;
    bool last_word =
        judgement->position == 1 && (judged->kind == LINE_TOLD || judged->kind == LINE_OUTCOME);
    bool work = is_progress(judged->kind) || (plain && !last_word && !judged->indented && !known);
    judgement->work += work;
    if (judged->kind == LINE_CAUSE)
        judgement->stranger = judgement->overruled = false;
    else if (!known && (judged->kind == LINE_ERROR || last_word)) {
        judgement->stranger = true;
        judgement->stranger_line = line;
    }
    if (judged->kind == LINE_DEFECT || judged->kind == LINE_DIAGNOSTIC ||
        (judgement->stranger && work) || judgement->work > EXPLANATION_LINES)
        judgement->overruled = true;
}

/* Asks about all pieces of a line. Returns whether a rule knows it. */
static bool score_line(struct judgement *judgement, struct candidate at, int near,
                       size_t *asked_bytes)
{
    char plain[LINE_BYTES + 1];
    bool known = false;
    struct tail_line line = judgement->lines[at.line].line;
    for (size_t part = tail_line_parts(line); part > 0 && *asked_bytes < ASKED_BYTES; part--) {
        struct line_part piece = plain_part(judgement, line, part - 1, plain);
        at.part = part - 1;
        known = ask_rules(judgement, at, near, piece) || known;
        *asked_bytes += piece.len;
    }
    return known;
}

static void score_lines(struct judgement *judgement)
{
    size_t asked_bytes = 0;
    for (size_t i = 0; i < judgement->after_report && asked_bytes < ASKED_BYTES; i++) {
        int like = likeness(judgement, i);
        enum line_kind kind = judgement->lines[i].kind;
        bool known = false;
        judgement->position += is_progress(kind);
        if (like > 0) {
            int near = nearness(judgement->position++);
            judgement->defect = judgement->defect || (kind == LINE_DEFECT && near >= NEAR_FULL);
            known = score_line(judgement, (struct candidate){.line = i, .like = like}, near,
                               &asked_bytes);
        }
        note_work(judgement, i, known);
    }
}

static void decide(struct judgement *judgement, const struct candidate *best,
                   struct classification *ret)
{
    size_t count;
    char plain[LINE_BYTES + 1];
    const struct text_rule *row = &text_rule_table(&count)[best->rule];
    struct line_part part =
        plain_part(judgement, judgement->lines[best->line].line, best->part, plain);
    ret->class = row->class;
    ret->outside = (row->flags & OUTSIDE) != 0;
    ret->meaning = row->meaning;
    snprintf(ret->rule, sizeof ret->rule, "%s", row->id);
    matcher_rule(&judgement->matcher, best->rule, part); /* once more, for its place */
    classify_show_line(&judgement->matcher, part, ret->line);
}

static void decide_tests(struct judgement *judgement, struct classification *ret)
{
    char plain[LINE_BYTES + 1];
    struct line_part part = tail_line_part(judgement->lines[judgement->red_line].line, 0, plain);
    ret->class = CLASS_TRANSIENT_RUNTIME;
    ret->meaning = "tests failed";
    snprintf(ret->rule, sizeof ret->rule, "text.tests");
    judgement->matcher.start = 0;
    judgement->matcher.end = 0;
    classify_show_line(&judgement->matcher, part, ret->line);
}

static bool outdoes_rival(const struct judgement *judgement)
{
    size_t count;
    return text_rule_table(&count)[judgement->end.rule].weight > judgement->rival;
}

static bool judge(struct judgement *judgement, const char *tail, size_t tail_bytes,
                  struct classification *ret)
{
    find_kinds(judgement, tail, tail_bytes);
    classify_settle(judgement->lines, judgement->count);
    find_report(judgement);
    score_lines(judgement);
    const struct candidate *retry = &judgement->retry;
    const struct candidate *end = &judgement->end;
    /* What a tool tells beside a defect is often the cleaning up after it. */
    bool aside = judgement->defect && end->like < LIKE_ERROR;
    if (end->score >= END_SCORE && end->score > retry->score && outdoes_rival(judgement) && !aside)
        decide(judgement, end, ret);
    else if (retry->score >= RETRY_SCORE)
        decide(judgement, retry, ret);
    else if (judgement->red)
        decide_tests(judgement, ret);
    else
        return false;
    return true;
}

/* Whether the number stands in the line by itself: 65 in "65 failing", not in "165 failing". */
static bool has_number(struct line_part part, int number)
{
    char digits[16];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%d", number);
    for (size_t i = 0; i < part.len; i += strspn(part.text + i, "0123456789") + 1)
        if (strspn(part.text + i, "0123456789") == len && memcmp(part.text + i, digits, len) == 0)
            return true;
    return false;
}

bool classify_text_counts(const struct classifier *builtin, const char *tail, size_t tail_bytes,
                          int failures)
{
    struct judgement judgement = {0};
    char plain[LINE_BYTES + 1];
    bool found = false;
    if (matcher_init(&judgement.matcher, builtin))
        find_kinds(&judgement, tail, tail_bytes);
    for (size_t i = 0; i < judgement.count && !found; i++)
        found = judgement.lines[i].kind == LINE_SUITE_RED &&
                has_number(tail_line_part(judgement.lines[i].line, 0, plain), failures);
    matcher_done(&judgement.matcher);
    return found;
}

bool classify_text(const struct classifier *builtin, const char *tail, size_t tail_bytes,
                   struct classification *ret)
{
    struct judgement judgement = {0};
    bool decided =
        matcher_init(&judgement.matcher, builtin) && judge(&judgement, tail, tail_bytes, ret);
    matcher_done(&judgement.matcher);
    return decided; /* without memory no text rule knows anything */
}
