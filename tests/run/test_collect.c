/*
 * What runners leave on the disk is collected, and nothing that anybody needs (SH-7, RC-14, BY-4):
 * workers that were killed, jobs that were cancelled or deleted, folders of other stores and other
 * machines, copies of repositories.
 */
#include "repo_case.h"
#include "runner_case.h"

#include "run/collect.h"
#include "support/mounts.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct tend_disk look(tend *t)
{
    struct tend_disk disk;
    check_ok(t, tend_disk_look(t, NULL, &disk));
    return disk;
}

static struct tend_disk clean(tend *t)
{
    struct tend_disk disk;
    check_ok(t, tend_disk_clean(t, NULL, &disk));
    check_str(disk.problem, "");
    check_int(disk.failed, ==, 0);
    return disk;
}

static const char *folder_of(int64_t id)
{
    return keep_text(".tend/run/job-%lld", (long long)id);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* A worker that has a job in hand whose step waits in its workspace, and is killed. */
static int64_t leave_behind(tend *t)
{
    shell("rm -f begun");
    int64_t id = add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo x > f; touch $T/begun; "
                                            "exec sleep 600\"}"));
    struct helper worker = helper_start(runner_forever, "killed");
    helper_hear(&worker);
    wait_until(is_there("begun"), PATIENCE_MS);
    helper_kill(&worker);
    check_int(workspaces_of(id), ==, 1);
    return id;
}

/* Stops for ever when it is told that a job has ended: before it cleans up. */
static void stop_at_the_end(void *arg, const struct tend_runner_news *news)
{
    if (news->kind != TEND_NEWS_JOB_ENDS)
        return;
    helper_say(arg, news->job_id);
    for (;;)
        pause();
}

static void runner_that_stops(struct helper *parent, void *arg)
{
    tend *t = store_open_real(arg);
    struct tend_runner_options options = runner_options();
    tend_runner *runner;
    options.drain = 0;
    options.tell = stop_at_the_end;
    options.tell_arg = parent;
    check_ok(t, tend_runner_new(&runner, t, &options));
    tend_runner_run(runner);
}

/* Symptom: a worker killed between the completion of a job and cleaning up left its workspace for
 * ever. */
