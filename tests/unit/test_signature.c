/* Failure signatures: SH-3. What changes by chance must not hide a loop; what differs must differ.
 */
#include "base/rng.h"
#include "base/text.h"
#include "core/signature.h"
#include "core/signature_count.h"
#include "core/signature_lines.h"
#include "core/signature_mask.h"
#include "unit/case.h"
#include "unit/corpus_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ending exit_1 = {ENDED_EXIT, 1};

static struct signature sign(struct ending ending, const char *tail)
{
    struct signature signature;
    signature_make(ending, tail, tail ? strlen(tail) : 0, &signature);
    return signature;
}

static bool same(const char *a, const char *b)
{
    return strcmp(sign(exit_1, a).hash, sign(exit_1, b).hash) == 0;
}

TEST(signature, masks_what_changes_from_run_to_run)
{
    static const struct {
        const char *line, *masked;
    } cases[] = {
        {"took 17 tries", "took # tries"},
        {"worker-12 lost", "worker-# lost"},
        {"worker12 lost", "worker# lost"},
        {"value -5 is below +3.25", "value # is below #"},
        {"1,234,567 rows", "# row"},
        {"done in 12.5ms", "done in #"},
        {"done in 1m5s", "done in #"},
        {"at 10:00:01.250 it ended", "at # it ended"},
        {"[2026-01-31T10:00:00Z] it ended", "[#] it ended"},
        {"2026-01-31 10:00:00,123 ERROR x", "# ERROR x"},
        {"Sun, Nov 15 13:57:02 2026 gone", "# gone"},
        {"Sun is shining, May too", "Sun is shining, May too"},
        {"31/Jan/2026:10:00:00 +0100 get", "# get"},
        {"12 March 2026, 3:04 PM: gone", "#: gone"},
        {"on Monday it ended", "on # it ended"},
        {"after 2 minutes it ended", "after # it ended"},
        {"3 classes, 2 boxes, 4 tries", "# classe, # boxe, # tries"},
        {"web-7d9f8b6c5-x2x4q gone", "web-# gone"},
        {"web-bcdfg7hjkl-bxkwz gone", "web-# gone"},
        {"the web-crypt is html", "the web-crypt is html"},
        {"nonce kqzxvbnm gone", "nonce # gone"},
        {"nonce aKdQzXwB gone", "nonce # gone"},
        {"folder job-Xk29dQ gone", "folder job-# gone"},
        {"GitHub, PostgreSQL, log4j2, getX509Cert", "GitHub, PostgreSQL, log#j#, getX#Cert"},
        {"snprintf strncmp pthread kubectl mkdtemp", "snprintf strncmp pthread kubectl mkdtemp"},
        {"pid=4711 died", "pid=# died"},
        {"object deadbeef12 gone", "object # gone"},
        {"object 0x7ffe12ab gone", "object # gone"},
        {"commit 3158f1d0aa gone", "commit # gone"},
        {"id f47ac10b-58cc-4372-a567-0e02b2c3d479 gone", "id # gone"},
        {"id 047ac10b-58cc-4372-a567-0e02b2c3d479 gone", "id # gone"},
        {"peer 10.0.0.17:8080 gone", "peer # gone"},
        {"peer fe80::1ff:fe23:4567:890a gone", "peer # gone"},
        {"peer 00:1a:2b:ff:ee:dd gone", "peer # gone"},
        {"req_8sKd92Lsa0Qm41Zx gone", "req_# gone"},
        {"open /tmp/tmp.Xy7Zab/src/a.c", "open /tmp/#/src/a.c"},
        {"open '/var/tmp/abc': gone", "open '/var/tmp/#': gone"},
        {"open src/tmp/abc", "open src/tmp/abc"},
        {"main.c:12:5: error: x", "main.c:#: error: x"},
        {"error[E0425]: x", "error[E0425]: x"},
        {"error TS2304: x", "error TS2304: x"},
        {"a    b", "a b"},
        {"\xE2\xA0\x8B loading", " loading"},
        {"caf\xC3\xA9 3", "caf\xC3\xA9 #"},
        {"[1, 2, 3] and [4]", "[#] and [#]"},
        {"3-way merge", "#-way merge"},
        {"", ""},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        char masked[MASKED_BYTES + 1];
        size_t len = mask_line(cases[i].line, strlen(cases[i].line), masked);
        check_str(masked, cases[i].masked);
        check_case_int(len, strlen(masked), cases[i].line);
    }
}

