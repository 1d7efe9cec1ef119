/* Failure classes: SH-4 and SH-5. Each row of the tables is a case: evidence, class, rule. */
#include "base/err.h"
#include "base/rng.h"
#include "base/text.h"
#include "core/classify.h"
#include "core/classify_rules.h"
#include "unit/case.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

#define TRANSIENT CLASS_TRANSIENT_RUNTIME
#define STUCK CLASS_STUCK_NO_PROGRESS
#define CONTRACT CLASS_DETERMINISTIC_CONTRACT
#define POLICY CLASS_DETERMINISTIC_POLICY
#define REPO CLASS_DETERMINISTIC_REPO

static struct classifier *builtin(void)
{
    struct classifier *made = NULL;
    struct err err = {0};
    check_int(classifier_new(&made, &err), ==, 0);
    return made;
}

static struct evidence exit_with(int code, const char *tail)
{
    return (struct evidence){
        .ending = {ENDED_EXIT, code}, .tail = tail, .tail_bytes = tail ? strlen(tail) : 0};
}

TEST(classify, how_it_ended_decides)
{
    static const struct {
        struct ending ending;
        enum failure_class class;
        const char *rule;
    } cases[] = {
        {{ENDED_WALL_TIMEOUT, 0}, TRANSIENT, "timeout.wall"},
        {{ENDED_IDLE_TIMEOUT, 0}, TRANSIENT, "timeout.idle"},
        {{ENDED_OUT_OF_MEMORY, 0}, TRANSIENT, "memory"},
        {{ENDED_INTERRUPTED, 0}, TRANSIENT, "interrupted"},
        {{ENDED_PATCH_REFUSED, 0}, REPO, "repo.patch"},
        {{ENDED_NOT_A_REPOSITORY, 0}, REPO, "repo.missing"},
        {{ENDED_REF_MISSING, 0}, REPO, "repo.ref"},
        {{ENDED_BAD_PLAN, 0}, CONTRACT, "plan"},
        {{ENDED_EXIT, 64}, CONTRACT, "exit.64"},
        {{ENDED_EXIT, 65}, CONTRACT, "exit.65"},
        {{ENDED_EXIT, 66}, CONTRACT, "exit.66"},
        {{ENDED_EXIT, 69}, TRANSIENT, "exit.69"},
        {{ENDED_EXIT, 71}, TRANSIENT, "exit.71"},
        {{ENDED_EXIT, 74}, TRANSIENT, "exit.74"},
        {{ENDED_EXIT, 75}, TRANSIENT, "exit.75"},
        {{ENDED_EXIT, 77}, POLICY, "exit.77"},
        {{ENDED_EXIT, 78}, CONTRACT, "exit.78"},
        {{ENDED_EXIT, 126}, CONTRACT, "exit.126"},
        {{ENDED_EXIT, 127}, CONTRACT, "exit.127"},
        {{ENDED_EXIT, 130}, TRANSIENT, "exit.130"},
        {{ENDED_EXIT, 137}, TRANSIENT, "exit.137"},
        {{ENDED_EXIT, 139}, TRANSIENT, "exit.139"},
        {{ENDED_EXIT, 143}, TRANSIENT, "exit.143"},
        {{ENDED_EXIT, 128 + SIGSYS}, POLICY, "exit.159"},
        {{ENDED_SIGNAL, SIGKILL}, TRANSIENT, "signal.9"},
        {{ENDED_SIGNAL, SIGTERM}, TRANSIENT, "signal.15"},
        {{ENDED_SIGNAL, SIGSEGV}, TRANSIENT, "signal.11"},
        {{ENDED_SIGNAL, SIGILL}, CONTRACT, "signal.4"},
        {{ENDED_SIGNAL, SIGXCPU}, POLICY, "signal.24"},
        {{ENDED_SIGNAL, SIGSYS}, POLICY, "signal.31"},
        {{ENDED_SIGNAL, 40}, TRANSIENT, "signal.40"},
        {{ENDED_NOT_STARTED, ENOENT}, CONTRACT, "start.ENOENT"},
        {{ENDED_NOT_STARTED, EACCES}, CONTRACT, "start.EACCES"},
        {{ENDED_NOT_STARTED, ENOEXEC}, CONTRACT, "start.ENOEXEC"},
        {{ENDED_NOT_STARTED, E2BIG}, CONTRACT, "start.E2BIG"},
        {{ENDED_NOT_STARTED, EPERM}, POLICY, "start.EPERM"},
        {{ENDED_NOT_STARTED, EAGAIN}, TRANSIENT, "start.EAGAIN"},
        {{ENDED_NOT_STARTED, ENOMEM}, TRANSIENT, "start.ENOMEM"},
        {{ENDED_NOT_STARTED, ETXTBSY}, TRANSIENT, "start.ETXTBSY"},
        {{ENDED_NOT_STARTED, 99999}, TRANSIENT, "start.unknown"},
        {{ENDED_HTTP_STATUS, 200}, CONTRACT, "http.200"},
        {{ENDED_HTTP_STATUS, 302}, CONTRACT, "http.302"},
        {{ENDED_HTTP_STATUS, 400}, CONTRACT, "http.400"},
        {{ENDED_HTTP_STATUS, 401}, POLICY, "http.401"},
        {{ENDED_HTTP_STATUS, 403}, POLICY, "http.403"},
        {{ENDED_HTTP_LIMITED, 403}, TRANSIENT, "http.403"},
        {{ENDED_HTTP_LIMITED, 401}, POLICY, "http.401"},
        {{ENDED_HTTP_LIMITED, 404}, CONTRACT, "http.404"},
        {{ENDED_HTTP_LIMITED, 503}, TRANSIENT, "http.503"},
        {{ENDED_HTTP_STATUS, 404}, CONTRACT, "http.404"},
        {{ENDED_HTTP_STATUS, 408}, TRANSIENT, "http.408"},
        {{ENDED_HTTP_STATUS, 409}, TRANSIENT, "http.409"},
        {{ENDED_HTTP_STATUS, 422}, CONTRACT, "http.422"},
        {{ENDED_HTTP_STATUS, 429}, TRANSIENT, "http.429"},
        {{ENDED_HTTP_STATUS, 500}, TRANSIENT, "http.500"},
        {{ENDED_HTTP_STATUS, 501}, CONTRACT, "http.501"},
        {{ENDED_HTTP_STATUS, 503}, TRANSIENT, "http.503"},
        {{ENDED_HTTP_STATUS, 599}, TRANSIENT, "http.599"},
        {{ENDED_HTTP_TRANSPORT, HTTP_NOT_RESOLVED}, TRANSIENT, "http.resolve"},
        {{ENDED_HTTP_TRANSPORT, HTTP_NOT_CONNECTED}, TRANSIENT, "http.connect"},
        {{ENDED_HTTP_TRANSPORT, HTTP_TIMED_OUT}, TRANSIENT, "http.timeout"},
        {{ENDED_HTTP_TRANSPORT, HTTP_BROKEN_OFF}, TRANSIENT, "http.broken"},
        {{ENDED_HTTP_TRANSPORT, HTTP_BAD_CERTIFICATE}, POLICY, "http.certificate"},
        {{ENDED_HTTP_TRANSPORT, HTTP_BAD_URL}, CONTRACT, "http.url"},
        {{ENDED_HTTP_TRANSPORT, HTTP_ANSWER_TOO_LARGE}, CONTRACT, "http.size"},
        {{ENDED_HTTP_TRANSPORT, HTTP_REDIRECTED_TOO_OFTEN}, CONTRACT, "http.redirects"},
        {{ENDED_HTTP_TRANSPORT, HTTP_OTHER_TROUBLE}, TRANSIENT, "http.other"},
        {{ENDED_HTTP_TRANSPORT, 9999}, TRANSIENT, "http.other"},
        {{ENDED_HTTP_TRANSPORT, -1}, TRANSIENT, "http.other"},
    };
    struct classifier *rules = builtin();
    for (size_t i = 0; i < CASES(cases); i++) {
        /* A text that says the opposite is not heard. */
        const char *text = failure_class_retryable(cases[i].class) ? "error: permission denied"
                                                                   : "connection refused";
        struct evidence evidence = exit_with(0, text);
        evidence.ending = cases[i].ending;
        struct classification got;
        classify(rules, &evidence, &got);
        check_str(got.rule, cases[i].rule);
        check_case_int(got.class, cases[i].class, cases[i].rule);
        check_case_int(got.retryable, failure_class_retryable(cases[i].class), cases[i].rule);
        check_case(!got.unknown && strlen(got.meaning) > 0, cases[i].rule);
        check_str(got.line, "");
    }
    classifier_free(rules);
}