TEST(collect, SH_7_what_a_worker_killed_after_a_completion_left_is_removed_by_the_next)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"echo x > f\"}"));
    struct helper worker = helper_start(runner_that_stops, "killed");
    check_int(helper_hear(&worker), ==, id);
    helper_kill(&worker);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(workspaces_of(id), ==, 1);
    check_int(look(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check_int(look(t).uses[TEND_DISK_LEFT].bytes, >, 0);
    struct running_runner running = runner_start(t, NULL);
    wait_until(workspaces_of(id) == 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(look(t).uses[TEND_DISK_LEFT].count, ==, 0);
    check(is_there(keep_text("%s/patches", folder_of(id)))); /* as long as the job */
}

/* Symptom: killed and then cancelled, nobody ever took the job up, so nobody cleaned up. */
TEST(collect, SH_7_what_a_killed_worker_left_of_a_job_that_was_cancelled_is_removed)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t by_hand = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, by_hand, NULL, NULL));
    check_int(look(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check_int(workspaces_of(by_hand), ==, 1); /* that was only a look */
    check_int(clean(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check(!is_there(folder_of(by_hand))); /* nothing else was in it */
    int64_t by_worker = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, by_worker, NULL, NULL));
    struct running_runner running = runner_start(t, NULL);
    wait_until(!is_there(folder_of(by_worker)), PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

/* Symptom: `tend doctor` found nothing left over, because the killed worker was still registered,
 * and `tend heal` then removed a folder. */
TEST(collect, SH_7_a_look_counts_what_a_dead_worker_left_that_nobody_has_recovered)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    check_int(look(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
    recover_now(t);
    check_int(clean(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check(!is_there(folder_of(id)));
}

/* Symptom: a job quarantined because its workers were killed lost its last workspace at once. */
TEST(collect, SH_7_the_last_workspace_of_a_poisoned_job_is_kept_like_a_failed_one)
{
    tend *t = store_open_real("w");
    struct tend_keeps *keeps;
    make_repository();
    set_queue(t, "q", "max-crashes", "1");
    int64_t id = leave_behind(t);
    recover_now(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_int(clean(t).uses[TEND_DISK_KEPT].count, ==, 1);
    check_int(clean(t).uses[TEND_DISK_KEPT].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
    check_ok(t, tend_keeps(t, id, &keeps));
    check_int(keeps->count, ==, 1);
    check_int(keeps->items[0].there, ==, 1);
    check(is_there(keep_text("%s/f", keeps->items[0].workspace)));
    tend_keeps_free(keeps);
    set_queue(t, "q", "keep-workspace", "0s");
    check_int(clean(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check_int(workspaces_of(id), ==, 0);
}

/* RC-14: orphans first. */
TEST(collect, RC_14_processes_are_ended_before_their_folder_is_removed)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM attempt WHERE may_live = 1"), ==, 1);
    clean(t);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE may_live = 1"), ==, 0);
    check_int(workspaces_of(id), ==, 0);
}

/* Symptom: patches and records stayed when retention had deleted their job. */
TEST(collect, BY_4_the_folder_of_a_job_goes_with_the_job)
{
    tend *t = store_open_real("w");
    struct tend_purged purged;
    make_repository();
    int64_t kept = add_plan(t, with_workspace("{\"run\":\"echo x > f\"}"));
    int64_t gone = add_plan(t, with_workspace("{\"run\":\"echo x > f; exit 64\"}"));
    run_until_drained(t);
    check_int(state_of(t, gone), ==, TEND_FAILED);
    check_int(look(t).uses[TEND_DISK_JOBS].count, ==, 2);
    check_int(look(t).uses[TEND_DISK_KEPT].count, ==, 1);
    set_queue(t, "q", "keep-failed", "0s");
    check_ok(t, tend_purge(t, &purged));
    check_int(purged.jobs, ==, 1);
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_GONE].count, ==, 1);
    check_int(disk.uses[TEND_DISK_GONE].bytes, >, 0);
    check(!is_there(folder_of(gone)));
    check(is_there(folder_of(kept)));
    disk = clean(t);
    check_int(disk.uses[TEND_DISK_GONE].count, ==, 0);
    check_int(disk.uses[TEND_DISK_JOBS].count, ==, 1);
}

TEST(collect, what_belongs_to_another_store_is_left_alone)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"echo x > f\"}"));
    /* A job of the same number, of another store; and one of which nobody knows whose it is. */
    shell(keep_text("mkdir -p %s/lease-5/workspace-1.tend %s/lease-5/workspace-1 "
                    ".tend/run/job-999999/state; echo 4711 > %s/store",
                    folder_of(id), folder_of(id), folder_of(id)));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_OTHER_STORE].count, ==, 1);
    check_int(disk.uses[TEND_DISK_UNMARKED].count, ==, 1);
    check_int(disk.uses[TEND_DISK_JOBS].count, ==, 1);
    check(is_there(keep_text("%s/lease-5/workspace-1", folder_of(id))));
    check(is_there(".tend/run/job-999999/state"));
    check(!is_there(keep_text("%s/patches", folder_of(id))));
    shell(keep_text("ls %s-*/patches/steps/step-0001.patch", folder_of(id)));
}

/* After a restore the store knows nothing of what was done since the backup: that is all there is
 * of it. */
TEST(collect, what_was_there_before_a_restore_is_left_alone)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    recover_now(t);
    sql_exec("DELETE FROM job");
    check_ok(t, tend_after_restore(t, NULL, NULL));
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_OTHER_STORE].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
}

/* Symptom: `cp tend.db copy.db`, and `tend heal` in the copy removed the workspace of a job that
 * was added and begun in the original. Both have the same marker. */
