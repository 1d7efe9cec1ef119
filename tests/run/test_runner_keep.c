/* What a runner keeps of failed attempts for people, and what it takes from them (SH-7, SH-9,
 * SH-10, SH-12, SH-15). */
#include "repo_case.h"
#include "runner_case.h"

#include "core/spec.h"
#include "run/changes.h"
#include "run/job_source.h"

#include <string.h>
#include <unistd.h>

static struct tend_keeps *keeps_of(tend *t, int64_t id)
{
    struct tend_keeps *keeps;
    check_ok(t, tend_keeps(t, id, &keeps));
    return keeps;
}

static const char *kept_patch(tend *t, int64_t id, int64_t number)
{
    struct tend_patch *patch;
    check_ok(t, tend_keep_patch(t, id, number, &patch));
    const char *text = keep_text("%.*s", (int)patch->bytes, (const char *)patch->data);
    tend_patch_free(patch);
    return text;
}

/* Symptom: a failed job's workspace was deleted, and nobody could see what the step had done. */
TEST(runner_keep, SH_9_what_a_failed_attempt_had_changed_can_be_seen)
{
    tend *t = store_open_real("w");
    make_repository();
    setenv("API_TOKEN", "s3cr3t-value-of-api", 1);
    int64_t id =
        add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo one > one\"},"
                                   "{\"id\":\"b\",\"run\":\"echo half > half; echo more >> kept; "
                                   "echo key=$API_TOKEN > key; exit 64\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, 1);
    const struct tend_keep *keep = &keeps->items[0];
    check_int(keep->number, ==, 2);
    check_str(keep->step_id, "b");
    check_str(keep->changed_files, "[\"half\",\"kept\",\"key\"]");
    check_int(keep->dropped_bytes, ==, 0);
    const char *patch = kept_patch(t, id, 2);
    check_contains(patch, "+half");
    check_contains(patch, "+more");
    check_contains(patch, "+key=[redacted]");
    check(strstr(patch, "s3cr3t") == NULL);
    check(strstr(patch, "one") == NULL); /* that is of the step before */
    check(keep->there);
    check_int(keep->until_ms, ==, keep->ended_at_ms + DAY_MS);
    check_str(file_text(keep_text("%s/half", keep->workspace)), "half\n");
    check_int(workspaces_of(id), ==, 1);
    tend_keeps_free(keeps);
}

/* The value looks like nothing, and only a step that never begins names it. */
TEST(runner_keep, SH_15_a_kept_patch_has_no_secret_that_the_plan_names)
{
    tend *t = store_open_real("w");
    make_repository();
    setenv("CREW", "plain words, commas", 1);
    int64_t id =
        add_plan(t, with_workspace("{\"run\":\"echo it is $CREW > note; exit 64\"},"
                                   "{\"run\":\"true\",\"env\":{\"C\":{\"env\":\"CREW\"}}}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(kept_patch(t, id, 1), "+it is [redacted]");
    check(strstr(kept_patch(t, id, 1), "plain words") == NULL);
}

TEST(runner_keep, a_job_that_changed_nothing_leaves_its_workspace_and_no_patch)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"touch ignored; exit 64\"}"));
    run_until_drained(t);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, 1);
    check_int(keeps->items[0].patch_bytes, ==, TEND_UNSET);
    check_int(access(keep_text("%s/ignored", keeps->items[0].workspace), F_OK), ==, 0);
    tend_keeps_free(keeps);
    /* One without a workspace leaves nothing. */
    id = add_plan(t, "{\"run\":\"exit 64\"}");
    run_until_drained(t);
    keeps = keeps_of(t, id);
    check_int(keeps->count, ==, 0);
    tend_keeps_free(keeps);
}

/* Symptom: a core dump beside the edits made the patch larger than a checkpoint may be; nothing was
 * kept, and `tend patch --failed` said that the job had changed nothing. */
