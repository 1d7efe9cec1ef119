/* A runner and the user's repository: jobs with a workspace change nothing in it (BY-10, SH-6,
 * SH-7, SH-10). */
#include "runner_case.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void shell(const char *command)
{
    if (chdir(test_folder()) < 0 || system(command) != 0)
        test_fail(__FILE__, __LINE__, "this failed: %s", command);
}

/* A repository "repo" with two commits, a stash and a change nobody has committed. */
static void make_repository(void)
{
    shell("exec >/dev/null 2>&1; git init -q -b main repo && cd repo && "
          "git config user.email a@b && git config user.name n && "
          "echo first >kept && git add . && git commit -qm one && "
          "echo second >kept && git commit -qam two && echo stashed >kept && git stash && "
          "echo dirty >>kept");
}

/* Every byte of it. */
static const char *fingerprint(void)
{
    shell(
        "cd repo && { find . -printf '%y %m %s %P %l\\n' | sort; find . -type f -print0 | sort -z "
        "| xargs -0 sha256sum; } >../fingerprint");
    return file_text("fingerprint");
}

static const char *plan_of(const char *repo, const char *steps)
{
    return keep_text("{\"workspace\":{\"repo\":\"%s\",\"ref\":\"main\"},\"env\":{\"T\":\"%s\"},"
                     "\"steps\":[%s]}",
                     repo, test_folder(), steps);
}

static const char *repo_path(void)
{
    return keep_text("%s/repo", test_folder());
}

/* Symptom: attempts 2 and 3, the hard reset and other jobs with the same URL failed with "a branch
 * named 'fix' already exists"; and the branch was in the user's repository. */
TEST(runner_repository, BY_10_a_branch_can_be_made_in_every_attempt_reset_and_job)
{
    static const char step[] =
        "{\"attempts\":6,\"run\":\"git checkout -q -b fix || exit 64; echo x >made; git add made; "
        "git -c user.name=n -c user.email=a@b commit -qm made || exit 64; pwd >>$T/folders; test $(sort -u $T/folders | wc -l) -ge "
        "$(cat $T/folders-wanted) || { echo the same error; exit 75; }\"}";
    tend *t = store_open_real("w");
    make_repository();
    const char *before = fingerprint();
    shell("echo 2 >folders-wanted");
    int64_t id = add_plan(t, plan_of(repo_path(), step));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE); /* after a hard reset */
    shell("test $(wc -l <folders) -ge 3");
    for (int job = 0; job < 2; job++) {
        id = add_plan(t, plan_of(keep_text("file://%s", repo_path()), step));
        run_until_drained(t);
        check_int(state_of(t, id), ==, TEND_DONE);
    }
    check_str(fingerprint(), before);
}

