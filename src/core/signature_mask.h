/*
 * What changes from run to run, taken out of a line: see signature.h for what and why.
 *
 * Reads the line once from left to right; the result depends on nothing but the line.
 */
#ifndef CORE_SIGNATURE_MASK_H
#define CORE_SIGNATURE_MASK_H

#include <stddef.h>

enum { MASKED_BYTES = 300 };

/*
 * line is plain text of signature_lines.h. At most MASKED_BYTES come out, cut where the masked
 * text is full, so that the length of what was masked does not shift the cut. Returns the length;
 * out is NUL-terminated.
 */
size_t mask_line(const char *line, size_t len, char out[MASKED_BYTES + 1]);

#endif
