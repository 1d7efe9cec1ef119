/*
 * A workspace is a repository of its own (BY-10, SH-6, SH-7): what a step does with git stays
 * there, and what the user does meanwhile takes nothing from it.
 */
#include "run/workspace_box.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A repository with all that a step could spoil: stash, branches, tag, remote, hook, settings. */
static const char *rich_repository(void)
{
    box_repository("r");
    box_sh(
        "set -e; git clone -q --bare r upstream.git; cd r; git remote add origin ../upstream.git; "
        "git fetch -q; git remote set-head origin main; git branch topic; git tag -am x v1; "
        "echo stashed >a.txt; git stash -q; echo dirty >>dir/b.txt; git config user.name Theirs; "
        "printf '#!/bin/sh\\ntouch ../../hook-ran\\n' >.git/hooks/pre-commit; "
        "chmod +x .git/hooks/pre-commit");
    return test_path("r");
}

static const char *const deeds[] = {
    "test -z \"$(git stash list)\"; echo x >a.txt; git stash -q; git stash pop -q; git stash clear",
    "git config core.bare true; git config user.name Evil; git config core.bare false",
    "git checkout -q -b fix; echo y >y; git add y; git commit -qm y; git tag t",
    "git checkout -q --detach; git for-each-ref --format='delete %(refname)' refs/heads refs/tags | "
    "git update-ref --stdin",
    "git reflog expire --expire=now --all; git gc -q --prune=now; git prune --expire=now",
    "git repack -adq; git fsck >/dev/null 2>&1",
    "git worktree prune; git worktree add -q ../other-tree HEAD; git worktree remove ../other-tree",
    "git remote remove origin; git pack-refs --all --prune; git notes add -m note HEAD",
    "printf '#!/bin/sh\\nexit 1\\n' >.git/hooks-x; mkdir -p .git/hooks; cp .git/hooks-x .git/hooks/x",
    "touch .git/index.lock .git/HEAD.lock; echo garbage >.git/config",
    "rm -rf .git; git init -q .; git add -A; git commit -qm own; git gc -q --prune=now",
    "rm -rf .git; echo last >>a.txt",
};

static void check_deeds(const char *repo, const char *folder)
{
    struct workspace other = box_workspace(repo, "main");
    struct workspace workspace = box_workspace(repo, "main");
    const char *user_before = box_repository_state(folder);
    const char *cache_before = box_repository_state("cache");
    const char *other_before = box_repository_state(other.folder);
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        box_sh("set -e; cd '%s'; echo %zu >>count; %s", workspace.folder, i, deeds[i]);
        check_int(box_checkpoint(&workspace)->file_count, >=, 1);
        check_str(box_repository_state(folder), user_before);
        check_str(box_repository_state("cache"), cache_before);
        check_str(box_repository_state(other.folder), other_before);
    }
    check_int(box_status("test -e hook-ran"), ==, 1);
    box_sh("git -C '%s' status >/dev/null && git -C '%s' fsck 2>/dev/null", other.folder,
           other.folder);
    box_drop(&workspace);
    box_drop(&other);
    check_str(box_repository_state(folder), user_before);
}

TEST_WITHIN(own, BY_10_nothing_a_step_does_with_git_reaches_the_repository_or_another_job, 180)
{
    box_init();
    check_deeds(rich_repository(), "r");
}

TEST_WITHIN(own, BY_10_nor_does_it_reach_the_copy_of_a_url_or_another_job_that_uses_it, 180)
{
    box_init();
    char url[4096];
    snprintf(url, sizeof url, "file://%s", rich_repository());
    check_deeds(url, "r");
}

/* Symptom: "a branch named 'fix' already exists" in every attempt after the first, in the hard
 * reset, and in other jobs with the same URL. */
TEST(own, SH_7_every_workspace_can_make_the_same_branch)
{
    box_init();
    char url[4096];
    snprintf(url, sizeof url, "file://%s", box_repository("r"));
    const char *const repos[] = {"r", "r", url, url};
    for (size_t i = 0; i < sizeof repos / sizeof *repos; i++) {
        struct workspace workspace = box_workspace(repos[i], "main");
        box_sh("cd '%s' && git checkout -q -b fix && echo x >x && git add x && git commit -qm x",
               workspace.folder);
        workspace_done(&workspace);
    }
    check_int(box_status("git -C r rev-parse -q --verify fix"), ==, 1);
}

