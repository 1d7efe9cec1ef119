/*
 * The store a command works on: which one, made or not, and under whose name.
 *
 * Invariant: a command that only reads or acts on what is there never makes a store, neither file
 * nor folder; somebody in the wrong folder is told so instead of seeing an empty queue.
 *
 * A command that waits (--wait, or a worker) also waits for room when the disk is too full to open
 * the store, as the library does once it is open (queue/wait.c): it says so once and tries again
 * every second. Signals end it then as any program.
 */
#include "base/clock.h"
#include "base/proc.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char default_folder[] = ".tend";
static const char default_file[] = ".tend/tend.db";
static const char default_url[] = "sqlite:.tend/tend.db";

enum { WHO_BYTES = 200, ROOM_TRY_MS = 1000 };

/* Who does it, as events will say: user@host. */
static void who_am_i(char who[WHO_BYTES])
{
    char host[64];
    if (proc_host(host, sizeof host) < 0)
        strcpy(host, "localhost");
    const struct passwd *user = getpwuid(geteuid());
    if (user)
        snprintf(who, WHO_BYTES, "%s@%s", user->pw_name, host);
    else
        snprintf(who, WHO_BYTES, "%lu@%s", (unsigned long)geteuid(), host);
}

const char *cli_store_url(void)
{
    if (globals.store_url)
        return globals.store_url;
    const char *url = getenv("TEND_STORE");
    return url && *url ? url : default_url;
}

static int no_restored_store(struct cli *cli)
{
    return cli_fail(cli, TEND_ENOTFOUND,
                    "there is no store there; restore it from the backup first, or name the place "
                    "where it is with --store URL or TEND_STORE");
}

/* The default store lives in a folder of its own, made on first use, for its owner alone. */
static int prepare_default(struct cli *cli, enum store_need need)
{
    if (need == STORE_MADE) {
        if (mkdir(default_folder, 0700) == 0 || errno == EEXIST)
            return EXIT_DONE;
        int code = errno == ENOSPC || errno == EDQUOT ? TEND_EFULL : TEND_EUNREACHABLE;
        return cli_fail(
            cli, code,
            "cannot make the folder %s here: %s; go to a folder that can be written, or name a "
            "store with --store URL or TEND_STORE",
            default_folder, strerror(errno));
    }
    struct stat info; /* of a link that leads nowhere, too: nobody makes a store through it */
    if (lstat(default_file, &info) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return EXIT_DONE;
    if (need == STORE_RESTORED)
        return no_restored_store(cli);
    return cli_fail(
        cli, TEND_ENOTFOUND,
        "there is no store here (%s); 'tend add' or 'tend migrate' makes one, --store URL or "
        "TEND_STORE names another",
        default_file);
}

/* Called by any thread of the library: touches nothing of ours but what is made for that. */
static void log_line(void *arg, const char *line)
{
    const struct cli *cli = arg;
    void (*log)(void *, const char *) = cli->log;
    if (log)
        log(cli->log_arg, line);
    else
        dprintf(STDERR_FILENO, "tend: %s\n", line);
}

/* The value of a number's option; NULL: the command has none of this name and type. */
static int64_t *number_of(const struct command *command, const char *name, enum option_type type)
{
    for (const struct option *option = command->options; option && option->name; option++)
        if (option->type == type && strcmp(option->name, name) == 0)
            return option->target;
    return NULL;
}

static int64_t *wait_option(const struct command *command)
{
    return number_of(command, "wait", OPTION_WAIT);
}

/* What --wait says, at least a second; 0: it says nothing, or for ever. */
static int64_t wait_of(const struct command *command)
{
    enum { LEAST_MS = 1000 };
    const int64_t *wait_ms = wait_option(command);
    return !wait_ms || *wait_ms <= 0 ? 0 : *wait_ms > LEAST_MS ? *wait_ms : LEAST_MS;
}

/* How long it may still wait for room; 0: no longer. */
static int64_t patience_ms(const struct cli *cli, int64_t waited_ms)
{
    const int64_t *wait_ms = wait_option(cli->command);
    const int64_t *pid = number_of(cli->command, "while-pid", OPTION_INT);
    if (pid && *pid > 0 && kill((pid_t)*pid, 0) != 0 && errno == ESRCH)
        return 0;
    if (cli->waits_for_room || (wait_ms && *wait_ms < 0))
        return INT64_MAX;
    return wait_ms && *wait_ms > waited_ms ? *wait_ms - waited_ms : 0;
}

/* As tend_open. What the wait has taken is taken off --wait. */
static int open_with_room(struct cli *cli, const char *url, const struct tend_options *options)
{
    int64_t *wait_ms = wait_option(cli->command);
    int64_t begun_ms = clock_mono_ms();
    bool told = false;
    int code;
    for (int64_t left_ms; (code = tend_open(&cli->store, url, options)) == TEND_EFULL;) {
        if ((left_ms = patience_ms(cli, clock_mono_ms() - begun_ms)) <= 0)
            return code;
        if (!told)
            cli_note(cli, "this is tried again every second: %s", tend_errmsg(cli->store));
        told = true;
        tend_close(cli->store);
        cli->store = NULL;
        poll(NULL, 0, left_ms < ROOM_TRY_MS ? (int)left_ms : ROOM_TRY_MS);
    }
    if (told && wait_ms && *wait_ms > 0) {
        int64_t left_ms = *wait_ms - (clock_mono_ms() - begun_ms);
        *wait_ms = left_ms > 1 ? left_ms : 1;
    }
    return code;
}

int cli_open_store(struct cli *cli, enum store_need need)
{
    const char *url = cli_store_url();
    char who[WHO_BYTES];
    who_am_i(who);
    struct tend_options options;
    tend_options_init(&options);
    options.name = cli->who ? cli->who : who;
    options.must_exist = need != STORE_MADE;
    options.durability_normal = globals.durability && strcmp(globals.durability, "normal") == 0;
    options.log = cli->json ? NULL : log_line;
    options.log_arg = cli;
    options.open_ms = wait_of(cli->command);
    int status = strcmp(url, default_url) == 0 ? prepare_default(cli, need) : EXIT_DONE;
    if (status != EXIT_DONE)
        return status;
    signals_suspend_safely();
    int code = open_with_room(cli, url, &options);
    if (code == TEND_ENOTFOUND && need == STORE_RESTORED)
        return no_restored_store(cli);
    if (code == TEND_ECORRUPT && need == STORE_EXAMINED) {
        cli->store_damaged = true;
        return EXIT_DONE;
    }
    if (code == TEND_EREADONLY) /* for want of permission, as other files that cannot be opened */
        return cli_fail_as(cli, EXIT_UNREACHABLE, code, "%s", tend_errmsg(cli->store));
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

int64_t cli_now_ms(struct cli *cli)
{
    int64_t now_ms;
    return tend_now(cli->store, &now_ms) < 0 ? clock_wall_ms() : now_ms;
}
