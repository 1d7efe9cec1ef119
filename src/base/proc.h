/*
 * Which process is that, and does it still live? A pid alone is no answer: pids are reused, and
 * mean nothing after a reboot or in another container.
 *
 * Not a way to stop processes. Invariant: PROC_DEAD is said only on evidence; whoever is declared
 * dead loses its leases at once.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROC_BOOT_BYTES = 40 };

/* Names one process of one machine for ever. */
struct proc_id {
    int64_t pid;
    int64_t start_ticks; /* clock ticks from boot to its start: tells apart two uses of a pid */
    uint64_t pid_ns;     /* inode of its pid namespace: in which the pid counts */
    char boot_id[PROC_BOOT_BYTES]; /* which boot of the machine */
};

enum proc_fate {
    PROC_ALIVE,
    PROC_DEAD,    /* gone, its pid belongs to another, a zombie, or the machine was rebooted */
    PROC_UNKNOWN, /* it lives in another pid namespace, or /proc hides it: cannot be told */
};

/* What the kernel says of a process at this moment. */
struct proc_stat {
    char state; /* a letter, as in ps: R, S, D, T, Z, X */
    int64_t parent_pid;
    int64_t group; /* id of its process group */
    int64_t threads;
    int64_t start_ticks;
    char command[32]; /* the name of its program, cut by the kernel; ASCII only */
};

/* A process of our own pid namespace. 0, TEND_ENOTFOUND, TEND_ENOMEM when there are no descriptors
 * or memory for it (errno says which), or TEND_EIO when /proc cannot be read. */
int proc_stat(int64_t pid, struct proc_stat *ret_stat);

/* It runs no more, although its parent may not have asked for its end yet. */
bool proc_has_ended(const struct proc_stat *stat);

/* It does nothing until somebody continues it: stopped by a signal, or by a debugger. */
bool proc_is_stopped(const struct proc_stat *stat);

/* Whether two processes with one pid are the same: they have started at the same time. Seen from
 * another time namespace it may differ by a tick; a pid is not used again as soon as that. */
bool proc_same_start(int64_t a_ticks, int64_t b_ticks);

/* As proc_stat; of this process, so it is never TEND_ENOTFOUND. */
int proc_self(struct proc_id *ret_id);

/* As proc_stat. */
int proc_of(int64_t pid, struct proc_id *ret_id);

/*
 * Which boot of the machine this is: the same for all processes, and for as long as they live. So
 * it is kept once it has been read, and a process that runs out of descriptors later still knows
 * it: what others have noted of this boot must not look like that of another. Whoever opens a store
 * reads it. As proc_stat; any thread.
 */
int proc_boot_id(char out[PROC_BOOT_BYTES]);

/* The inode of this process's pid namespace. Needs no descriptor. As proc_stat. */
int proc_pid_ns(uint64_t *ret_inode);

/*
 * Asked only about processes of this machine: an id from another one looks like a reboot, that is,
 * dead. The caller compares hosts (proc_host) first.
 */
enum proc_fate proc_fate(const struct proc_id *id);

/*
 * A close-on-exec descriptor that becomes readable when the process ends. TEND_ENOTFOUND when
 * there is no such process, TEND_EIO otherwise.
 */
int proc_pidfd(int64_t pid);

/* The machine's name, cut to size. 0, or TEND_EIO. */
int proc_host(char *out, size_t size);

#endif
