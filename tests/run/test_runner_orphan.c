/*
 * RC-14: worker, nursery and minder are killed in the same moment, and what the step has started
 * hides as well as it can. The run that follows does not begin beside it.
 */
#include "base/proc.h"
#include "runner_case.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t parent_of(int64_t pid)
{
    struct proc_stat stat;
    check_int(proc_stat(pid, &stat), ==, 0);
    return stat.parent_pid;
}

/* The orphan's number; 0: there is none yet. */
static int64_t orphan_pid(void)
{
    const char *text = file_text("orphan");
    return text == NULL || strchr(text, '\n') == NULL ? 0 : strtoll(text, NULL, 10);
}

/* None of them has the time to clean up after another. */
static void kill_together(const int64_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_int(kill((pid_t)pids[i], SIGSTOP), ==, 0);
    for (size_t i = 0; i < count; i++)
        check_int(kill((pid_t)pids[i], SIGKILL), ==, 0);
}

/* How the step starts what must not outlive it: what is before the command, and after it. */
static void check_swept(const char *before, const char *after)
{
    tend *t = store_open_real("operator");
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    int64_t id = add_plan(
        t,
        keep_text("{\"run\":\"if test -e begun; then kill -0 $(cat orphan) && touch beside; exit "
                  "0; fi; touch begun; %s /bin/sh -c 'echo $$ > %s/orphan; exec sleep 600' %s "
                  "& sleep 600\"}",
                  before, test_folder(), after));
    struct helper worker = helper_start(runner_forever, "worker");
    helper_hear(&worker);
    wait_until(orphan_pid() > 0, PATIENCE_MS);
    struct proc_id orphan;
    check_int(proc_of(orphan_pid(), &orphan), ==, 0);
    int64_t step = parent_of(orphan.pid);
    int64_t minder = parent_of(step);
    const int64_t all[] = {worker.pid, parent_of(minder), minder};
    check_int(parent_of(all[1]), ==, worker.pid);
    kill_together(all, 3);
    helper_kill(&worker);
    wait_until(proc_stat(step, &(struct proc_stat){0}) < 0 ||
                   parent_of(orphan.pid) != step, /* the step dies with its minder */
               PATIENCE_MS);
    check_int(proc_fate(&orphan), ==, PROC_ALIVE); /* nobody is left who could have ended it */
    wait_until((run_until_drained(t), state_of(t, id) == TEND_DONE), PATIENCE_MS);
    check_int(proc_fate(&orphan), ==, PROC_DEAD);
    check(access("beside", F_OK) < 0);
    check_str(attempts_of(t, id), "1:lost:transient_runtime:lease_lost 1:succeeded::");
}

TEST(runner_orphan, RC_14_an_orphan_in_a_session_of_its_own_is_gone_before_the_next_run)
{
    check_swept("setsid", "");
}

/* Symptom: it survived, and the next run began beside it. */
TEST(runner_orphan, RC_14_an_orphan_with_an_empty_environment_is_gone_before_the_next_run)
{
    check_swept("env -i setsid", "");
}

TEST(runner_orphan,
     RC_14_an_orphan_with_a_false_marker_and_no_descriptors_is_gone_before_the_next_run)
{
    check_swept("env TEND_ATTEMPT=another setsid", "<&- >&- 2>&-");
}