/* --- attempts in one workspace --- */

static int attempt(struct workspace *workspace, const char *line)
{
    workspace_begin_attempt(&box_keeper, workspace);
    return box_status("exec 2>&1; set -e; cd '%s'; %s", workspace->folder, line);
}

/* Symptom: the second attempt in the same workspace failed for what the first had done. */
TEST(own, SH_6_an_attempt_finds_git_where_the_step_began_and_the_files_as_they_were_left)
{
    static const char commits[] =
        "git checkout -q -b fix; echo x >>count; git add count; git commit -qm x; git tag mark; "
        "git branch -qf side HEAD; touch .git/index.lock .git/refs/heads/fix.lock; exit 3";
    static const char conflict[] = "git checkout -q -b one; echo 1 >a.txt; git commit -qam 1; "
                                   "git checkout -q --detach HEAD~1; echo 2 >a.txt; "
                                   "git commit -qam 2; git merge one";
    box_init();
    box_repository("r");
    box_sh("git -C r branch side");
    struct workspace workspace = box_workspace("r", "main");
    for (int i = 1; i <= 3; i++) {
        check_int(attempt(&workspace, commits), ==, 3);
        check_str(box_out("grep -c x '%s/count'", workspace.folder), i == 1   ? "1"
                                                                     : i == 2 ? "2"
                                                                              : "3");
    }
    check_int(attempt(&workspace, conflict), ==, 1);
    check_int(attempt(&workspace, conflict), ==, 1);
    /* What they had made is still there, and so is the stash, which has no name to collide. */
    check_int(attempt(&workspace, "git stash -q; exit 1"), ==, 1);
    check_int(attempt(&workspace, "test \"$(git show refs/tend/attempt-2/heads/fix:count)\" = "
                                  "\"$(printf 'x\\nx')\"; git stash pop -q; "
                                  "git rev-parse -q --verify refs/tend/attempt-1/tags/mark"),
              ==, 0);
    /* The next step begins with what this one has left. */
    check_int(attempt(&workspace, "git checkout -q -b done; git add -A; git commit -qm done; "
                                  "echo staged >staged; git add staged"),
              ==, 0);
    box_checkpoint(&workspace);
    for (int i = 0; i < 3; i++)
        check_int(attempt(&workspace, "test \"$(git branch --show-current)\" = done; "
                                      "git commit -qm more; git tag more; exit 7"),
                  ==, 7);
    box_drop(&workspace);
}

/* Symptom: the branches stayed as the attempt had left them, because a/b cannot be made while there
 * is a branch a; and what an earlier step had made was overwritten. */
TEST(own, SH_6_branches_are_put_back_also_where_names_have_become_folders)
{
    static const char swap[] =
        "git branch -qD a; git branch a/b; git branch -qD c/d; git branch c; exit 3";
    box_init();
    box_repository("r");
    box_sh("cd r && git branch a && git branch c/d");
    struct workspace workspace = box_workspace("r", "main");
    for (int i = 0; i < 3; i++)
        check_int(attempt(&workspace, swap), ==, 3);
    check_int(attempt(&workspace, "git commit -q --allow-empty -m one; git branch fix; exit 3"), ==,
              3);
    check_int(attempt(&workspace, "git rev-parse refs/tend/attempt-4/heads/fix >../first"), ==, 0);
    box_checkpoint(&workspace);
    for (int i = 0; i < 5; i++)
        check_int(attempt(&workspace, "git commit -q --allow-empty -m two; git branch fix; exit 3"),
                  ==, 3);
    check_int(attempt(&workspace, "test \"$(git rev-parse refs/tend/attempt-4/heads/fix)\" = "
                                  "\"$(cat ../first)\"; git rev-parse refs/heads/a "
                                  "refs/heads/c/d refs/tend/attempt-1/heads/a/b"),
              ==, 0);
    box_drop(&workspace);
}

