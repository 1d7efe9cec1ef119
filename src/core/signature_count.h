/*
 * How many failures an output counts itself: "9 failed, 3 passed", "Failures: 2, Errors: 1",
 * "Found 3 errors".
 *
 * The signature masks numbers, so that a loop is seen although a number changes. A count that goes
 * down is progress all the same.
 */
#ifndef CORE_SIGNATURE_COUNT_H
#define CORE_SIGNATURE_COUNT_H

#include <stddef.h>
#include <stdint.h>

/* The count of the last line that has one, failures and errors together; -1: no line has. */
int64_t signature_count(const char *tail, size_t tail_bytes);

/* ... of one line of plain text. */
int64_t signature_count_line(const char *line, size_t len);

#endif
