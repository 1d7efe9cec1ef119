/*
 * One line of `tend add --batch`: a JSON object with the members of a job; see tend-batch(5).
 *
 * The payload is taken over byte for byte, so it is cut out of the line and not parsed.
 */
#ifndef CLI_BATCH_LINE_H
#define CLI_BATCH_LINE_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct tend_job_spec;

struct line_fault {
    size_t column; /* from 1, in characters */
    char text[520];
};

/*
 * Fills *spec, which holds the defaults, from the line; its texts live in the arena. All that can
 * be known without the store is checked. A payload that is a plan gives the job its kind where
 * nothing else does. 0, TEND_EINVAL with the fault, or TEND_ENOMEM. Times like "now" are seen from
 * now_ms.
 */
int batch_line_parse(const char *line, size_t bytes, int64_t now_ms, struct arena *arena,
                     struct tend_job_spec *spec, struct line_fault *ret_fault);

#endif