/* HEAD and files must fit, or the same checkout fails in the next attempt. */
TEST(own, SH_6_an_attempt_that_goes_to_another_branch_can_be_made_again)
{
    static const char *const lines[] = {
        "git checkout -q release; test -e r; echo x >>r; git commit -qam r; exit 7",
        "git checkout -q release; git checkout -q -b fix; echo y >y; git add y; git commit -qm y; "
        "exit 7",
        "git checkout -q -b fix origin/ahead; test -e ahead; echo z >z; git add z; git commit -qm z; "
        "exit 7",
        "git checkout -q main; git merge -q release; git tag -f t; git checkout -q v0; exit 7",
        "git checkout -q -b gone; git branch -qD release; git rebase -q v0; exit 7",
        "git rebase -q --onto v0 main~1 main; exit 7",
    };
    box_init();
    box_repository("r");
    box_sh(
        "cd r && git tag v0 && git checkout -qb release && echo r >r && git add r && "
        "git commit -qm r && git checkout -q main && echo m >m && git add m && git commit -qm m && "
        "git commit-tree -p main -m ahead \"$(cp .git/index x; echo a >ahead; "
        "GIT_INDEX_FILE=x git add ahead; GIT_INDEX_FILE=x git write-tree; rm x ahead)\" >ahead && "
        "git update-ref refs/remotes/origin/ahead $(cat ahead) && rm ahead");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct workspace workspace = box_workspace("r", "main");
        for (int n = 0; n < 3; n++)
            if (attempt(&workspace, lines[i]) != 7)
                test_fail(__FILE__, __LINE__, "attempt %d: %s", n + 1, lines[i]);
        box_drop(&workspace);
    }
}

TEST(own, SH_6_a_merge_that_a_step_has_left_for_the_next_is_not_touched_nor_is_a_broken_repository)
{
    box_init();
    box_repository("r");
    struct workspace workspace = box_workspace("r", "main");
    check_int(attempt(&workspace, "git checkout -q -b one; echo 1 >a.txt; git commit -qam 1; "
                                  "git checkout -q -b two main; echo 2 >a.txt; git commit -qam 2; "
                                  "git merge one || true"),
              ==, 0);
    box_checkpoint(&workspace);
    check_int(attempt(&workspace, "echo both >a.txt; git add a.txt; touch .git/index.lock; exit 1"),
              ==, 1);
    check_int(attempt(&workspace, "git commit -qm merged; git rev-parse HEAD^2"), ==, 0);
    box_checkpoint(&workspace);
    check_int(attempt(&workspace, "echo garbage >.git/config; exit 1"), ==, 1);
    check_int(
        attempt(&workspace, "rm -rf .git; git init -q .; git add -A; git commit -qm x; exit 1"), ==,
        1);
    check_int(attempt(&workspace,
                      "git commit -q --allow-empty -m y; git log -1 >/dev/null; rm -rf .git; "
                      "exit 7"),
              ==, 7);
    check_int(attempt(&workspace, "test ! -e .git; echo x >x"), ==, 0);
    check_int(box_checkpoint(&workspace)->file_count, ==, 1);
    box_drop(&workspace);
}

/* --- what a workspace is given --- */

TEST(own, refs_are_as_the_user_has_them_but_for_the_stash_and_head_is_detached)
{
    box_init();
    const char *repo = rich_repository();
    struct workspace workspace = box_workspace(repo, "topic");
    static const char list[] = "for-each-ref --format='%(objectname) %(refname) %(symref)'";
    check_str(box_out("git -C '%s' %s", workspace.folder, list),
              box_out("git -C r %s | grep -v refs/stash", list));
    check_contains(box_out("git -C '%s' %s", workspace.folder, list),
                   "refs/remotes/origin/HEAD refs/remotes/origin/main");
    check_int(box_status("git -C '%s' symbolic-ref -q HEAD", workspace.folder), ==, 1);
    box_sh("cd '%s' && git checkout -q main && git checkout -q v1", workspace.folder);
    box_drop(&workspace);
    /* The next one knows what has changed since. */
    box_sh("cd r && git stash -q && git branch -qD topic && git checkout -q -b topic/deep && "
           "echo n >n && git add n && git commit -qnm n");
    workspace = box_workspace(repo, NULL);
    check_str(box_out("git -C '%s' %s", workspace.folder, list),
              box_out("git -C r %s | grep -v refs/stash", list));
    check_str(box_out("cat '%s/n'", workspace.folder), "n");
    box_drop(&workspace);
}