TEST(collect, SH_7_a_copy_of_the_store_leaves_alone_what_it_has_not_given_out)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    shell(keep_text("mkdir -p .tend/run/job-%lld/lease-5/workspace-1.tend && "
                    "cp %s/store .tend/run/job-%lld",
                    (long long)id + 1000000, folder_of(id), (long long)id + 1000000));
    check_int(clean(t).uses[TEND_DISK_OTHER_STORE].count, ==, 1);
    check(is_there(keep_text("%s/lease-5/workspace-1.tend", folder_of(id + 1000000))));
}

/* The copy may have given out the same id itself, and deleted its job. */
TEST(collect, SH_7_a_folder_in_which_a_runner_works_is_left_alone_whatever_the_store_says)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"touch $T/begun; exec sleep 600\"}"));
    struct helper worker = helper_start(runner_forever, "alive");
    helper_hear(&worker);
    wait_until(is_there("begun"), PATIENCE_MS);
    sql_exec("DELETE FROM job");
    check_int(clean(t).uses[TEND_DISK_IN_USE].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
    helper_kill(&worker); /* its lock goes with it */
    check_int(clean(t).uses[TEND_DISK_GONE].count, ==, 1);
    check(!is_there(folder_of(id)));
}

/* Symptom: the sweep went through a link and removed the records of another job. */
TEST(collect, a_link_is_not_followed)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"echo x > f\"}"));
    int64_t gone = add_plan(t, "{\"run\":\"true\"}");
    run_until_drained(t);
    sql_exec("DELETE FROM job WHERE id = %lld", (long long)gone);
    shell(keep_text("ln -s job-%lld %s", (long long)id, folder_of(gone)));
    shell(keep_text("mkdir elsewhere elsewhere/workspace-1 elsewhere/workspace-1.tend && "
                    "ln -s ../../../elsewhere %s/lease-5",
                    folder_of(id)));
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_UNMARKED].count, ==, 1);
    check_int(disk.uses[TEND_DISK_GONE].count, ==, 0);
    check(is_there(keep_text("%s/patches", folder_of(id))));
    check(is_there(keep_text("%s/state", folder_of(id))));
    check(is_there("elsewhere/workspace-1"));
    check(!is_there(keep_text("%s/lease-5", folder_of(id)))); /* the link is garbage itself */
}

/* Symptom: `tend heal` said "1 folder removed" of one that could not be removed. Here something is
 * mounted there, where the test may do so. */
TEST(collect, what_cannot_be_removed_does_not_count_as_removed)
{
    tend *t = store_open_real("w");
    struct tend_disk disk;
    make_repository();
    int64_t id = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    shell(keep_text("ls -d %s/lease-* > name", folder_of(id)));
    char *lease = keep_text("%s", file_text("name"));
    lease[strcspn(lease, "\n")] = '\0';
    if (!mounts_own() || !mounts_disk(lease, "64k"))
        return;
    check_ok(t, tend_disk_clean(t, NULL, &disk));
    check_int(disk.failed, ==, 1);
    check_int(disk.uses[TEND_DISK_LEFT].count, ==, 0);
    check_int(disk.uses[TEND_DISK_LEFT].bytes, ==, 0);
    check_contains(disk.problem, "lease-");
}

struct cleaning {
    tend *t;
    _Atomic bool ends;
    _Atomic int passes;
};

static void *clean_on_and_on(void *arg)
{
    struct cleaning *cleaning = arg;
    while (!cleaning->ends) {
        struct collect collect;
        check_int(collect_init(&collect, cleaning->t, ".tend/run"), ==, 0);
        collect.removes = true;
        check_int(collect_all(&collect), ==, 0);
        check_str(collect.disk.problem, "");
        cleaning->passes++;
    }
    return NULL;
}

