/*
 * The test harness: what a test file includes and nothing more.
 *
 *     #include "support/test.h"
 *
 *     TEST(buf, appending_grows_the_buffer) {
 *         check_int(buf.length, ==, 3);
 *         check_str(buf.text, "abc");
 *     }
 *
 * Every test runs in a forked child of its own, in its own process group, with its own temporary
 * folder and a time limit. A test passes when its function returns, at least one check was made,
 * none failed, and the process then ended with status 0 (which is where the leak checker speaks
 * up). Processes that are left afterwards are killed, daemons too, and the folder is removed,
 * however the test ended. Output is shown only when a test fails. A test is skipped
 * only where the machine does not allow it (test_skip); TAP then says so, with the reason.
 *
 * A failed check ends the process that made it at once, from any thread. In a process that the
 * test itself forked this is status 1, which the test has to look at.
 *
 * The program prints TAP. Options: -l list, -f PATTERN only these (a glob, or a part of
 * "suite.name"), -v show all output, -d run the one chosen test without forking, for a debugger.
 * TEND_TEST_TIMEOUT_S in the environment replaces every time limit; 0 is none.
 */
#ifndef TEND_TEST_H
#define TEND_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#define TEST_DEFAULT_TIMEOUT_S 60

/* This machine does not allow the test, and why; the test returns after it. Counts as a check. */
void test_skip(const char *why);

/* Declares and registers a test; the body follows. */
#define TEST(suite, name) TEST_WITHIN(suite, name, TEST_DEFAULT_TIMEOUT_S)

/* The same, for a test that is allowed more or less than the usual time. */
#define TEST_WITHIN(suite_, name_, timeout_s_)                                                     \
    static void test_body_##suite_##__##name_(void);                                               \
    __attribute__((constructor)) static void test_register_##suite_##__##name_(void)               \
    {                                                                                              \
        static struct test_case this_case = {                                                      \
            .suite = #suite_,                                                                      \
            .name = #name_,                                                                        \
            .body = test_body_##suite_##__##name_,                                                 \
            .timeout_s = (timeout_s_),                                                             \
        };                                                                                         \
        test_register(&this_case);                                                                 \
    }                                                                                              \
    static void test_body_##suite_##__##name_(void)

#define check(condition)                                                                           \
    do {                                                                                           \
        test_count_check();                                                                        \
        if (!(condition))                                                                          \
            test_fail(__FILE__, __LINE__, "check(%s)", #condition);                                \
    } while (0)

/* check_int(actual, ==, expected): any integer type; both sides are compared as long long. */
#define check_int(actual, op, expected)                                                            \
    do {                                                                                           \
        long long test_actual_ = (long long)(actual);                                              \
        long long test_expected_ = (long long)(expected);                                          \
        test_count_check();                                                                        \
        if (!(test_actual_ op test_expected_))                                                     \
            test_fail(__FILE__, __LINE__, "check_int(%s %s %s): %lld %s %lld", #actual, #op,       \
                      #expected, test_actual_, #op, test_expected_);                               \
    } while (0)

/* Equal as strings; NULL equals only NULL. */
#define check_str(actual, expected)                                                                \
    test_check_str(__FILE__, __LINE__, #actual " equals " #expected, (actual), (expected))

/* The first string has the second somewhere inside. */
#define check_contains(text, part)                                                                 \
    test_check_contains(__FILE__, __LINE__, #text " contains " #part, (text), (part))

/* Asks every millisecond until the condition holds; fails the test when it still does not after
   timeout_ms. For what another thread or process does; never for the passing of time. */
#define wait_until(condition, timeout_ms)                                                          \
    do {                                                                                           \
        long long test_deadline_ms_ = test_clock_ms() + (timeout_ms);                              \
        test_count_check();                                                                        \
        while (!(condition)) {                                                                     \
            if (test_clock_ms() >= test_deadline_ms_)                                              \
                test_fail(__FILE__, __LINE__, "wait_until(%s): not so after %lld ms", #condition,  \
                          (long long)(timeout_ms));                                                \
            test_pause();                                                                          \
        }                                                                                          \
    } while (0)

/* The absolute path of this test's own folder, made by the first call, removed after the test. */
const char *test_folder(void);

/* test_folder() + "/" + name. The string lives as long as the test. */
const char *test_path(const char *name);

/* From now on this process can open so many descriptors more. Returns the limit before, for
 * setrlimit(RLIMIT_NOFILE). */
struct rlimit leave_descriptors(rlim_t count);

/* What the macros above are made of. */
struct test_case {
    const char *suite;
    const char *name;
    void (*body)(void);
    int timeout_s;
    struct test_case *next;
};

void test_register(struct test_case *test);
void test_count_check(void);
long long test_clock_ms(void);
void test_pause(void);
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void test_check_str(const char *file, int line, const char *what, const char *actual,
                    const char *expected);
void test_check_contains(const char *file, int line, const char *what, const char *text,
                         const char *part);

#endif
