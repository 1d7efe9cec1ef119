/*
 * Who holds a byte of the lock file, and how that process is doing: for sentences alone.
 *
 * The kernel does not say who holds an open-file-description lock, so every holder notes itself in
 * the file. A note may be old. What is said of a process is therefore checked with what /proc says
 * of its descriptors; where /proc does not let us look, the sentence says "seems".
 */
#ifndef STORE_HOLDER_H
#define STORE_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOLDER_TEXT = 384 };

/* What a holder writes into the lock file. */
struct holder_note {
    int64_t pid;
    int64_t start_ticks;
    uint64_t pid_ns;
    int64_t since_ms; /* clock_boot_ms when it got the lock */
};

/* This process, without since_ms. All 0 when /proc cannot be read. */
struct holder_note holder_self(void);

struct holder {
    bool stopped;           /* by a signal or a debugger: it lets go of nothing before it goes on */
    bool is_stranger;       /* a program that does not stand in line (turnstile.h) */
    bool found;             /* /proc shows that this process holds the byte */
    int64_t pid;            /* 0: unknown */
    char text[HOLDER_TEXT]; /* "process 12 (tend) is stopped …; continue it with …" */
};

/*
 * Who holds `byte` of the file behind fd; noted is what the file says of it, where is where that
 * process then is: "in the middle of a write". May look at every process of the machine.
 */
void holder_find(int fd, int64_t byte, const char *where, const struct holder_note *noted,
                 struct holder *ret);

#endif