TEST(runner_keep, a_file_that_is_no_text_is_named_and_takes_no_room_from_the_others)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"head -c 3000000 /dev/urandom > core.dump; "
                                            "echo precious >> kept; exit 64\"}"));
    run_until_drained(t);
    const char *patch = kept_patch(t, id, 1);
    check_contains(patch, "+precious");
    check_contains(patch, "Binary files /dev/null and b/core.dump differ");
    struct tend_keeps *keeps = keeps_of(t, id);
    check_str(keeps->items[0].changed_files, "[\"core.dump\",\"kept\"]");
    check_int(keeps->items[0].dropped_bytes, ==, 0);
    tend_keeps_free(keeps);
}

TEST(runner_keep, of_a_long_patch_the_beginning_is_kept_and_the_rest_counted)
{
    enum { LINES = 400000, LINE_BYTES = 8 };
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"yes 1234567 | head -n 400000 > long; "
                                            "exit 64\"}"));
    run_until_drained(t);
    struct tend_keeps *keeps = keeps_of(t, id);
    const struct tend_keep *keep = &keeps->items[0];
    check_int(keep->patch_bytes, <=, TEND_KEPT_PATCH_BYTES_MAX);
    check_int(keep->patch_bytes, >, TEND_KEPT_PATCH_BYTES_MAX - 100);
    check_int(keep->patch_bytes + keep->dropped_bytes, >, LINES * (LINE_BYTES + 1));
    check_int(keep->patch_bytes + keep->dropped_bytes, <, LINES * (LINE_BYTES + 1) + 1000);
    tend_keeps_free(keeps);
}

/* Symptom: as above, where git could not take one of the files. */
TEST(runner_keep, what_git_cannot_take_is_told_and_the_rest_is_kept)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"rm kept; mkfifo kept; echo precious > new; "
                                            "exit 64\"}"));
    run_until_drained(t);
    const char *patch = kept_patch(t, id, 1);
    check_contains(patch, "Some of the changes are missing here: git add failed");
    check_contains(patch, "+precious");
}

TEST(runner_keep, with_keep_workspace_0_only_the_patch_stays)
{
    tend *t = store_open_real("w");
    make_repository();
    set_queue(t, "q", "keep-workspace", "0s");
    int64_t id = add_plan(t, with_workspace("{\"run\":\"echo half > half; exit 64\"}"));
    run_until_drained(t);
    check_contains(kept_patch(t, id, 1), "+half");
    struct tend_keeps *keeps = keeps_of(t, id);
    check_str(keeps->items[0].workspace, NULL);
    tend_keeps_free(keeps);
    check_int(workspaces_of(id), ==, 0);
}

/* A step that puts a link to "victim" in the place of the folder its workspace lies in. Symptom: a
 * workspace-* in there was removed, or a file "kept" was written. */
static void check_link_not_followed(tend *t, const char *keep)
{
    set_queue(t, "q", "keep-workspace", keep);
    shell("mkdir -p victim/workspace-1.tend victim/workspace-1 && touch victim/workspace-1/file");
    int64_t id = add_plan(t, with_workspace("{\"run\":\"d=$(dirname $TEND_OUTPUT); mv $d $T/away; "
                                            "ln -s $T/victim $d; exit 64\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check(access("victim/workspace-1/file", F_OK) == 0);
    check(access("victim/workspace-1.tend", F_OK) == 0);
    check(access("victim/kept", F_OK) < 0);
    shell("rm -rf away");
}

TEST(runner_keep, a_link_in_the_place_of_the_leases_folder_is_never_followed)
{
    tend *t = store_open_real("w");
    make_repository();
    check_link_not_followed(t, "0s");
    check_link_not_followed(t, "default");
}

/* SH-7: the queue tries a job again in fresh workspaces; those of the failed attempts stay, but not
 * all of them. */
TEST(runner_keep, SH_7_the_last_failed_workspaces_of_a_job_stay_and_it_goes_on_in_a_fresh_one)
{
    enum { LIVES = 4 };
    tend *t = store_open_real("w");
    make_repository();
    struct tend_job_spec spec = spec_for("q");
    spec.payload = with_workspace("{\"id\":\"a\",\"attempts\":1,\"run\":\"test ! -e half; echo x "
                                  ">> $T/tries; echo $(wc -l < $T/tries) > half; exit 75\"}");
    spec.max_attempts = LIVES;
    spec.backoff_ms = 0;
    int64_t id = add_spec(t, &spec);
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, LIVES);
    check_int(workspaces_of(id), ==, 2);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, LIVES);
    for (size_t i = 0; i < LIVES; i++) {
        const char *half = keep_text("%s/half", keeps->items[i].workspace);
        check_int(keeps->items[i].there, ==, i >= 2);
        check_int(access(half, F_OK) == 0, ==, i >= 2);
    }
    tend_keeps_free(keeps);
    check_contains(kept_patch(t, id, 3), "+3");
    check_contains(kept_patch(t, id, 4), "+4");
}

