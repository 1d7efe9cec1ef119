/*
 * Files and standard input, whole or line by line.
 *
 * Not stdio, for the reason given in output.c. Memory stays within the longest line.
 */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* More than this in one piece is refused: it would be one row of the store. */
#define INPUT_MAX_BYTES ((size_t)256 * 1024 * 1024)

/* Reads a file, or standard input when path is "-", to its end. 0, TEND_ENOTFOUND, EIO, EINVAL. */
int input_read(const char *path, struct buf *out, struct err *err);

struct line_reader {
    int fd;
    off_t began; /* where in the file, -1: it is none and cannot be read twice */
    bool ended;  /* the input, not the lines in the buffer */
    struct buf buf;
    size_t start;   /* of what has not been handed out */
    size_t scanned; /* bytes known to hold no line end, from start */
};

/* Opens a file, or standard input when path is "-". 0 or as input_read. */
int line_reader_open(struct line_reader *reader, const char *path, struct err *err);
void line_reader_close(struct line_reader *reader);

/* A file can be read twice, a pipe cannot. */
bool line_reader_is_file(const struct line_reader *reader);
/* Back to the first line. 0 or TEND_EIO. */
int line_reader_rewind(struct line_reader *reader, struct err *err);

enum { LINE_END = 0, LINE_READY = 1, LINE_LATER = 2 };

/*
 * The next line without its end; it stays valid until the next call. LINE_END after the last;
 * LINE_LATER when none has come within wait_ms (-1: no such limit); a negative code on failure.
 */
int line_next(struct line_reader *reader, int wait_ms, const char **ret_line, size_t *ret_bytes,
              struct err *err);

#endif