TEST(classify, text_decides_where_the_exit_code_does_not)
{
    static const struct {
        const char *tail;
        enum failure_class class;
        const char *rule;
    } cases[] = {
        {"Error: rate limit exceeded for gpt", TRANSIENT, "text.rate_limit"},
        {"HTTP 429", TRANSIENT, "text.rate_limit"},
        {"API Error: 429 Too Many Requests", TRANSIENT, "text.rate_limit"},
        {"error: 403 rate limit exceeded", TRANSIENT, "text.rate_limit"},
        {"HTTP/1.1 503 Service Unavailable", TRANSIENT, "text.unavailable"},
        {"The requested URL returned error: 502", TRANSIENT, "text.unavailable"},
        {"npm ERR! status code: 504", TRANSIENT, "text.unavailable"},
        {"curl: (7) Failed to connect to x port 80: Connection refused", TRANSIENT, "text.network"},
        {"read: connection reset by peer", TRANSIENT, "text.network"},
        {"curl: (6) Could not resolve host: example.org", TRANSIENT, "text.network"},
        {"Temporary failure in name resolution", TRANSIENT, "text.network"},
        {"fatal: the remote end hung up unexpectedly", TRANSIENT, "text.network"},
        {"fetch-pack: unexpected disconnect while reading sideband packet", TRANSIENT,
         "text.network"},
        {"npm ERR! code ECONNRESET", TRANSIENT, "text.network"},
        {"dial tcp 10.0.0.1:443: i/o timeout", TRANSIENT, "text.network"},
        {"requests.exceptions.ReadTimeout: Read timed out.", TRANSIENT, "text.network"},
        {"context deadline exceeded", TRANSIENT, "text.network"},
        {"ERROR:  deadlock detected", TRANSIENT, "text.contention"},
        {"sqlite3.OperationalError: database is locked", TRANSIENT, "text.contention"},
        {"fatal: Unable to create '/r/.git/index.lock': File exists.", TRANSIENT,
         "text.contention"},
        {"sh: 1: ./x: Text file busy", TRANSIENT, "text.contention"},
        {"write error: No space left on device", TRANSIENT, "text.resources"},
        {"java.lang.OutOfMemoryError: Java heap space", TRANSIENT, "text.resources"},
        {"fatal: not a git repository (or any of the parent directories): .git", REPO, "text.repo"},
        {"remote: error: GH006: Protected branch update failed for refs/heads/main.", REPO,
         "text.repo"},
        {" ! [remote rejected] main -> main (pre-receive hook declined)", REPO, "text.repo"},
        {" ! [rejected]        main -> main (fetch first)", REPO, "text.repo"},
        {"CONFLICT (content): Merge conflict in a.c", REPO, "text.repo"},
        {"Automatic merge failed; fix conflicts and then commit the result.", REPO, "text.repo"},
        {"error: patch failed: a.c:1", REPO, "text.repo"},
        {"error: a.c: patch does not apply", REPO, "text.repo"},
        {"error: pathspec 'nosuch' did not match any file(s) known to git", REPO, "text.repo"},
        {"fatal: ambiguous argument 'x': unknown revision or path not in the working tree.", REPO,
         "text.repo"},
        {"fatal: couldn't find remote ref nosuch", REPO, "text.repo"},
        {"ERROR: Repository not found.", REPO, "text.repo"},
        {"fatal: Authentication failed for 'https://example.org/x.git/'", POLICY, "text.auth"},
        {"git@github.com: Permission denied (publickey).", POLICY, "text.auth"},
        {"fatal: could not read Username for 'https://github.com': terminal prompts disabled",
         POLICY, "text.auth"},
        {"Error: 401 Unauthorized", POLICY, "text.auth"},
        {"HTTP 403", POLICY, "text.auth"},
        {"403 Forbidden", POLICY, "text.auth"},
        {"AccessDenied: Access Denied", POLICY, "text.auth"},
        {"Error: OPENAI API key not set", POLICY, "text.auth"},
        {"error: invalid token", POLICY, "text.auth"},
        {"Your credentials have expired", POLICY, "text.auth"},
        {"mkdir: cannot create directory 'x': Permission denied", POLICY, "text.auth"},
        {"Host key verification failed.", POLICY, "text.auth"},
        {"EACCES: no", POLICY, "text.auth"},
        {"push blocked by the security policy", POLICY, "text.policy"},
        {"this change violates the branch policy", POLICY, "text.policy"},
        {"jsonschema.exceptions.ValidationError: 3 is not of type 'string'", CONTRACT,
         "text.schema"},
        {"schema validation failed at /steps/0", CONTRACT, "text.schema"},
        {"Additional properties are not allowed ('x' was unexpected)", CONTRACT, "text.schema"},
        {"json.decoder.JSONDecodeError: Expecting value", CONTRACT, "text.schema"},
        {"error: missing required argument --name", CONTRACT, "text.schema"},
        {"error: the following required arguments were not provided:", CONTRACT, "text.schema"},
        {"HTTP 422", CONTRACT, "text.schema"},
        {"ls: unrecognized option '--nope'", CONTRACT, "text.usage"},
        {"error: unexpected argument '-x' found", CONTRACT, "text.usage"},
        {"bash: line 1: nosuch: command not found", CONTRACT, "text.usage"},
        {"sh: 1: nosuch: not found", CONTRACT, "text.usage"},
        {"make: *** No rule to make target 'x'.  Stop.", CONTRACT, "text.usage"},
        {"error: unsupported platform linux-arm", CONTRACT, "text.usage"},
        {"./x: cannot execute binary file: Exec format error", CONTRACT, "text.usage"},
        {"\x1b[31merror:\x1b[0m \x1b[1mpermission\x1b[0m denied", POLICY, "text.auth"},
        {"assertion failed: 3 == 4", TRANSIENT, "unknown"},
        {"12 passed, 1 failed", TRANSIENT, "text.tests"},
        {"ok 3 - a forbidden page is shown as such", TRANSIENT, "unknown"},
        {"checked 429 files, 403 lines, schema fine", TRANSIENT, "unknown"},
        {"", TRANSIENT, "unknown"},
    };
    struct classifier *rules = builtin();
    static const int codes[] = {1, 2, 70, 128, 255};
    for (size_t i = 0; i < CASES(cases); i++) {
        struct evidence evidence = exit_with(codes[i % CASES(codes)], cases[i].tail);
        struct classification got;
        classify(rules, &evidence, &got);
        check_case(strcmp(got.rule, cases[i].rule) == 0, cases[i].tail);
        check_case_int(got.class, cases[i].class, cases[i].tail);
        check_case_int(got.unknown, strcmp(cases[i].rule, "unknown") == 0, cases[i].tail);
        check_case_int(got.line[0] == '\0', got.unknown, cases[i].tail);
    }
    classifier_free(rules);
}

