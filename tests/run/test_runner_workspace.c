/* A runner with real git: checkpoints, resets, resuming (SH-7, SH-9, SH-10). */
#include "repo_case.h"
#include "runner_case.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Everything in the repository that belongs to the user. */
static const char *fingerprint(void)
{
    shell("cd repo && { cat kept; git status --porcelain; git rev-parse HEAD; git branch -a; "
          "git stash list; } > ../fingerprint");
    return file_text("fingerprint");
}

/* SH-9: what a step has changed is kept, as files and in the store. */
TEST(runner_workspace, SH_9_each_step_leaves_a_checkpoint_and_the_repository_is_untouched)
{
    tend *t = store_open_real("w");
    make_repository();
    const char *before = fingerprint();
    int64_t id =
        add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"cat kept > $T/seen; echo new > made\"},"
                                   "{\"id\":\"b\",\"run\":\"cat made > $T/seen-too; rm kept\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("seen"), "first\n");
    check_str(file_text("seen-too"), "new\n");
    check_str(fingerprint(), before);
    const char *folder = keep_text(".tend/run/job-%lld", (long long)id);
    check_contains(file_text(keep_text("%s/patches/steps/step-0001.patch", folder)), "+new");
    check_contains(file_text(keep_text("%s/state/steps/step-0002.json", folder)), "kept");
    check_contains(file_text(keep_text("%s/state/self_heal/attempt-0001.json", folder)),
                   "succeeded");
    check_int(sql_int("SELECT count(*) FROM checkpoint WHERE job_id = %lld AND step_index > 0",
                      (long long)id),
              ==, 2);
    check_int(workspaces_of(id), ==, 0);
}

/* SH-7: no progress in the same workspace; a fresh one with the work of the steps before heals it.
 */
TEST(runner_workspace, SH_7_no_progress_leads_to_a_fresh_workspace_and_the_job_recovers)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"id\":\"a\",\"run\":\"echo one > one\"},"
                          "{\"id\":\"b\",\"run\":\"echo x >> $T/tries; cat one >> $T/ones; "
                          "test -e stale || test $(wc -l < $T/tries) -lt 3 || exit 0; touch stale; "
                          "echo the same error >&2; exit 75\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("tries"), "x\nx\nx\n");
    check_str(file_text("ones"), "one\none\none\n");
    check_contains(events_of(t, id), "task.self_heal.escalated");
    check_int(
        sql_int("SELECT count(*) FROM attempt WHERE job_id = %lld AND strategy = 'hard_reset'",
                (long long)id),
        ==, 1);
}

/* Symptom: with the default budgets a failure that came back never had its hard reset: three
 * attempts that are alike were all that the step had. */
TEST(runner_workspace, SH_7_with_the_defaults_a_hard_reset_brings_its_own_attempt)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id =
        add_plan(t, with_workspace("{\"id\":\"a\",\"no_progress_limit\":2,\"run\":\""
                                   "cp ${TEND_RETRY_CONTEXT:-/dev/null} $T/context; exit 75\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(summaries_of(t, id), "step a, attempt 1 of 3: exit 75\n"
                                   "step a, attempt 2 of 3: exit 75\n"
                                   "step a, attempt 3 of 3: exit 75\n"
                                   "step a, attempt 4, after a hard reset: exit 75\n");
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75 "
                                  "2:failed:transient_runtime:exit.75 "
                                  "3:failed:stuck_no_progress:no_progress "
                                  "4:failed:stuck_no_progress:no_progress");
    check_contains(file_text("context"), "\"attempt\": 4,\n  \"max_attempts\": 4,");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'task.self_heal.exhausted' AND why "
                      "LIKE '%%the attempt after the hard reset failed too'"),
              ==, 1);
}

/* Symptom: a step that changed a file in every attempt was called stuck at its second, and lost its
 * changes to a hard reset. */
