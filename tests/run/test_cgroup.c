/* run/cgroup: when a control group is used. Decided on a folder that looks like a mount of it. */
#include "run/cgroup.h"
#include "support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char both_versions[] = "4:memory:/old\n1:cpu:/\n0::/user.slice/tend.service\n";
static const char at[] = "sys/fs/cgroup/user.slice/tend.service";

static void make(const char *below, const char *file)
{
    char command[8192];
    snprintf(command, sizeof command, "mkdir -p '%s/%s' && : >'%s/%s/%s'", test_folder(), below,
             test_folder(), below, file);
    check_int(system(command), ==, 0);
}

static bool find(const char *self_cgroup, bool need_mark)
{
    char out[4096], expected[4096];
    snprintf(expected, sizeof expected, "%s/%s", test_folder(), at);
    if (!cgroup_find(test_folder(), self_cgroup, need_mark, out, sizeof out))
        return false;
    check_str(out, expected);
    return true;
}

TEST(cgroup, is_used_when_it_was_handed_over_and_can_kill)
{
    check(!find(both_versions, false));
    make(at, "cgroup.procs");
    check(!find(both_versions, false)); /* a kernel before 5.14 */
    make(at, "cgroup.kill");
    check(find(both_versions, false));
    check(!find(both_versions, true)); /* root may write everywhere: no mark, not ours */
    check(!find("0::/\n", false));     /* the root of all */
    check(!find("1:cpu:/user.slice/tend.service\n", false));
    check(!find("", false));
    check(!find("0::/user.slice\n", false));
}

TEST(cgroup, is_found_beside_version_1)
{
    char out[4096], expected[4096];
    make("sys/fs/cgroup/unified/tend.service", "cgroup.procs");
    make("sys/fs/cgroup/unified/tend.service", "cgroup.kill");
    snprintf(expected, sizeof expected, "%s/sys/fs/cgroup/unified/tend.service", test_folder());
    check(cgroup_find(test_folder(), "0::/tend.service\n", false, out, sizeof out));
    check_str(out, expected);
}

TEST(cgroup, a_path_too_long_is_no_group)
{
    char out[40];
    make(at, "cgroup.procs");
    make(at, "cgroup.kill");
    check(!cgroup_find(test_folder(), both_versions, false, out, sizeof out));
}

TEST(cgroup, without_a_parent_nothing_happens)
{
    struct cgroup group;
    cgroup_open(&group, "", 1);
    check_str(group.path, "");
    check_int(group.procs_fd, ==, -1);
    cgroup_join(&group);
    cgroup_kill(&group);
    cgroup_close(&group);
}

TEST(cgroup, a_group_that_cannot_be_made_is_none)
{
    struct cgroup group;
    cgroup_open(&group, test_path("missing"), 1);
    check_str(group.path, "");
    cgroup_open(&group, test_folder(), 1); /* a folder, but no control group grows in it */
    check_str(group.path, "");
    check(access(test_path("tend-1"), F_OK) < 0);
}

/* A group as it looks, with cgroup.kill to be written to. */
static void make_group_of(pid_t pid)
{
    char name[64];
    snprintf(name, sizeof name, "tend-%d", (int)pid);
    make(name, "cgroup.kill");
}

static bool was_killed(pid_t pid)
{
    char path[4096], text[8] = "";
    snprintf(path, sizeof path, "%s/tend-%d/cgroup.kill", test_folder(), (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0);
    check(read(fd, text, sizeof text - 1) >= 0);
    close(fd);
    return strcmp(text, "1") == 0;
}

/* RC-14: what is left in the groups of a worker that died together with its helpers. */
TEST(cgroup, groups_without_their_minder_are_cleared_and_others_left_alone)
{
    int ready[2];
    check_int(pipe(ready), ==, 0);
    pid_t minder = fork();
    check(minder >= 0);
    if (minder == 0) {
        prctl(PR_SET_NAME, CGROUP_MINDER);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte;
    check_int(read(ready[0], &byte, 1), ==, 1);
    pid_t dead = fork();
    check(dead >= 0);
    if (dead == 0)
        _exit(0);
    check_int(waitpid(dead, NULL, 0), ==, dead);
    make_group_of(minder);
    make_group_of(dead);
    make_group_of(getpid()); /* its pid is another program's now */
    make("tend-x", "cgroup.kill");
    make("other-1", "cgroup.kill");
    check(cgroup_clear_dead(test_folder(), 0));
    check(was_killed(dead));
    check(was_killed(getpid()));
    check(!was_killed(minder));
    check(cgroup_clear_dead("", 0));
    kill(minder, SIGKILL);
    check_int(waitpid(minder, NULL, 0), ==, minder);
}
