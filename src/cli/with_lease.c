/* See with_lease.h. */
#include "cli/with_lease.h"

#include "base/timetext.h"
#include "cli/cli.h"
#include "run/leased.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the command may want to know; this process has no other use for its environment. */
static int set_environment(const struct tend_job *job)
{
    char id[32];
    char lease[64];
    snprintf(id, sizeof id, "%" PRId64, job->id);
    snprintf(lease, sizeof lease, "%" PRId64 ":%" PRId64, job->id, job->token);
    return setenv("TEND_JOB_ID", id, 1) | setenv("TEND_LEASE", lease, 1) |
           setenv("TEND_QUEUE", job->queue, 1) | setenv("TEND_KIND", job->kind, 1);
}

/* A file in memory with the payload; -1 with errno. */
static int payload_file(const struct tend_job *job)
{
    int fd = memfd_create("payload", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < job->payload_bytes) {
        ssize_t wrote = write(fd, job->payload + done, job->payload_bytes - done);
        if (wrote < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* A command in a process group of its own would be stopped by its first look at a terminal. */
static int own_input(void)
{
    return isatty(STDIN_FILENO) ? -1 : STDIN_FILENO;
}

static void say(struct cli *cli, int64_t id, const struct leased_result *result)
{
    char when[DURATION_TEXT_BYTES];
    if (result->end == LEASED_COMPLETED && strcmp(result->text, "completed") == 0)
        return;
    /* "was cancelled by …" has the job for its subject. */
    bool of_job = strncmp(result->text, "was ", strlen("was ")) == 0;
    if (result->end != LEASED_FAILED)
        cli_note(cli, "job %" PRId64 "%s %s", id, of_job ? "" : ":", result->text);
    else if (result->due_ms == TEND_UNSET)
        cli_note(cli, "job %" PRId64 " %s; it is not tried again", id, result->text);
    else
        cli_note(cli, "job %" PRId64 " %s; tried again %s", id, result->text,
                 coming_text(result->due_ms, cli_now_ms(cli), when));
}

static int status_of(const struct leased_result *result)
{
    switch (result->end) {
    case LEASED_COMPLETED:
        return EXIT_DONE;
    case LEASED_FAILED:
        return EXIT_FAILED;
    case LEASED_LOST:
        return EXIT_REFUSED;
    case LEASED_GIVEN_BACK:
        return result->signal ? EXIT_SIGNAL + result->signal : EXIT_UNREACHABLE;
    case LEASED_NOT_STARTED:
        return EXIT_USAGE;
    case LEASED_UNTOLD:
        return exit_status_of(result->code);
    }
    return EXIT_FAILED;
}

static int run_under(struct cli *cli, const struct with_lease *wish, int input, int signal_fd)
{
    struct leased_command command = {.lease = wish->lease,
                                     .argv = wish->argv,
                                     .env = (const char *const *)environ,
                                     .stdin_fd = input,
                                     .takes_result = wish->takes_result,
                                     .grace_ms = wish->grace_ms,
                                     .signal_fd = signal_fd};
    struct leased_result result;
    int code = leased_run(cli->store, &command, &result);
    if (code < 0)
        return cli_fail_store(cli, code);
    say(cli, wish->lease.id, &result);
    return status_of(&result);
}

/* Standard output is the command's: what is left of ours goes out before. */
static int run_with_job(struct cli *cli, const struct with_lease *wish, const struct tend_job *job)
{
    int signals[2];
    int input = wish->gives_payload ? payload_file(job) : own_input();
    if (set_environment(job) != 0 || (wish->gives_payload && input < 0) ||
        pipe2(signals, O_CLOEXEC | O_NONBLOCK) != 0)
        return cli_fail(cli, TEND_ENOMEM, "%s: no memory or descriptors for the command",
                        cli->path);
    signals_forward(signals[1]);
    int status = cli_flush(cli);
    if (status == EXIT_DONE)
        status = run_under(cli, wish, input, signals[0]);
    if (wish->gives_payload)
        close(input);
    return status;
}

int with_lease(struct cli *cli, const struct with_lease *wish)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, wish->lease.id, &jobs);
    if (code < 0)
        return cli_fail_store(cli, code);
    int status = run_with_job(cli, wish, &jobs->items[0]);
    tend_jobs_free(jobs);
    return status;
}
