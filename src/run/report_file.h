/*
 * The file behind TEND_OUTPUT, as the worker reads it while the step runs.
 *
 * It is made and opened before the step begins: what the step reports may be its result, and when
 * it has ended nothing may be missing to read it. Steps are told to append. One that writes the
 * file anew, or puts another in its place, is heard as well: what does not begin with what was read
 * is read from its start, and counts like further lines. A file that was removed is read to its
 * end.
 *
 * Nothing but a plain file is read, and no link is followed: reading must come to an end.
 */
#ifndef RUN_REPORT_FILE_H
#define RUN_REPORT_FILE_H

#include "core/report.h"

enum {
    REPORT_TICK_BYTES = 1 << 20, /* read at a time, so that nothing else waits for it */
    REPORT_MOST_BYTES = 16 << 20,
    REPORT_TAIL_BYTES = 1024,
};

#define REPORT_FILE_NAME "output"

struct report_file {
    int folder;   /* it lies in, borrowed */
    int fd;       /* -1: not open */
    size_t bytes; /* read of the present one */
    char tail[REPORT_TAIL_BYTES];
    size_t tail_bytes; /* ... the last of them */
    bool anew;         /* what was read is not there any more */
    bool odd;          /* what has its name now cannot be read: no plain file, or closed to us */
    bool lacking;      /* ... for want of a descriptor or memory, which may pass */
};

void report_file_init(struct report_file *file);
void report_file_close(struct report_file *file);

/* Makes the file anew, whatever had its name, and opens it. 0 or an errno. */
int report_file_make(struct report_file *file, int folder);

/* Takes what has come since the last time, REPORT_TICK_BYTES at most. How many bytes; 0: nothing.
 */
size_t report_file_read(struct report_file *file, struct report *report);

#endif
