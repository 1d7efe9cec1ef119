/*
 * A mark that every process of an attempt carries and that an ordinary program cannot drop: a
 * resource limit.
 *
 * RLIMIT_RTTIME says how long a process of a real-time class may compute without a rest. Hardly any
 * program looks at it. It is a number of 64 bits; fork and exec pass it on; nobody may raise the
 * hard limit without privilege; everybody may read it in /proc/PID/limits. So each attempt gets a
 * limit of its own: more than 146,000 years, which limits nothing, with the attempt in its lower
 * bits. A process keeps it with an empty environment, in a session of its own, without descriptors,
 * and after all its parents have died.
 *
 *     bits 63 62 | 61 … 31                      | 30 … 0
 *           0  1 | the attempt                  | all ones
 *           0  1 | the attempt that runs tend   | the attempt
 *
 * The second line is a worker that runs in a step of another: its steps belong to both. A third
 * level keeps the mark of the second.
 *
 * Who drops it does so on purpose: a program that lowers this limit, or raises it as root. What
 * other programs start for a step (a daemon of containers, at, systemd-run) never had it. Where the
 * worker itself was given a limit, no mark can be set. Invariant: a mark never limits anything.
 */
#ifndef RUN_TREE_MARK_H
#define RUN_TREE_MARK_H

#include <stdint.h>

/* The mark of an attempt that this process starts; 0: it cannot give one. */
uint64_t tree_mark_make(const char *marker);

/* The limit that makes the calling process carry a mark, and what it starts; 0 does nothing. Safe
 * between vfork and exec. Where it fails, the process is not marked. */
void tree_mark_set(uint64_t mark);

/* The mark that a process carries; 0: none, or it cannot be read. */
uint64_t tree_mark_read(int64_t pid);

enum tree_mark_match {
    MARK_OTHER,  /* of another attempt, or no mark */
    MARK_OWN,    /* of this attempt */
    MARK_NESTED, /* of an attempt of a worker that this attempt runs */
};
enum tree_mark_match tree_mark_match(uint64_t mark, const char *marker);

/* The mark of the one who has started the attempt, and of its minder, by that of a process in it;
 * the same where the attempt could not be given one. */
uint64_t tree_mark_above(uint64_t mark, const char *marker);

#endif
