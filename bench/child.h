/*
 * Other processes of a measurement: tend itself once more, on pipes. A role is asked by a byte and
 * answers with numbers of eight bytes; it ends when its input does, and with the process that
 * started it.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid; /* 0: none */
    int to, from;
};

/* Each opens the store of the URL first. */
#define ROLE_WAITER                                                                                \
    "waiter" /* asked: waits for a job; answers when it has it, and 0 when it is completed */
#define ROLE_HOLDER "holder" /* answers when it holds a job, and keeps it */
#define ROLE_HOARDER                                                                               \
    "hoarder" /* answers with its peak of memory in KiB when it holds ROLE_HOARD jobs */
enum { ROLE_HOARD = 10000 };

int child_start(struct child *child, const char *role, const char *url);
/* Any command of tend, its output on the pipe. argv[0] is "tend". */
int child_spawn(struct child *child, char *const argv[]);

int child_ask(struct child *child);
/* Waits half a minute for an answer. Moments are nanoseconds of the monotonic clock. */
int child_hear(struct child *child, int64_t *ret_answer);

/* kill -9, without waiting for the end. */
void child_kill(struct child *child);
/* Ends it if need be, and waits. */
void child_done(struct child *child);

/* Peak of memory in KiB so far; 0 when it cannot be told. */
int64_t child_peak_kib(pid_t pid);

#endif
