/*
 * Lines of an output that only repeat a text which the attempt was given, such as the retry context
 * that an agent prints before it begins. They tell of the failure before, so they are no evidence
 * of this one.
 *
 * A line repeats the text when it is one of its lines, whatever the blanks, also after quote marks
 * ("> "). A member of a JSON object ("summary": "…") may follow any short prefix, such as the time
 * and the name of a logger. The whole text in one line counts, too. A line that only has words of
 * the text in common with it is the attempt's own: the retry context has the line that failed last
 * time as a value, and an attempt that fails alike prints it again.
 */
#ifndef CORE_QUOTED_H
#define CORE_QUOTED_H

#include "base/buf.h"

#include <stddef.h>

/* Appends the lines of the tail that do not repeat the text `given` to out, with their ends;
 * out->failed tells that memory ran out. */
void quoted_drop(const char *tail, size_t tail_bytes, const char *given, struct buf *out);

#endif