TEST(runner_workspace, SH_5_an_unknown_failure_with_other_changes_has_not_come_back)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo x >> made; echo odd; "
                                            "test $(wc -l < made) = 3\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:unknown "
                                  "2:failed:transient_runtime:unknown 3:succeeded::");
}

/* SH-7: the old workspace is kept until the new one has succeeded, be it in another life. */
TEST(runner_workspace, SH_7_the_workspace_before_a_reset_stays_until_the_step_has_succeeded)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"id\":\"a\",\"run\":\""
                          "ls -d $T/.tend/run/job-*/lease-*/workspace-*/.git | wc -l >> $T/there; "
                          "test -e $T/good || exit 75\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("there"), "1\n1\n2\n");
    check_int(workspaces_of(id), ==, 2);
    shell("touch good");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    /* They are those of a failed attempt now, which stay their time. */
    check_int(workspaces_of(id), ==, 2);
    struct tend_disk disk;
    set_queue(t, "q", "keep-workspace", "0s");
    check_ok(t, tend_disk_clean(t, NULL, &disk));
    check_int(workspaces_of(id), ==, 0);
}

/* SH-8: the second attempt is told what went wrong. */
TEST(runner_workspace, SH_8_a_retry_gets_its_context)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"id\":\"a\",\"run\":\"echo change > made; "
                          "test -n \\\"$TEND_RETRY_CONTEXT\\\" || { echo it broke; exit 75; }; "
                          "cp $TEND_RETRY_CONTEXT $T/context\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(file_text("context"), "transient_runtime");
    check_contains(file_text("context"), "made");
    check_contains(file_text("context"), "\"attempt\"");
}

/* SH-10, SH-11: on another machine, from the store alone. */
TEST(runner_workspace, SH_10_a_job_resumes_elsewhere_from_its_checkpoints)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t,
        with_workspace("{\"id\":\"a\",\"run\":\"echo x >> $T/a-runs; echo one > one\"},"
                       "{\"id\":\"b\",\"run\":\"test -f $T/cured || exit 64; cat one > $T/got\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    shell(
        "touch cured; rm -rf .tend/run; cd repo; git checkout -q -f -b elsewhere; git rm -q kept; "
        "git commit -qm two");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    struct tend_runner_options options = runner_options();
    options.folder = keep_text("%s/elsewhere", test_folder());
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("a-runs"), "x\n");
    check_str(file_text("got"), "one\n");
}

/* SH-10: also when it has succeeded: as a new job. */
TEST(runner_workspace, SH_10_a_done_job_can_be_resumed_from_a_step)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"id\":\"a\",\"run\":\"echo x >> $T/a-runs; echo one > one\"},"
                          "{\"id\":\"b\",\"run\":\"echo x >> $T/b-runs; cat one >> $T/got\"}"));
    run_until_drained(t);
    check_ok(t, tend_control(t, id, "resume_from_step", "b", NULL, "me", &result));
    check_int(result.job_id, !=, id);
    run_until_drained(t);
    check_int(state_of(t, result.job_id), ==, TEND_DONE);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("a-runs"), "x\n");
    check_str(file_text("b-runs"), "x\nx\n");
    check_str(file_text("got"), "one\none\n");
}

/* SH-12: while it runs. */
TEST(runner_workspace, SH_12_resume_from_step_goes_back_in_a_running_job)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, with_workspace(
               "{\"id\":\"a\",\"run\":\"echo x >> $T/a-runs; echo one >> one\"},"
               "{\"id\":\"b\",\"grace\":\"100ms\",\"run\":\"cat one >> $T/got; touch $T/begun; "
               "test $(wc -l < $T/a-runs) -ge 2 || sleep 600\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "resume_from_step", "a", "again", "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("a-runs"), "x\nx\n");
    check_str(file_text("got"), "one\none\n");
    check_contains(events_of(t, id), "task.resume.from_step");
}

/* A checkpoint that does not apply to what is there now: the sentence says which step it is of, and
 * both workspaces stay, the one before the reset and the one that could not be made. */