TEST(classify, what_lies_outside_the_workspace_is_told_apart)
{
    static const struct {
        struct ending ending;
        const char *tail;
        bool outside;
    } cases[] = {
        {{ENDED_HTTP_STATUS, 429}, NULL, true},
        {{ENDED_HTTP_STATUS, 500}, NULL, true},
        {{ENDED_HTTP_STATUS, 503}, NULL, true},
        {{ENDED_HTTP_STATUS, 404}, NULL, false},
        {{ENDED_HTTP_TRANSPORT, HTTP_NOT_RESOLVED}, NULL, true},
        {{ENDED_HTTP_TRANSPORT, HTTP_TIMED_OUT}, NULL, true},
        {{ENDED_HTTP_TRANSPORT, HTTP_BAD_URL}, NULL, false},
        {{ENDED_EXIT, 69}, NULL, true},
        {{ENDED_EXIT, 75}, NULL, false},
        {{ENDED_EXIT, 77}, NULL, false},
        {{ENDED_SIGNAL, SIGKILL}, NULL, false},
        {{ENDED_WALL_TIMEOUT, 0}, NULL, false},
        {{ENDED_OUT_OF_MEMORY, 0}, NULL, false},
        {{ENDED_EXIT, 1}, "error: rate limit exceeded", true},
        {{ENDED_EXIT, 1}, "curl: (7) Failed to connect to x port 80: Connection refused", true},
        {{ENDED_EXIT, 1}, "curl: (6) Could not resolve host: example.org", true},
        {{ENDED_EXIT, 1}, "error: HTTP 503 Service Unavailable", true},
        {{ENDED_EXIT, 1}, "error: database is locked", false},
        {{ENDED_EXIT, 1}, "write error: No space left on device", false},
        {{ENDED_EXIT, 1}, "error: permission denied", false},
        {{ENDED_EXIT, 1}, "it just ended", false},
    };
    struct classifier *rules = builtin();
    for (size_t i = 0; i < CASES(cases); i++) {
        struct evidence evidence = exit_with(0, cases[i].tail);
        evidence.ending = cases[i].ending;
        struct classification got;
        classify(rules, &evidence, &got);
        check_case_int(got.outside, cases[i].outside, got.rule);
        classify_no_progress(&got);
        check_case_int(got.outside, cases[i].outside, got.rule);
    }
    classifier_free(rules);
}