TEST(signature, volatile_text_does_not_hide_a_loop)
{
    static const struct {
        const char *first, *second;
    } cases[] = {
        {"10:00:01 error: lock held by pid 17", "23:59:59 error: lock held by pid 40961"},
        {"error after 3s", "error after 1m12.5s"},
        {"error in /tmp/a.1/x.c", "error in /tmp/zzzz/x.c"},
        {"error: object 1234567 missing", "error: object ab34ef7 missing"},
        {"error: retry 1\nerror: retry 2\nfatal: no", "error: retry 1\nfatal: no"},
        {"\x1b[31merror\x1b[0m: no", "error: no"},
        {"\x1b]0;title 7\x07"
         "error: no",
         "error: no"},
        {"10%\r20%\r99%\rerror: no", "50%\rerror: no"},
        {"progress 1\nprogress 2\nerror: no\nbye", "progress 9\nerror: no\nbye"},
        {"error: no\n\n\n", "error: no"},
        {"failed: [1, 2]", "failed: [1, 2, 3, 4]"},
        {"Nov 30 error: no", "Dec 1 error: no"},
        {"last words 17", "last words 18\n"},
    };
    for (size_t i = 0; i < CASES(cases); i++)
        check_case(same(cases[i].first, cases[i].second), cases[i].first);
}

TEST(signature, different_failures_differ)
{
    static const char *const tails[] = {
        "",
        "error: cannot open a.c",
        "error: cannot open b.c",
        "error: undefined reference to 'f'",
        "error[E0425]: no",
        "error[E0433]: no",
        "error: cannot open a.c\nmake: *** [all] Error 1",
        "test_parse failed",
        "test_print failed",
        "it just ended",
        "it just stopped",
    };
    for (size_t i = 0; i < CASES(tails); i++)
        for (size_t other = 0; other < i; other++)
            check_case(!same(tails[i], tails[other]), tails[i]);
}

/* Pairs of outputs from tests/corpus/pairs. */
TEST(signature, pairs_of_outputs_are_the_same_failure_or_not)
{
    static const char between[] = "----8<----\n";
    struct corpus corpus;
    corpus_load(&corpus, "pairs");
    check_int(corpus.count, >=, 40);
    for (size_t i = 0; i < corpus.count; i++) {
        const struct corpus_case *pair = &corpus.cases[i];
        const char *cut = strstr(pair->output, between);
        check_case(cut && cut < pair->output + pair->output_bytes, pair->name);
        const char *second = cut + strlen(between);
        struct ending ending = {ENDED_EXIT, pair->exit_code};
        struct signature one;
        struct signature two;
        signature_make(ending, pair->output, (size_t)(cut - pair->output), &one);
        signature_make(ending, second, (size_t)(pair->output + pair->output_bytes - second), &two);
        bool alike = strcmp(one.hash, two.hash) == 0;
        check_case_int(alike, strcmp(pair->answer, "same") == 0, pair->name);
    }
    corpus_done(&corpus);
}

TEST(signature, a_count_of_failures_goes_down_while_the_signature_stays)
{
    static const char *const outputs[] = {"3 passed, 9 failed", "4 passed, 8 failed",
                                          "5 passed, 7 failed"};
    for (size_t i = 0; i < CASES(outputs); i++) {
        check(same(outputs[0], outputs[i]));
        check_int(sign(exit_1, outputs[i]).failures, ==, 9 - (int)i);
    }
    check_int(sign(exit_1, "it just ended").failures, ==, -1);
    check_int(sign(exit_1, NULL).failures, ==, -1);
    /* The last count is that of the whole. */
    check_int(sign(exit_1, "Tests run: 4, Failures: 1\nTests run: 9, Failures: 3\nbye").failures,
              ==, 3);
    check_int(sign(exit_1, "3 errors\n0 errors").failures, ==, 3);
    check_int(sign(exit_1, "0 errors").failures, ==, 0);
}

