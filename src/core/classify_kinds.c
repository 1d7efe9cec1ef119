/*
 * What a line of output is: progress, a warning, part of a test runner's report, an error …
 *
 * The rows are asked in their order, about the line without blanks at its ends and without the
 * prefix below. Test runners come first: whatever else a line of theirs looks like, its words are
 * names of tests. Names of runners stand beside the rows that are for them alone.
 */
#include "core/classify_rules.h"

/* Times, frames of boxes, steps of docker build, services of docker compose, the marks of agents.
 */
const char line_prefix_expression[] =
    "^(?:\\x{23BF}\\s*|\\x{2502}\\s+|#\\d+ \\d+\\.\\d+ |[a-z][\\w.-]*[-_]\\d+ +\\|\\s+|\\[?\\d{4}[-/]\\d\\d[-/]\\d\\d[T ]"
    "\\d\\d:\\d\\d:\\d\\d(?:[.,]\\d+)?Z?\\]?\\s+|\\[\\d\\d:\\d\\d:\\d\\d\\]\\s+|remote: )+";

/* A count that is not zero. */
#define SOME "[1-9]\\d*"
/* What suites count. */
#define THINGS "(?:tests?|test cases?|specs?|examples?|scenarios?|assertions?|checks?|suites?)"

/* The name of a file of source at the beginning of a line. */
#define SOURCE                                                                                     \
    "^(?:\\[(?i:error)\\] +)?(?:[\\w.@/~+-])+\\.(?:c|h|cc|cpp|cxx|hpp|java|py|go|rs|ts|tsx|js|jsx" \
    "|kt|swift|hs|rb|php|m|scala|cs|proto|md|yml|yaml|sh|vue|css)"

