/* What is kept of failed attempts, and an operator's edits (SH-7, SH-9, SH-10, BY-4). */
#include "steps.h"

#include <stdlib.h>

static void fail_with(tend *t, struct tend_lease lease, const char *workspace,
                      const struct tend_changes *changes, bool final)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = final;
    failure.retry_in_ms = 0;
    const struct tend_attempt_end end =
        end_of(begin_step(t, lease, 1, "build"), TEND_ATTEMPT_FAILED);
    const struct tend_step_change change = {.ended = &end};
    const struct tend_step_close close = {
        .how = TEND_STEPS_FAIL, .failure = &failure, .workspace = workspace, .changes = changes};
    for (int i = 0; i < 2; i++) /* the second: its answer was lost */
        check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
}

static struct tend_keeps *keeps_of(tend *t, int64_t job_id)
{
    struct tend_keeps *keeps;
    check_ok(t, tend_keeps(t, job_id, &keeps));
    return keeps;
}

static struct tend_changes changes_of(const char *patch)
{
    return (struct tend_changes){
        .patch = patch, .patch_bytes = strlen(patch), .changed_files = "[\"a.c\"]"};
}

TEST(keep, SH_9_the_attempt_that_gives_a_job_up_leaves_its_patch_and_its_workspace)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_changes changes = changes_of("diff --git a/a.c b/a.c\n");
    struct tend_patch *patch;
    changes.dropped_bytes = 5;
    fail_with(t, lease, "/work/space", &changes, true);
    int64_t ended = clock_now();
    struct tend_keeps *keeps = keeps_of(t, lease.id);
    check_int(keeps->count, ==, 1);
    check_int(keeps->items[0].number, ==, 1);
    check_str(keeps->items[0].step_id, "build");
    check_int(keeps->items[0].state, ==, TEND_ATTEMPT_FAILED);
    check_str(keeps->items[0].workspace, "/work/space");
    check(keeps->items[0].there);
    check_int(keeps->items[0].until_ms, ==, ended + DAY_MS);
    check_int(keeps->items[0].patch_bytes, ==, (int64_t)changes.patch_bytes);
    check_int(keeps->items[0].dropped_bytes, ==, 5);
    check_str(keeps->items[0].changed_files, "[\"a.c\"]");
    tend_keeps_free(keeps);
    check_ok(t, tend_keep_patch(t, lease.id, 1, &patch));
    check_int(patch->bytes, ==, changes.patch_bytes);
    check(memcmp(patch->data, changes.patch, patch->bytes) == 0);
    tend_patch_free(patch);
    check_rc(t, tend_keep_patch(t, lease.id, 2, &patch), TEND_ENOTFOUND);
    clock_advance(DAY_MS);
    keeps = keeps_of(t, lease.id);
    check(!keeps->items[0].there);
    tend_keeps_free(keeps);
    set_queue(t, "q", "keep-workspace", "none");
    keeps = keeps_of(t, lease.id);
    check(keeps->items[0].there);
    check_int(keeps->items[0].until_ms, ==, TEND_UNSET);
    tend_keeps_free(keeps);
}

/* On PostgreSQL what is large is sent before the job's row is locked; nothing else stays. */
TEST(keep, SH_9_a_large_patch_is_kept_whole_and_only_the_newest_ones_are)
{
    enum { LARGE = TEND_KEPT_PATCH_BYTES_MAX, FAILURES = 4 };
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_patch *kept;
    char *large = malloc(LARGE);
    spec.payload = "{\"steps\":" THREE_STEPS "}";
    spec.max_attempts = FAILURES;
    int64_t id = add_spec(t, &spec);
    memset(large, 'x', LARGE);
    for (int i = 1; i <= FAILURES; i++) {
        struct tend_changes changes = {.patch = large, .patch_bytes = LARGE};
        large[0] = (char)('0' + i);
        fail_with(t, claim_as(t, "q", "owner"), keep_text("/w/%d", i), &changes, false);
    }
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(sql_rows("SELECT number FROM attempt_patch ORDER BY number"), "3\n4\n");
    check_ok(t, tend_keep_patch(t, id, 4, &kept));
    check_int(kept->bytes, ==, LARGE);
    check_int(*(const char *)kept->data, ==, '4');
    tend_patch_free(kept);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, FAILURES);
    for (int i = 0; i < FAILURES; i++)
        check_int(keeps->items[i].there, ==, i >= 2);
    tend_keeps_free(keeps);
    free(large);
}

