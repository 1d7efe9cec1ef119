/* The git command: its environment, its bounds and its ends. A script named git stands in for it
 * where a test needs one that hangs, floods or dies. */
#include "base/buf.h"
#include "run/workspace_box.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* From now on git is this shell script. */
static void pretend(const char *script)
{
    box_init();
    char path[4096];
    box_sh("mkdir bin && printf '#!/bin/sh\\n' >bin/git && chmod +x bin/git");
    FILE *file = fopen(test_path("bin/git"), "a");
    check(file != NULL);
    fputs(script, file);
    check_int(fclose(file), ==, 0);
    snprintf(path, sizeof path, "%s:%s", test_path("bin"), getenv("PATH"));
    setenv("PATH", path, 1);
}

static const char *const word[] = {"word", "more", NULL};

/* "gone" also when it is a zombie that nobody has waited for yet. */
static bool process_is_gone(const char *pid)
{
    return box_status("test ! -e /proc/%s || grep -q '^State:.Z' /proc/%s/status", pid, pid) == 0;
}

TEST(git, output_comes_back_and_input_goes_in)
{
    box_init();
    struct err err = {0};
    struct buf output;
    buf_init(&output);
    struct git_call call = {.args = (const char *const[]){"hash-object", "--stdin", NULL},
                            .input = "abc",
                            .input_bytes = 3,
                            .output = &output,
                            .output_max_bytes = 100};
    struct git_outcome outcome;
    check_fine(git_run(&call, &outcome, &err), &err);
    check_int(outcome.end, ==, GIT_DONE);
    check_str(output.data, "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f\n");
    buf_done(&output);
}

