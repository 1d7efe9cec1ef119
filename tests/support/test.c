/*
 * The harness behind test.h: what a check does inside a test. The runner that forks, waits and
 * prints is test_main.c.
 *
 * The check counter lives in memory shared with the runner, so that it survives a crash and
 * counts checks made in processes that the test forked.
 */
#include "support/test.h"
#include "support/test_runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct test_case *first_test;
static struct test_case **last_link = &first_test;

struct test_outcome *test_outcome;
char test_folder_path[PATH_MAX];

void test_register(struct test_case *test)
{
    *last_link = test;
    last_link = &test->next;
}

struct test_case *test_first(void)
{
    return first_test;
}

void test_count_check(void)
{
    __atomic_add_fetch(&test_outcome->checks, 1, __ATOMIC_RELAXED);
}

void test_skip(const char *why)
{
    test_count_check();
    snprintf(test_outcome->skipped, sizeof test_outcome->skipped, "%s", why);
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    char message[4096];

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, message);
    /* Not exit(): other threads may still be running, and leaks are not the news here. */
    _exit(1);
}

void test_check_str(const char *file, int line, const char *what, const char *actual,
                    const char *expected)
{
    test_count_check();
    if (actual == expected || (actual && expected && strcmp(actual, expected) == 0))
        return;
    test_fail(file, line, "%s\n  actual:   %s%s%s\n  expected: %s%s%s", what, actual ? "\"" : "",
              actual ? actual : "NULL", actual ? "\"" : "", expected ? "\"" : "",
              expected ? expected : "NULL", expected ? "\"" : "");
}

void test_check_contains(const char *file, int line, const char *what, const char *text,
                         const char *part)
{
    test_count_check();
    if (text && part && strstr(text, part))
        return;
    test_fail(file, line, "%s\n  text: %s\n  part: %s", what, text ? text : "NULL",
              part ? part : "NULL");
}

long long test_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void test_pause(void)
{
    struct timespec one_ms = {.tv_nsec = 1000000};

    nanosleep(&one_ms, NULL);
}

const char *test_folder(void)
{
    if (mkdir(test_folder_path, 0755) < 0 && errno != EEXIST)
        test_fail(__FILE__, __LINE__, "mkdir %s: %s", test_folder_path, strerror(errno));
    return test_folder_path;
}

const char *test_path(const char *name)
{
    /* Kept in a list that is still reachable at exit, so that the leak checker stays quiet. */
    struct path {
        struct path *next;
        char text[];
    };
    static struct path *paths;
    const char *folder = test_folder();
    size_t size = strlen(folder) + 1 + strlen(name) + 1;
    struct path *path = malloc(sizeof *path + size);

    if (!path)
        test_fail(__FILE__, __LINE__, "out of memory");
    snprintf(path->text, size, "%s/%s", folder, name);
    path->next = __atomic_load_n(&paths, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&paths, &path->next, path, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        continue;
    return path->text;
}

struct rlimit leave_descriptors(rlim_t count)
{
    struct rlimit before;
    check_int(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    struct rlimit limit = before;
    for (limit.rlim_cur = 0; fcntl((int)limit.rlim_cur, F_GETFD) >= 0 || count > 0;
         limit.rlim_cur++)
        count -= fcntl((int)limit.rlim_cur, F_GETFD) < 0;
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    return before;
}