TEST(keep, what_is_too_large_or_no_list_is_refused_and_changes_nothing)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_failure failure;
    struct tend_changes changes = {.patch = "x", .patch_bytes = TEND_KEPT_PATCH_BYTES_MAX + 1};
    const struct tend_step_close close = {
        .how = TEND_STEPS_FAIL, .failure = &failure, .changes = &changes};
    const char *before = store_snapshot();
    tend_failure_init(&failure);
    check_rc(t, tend_step_finish(t, lease, NULL, &close, NULL), TEND_EINVAL);
    changes = (struct tend_changes){.patch = "x", .patch_bytes = 1, .changed_files = "[a]"};
    check_rc(t, tend_step_finish(t, lease, NULL, &close, NULL), TEND_EINVAL);
    changes = (struct tend_changes){.patch_bytes = 1};
    check_rc(t, tend_step_finish(t, lease, NULL, &close, NULL), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

static struct tend_lease hold(tend *t, const char *workspace)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    pass_step(t, lease, 1, "build");
    const struct tend_attempt_end end =
        end_of(begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_STOPPED);
    const struct tend_step_change change = {.ended = &end};
    const struct tend_step_close close = {.how = TEND_STEPS_HOLD, .workspace = workspace};
    check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
    check_int(state_of(t, lease.id), ==, TEND_HELD);
    return lease;
}

TEST(keep, SH_12_a_workspace_that_was_taken_over_is_there_while_the_job_is_held)
{
    tend *t = store_open("w");
    int64_t id = hold(t, "/held").id;
    clock_advance(100 * DAY_MS);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, 1);
    check_str(keeps->items[0].workspace, "/held");
    check_int(keeps->items[0].patch_bytes, ==, TEND_UNSET);
    check(keeps->items[0].there);
    check_int(keeps->items[0].until_ms, ==, TEND_UNSET);
    tend_keeps_free(keeps);
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    keeps = keeps_of(t, id);
    check(keeps->items[0].there);
    check_int(keeps->items[0].until_ms, ==, clock_now() + DAY_MS);
    tend_keeps_free(keeps);
}

/* --- edits --- */

static void check_edit(tend *t, int64_t job_id, int64_t step, const char *patch, size_t bytes)
{
    struct tend_edit *edit;
    check_ok(t, tend_edit_get(t, job_id, &edit));
    check_int(edit->step_index, ==, step);
    check_int(edit->changes.patch_bytes, ==, bytes);
    check(memcmp(edit->changes.patch, patch, bytes) == 0);
    check_str(edit->by, "me");
    tend_edit_free(edit);
}

static void check_no_edit(tend *t, int64_t job_id)
{
    struct tend_edit *edit;
    check_rc(t, tend_edit_get(t, job_id, &edit), TEND_ENOTFOUND);
    check_int(sql_int("SELECT count(*) FROM edit"), ==, 0);
}

static int64_t version_of(tend *t, int64_t id)
{
    struct tend_jobs *job;
    check_ok(t, tend_get(t, id, &job));
    int64_t version = job->items[0].version;
    tend_jobs_free(job);
    return version;
}

TEST(edit, SH_12_edits_are_stored_with_the_resume_for_the_step_the_job_has_come_to)
{
    tend *t = store_open("w");
    int64_t id = hold(t, "/held").id;
    const struct tend_changes edits = changes_of("diff --git a/a.c b/a.c\n");
    struct tend_control_result result;
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, "repaired", "me", &result));
    check_int(result.state, ==, TEND_PENDING);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_edit(t, id, 2, edits.patch, edits.patch_bytes);
    check_contains(events_of(t, id), "task.control.resume task.edits.kept job.resumed");
    check_contains(data_of(id, "task.edits.kept"), "\"stepIndex\":2");
    /* Only a held job is resumed so; nothing is stored then. */
    const char *before = store_snapshot();
    check_rc(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL),
             TEND_ESTATE);
    check_contains(tend_errmsg(t), "it is pending, not held");
    check_rc(t, tend_resume_edited(t, 99999, version_of(t, id), &edits, NULL, "me", NULL),
             TEND_ENOTFOUND);
    check_str(store_snapshot(), before);
}