TEST(own, fetch_and_push_reach_where_the_user_s_do)
{
    box_init();
    const char *repo = rich_repository();
    box_sh("git clone -q upstream.git someone && cd someone && echo s >s && git add s && "
           "git commit -qm s && git push -q origin HEAD:main");
    const char *before = box_repository_state(repo);
    struct workspace workspace = box_workspace(repo, "main");
    box_sh("set -e; cd '%s'; git fetch -q; test -n \"$(git ls-tree origin/main s)\"; "
           "git checkout -q -b fix; echo f >f; git add f; git commit -qm f; git push -q origin fix",
           workspace.folder);
    check_int(box_status("git -C upstream.git rev-parse -q --verify fix >/dev/null"), ==, 0);
    check_str(box_repository_state(repo), before);
    box_drop(&workspace);

    char url[4096];
    snprintf(url, sizeof url, "file://%s", test_path("upstream.git"));
    workspace = box_workspace(url, "main");
    check_str(box_out("git -C '%s' remote get-url origin", workspace.folder), url);
    box_sh("set -e; cd '%s'; git fetch -q; git checkout -q fix; echo g >>f; git commit -qam g; "
           "git push -q",
           workspace.folder);
    check_str(box_out("git -C upstream.git show fix:f"), "f\ng");
    box_drop(&workspace);
}

/* Symptom: where url.<base>.insteadOf has a relative base, origin led nowhere. */
TEST(own, a_relative_path_that_insteadOf_puts_in_reaches_where_the_user_s_does)
{
    box_init();
    const char *repo = rich_repository();
    box_sh("cd r && git config remote.origin.url gh:upstream.git && "
           "git config url.../.insteadOf gh: && git config url.../.pushInsteadOf push: && "
           "git config url.ssh://host/x/.insteadOf far: && git fetch -q");
    struct workspace workspace = box_workspace(repo, "main");
    box_sh("cd '%s' && git fetch -q && git push -q push:upstream.git HEAD:refs/heads/pushed",
           workspace.folder);
    check_str(box_out("git -C '%s' ls-remote --get-url far:y", workspace.folder), "ssh://host/x/y");
    box_drop(&workspace);
}

TEST(own, settings_come_along_but_for_those_that_are_about_the_other_folder)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh(
        "set -e; cd r; git config user.name 'Some \"One\" \\\\ # ;'; git config core.autocrlf true; "
        "git config http.https://example.org/.extraHeader 'X: y'; git config alias.two \"$(printf "
        "'!echo one;\\n\\techo two')\"; git config core.hooksPath /nowhere; "
        "git config 'url.ssh://git@example.org/a\"b.insteadOf' x:; git config gc.auto 1; "
        "git config remote.near.url ../near.git; git config remote.far.url host:path; "
        "git config extensions.worktreeConfig true; git config core.worktree \"$PWD\"; "
        "printf '[included]\\n\\tyes\\n' >.git/more; git config include.path more; "
        "git config core.fsmonitor true; echo '*.skip' >>.git/info/exclude; "
        "echo '*.mine' >../mine; git config core.excludesFile \"$PWD/../mine\"; "
        "git config --add branch.main.remote near");
    struct workspace workspace = box_workspace(repo, "main");
    const char *folder = workspace.folder;
    const char *const same[] = {"user.name",          "http.https://example.org/.extraHeader",
                                "alias.two",          "url.ssh://git@example.org/a\"b.insteadOf",
                                "included.yes",       "core.autocrlf",
                                "branch.main.remote", "remote.far.url"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_str(box_out("git -C '%s' config --local '%s'", folder, same[i]),
                  box_out("git -C r config --local --includes '%s'", same[i]));
    check_str(box_out("git -C '%s' two", folder), "one\ntwo");
    check_str(box_out("git -C '%s' config remote.near.url", folder), test_path("r/../near.git"));
    check_str(box_out("git -C '%s' config core.bare", folder), "false");
    check_str(box_out("git -C '%s' config gc.auto", folder), "0");
    const char *const not_there[] = {"core.hooksPath", "core.worktree", "include.path",
                                     "extensions.worktreeConfig", "core.fsmonitor"};
    for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++)
        check_int(box_status("git -C '%s' config --local '%s'", folder, not_there[i]), ==, 1);
    box_sh("cd '%s' && touch x.skip x.mine && test -z \"$(git status --porcelain)\"", folder);
    check_str(box_checkpoint(&workspace)->hash, "");
    /* A step may have more ignored by its own repository. */
    box_sh("cd '%s' && echo '*.tmp' >>.git/info/exclude && touch x.tmp y", folder);
    check_int(box_checkpoint(&workspace)->file_count, ==, 1);
    check_str(box_out("stat -c %%a '%s/.git/config'", folder), "600");
    box_drop(&workspace);
}

