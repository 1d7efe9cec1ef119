/* Which folders of jobs are needed, and for how long (SH-7, RC-14). */
#include "core/keep.h"

#include "core/state.h"
#include "support/test.h"

enum { NOW = 1000000, KEEP = 1000 };

static struct keep_job job_with(int state, int64_t token)
{
    return (struct keep_job){
        .known = true, .state = state, .token = token, .changed_at_ms = NOW, .keep_ms = KEEP};
}

static enum keep_fate fate(struct keep_job job, struct keep_lease lease, enum keep_why why)
{
    lease.why = why;
    return keep_fate(&job, &lease, NOW);
}

TEST(keep, a_folder_whose_lease_is_held_is_in_use_whatever_else_is_known)
{
    struct keep_lease lease = {.token = 7};
    check_int(fate(job_with(JOB_RUNNING, 7), lease, KEEP_NOT), ==, FATE_IN_USE);
    lease.may_live_here = lease.may_live_elsewhere = true;
    check_int(fate(job_with(JOB_RUNNING, 7), lease, KEEP_RESET), ==, FATE_IN_USE);
}

TEST(keep, a_folder_of_a_lease_that_has_ended_is_garbage_in_every_state)
{
    const struct keep_lease lease = {.token = 6};
    for (int state = 0; state < JOB_STATES; state++)
        check_int(fate(job_with(state, 7), lease, KEEP_NOT), ==, FATE_GARBAGE);
}

/* RC-14: not before its processes are gone. */
TEST(keep, RC_14_processes_that_may_live_keep_a_folder)
{
    struct keep_lease lease = {.token = 6, .may_live_elsewhere = true};
    check_int(fate(job_with(JOB_DONE, 7), lease, KEEP_NOT), ==, FATE_ELSEWHERE);
    lease = (struct keep_lease){.token = 6, .may_live_here = true};
    check_int(fate(job_with(JOB_DONE, 7), lease, KEEP_NOT), ==, FATE_ORPHANED);
    lease.attended = true; /* its worker still stops them */
    check_int(fate(job_with(JOB_CANCELLED, 7), lease, KEEP_NOT), ==, FATE_IN_USE);
}

/* Symptom: after a change of the host's name its workspaces were left for ever. */
TEST(keep, a_machine_of_which_nothing_was_heard_for_a_day_is_not_waited_for)
{
    struct keep_lease lease = {.token = 6, .may_live_elsewhere = true};
    struct keep_job job = job_with(JOB_DONE, 7);
    job.changed_at_ms = NOW - KEEP_ELSEWHERE_MS + 1;
    check_int(fate(job, lease, KEEP_NOT), ==, FATE_ELSEWHERE);
    job.changed_at_ms--;
    check_int(fate(job, lease, KEEP_NOT), ==, FATE_GARBAGE);
    job.keep_ms = KEEP_ELSEWHERE_MS * 2LL; /* longer */
    check_int(fate(job, lease, KEEP_NOT), ==, FATE_ELSEWHERE);
    job.keep_ms = KEEP;
    lease.attended = true;
    check_int(fate(job, lease, KEEP_NOT), ==, FATE_ELSEWHERE);
}

TEST(keep, a_token_that_was_not_given_out_yet_is_left_alone)
{
    const struct keep_lease lease = {.token = 8};
    check_int(fate(job_with(JOB_RUNNING, 7), lease, KEEP_NOT), ==, FATE_ELSEWHERE);
}

/* A copy of a store has its marker, and not what it has given out since. */
TEST(keep, an_id_that_was_not_given_out_yet_is_left_alone)
{
    const struct keep_lease lease = {.token = 6};
    check_int(fate((struct keep_job){.known = false}, lease, KEEP_NOT), ==, FATE_ELSEWHERE);
}

TEST(keep, a_folder_that_a_runner_has_locked_is_in_use_whatever_else_is_known)
{
    const struct keep_lease lease = {.token = 6, .locked = true};
    check_int(fate((struct keep_job){.given = true}, lease, KEEP_NOT), ==, FATE_IN_USE);
    for (int state = 0; state < JOB_STATES; state++)
        check_int(fate(job_with(state, 7), lease, KEEP_NOT), ==, FATE_IN_USE);
}

TEST(keep, nothing_is_kept_of_a_job_that_was_deleted)
{
    struct keep_job job = {.known = false, .given = true};
    const struct keep_lease lease = {.token = 6};
    for (int why = KEEP_NOT; why <= KEEP_RESET; why++)
        check_int(fate(job, lease, (enum keep_why)why), ==, FATE_GARBAGE);
}

TEST(keep, a_failed_workspace_is_kept_from_the_end_of_its_attempt_on)
{
    struct keep_lease lease = {.token = 6, .failed_at_ms = NOW - KEEP + 1};
    check_int(fate(job_with(JOB_FAILED, 7), lease, KEEP_FAILED), ==, FATE_KEPT);
    check_int(fate(job_with(JOB_DONE, 7), lease, KEEP_FAILED), ==, FATE_KEPT);
    lease.failed_at_ms--;
    check_int(fate(job_with(JOB_FAILED, 7), lease, KEEP_FAILED), ==, FATE_GARBAGE);
    struct keep_job for_ever = job_with(JOB_FAILED, 7);
    for_ever.keep_ms = -1;
    check_int(fate(for_ever, lease, KEEP_FAILED), ==, FATE_KEPT);
    struct keep_job not_at_all = job_with(JOB_FAILED, 7);
    not_at_all.keep_ms = 0;
    check_int(fate(not_at_all, lease, KEEP_FAILED), ==, FATE_GARBAGE);
}

TEST(keep, what_was_taken_over_is_kept_while_the_job_is_held_and_a_while_after)
{
    const struct keep_lease lease = {.token = 6};
    struct keep_job job = job_with(JOB_HELD, 7);
    job.stopped_token = 6;
    job.changed_at_ms = 0;
    check_int(fate(job, lease, KEEP_TAKEN_OVER), ==, FATE_KEPT);
    job.stopped_token = 5; /* held again, under a later lease */
    check_int(fate(job, lease, KEEP_TAKEN_OVER), ==, FATE_GARBAGE);
    job.changed_at_ms = NOW - KEEP + 1;
    check_int(fate(job, lease, KEEP_TAKEN_OVER), ==, FATE_KEPT);
}

/* SH-7: the workspace before a reset. */
TEST(keep, SH_7_a_workspace_before_a_reset_goes_when_the_job_is_done)
{
    const struct keep_lease lease = {.token = 6};
    check_int(fate(job_with(JOB_PENDING, 7), lease, KEEP_RESET), ==, FATE_KEPT);
    check_int(fate(job_with(JOB_RUNNING, 7), lease, KEEP_RESET), ==, FATE_KEPT);
    check_int(fate(job_with(JOB_DONE, 7), lease, KEEP_RESET), ==, FATE_GARBAGE);
}

TEST(keep, every_reason_comes_back_by_its_name)
{
    for (int why = KEEP_NOT; why <= KEEP_RESET; why++)
        check_int(keep_why_parse(keep_why_name((enum keep_why)why)), ==, why);
    check_int(keep_why_parse("something else"), ==, KEEP_NOT);
}