/* Tails that are evidence of nothing but themselves, or of less than they seem. */
static void check_rules(const char *const (*cases)[2], size_t count)
{
    struct classifier *rules = builtin();
    for (size_t i = 0; i < count; i++) {
        struct evidence evidence = exit_with(1, cases[i][0]);
        struct classification got;
        classify(rules, &evidence, &got);
        check_case(strcmp(got.rule, cases[i][1]) == 0, cases[i][0]);
    }
    classifier_free(rules);
}

/* A test named after an error used to end the job. */
TEST(classify, the_name_of_a_test_is_no_evidence)
{
    static const char *const cases[][2] = {
        {"PASS test_permission_denied\nFAIL test_add", "text.tests"},
        {"error: 404 tests failed", "text.tests"},
        {"    --- PASS: TestX/permission_denied (0.00s)\n--- FAIL: TestX (0.00s)", "text.tests"},
        {"test auth::unauthorized ... ok\ntest cart::adds ... FAILED", "text.tests"},
        {"ok 3 permission denied is told\nnot ok 4 sorts", "text.tests"},
        {"ok 3 - error: permission denied\nnot ok 4 - sorts", "text.tests"},
        {" \xE2\x9C\x93 403 Forbidden is shown\n \xE2\x9C\x97 sorts\n2 tests, 1 failure",
         "text.tests"},
        {"FAILED tests/a.py::test_x - PermissionError: Permission denied\n1 failed in 0.1s",
         "text.tests"},
        {"[       OK ] Auth.AccessDenied (0 ms)\n[  FAILED  ] Cart.Total (0 ms)", "text.tests"},
        /* A green suite is over: what follows counts. */
        {"ok 1 permission denied is told\nok 2 sorts\noops", "unknown"},
        {"12 passed in 0.10s\ncurl: (6) Could not resolve host: x", "text.network"},
        {"error: access denied\n12 passed in 0.10s\noops", "unknown"},
        /* An error after a red suite outweighs it, unless it is part of the report. */
        {"1 failed, 3 passed in 0.1s\nerror: Could not resolve host: x", "text.network"},
        {"  1 failing\n\n  1) Store saves:\n     Error: connect ECONNREFUSED", "text.tests"},
        /* What a runner says below a test that failed is part of its report. */
        {"not ok 2 denies\n# error: invalid token\nok 3 permission denied is told", "text.tests"},
        {"ok 1 a\nnot ok 2 login\n# Error: 401 Unauthorized\n1..2", "text.tests"},
        {"\xE2\x84\xB9 fail 1\n\n\xE2\x9C\x96 failing tests:\n  Error: Access denied",
         "text.tests"},
        {"Error: status code 403\n Test Files  1 failed (1)\n      Tests  1 failed (1)",
         "text.tests"},
        {"Tests:       1 failed, 1 total\nRan all test suites.", "text.tests"},
    };
    check_rules(cases, CASES(cases));
}