TEST(runner_workspace, a_patch_that_does_not_apply_fails_the_job_and_names_the_step)
{
    static const char conflict[] = "diff --git a/kept b/kept\n--- a/kept\n+++ b/kept\n@@ -1 +1 @@\n"
                                   "-second\n+third\n";
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"id\":\"prepare\",\"run\":\"echo more >> kept\"},"
                                            "{\"id\":\"b\",\"run\":\"echo x >> $T/tries; "
                                            "test $(wc -l < $T/tries) -lt 2 || "
                                            "until test -e $T/go; do sleep .02; done; exit 75\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(file_text("tries") != NULL && strlen(file_text("tries")) == 4, PATIENCE_MS);
    sql_exec("UPDATE checkpoint SET patch = %s('%s'%s) WHERE job_id = %lld AND step_index = 1",
             store_is_postgres() ? "convert_to" : "CAST", conflict,
             store_is_postgres() ? ", 'UTF8'" : " AS BLOB", (long long)id);
    shell("touch go");
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(job_of(t, id)->error_class, "deterministic_repo");
    check_contains(job_of(t, id)->error_text, "step prepare");
    check_str(file_text("tries"), "x\nx\n");
    check_int(workspaces_of(id), ==, 2);
}

static void check_refused(const char *payload, const char *part)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, payload);
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(job_of(t, id)->error_class, "deterministic_repo");
    check_contains(job_of(t, id)->error_text, part);
}

TEST(runner_workspace, a_workspace_that_is_no_repository_is_a_clear_failure)
{
    shell("mkdir plain");
    check_refused(
        keep_text("{\"workspace\":{\"repo\":\"%s/plain\"},\"run\":\"true\"}", test_folder()),
        "plain");
}

TEST(runner_workspace, a_ref_that_does_not_exist_is_a_clear_failure)
{
    make_repository();
    check_refused(keep_text("{\"workspace\":{\"repo\":\"%s/repo\",\"ref\":\"nowhere\"},"
                            "\"run\":\"true\"}",
                            test_folder()),
                  "nowhere");
}

/* A folder of the step that leads out of the workspace by a link. */
TEST(runner_workspace, a_step_cannot_be_led_out_of_its_workspace)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"ln -s / out\"},"
                                            "{\"run\":\"touch $T/ran\",\"cwd\":\"out\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(job_of(t, id)->error_text, "leads out of the workspace");
    check(access("ran", F_OK) < 0);
}

