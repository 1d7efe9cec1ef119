/*
 * run/oom: where the kernel counts what it kills for want of memory (SH-5). Decided on a folder
 * that looks like the kernel's; test_runner_oom.c has the real thing.
 */
#include "run/oom.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

/* The lines before the counter in each of the files. */
#define EVENTS "low 0\\nhigh 0\\nmax 12\\noom 3\\noom_kill "
#define CONTROL "oom_kill_disable 0\\nunder_oom 0\\noom_kill "
#define VMSTAT "nr_free_pages 5\\noom_kill "

/* A file below the test's folder. */
static void make(const char *folder, const char *name, const char *before, int number)
{
    char command[8192];
    snprintf(command, sizeof command,
             "mkdir -p '%s/%s' && printf '%s%d\\nswap_ra 1\\n' >'%s/%s/%s'", test_folder(), folder,
             before, number, test_folder(), folder, name);
    check_int(system(command), ==, 0);
}

/* The number in the counter that is found; -1: there is none. */
static int64_t find(const char *self_cgroup)
{
    char path[4096];
    oom_find(test_folder(), self_cgroup, path, sizeof path);
    return path[0] == '\0' ? -1 : oom_read(path);
}

TEST(oom, the_nearest_counter_is_taken)
{
    static const char self[] = "4:cpu,memory:/old/group\n1:cpuset:/\n0::/user.slice/tend.service\n";
    check_int(find(self), ==, -1);
    make("proc", "vmstat", VMSTAT, 7);
    check_int(find(self), ==, 7);
    make("sys/fs/cgroup/memory/old/group", "memory.oom_control", CONTROL, 5);
    check_int(find(self), ==, 5);
    make("sys/fs/cgroup/user.slice/tend.service", "memory.events", EVENTS, 2);
    check_int(find(self), ==, 2);
}

TEST(oom, a_group_of_another_controller_is_not_taken)
{
    make("sys/fs/cgroup/memory/mine", "memory.oom_control", CONTROL, 5);
    check_int(find("2:memoryless:/mine\n3:cpu:/mine\n"), ==, -1);
    check_int(find("2:cpu,memory:/mine\n"), ==, 5);
    check_int(find("2:memory,cpu:/mine"), ==, 5);
    check_int(find(""), ==, -1);
    check_int(find("nonsense"), ==, -1);
}

TEST(oom, in_a_container_the_group_is_the_root_of_the_mount)
{
    make("sys/fs/cgroup", "memory.events", EVENTS, 4);
    check_int(find("0::/\n"), ==, 4);
    check_int(find("0::/docker/abc\n"), ==, 4);
    make("sys/fs/cgroup/unified/svc", "memory.events", EVENTS, 6);
    check_int(find("0::/svc\n"), ==, 4);
}

TEST(oom, a_file_without_the_line_is_no_counter)
{
    char path[4096];
    make("proc", "vmstat", "nr_free_pages 5\\nnot_oom_kill ", 3);
    snprintf(path, sizeof path, "%s/proc/vmstat", test_folder());
    check_int(oom_read(path), ==, -1);
    check_int(oom_read("/nowhere"), ==, -1);
    check_int(find("0::/x\n"), ==, -1);
}
