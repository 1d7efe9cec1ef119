/* Workspaces of repositories on other machines: copied once, fetched on reuse. */
#include "run/workspace_box.h"

#include "run/workspace_inner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *url_of(const char *repo)
{
    static char url[4096];
    snprintf(url, sizeof url, "file://%s", test_path(repo));
    return url;
}

static int resolve(const char *url, const char *ref, char ret_commit[GIT_ID_BYTES], struct err *err)
{
    struct workspace_source source;
    int rc = workspace_resolve(&box_keeper, url, ref, &source, err);
    if (rc == 0) {
        memcpy(ret_commit, source.commit, GIT_ID_BYTES);
        workspace_source_done(&source);
    }
    return rc;
}

TEST(mirror, a_url_is_copied_and_fetched_again_on_reuse)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    struct workspace workspace = box_workspace(url_of("r"), "main");
    check_str(box_out("cat '%s/a.txt'", workspace.folder), "one\ntwo\nthree");
    const char *before = box_repository_state("r");
    box_sh("echo x >'%s/a.txt'", workspace.folder);
    struct workspace_change *change = box_checkpoint(&workspace);
    box_check_replay(url_of("r"), workspace.commit, &workspace, &change, 1);
    check_str(box_repository_state("r"), before);
    box_sh("cd r && git checkout -qb next && echo n >n && git add n && git commit -qm n && "
           "git tag v2 && git update-ref refs/pull/7/head HEAD~1");
    const char *const names[] = {"HEAD",        "next",         "v2", "refs/heads/next",
                                 "origin/next", "refs/tags/v2", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_fine(resolve(url_of("r"), names[i], commit, &err), &err);
        check_str(commit, box_out("git -C r rev-parse next"));
    }
    const char *const older[] = {"main", "next~1", "HEAD~1", "refs/pull/7/head"};
    for (size_t i = 0; i < sizeof older / sizeof older[0]; i++) {
        check_fine(resolve(url_of("r"), older[i], commit, &err), &err);
        check_str(commit, box_out("git -C r rev-parse main"));
    }
    check_str(box_out("ls cache | grep -c '[.]git$'"), "1");
    check_str(box_out("stat -c %%a cache"), "700"); /* what may be read is the owner's to say */
    box_drop(&workspace);
}

/* Resuming must not depend on a machine that is away. */
TEST(mirror, a_commit_that_is_there_needs_no_network)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    char again[GIT_ID_BYTES];
    box_repository("r");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    box_sh("mv r away");
    check_fine(resolve(url_of("r"), commit, again, &err), &err);
    check_str(again, commit);
    check_int(resolve(url_of("r"), "main", again, &err), <, 0);
    check(box_keeper.problem != WORKSPACE_FINE);
}

TEST(mirror, a_branch_made_by_a_step_neither_hides_nor_blocks_the_one_of_the_repository)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    struct workspace workspace = box_workspace(url_of("r"), "main");
    box_sh("cd '%s' && git checkout -qb main && echo s >s && git add s && git commit -qm step",
           workspace.folder);
    box_sh("cd r && echo 2 >a.txt && git commit -qam 2");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    check_str(commit, box_out("git -C r rev-parse main"));
    box_sh("cd r && git checkout -qb other && git branch -qD main");
    check_int(resolve(url_of("r"), "main", commit, &err), ==, TEND_ENOTFOUND);
    check_str(workspace_problem_name(box_keeper.problem), "ref_missing");
    check_contains(err.text, "no commit called main in repository file://");
    box_drop(&workspace);
}

TEST(mirror, an_empty_repository_and_one_out_of_reach_are_told_apart)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_sh("git init -q empty");
    check_int(resolve(url_of("empty"), NULL, commit, &err), ==, TEND_ENOTFOUND);
    check_str(workspace_problem_name(box_keeper.problem), "ref_missing");
    check_int(resolve("http://user:secret@127.0.0.1:1/x.git", "main", commit, &err), ==, TEND_EIO);
    check_str(workspace_problem_name(box_keeper.problem), "out_of_reach");
    check(strstr(err.text, "secret") == NULL);
    check_int(box_status("grep -r secret cache"), ==, 1);
}

/* Symptom: the folder of the copy was called app-git-private-token-SECRET-… */
TEST(mirror, a_folder_in_the_cache_is_not_called_after_a_secret_of_the_url)
{
    static const char *const urls[] = {
        "http://127.0.0.1:1/app.git?private_token=SECRET",
        "http://127.0.0.1:1/app/?private_token=a/SECRET",
        "http://127.0.0.1:1/app#SECRET",
        "http://user:SECRET@127.0.0.1:1/app.git",
        "http://user:SECRET@127.0.0.1:1",
        "http://SECRET@127.0.0.1:1/",
        "http://user:SECRET?x@127.0.0.1:1/app",
        "http://127.0.0.1:1/app.git?mail=x@SECRET",
    };
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        check(resolve(urls[i], "main", commit, &err) < 0);
    check_str(box_out("find cache -iname '*secret*' -o -name '*token*'"), "");
    check_str(box_out("ls -d cache/app-*.git | wc -l"), "4");
}

