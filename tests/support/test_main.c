/*
 * The runner behind test.h: forks a child per test, waits with a time limit, cleans up, prints TAP.
 *
 * Invariants: one test at a time; when run_test() returns, no process that the test started is
 * alive and its folder is gone; the runner itself never starts a thread, so forking is always safe.
 */
#include "support/test_runner.h"

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOWN_OUTPUT_BYTES 16384 /* of a failed test; the end matters most */
#define SLOW_TEST_MS 1000        /* from here on the time is worth a line */

/* Sanitizers make everything several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIMEOUT_FACTOR 4
#else
#define TIMEOUT_FACTOR 1
#endif

/* Read by the sanitizers before main: an allocation too large is NULL, as without them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_stack_use_after_return=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}

static int stopped_by_signal; /* the runner was told to end; 0 while it was not */

_Noreturn static void die(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(1);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static bool is_chosen(const struct test_case *test, const char *pattern)
{
    char full_name[512];

    if (!pattern)
        return true;
    snprintf(full_name, sizeof full_name, "%s.%s", test->suite, test->name);
    return strstr(full_name, pattern) || fnmatch(pattern, full_name, 0) == 0;
}

_Noreturn static void run_child(const struct test_case *test, int output)
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    close(output);
    setvbuf(stdout, NULL, _IOLBF, 0);
    test->body();
    test_outcome->returned = true;
    exit(0);
}

/* TEND_TEST_TIMEOUT_S replaces every limit; 0 is none. */
static int timeout_s_of(const struct test_case *test)
{
    const char *given = getenv("TEND_TEST_TIMEOUT_S");
    long timeout_s = given ? strtol(given, NULL, 10) : (long)test->timeout_s * TIMEOUT_FACTOR;

    return timeout_s > 0 && timeout_s < INT_MAX ? (int)timeout_s : INT_MAX;
}

/* The signals a runner waits for; they are blocked, so none is lost between two looks. */
static sigset_t awaited_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

/* Waits for the child; false when it ran out of time or the runner was told to stop. Orphans of
   the test come to the runner, too, and are reaped at once, as init would: a test that waits for
   the end of one must not see a zombie instead. */
static bool wait_for_child(pid_t child, int timeout_s, int *ret_status)
{
    long long deadline_ms = test_clock_ms() + timeout_s * 1000LL;
    sigset_t awaited = awaited_signals();
    int status;

    while (true) {
        long long left_ms = deadline_ms - test_clock_ms();
        struct timespec left = {left_ms / 1000, left_ms % 1000 * 1000000};
        pid_t ended = waitpid(-1, &status, WNOHANG);
        int signal_number;

        if (ended == child) {
            *ret_status = status;
            return true;
        }
        if (ended > 0)
            continue;
        if (left_ms <= 0)
            return false;
        signal_number = sigtimedwait(&awaited, NULL, &left);
        if (signal_number > 0 && signal_number != SIGCHLD) {
            stopped_by_signal = signal_number;
            return false;
        }
    }
}

/* Kills and reaps every process that the test has left, those in other groups and sessions too. */
static void end_leftovers(pid_t group)
{
    char path[64];
    int pid;

    kill(-group, SIGKILL);
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    while (true) {
        FILE *children = fopen(path, "re");
        bool any = false;

        /* NOLINTNEXTLINE(cert-err34-c): written by the kernel */
        while (children && fscanf(children, "%d", &pid) == 1) {
            any = true;
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0); /* its own children come to us now: look again */
        }
        if (children)
            fclose(children);
        if (!any)
            return;
    }
}