TEST(git, standard_output_can_go_to_a_file)
{
    box_init();
    struct err err = {0};
    int fd = open("out", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    struct git_call call = {.args = (const char *const[]){"version", NULL}, .output_fd = fd};
    check_fine(git_run(&call, NULL, &err), &err);
    close(fd);
    check_contains(box_out("cat out"), "git version");
}

TEST(git, a_failure_names_the_command_and_what_git_said)
{
    box_init();
    struct err err = {0};
    struct git_outcome outcome;
    struct git_call call = {.args = (const char *const[]){"rev-parse", "HEAD", NULL}};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_int(outcome.end, ==, GIT_FAILED);
    check_int(outcome.status, ==, 128);
    check_contains(err.text, "git rev-parse failed (status 128): not a git repository");
}

TEST(git, the_environment_is_cleaned_and_nothing_asks)
{
    pretend("env | sort; echo ---; echo \"$@\"; cat");
    setenv("GIT_DIR", "/bad", 1);
    setenv("GIT_WORK_TREE", "/bad", 1);
    setenv("GIT_AUTHOR_NAME", "bad", 1);
    setenv("GIT_SSH_COMMAND", "ssh -i key", 1);
    setenv("GIT_CONFIG_NOSYSTEM", "0", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    struct err err = {0};
    struct buf output;
    buf_init(&output);
    struct git_call call = {
        .args = word, .hides_system = true, .output = &output, .output_max_bytes = 100000};
    check_fine(git_run(&call, NULL, &err), &err);
    check(strstr(output.data, "NOSYSTEM=0") == NULL);
    check(strstr(output.data, "bad") == NULL);
    check_contains(output.data, "\nLC_ALL=C\n");
    check_contains(output.data, "GIT_CONFIG_NOSYSTEM=1\n");
    check_contains(output.data, "GIT_TERMINAL_PROMPT=0\n");
    check_contains(output.data, "GIT_SSH_COMMAND=ssh -i key\n");
    check_contains(output.data, "-c core.hooksPath=/dev/null ");
    check(strstr(output.data, "safe.directory") == NULL);
    check_contains(output.data, " word more\n");
    check_str(getenv("GIT_DIR"), "/bad"); /* ours is as it was */
    buf_done(&output);
}

TEST(git, a_git_that_hangs_is_stopped_with_all_it_started)
{
    pretend("sleep 1000 & echo $! >child; echo $$ >pid; wait");
    struct err err = {0};
    struct git_outcome outcome;
    struct git_limits limits = {.timeout_ms = 500, .cancel_fd = -1};
    struct git_call call = {.args = word, .limits = &limits};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_int(outcome.end, ==, GIT_TIMED_OUT);
    check_contains(err.text, "git word did not end within 500ms");
    wait_until(process_is_gone(box_out("cat pid")), 10000);
    wait_until(process_is_gone(box_out("cat child")), 10000);
}

TEST(git, a_git_that_ignores_term_is_killed)
{
    pretend("trap '' TERM; echo $$ >pid; while :; do sleep 0.05; done");
    struct err err = {0};
    struct git_outcome outcome;
    struct git_limits limits = {.timeout_ms = 300, .cancel_fd = -1};
    struct git_call call = {.args = word, .limits = &limits};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_int(outcome.end, ==, GIT_TIMED_OUT);
    check_int(outcome.status, ==, SIGKILL);
    check(process_is_gone(box_out("cat pid")));
}

static void *write_when_started(void *arg)
{
    wait_until(access("pid", F_OK) == 0, 30000);
    check_int(write(*(int *)arg, "x", 1), ==, 1);
    return NULL;
}

TEST(git, a_call_can_be_cancelled)
{
    pretend("echo $$ >pid; exec sleep 1000");
    struct err err = {0};
    struct git_outcome outcome;
    int ends[2];
    pthread_t thread;
    check_int(pipe2(ends, O_CLOEXEC), ==, 0);
    check_int(pthread_create(&thread, NULL, write_when_started, &ends[1]), ==, 0);
    struct git_limits limits = {.cancel_fd = ends[0]};
    struct git_call call = {.args = word, .limits = &limits};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EINTERRUPTED);
    check_int(outcome.end, ==, GIT_CANCELLED);
    check_contains(err.text, "git word was interrupted");
    pthread_join(thread, NULL);
}

TEST(git, endless_output_is_stopped_at_its_bound)
{
    pretend("exec yes");
    struct err err = {0};
    struct git_outcome outcome;
    struct buf output;
    buf_init(&output);
    struct git_call call = {.args = word, .output = &output, .output_max_bytes = 100000};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_int(outcome.end, ==, GIT_TOO_MUCH);
    check_int(output.len, <=, 100000);
    check_contains(err.text, "more than 100000 bytes");
    buf_done(&output);
}

TEST(git, of_a_long_log_the_end_is_kept)
{
    pretend("i=0; while [ $i -lt 3000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; "
            "echo 'fatal: the last' >&2; exit 3");
    struct err err = {0};
    struct git_outcome outcome;
    struct git_call call = {.args = word};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check(outcome.log_cut);
    check_int(outcome.log_bytes, >, GIT_LOG_BYTES / 2 - 100);
    check_contains(outcome.log, "line 2999\nfatal: the last\n");
    check_contains(err.text, "git word failed (status 3): the last");
}

TEST(git, a_git_killed_by_a_signal_and_one_that_says_nothing)
{
    pretend("if [ \"$(ls)\" = x ]; then exit 1; fi; kill -9 $$");
    struct err err = {0};
    struct git_outcome outcome;
    struct git_call call = {.args = word};
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_int(outcome.end, ==, GIT_KILLED);
    check_contains(err.text, "killed by signal 9");
    box_sh("printf '#!/bin/sh\\nexit 7\\n' >bin/git");
    check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
    check_contains(err.text, "git word failed (status 7): it did not say why");
}

/* The kernel keeps no status of children then. Symptom: every git had succeeded. */
TEST(git, a_git_whose_status_nobody_keeps_has_not_succeeded)
{
    static const char *const ends[] = {"exit 3", "sleep 0.3; exit 3", "exit 0"};
    pretend("sh ./end");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct err err = {0};
        struct git_outcome outcome;
        struct git_call call = {.args = word};
        box_sh("echo '%s' >end", ends[i]);
        signal(SIGCHLD, SIG_IGN);
        check_int(git_run(&call, &outcome, &err), ==, TEND_EIO);
        check_int(outcome.end, ==, GIT_UNSEEN);
        check_contains(err.text, "git word has ended, but whether it succeeded is not known");
        check_contains(err.text, "ignores SIGCHLD");
        signal(SIGCHLD, SIG_DFL);
    }
}

TEST(git, a_daemon_that_keeps_the_pipes_open_is_not_waited_for)
{
    pretend("setsid sleep 1000 & echo done; exit 0");
    struct err err = {0};
    struct buf output;
    buf_init(&output);
    struct git_limits limits = {.timeout_ms = 30000, .cancel_fd = -1};
    struct git_call call = {
        .args = word, .limits = &limits, .output = &output, .output_max_bytes = 100};
    check_fine(git_run(&call, NULL, &err), &err);
    check_str(output.data, "done\n");
    buf_done(&output);
}

TEST(git, what_git_leaves_in_its_group_is_ended_with_it)
{
    pretend("sleep 1000 >/dev/null 2>&1 & echo $! >child; exit 0");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_fine(git_run(&call, NULL, &err), &err);
    wait_until(process_is_gone(box_out("cat child")), 10000);
}

