/* Checkpoints (SH-9, SH-10): what a step that succeeded leaves, byte for byte, and when it goes. */
#include "steps.h"

#include <stdlib.h>

static void succeed_with(tend *t, struct tend_lease lease, int64_t step_index, const char *step_id,
                         struct tend_attempt_end *end)
{
    end->number = begin_step(t, lease, step_index, step_id);
    end->state = TEND_ATTEMPT_SUCCEEDED;
    const struct tend_step_change change = {.ended = end};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
}

static struct tend_checkpoints *checkpoints_of(tend *t, int64_t job_id)
{
    struct tend_checkpoints *checkpoints;
    check_ok(t, tend_checkpoints(t, job_id, &checkpoints));
    return checkpoints;
}

TEST(checkpoint, SH_9_a_step_that_succeeds_leaves_a_checkpoint_and_others_do_not)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    end.diff_hash = "d1";
    end.changed_files = "[\"a.c\",\"ä.c\"]";
    end.outputs = "{\"version\": \"1.2\"}";
    end.patch = "diff --git";
    end.patch_bytes = 10;
    clock_advance(3);
    succeed_with(t, lease, 1, "build", &end);
    end_step(t, lease, begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_FAILED);
    end_step(t, lease, begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_STOPPED);
    struct tend_checkpoints *checkpoints = checkpoints_of(t, lease.id);
    check_int(checkpoints->count, ==, 1);
    const struct tend_checkpoint *one = &checkpoints->items[0];
    check_int(one->step_index, ==, 1);
    check_str(one->step_id, "build");
    check_int(one->number, ==, 1);
    check_int(one->at_ms, ==, clock_now());
    check_str(one->diff_hash, "d1");
    check_str(one->changed_files, "[\"a.c\",\"ä.c\"]");
    check_str(one->outputs, "{\"version\": \"1.2\"}");
    check_int(one->patch_bytes, ==, 10);
    check_str(one->repo, NULL);
    check_str(one->commit, NULL);
    tend_checkpoints_free(checkpoints);
}

static void check_patch(tend *t, int64_t job_id, int64_t step, const void *data, size_t bytes)
{
    struct tend_patch *patch;
    check_ok(t, tend_checkpoint_patch(t, job_id, step, &patch));
    check_int(patch->bytes, ==, bytes);
    check((data == NULL) == (patch->data == NULL));
    check(data == NULL || memcmp(patch->data, data, bytes) == 0);
    tend_patch_free(patch);
}

/* A large report is sent in parts on PostgreSQL, before the job's row is locked; what comes of it
 * is the same, and nothing else stays. */
TEST(checkpoint, SH_9_a_large_report_is_kept_whole_and_leaves_nothing_else)
{
    enum { LARGE = 300000 };
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    char *patch = malloc(LARGE);
    char *text = malloc(LARGE + 1);
    struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    for (int i = 0; i < LARGE; i++)
        patch[i] = (char)(i * 7 % 251);
    memset(text, 'x', LARGE);
    text[0] = text[LARGE - 1] = '"';
    text[LARGE] = '\0';
    end.diff_hash = "d1";
    end.changed_files = "[\"a.c\"]";
    end.outputs = text;
    end.patch = patch;
    end.patch_bytes = LARGE;
    succeed_with(t, lease, 1, "build", &end);
    /* The same told again, and once more by a step that takes its place. */
    const struct tend_step_change again = {.ended = &end};
    check_ok(t, tend_step_next(t, lease, &again, NULL));
    patch[5] = 'y';
    succeed_with(t, lease, 1, "build", &end);
    check_int(sql_int("SELECT count(*) FROM checkpoint"), ==, 1);
    check_patch(t, lease.id, 1, patch, LARGE);
    struct tend_checkpoints *checkpoints = checkpoints_of(t, lease.id);
    check_int(checkpoints->items[0].number, ==, 2);
    check_str(checkpoints->items[0].diff_hash, "d1");
    check_str(checkpoints->items[0].changed_files, "[\"a.c\"]");
    check_str(checkpoints->items[0].outputs, text);
    tend_checkpoints_free(checkpoints);
    /* The last step, and the result of the job along with it; then told again. */
    end.number = begin_step(t, lease, 2, "step-2");
    const struct tend_step_close close = {.how = TEND_STEPS_COMPLETE, .result = text};
    for (int i = 0; i < 2; i++)
        check_ok(t, tend_step_finish(t, lease, &again, &close, NULL));
    check_int(state_of(t, lease.id), ==, TEND_DONE);
    check_str(job_of(t, lease.id)->result, text);
    check_patch(t, lease.id, 2, patch, LARGE);
    check_int(sql_int("SELECT count(*) FROM checkpoint"), ==, 2);
    check_int(count_events("job.completed"), ==, 1);
    free(patch);
    free(text);
}

