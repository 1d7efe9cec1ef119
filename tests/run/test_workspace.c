/* Workspaces: where they come from, what they leave alone, how they go (SH-7, SH-10). */
#include "run/workspace_box.h"
#include "support/mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static int resolve(const char *repo, const char *ref, char ret_commit[GIT_ID_BYTES],
                   struct err *err)
{
    struct workspace_source source;
    int rc = workspace_resolve(&box_keeper, repo, ref, &source, err);
    if (rc == 0) {
        memcpy(ret_commit, source.commit, GIT_ID_BYTES);
        workspace_source_done(&source);
    }
    return rc;
}

/* What went wrong, and what the classifier makes of it. */
static void check_problem(enum workspace_problem problem, enum failure_class class)
{
    check_str(workspace_problem_name(box_keeper.problem), workspace_problem_name(problem));
    check_str(workspace_problem_class(problem), failure_class_name(class));
}

TEST(workspace, SH_4_every_problem_has_its_class)
{
    static const enum failure_class classes[] = {
        [WORKSPACE_NOT_A_REPOSITORY] = CLASS_DETERMINISTIC_REPO,
        [WORKSPACE_REF_MISSING] = CLASS_DETERMINISTIC_REPO,
        [WORKSPACE_PATCH_REFUSED] = CLASS_DETERMINISTIC_REPO,
        [WORKSPACE_UNTAKEABLE] = CLASS_DETERMINISTIC_REPO,
        [WORKSPACE_TOO_LARGE] = CLASS_DETERMINISTIC_REPO,
        [WORKSPACE_NOT_ALLOWED] = CLASS_DETERMINISTIC_POLICY,
        [WORKSPACE_GIT_MISSING] = CLASS_DETERMINISTIC_CONTRACT,
        [WORKSPACE_OUT_OF_REACH] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_BUSY] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_NO_SPACE] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_NO_MEANS] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_OWN_FOLDER] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_INTERRUPTED] = CLASS_TRANSIENT_RUNTIME,
        [WORKSPACE_BROKEN] = CLASS_TRANSIENT_RUNTIME,
    };
    for (int i = WORKSPACE_NOT_A_REPOSITORY; i <= WORKSPACE_BROKEN; i++) {
        box_keeper.problem = (enum workspace_problem)i;
        check_problem((enum workspace_problem)i, classes[i]);
    }
}

TEST(workspace, a_ref_is_a_branch_a_tag_a_commit_or_head)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    box_sh("cd r && git tag -am x v1 && git branch side && echo 2 >a.txt && git commit -qam 2");
    const char *first = box_out("git -C r rev-parse HEAD~1");
    const char *second = box_out("git -C r rev-parse HEAD");
    check_fine(resolve("r", NULL, commit, &err), &err);
    check_str(commit, second);
    check_fine(resolve("r", "", commit, &err), &err);
    check_str(commit, second);
    check_fine(resolve("r", "main", commit, &err), &err);
    check_str(commit, second);
    const char *const names[] = {"v1", "side", "refs/heads/side", "main~1", first};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_fine(resolve("r", names[i], commit, &err), &err);
        check_str(commit, first);
    }
    check_fine(resolve("r/dir", "HEAD", commit, &err), &err);
    check_str(commit, second);
    check_int(box_keeper.problem, ==, WORKSPACE_FINE);
}