/* Two at once, without the lock that keeps them apart, beside workers that come and go. */
TEST_WITHIN(collect, nothing_of_a_job_that_runs_is_ever_touched, 120)
{
    enum { JOBS = 20, CLEANERS = 2 };
    tend *t = store_open_real("w");
    pthread_t threads[CLEANERS];
    struct cleaning cleaning = {.t = t};
    make_repository();
    for (int i = 0; i < JOBS; i++)
        add_plan(t, with_workspace("{\"id\":\"a\",\"run\":\"echo a > a\"},"
                                   "{\"id\":\"b\",\"run\":\"test -e a && echo b > b\"},"
                                   "{\"id\":\"c\",\"run\":\"test -e a && test -e b; echo $? >> "
                                   "$T/results; test -e $TEND_INPUT\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(is_there(".tend/run"), PATIENCE_MS);
    for (int i = 0; i < CLEANERS; i++)
        check_int(pthread_create(&threads[i], NULL, clean_on_and_on, &cleaning), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM job WHERE state = 4") == JOBS, PATIENCE_MS * 3);
    cleaning.ends = true;
    for (int i = 0; i < CLEANERS; i++)
        pthread_join(threads[i], NULL);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE state <> 1"), ==, 0);
    check_int(sql_int("SELECT count(*) FROM attempt"), ==, JOBS * 3);
    check_int(cleaning.passes, >, 1);
    shell("! grep -v 0 results");
    check_int(look(t).uses[TEND_DISK_JOBS].count, ==, JOBS);
    check_int(look(t).uses[TEND_DISK_LEFT].count, ==, 0);
}

/* A machine that shares the folder: whether its processes are gone, only it can tell. */
TEST(collect, what_may_run_on_another_machine_is_left_to_it)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    sql_exec("UPDATE attempt SET host = 'elsewhere'");
    check_int(clean(t).uses[TEND_DISK_OTHER_HOST].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
    sql_exec("UPDATE attempt SET may_live = 0"); /* it has said so */
    check_int(clean(t).uses[TEND_DISK_LEFT].count, ==, 1);
    check_int(workspaces_of(id), ==, 0);
    /* Of an earlier boot of this machine nothing is alive. */
    id = leave_behind(t);
    recover_now(t);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    sql_exec("UPDATE attempt SET boot_id = 'earlier'");
    clean(t);
    check_int(workspaces_of(id), ==, 0);
}

/* A job that runs under a later lease, here or elsewhere. */
TEST(collect, the_folder_of_a_lease_that_is_held_is_in_use_and_that_of_an_earlier_one_is_not)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = leave_behind(t);
    recover_now(t);
    struct tend_lease lease = claim_as(t, "q", "another");
    check_int(lease.id, ==, id);
    shell(keep_text("mkdir -p %s/lease-%lld/workspace-1 %s/lease-%lld", folder_of(id),
                    (long long)lease.token, folder_of(id), (long long)lease.token + 1));
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_IN_USE].count, ==, 1);
    check_int(disk.uses[TEND_DISK_OTHER_HOST].count, ==, 1); /* not given out yet */
    check_int(disk.uses[TEND_DISK_LEFT].count, ==, 1);
    check(is_there(keep_text("%s/lease-%lld/workspace-1", folder_of(id), (long long)lease.token)));
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
}

/* One at a time: the other says so, and loses nothing. */
TEST(collect, two_who_collect_take_turns)
{
    tend *t = store_open_real("w");
    struct tend_disk disk;
    struct err err;
    make_repository();
    leave_behind(t);
    int lock = collect_lock(".tend/run", 0, &err);
    check(lock >= 0);
    check_rc(t, tend_disk_clean(t, NULL, &disk), TEND_EBUSY);
    check_contains(tend_errmsg(t), "another process cleans up .tend/run");
    check_int(collect_lock(".tend/run", 1, NULL), ==, TEND_EBUSY);
    /* A worker works all the same. */
    int64_t id = add_plan(t, "{\"run\":\"true\"}");
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    close(lock);
    check_ok(t, tend_disk_clean(t, NULL, &disk));
}