static const struct kind_row rows[] = {
    /* Red summaries. */
    {LINE_SUITE_RED,
     "\\b" SOME " (?:(?:of|out of) \\d+ )?(?:unit |integration )?" THINGS
     "(?: cases?)?(?: have| has|) ?(?i:failed|fails?\\b|failures?|failing|unsuccessful)"
     "|\\b" THINGS "(?:\\(s\\))?(?: run)?,? (?:.*[ (])?" SOME " (?:failed|failures?|errors?)\\b"
     "|\\b\\d+ (?:pass(?:ed|ing)?|success(?:es)?)\\b[,;|/ ]+(?:\\d+ \\w+[,;| ]+)*" SOME
     " fail(?:ed|ing|ures?)?\\b"
     "|\\b" SOME " fail(?:ed|ing|ures?)?[,;| ]+(?:\\d+ \\w+[,;| ]+)*\\d+ pass(?:ed|ing)?\\b"},
    {LINE_SUITE_RED, /* karma, Pester */
     "^[^:]+: Executed \\d+ of \\d+ .*\\(" SOME " FAILED\\)|^Tests Passed: \\d+, Failed: " SOME},
    {LINE_SUITE_RED, /* jest, vitest, node */
     "^Test(?:s|s?:| Files| Suites:)\\s+(?:\\d+ \\w+[,| ]+)*" SOME
     " failed\\b|^\\x{2139} fail " SOME "$"},
    {LINE_SUITE_RED, /* pytest, unittest */
     "^=* ?" SOME " (?:failed|errors?)\\b.* in [\\d.]+s|^FAILED \\((?:failures|errors)="
     "|^FAIL Required test coverage"},
    {LINE_SUITE_RED, /* JUnit, Surefire, Gradle, PHPUnit, Check, .NET, ScalaTest */
     "Tests run: .*(?:Failures|Errors): *" SOME
     "|There (?:are|were) (?:failing tests|test failures)"
     "|^FAILURES!|^ERRORS!|Tests: \\d+, Assertions: .*(?:Failures|Errors): " SOME
     "|%: Checks: .*(?:Failures|Errors): " SOME "|^Failed! +- Failed: +" SOME
     "|Tests: succeeded \\d+, failed " SOME "|Tests unsuccessful"},
    {LINE_SUITE_RED, /* cargo, nextest, deno, bun, zig, mocha, node, cypress, jest coverage */
     "^test result: FAILED|^error: (?:doc)?test(?: run)? failed|^FAILED \\| |^" SOME
     " fail(?:ing)?$"
     "|^# fail(?:ed)? +" SOME "|Failing: +" SOME "|coverage threshold .* not met"
     "|npm ERR! Test failed"},
    {LINE_SUITE_RED, /* TAP, prove, automake, ctest, meson, GoogleTest, Criterion, lit, testthat */
     "^# (?:FAIL|ERROR): +" SOME "|^# Looks like you failed|Failed \\d+/\\d+ subtests"
     "|^Result: (?:FAIL|NOTESTS)|% tests passed, " SOME "|^The following tests FAILED"
     "|^(?:Fail|Timeout): +" SOME "$|\\[  FAILED  \\] +" SOME "|Crashing: +" SOME
     "|^Failed(?: Tests)? *(?:\\(" SOME "\\)|: +" SOME "$)|^\\[ FAIL " SOME "|^" SOME
     " FAILED TESTS?|^FAIL! -- |^Fail Count: +" SOME},
    {LINE_SUITE_RED, /* XCTest, flutter, behave, cucumber, doctest, bazel, clojure, tox */
     "^Executed \\d+ tests?, with " SOME "|Some tests failed|^\\d+ (?:features|scenarios|steps) "
     "(?:passed, " SOME " failed|\\(" SOME " failed)|Status: FAILURE!|, " SOME " tests? FAILED"
     "|\\d+ runs?, .*\\b" SOME " (?:failures|errors)|^" SOME " failures?, \\d+ errors"
     "|Tests failed\\.$|^\\*\\*\\* " SOME " TESTS? FAILED"},
    {LINE_SUITE_GREEN,
     "^=* ?\\d+ passed\\b.* in [\\d.]+m?s|^test result: ok\\.|^OK(?: \\(|$)|^Result: PASS"
     "|^Tests: +(?:\\d+ skipped, )?\\d+ passed, \\d+ total|100% tests passed|^# fail(?:ed)? +0$"
     "|Tests run: \\d+, Failures: 0, Errors: 0|\\b\\d+ " THINGS ",? (?:.*, )?0 fail(?:ed|ures?)\\b"
     "|^\\[  PASSED  \\] \\d+ tests?\\.$"},
    /* Single tests that failed. */
    {LINE_TEST_FAILED,
     "^not ok \\d+(?!.*# (?i:todo|skip))|^--- FAIL: |^FAIL[:!]?\\s+(?!to\\b)\\S"
     "|^FAILED\\s+(?!to\\b)\\S"
     "|^\\[FAIL(?:ED)?\\]|^\\[  FAILED  \\]|^\\( FAILED \\)"
     "|\\.\\.\\. (?:FAILED|FAIL|ERROR)(?: \\(.*\\))?$|(?<!BUILD )\\bFAILED +(?:\\[ *\\d+%\\]"
     "|in [\\d.]+s)"
     "|<<< (?:FAILURE|ERROR)!|\\*\\*\\*(?:Failed|Timeout|Exception)|\\| FAIL \\|$|\\[FAIL\\]$"
     "|\\bFAIL +[\\d.]+s\\b|^(?:FAIL|ERROR): \\w+ \\(|^ERROR (?:collecting )?tests?/"
     "|^FAIL in \\(|\\(FAILED - \\d+\\)$|^E   |^\\S+ > .* FAILED$|\\[\\x{2718}\\]|\\*\\*\\* FAILED"
     "|^# +Failed test|^\\S+:\\d+:\\w+:FAIL\\b|^panic: test timed out|^ASSERT:|\\[E\\]$"
     "|^Test Case .* failed \\("},
    {LINE_CROSSED, "^[\\x{2717}\\x{2718}\\x{2715}\\x{D7}] "},
    {LINE_TEST_PASSED,
     "^ok \\d+\\b|^ok\\s+\\S+(?:\\s+\\(?[\\d.]+m?s|\\s+\\(cached\\)|$)|^=== (?:RUN|PAUSE|CONT"
     "|NAME)"
     "|^--- (?:PASS|SKIP): |^PASS(?:ED)?(?:[: ]|$)|^\\[PASS(?:ED)?\\]|^\\( PASSED \\)"
     "|^\\[(?: +OK| RUN +|-+|=+| +PASSED) +\\]|^[\\x{2713}\\x{2714}\\x{221A}] "
     "|\\.\\.\\. ok(?: \\(.*\\))?$|\\bPASSED(?: +(?:\\[ *\\d+%\\]|in [\\d.]+s)|$)"
     "|^test .* \\.\\.\\. (?:ok|ignored)|\\| PASS \\|$|^PASS \\[ |\\[\\x{2714}\\]"
     "|^ *\\d+/\\d+ .*(?:\\bOK|Passed|SKIP) +[\\d.]+|^\\S+:\\d+:\\w+:PASS$|Passed +[\\d.]+ sec$"
     "|^Test Case .* passed \\(|^# Subtest: |\\.+Passed$|^\\[info\\] - "},

    {LINE_EXCERPT, "^@@ -\\d+(?:,\\d+)? \\+\\d+(?:,\\d+)? @@|^commit [0-9a-f]{7,40}\\b"
                   "|^(?:Author|AuthorDate|CommitDate): +\\S|^Date:   |^- "},
    {LINE_CARET, "^(?:\\[error\\] +)?[~^]+$"},
    {LINE_CAUSE, "^The above exception was the direct cause of the following"},
    {LINE_QUOTED, /* comments and diagnostics of TAP, items of lists, what javac adds */
     "^# |^#$|^[*\\x{2022}] |^\\d+\\. |^(?:\\[ERROR\\] +)?(?:symbol|location): "},
    {LINE_QUOTED,
     "^\\d* ?[|\\x{2502}\\x{2506}\\x{2575}]|^\\d+ +[|\\x{2502}\\x{2506}] ?|^> \\d+ \\||^[~^]+|"
     "^File \".*\", line \\d+|^at (?:async )?\\S+.*[:(]|^from .*:\\d+:in |^#\\d+ +0x|^--> "
     "|^\\d+\\x{2506}|^\\d+: (?:[\\w<>{}#]+::|<unknown>|_?main$"
     "|__libc)|^[0-9a-f]{7,40} \\S|^= (?:note|help):"},
    {LINE_HEALTHY,
     "^\\x{25CF} |^\\+ |^\\$ |^> \\S+@\\S+ "
     "|^.{0,40}(?-i:\\b(?:INFO|DEBUG|TRACE|NOTICE|VERBOSE)\\b)|^\\[(?:info|debug)\\]"
     "|\\blevel=(?:info|debug)\\b|\"level\": ?\"(?:info|debug)\"|^info\\b|^npm (?:http|notice) "
     "|\"(?:GET|POST|PUT|HEAD|DELETE|PATCH) \\S+ HTTP/[\\d.]+\" \\d{3}\\b"},
    {LINE_HEALTHY,
     "(?i)^(?:no|0) (?:\\w+ ){0,2}(?:errors?|failures?|problems?|denied|refused|found|issues?)\\b"
     "|: 0$|^(?:compiling|downloading|downloaded|collecting|fetching|unpacking|setting up|get:\\d"
     "|hit:\\d|copied|rendered|created|loaded|would reformat|checking (?:for|whether)|-- ) ?"},

    {LINE_USAGE, "^(?i:usage)(?:: \\S+ .*[[<]|: \\S+$|: .*\\b[A-Z]{3}| of \\S+:)"},
    {LINE_WARNING,
     "(?i)^(?:\\S+: )?(?:warn(?:ing)?|note|hint|help|tip|info)\\b(?!-)|^.{0,40}\\bWARN(?:ING)?\\b"
     "|: warning: |deprecat|\\bUserWarning:|^[WN]: |^npm warn|^consider |^did you mean"
     "|^(?:detail|hint|ignoring|ignored)\\b|^for more information|^see also|^=+ warnings? summary"},

    {LINE_AFTERMATH,
     "^g?make(?:\\[\\d+\\])?: (?:\\*\\*\\* \\[|\\*\\*\\* Deleting|Leaving|Entering)"
     "|^ninja: build stopped|^npm (?:ERR!|error)(?: A complete log| errno -?\\d+$| Exit status"
     "| Failed at| This is probably| code ELIFECYCLE|$)|^##\\[error\\]Process completed"
     "|(?i:(?:exit(?:ed with)?|returned|failed with) (?:exit )?(?:code|status)[: ]+\\d+\\.?$)"
     "|^error: Recipe |^error Command failed|^collect2: |^compilation terminated"
     "|^error: could not compile|^BUILD FAILED|^FAIL$|Build did NOT complete"
     "|^FAILED: \\S*[./]\\S*(?: |$)|\\[build failed\\]"
     "|\\[setup failed\\]|^Cleaning up |^\\[ERROR\\](?:$"
     "| \\[Help 1\\]| ->| For more"
     "| .*-[Xe] switch)|did not complete successfully|^exit status \\d+$"
     "|^warning: build failed|^error: failed to push some refs|^\\[INFO\\]|^-{3,}|^={3,}$"
     "|^Aborting$|(?i:\\bprevious errors?\\b|\\berrors? above\\b)"
     "|^(?:\\w+\\.)*CalledProcessError\\b"
     "|^(?:Error: )?Command failed\\b|^SystemExit\\b"},

    {LINE_DEFECT,
     "^(?:[\\w$]+\\.)*(?:Assertion(?:Failed)?Error|TypeError|NameError|AttributeError|KeyError"
     "|IndexError|ZeroDivisionError|UnboundLocalError|RecursionError|NotImplementedError"
     "|ReferenceError|RangeError|SyntaxError|IndentationError|NullPointerException"
     "|ClassCastException|ValueError|RuntimeError|\\w*IndexOutOfBoundsException|ArithmeticException|NoMethodError)\\b"
     "|\\((?:NoMethod|Name|Type|Argument|Key|Index|ZeroDivision)Error\\)$"
     "|(?i:\\bassertion (?:`.*` |'.*' )?failed)|^panic: runtime error: "},
    {LINE_DIAGNOSTIC,
     "^(?!meson\\.build)(?:e: )?(?:file://)?(?:[\\w.@/~+-]|\\\\)+:\\d+:\\d+:? (?:- )?(?i:fatal "
     "|syntax )?(?i:error|[A-Z]+\\d+)"
     "|^(?:[\\w.@/~+-])+\\(\\d+,\\d+\\): error|^error(?:\\[E\\d+\\]|: expected|: cannot find)"
     "|" SOURCE "[:(] ?[[(]?\\d+(?:[:,]\\d+[]):]*(?! (?:- )?(?i:warning|note|info))"
     "|[]):]+ (?:fatal |syntax )?error\\b)"
     "|^\\d+:\\d+ +error |undefined reference to|(?:^|/)ld: cannot find "},
    {LINE_REMARK, "^(?!meson\\.build)(?:[\\w.@/~+-]|\\\\)+:\\d+:\\d+:? (?:- )?(?i:warning)"
                  "|^(?:[\\w.@/~+-])+\\(\\d+,\\d+\\): warning|" SOURCE "[:(] ?[[(]?\\d+[:,)]"
                  "|^\\d+:\\d+ +warning |(?:^|/)ld: (?!final link failed|cannot open output)"},

    {LINE_ERROR,
     "^(?i:fatal|error|panic|abort|critical|e|err|failed|failure|exception|cannot|can't|could not"
     "|couldn't|unable to|an error occurred|caused by)\\b[:!\\[( ]|^\\W*(?i:error|fatal)\\b"
     "|^[^\"`]{0,48}\\b(?:ERROR|FATAL|CRITICAL|PANIC|Error|error|fatal|panic|Fatal)\\b[:\\])/ ]"
     "|^npm (?:ERR!|error)|^[\\w.$]*(?:Error|Exception|Refused)\\b|^Exception in thread"
     "|^thread '.*' panicked"
     "|(?i:^[^:\"`]{0,60}\\b(?:failed|failure|error|rejected|aborted)\\b[^:]{0,20}: )"
     "|level=(?:error|fatal|panic)|\"(?:level|severity)\": ?\"(?:error|fatal)\""
     "|^\\[(?:error|ERROR|API Error)|^ERR_|^called `Result::unwrap|^API Error|^! |^CONFLICT"
     "|^\\{\"(?:error|message|status)\"|^rpc error|^\\(\\w+\\) |^[\\x{2716}\\x{D7}X\\x{203A}] "
     "|^\\*\\* \\(|^HTTP [45]\\d\\d: |^\\S+:\\d+: \\*\\*\\* "},
    {LINE_LOOKED,
     "^(?:/\\S*/)?(?:find|ls|du|df|p?kill|killall|stat|e?grep|rm|rmdir|ps|lsof|chmod|chown"
     "|readlink|realpath|which|sysctl|tput|locale|ulimit|renice|nice|lsblk|dmesg)"
     "(?:\\[\\d+\\])?: +."},
    {LINE_OUTCOME,
     "^[A-Z][^:]*\\b(?:(?:could|did|was|were)(?: not|n't)|still (?:fails?|do(?:es)? not)"
     "|do(?:es)? not pass|gave up)\\b[^:]*\\.$"},
    {LINE_TOLD, "^-?[\\w@./][\\w@./-]*(?:\\[\\d+\\])?: +."},
};

const struct kind_row *line_kind_table(size_t *ret_count)
{
    *ret_count = sizeof rows / sizeof *rows;
    return rows;
}
