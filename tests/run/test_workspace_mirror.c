/* Workspaces of repositories on other machines: copied once, fetched on reuse. */
#include "run/workspace_box.h"

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