/* On the timer of a worker that runs on. */
TEST(collect, a_worker_collects_again_and_again)
{
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    options.recovery_ms = 10;
    tend *t = store_open_with(&options);
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"echo x > f; exit 64\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    wait_until(workspaces_of(id) == 1, PATIENCE_MS);
    set_queue(t, "q", "keep-workspace", "1ms");
    wait_until(workspaces_of(id) == 0, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
}

TEST(collect, what_was_taken_over_stays_while_the_job_is_held)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    set_queue(t, "q", "keep-workspace", "0s");
    int64_t id = add_plan(t, with_workspace("{\"grace\":\"100ms\",\"run\":\"touch $T/begun; "
                                            "exec sleep 600\"}"));
    struct running_runner running = runner_start(t, NULL);
    wait_until(is_there("begun"), PATIENCE_MS);
    check_ok(t, tend_control(t, id, "takeover", NULL, NULL, "me", &result));
    wait_until(state_of(t, id) == TEND_HELD, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(clean(t).uses[TEND_DISK_KEPT].count, ==, 1);
    check_int(workspaces_of(id), ==, 1);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    clean(t);
    check_int(workspaces_of(id), ==, 0);
}

/* --- copies of repositories --- */

static int64_t run_with_mirror(tend *t, const char *run)
{
    int64_t id = add_plan(t, keep_text("{\"workspace\":{\"repo\":\"file://%s/repo\",\"ref\":"
                                       "\"main\"},\"run\":\"%s\"}",
                                       test_folder(), run));
    run_until_drained(t);
    return id;
}

TEST(collect, a_copy_of_a_repository_goes_when_it_was_not_used_for_30_days)
{
    tend *t = store_open_real("w");
    make_repository();
    check_int(state_of(t, run_with_mirror(t, "true")), ==, TEND_DONE);
    check_int(clean(t).uses[TEND_DISK_MIRRORS].count, ==, 1);
    shell("touch -d '29 days ago' .tend/run/cache/*.git");
    check_int(clean(t).uses[TEND_DISK_MIRRORS].count, ==, 1);
    shell("touch -d '31 days ago' .tend/run/cache/*.git");
    check_int(look(t).uses[TEND_DISK_OLD_MIRRORS].count, ==, 1);
    /* It is used: that counts from now on. */
    check_int(state_of(t, run_with_mirror(t, "true")), ==, TEND_DONE);
    check_int(clean(t).uses[TEND_DISK_OLD_MIRRORS].count, ==, 0);
    shell("touch -d '31 days ago' .tend/run/cache/*.git");
    /* Somebody fetches into it. */
    shell("ls -d .tend/run/cache/*.git > name");
    char *name = keep_text("%s", file_text("name"));
    name[strcspn(name, "\n")] = '\0';
    FILE *lock = fopen(keep_text("%s.lock", name), "re");
    check(lock != NULL && flock(fileno(lock), LOCK_EX) == 0);
    check_int(clean(t).uses[TEND_DISK_OLD_MIRRORS].count, ==, 0);
    fclose(lock);
    check_int(clean(t).uses[TEND_DISK_OLD_MIRRORS].count, ==, 1);
    shell("! ls -d .tend/run/cache/*.git* | grep -v lock");
    check_int(state_of(t, run_with_mirror(t, "true")), ==, TEND_DONE);
}

/* Symptom: a bare repository of the user's was removed because its name ended in .git and nobody
 * had changed it for 30 days. */
TEST(collect, a_repository_in_the_cache_that_tend_has_not_made_is_left_alone)
{
    tend *t = store_open_real("w");
    make_repository();
    shell(
        "mkdir -p .tend/run/cache && cd .tend/run/cache && "
        "git clone -q --bare ../../../repo app.git && git clone -q --bare app.git app.git.gone && "
        "touch -d '31 days ago' app.git app.git.gone");
    check_int(state_of(t, run_with_mirror(t, "true")), ==, TEND_DONE);
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_OLD_MIRRORS].count, ==, 0);
    check_int(disk.uses[TEND_DISK_MIRRORS].count, ==, 1);
    shell("git -C .tend/run/cache/app.git fsck && git -C .tend/run/cache/app.git.gone fsck && "
          "! ls .tend/run/cache/app.git.lock");
}