TEST(checkpoint, a_patch_comes_back_byte_for_byte)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    enum { LARGE = 10 * 1024 * 1024 };
    unsigned char every_byte[256];
    unsigned char *large = malloc(LARGE);
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof every_byte; i++)
        every_byte[i] = (unsigned char)i;
    for (size_t i = 0; i < LARGE; i++) {
        state = state * 1664525u + 1013904223u;
        large[i] = (unsigned char)(state >> 24);
    }
    const struct {
        const void *data;
        size_t bytes;
    } patches[] = {{NULL, 0}, {"", 0}, {every_byte, 256}, {large, LARGE}, {"\\x6162", 6}};
    for (size_t i = 0; i < 5; i++) {
        struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
        end.patch = patches[i].data;
        end.patch_bytes = patches[i].bytes;
        succeed_with(t, lease, (int64_t)i + 1, keep_text("s%zu", i), &end);
    }
    for (size_t i = 0; i < 5; i++)
        check_patch(t, lease.id, (int64_t)i + 1, patches[i].data, patches[i].bytes);
    struct tend_checkpoints *checkpoints = checkpoints_of(t, lease.id);
    check_int(checkpoints->items[0].patch_bytes, ==, TEND_UNSET);
    check_int(checkpoints->items[1].patch_bytes, ==, 0);
    check_int(checkpoints->items[3].patch_bytes, ==, LARGE);
    tend_checkpoints_free(checkpoints);
    free(large);
}

TEST(checkpoint, a_patch_that_is_not_there_is_not_found)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_patch *patch = NULL;
    check_rc(t, tend_checkpoint_patch(t, lease.id, 1, &patch), TEND_ENOTFOUND);
    check(patch == NULL);
    struct tend_checkpoints *checkpoints = checkpoints_of(t, 424242);
    check_int(checkpoints->count, ==, 0);
    tend_checkpoints_free(checkpoints);
}

TEST(checkpoint, a_patch_that_is_too_large_is_refused)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end end = end_of(begin_step(t, lease, 1, "build"), TEND_ATTEMPT_SUCCEEDED);
    end.patch = "never read";
    end.patch_bytes = (size_t)TEND_PATCH_BYTES_MAX + 1;
    const struct tend_step_change change = {.ended = &end};
    check_rc(t, tend_step_next(t, lease, &change, NULL), TEND_EINVAL);
    check_str(steps_done(lease.id), "");
}

/* The baseline is what all patches apply to: who comes later builds on the first. */
TEST(checkpoint, SH_10_the_baseline_is_told_once_and_stays)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_attempt_begin begun = begin_at(1, "build", 1, NULL);
    const struct tend_step_change first = {
        .baseline_repo = "/srv/repo", .baseline_commit = "abc", .begun = &begun};
    const struct tend_step_change second = {.baseline_commit = "def"};
    check_ok(t, tend_step_next(t, lease, &first, NULL));
    check_ok(t, tend_step_next(t, lease, &second, NULL));
    struct tend_checkpoints *checkpoints = checkpoints_of(t, lease.id);
    check_int(checkpoints->count, ==, 1);
    check_int(checkpoints->items[0].step_index, ==, 0);
    check_str(checkpoints->items[0].repo, "/srv/repo");
    check_str(checkpoints->items[0].commit, "abc");
    check_int(checkpoints->items[0].patch_bytes, ==, TEND_UNSET);
    tend_checkpoints_free(checkpoints);
}

