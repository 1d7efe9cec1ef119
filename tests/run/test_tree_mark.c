/* run/tree: the mark that a process cannot drop (RC-14). */
#include "run/tree_case.h"
#include "run/tree_mark.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t hard_limit(void)
{
    struct rlimit limit;
    check_int(getrlimit(RLIMIT_RTTIME, &limit), ==, 0);
    return limit.rlim_max;
}

static void set_limit(uint64_t value)
{
    const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    check_int(setrlimit(RLIMIT_RTTIME, &limit), ==, 0);
}

TEST(tree_mark, a_mark_is_read_back_and_belongs_to_its_attempt_alone)
{
    uint64_t mark = tree_mark_make("one-1-1-1");
    check(mark != 0);
    check_int(tree_mark_read(getpid()), ==, 0);
    tree_mark_set(mark);
    check_int(hard_limit(), ==, mark);
    check_int(tree_mark_read(getpid()), ==, mark);
    check_int(tree_mark_match(mark, "one-1-1-1"), ==, MARK_OWN);
    check_int(tree_mark_match(mark, "one-1-1-2"), ==, MARK_OTHER);
    check_int(tree_mark_match(0, "one-1-1-1"), ==, MARK_OTHER);
    check_int(tree_mark_match(UINT64_MAX, "one-1-1-1"), ==, MARK_OTHER);
}

TEST(tree_mark, a_worker_in_a_step_marks_its_steps_for_both)
{
    tree_mark_set(tree_mark_make("outer"));
    uint64_t mark = tree_mark_make("inner");
    check(mark != 0);
    check_int(tree_mark_match(mark, "inner"), ==, MARK_OWN);
    check_int(tree_mark_match(mark, "outer"), ==, MARK_NESTED);
    check_int(tree_mark_match(mark, "another"), ==, MARK_OTHER);
    check_int(tree_mark_above(mark, "inner"), ==, tree_mark_read(getpid()));
    check_int(tree_mark_above(mark, "outer"), ==, 0);
    check_int(tree_mark_above(tree_mark_read(getpid()), "outer"), ==, 0);
    check_int(tree_mark_above(mark, "another"), ==, mark);
    tree_mark_set(mark); /* it is lower: no privilege is needed */
    check_int(tree_mark_read(getpid()), ==, mark);
    check_int(tree_mark_make("third"), ==, 0);
}

TEST(tree_mark, a_limit_that_somebody_has_set_stays)
{
    set_limit(200000);
    check_int(tree_mark_make("any"), ==, 0);
    tree_mark_set(0);
    check_int(hard_limit(), ==, 200000);
}

TEST(tree_mark, marks_of_many_attempts_differ)
{
    enum { MANY = 2000 };
    static uint64_t marks[MANY];
    for (int i = 0; i < MANY; i++) {
        char marker[64];
        snprintf(marker, sizeof marker, "%016x-7-1087287274586-%d", 77, i);
        marks[i] = tree_mark_make(marker);
        for (int before = 0; before < i; before++)
            check(marks[before] != marks[i]);
    }
}

/*
 * Symptom: with an empty environment and a session of its own it outlived its minder and its
 * nursery, as it was sought by its environment alone.
 */
TEST(tree_mark, a_process_without_environment_session_and_descriptors_is_found_by_its_mark)
{
    struct tree_pool *pool = open_pool();
    const char *path = test_path("orphan");
    char line[8192];
    snprintf(
        line, sizeof line,
        "env -i setsid sh -c 'echo $$ >%s.new; mv %s.new %s; exec <&- >&- 2>&-; sleep 600; exit' "
        "& exec sleep 600",
        path, path, path);
    const char *const argv[] = {"sh", "-c", line, NULL};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct tree_spec spec;
    tree_spec_init(&spec);
    spec.argv = argv;
    spec.env = env;
    spec.marker = test_folder();
    struct tree *tree = spawn(pool, &spec);
    struct tree_event started = expect(tree, TREE_STARTED);
    struct proc_id orphan = wait_for_process(path);
    pid_t minder = (pid_t)parent_of(started.pid);
    check_int(tree_mark_match(tree_mark_read(orphan.pid), test_folder()), ==, MARK_OWN);
    kill((pid_t)tree_pool_nursery_pid(pool), SIGSTOP); /* it would clean up */
    kill(minder, SIGKILL);
    kill((pid_t)tree_pool_nursery_pid(pool), SIGKILL);
    check_int(expect(tree, TREE_LOST).alive, ==, 0);
    check_int(proc_fate(&orphan), ==, PROC_DEAD);
    tree_free(tree);
    tree_pool_close(pool);
}