TEST(classify, a_red_suite_is_tried_again_and_its_summary_is_shown)
{
    struct classifier *rules = builtin();
    struct evidence evidence =
        exit_with(1, "FAILED tests/test_cart.py::test_total - assert 3 == 4\n"
                     "=== 1 failed, 40 passed in 0.41s ===\nmake: *** [Makefile:9: test] Error 1");
    struct classification got;
    classify(rules, &evidence, &got);
    check_str(got.rule, "text.tests");
    check_int(got.class, ==, TRANSIENT);
    check(got.retryable && !got.unknown && !got.outside);
    check_str(got.line, "=== 1 failed, 40 passed in 0.41s ===");
    classifier_free(rules);
}

TEST(classify, healthy_lines_warnings_and_quoted_source_are_no_evidence)
{
    static const char *const cases[][2] = {
        {"0 errors, 0 warnings\nno permission denied found", "unknown"},
        {"permission denied: 0\nconnection refused: 0", "unknown"},
        {"warning: permission denied: /var/cache, caching is off\nchecksum differs", "unknown"},
        {"2026-01-31T10:00:00Z INFO login: permission denied for user 7\noops", "unknown"},
        {"WARN connection refused, retrying\nINFO connected\nreport is empty", "unknown"},
        {"src/a.c:7:9: error: 'permission_denied' undeclared\nmake: *** [a.o] Error 1", "unknown"},
        {"   77 |     die(\"permission denied\");\n      |     ^~~", "unknown"},
        {"src/errors/401-unauthorized.html\nsrc/permission_denied.c\noops", "unknown"},
        {"10.0.0.9 - - [x] \"GET /admin HTTP/1.1\" 401 188\nsmoke: no total", "unknown"},
        {"+ echo permission denied\n+ exit 1", "unknown"},
        {"- Fixed: `Error: forbidden: user cannot list pods`\nnot done", "unknown"},
        {"results:\n- name: login\n  error: permission denied\nthe reports differ", "unknown"},
        {"I saw \"Error: 403 Forbidden\" and changed the role", "unknown"},
        {"Error: the page `403 Forbidden` is not styled", "unknown"},
        {"@@ -1,2 +1,2 @@\n a\n-Error: permission denied\n+Error: access denied", "unknown"},
        {"commit 9c1e0b7a44d1\nAuthor: A <a@b>\n\n    error: permission denied", "unknown"},
        {"A.java:1: error: cannot find symbol\n  symbol:   class AccessDeniedException", "unknown"},
        {"[ERROR] /a/A.java:[1,2] cannot find symbol\n[ERROR]   symbol:   class "
         "UnauthorizedException",
         "unknown"},
        {"[error] /a/A.scala:3:8: not found\n[error] class B extends UnauthorizedException\n"
         "[error]                 ^",
         "unknown"},
        {"npm WARN EBADENGINE Unsupported engine\nnot written", "unknown"},
    };
    check_rules(cases, CASES(cases));
}

TEST(classify, ending_a_job_takes_more_evidence_than_retrying_it)
{
    static const char *const cases[][2] = {
        /* Prose. */
        {"the user saw access denied and went away", "unknown"},
        {"the upload ended because of a connection reset by the peer", "text.network"},
        /* Far up. */
        {"cp: x: Permission denied\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13", "unknown"},
        {"cp: x: Connection reset\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13", "text.network"},
        /* Both on equal terms. */
        {"error: permission denied\nerror: connection refused", "text.network"},
        {"error: 403 rate limit exceeded", "text.rate_limit"},
    };
    check_rules(cases, CASES(cases));
}

