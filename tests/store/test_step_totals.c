/*
 * Figures of steps (SH-14): each attempt counts as its verdict says, whatever became of its job,
 * and goes on counting when its job has been deleted.
 */
#include "steps.h"

static const char *totals_of(tend *t)
{
    struct tend_step_totals *totals;
    const char *text = "";
    check_ok(t, tend_step_totals(t, &totals));
    for (size_t i = 0; i < totals->count; i++) {
        const struct tend_step_total *total = &totals->items[i];
        text = keep_text("%s%s,%s,%s:%lld ms=%lld idle=%lld wall=%lld alike=%lld\n", text,
                         total->failure_class, total->strategy, total->outcome,
                         (long long)total->count, (long long)total->duration_ms,
                         (long long)total->idle_timeouts, (long long)total->wall_timeouts,
                         (long long)total->no_progress);
    }
    tend_step_totals_free(totals);
    return text;
}

/* An attempt of 10 ms. */
static void attempt(tend *t, struct tend_lease lease, int64_t number, const char *strategy,
                    struct tend_attempt_end ended)
{
    static int64_t begun_number;
    const struct tend_attempt_begin begun = begin_at(1, "build", number, strategy);
    const struct tend_step_change begins = {.begun = &begun};
    check_ok(t, tend_step_next(t, lease, &begins, &begun_number));
    clock_advance(10);
    ended.number = begun_number;
    const struct tend_step_change ends = {.ended = &ended};
    check_ok(t, tend_step_next(t, lease, &ends, NULL));
}

static struct tend_attempt_end failed(const char *class, const char *verdict)
{
    struct tend_attempt_end end = end_of(1, TEND_ATTEMPT_FAILED);
    end.failure_class = class;
    end.verdict = verdict;
    return end;
}

static struct tend_attempt_end succeeded(const char *verdict)
{
    struct tend_attempt_end end = end_of(1, TEND_ATTEMPT_SUCCEEDED);
    end.verdict = verdict;
    return end;
}

/* A step that times out, is paused, stopped and lost, and then recovers. */
static void recovers(tend *t)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end late = failed("transient_runtime", "soft_reset");
    late.timeout = "idle";
    attempt(t, lease, 1, "first", late);
    const struct tend_step_close hold = {.how = TEND_STEPS_HOLD};
    check_ok(t, tend_step_finish(t, lease, NULL, &hold, NULL));
    check_ok(t, tend_act(t, TEND_RESUME, lease.id, NULL, NULL));
    lease = claim_as(t, "q", "other");
    attempt(t, lease, 2, "soft_reset", end_of(1, TEND_ATTEMPT_STOPPED));
    attempt(t, lease, 2, "soft_reset", succeeded("recovered"));
    complete_job(t, lease);
}

static void is_exhausted(tend *t)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end late = failed("transient_runtime", "soft_reset");
    late.timeout = "wall";
    attempt(t, lease, 1, "first", late);
    struct tend_attempt_end alike = failed("stuck_no_progress", "hard_reset");
    alike.no_progress = 1;
    attempt(t, lease, 2, "soft_reset", alike);
    alike.verdict = "exhausted";
    attempt(t, lease, 3, "hard_reset", alike);
    fail_job(t, lease);
}

static void fails_and_is_redriven(tend *t)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    attempt(t, lease, 1, "first", failed("deterministic_contract", "failed"));
    fail_job(t, lease);
    check_ok(t, tend_act(t, TEND_REDRIVE, lease.id, NULL, NULL));
    lease = claim_as(t, "q", "other");
    attempt(t, lease, 1, "first", succeeded(NULL));
    complete_job(t, lease);
}

TEST(step_totals, SH_14_attempts_count_by_their_verdict_and_stay_counted_when_their_job_is_deleted)
{
    static const char expected[] =
        ",first,succeeded:1 ms=10 idle=0 wall=0 alike=0\n"
        "deterministic_contract,none,failed:1 ms=10 idle=0 wall=0 alike=0\n"
        "stuck_no_progress,hard_reset,retried:1 ms=10 idle=0 wall=0 alike=1\n"
        "stuck_no_progress,none,exhausted:1 ms=10 idle=0 wall=0 alike=1\n"
        "transient_runtime,soft_reset,recovered:1 ms=10 idle=0 wall=0 alike=0\n"
        "transient_runtime,soft_reset,retried:2 ms=20 idle=1 wall=1 alike=0\n";
    tend *t = store_open("w");
    check_str(totals_of(t), "");
    recovers(t);
    is_exhausted(t);
    fails_and_is_redriven(t);
    check_str(totals_of(t), expected);
    struct tend_purged gone;
    clock_advance(8 * DAY_MS);
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, 2);
    check_str(totals_of(t), expected);
    set_queue(t, "q", "keep-failed", "1h");
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, 1);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, 0);
    check_str(totals_of(t), expected);
    recovers(t);
    check_contains(totals_of(t), "transient_runtime,soft_reset,recovered:2 ms=20 ");
    clock_advance(8 * DAY_MS);
    check_ok(t, tend_purge(t, &gone));
    check_contains(totals_of(t), "transient_runtime,soft_reset,recovered:2 ms=20 ");
}

TEST(step_totals, a_verdict_that_does_not_fit_is_refused)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end wrong[] = {failed("transient_runtime", "recovered"),
                                       failed("transient_runtime", "hope"), succeeded("exhausted"),
                                       succeeded(NULL)};
    wrong[3].timeout = "soon";
    begin_step(t, lease, 1, "build");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct tend_step_change change = {.ended = &wrong[i]};
        check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
    }
}