TEST(workspace, what_is_no_repository_is_said_to_be_none)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_sh("mkdir plain && touch file");
    check_int(resolve("plain", "main", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_NOT_A_REPOSITORY, CLASS_DETERMINISTIC_REPO);
    check_contains(err.text, "plain is not a git repository");
    check_int(resolve("nowhere", "main", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_NOT_A_REPOSITORY, CLASS_DETERMINISTIC_REPO);
    check_contains(err.text, "no such folder");
    check_int(resolve("file", "main", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_NOT_A_REPOSITORY, CLASS_DETERMINISTIC_REPO);
    check_int(resolve("file:///nowhere/at/all", "main", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_NOT_A_REPOSITORY, CLASS_DETERMINISTIC_REPO);
}

TEST(workspace, a_ref_that_does_not_exist_comes_with_the_one_that_looks_like_it)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    box_sh("cd r && git branch feature/login && git branch zzz");
    check_int(resolve("r", "mian", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_REF_MISSING, CLASS_DETERMINISTIC_REPO);
    check_contains(err.text, "no commit called mian in repository r; did you mean main?");
    check_int(resolve("r", "logn", commit, &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "feature/login");
    check(strstr(err.text, "zzz") == NULL);
    check_int(resolve("r", "something-else", commit, &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "; there is main, for example");
    /* The default branch, although another has the newest commit. */
    box_sh("cd r && git branch -m main trunk && git checkout -q -b aaa && "
           "git commit -q --allow-empty -m new && git checkout -q trunk");
    check_int(resolve("r", "something-else", commit, &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "; there is trunk, for example");
    check_int(resolve("r", "--help", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_REF_MISSING, CLASS_DETERMINISTIC_REPO);
    check_int(resolve("r", "0123456789012345678901234567890123456789", commit, &err), ==,
              TEND_ENOTFOUND);
    check_problem(WORKSPACE_REF_MISSING, CLASS_DETERMINISTIC_REPO);
    check_int(resolve("r", "main:a.txt", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_REF_MISSING, CLASS_DETERMINISTIC_REPO);
}

TEST(workspace, a_repository_without_a_commit_says_so)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_sh("git init -q r");
    check_int(resolve("r", NULL, commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_REF_MISSING, CLASS_DETERMINISTIC_REPO);
    check_contains(err.text, "no branch with a commit yet");
}

TEST(workspace, git_missing_is_told_apart)
{
    box_init();
    struct err err = {0};
    char commit[GIT_ID_BYTES];
    box_repository("r");
    setenv("PATH", test_path("empty"), 1);
    check_int(resolve("r", "main", commit, &err), ==, TEND_ENOTFOUND);
    check_problem(WORKSPACE_GIT_MISSING, CLASS_DETERMINISTIC_CONTRACT);
    check_contains(err.text, "no git command in PATH");
}

/* Nothing changes in the repository, whatever state it is in. */
static void check_untouched(const char *repo)
{
    const char *before = box_repository_state(repo);
    struct workspace workspace = box_workspace(repo, "main");
    box_sh("cd '%s' && echo change >>a.txt && rm dir/b.txt && echo new >new.txt", workspace.folder);
    struct workspace_change *change = box_checkpoint(&workspace);
    check_int(change->file_count, ==, 3);
    check_str(box_repository_state(repo), before);
    box_check_replay(repo, "main", &workspace, &change, 1);
    check_str(box_repository_state(repo), before);
    box_drop(&workspace);
    check_str(box_repository_state(repo), before);
}

TEST(workspace, a_dirty_repository_stays_byte_for_byte)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r && echo stashed >a.txt && git stash -q && echo staged >a.txt && git add a.txt && "
           "echo dirty >a.txt && echo untracked >u && rm run.sh && git branch other");
    check_untouched(repo);
}

TEST(workspace, a_repository_in_the_middle_of_a_merge_with_a_held_lock_stays_as_it_is)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r && git checkout -qb side && echo side >a.txt && git commit -qam s && "
           "git checkout -q main && echo main >a.txt && git commit -qam m && "
           "! git merge side >/dev/null && touch .git/index.lock");
    check_untouched(repo);
}

TEST(workspace, a_repository_that_checks_out_only_a_part_gives_a_whole_workspace)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r && git config core.splitIndex true && git sparse-checkout set --no-cone /dir && "
           "test ! -e a.txt");
    struct workspace workspace = box_workspace(repo, "main");
    check_str(box_out("cat '%s/a.txt'", workspace.folder), "one\ntwo\nthree");
    check_str(box_checkpoint(&workspace)->hash, "");
    box_drop(&workspace);
    check_untouched(repo);
}

TEST(workspace, hooks_of_the_user_are_not_run)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r/.git/hooks && for h in post-checkout post-index-change reference-transaction; do "
           "printf '#!/bin/sh\\ntouch \"%s\"\\n' >$h; chmod +x $h; done",
           test_path("hook-ran"));
    check_untouched(repo);
    check_int(box_status("test -e hook-ran"), ==, 1);
}