/* --- the user, meanwhile --- */

static void check_works(struct workspace *workspace, const char *name)
{
    box_sh("set -e; cd '%s'; git status >/dev/null; git log --all >/dev/null; "
           "git checkout -q -b %s; echo %s >%s; git add %s; git commit -qm x; git fsck 2>/dev/null",
           workspace->folder, name, name, name, name);
    check_int(box_checkpoint(workspace)->file_count, ==, 1);
}

TEST(own, a_deleted_branch_gc_and_a_deleted_repository_do_not_break_a_workspace)
{
    box_init();
    struct err err = {0};
    const char *repo = box_repository("r");
    struct workspace_source source;
    struct workspace workspace;
    box_sh("cd r && git checkout -qb topic && echo t >t && git add t && git commit -qm t && "
           "git checkout -q main");
    check_fine(workspace_resolve(&box_keeper, repo, "topic", &source, &err), &err);
    check_fine(workspace_make(&box_keeper, &source, test_path("work"), &workspace, &err), &err);
    box_sh("cd r && git branch -qD topic && git reflog expire --expire=now --all && "
           "git gc -q --prune=now && ! git cat-file -e %s",
           source.commit);
    check_works(&workspace, "one");
    box_sh("rm -rf r");
    check_works(&workspace, "two");
    /* So does one made for a hard reset, and one of whoever goes on with the job. */
    struct workspace reset;
    check_fine(workspace_make(&box_keeper, &source, test_path("work"), &reset, &err), &err);
    check_works(&reset, "three");
    struct workspace resumed = box_workspace(repo, source.commit);
    check_works(&resumed, "four");
    struct workspace_source none;
    check_int(workspace_resolve(&box_keeper, repo, "main", &none, &err), ==, TEND_ENOTFOUND);
    check_contains(err.text, "there is no such folder");
    box_drop(&workspace);
    box_drop(&reset);
    box_drop(&resumed);
    workspace_source_done(&source);
}

TEST(own, a_repository_that_was_replaced_by_another_is_copied_as_it_is_now)
{
    box_init();
    box_repository("r");
    struct workspace workspace = box_workspace("r", "main");
    box_drop(&workspace);
    box_sh("rm -rf r && git init -q r && cd r && echo other >other && git add . && "
           "git commit -qm other && git branch side");
    workspace = box_workspace("r", "side");
    check_str(box_out("ls '%s'", workspace.folder), "other");
    check_str(box_out("git -C '%s' rev-list --all --count", workspace.folder), "1");
    box_drop(&workspace);
}

/* --- workers that die --- */

/* Again and again, for the process dies at another moment each time. */
TEST_WITHIN(own, a_worker_killed_while_it_makes_a_copy_or_a_workspace_blocks_nobody, 180)
{
    box_init();
    const char *repo = box_repository("r");
    box_sh("cd r && for i in $(seq 40); do echo $i >f$i; git add .; git commit -qm $i; done");
    const char *before = box_repository_state(repo);
    for (int after_us = 0; after_us < 40000; after_us += 1600) {
        box_sh("rm -rf cache");
        pid_t pid = fork();
        if (pid == 0) {
            struct workspace workspace = box_workspace(repo, "main~3");
            workspace_done(&workspace);
            _exit(0);
        }
        usleep((useconds_t)after_us); /* chance, not a wait for something */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct workspace workspace = box_workspace(repo, "main~2");
        box_sh("cd '%s' && git fsck 2>/dev/null && test ! -e f39 && test -e f38", workspace.folder);
        box_drop(&workspace);
        check_str(box_repository_state(repo), before);
    }
}