/* Symptom: while an operator's edits were compared with the checkpoints, another operator sent the
 * job back to its first step and held it again; the edits were stored for the wrong step. */
TEST(edit, edits_of_a_job_that_has_changed_meanwhile_are_refused)
{
    tend *t = store_open("w");
    int64_t id = hold(t, "/held").id;
    const struct tend_changes edits = changes_of("diff --git a/a.c b/a.c\n");
    int64_t version = version_of(t, id);
    check_ok(t, tend_control(t, id, "resume_from_step", "build", NULL, "other", NULL));
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    const char *before = store_snapshot();
    check_rc(t, tend_resume_edited(t, id, version, &edits, NULL, "me", NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "has changed since its edits were looked for");
    check_str(store_snapshot(), before);
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
    check_edit(t, id, 1, edits.patch, edits.patch_bytes);
}

TEST(edit, large_edits_are_kept_whole_replace_earlier_ones_and_an_empty_patch_removes_them)
{
    enum { LARGE = 300000 };
    tend *t = store_open("w");
    int64_t id = hold(t, NULL).id;
    char *large = malloc(LARGE);
    memset(large, 'y', LARGE);
    struct tend_changes edits = {.patch = large, .patch_bytes = LARGE};
    for (int i = 0; i < 2; i++) {
        large[7] = (char)('0' + i);
        check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
        check_int(sql_int("SELECT count(*) FROM edit"), ==, 1);
        check_edit(t, id, 2, large, LARGE);
        check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    }
    edits.patch_bytes = 0;
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
    check_no_edit(t, id);
    edits.dropped_bytes = 1;
    check_rc(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL),
             TEND_EINVAL);
    free(large);
}

/* SH-9: they are part of it from then on. */
TEST(edit, SH_9_edits_go_when_the_checkpoint_of_their_step_takes_them_in)
{
    tend *t = store_open("w");
    const struct tend_changes edits = changes_of("diff\n");
    int64_t id = hold(t, NULL).id;
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
    struct tend_lease lease = claim_as(t, "q", "owner");
    struct tend_attempt_end end = end_of(begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_SUCCEEDED);
    end.patch = "diff\n";
    end.patch_bytes = 5;
    end.with_edits = 1;
    const struct tend_step_change change = {.ended = &end};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_no_edit(t, id);
}

TEST(edit, edits_stay_when_the_step_begins_anew_and_go_when_the_job_goes_back_before_it)
{
    tend *t = store_open("w");
    const struct tend_changes edits = changes_of("diff\n");
    struct tend_control_result result;
    int64_t id = hold(t, NULL).id;
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
    check_ok(t, tend_control(t, id, "hard_reset_step", NULL, NULL, "me", &result));
    check_ok(t, tend_control(t, id, "resume_from_step", "step-2", NULL, "me", &result));
    check_edit(t, id, 2, edits.patch, edits.patch_bytes);
    check_ok(t, tend_control(t, id, "resume_from_step", "build", NULL, "me", &result));
    check_no_edit(t, id);
}

TEST(keep, BY_4_retention_deletes_what_is_kept_with_the_job)
{
    tend *t = store_open("w");
    const struct tend_changes edits = changes_of("diff\n");
    struct tend_purged gone;
    set_queue(t, "q", "keep-done", "1h");
    set_queue(t, "q", "keep-failed", "1h");
    fail_with(t, lease_with_steps(t, THREE_STEPS), "/w", &edits, true);
    int64_t id = hold(t, "/held").id;
    check_ok(t, tend_resume_edited(t, id, version_of(t, id), &edits, NULL, "me", NULL));
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    clock_advance(HOUR_MS);
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, 2);
    check_int(sql_int("SELECT count(*) FROM attempt_patch"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM edit"), ==, 0);
}