/* One that was made before copies had a mark, and what a crash has left of one. */
TEST(collect, a_copy_is_known_without_its_mark_and_goes_also_when_it_was_half_removed)
{
    tend *t = store_open_real("w");
    make_repository();
    run_with_mirror(t, "true");
    shell("rm .tend/run/cache/*.git/tend-copy && touch -d '31 days ago' .tend/run/cache/*.git && "
          "mkdir .tend/run/cache/half.git.gone && touch .tend/run/cache/half.git.gone/tend-copy");
    check_int(clean(t).uses[TEND_DISK_OLD_MIRRORS].count, ==, 2);
    shell("! ls -d .tend/run/cache/*.git*/");
}

TEST(collect, a_copy_of_a_repository_stays_while_a_workspace_borrows_from_it)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = run_with_mirror(t, "echo x > f; exit 64");
    check_int(workspaces_of(id), ==, 1); /* it is kept */
    shell("touch -d '31 days ago' .tend/run/cache/*.git");
    check_int(clean(t).uses[TEND_DISK_MIRRORS].count, ==, 1);
    set_queue(t, "q", "keep-workspace", "0s");
    check_int(clean(t).uses[TEND_DISK_LEFT].count, ==, 1);
    /* Removing the workspace may have been a use. */
    shell("for copy in .tend/run/cache/*.git; do test ! -e $copy || touch -d '31 days ago' $copy; "
          "done");
    clean(t);
    shell("! ls -d .tend/run/cache/*.git");
}

/* Symptom: the copy was removed because the file that says who borrows from it could not be read.
 */
TEST(collect, a_copy_of_a_repository_stays_while_it_cannot_be_told_who_borrows_from_it)
{
    tend *t = store_open_real("w");
    make_repository();
    run_with_mirror(t, "echo x > f; exit 64");
    shell("for file in .tend/run/job-*/lease-*/workspace-*.tend/objects/info/alternates "
          ".tend/run/job-*/lease-*/workspace-*/.git/objects/info/alternates; "
          "do ln -sf alternates $file; done; touch -d '31 days ago' .tend/run/cache/*.git");
    struct tend_disk disk = clean(t);
    check_int(disk.uses[TEND_DISK_MIRRORS].count, ==, 1);
    check_int(disk.uses[TEND_DISK_OLD_MIRRORS].count, ==, 0);
}

/* Permissions count, for root too. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    check_int(syscall(SYS_capset, &head, none), ==, 0);
}

/* Symptom: a folder in which a runner worked was removed because it could not be opened. */
TEST(collect, SH_7_a_lease_whose_folder_cannot_be_opened_counts_as_one_in_use)
{
    tend *t = store_open_real("w");
    make_repository();
    int64_t id = add_plan(t, with_workspace("{\"run\":\"touch $T/begun; exec sleep 600\"}"));
    struct helper worker = helper_start(runner_forever, "alive");
    helper_hear(&worker);
    wait_until(is_there("begun"), PATIENCE_MS);
    sql_exec("DELETE FROM job");
    shell(keep_text("chmod 000 %s/lease-*", folder_of(id)));
    drop_capabilities();
    check_int(clean(t).uses[TEND_DISK_IN_USE].count, ==, 1);
    shell(keep_text("chmod 700 %s/lease-*; chmod 300 %s", folder_of(id), folder_of(id)));
    clean(t);
    shell(keep_text("chmod 700 %s", folder_of(id)));
    check_int(workspaces_of(id), ==, 1);
    helper_kill(&worker);
}

TEST(collect, a_folder_that_is_not_there_is_no_error)
{
    tend *t = store_open_real("w");
    struct tend_disk disk;
    check_ok(t, tend_disk_look(t, keep_text("%s/nowhere", test_folder()), &disk));
    check_int(disk.there, ==, 0);
    check_ok(t, tend_disk_clean(t, keep_text("%s/nowhere", test_folder()), &disk));
    check_int(disk.there, ==, 0);
    check(!is_there(keep_text("%s/nowhere", test_folder())));
}
