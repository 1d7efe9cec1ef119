/* The master of chaos.h. It never opens the store while children run, so that it can fork at any
 * time. */
#include "chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int64_t chaos_duration_ms(void)
{
    const char *given = getenv("TEND_CRASH_SECONDS");
    long seconds = given != NULL ? strtol(given, NULL, 10) : 60;
    return (seconds < 1 ? 1 : seconds) * 1000LL;
}

static int64_t between(struct chaos *chaos, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(&chaos->rng, (uint64_t)(high - low + 1));
}

void chaos_prepare(struct chaos *chaos, const char *url)
{
    static const struct tend_setting patient[] = {{"max-crashes", "1000000"},
                                                  {"max-attempts", "1000000"}};
    static const struct tend_setting serial[] = {{"serial", "on"}};
    tend *t;
    *chaos =
        (struct chaos){.url = url, .added = test_path("added"), .finished = test_path("finished")};
    rng_seed_random(&chaos->rng);
    close(open(chaos->added, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    close(open(chaos->finished, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    int rc = tend_open(&t, url, NULL);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "opening %s: %s", url, tend_errmsg(t));
    check_int(tend_queue_set(t, CHAOS_QUEUE, patient, 2, NULL), ==, 0);
    check_int(tend_queue_set(t, CHAOS_SERIAL_QUEUE, patient, 2, NULL), ==, 0);
    check_int(tend_queue_set(t, CHAOS_SERIAL_QUEUE, serial, 1, NULL), ==, 0);
    tend_close(t);
}

static void start_child(struct chaos *chaos, int number)
{
    fflush(stdout);
    pid_t pid = fork();
    check_int(pid, >=, 0);
    if (pid == 0) {
        if (number < CHAOS_WORKERS)
            chaos_worker(chaos, number);
        chaos_adder(chaos, number);
    }
    chaos->children[number] = (struct chaos_child){.pid = pid};
}

void chaos_start(struct chaos *chaos)
{
    for (int i = 0; i < CHAOS_CHILDREN; i++)
        start_child(chaos, i);
}

static void kill_child(struct chaos *chaos, int number)
{
    int status;
    check_int(kill(chaos->children[number].pid, SIGKILL), ==, 0);
    check_int(waitpid(chaos->children[number].pid, &status, 0), ==, chaos->children[number].pid);
    /* Anything but our own signal is an error that the child has printed. */
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    chaos->kills++;
}

static void stop_child(struct chaos *chaos, int number)
{
    static const int64_t longest_ms[] = {20, 300, 2500}; /* the last is longer than a lease */
    struct chaos_child *child = &chaos->children[number];
    if (child->stopped)
        return;
    check_int(kill(child->pid, SIGSTOP), ==, 0);
    child->stopped = true;
    child->wake_at_ms = test_clock_ms() + between(chaos, 1, longest_ms[between(chaos, 0, 2)]);
    chaos->stops++;
}

static void wake_children(struct chaos *chaos)
{
    for (int i = 0; i < CHAOS_CHILDREN; i++) {
        struct chaos_child *child = &chaos->children[i];
        if (child->stopped && test_clock_ms() >= child->wake_at_ms) {
            check_int(kill(child->pid, SIGCONT), ==, 0);
            child->stopped = false;
        }
    }
}

/* A child that has ended by itself has met an error. */
static void look_for_failures(struct chaos *chaos)
{
    int status;
    pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended <= 0)
        return;
    for (int i = 0; i < CHAOS_CHILDREN; i++)
        if (chaos->children[i].pid == ended)
            test_fail(__FILE__, __LINE__, "%s %d has ended by itself, status %x",
                      i < CHAOS_WORKERS ? "worker" : "adder", i, (unsigned)status);
}

static void strike(struct chaos *chaos)
{
    int number = (int)between(chaos, 0, CHAOS_CHILDREN - 1);
    if (between(chaos, 0, 99) < 35) {
        stop_child(chaos, number);
        return;
    }
    kill_child(chaos, number);
    start_child(chaos, number);
}

void chaos_rage(struct chaos *chaos, int64_t for_ms, void (*halfway)(void *arg), void *arg)
{
    int64_t start_ms = test_clock_ms();
    int64_t next_ms = start_ms;
    bool done = halfway == NULL;
    for (int64_t now_ms = start_ms; now_ms < start_ms + for_ms; now_ms = test_clock_ms()) {
        wake_children(chaos);
        look_for_failures(chaos);
        if (now_ms >= next_ms) {
            strike(chaos);
            next_ms = now_ms + between(chaos, 5, 120);
        }
        if (!done && now_ms >= start_ms + for_ms / 2) {
            halfway(arg);
            done = true;
        }
        test_pause();
    }
}

void chaos_end(struct chaos *chaos)
{
    for (int i = 0; i < CHAOS_CHILDREN; i++)
        kill_child(chaos, i);
}