TEST(signature, counts_are_read_as_tools_write_them)
{
    static const struct {
        const char *line;
        int64_t count;
    } cases[] = {
        {"=== 2 failed, 213 passed, 1 error in 4.18s ===", 3}, /* pytest */
        {"FAILED (failures=1, errors=2)", 3},                  /* unittest */
        {"test result: FAILED. 3 passed; 5 failed; 0 ignored; 0 measured", 5},
        {"Summary [ 1.804s] 118/212 tests run: 117 passed, 4 failed, 0 skipped", 4},
        {"Tests:       6 failed, 211 passed, 217 total", 6}, /* jest */
        {"Tests  7 failed | 8 passed (15)", 7},              /* vitest */
        {"3 failing", 3},                                    /* mocha */
        {"# fail 3", 3},                                     /* node */
        {"\u2139 fail 8", 8},
        {"# failed 9", 9},
        {"# failures 9 of 12", 9},
        {"1,200 tests failed", 1200},
        {"2 suites failed, 14 tests failed", 14}, /* the tests of these suites */
        {"3 test files failed", 3},
        {"1,234,567 tests failed", 1234567},
        {"Failures: 1,200", 1200},
        {"# tests 12", -1},
        {"see # fail 3", -1},
        {"# FAIL:  2", 2},                                 /* automake */
        {"83% tests passed, 2 tests failed out of 12", 2}, /* ctest */
        {"[  FAILED  ] 4 tests, listed below:", -1},
        {"4 FAILED TESTS", 4},
        {"[ERROR] Tests run: 10, Failures: 1, Errors: 2, Skipped: 0", 3},
        {"41 tests completed, 9 failed", 9},                          /* Gradle */
        {"60 examples, 3 failures", 3},                               /* RSpec */
        {"14 runs, 19 assertions, 1 failures, 2 errors, 0 skips", 3}, /* minitest */
        {"Tests: 71, Assertions: 140, Failures: 2.", 2},              /* PHPUnit */
        {"[====] Synthesis: Tested: 22 | Passing: 20 | Failing: 1 | Crashing: 1", 2},
        {"92%: Checks: 14, Failures: 1, Errors: 0", 1},
        {"Failed!  - Failed:     3, Passed:    40, Skipped:     0, Total:    43", 3},
        {"Fail:               3", 3}, /* meson */
        {"4 tests, 2 failures", 2},   /* bats */
        {"Executed 24 tests, with 5 failures (0 unexpected) in 0.018", 5},
        {"error: 404 tests failed", 404},
        {"error: could not compile `x` (lib) due to 3 previous errors; 1 warning emitted", 3},
        {"2 warnings and 3 errors generated.", 3},
        {"Found 2 errors in 2 files (checked 41 source files)", 2},
        {"\xE2\x9C\x96 3 problems (2 errors, 1 warning)", 2},
        {"88 files inspected, 4 offenses detected", 4},
        {"    1 Error(s)", 1},
        {"web1 : ok=9 changed=3 unreachable=0 failed=2 skipped=0", 2},
        /* No counts. */
        {"step 3 failed", -1},
        {"attempt 2 failed, 1 left", -1},
        {"make: *** [Makefile:12: all] Error 2", -1},
        {"error: 404 Not Found", -1},
        {"download failed: 404", -1},
        {"4:7   error    'x' is not used", -1},
        {"src/a.c:14: error: x", -1},
        {"exit status 1", -1},
        {"line 14 error", -1},
        {"12 passed", -1},
        {"id 99999999999999999999 failed", -1},
        {"", -1},
    };
    for (size_t i = 0; i < CASES(cases); i++)
        check_case_int(signature_count_line(cases[i].line, strlen(cases[i].line)), cases[i].count,
                       cases[i].line);
}