TEST(workspace, bare_detached_shallow_repositories_and_worktrees_of_worktrees_will_do)
{
    box_init();
    box_repository("r");
    box_sh(
        "cd r && echo 2 >a.txt && git commit -qam 2 && cd .. && git clone -q --bare r bare.git && "
        "git clone -q --depth 1 'file://%s' shallow && git clone -q r detached && "
        "git -C detached checkout -q HEAD~1 && git -C r worktree add -q ../linked HEAD~1",
        test_path("r"));
    const char *const repos[] = {"bare.git", "shallow", "detached", "linked"};
    for (size_t i = 0; i < sizeof repos / sizeof repos[0]; i++) {
        struct workspace workspace = box_workspace(repos[i], NULL);
        check_str(box_out("git -C '%s' rev-parse HEAD", workspace.folder),
                  box_out("git -C %s rev-parse HEAD", repos[i]));
        check_int(box_status("git -C '%s' symbolic-ref -q HEAD", workspace.folder), ==, 1);
        box_sh("echo x >'%s/a.txt'", workspace.folder);
        struct workspace_change *change = box_checkpoint(&workspace);
        check_int(change->file_count, ==, 1);
        box_check_replay(repos[i], NULL, &workspace, &change, 1);
        box_drop(&workspace);
    }
    check_int(box_status("git -C linked status >/dev/null"), ==, 0);
}

TEST(workspace, two_workspaces_of_one_job_do_not_know_of_each_other)
{
    box_init();
    const char *repo = box_repository("r");
    struct workspace old = box_workspace(repo, "main");
    box_sh("echo old >'%s/a.txt'", old.folder);
    struct workspace fresh = box_workspace(repo, "main");
    check(strcmp(old.folder, fresh.folder) != 0);
    box_sh("echo fresh >'%s/new.txt'", fresh.folder);
    struct workspace_change *of_old = box_checkpoint(&old);
    check_int(of_old->file_count, ==, 1);
    check_str(of_old->files[0].path, "a.txt");
    box_drop(&old);
    struct workspace_change *of_fresh = box_checkpoint(&fresh);
    check_int(of_fresh->file_count, ==, 1);
    check_str(of_fresh->files[0].path, "new.txt");
    box_drop(&fresh);
}

TEST(workspace, what_a_crashed_worker_left_is_not_in_the_way_and_can_be_cleared)
{
    box_init();
    const char *repo = box_repository("r");
    const char *before = box_repository_state(repo);
    struct err err = {0};
    struct workspace crashed = box_workspace(repo, "main");
    struct workspace gone = box_workspace(repo, "main");
    box_sh("touch '%s/.git/index.lock' '%s.lock' '%s/index.next.lock' && rm -rf '%s/.git' '%s'",
           crashed.folder, crashed.index_path, crashed.private_folder, crashed.folder, gone.folder);
    box_sh("mkdir work/workspace-3.tend work/workspace-4 work/other"); /* half-made */
    struct workspace fresh = box_workspace(repo, "main");
    box_sh("mkdir '%s/ro' && touch '%s/ro/x' && chmod 500 '%s/ro'", fresh.folder, fresh.folder,
           fresh.folder);
    check_int(workspace_remove_all(&box_keeper, test_path("work"), &err), ==, 5);
    check_str(box_out("ls work"), "other");
    check_str(box_repository_state(repo), before);
    check_int(workspace_remove_all(&box_keeper, test_path("nowhere"), &err), ==, 0);
    workspace_done(&crashed);
    workspace_done(&gone);
    workspace_done(&fresh);
}

/* Earlier versions made worktrees of the user's repository; theirs are found and taken away. */
TEST(workspace, a_workspace_of_an_earlier_version_is_cleared_with_its_entry_in_the_repository)
{
    box_init();
    const char *repo = box_repository("r");
    const char *before = box_repository_state(repo);
    struct err err = {0};
    box_sh(
        "mkdir work && cd r && for n in 1 2; do git worktree add -q --detach ../work/workspace-$n "
        "&& mkdir ../work/workspace-$n.tend && echo \"$PWD/.git\" "
        ">../work/workspace-$n.tend/repository; done; rm ../work/workspace-2/.git");
    /* Git was killed before it wrote down where the worktree is. */
    box_sh("mkdir work/workspace-3.tend r/.git/worktrees/workspace-3 && "
           "echo '%s' >work/workspace-3.tend/repository && "
           "echo initializing >r/.git/worktrees/workspace-3/locked",
           test_path("r/.git"));
    check_int(workspace_remove_all(&box_keeper, test_path("work"), &err), ==, 3);
    check_str(box_out("ls work"), "");
    check_str(box_repository_state(repo), before);
}