/* SH-12: the operator gets the workspace, the job waits for its return. */
/* Symptom: the next attempt ran in the user's repository, or failed because its folder was gone. */
TEST(runner_workspace, SH_7_a_workspace_that_a_step_has_moved_away_is_made_again)
{
    tend *t = store_open_real("w");
    make_repository();
    shell("git clone -q --shared repo user && git -C user rev-parse main > before");
    int64_t id = add_plan(
        t, with_workspace(
               "{\"id\":\"a\",\"run\":\"echo a > a\"},{\"id\":\"b\",\"run\":\"test -e a || exit "
               "64; test -e $T/tried && exit 0; touch $T/tried; w=$PWD; cd $T; mv $w "
               "$w-moved; ln -s $T/user $w; git -C user branch new; exit 1\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    shell("cd user && git rev-parse main | cmp - ../before && git rev-parse new && "
          "! git for-each-ref | grep refs/tend && test ! -e a");
}

TEST(runner_workspace, SH_12_takeover_stops_the_attempt_and_leaves_the_workspace)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, with_workspace("{\"grace\":\"100ms\",\"run\":\"echo half > half; touch $T/begun; "
                          "test -f $T/go || sleep 600\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "takeover", NULL, "let me", "me", &result));
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    check_contains(job_of(t, id)->changed_why, "taken over by me: let me; its workspace is ");
    const char *folder = strstr(job_of(t, id)->changed_why, "/");
    check_str(file_text(keep_text("%s/half", folder)), "half\n");
    shell("touch go");
    check_ok(t, tend_control(t, id, "resume", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text(keep_text("%s/half", folder)), "half\n"); /* it is the operator's */
}

/* An order that waits for a job with a workspace is carried out, and the job runs. */
TEST(runner_workspace, SH_12_hard_reset_step_of_a_failed_job_runs_it_in_a_fresh_workspace)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, with_workspace(
               "{\"id\":\"a\",\"run\":\"echo x >> $T/tries; test -f $T/cured || exit 64\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    shell("touch cured");
    check_ok(t, tend_control(t, id, "hard_reset_step", NULL, NULL, "me", &result));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("tries"), "x\nx\n");
    check_int(sql_int("SELECT count(*) FROM control WHERE done_at IS NULL"), ==, 0);
}

/* The task that lost its job cleans up after itself, not after its successor. */
TEST(runner_workspace, a_job_that_comes_back_to_the_same_worker_keeps_its_workspace)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id =
        add_plan(t, with_workspace("{\"grace\":\"1s\",\"run\":\"trap '' TERM; echo x >> $T/tries; "
                                   "touch $T/begun; test $(wc -l < $T/tries) -ge 2 || "
                                   "sleep 600; sleep 1; echo y > still; cat still\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(access("begun", F_OK) == 0, PATIENCE_MS);
    check_ok(t, tend_act(t, TEND_HOLD, id, "me", NULL));
    check_ok(t, tend_act(t, TEND_RESUME, id, "me", NULL));
    wait_until(state_of(t, id) == TEND_DONE || state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    check_int(state_of(t, id), ==, TEND_DONE);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* SH-4, SH-5, SH-13. Symptom: the artifact said stuck_no_progress, the attempt and its event
 * transient_runtime. */
TEST(runner_workspace, SH_4_one_verdict_on_a_failure_wherever_it_is_told)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id =
        add_plan(t, with_workspace(
                        "{\"id\":\"a\",\"run\":\"echo x >> $T/tries; test $(wc -l < $T/tries) -lt "
                        "3 || exec cp $TEND_RETRY_CONTEXT $T/context; echo alike >&2; exit 75\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:exit.75 "
                                  "2:failed:stuck_no_progress:no_progress 3:succeeded::");
    check_int(sql_int("SELECT count(*) FROM event WHERE what IN ('task.step.attempt.failed', "
                      "'task.self_heal.triggered', 'task.self_heal.escalated') AND data LIKE "
                      "'%%\"attempt\":2,\"failureClass\":\"stuck_no_progress\"%%'"),
              ==, 3);
    check_contains(
        file_text(keep_text(".tend/run/job-%lld/state/self_heal/attempt-0002.json", (long long)id)),
        "stuck_no_progress");
    check_contains(file_text("context"), "\"class\": \"stuck_no_progress\"");
    check_contains(file_text("context"), "\"rule\": \"no_progress\"");
}

/* A git that finds the disk full when a checkpoint is taken, as long as the file "full" is there.
 */
static void fill_disk_of_git(void)
{
    shell("mkdir bin; real=$(command -v git); printf '#!/bin/sh\\ncase \" $* \" in *\" write-tree "
          "\"*) if test -e %s/full; then echo x >> %s/refused; echo \"fatal: unable to write: No "
          "space left on device\" >&2; exit 128; fi;; esac\\nexec %s \"$@\"\\n' \"$PWD\" "
          "\"$PWD\" \"$real\" > bin/git; chmod +x bin/git");
    check_int(setenv("PATH", keep_text("%s/bin:%s", test_folder(), getenv("PATH")), 1), ==, 0);
}

/* Its effect outside of the workspace can be counted; the disk is full when it ends. */
static int64_t add_deployment(tend *t)
{
    return add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo deployed >> $T/effect; echo x "
                                      "> made; test -e $T/once || touch $T/full $T/once\"}"));
}

/* Symptom: the disk was full when the step had succeeded; it counted as failed, and its effect
 * happened twice. */
TEST(runner_workspace, BY_9_a_step_whose_changes_cannot_be_saved_is_not_run_again)
{
    tend *t = store_open_real("w");
    make_repository();
    fill_disk_of_git();
    int64_t id = add_deployment(t);
    struct running_runner running = runner_start(store_open_real("worker"), NULL);
    wait_until(file_text("refused") != NULL && strlen(file_text("refused")) >= 4, PATIENCE_MS);
    check_int(state_of(t, id), ==, TEND_RUNNING);
    shell("rm full");
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(file_text("effect"), "deployed\n");
    check_str(attempts_of(t, id), "1:succeeded::");
}

/* The worker must stop meanwhile: nothing is charged, and the work stays where it is. */
TEST(runner_workspace, BY_9_work_that_a_stopping_worker_cannot_save_stays_in_its_workspace)
{
    tend *t = store_open_real("w");
    make_repository();
    fill_disk_of_git();
    int64_t id = add_deployment(t);
    struct running_runner running = runner_start(store_open_real("worker"), NULL);
    wait_until(file_text("refused") != NULL, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(sql_int("SELECT attempts + crashes FROM job WHERE id = %lld", (long long)id), ==, 0);
    check_str(attempts_of(t, id), "1:stopped::");
    check_contains(summaries_of(t, id),
                   "the step has succeeded, but its changes could not be saved: git write-tree");
    check_int(workspaces_of(id), ==, 1);
}

/* A git that hangs while a checkpoint is taken, as long as the file "slow" is there. */
static void hang_git(void)
{
    shell("touch slow; mkdir bin; real=$(command -v git); printf '#!/bin/sh\\ncase \" $* \" in *\" "
          "write-tree \"*) touch %s/hung; while test -e %s/slow; do sleep 0.02; done;; "
          "esac\\nexec %s \"$@\"\\n' \"$PWD\" \"$PWD\" \"$real\" > bin/git; chmod +x bin/git");
    check_int(setenv("PATH", keep_text("%s/bin:%s", test_folder(), getenv("PATH")), 1), ==, 0);
}

static struct running_runner start_with_git_that_hangs(tend *t, int64_t *ret_id)
{
    make_repository();
    hang_git();
    *ret_id = add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo x > made\"}"));
    struct running_runner running = runner_start(store_open_real("worker"), NULL);
    wait_until(access("hung", F_OK) == 0, PATIENCE_MS);
    return running;
}

/* Symptom: a worker was held for ten minutes, whatever it was told. */
TEST(runner_workspace, BY_9_a_stop_at_once_ends_a_git_that_hangs_in_a_checkpoint)
{
    tend *t = store_open_real("w");
    int64_t id;
    struct running_runner running = start_with_git_that_hangs(t, &id);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_str(attempts_of(t, id), "1:stopped::");
    check_contains(summaries_of(t, id),
                   "the step has succeeded, but its changes could not be saved: git write-tree");
    check_int(workspaces_of(id), ==, 1);
}

TEST(runner_workspace, SH_12_a_cancel_ends_a_git_that_hangs_in_a_checkpoint)
{
    tend *t = store_open_real("w");
    int64_t id;
    struct tend_control_result result;
    struct running_runner running = start_with_git_that_hangs(t, &id);
    check_ok(t, tend_control(t, id, "cancel", NULL, "enough", "ann", &result));
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
    check_str(attempts_of(t, id), "1:stopped::");
    check_contains(summaries_of(t, id), "cancelled by ann: enough");
}

TEST(runner_workspace, BY_9_a_runner_that_drains_lets_git_finish_a_checkpoint)
{
    tend *t = store_open_real("w");
    int64_t id;
    struct running_runner running = start_with_git_that_hangs(t, &id);
    tend_runner_stop(running.runner, 0);
    shell("rm slow");
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(attempts_of(t, id), "1:succeeded::");
}