TEST(signature, how_it_ended_is_a_part_and_is_not_masked)
{
    static const struct ending endings[] = {
        {ENDED_EXIT, 1},
        {ENDED_EXIT, 2},
        {ENDED_SIGNAL, 9},
        {ENDED_SIGNAL, 11},
        {ENDED_WALL_TIMEOUT, 0},
        {ENDED_IDLE_TIMEOUT, 0},
        {ENDED_OUT_OF_MEMORY, 0},
        {ENDED_NOT_STARTED, 2},
        {ENDED_NOT_STARTED, 13},
        {ENDED_NOT_STARTED, 123456},
        {ENDED_INTERRUPTED, 0},
        {ENDED_HTTP_STATUS, 500},
        {ENDED_HTTP_STATUS, 503},
        {ENDED_HTTP_TRANSPORT, HTTP_NOT_RESOLVED},
        {ENDED_HTTP_TRANSPORT, HTTP_TIMED_OUT},
        {ENDED_PATCH_REFUSED, 0},
        {ENDED_NOT_A_REPOSITORY, 0},
        {ENDED_REF_MISSING, 0},
        {ENDED_BAD_PLAN, 0},
    };
    for (size_t i = 0; i < CASES(endings); i++) {
        struct signature one = sign(endings[i], "error: same");
        check_contains(one.text, ": error: same");
        check_int(strspn(one.hash, "0123456789abcdef"), ==, 16);
        for (size_t other = 0; other < i; other++)
            check_case(strcmp(one.hash, sign(endings[other], "error: same").hash) != 0, one.text);
    }
    check_str(sign(exit_1, NULL).text, "exit 1");
}

TEST(signature, where_the_clock_struck_does_not_count_but_where_it_fell_silent_does)
{
    struct ending wall = {ENDED_WALL_TIMEOUT, 0};
    struct ending idle = {ENDED_IDLE_TIMEOUT, 0};
    check_str(sign(wall, "compiling a").hash, sign(wall, "linking b").hash);
    check(strcmp(sign(wall, "error: a").hash, sign(wall, "error: b").hash) != 0);
    check(strcmp(sign(idle, "waiting for a").hash, sign(idle, "waiting for b").hash) != 0);
}

TEST(signature, errors_are_preferred_to_last_words)
{
    struct signature signature =
        sign(exit_1, "hello\nerror: one\nnoise\nERROR: two\nmore noise\nbye\n");
    check_str(signature.text, "exit 1: error: one | ERROR: two");
    check_str(sign(exit_1, "a\nb\nc").text, "exit 1: b | c");
    /* People see the last ones; all of them count. */
    check_str(sign(exit_1, "error a\nerror b\nerror c\nerror d\nerror e").text,
              "exit 1: error b | error c | error d | error e");
    check(
        !same("error a\nerror b\nerror c\nerror d\nerror e", "error b\nerror c\nerror d\nerror e"));
}

TEST(signature, the_same_hash_on_every_machine)
{
    /* Stored by one worker, compared by another: a change of the function is a change of format. */
    check_str(sign(exit_1, "error: no").hash, "37953e2e6c65b0db");
    check(signature_hash("a", 1) != signature_hash("b", 1));
    check(signature_hash("", 0) != signature_hash("\0", 1));
}

TEST(signature, the_text_is_bounded_valid_and_without_control_characters)
{
    struct rng rng;
    rng_seed(&rng, 5);
    for (int round = 0; round < 2000; round++) {
        char tail[3000];
        size_t len = rng_below(&rng, sizeof tail);
        for (size_t i = 0; i < len; i++)
            tail[i] = (char)(rng_below(&rng, 20) == 0 ? '\n' : rng_below(&rng, 256));
        struct signature signature;
        signature_make(exit_1, tail, len, &signature);
        size_t text = strlen(signature.text);
        check(text <= SIGNATURE_TEXT_BYTES);
        check(utf8_valid(signature.text, text));
        for (size_t i = 0; i < text; i++)
            check((unsigned char)signature.text[i] >= 0x20 && signature.text[i] != 0x7F);
    }
}

