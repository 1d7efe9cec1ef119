/* See input.h. */
#include "cli/input.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024 };

static void close_input(int fd)
{
    if (fd != STDIN_FILENO)
        close(fd);
}

static int open_input(const char *path, struct err *err)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? TEND_ENOTFOUND : TEND_EIO;
        return err_set(err, code, "cannot open %s: %s", path, strerror(errno));
    }
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        close_input(fd);
        return err_set(err, TEND_EIO, "cannot read %s: it is a folder",
                       standard ? "standard input" : path);
    }
    return fd;
}

/* Appends what comes next. Bytes read, 0 at the end, or a negative code. */
static int read_piece(int fd, struct buf *out, struct err *err)
{
    char piece[PIECE_BYTES];
    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got >= 0) {
            buf_append(out, piece, (size_t)got);
            if (out->failed)
                return err_set(err, TEND_ENOMEM, "out of memory while reading the input");
            return (int)got;
        }
        if (errno == EAGAIN) {
            struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
            poll(&poll_fd, 1, -1);
        } else if (errno != EINTR) {
            return err_set(err, TEND_EIO, "cannot read the input: %s", strerror(errno));
        }
    }
}

static int too_long(struct err *err)
{
    return err_set(err, TEND_EINVAL, "the input has more than %zu MiB in one piece",
                   INPUT_MAX_BYTES / 1024 / 1024);
}

int input_read(const char *path, struct buf *out, struct err *err)
{
    int fd = open_input(path, err);
    if (fd < 0)
        return fd;
    int got;
    do {
        got = read_piece(fd, out, err);
        if (got > 0 && out->len > INPUT_MAX_BYTES)
            got = too_long(err);
    } while (got > 0);
    close_input(fd);
    return got;
}

int line_reader_open(struct line_reader *reader, const char *path, struct err *err)
{
    *reader = (struct line_reader){.fd = open_input(path, err)};
    buf_init(&reader->buf);
    if (reader->fd < 0)
        return reader->fd;
    struct stat info;
    bool file = fstat(reader->fd, &info) == 0 && S_ISREG(info.st_mode);
    reader->began = file ? lseek(reader->fd, 0, SEEK_CUR) : -1;
    return 0;
}

bool line_reader_is_file(const struct line_reader *reader)
{
    return reader->began >= 0;
}

int line_reader_rewind(struct line_reader *reader, struct err *err)
{
    if (lseek(reader->fd, reader->began, SEEK_SET) < 0)
        return err_set(err, TEND_EIO, "the file cannot be read again: %s", strerror(errno));
    buf_clear(&reader->buf);
    reader->start = reader->scanned = 0;
    reader->ended = false;
    return 0;
}

void line_reader_close(struct line_reader *reader)
{
    close_input(reader->fd);
    buf_done(&reader->buf);
}

/* Moves what is left to the front, so that the buffer grows only with the longest line. */
static void drop_handed_out(struct line_reader *reader)
{
    struct buf *buf = &reader->buf;
    if (reader->start == 0)
        return;
    buf->len -= reader->start;
    memmove(buf->data, buf->data + reader->start, buf->len + 1);
    reader->start = 0;
}

static bool input_waits(int fd, int wait_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    /* Interrupted: take it for "not yet"; the caller comes back. */
    return poll(&poll_fd, 1, wait_ms) > 0;
}

static int hand_out(struct line_reader *reader, size_t len, size_t end_bytes, const char **ret_line,
                    size_t *ret_bytes)
{
    *ret_line = reader->buf.data + reader->start;
    *ret_bytes = len > 0 && (*ret_line)[len - 1] == '\r' ? len - 1 : len;
    reader->start += len + end_bytes;
    reader->scanned = 0;
    return LINE_READY;
}

int line_next(struct line_reader *reader, int wait_ms, const char **ret_line, size_t *ret_bytes,
              struct err *err)
{
    for (;;) {
        const char *line = reader->buf.data + reader->start;
        size_t len = reader->buf.len - reader->start;
        const char *end = memchr(line + reader->scanned, '\n', len - reader->scanned);
        if (end)
            return hand_out(reader, (size_t)(end - line), 1, ret_line, ret_bytes);
        reader->scanned = len;
        if (len > INPUT_MAX_BYTES)
            return too_long(err);
        if (reader->ended)
            return len == 0 ? LINE_END : hand_out(reader, len, 0, ret_line, ret_bytes);
        drop_handed_out(reader);
        if (wait_ms >= 0 && !input_waits(reader->fd, wait_ms))
            return LINE_LATER;
        int got = read_piece(reader->fd, &reader->buf, err);
        if (got < 0)
            return got;
        reader->ended = got == 0;
    }
}