/* An error that a program had got over used to end the job. */
TEST(classify, an_error_that_the_program_got_over_does_not_end_the_job)
{
    static const char *const cases[][2] = {
        /* A later error that no rule knows, after work in between. */
        {"error: cache: permission denied\nbuilding\nerror: the result differs", "unknown"},
        {"error: /old: access denied, trying /new\nopened /new\nsum: 3 rows differ", "unknown"},
        /* A traceback of its own. */
        {"ERROR audit: access denied for mallory\nTraceback (most recent call last):\n"
         "  File \"a.py\", line 3\nSettingsError: no total",
         "unknown"},
        {"PermissionError: [Errno 13] Permission denied: 'x'\n\nDuring handling of the above "
         "exception, another exception occurred:\n\nTraceback (most recent call last):\n"
         "NameError: name 'log' is not defined",
         "unknown"},
        /* A defect, before or after. */
        {"Error: user 42 is not authorized\nAssertionError: 3 != 4", "unknown"},
        {"ZeroDivisionError: division by zero\nrm: cannot remove 'x': Permission denied",
         "unknown"},
        /* More below than an explanation. */
        {"error: cache: permission denied\na\nb\nc\nd\ne\nf", "unknown"},
        /* One failure in several lines. */
        {"error: cache: permission denied\nerror: cannot go on", "text.auth"},
        {"error: permission denied\nCheck the token.\nAsk the owner.", "text.auth"},
        {"fatal: Authentication failed for 'x'\nTraceback (most recent call last):\n"
         "subprocess.CalledProcessError: Command 'git' returned non-zero exit status 128.",
         "text.auth"},
        {"PermissionError: [Errno 13] Permission denied: 'x'\n\nThe above exception was the "
         "direct cause of the following exception:\n\nTraceback (most recent call last):\n"
         "RuntimeError: cannot load the settings",
         "text.auth"},
    };
    check_rules(cases, CASES(cases));
}

/* mocha with 65 failing tests exits with 65, and the job ended for a wrong input. */
TEST(classify, an_exit_code_that_counts_failures_does_not_decide)
{
    static const struct {
        int code;
        const char *tail;
        const char *rule;
    } cases[] = {
        {65, "  12 passing (1s)\n  65 failing", "text.tests"},
        {77, "# Looks like you failed 77 tests of 90.", "text.tests"},
        {78, "178 tests, 100 passed, 78 failed", "text.tests"},
        {78, "179 tests, 1 passed, 178 failed", "exit.78"},
        {77, "1 failed, 2 passed in 0.1s", "exit.77"},
        {77, "77 tests, 77 passed", "exit.77"},
        {77, "error 77", "exit.77"},
    };
    struct classifier *rules = builtin();
    for (size_t i = 0; i < CASES(cases); i++) {
        struct evidence evidence = exit_with(cases[i].code, cases[i].tail);
        struct classification got;
        classify(rules, &evidence, &got);
        check_case(strcmp(got.rule, cases[i].rule) == 0, cases[i].tail);
    }
    classifier_free(rules);
}

/* A word with "Killed" in it anywhere in 16 KiB used to make a shared count of kills evidence. */
TEST(classify, killed_is_a_word_of_the_last_lines)
{
    static const struct {
        const char *tail;
        bool killed;
    } cases[] = {
        {"Killed", true},
        {"sh: line 1:  4711 Killed                  ./a", true},
        {"make: *** [Makefile:3: all] Killed", true},
        {"g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
         true},
        {"ok 1 testKilledByUser\nok 2 Killed_again\nSkilled", false},
        {"Killed\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10", false},
        {"killed", false},
        {"", false},
    };
    for (size_t i = 0; i < CASES(cases); i++)
        check_case(output_says_killed(cases[i].tail, strlen(cases[i].tail)) == cases[i].killed,
                   cases[i].tail);
    check(!output_says_killed(NULL, 0));
}

TEST(classify, codes_of_services_are_known_as_they_are_spelt)
{
    static const char *const cases[][2] = {
        {"error: ThrottlingException: Rate exceeded", "text.rate_limit"},
        {"rpc error: code = ResourceExhausted desc = x", "text.rate_limit"},
        {"rpc error: code = Unavailable desc = x", "text.unavailable"},
        {"rpc error: code = DeadlineExceeded desc = x", "text.network"},
        {"rpc error: code = PermissionDenied desc = x", "text.auth"},
        {"rpc error: code = Unauthenticated desc = x", "text.auth"},
        {"An error occurred (AccessDeniedException) when calling X", "text.auth"},
        {"api error UnauthorizedOperation: You are not authorized", "text.auth"},
        {"error: PERMISSION_DENIED: Permission 'x' denied", "text.auth"},
        {"Unable to locate credentials. You can configure them", "text.auth"},
        {"error: unsupported agent runtime 'x'", "text.usage"},
        {"error: x is not allowlisted", "text.policy"},
        {"remote: error: GH013: Repository rule violations found", "text.repo"},
        {"error: could not apply 7c0e1f2... Expire sessions", "text.repo"},
        {"error: corrupt patch at line 27", "text.repo"},
        {"curl: (60) SSL certificate problem: certificate has expired", "text.certificate"},
        {"x509: certificate signed by unknown authority", "text.certificate"},
    };
    check_rules(cases, CASES(cases));
}