TEST(signature, a_cut_line_is_cut_at_the_same_place_whatever_was_masked)
{
    char one[3000];
    char two[3000];
    snprintf(one, sizeof one, "error 1: ");
    snprintf(two, sizeof two, "error 123456789012345678: ");
    for (int i = 0; i < 300; i++) {
        strcat(one, "word ");
        strcat(two, "word ");
    }
    check(same(one, two));
    check_int(strlen(sign(exit_1, one).text), <=, SIGNATURE_TEXT_BYTES);
}

TEST(signature, only_the_end_of_a_long_output_counts)
{
    size_t len = 4u << 20;
    char *tail = malloc(len + 1);
    check(tail != NULL);
    memset(tail, 'x', len);
    for (size_t i = 80; i < len; i += 81)
        tail[i] = '\n';
    memcpy(tail, "error: far away\n", 16);
    memcpy(tail + len - 9, "\nthe end\n", 9);
    tail[len] = '\0';
    struct signature signature;
    signature_make(exit_1, tail, len, &signature);
    check_contains(signature.text, "the end");
    check(strstr(signature.text, "far away") == NULL);
    memset(tail + 16, 'y', len - 16 - 9); /* one line, too long to look beyond */
    signature_make(exit_1, tail, len, &signature);
    check_contains(signature.text, "the end");
    check(strstr(signature.text, "far away") == NULL);
    free(tail);
}

/* Steps of work are not counted here; a quadratic pass over these would take minutes. */
TEST(signature, hostile_lines_are_masked_in_linear_time)
{
    static const char *const patterns[] = {"ab:", "1:",    "Sun ", "Sun  ,", "-",
                                           "1-",  "/tmp/", "a1",   "\x1b[",  "\x1b]",
                                           "\r",  ": ",    "#",    "f-",     "0x"};
    char *tail = malloc(1 << 20);
    check(tail != NULL);
    for (size_t i = 0; i < CASES(patterns); i++) {
        size_t part = strlen(patterns[i]);
        for (size_t at = 0; at + part <= 1 << 20; at += part)
            memcpy(tail + at, patterns[i], part);
        struct signature signature;
        for (int round = 0; round < 20; round++)
            signature_make(exit_1, tail, 1 << 20, &signature);
        check_int(strlen(signature.hash), ==, 16);
    }
    free(tail);
}

TEST(signature, lines_are_split_at_every_kind_of_end_and_blank_ones_skipped)
{
    struct tail_line lines[TAIL_LINES];
    char plain[LINE_BYTES + 1];
    const char *text = "\n  one \r\n\t\n\rtwo\x1b[K\n \x1b[1mthree\x1b[0m";
    check_int(tail_lines(text, strlen(text), lines), ==, 3);
    tail_line_plain(lines[0], plain);
    check_str(plain, "three");
    tail_line_plain(lines[1], plain);
    check_str(plain, "two");
    tail_line_plain(lines[2], plain);
    check_str(plain, "one");
    check_int(tail_lines(NULL, 0, lines), ==, 0);
    check_int(tail_lines("\n\n", 2, lines), ==, 0);
    struct tail_line odd = {"a\xFF"
                            "b\xC2\x85"
                            "c\x01",
                            7};
    tail_line_plain(odd, plain);
    check_str(plain, "a?b c");
}

/* Symptom: the same failure of curl had another signature when it took another second. */
TEST(signature, the_meter_before_an_error_of_curl_is_no_part_of_it)
{
    const char *zero =
        "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     "
        "0curl: (6) Could not resolve host: api\n";
    const char *some = " 12  1200k   12   144k    0     0      0      0 --:--:--  0:00:03 --:--:-- "
                       " 96kcurl: (6) Could not resolve host: api\n";
    check_str(sign(exit_1, zero).text, "exit 1: curl: (#) Could not resolve host: api");
    check(same(zero, some));
    check(same(zero, "curl: (6) Could not resolve host: api\n"));
    check(!same("see 12 curl: (6) failed\n", "curl: (6) failed\n"));
}