/* SH-7: a worker that stops between a reset and the success of the step leaves both. */
TEST(runner_keep, SH_7_workspaces_before_and_after_a_reset_stay_until_the_job_is_done)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"id\":\"a\",\"grace\":\"100ms\",\"run\":\"test ! -e $T/go || exit 0; "
                          "test ! -e $T/second || exec sleep 600; echo alike; "
                          "exit 75\"}"));
    struct tend_control_result result;
    struct running_runner running = runner_start(t, NULL);
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE state = 2") > 0, PATIENCE_MS);
    shell("touch second");
    check_ok(t, tend_control(t, id, "hard_reset_step", NULL, NULL, "me", &result));
    wait_until(sql_int("SELECT count(*) FROM attempt WHERE strategy = 'hard_reset'") == 1,
               PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(workspaces_of(id), ==, 2);
    struct tend_disk disk;
    check_ok(t, tend_disk_clean(t, NULL, &disk));
    check_int(disk.uses[TEND_DISK_KEPT].count, ==, 1);
    shell("touch go");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(workspaces_of(id), ==, 0);
}

/* --- edits of an operator --- */

/* What "me" has changed in the folder, stored with the resume, as the command line does it. */
static void resume_with_edits(tend *t, int64_t id, const char *folder, size_t step_index)
{
    const struct tend_job *job = job_of(t, id);
    struct workspace_keeper keeper;
    struct workspace_change change;
    struct job_plan plan;
    struct arena arena;
    struct err err;
    arena_init(&arena);
    check_int(spec_parse(job->payload, job->payload_bytes, &arena, &plan, &err), ==, SPEC_PLAN);
    workspace_keeper_init(&keeper, "cache");
    const struct job_source source = {.t = t, .job_id = id, .plan = &plan, .keeper = &keeper};
    int rc = job_source_edits(&source, "scratch", folder, step_index, &change, &err);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    const struct tend_changes edits = {.patch = change.patch.data,
                                       .patch_bytes = change.patch.len,
                                       .changed_files = changes_files(&change, NULL, &arena)};
    check_ok(t, tend_resume_edited(t, id, job->version, &edits, NULL, "me", NULL));
    workspace_change_done(&change);
    arena_done(&arena);
    shell("rmdir scratch"); /* nothing is left there */
}

/* A job whose second step was taken over; its workspace. */
static const char *take_over(tend *t, int64_t id, struct running_runner *running)
{
    struct tend_control_result result;
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "takeover", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    tend_runner_stop(running->runner, 0);
    runner_join(running);
    struct tend_keeps *keeps = keeps_of(t, id);
    check_int(keeps->count, ==, 1);
    check(keeps->items[0].there);
    const char *folder = keep_text("%s", keeps->items[0].workspace);
    tend_keeps_free(keeps);
    return folder;
}

static const char *checkpoint_patch(tend *t, int64_t id, int64_t step)
{
    struct tend_patch *patch;
    check_ok(t, tend_checkpoint_patch(t, id, step, &patch));
    const char *text = keep_text("%.*s", (int)patch->bytes, (const char *)patch->data);
    tend_patch_free(patch);
    return text;
}

#define EDITED_STEPS                                                                               \
    "{\"id\":\"a\",\"run\":\"echo one > one\"},"                                                   \
    "{\"id\":\"b\",\"grace\":\"100ms\",\"run\":\"touch $T/begun; test -e mine || exec sleep 600; " \
    "cat mine kept >> $T/seen; test -e $T/good || exit 75; echo two > two\"},"                     \
    "{\"id\":\"c\",\"run\":\"cat mine one two >> $T/last\"}"