/* Symptom: the user's stash was dropped, and the repository became a bare one. */
TEST(runner_repository, BY_10_stash_settings_and_objects_of_the_user_are_out_of_reach)
{
    tend *t = store_open_real("w");
    make_repository();
    const char *before = fingerprint();
    int64_t id = add_plan(
        t, plan_of(repo_path(), "{\"run\":\"git stash pop; test $? -ne 0\"},"
                                "{\"run\":\"git config core.bare true; git config user.name x\"},"
                                "{\"run\":\"git config core.bare false; git update-ref -d "
                                "refs/heads/main; git gc -q --prune=now; git worktree prune\"},"
                                "{\"run\":\"rm -rf .git; echo made >made\"},"
                                "{\"run\":\"cat made >$T/got\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("got"), "made\n");
    check_str(fingerprint(), before);
}

/* The folders of jobs may lie in a repository of the user's, as they do by default. */
TEST(runner_repository, BY_10_a_step_without_git_does_not_find_the_repository_around_it)
{
    tend *t = store_open_real("w");
    make_repository();
    shell("git init -q -b outer . && git -c user.name=n -c user.email=a@b commit -q --allow-empty "
          "-m outer");
    int64_t id = add_plan(t, plan_of(repo_path(), "{\"run\":\"rm -rf .git; ! git rev-parse "
                                                  "--git-dir; git checkout -b astray; true\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    shell("! git rev-parse -q --verify astray");
}

/* As a worker that was started by a hook. */
TEST(runner_repository, BY_10_what_git_told_the_worker_about_a_repository_is_not_told_to_its_steps)
{
    tend *t = store_open_real("w");
    make_repository();
    const char *before = fingerprint();
    setenv("GIT_DIR", keep_text("%s/.git", repo_path()), 1);
    setenv("GIT_WORK_TREE", repo_path(), 1);
    setenv("GIT_INDEX_FILE", keep_text("%s/.git/index", repo_path()), 1);
    int64_t id = add_plan(t, plan_of(repo_path(),
                                     "{\"run\":\"git checkout -q -b astray; echo x >x; git add x; "
                                     "git commit -qm x; git rev-parse --show-toplevel >$T/top; pwd "
                                     ">$T/pwd\"}"));
    run_until_drained(t);
    unsetenv("GIT_DIR");
    unsetenv("GIT_WORK_TREE");
    unsetenv("GIT_INDEX_FILE");
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("top"), file_text("pwd"));
    check_str(fingerprint(), before);
}

/* SH-10: whoever goes on has the commit the job began with, also when the user has taken it away.
 */
TEST(runner_repository, SH_10_a_job_goes_on_when_its_repository_is_gone)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    make_repository();
    int64_t id = add_plan(
        t, plan_of(repo_path(), "{\"id\":\"a\",\"run\":\"echo one >one\"},"
                                "{\"id\":\"b\",\"run\":\"test -f $T/cured || exit 64; cat one kept "
                                ">$T/got\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    shell("touch cured; rm -rf repo");
    check_ok(t, tend_control(t, id, "retry_step", NULL, NULL, "me", &result));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(file_text("got"), "one\nsecond\n");
}

/* SH-10. Symptom: in the fresh workspace the file of the step before had other line ends. */
TEST(runner_repository, SH_10_line_ends_are_the_same_after_a_reset)
{
    tend *t = store_open_real("w");
    make_repository();
    shell("cd repo && echo '*.txt eol=crlf' >.gitattributes && git add .gitattributes && "
          "git commit -qm attributes && git config core.autocrlf true");
    int64_t id = add_plan(
        t,
        plan_of(
            repo_path(),
            "{\"run\":\"printf 'a\\\\nb\\\\r\\\\n' >mixed.txt\"},"
            "{\"id\":\"b\",\"no_progress_limit\":1,\"run\":\"od -c mixed.txt >>$T/seen; pwd >>$T/folders; "
            "test $(sort -u $T/folders | wc -l) -ge 2 || exit 75\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    shell("test $(sort -u seen | wc -l) = 2 && grep -q 'a  .n   b  .r  .n' seen");
}

/* SH-4: what git forbids is not tried again. */
TEST(runner_repository, a_transport_that_git_forbids_ends_the_job_at_once)
{
    tend *t = store_open_real("w");
    int64_t id = add_plan(t, plan_of("ext::sh -c true", "{\"run\":\"true\"}"));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(job_of(t, id)->error_class, "deterministic_policy");
    check_contains(job_of(t, id)->error_text, "transport 'ext' not allowed");
}

/* Symptom: with a colon in the path, which separates the folders of GIT_CEILING_DIRECTORIES, a step
 * that had removed its .git worked on the user's repository. */
TEST(runner_repository, BY_10_git_finds_no_repository_above_a_workspace_whatever_the_path_is)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    make_repository();
    options.folder = keep_text("%s/repo/a:b", test_folder());
    int64_t id =
        add_plan(t, plan_of(repo_path(), "{\"run\":\"rm -rf .git; ! git rev-parse --git-dir\"}"));
    run_with(t, &options);
    check_int(state_of(t, id), ==, TEND_DONE);
    shell("! ls -d repo/a:b/job-*/lease-* 2>/dev/null");
}