/* Symptom: a git that was killed while it fetched left lock files that nobody took away. */
TEST(mirror, a_copy_with_lock_files_of_a_killed_git_is_replaced_by_another)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    box_sh("cd r && echo 2 >a.txt && git commit -qam 2");
    box_sh("cd cache/*.git && mkdir -p refs/remotes/origin && touch refs/remotes/origin/main.lock");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    check_str(commit, box_out("git -C r rev-parse main"));
    check_str(box_out("ls cache | grep -c '[.]git$'"), "2");
    check_str(box_out("ls cache/*.git/tend-stuck | wc -l"), "1"); /* and is not tried again */
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    check_str(box_out("ls cache | grep -c '[.]git$'"), "2");
}

/* Symptom: a copy was removed as unused between the moment in which a job found it and the moment
 * in which it was noted as used; the job failed with "git for-each-ref failed". */
TEST(mirror, a_copy_that_is_handed_out_counts_as_used_from_that_moment)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    char again[GIT_ID_BYTES];
    box_repository("r");
    for (int by_url = 0; by_url < 2; by_url++) {
        const char *repo = by_url ? url_of("r") : "r";
        box_sh("rm -rf cache");
        check_fine(resolve(repo, "main", commit, &err), &err);
        box_sh("touch -d '31 days ago' cache/*.git");
        check_fine(resolve(repo, "main", again, &err), &err);
        box_sh("test -z \"$(find cache -maxdepth 1 -name '*.git' -mtime +0)\"");
        /* By the commit alone, as a job that goes on. */
        box_sh("touch -d '31 days ago' cache/*.git");
        check_fine(resolve(repo, commit, again, &err), &err);
        box_sh("test -z \"$(find cache -maxdepth 1 -name '*.git' -mtime +0)\"");
    }
}

/* Whatever has the name of a copy, and no mark. */
TEST(mirror, a_folder_that_tend_has_not_made_is_not_used_as_a_copy)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    box_sh("cd cache && copy=$(ls -d *.git) && test -e $copy/tend-copy && rm -rf $copy && "
           "git clone -q --bare ../r $copy");
    const char *before = box_repository_state(box_out("ls -d cache/*.git"));
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    check_str(box_repository_state(box_out("ls -d cache/*.git | grep -v -e -1.git")), before);
    check_str(box_out("ls -d cache/*-1.git/tend-copy | wc -l"), "1");
}

static bool process_is_gone(const char *pid)
{
    return box_status("test ! -e /proc/%s || grep -q '^State:.Z' /proc/%s/status", pid, pid) == 0;
}

/* A worker that is killed while ssh hangs. The file pids has the pids of ssh and of git. */
static void kill_worker_that_fetches(const char *url)
{
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    int status;
    box_sh("{ echo '#!/bin/sh'; echo \"echo \\$\\$ \\$PPID >$PWD/pids.new\"; "
           "echo \"mv $PWD/pids.new $PWD/pids; exec sleep 1000\"; } >ssh; chmod +x ssh");
    setenv("GIT_SSH_COMMAND", test_path("ssh"), 1);
    pid_t worker = fork();
    if (worker == 0) {
        resolve(url, "main", commit, &err);
        _exit(0);
    }
    box_sh("while ! test -e pids; do sleep 0.01; done");
    check_int(kill(worker, SIGKILL), ==, 0);
    check_int(waitpid(worker, &status, 0), ==, worker);
    setenv("GIT_SSH_COMMAND", "false", 1);
}

/* Symptom: after kill -9 of a worker its git fetch and ssh stayed, and the next worker fetched into
 * the same copy beside them. */
TEST(mirror, git_dies_with_its_worker_and_what_it_started_before_the_copy_is_used_again)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    kill_worker_that_fetches("ssh://host/r.git");
    const char *ssh = box_out("cut -d' ' -f1 pids");
    const char *fetch = box_out("cut -d' ' -f2 pids");
    while (!process_is_gone(fetch))
        usleep(1000);
    check_int(resolve("ssh://host/r.git", "main", commit, &err), <, 0);
    check(process_is_gone(ssh));
    check_str(box_out("ls cache/processes | wc -l"), "1"); /* the dead worker is forgotten */
}