TEST(git, unread_input_does_no_harm)
{
    pretend("exit 0");
    struct err err = {0};
    static char input[3000000];
    struct git_call call = {.args = word, .input = input, .input_bytes = sizeof input};
    check_fine(git_run(&call, NULL, &err), &err);
}

TEST(git, a_full_disk_is_said_so)
{
    pretend("echo 'fatal: write error: No space left on device' >&2; exit 128");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_int(git_run(&call, NULL, &err), ==, TEND_EFULL);
    check_contains(err.text, "No space left");
}

/* Of a write that was not its last git does not say why it failed. Symptom: the job failed. */
TEST(git, output_that_does_not_fit_on_the_disk_is_said_so)
{
    box_init();
    struct err err = {0};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    box_sh("git init -q . && git commit -q --allow-empty -m one && seq 100000 >numbers && "
           "git add numbers && git commit -q -m two");
    struct git_call call = {.args = (const char *const[]){"diff", "HEAD~1", NULL}, .output_fd = fd};
    check_int(git_run(&call, NULL, &err), ==, TEND_EFULL);
    check_contains(err.text, "unknown write failure on standard output");
    check_contains(err.text, "no space left on the disk, or in a quota");
    close(fd);
}

/* A pipe to this process is not a disk. */
TEST(git, output_that_could_not_be_written_to_a_pipe_is_no_full_disk)
{
    pretend("echo 'fatal: unknown write failure on standard output' >&2; exit 128");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_int(git_run(&call, NULL, &err), ==, TEND_EIO);
}

/* A quota: git does not say why, and the disk has space. */
TEST(git, a_file_that_cannot_be_written_for_no_other_reason_means_a_full_disk)
{
    pretend("echo \"error: unable to write file big\" >&2; exit 128");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_int(git_run(&call, NULL, &err), ==, TEND_EFULL);
    box_sh("sed -i 's/big/big: Permission denied/' bin/git");
    check_int(git_run(&call, NULL, &err), ==, TEND_EIO);
}

TEST(git, a_race_for_a_lock_is_run_again_and_other_failures_are_not)
{
    pretend("n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) >count; [ $n -ge 3 ] && exit 0; "
            "echo \"fatal: Unable to create '/x/index.lock': File exists.\" >&2; exit 128");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_fine(git_run_patiently(&call, NULL, &err), &err);
    check_str(box_out("cat count"), "4");
    box_sh("printf '#!/bin/sh\\necho x >>other; exit 1\\n' >bin/git");
    check_int(git_run_patiently(&call, NULL, &err), ==, TEND_EIO);
    check_str(box_out("cat other"), "x");
}

static bool is_race(const char *said)
{
    struct git_outcome outcome = {.end = GIT_FAILED, .status = 128, .log_bytes = strlen(said)};
    snprintf(outcome.log, sizeof outcome.log, "%s", said);
    return git_lost_race(&outcome);
}

/* As they were seen while others made and removed worktrees of the same repository. */
TEST(git, races_for_worktrees_are_known)
{
    check(is_race("fatal: Invalid path '/c/r.git/worktrees': No such file or directory\n"));
    check(is_race("fatal: could not create directory of '/c/r.git/worktrees/workspace-1': "
                  "No such file or directory\n"));
    check(!is_race("fatal: not a git repository: /c/r.git/worktrees/workspace-1\n"));
    check(!is_race("fatal: invalid reference: worktrees\n"));
}

TEST(git, a_lock_that_stays_ends_in_busy)
{
    pretend("echo \"fatal: Unable to create '/x/index.lock': File exists.\" >&2; exit 128");
    struct err err = {0};
    struct git_call call = {.args = word};
    check_int(git_run_patiently(&call, NULL, &err), ==, TEND_EBUSY);
    check_contains(err.text, "/x/index.lock");
}

TEST(git, passwords_in_urls_are_masked)
{
    static const struct {
        const char *text, *masked;
    } cases[] = {
        {"https://u:p@h/x and http://tok@h", "https://*@h/x and http://*@h"},
        {"ssh://git@h/x", "ssh://git@h/x"},
        {"ssh://git:pw@h/x", "ssh://*@h/x"},
        {"https://h/a@b", "https://h/a@b"},
        {"'https://a:b@c@h'", "'https://*@h'"},
        {"no url: a@b", "no url: a@b"},
        {"://", "://"},
        {"https://@h", "https://@h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s", cases[i].text);
        git_mask_urls(text);
        check_str(text, cases[i].masked);
    }
}