/* What stood behind byte 2,000 of a line used not to be seen. */
TEST(classify, an_error_far_behind_in_a_line_decides_and_is_shown)
{
    static const char phrase[] = "\"error\": \"AccessDeniedException\" here";
    struct classifier *rules = builtin();
    static const struct class_rule mine[] = {{"AccessDenied.* here$", REPO}};
    struct classifier *user = NULL;
    check_int(classifier_new_user(mine, 1, &user, NULL), ==, 0);
    for (size_t before = 1700; before < 2300; before += 7) {
        char tail[4000] = "error: {";
        memset(tail + strlen(tail), 'x', before);
        strcat(tail, phrase);
        struct evidence evidence = exit_with(1, tail);
        struct classification got;
        classify(rules, &evidence, &got);
        check_str(got.rule, "text.auth");
        check_contains(got.line, "AccessDeniedException");
        evidence.job_rules = user;
        classify(rules, &evidence, &got);
        check_str(got.rule, "user.1");
        check_contains(got.line, "AccessDeniedException");
        check_int(strlen(got.line), <=, RULE_LINE_BYTES);
    }
    classifier_free(user);
    classifier_free(rules);
}

/* git exits with 129 for a wrong option, which is no SIGHUP. */
TEST(classify, exit_129_is_left_to_the_text)
{
    struct classifier *rules = builtin();
    struct evidence evidence = exit_with(129, "error: unknown option `al'\nusage: git commit");
    struct classification got;
    classify(rules, &evidence, &got);
    check_str(got.rule, "text.usage");
    evidence = exit_with(129, "");
    classify(rules, &evidence, &got);
    check_str(got.rule, "unknown");
    classifier_free(rules);
}

TEST(classify, every_text_rule_has_a_name_a_class_and_words)
{
    size_t count;
    const struct text_rule *table = text_rule_table(&count);
    check_int(count, >, 5);
    for (size_t i = 0; i < count; i++) {
        check_case(strncmp(table[i].id, "text.", 5) == 0, table[i].id);
        check_case(strlen(table[i].id) < RULE_ID_BYTES, table[i].id);
        check_case(strlen(table[i].meaning) > 0 && table[i].class != CLASS_NONE, table[i].id);
    }
}

TEST(classify, what_the_step_declared_is_heard_first)
{
    struct classifier *rules = builtin();
    for (int class = CLASS_NONE + 1; class < CLASS_COUNT; class ++) {
        struct evidence evidence = exit_with(75, "permission denied");
        struct classification got;
        evidence.declared = (enum failure_class) class;
        classify(rules, &evidence, &got);
        check_str(got.rule, "declared");
        check_int(got.class, ==, class);
        check_int(got.retryable, ==, class == TRANSIENT || class == STUCK);
        check_str(got.line, "");
    }
    classifier_free(rules);
}

TEST(classify, an_unknown_failure_is_transient_once)
{
    struct evidence evidence = exit_with(1, "it just ended");
    struct classification got;
    classify(NULL, &evidence, &got);
    check_str(got.rule, "unknown");
    check_int(got.class, ==, TRANSIENT);
    check(got.unknown && got.retryable);
    evidence.unknown_before = 1;
    classify(NULL, &evidence, &got);
    check_str(got.rule, "unknown.again");
    check_int(got.class, ==, STUCK);
    check(got.unknown);
}

TEST(classify, the_line_most_like_an_error_decides_and_is_shown)
{
    struct classifier *rules = builtin();
    struct evidence evidence =
        exit_with(1, "warning: connection refused, retrying\n\x1b[1merror:\x1b[0m permission "
                     "denied\nbye\n\n");
    struct classification got;
    classify(rules, &evidence, &got);
    check_str(got.rule, "text.auth");
    check_str(got.line, "error: permission denied");
    evidence = exit_with(1, "permission denied, first try\nconnection refused\n");
    classify(rules, &evidence, &got);
    check_str(got.rule, "text.network");
    check_str(got.line, "connection refused");
    classifier_free(rules);
}

TEST(classify, built_in_rules_look_at_the_end_only_and_users_rules_further_up)
{
    char tail[4000] = "permission denied\n";
    for (int i = 0; i < 60; i++)
        strcat(tail, "all is well\n");
    static const struct class_rule mine[] = {{"permission denied", REPO}};
    struct classifier *rules = builtin();
    struct classifier *user = NULL;
    struct evidence evidence = exit_with(1, tail);
    struct classification got;
    classify(rules, &evidence, &got);
    check_str(got.rule, "unknown");
    check_int(classifier_new_user(mine, 1, &user, NULL), ==, 0);
    evidence.job_rules = user;
    classify(rules, &evidence, &got);
    check_str(got.rule, "user.1");
    check_int(got.class, ==, REPO);
    classifier_free(user);
    classifier_free(rules);
}