TEST(workspace, a_locked_checkpoint_index_of_a_killed_git_is_cleared_away)
{
    box_init();
    struct workspace workspace = box_workspace(box_repository("r"), "main");
    box_sh("touch '%s.lock' '%s/index.next.lock' '%s/.git/index.lock' && echo x >'%s/a.txt'",
           workspace.index_path, workspace.private_folder, workspace.folder, workspace.folder);
    check_int(box_checkpoint(&workspace)->file_count, ==, 1);
    box_drop(&workspace);
}

enum { MAKERS = 8, ROUNDS = 6 };

static void make_and_remove(void)
{
    struct err err = {0};
    for (int i = 0; i < ROUNDS; i++) {
        struct workspace_source source;
        struct workspace workspace;
        check_fine(workspace_resolve(&box_keeper, "r", "main", &source, &err), &err);
        check_fine(workspace_make(&box_keeper, &source, test_path("work"), &workspace, &err), &err);
        check_str(box_out("cat '%s/a.txt'", workspace.folder), "one\ntwo\nthree");
        /* Not box_drop: the name may have been taken again by another at once. */
        check_fine(workspace_remove(&box_keeper, &workspace, &err), &err);
        workspace_done(&workspace);
        workspace_source_done(&source);
    }
}

TEST_WITHIN(workspace, many_processes_make_and_remove_workspaces_of_one_repository, 180)
{
    box_init();
    const char *repo = box_repository("r");
    const char *before = box_repository_state(repo);
    for (int i = 0; i < MAKERS; i++)
        if (fork() == 0) {
            make_and_remove();
            _exit(0);
        }
    for (int i = 0; i < MAKERS; i++) {
        int status;
        check_int(wait(&status), >, 0);
        check_int(status, ==, 0);
    }
    check_str(box_repository_state(repo), before);
    check_str(box_out("ls work"), "");
}

/* Again and again, for git is interrupted at another moment each time. */
TEST(workspace, a_call_that_is_interrupted_leaves_nothing)
{
    box_init();
    const char *repo = box_repository("r");
    const char *before = box_repository_state(repo);
    struct err err = {0};
    struct workspace_source source;
    struct workspace workspace;
    check_fine(workspace_resolve(&box_keeper, repo, "main", &source, &err), &err);
    int interrupted = 0;
    for (int after_us = 0; after_us < 12000; after_us += 300) {
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        const struct itimerspec time = {.it_value = {.tv_nsec = 1 + after_us * 1000L}};
        check_int(timerfd_settime(timer, 0, &time, NULL), ==, 0);
        box_keeper.limits.cancel_fd = timer;
        int rc = workspace_make(&box_keeper, &source, test_path("work"), &workspace, &err);
        if (rc == 0)
            box_drop(&workspace);
        else {
            interrupted++;
            check_int(rc, ==, TEND_EINTERRUPTED);
            check_problem(WORKSPACE_INTERRUPTED, CLASS_TRANSIENT_RUNTIME);
        }
        close(timer);
        check_str(box_out("ls -A work"), "");
        check_str(box_repository_state(repo), before);
    }
    check_int(interrupted, >, 0);
    workspace_source_done(&source);
}

/* Symptom: git does not say why it could not write a file, and the job lost an attempt. */
TEST(workspace, a_disk_that_is_full_while_files_are_checked_out_is_said)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r && head -c 2000000 /dev/urandom >big && git add big && git commit -qm big");
    box_sh("mkdir small");
    if (!mounts_own() || !mounts_disk(test_path("small"), "1m"))
        test_skip("this process may not mount a file system");
    struct err err = {0};
    struct workspace_source source;
    struct workspace workspace;
    check_fine(workspace_resolve(&box_keeper, repo, "main", &source, &err), &err);
    check_int(workspace_make(&box_keeper, &source, test_path("small"), &workspace, &err), ==,
              TEND_EFULL);
    check_problem(WORKSPACE_NO_SPACE, CLASS_TRANSIENT_RUNTIME);
    check_contains(err.text, "no space left on the disk");
    workspace_source_done(&source);
}
