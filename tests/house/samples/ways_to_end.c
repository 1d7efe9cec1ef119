/*
 * Tests that end in every way a test can end, for runner.bats, which looks at what the harness
 * makes of them. Not part of the suite: most of these fail, and have to.
 */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TEST(end, passes)
{
    check_int(1 + 1, ==, 2);
    check_str("a", "a");
    check_contains("abc", "b");
    wait_until(true, 0);
}

TEST(end, has_a_folder_of_its_own)
{
    check_int(access(test_path("file"), F_OK), ==, -1);
    fclose(fopen(test_path("file"), "w"));
    check_int(access(test_path("file"), F_OK), ==, 0);
}

TEST(end, has_a_folder_of_its_own_again)
{
    check_int(access(test_path("file"), F_OK), ==, -1);
}

TEST(end, makes_no_check)
{
}

TEST(end, fails_a_check)
{
    check_int(1 + 1, ==, 3);
}

static void *fail_a_check(void *unused)
{
    check(unused);
    return NULL;
}

TEST(end, fails_a_check_in_a_thread)
{
    pthread_t thread;

    pthread_create(&thread, NULL, fail_a_check, NULL);
    pthread_join(thread, NULL);
}

TEST(end, crashes)
{
    check(true);
    raise(SIGSEGV);
}

TEST(end, leaves_by_exit)
{
    check(true);
    exit(0);
}

TEST(end, waits_in_vain)
{
    wait_until(false, 20);
}

TEST_WITHIN(end, hangs, 1)
{
    check(true);
    while (true)
        pause();
}

static void leave_behind(bool in_a_session_of_its_own)
{
    pid_t child = fork();

    if (child == 0) {
        if (in_a_session_of_its_own)
            setsid();
        while (true)
            pause();
    }
    printf("left behind: %d\n", (int)child);
}

/* Fails so that its output, with the process ids, is shown. */
TEST(end, leaves_processes_behind)
{
    leave_behind(false);
    leave_behind(true);
    check(false);
}

static void leak(void)
{
    char *volatile lost = malloc(100);

    lost[0] = 'x';
}

TEST(end, leaks)
{
    check(true);
    leak();
}

TEST(end, overflows)
{
    volatile char *small = malloc(10);
    volatile int past_the_end = 10;

    check(true);
    small[past_the_end] = 'x';
    free((void *)small);
}

static int unguarded;
static volatile bool written;

/*
 * Orders the two accesses in time, unseen by the sanitizer. It sees a race of accesses that are not
 * synchronised, but misses some of those that happen at the same moment.
 */
__attribute__((no_sanitize("thread"))) static void say_written(void)
{
    written = true;
}

__attribute__((no_sanitize("thread"))) static void await_written(void)
{
    while (!written)
        sched_yield();
}

static void *count(void *unused)
{
    unguarded++;
    say_written();
    return unused;
}

TEST(end, races)
{
    pthread_t thread;

    check(true);
    pthread_create(&thread, NULL, count, NULL);
    await_written();
    unguarded++;
    pthread_join(thread, NULL);
}
