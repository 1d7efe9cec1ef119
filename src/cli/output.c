/*
 * Standard output: collected in cli->out, written in large pieces. See cli.h.
 *
 * Not stdio: the second-tick of signals.c interrupts writes to a slow reader, which stdio takes
 * for an error and drops what it had.
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LARGE_BYTES = 64 * 1024 };

/* A pipe shared with others may have been set to non-blocking by them. */
static void wait_until_writable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    poll(&poll_fd, 1, -1);
}

static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, data, bytes);
        if (written >= 0) {
            data += written;
            bytes -= (size_t)written;
        } else if (errno == EAGAIN) {
            wait_until_writable(fd);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int cli_flush(struct cli *cli)
{
    if (!cli->out_errno && cli->out.failed)
        cli->out_errno = ENOMEM;
    if (!cli->out_errno && cli->out.len > 0)
        cli->out_errno = write_all(STDOUT_FILENO, cli->out.data, cli->out.len);
    buf_clear(&cli->out);
    return cli->out_errno ? EXIT_FAILED : EXIT_DONE;
}

static bool can_be_written_at_once(const struct cli *cli)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return cli->out.len <= PIPE_BUF && poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT) != 0;
}

int cli_answer(struct cli *cli)
{
    if (can_be_written_at_once(cli))
        signals_hold();
    int status = cli_flush(cli);
    signals_hold();
    return status;
}

void cli_did(struct cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(cli->did, sizeof cli->did, format, args);
    va_end(args);
}

int cli_flush_if_large(struct cli *cli)
{
    return cli->out.len >= LARGE_BYTES ? cli_flush(cli) : EXIT_DONE;
}