/* Symptom: what an operator had repaired in a workspace was dropped when the job went on. */
TEST(runner_keep, SH_12_what_an_operator_has_changed_becomes_part_of_the_step)
{
    tend *t = store_open_real("w");
    make_repository();
    shell("touch good");
    int64_t id = add_plan(t, with_workspace(EDITED_STEPS));
    struct running_runner running = runner_start(t, NULL);
    const char *folder = take_over(t, id, &running);
    shell(
        keep_text("cd %s && echo repaired > mine && echo changed > kept && touch ignored", folder));
    resume_with_edits(t, id, folder, 2);
    /* On another machine. */
    struct tend_runner_options options = runner_options();
    options.folder = keep_text("%s/elsewhere", test_folder());
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("seen"), "repaired\nchanged\n");
    check_str(file_text("last"), "repaired\none\ntwo\n");
    const char *patch = checkpoint_patch(t, id, 2);
    check_contains(patch, "+repaired");
    check_contains(patch, "+changed");
    check_contains(patch, "+two");
    check(strstr(patch, "one") == NULL);
    check_int(sql_int("SELECT count(*) FROM edit"), ==, 0);
    check_int(workspaces_of(id), ==, 1); /* it is the operator's for a while */
}

/* SH-7: a fresh workspace has them, too. */
TEST(runner_keep, SH_7_edits_outlive_a_hard_reset_and_the_end_of_a_life)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(t, with_workspace(EDITED_STEPS));
    struct running_runner running = runner_start(t, NULL);
    const char *folder = take_over(t, id, &running);
    shell(keep_text("cd %s && echo repaired > mine", folder));
    resume_with_edits(t, id, folder, 2);
    running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_contains(events_of(t, id), "task.self_heal.escalated");
    check_str(file_text("seen"), "repaired\nfirst\nrepaired\nfirst\nrepaired\nfirst\n");
    shell("touch good");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(checkpoint_patch(t, id, 2), "+repaired");
    check_int(sql_int("SELECT count(*) FROM edit"), ==, 0);
}

TEST(runner_keep, edits_of_a_later_step_are_dropped_when_the_job_goes_back)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo one > one\"},"
                                            "{\"id\":\"b\",\"grace\":\"100ms\",\"run\":\"ls > "
                                            "$T/seen; touch $T/begun; test -e $T/go || exec sleep "
                                            "600\"}"));
    struct running_runner running = runner_start(t, NULL);
    const char *folder = take_over(t, id, &running);
    shell(keep_text("cd %s && echo repaired > mine; touch $OLDPWD/go", folder));
    resume_with_edits(t, id, folder, 2);
    check_ok(t, tend_control(t, id, "resume_from_step", "a", NULL, "me", &result));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("seen"), "kept\none\n");
}

/* Taken over again: the edits of before are in the folder, and go when the operator takes them
 * back. */
TEST(runner_keep, edits_that_are_taken_back_are_gone)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"id\":\"a\",\"grace\":\"100ms\",\"run\":\"ls > "
                                            "$T/seen; touch $T/begun; test -e $T/go || exec sleep "
                                            "600\"}"));
    struct running_runner running = runner_start(t, NULL);
    const char *folder = take_over(t, id, &running);
    shell(keep_text("cd %s && echo repaired > mine; rm $OLDPWD/begun", folder));
    resume_with_edits(t, id, folder, 1);
    running = runner_start(t, NULL);
    struct tend_control_result result;
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_str(file_text("seen"), "kept\nmine\n");
    check_ok(t, tend_control(t, id, "takeover", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    struct tend_keeps *keeps = keeps_of(t, id);
    folder = keep_text("%s", keeps->items[1].workspace);
    tend_keeps_free(keeps);
    shell(keep_text("cd %s && rm mine; touch $OLDPWD/go", folder));
    resume_with_edits(t, id, folder, 1);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("seen"), "kept\n");
}