TEST(checkpoint, a_step_that_succeeds_again_replaces_its_checkpoint)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    end.patch = "one";
    end.patch_bytes = 3;
    end.outputs = "1";
    succeed_with(t, lease, 1, "build", &end);
    end.patch = "second";
    end.patch_bytes = 6;
    end.outputs = NULL;
    succeed_with(t, lease, 1, "build", &end);
    struct tend_checkpoints *checkpoints = checkpoints_of(t, lease.id);
    check_int(checkpoints->count, ==, 1);
    check_int(checkpoints->items[0].number, ==, 2);
    check_str(checkpoints->items[0].outputs, NULL);
    tend_checkpoints_free(checkpoints);
    check_patch(t, lease.id, 1, "second", 6);
}

TEST(checkpoint, those_from_a_step_on_are_dropped_with_the_next_report)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    const struct tend_step_change base = {.baseline_commit = "abc"};
    check_ok(t, tend_step_next(t, lease, &base, NULL));
    pass_step(t, lease, 1, "build");
    pass_step(t, lease, 2, "step-2");
    pass_step(t, lease, 3, "ship");
    check_str(steps_done(lease.id), "0 1 2 3 ");
    const struct tend_attempt_begin begun = begin_at(2, "step-2", 1, NULL);
    const struct tend_step_change change = {.drop_from_step = 2, .begun = &begun};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_str(steps_done(lease.id), "0 1 ");
    end_step(t, lease, 4, TEND_ATTEMPT_SUCCEEDED);
    check_str(steps_done(lease.id), "0 1 2 ");
}

/* Symptom: repeated after a lost answer, the call dropped the checkpoint it had left itself. */
TEST(checkpoint, dropping_and_succeeding_in_one_report_can_be_repeated)
{
    tend *t = store_open("w");
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    pass_step(t, lease, 1, "build");
    const struct tend_attempt_end ended =
        end_of(begin_step(t, lease, 2, "step-2"), TEND_ATTEMPT_SUCCEEDED);
    const struct tend_step_event event = {
        .what = "task.resume.from_step", .step_index = 2, .step_id = "step-2"};
    const struct tend_step_change change = {
        .drop_from_step = 2, .ended = &ended, .events = &event, .event_count = 1};
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_str(steps_done(lease.id), "1 2 ");
    const char *before = store_snapshot();
    check_ok(t, tend_step_next(t, lease, &change, NULL));
    check_str(store_snapshot(), before);
}

/* A job with a key, its first step done, waiting again. */
static int64_t waiting_with_key(tend *t, struct tend_job_spec *spec, const char *key)
{
    *spec = spec_for("q");
    spec->unique_key = key;
    spec->payload = "{\"steps\":[{\"id\":\"build\"},{\"id\":\"test\"}]}";
    int64_t id = add_spec(t, spec);
    struct tend_lease lease = claim_as(t, "q", "owner");
    const struct tend_step_change base = {.baseline_commit = "abc"};
    check_ok(t, tend_step_next(t, lease, &base, NULL));
    pass_step(t, lease, 1, "build");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    return id;
}

/* CL-7, SH-10: what was done for one payload is not taken for work on another. */
TEST(checkpoint, a_refresh_with_another_payload_begins_anew)
{
    tend *t = store_open("w");
    struct tend_job_spec spec;
    struct tend_added added;
    int64_t id = waiting_with_key(t, &spec, "k");
    check_str(steps_done(id), "0 1 ");
    check_ok(t, tend_add(t, &spec, &added)); /* the same once more */
    check_int(added.outcome, ==, TEND_REFRESHED);
    check_str(steps_done(id), "0 1 ");
    spec.payload = "{\"steps\":[{\"id\":\"test\"},{\"id\":\"build\"}]}";
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    check_str(steps_done(id), "");
    /* A step is where the new payload has it. */
    check_ok(t, tend_control(t, id, "resume_from_step", "test", NULL, NULL, NULL));
    check_rc(t, tend_control(t, id, "resume_from_step", "build", NULL, NULL, NULL), TEND_ESTATE);
}

