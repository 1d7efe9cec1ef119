/*
 * What the worker, its nursery and its minders say to each other: one packet per message over
 * SOCK_SEQPACKET sockets, descriptors beside it.
 *
 * Not a format for storage or for another machine: both ends are the same version of the same
 * program (the nursery is started with WIRE_PROTOCOL and refuses another). Invariants: order is
 * kept, a packet is whole or not there, received descriptors are close-on-exec.
 */
#ifndef RUN_TREE_WIRE_H
#define RUN_TREE_WIRE_H

#include "run/tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WIRE_PROTOCOL "2"

enum {
    WIRE_NURSERY_FD = 3, /* where a nursery finds its socket, a minder afterwards its own */
    WIRE_INLINE_BYTES = 48 * 1024,      /* a larger body travels as a file in memory */
    WIRE_BODY_BYTES = 64 * 1024 * 1024, /* more than any kernel takes in one exec */
    WIRE_FDS = 4,
    WIRE_TEXT_BYTES = sizeof(((struct tree_event *)0)->text),
};

enum wire_type {
    /* worker to nursery */
    WIRE_HATCH = 1, /* fork a minder; beside it: the minder's socket */
    /* nursery to worker */
    WIRE_HELLO,
    /* worker to minder */
    WIRE_SPAWN,
    WIRE_STOP,
    WIRE_KEEP,
    /* minder to worker */
    WIRE_BEGINS, /* the command is about to be started: whatever comes now, it may have run */
    WIRE_STARTED,
    WIRE_NOT_STARTED,
    WIRE_EXITED,
    /* nursery to worker, over the socket of a minder that is no more */
    WIRE_GONE,
};

struct wire_order { /* HATCH, HELLO, STOP, KEEP */
    uint32_t type;
    int64_t time_ms; /* STOP: grace; KEEP: the new deadline on the monotonic clock */
};

/* SPAWN; behind it cwd, argv and environment, each with its NUL, here or in the last descriptor. */
struct wire_spawn {
    uint32_t type;
    uint32_t argc, envc;
    uint32_t body_bytes;
    uint32_t body_in_file;
    uint32_t given_fds; /* bit 0: stdin is beside it, bit 1: stdout, bit 2: stderr */
    int32_t nice;
    uint32_t limit_count;
    int64_t deadline_ms;
    int64_t leftover_grace_ms;
    uint64_t mark; /* see tree_mark.h; 0: none */
    struct tree_limit limits[TREE_LIMITS];
};

struct wire_answer { /* BEGINS, STARTED, NOT_STARTED, EXITED, GONE */
    uint32_t type;
    int32_t pid;
    int64_t start_ticks;
    int32_t wait_status;
    int32_t fault; /* enum tree_fault */
    int32_t err_number;
    uint32_t left;  /* processes that were there when the first one had ended */
    uint32_t alive; /* processes that not even SIGKILL has ended */
    uint8_t stopped, forced, deadline_passed;
    uint8_t oom_kills; /* enum oom_kills */
    int64_t user_us, system_us, max_rss_bytes;
    char text[WIRE_TEXT_BYTES];
};

/* Never blocks, never raises SIGPIPE. 0, or a negative errno. body may be NULL. */
int wire_send(int socket, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
              const int *fds, size_t fd_count);

/*
 * One packet, at once: its length, 0 at the end of the connection, or a negative errno (-EAGAIN:
 * nothing there). ret_fds has room for WIRE_FDS; the caller owns what it gets. It may be NULL where
 * none are expected.
 */
ssize_t wire_receive(int socket, void *packet, size_t size, int *ret_fds, size_t *ret_fd_count);

void wire_close_all(const int *fds, size_t fd_count);

#endif
