/* What a whole run makes of the output of its steps: SH-3, SH-4 and SH-5 from end to end. */
#include "runner_case.h"

/* "rule: line" of the last attempt. */
static const char *verdict_of(tend *t, int64_t id)
{
    struct tend_attempts *attempts;
    check_ok(t, tend_attempts(t, id, &attempts));
    const struct tend_attempt *last = &attempts->items[attempts->count - 1];
    const char *text = keep_text("%s: %s", last->rule, last->evidence ? last->evidence : "");
    tend_attempts_free(attempts);
    return text;
}

/* Symptom: the job failed for good by text.auth, because of the name of a test that had passed. */
TEST(runner_verdict, SH_5_a_passing_test_named_after_an_error_does_not_end_the_job)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, "{\"run\":\"echo PASS test_permission_denied; echo FAIL test_add; "
                             "exit 1\",\"attempts\":2,\"pause\":\"0s\"}");
    run_until_drained(t);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:text.tests "
                                  "2:failed:transient_runtime:text.tests");
    check_str(verdict_of(t, id), "text.tests: FAIL test_add");
}

/* Symptom: neither half of the line was known, and the step was tried again in vain. */
TEST(runner_verdict, SH_5_an_error_that_the_other_stream_cuts_in_two_is_recognised)
{
    tend *t = store_open_real("w");
    int64_t id =
        add_plan(t, "{\"run\":\"printf 'cp: /etc/x: Permission ' >&2; printf 'built 1 of '; "
                    "echo denied >&2; echo 2; exit 1\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(verdict_of(t, id), "text.auth: cp: /etc/x: Permission denied");
}

/* Symptom: 9, 8 and 7 failing tests were the same failure, and the step was stuck. */
TEST(runner_verdict, SH_3_fewer_failing_tests_are_progress)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(
        t, "{\"run\":\"echo x >> tries; n=$((9 - $(wc -l < tries))); [ $n -gt 5 ] || exit 0; "
           "echo \\\"3 passed, $n failed\\\"; exit 1\",\"attempts\":9,\"no_progress_limit\":1,"
           "\"pause\":\"0s\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("tries"), "x\nx\nx\nx\n");
}

/* How the attempts of an agent end that cannot mend its failure and first prints something, from
 * the second attempt on. */
static const char *attempts_of_agent(tend *t, const char *prints)
{
    int64_t id = add_plan(
        t, keep_text("{\"objective\":\"mend the widget\",\"run\":\"test -z $TEND_RETRY_CONTEXT || "
                     "{ %s; }; echo ERROR: could not fix widget >&2; exit 1\",\"attempts\":5,"
                     "\"pause\":\"0s\"}",
                     prints));
    run_until_drained(t);
    return attempts_of(t, id);
}

/* Symptom: what an agent was told about its last failure was taken for a new one, so that it was
 * never stuck. */
TEST(runner_verdict, SH_3_an_agent_that_prints_its_retry_context_is_stuck_as_soon_as_a_silent_one)
{
    static const char *const ways[] = {
        "cat $TEND_RETRY_CONTEXT",
        "sed 's/^/> /' $TEND_RETRY_CONTEXT",
        "sed 's/^/12:00:01 agent: /' $TEND_RETRY_CONTEXT",
        "tr -d '\\\\n' < $TEND_RETRY_CONTEXT; echo",
        "echo told: $(cat $TEND_RETRY_CONTEXT)",
    };
    tend *t = store_open_real("w");
    const char *silent = attempts_of_agent(t, ":");
    check_str(silent,
              "1:failed:transient_runtime:unknown 2:failed:stuck_no_progress:unknown.again");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        check_str(attempts_of_agent(t, ways[i]), silent);
}

/* What a step leaves is given a second, in which its time may run out. Symptom: the wall timeout
 * "ended" a step that had succeeded, and it paid again. */
TEST(runner_verdict, SH_2_a_step_has_ended_when_its_first_process_has)
{
    tend *t = store_open_real("w");
    int64_t paid = add_plan(t, "{\"run\":\"echo paid >> f; sleep 0.5; (trap '' TERM; sleep 20) & "
                               "exit 0\",\"timeout\":\"1.2s\",\"grace\":\"10s\"}");
    int64_t failed = add_plan(t, "{\"run\":\"sleep 0.5; (trap '' TERM; sleep 20) & exit 64\","
                                 "\"timeout\":\"1.2s\",\"grace\":\"10s\"}");
    run_until_drained(t);
    check_str(attempts_of(t, paid), "1:succeeded::");
    check_str(file_text("f"), "paid\n");
    check_str(attempts_of(t, failed), "1:failed:deterministic_contract:exit.64");
}