/* While it runs its steps are its owner's; when it is held by then, they were for another payload.
 */
TEST(checkpoint, a_job_that_is_added_again_while_it_runs_keeps_its_checkpoints_until_the_run_ends)
{
    tend *t = store_open("w");
    struct tend_job_spec spec;
    struct tend_added added;
    int64_t id = waiting_with_key(t, &spec, "k");
    struct tend_lease lease = claim_as(t, "q", "owner");
    check_ok(t, tend_add(t, &spec, &added)); /* the same once more */
    check_int(added.outcome, ==, TEND_AGAIN);
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
    check_str(steps_done(id), "0 1 ");
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    lease = claim_as(t, "q", "owner");
    spec.payload = "1";
    check_ok(t, tend_add(t, &spec, &added));
    check_str(steps_done(id), "0 1 ");
    check_str(job_of(t, id)->payload, "{\"steps\":[{\"id\":\"build\"},{\"id\":\"test\"}]}");
    check_ok(t, tend_act(t, TEND_HOLD, lease.id, NULL, NULL));
    check_str(steps_done(id), "");
    check_str(job_of(t, id)->payload, "1");
}

/* SH-10: another machine needs nothing but the store. */
TEST(checkpoint, SH_10_a_successor_finds_all_that_was_done)
{
    tend *t = store_open("w");
    struct tend_lease lost = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end end = end_of(0, TEND_ATTEMPT_SUCCEEDED);
    end.patch = "p1";
    end.patch_bytes = 2;
    succeed_with(t, lost, 1, "build", &end);
    begin_step(t, lost, 2, "step-2");
    clock_advance(HOUR_MS);
    store_close(t);
    t = store_open("elsewhere");
    struct tend_lease taken = claim_one(t, "q");
    check_int(taken.id, ==, lost.id);
    check_patch(t, taken.id, 1, "p1", 2);
    check_str(steps_done(taken.id), "1 ");
}

/* --- retention --- */

static int64_t rows_of_steps(void)
{
    return sql_int("SELECT (SELECT count(*) FROM attempt) + (SELECT count(*) FROM checkpoint) + "
                   "(SELECT count(*) FROM output) + (SELECT count(*) FROM control)");
}

static void do_all(tend *t, struct tend_lease lease)
{
    const struct tend_output piece = {.seq = 1, .stream = 1, .text = "x", .text_bytes = 1};
    const struct tend_step_change base = {.baseline_commit = "abc"};
    check_ok(t, tend_step_next(t, lease, &base, NULL));
    int64_t number = begin_step(t, lease, 1, "build");
    check_ok(t, tend_output_append(t, lease, number, &piece, 1));
    check_ok(t, tend_control(t, lease.id, "pause", NULL, NULL, "ann", NULL));
    end_step(t, lease, number, TEND_ATTEMPT_SUCCEEDED);
    complete_job(t, lease);
}

TEST(checkpoint, a_purge_leaves_nothing_of_a_job_and_everything_of_others)
{
    tend *t = store_open("w");
    do_all(t, lease_with_steps(t, THREE_STEPS));
    do_all(t, lease_with_steps(t, THREE_STEPS));
    clock_advance(DAY_MS);
    struct tend_lease kept = lease_with_steps(t, THREE_STEPS);
    do_all(t, kept);
    check_int(rows_of_steps(), ==, 15);
    clock_advance(6 * DAY_MS);
    struct tend_purged gone;
    check_ok(t, tend_purge(t, &gone));
    check_int(gone.jobs, ==, 2);
    check_int(rows_of_steps(), ==, 5);
    check_str(steps_done(kept.id), "0 1 ");
    clock_advance(DAY_MS);
    check_ok(t, tend_purge(t, NULL));
    check_int(rows_of_steps(), ==, 0);
}
