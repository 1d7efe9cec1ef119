/*
 * The tend command: a table of commands and what they have in common.
 *
 * Order of things: read the command line, open the store if the command's row asks for it, run,
 * write what is left of the output, close. Whatever goes wrong is told once.
 */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const struct command *const all_commands[] = {
    &cmd_add,        &cmd_wait,           &cmd_jobs,        &cmd_show,        &cmd_explain,
    &cmd_cancel,     &cmd_retry,          &cmd_hold,        &cmd_resume,      &cmd_claim,
    &cmd_start,      &cmd_heartbeat,      &cmd_phase,       &cmd_complete,    &cmd_fail,
    &cmd_release,    &cmd_with_lease,     &cmd_work,        &cmd_run,         &cmd_logs,
    &cmd_patch,      &cmd_workspace,      &cmd_control,     &cmd_top,         &cmd_queues,
    &cmd_queue,      &cmd_lock,           &cmd_schedule,    &cmd_notify,      &cmd_heal,
    &cmd_purge,      &cmd_workers,        &cmd_events,      &cmd_stats,       &cmd_doctor,
    &cmd_migrate,    &cmd_demo,           &cmd_bench,       &cmd_help,        &cmd_version,
    &cmd_completion, &cmd_complete_words, &cmd_demo_worker, &cmd_bench_child, NULL,
};

struct globals globals;

const struct option global_options[] = {
    {.name = "store",
     .form = "URL",
     .type = OPTION_TEXT,
     .text =
         "the store: a path, sqlite:PATH or postgresql://…; else TEND_STORE, else the nearest .tend/tend.db at or above the current folder",
     .target = &globals.store_url},
    {.name = "json",
     .type = OPTION_FLAG,
     .text = "output and errors for machines: one document, or a line per row",
     .target = &globals.json},
    {.name = "durability",
     .form = "full|normal",
     .type = OPTION_CHOICE,
     .choices = "full|normal",
     .text = "normal: faster on SQLite, a power loss may lose the last commits (default full)",
     .target = &globals.durability},
    {.name = "no-color",
     .type = OPTION_FLAG,
     .text = "no colours; they are also off when NO_COLOR is set or the output is no terminal",
     .target = &globals.no_color},
    {.name = "help",
     .letter = 'h',
     .type = OPTION_FLAG,
     .text = "explain the command",
     .target = &globals.help},
    {.name = "version",
     .letter = 'V',
     .type = OPTION_FLAG,
     .text = "print the version",
     .target = &globals.version},
    OPTION_END,
};

/*
 * A standard stream that was closed would give its number to the next file opened, and output
 * would land in the store. What stands there instead fails when it is used.
 */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            abort();
}

static void look_at_terminal(struct cli *cli)
{
    if (!isatty(STDOUT_FILENO))
        return;
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    cli->color =
        !globals.no_color && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
    struct winsize size;
    cli->width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static int run_command(struct cli *cli, const struct parsed *parsed)
{
    const struct command *command = parsed->command;
    if (globals.help && command) {
        help_command(cli, command, cli->path);
        return EXIT_DONE;
    }
    if (globals.help) {
        help_overview(cli);
        return EXIT_DONE;
    }
    if (globals.version)
        return cmd_version.run(cli, 0, NULL);
    if (!command)
        return cli_fail(cli, TEND_EINVAL, "which command? 'tend help' lists them");
    int status = command->store == STORE_NONE ? EXIT_DONE : cli_open_store(cli, command->store);
    return status == EXIT_DONE ? command->run(cli, parsed->argc, parsed->argv) : status;
}

/* The last word belongs to the output: an answer that nobody could read is a failure, and says what
 * was done all the same. */
static int finish_output(struct cli *cli, int status)
{
    if (cli->did[0] != '\0')
        cli_answer(cli);
    else
        cli_flush(cli);
    if (cli->out_errno == 0)
        return status;
    int failed = cli->out_errno == EPIPE ? EXIT_SIGNAL + SIGPIPE : EXIT_FAILED;
    if (cli->did[0] != '\0')
        return cli_fail_as(cli, status == EXIT_DONE || failed > EXIT_SIGNAL ? failed : status,
                           TEND_EIO, "%s could not be written to standard output: %s", cli->did,
                           strerror(cli->out_errno));
    if (cli->out_errno == EPIPE)
        return failed;
    return cli_fail_as(cli, status == EXIT_DONE ? EXIT_FAILED : status, TEND_EIO,
                       "cannot write the output: %s", strerror(cli->out_errno));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "__exec") == 0)
        return cmd_exec_main(argc - 2, argv + 2);
    /* A heap that is trimmed after every claim costs half the speed. */
    mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    /* The line above also keeps this one from growing by itself: results would be mapped and
     * faulted in anew. */
    mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024);
    db_tune_process();
    fill_standard_streams();
    signals_start();
    struct cli cli = {.command = NULL};
    buf_init(&cli.out);
    struct parsed parsed;
    int status = parse_command_line(&cli, argc, argv, &parsed);
    look_at_terminal(&cli);
    if (status == EXIT_DONE)
        status = run_command(&cli, &parsed);
    status = finish_output(&cli, status);
    signals_interrupt(NULL);
    if (cli.store_left)
        _exit(status);
    if (cli.store)
        tend_close(cli.store);
    parsed_done(&parsed);
    buf_done(&cli.out);
    return status;
}
