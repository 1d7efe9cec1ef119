/* See signature_count.h. */
#include "core/signature_count.h"

#include "core/signature_lines.h"

#include <stdbool.h>
#include <string.h>

enum {
    COUNT_MOST = 1000000000, /* larger numbers are ids */
    NOUNS_MOST = 2,          /* words between number and failure: "2 unit tests failed" */
};

/* A run of letters. */
struct word {
    const char *text;
    size_t len;
};

struct scanner {
    const char *line;
    size_t len;
    int64_t failures; /* failed tests and errors; -1: none counted */
    int64_t groups;   /* failed suites and files, whose tests may be counted as well */
    int64_t findings; /* problems, offenses …: they count where nothing else does */
};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_one_of(struct word word, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == word.len && strncasecmp(*names, word.text, word.len) == 0)
            return true;
    return false;
}

static const char *const failures_one[] = {"failed", "failing", "fail", "fails", "error", NULL};
static const char *const failures_many[] = {"failures", "failure", "errors", NULL};
static const char *const findings[] = {"problems", "problem",  "offenses", "offense",
                                       "findings", "finding",  "issues",   "violations",
                                       "issue",    "mistakes", NULL};
static const char *const group_nouns[] = {"suite", "suites", "file", "files", NULL};
static const char *const others[] = {"passed", "passing", "pass", "skipped", "ok", NULL};
/* "Failures: 2". Letter case counts: "download failed: 404" is no count. */
static const char *const titles[] = {"Failures", "Errors",   "Failed",  "Fail",
                                     "FAIL",     "Crashing", "Failing", NULL};
/* "errors=1" */
static const char *const keys[] = {"failures", "errors", "failed", NULL};

static struct word word_at(const struct scanner *scanner, size_t at)
{
    size_t end = at;
    while (end < scanner->len && is_letter(scanner->line[end]))
        end++;
    return (struct word){scanner->line + at, end - at};
}

/* The word that ends before a blank before `at`; empty where something else stands there. */
static struct word word_before(const struct scanner *scanner, size_t at)
{
    size_t end = at;
    while (end > 0 && scanner->line[end - 1] == ' ')
        end--;
    size_t start = end;
    while (start > 0 && is_letter(scanner->line[start - 1]))
        start--;
    return (struct word){scanner->line + start, end - start};
}

static void add(int64_t *sum, int64_t number)
{
    *sum = *sum < 0 ? number : *sum + number;
}

/* "step 3 failed" and "line 14 error" name a thing; "Found 3 errors" and "; 1 failed" count. */
static bool names_a_thing(const struct scanner *scanner, size_t number_at)
{
    static const char *const counting[] = {"found", "with", "and",   "total", "of",        "has",
                                           "had",   "are",  "tests", "were",  "generated", NULL};
    struct word before = word_before(scanner, number_at);
    return before.len > 0 && !is_one_of(before, counting);
}

/* What follows a number: "failed", "tests failed", "errors", "(s)". */
static void read_counted(struct scanner *scanner, size_t number_at, size_t at, int64_t number)
{
    bool group = false;
    for (int nouns = 0; nouns <= NOUNS_MOST; nouns++) {
        if (at >= scanner->len || scanner->line[at] != ' ')
            return;
        while (at < scanner->len && scanner->line[at] == ' ')
            at++;
        struct word word = word_at(scanner, at);
        if (word.len == 0 || is_one_of(word, others))
            return;
        bool one = is_one_of(word, failures_one);
        if (one && nouns == 0 && names_a_thing(scanner, number_at))
            return;
        if (one || is_one_of(word, failures_many)) {
            add(group ? &scanner->groups : &scanner->failures, number);
            return;
        }
        group = group || is_one_of(word, group_nouns);
        if (is_one_of(word, findings)) {
            add(&scanner->findings, number);
            return;
        }
        at += word.len;
        if (at + 3 <= scanner->len && memcmp(scanner->line + at, "(s)", 3) == 0)
            at += 3;
    }
}

static bool is_spelt(struct word word, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == word.len && memcmp(*names, word.text, word.len) == 0)
            return true;
    return false;
}

/* The summaries of node and other TAP producers: "# fail 2", "ℹ fail 2" and nothing before. */
static bool is_remark(const struct scanner *scanner, size_t end)
{
    static const char *const marks[] = {"# ", "\u2139 ", NULL};
    static const char *const words[] = {"fail", "failed", "failures", "failing", NULL};
    struct word word = word_before(scanner, end);
    size_t before = (size_t)(word.text - scanner->line);
    for (const char *const *mark = marks; *mark; mark++)
        if (strlen(*mark) == before && memcmp(scanner->line, *mark, before) == 0)
            return is_one_of(word, words);
    return false;
}

/* "Failures: 2", "failures=2", "# fail 2" before a number. */
static bool is_labelled(const struct scanner *scanner, size_t number_at)
{
    size_t at = number_at;
    while (at > 0 && scanner->line[at - 1] == ' ')
        at--;
    if (at == 0)
        return false;
    if (is_remark(scanner, at))
        return true;
    struct word label = word_before(scanner, at - 1);
    return (scanner->line[at - 1] == ':' && is_spelt(label, titles)) ||
           (scanner->line[at - 1] == '=' && is_spelt(label, keys));
}

/* 4:7 and 3.2 and -1 are no counts. */
static bool is_count_start(const struct scanner *scanner, size_t at)
{
    return at == 0 || strchr(" ([|=\t", scanner->line[at - 1]) != NULL;
}

/* 1200 and 1,200. Returns where it ends; COUNT_MOST for numbers that are too large. */
static size_t read_number(const struct scanner *scanner, size_t at, int64_t *ret)
{
    enum { GROUP = 3 };
    size_t start = at;
    *ret = 0;
    for (; at < scanner->len && *ret < COUNT_MOST; at++) {
        const char *line = scanner->line;
        bool group = line[at] == ',' && at - start >= 1 && at + GROUP < scanner->len &&
                     is_digit(line[at + 1]) && is_digit(line[at + 2]) && is_digit(line[at + 3]) &&
                     !(at + GROUP + 1 < scanner->len && is_digit(line[at + GROUP + 1]));
        if (is_digit(line[at]))
            *ret = *ret * 10 + (line[at] - '0');
        else if (!group)
            break;
    }
    return at;
}

int64_t signature_count_line(const char *line, size_t len)
{
    struct scanner scanner = {
        .line = line, .len = len, .failures = -1, .groups = -1, .findings = -1};
    for (size_t at = 0; at < len; at++) {
        if (!is_digit(line[at]) || (at > 0 && is_digit(line[at - 1])))
            continue;
        size_t start = at;
        int64_t number;
        at = read_number(&scanner, start, &number);
        if (!is_count_start(&scanner, start) || number >= COUNT_MOST)
            continue;
        if (is_labelled(&scanner, start))
            add(&scanner.failures, number);
        else
            read_counted(&scanner, start, at, number);
    }
    if (scanner.failures >= 0)
        return scanner.failures;
    return scanner.groups >= 0 ? scanner.groups : scanner.findings;
}

int64_t signature_count(const char *tail, size_t tail_bytes)
{
    struct tail_line lines[TAIL_LINES];
    char plain[LINE_BYTES + 1];
    int64_t found = -1;
    size_t count = tail_lines(tail, tail_bytes, lines);
    /* A suite that counts none is not the one that failed, unless there is no other. */
    for (size_t i = 0; i < count && found <= 0; i++) {
        int64_t here = signature_count_line(plain, tail_line_plain(lines[i], plain));
        found = here > found ? here : found;
    }
    return found;
}
