/* See with_lease.h. */
#include "cli/with_lease.h"

#include "base/arena.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "run/lease_watch.h"
#include "run/leased.h"
#include "run/payload_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OWN_VARIABLES = 5 };

/* The variable that an entry of an environment sets is one of those that the command gets. */
static bool is_replaced(const char *entry, const char *const own[OWN_VARIABLES])
{
    for (size_t i = 0; i < OWN_VARIABLES; i++)
        if (strncmp(entry, own[i], (size_t)(strchr(own[i], '=') - own[i]) + 1) == 0)
            return true;
    return false;
}

/* This process' environment, and what the command may want to know. It is a list of its own: other
 * threads of this process read environ. NULL: no memory. */
static const char **command_environment(const struct tend_job *job, struct arena *arena)
{
    size_t count = 0;
    const char *const own[OWN_VARIABLES] = {
        arena_printf(arena, "TEND_JOB_ID=%" PRId64, job->id),
        arena_printf(arena, "TEND_LEASE=%" PRId64 ":%" PRId64, job->id, job->token),
        arena_printf(arena, "TEND_QUEUE=%s", job->queue),
        arena_printf(arena, "TEND_KIND=%s", job->kind),
        arena_printf(arena, "TEND_HOOK=%s", job->hook != NULL ? job->hook : ""),
    };
    while (environ[count] != NULL)
        count++;
    const char **env = arena_alloc(arena, (count + OWN_VARIABLES + 1) * sizeof *env);
    for (size_t i = 0; i < OWN_VARIABLES; i++)
        if (env == NULL || own[i] == NULL)
            return NULL;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(environ[i], own))
            env[used++] = environ[i];
    size_t given = job->hook != NULL ? OWN_VARIABLES : OWN_VARIABLES - 1; /* the hook is the last */
    memcpy(env + used, own, given * sizeof *own);
    env[used + given] = NULL;
    return env;
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

static int answer(struct cli *cli, const struct with_lease *wish,
                  const struct leased_result *result)
{
    say(cli, wish->lease.id, result);
    return status_of(result);
}

/* The trouble is this process' own: the job is none the worse for it. */
static int give_back(struct cli *cli, const struct with_lease *wish, const char *why)
{
    struct leased_result result;
    leased_give_back(cli->store, wish->lease, why, &result);
    return answer(cli, wish, &result);
}

static void tell(void *arg, int64_t job_id, const char *text)
{
    (void)job_id; /* the text names it */
    cli_note(arg, "%s", text);
}

/* Standard output is the command's: what is left of ours goes out before. */
static int run_under(struct cli *cli, const struct with_lease *wish, const char *const *env,
                     int input, int signal_fd)
{
    const struct leased_command command = {.lease = wish->lease,
                                           .argv = wish->argv,
                                           .shell_line = wish->shell_line,
                                           .env = env,
                                           .stdin_fd = input,
                                           .takes_result = wish->takes_result,
                                           .grace_ms = wish->grace_ms,
                                           .signal_fd = signal_fd,
                                           .ear = {.tell = tell, .arg = cli}};
    struct leased_result result;
    int status = cli_flush(cli);
    if (status != EXIT_DONE) {
        give_back(cli, wish, "its worker could not write to its standard output");
        return status;
    }
    int code = leased_run(cli->store, &command, &result);
    return code < 0 ? cli_fail_store(cli, code) : answer(cli, wish, &result);
}

static int run_with_job(struct cli *cli, const struct with_lease *wish, const struct tend_job *job)
{
    int signals[2];
    struct arena arena;
    arena_init(&arena);
    int status = EXIT_FAILED;
    int input = wish->gives_payload ? payload_file(job) : own_input();
    const char *const *env = command_environment(job, &arena);
    if (env == NULL || (wish->gives_payload && input < 0) ||
        pipe2(signals, O_CLOEXEC | O_NONBLOCK) != 0) {
        status = give_back(cli, wish, "no memory or descriptors for the command");
    } else {
        signals_forward(signals[1]);
        status = run_under(cli, wish, env, input, signals[0]);
    }
    if (wish->gives_payload && input >= 0)
        close(input);
    arena_done(&arena);
    return status;
}

int with_lease(struct cli *cli, const struct with_lease *wish)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, wish->lease.id, &jobs);
    if (code < 0 && lease_trouble_passes(code)) {
        char why[256];
        snprintf(why, sizeof why, "%s", tend_errmsg(cli->store));
        return give_back(cli, wish, why);
    }
    if (code < 0)
        return cli_fail_store(cli, code);
    int status = run_with_job(cli, wish, &jobs->items[0]);
    tend_jobs_free(jobs);
    return status;
}
