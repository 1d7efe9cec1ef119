/*
 * The signature of a failure: two failures are the same when their signatures are (SH-3).
 *
 * Made of how the attempt ended and of the lines near its end that look like errors, or the very
 * last ones where none does. The error lines count as a set, because parallel jobs fail in any
 * order. What changes from run to run is masked with # first: numbers, times, dates and their
 * words, durations, pids, ports, addresses, hexadecimal and other generated ids, names of pods,
 * words of random letters, names below temporary folders; escape sequences of terminals are
 * dropped. One mask for all of them, because an id of digits alone must not differ from the next
 * one that has a letter.
 * Not masked are numbers that tell failures apart: status and exit codes, and up to two digits that
 * end a name (step2, test_case_7), unless it is that of a worker or a machine.
 *
 *     [14:03:07] worker-12: cannot open /tmp/x.Pq8z/a.db (0x55d0c8)
 *     [#] worker-#: cannot open /tmp/#/a.db (#)
 *
 * Not a secret keeper: what comes in is redacted before. Linear in the length of the tail, of
 * which the last 64 KiB count. Invariants: the text is valid UTF-8, without control characters.
 */
#ifndef CORE_SIGNATURE_H
#define CORE_SIGNATURE_H

#include "core/classify.h"

#include <stddef.h>
#include <stdint.h>

enum { SIGNATURE_TEXT_BYTES = 400 };

struct signature {
    char hash[17];                       /* 16 hexadecimal digits */
    char text[SIGNATURE_TEXT_BYTES + 1]; /* for people */
    int64_t failures; /* failing tests or errors, as the output's summary counts them; -1: the
                         output has no such count. Not part of hash or text */
};

void signature_make(struct ending ending, const char *tail, size_t tail_bytes,
                    struct signature *ret);

/* 64 bits, well mixed, the same on every machine. Not for secrets. */
uint64_t signature_hash(const void *data, size_t bytes);

#endif