/* NULL when the test passed; what went wrong otherwise. */
static const char *judge(int status, bool in_time)
{
    static char verdict[64];

    if (!in_time)
        return "ran out of time";
    if (WIFSIGNALED(status)) {
        snprintf(verdict, sizeof verdict, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        return verdict;
    }
    if (WEXITSTATUS(status) != 0) {
        snprintf(verdict, sizeof verdict, "exit status %d%s", WEXITSTATUS(status),
                 test_outcome->returned ? " after its end (sanitizer or exit handler)" : "");
        return verdict;
    }
    if (!test_outcome->returned)
        return "left by exit() before its end";
    if (test_outcome->checks == 0)
        return "made no check";
    return NULL;
}

static void show_output(int output)
{
    off_t size = lseek(output, 0, SEEK_END);
    off_t start = size > SHOWN_OUTPUT_BYTES ? size - SHOWN_OUTPUT_BYTES : 0;
    FILE *stream = fdopen(dup(output), "r");
    char line[1024];

    if (!stream || fseeko(stream, start, SEEK_SET) < 0)
        die("reading a test's output");
    if (start > 0)
        printf("# … %lld bytes before\n", (long long)start);
    while (fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = '\0';
        printf("#   %s\n", line);
    }
    fclose(stream);
}

static bool run_test(const struct test_case *test, int number, bool verbose)
{
    long long start_ms = test_clock_ms();
    int output = memfd_create("output", MFD_CLOEXEC);
    const char *trouble;
    bool in_time;
    int status = 0;
    pid_t child;

    memset(test_outcome, 0, sizeof *test_outcome);
    fflush(stdout);
    child = output < 0 ? -1 : fork();
    if (child == 0)
        run_child(test, output);
    if (child < 0)
        die("starting a test");
    setpgid(child, child); /* by both, so that it is done whoever comes first */

    in_time = wait_for_child(child, timeout_s_of(test), &status);
    end_leftovers(child);
    nftw(test_folder_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);

    trouble = judge(status, in_time);
    bool skipped = !trouble && test_outcome->skipped[0] != '\0';
    printf("%s %d - %s.%s%s%s\n", trouble ? "not ok" : "ok", number, test->suite, test->name,
           skipped ? " # SKIP " : "", skipped ? test_outcome->skipped : "");
    if (trouble)
        printf("#   %s\n", trouble);
    if (trouble || verbose)
        show_output(output);
    if (test_clock_ms() - start_ms >= SLOW_TEST_MS)
        printf("# took %lld ms\n", test_clock_ms() - start_ms);
    close(output);
    return !trouble;
}

static int run_all(const char *pattern, bool verbose)
{
    int number = 0, failed = 0;

    for (struct test_case *test = test_first(); test; test = test->next)
        number += is_chosen(test, pattern);
    printf("1..%d\n", number);
    number = 0;
    for (struct test_case *test = test_first(); test && !stopped_by_signal; test = test->next)
        if (is_chosen(test, pattern))
            failed += !run_test(test, ++number, verbose);
    if (stopped_by_signal)
        printf("Bail out! stopped by signal %d\n", stopped_by_signal);
    return failed > 0 || number == 0 || stopped_by_signal;
}

static int run_for_debugger(const char *pattern)
{
    struct test_case *test = test_first();

    while (test && !is_chosen(test, pattern))
        test = test->next;
    if (!test)
        return 1;
    printf("# %s.%s\n", test->suite, test->name);
    test->body();
    return 0;
}

int main(int argc, char **argv)
{
    const char *temp = getenv("TMPDIR");
    const char *pattern = NULL;
    bool list = false, verbose = false, debug = false;
    sigset_t awaited = awaited_signals();
    char own_folder[PATH_MAX - sizeof "/test"];
    int option, result;

    while ((option = getopt(argc, argv, "f:lvd")) != -1) {
        if (option == 'f')
            pattern = optarg;
        list |= option == 'l';
        verbose |= option == 'v';
        debug |= option == 'd';
        if (option == '?') {
            fprintf(stderr, "usage: %s [-l] [-v] [-d] [-f PATTERN]\n", argv[0]);
            return 2;
        }
    }
    if (list) {
        for (struct test_case *test = test_first(); test; test = test->next)
            if (is_chosen(test, pattern))
                printf("%s.%s\n", test->suite, test->name);
        return 0;
    }

    test_outcome =
        mmap(NULL, sizeof *test_outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (test_outcome == MAP_FAILED)
        die("mmap");
    snprintf(own_folder, sizeof own_folder, "%s/tend-test-XXXXXX", temp ? temp : "/tmp");
    if (!mkdtemp(own_folder))
        die("mkdtemp");
    snprintf(test_folder_path, PATH_MAX, "%s/test", own_folder);
    if (!debug) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        sigprocmask(SIG_BLOCK, &awaited, NULL);
    }
    result = debug ? run_for_debugger(pattern) : run_all(pattern, verbose);
    nftw(own_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return result;
}