TEST(classify, users_rules_are_heard_before_the_built_in_ones_the_steps_before_the_jobs)
{
    static const struct class_rule steps[] = {{"^never$", REPO}, {"flaky \\d+", TRANSIENT}};
    static const struct class_rule jobs[] = {{"flaky", POLICY}, {"(?i)ODD", CONTRACT}};
    struct classifier *rules = builtin();
    struct classifier *step = NULL;
    struct classifier *job = NULL;
    check_int(classifier_new_user(steps, 2, &step, NULL), ==, 0);
    check_int(classifier_new_user(jobs, 2, &job, NULL), ==, 0);
    static const struct {
        const char *tail, *rule;
        enum failure_class class;
    } cases[] = {
        {"flaky 12\nconnection refused", "user.step.2", TRANSIENT},
        {"flaky\nconnection refused", "user.1", POLICY},
        {"odd\npermission denied", "user.2", CONTRACT},
        {"FLAKY\npermission denied", "text.auth", POLICY}, /* letter case counts */
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct evidence evidence = exit_with(1, cases[i].tail);
        struct classification got;
        evidence.step_rules = step;
        evidence.job_rules = job;
        classify(rules, &evidence, &got);
        check_str(got.rule, cases[i].rule);
        check_case_int(got.class, cases[i].class, cases[i].tail);
        evidence.ending.number = 75;
        classify(rules, &evidence, &got);
        check_str(got.rule, "exit.75");
    }
    classifier_free(step);
    classifier_free(job);
    classifier_free(rules);
}

TEST(classify, a_bad_expression_is_refused_with_its_place_and_position)
{
    static const struct class_rule rules[] = {{"fine", POLICY}, {"one (two", POLICY}};
    static const struct class_rule empty[] = {{"", POLICY}};
    struct classifier *made = NULL;
    struct err err = {0};
    check_int(classifier_new_user(rules, 2, &made, &err), ==, TEND_EINVAL);
    check_contains(err.text, "[1].match: \"one (two\" is no regular expression: ");
    check_contains(err.text, "(at character 9)");
    check_int(classifier_new_user(empty, 1, &made, &err), ==, TEND_EINVAL);
    check_contains(err.text, "[0].match: the expression has 0 bytes");
    char *long_match = malloc(CLASS_MATCH_BYTES + 2);
    check(long_match != NULL);
    memset(long_match, 'a', CLASS_MATCH_BYTES + 1);
    long_match[CLASS_MATCH_BYTES + 1] = '\0';
    struct class_rule too_long = {long_match, POLICY};
    check_int(classifier_new_user(&too_long, 1, &made, &err), ==, TEND_EINVAL);
    free(long_match);
    check(made == NULL);
    classifier_free(NULL);
}

TEST(classify, an_expression_that_runs_away_is_stopped_and_the_next_rule_asked)
{
    static const struct class_rule rules[] = {{"^(a|aa)+$", POLICY}, {"b$", REPO}};
    struct classifier *user = NULL;
    check_int(classifier_new_user(rules, 2, &user, NULL), ==, 0);
    char tail[20000] = "";
    size_t len = 0;
    for (int line = 0; line < 190; line++) {
        memset(tail + len, 'a', 99);
        tail[len + 98] = 'b';
        tail[len + 99] = '\n';
        len += 100;
    }
    struct evidence evidence = exit_with(1, NULL);
    struct classification got;
    evidence.tail = tail;
    evidence.tail_bytes = len;
    evidence.job_rules = user;
    classify(NULL, &evidence, &got);
    check_str(got.rule, "user.2");
    classifier_free(user);
}

TEST(classify, any_bytes_give_a_class_and_a_line_of_valid_text)
{
    static const char phrase[] = "\npermission denied\n";
    struct classifier *rules = builtin();
    struct rng rng;
    rng_seed(&rng, 11);
    for (int round = 0; round < 300; round++) {
        char tail[2000];
        size_t len = rng_below(&rng, sizeof tail);
        for (size_t i = 0; i < len; i++)
            tail[i] = (char)(rng_below(&rng, 30) == 0 ? '\n' : rng_below(&rng, 256));
        if (len > 200)
            memcpy(tail + len - 40, phrase, sizeof phrase);
        struct evidence evidence = {.ending = {ENDED_EXIT, 1}, .tail = tail, .tail_bytes = len};
        struct classification got;
        classify(rules, &evidence, &got);
        check(got.class != CLASS_NONE);
        check(utf8_valid(got.line, strlen(got.line)));
        check(len <= 200 || strlen(got.line) > 0);
    }
    classifier_free(rules);
}

TEST(classify, classes_have_the_names_of_the_contract)
{
    /* SH-4 */
    static const struct {
        const char *name;
        bool retryable;
    } cases[] = {{"transient_runtime", true},
                 {"stuck_no_progress", true},
                 {"deterministic_contract", false},
                 {"deterministic_policy", false},
                 {"deterministic_repo", false}};
    for (size_t i = 0; i < CASES(cases); i++) {
        enum failure_class class = failure_class_parse(cases[i].name);
        check_str(failure_class_name(class), cases[i].name);
        check_case_int(failure_class_retryable(class), cases[i].retryable, cases[i].name);
    }
    check_int(failure_class_parse("transient"), ==, CLASS_NONE);
    check_int(failure_class_parse(""), ==, CLASS_NONE);
    check(!failure_class_retryable(CLASS_NONE));
}