/* What another worker that lives has started is left alone. */
TEST(mirror, git_of_a_living_process_is_not_ended)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    int go[2];
    int status;
    char byte;
    box_repository("r");
    check_int(pipe(go), ==, 0);
    pid_t worker = fork();
    if (worker == 0) {
        check_fine(resolve(url_of("r"), "main", commit, &err), &err);
        setenv("TEND_ATTEMPT", box_out("ls cache/processes"), 1);
        box_sh("sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >pid.new; mv pid.new pid");
        check_int(read(go[0], &byte, 1), ==, 1);
        box_sh("kill $(cat pid)"); /* fails when it has gone */
        _exit(0);
    }
    box_sh("while ! test -e pid; do sleep 0.01; done");
    check_fine(resolve(url_of("r"), "main", commit, &err), &err);
    check_int(write(go[1], "x", 1), ==, 1);
    check_int(waitpid(worker, &status, 0), ==, worker);
    check_int(status, ==, 0);
}

TEST(mirror, many_processes_share_one_copy)
{
    enum { PROCESSES = 6 };
    box_init();
    box_repository("r");
    const char *expected = box_out("git -C r rev-parse main");
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            struct workspace workspace = box_workspace(url_of("r"), i % 2 ? "main" : NULL);
            struct err err = {0};
            check_str(workspace.commit, expected);
            check_fine(workspace_remove(&box_keeper, &workspace, &err), &err);
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        check_int(wait(&status), >, 0);
        check_int(status, ==, 0);
    }
    check_str(box_out("ls cache | grep -c '[.]git$'"), "1");
}

/* A copy that is used for years does not get slower, and loses nothing. */
TEST(mirror, a_copy_with_many_small_files_is_packed_and_keeps_every_object)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    struct workspace workspace = box_workspace("r", "main");
    /* Unreferenced objects, each in a pack of its own, and a loose one. */
    box_sh("cd cache/*.git && for i in $(seq 52); do echo $i | git hash-object -w --stdin | "
           "tee -a ../ids | git pack-objects -q objects/pack/pack >/dev/null; done && "
           "git prune-packed -q && echo loose | git hash-object -w --stdin >>../ids");
    box_sh("cd r && echo 2 >a.txt && git commit -qam 2");
    check_fine(resolve("r", "main", commit, &err), &err);
    check_contains(box_out("git -C cache/*.git count-objects -v"), "count: 0\n");
    box_sh("test $(ls cache/*.git/objects/pack/*.pack | wc -l) -lt 5");
    check_str(box_out("cd cache && git -C *.git cat-file --batch-check <ids | grep -c ' blob '"),
              "53");
    box_sh("git -C '%s' fsck 2>/dev/null", workspace.folder);
    box_drop(&workspace);
}

/* Symptom: after a power failure an object in the copy was empty, and every job of that repository
 * failed: a file of that name was there, so it was never copied again. */
TEST(mirror, an_object_that_was_cut_is_taken_again)
{
    struct err err = {0};
    box_init();
    box_repository("r");
    check_int(workspace_link_objects(&box_keeper, "r/.git/objects", "to", &err), ==, 1);
    box_sh("for file in to/[0-9a-f]*/*; do rm -f $file; : >$file; done");
    check_int(workspace_link_objects(&box_keeper, "r/.git/objects", "to", &err), ==, 1);
    box_sh(
        "cd r/.git/objects && for file in [0-9a-f]*/*; do cmp $file ../../../to/$file || exit 1; done");
}

/* Symptom: once an object was missing in the copy, every job of the repository failed for ever. */
TEST(mirror, a_copy_in_which_objects_are_missing_is_replaced_by_another)
{
    static const char *const objects[] = {"main:a.txt", "main:dir", "main^{tree}", "main"};
    box_init();
    box_repository("r");
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        box_sh("rm -rf cache");
        struct workspace first = box_workspace("r", "main");
        box_sh("id=$(git -C r rev-parse '%s') && cd cache/*.git/objects && "
               "rm -f $(echo $id | cut -c1-2)/$(echo $id | cut -c3-)",
               objects[i]);
        struct workspace second = box_workspace("r", "main");
        check_str(box_content(second.folder), box_content(first.folder));
        check_str(box_out("ls cache | grep -c '[.]git$'"), "2");
        box_drop(&second);
        box_drop(&first);
    }
}

TEST(mirror, what_the_repository_itself_lacks_is_not_copied_again_and_again)
{
    box_init();
    struct err err = {0};
    struct workspace_source source;
    struct workspace workspace;
    box_repository("r");
    box_sh("id=$(git -C r rev-parse main:a.txt) && cd r/.git/objects && "
           "rm -f $(echo $id | cut -c1-2)/$(echo $id | cut -c3-)");
    for (int i = 0; i < 3; i++) {
        check_fine(workspace_resolve(&box_keeper, "r", "main", &source, &err), &err);
        check_int(workspace_make(&box_keeper, &source, "work", &workspace, &err), <, 0);
        workspace_source_done(&source);
        check_contains(err.text, "objects are missing in the copy");
        check_contains(err.text, "/cache/r-");
    }
    check_str(box_out("ls cache | grep -c '[.]git$'"), "2");
}
