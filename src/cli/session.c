/*
 * The store a command works on: which one, made or not, and under whose name.
 *
 * Invariant: a command that only reads or acts on what is there never makes a store, neither file
 * nor folder; somebody in the wrong folder is told so instead of seeing an empty queue.
 *
 * A command that waits (--wait, or a worker) also waits for room when the disk is too full to open
 * the store, as the library does once it is open (queue/wait.c): it says so once and tries again
 * every second; a worker that is to end by itself (--drain) gives up after some seconds. Signals
 * end it then as any program.
 */
#include "base/clock.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "cli/store_place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return store_place()->url;
}

static int no_restored_store(struct cli *cli)
{
    return cli_fail(cli, TEND_ENOTFOUND,
                    "there is no store there; restore it from the backup first, or name the place "
                    "where it is with --store URL or TEND_STORE");
}

/* A folder that was just made in somebody's repository is not theirs to commit. Without the file
 * all goes on as well. */
static void hide_from_git(const char *folder)
{
    static const char all[] = "*\n";
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/.gitignore", folder) >= (int)sizeof path)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, all, strlen(all)) != (ssize_t)strlen(all))
        unlink(path);
    close(fd);
}

/* A default store lives in a folder .tend of its own, made on first use, for its owner alone. That
 * the folder above a named one is missing is the engine's to tell. */
static int make_folder(struct cli *cli, const struct store_place *place)
{
    char folder[PATH_MAX];
    if (!store_place_own_folder(place, folder))
        return EXIT_DONE;
    if (mkdir(folder, 0700) == 0) {
        hide_from_git(folder);
        return EXIT_DONE;
    }
    if (errno == EEXIST || (errno == ENOENT && place->how == STORE_NAMED))
        return EXIT_DONE;
    int code = errno == ENOSPC || errno == EDQUOT ? TEND_EFULL : TEND_EUNREACHABLE;
    if (place->how == STORE_NAMED)
        return cli_fail(cli, code, "cannot make the folder \"%s\": %s", folder, strerror(errno));
    return cli_fail(
        cli, code,
        "cannot make the folder %s here: %s; go to a folder that can be written, or name a "
        "store with --store URL or TEND_STORE",
        folder, strerror(errno));
}

static bool may_make(enum store_need need)
{
    return need == STORE_MADE || need == STORE_MADE_HERE;
}

/* A store is a file: the one in the folder that was named is proposed. */
static int check_folder(struct cli *cli, const struct store_place *place)
{
    static const char *const names[] = {"tend.db", ".tend/tend.db"};
    const char *folder = *place->path ? place->path : place->url;
    char path[PATH_MAX];
    struct stat info;
    if (place->how != STORE_NAMED || stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))
        return EXIT_DONE;
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int len = snprintf(path, sizeof path, "%s%s%s", folder, slash, names[i]);
        if (len < (int)sizeof path && stat(path, &info) == 0)
            return cli_fail(cli, TEND_EINVAL,
                            "\"%s\" is a folder; the store in it is \"%s\": --store %s", folder,
                            path, path);
    }
    return cli_fail(cli, TEND_EINVAL,
                    "\"%s\" is a folder and has no store; a store is a file, such as --store "
                    "%s%s%s",
                    folder, folder, slash, names[1]);
}

static int prepare_place(struct cli *cli, const struct store_place *place, enum store_need need)
{
    int status = check_folder(cli, place);
    if (status != EXIT_DONE)
        return status;
    if (place->how == STORE_FOREIGN)
        return cli_fail(cli, TEND_EUNREACHABLE,
                        "the store \"%s\" belongs to %s, not to you; if you trust it, name it: "
                        "--store %s%s",
                        place->path, place->owner, place->path,
                        place->path[0] == '/' ? "; 'tend migrate' makes a store of your own here"
                                              : "");
    if (place->how == STORE_FOUND)
        return EXIT_DONE;
    if (may_make(need))
        return make_folder(cli, place);
    if (place->how == STORE_NAMED)
        return EXIT_DONE;
    if (need == STORE_RESTORED)
        return no_restored_store(cli);
    return cli_fail(
        cli, TEND_ENOTFOUND,
        "there is no store here (%s) or in a folder above; 'tend add' or 'tend migrate' makes one, "
        "--store URL or TEND_STORE names another",
        place->path);
}

/* Whether opening will make this file; an empty one becomes a store, too. */
static bool is_to_be_made(const struct store_place *place, enum store_need need)
{
    struct stat info;
    if (!may_make(need) || !*place->path)
        return false;
    return stat(place->path, &info) == 0 ? info.st_size == 0 : errno == ENOENT;
}

/* Who is in the wrong folder sees it here. */
static void tell_made(struct cli *cli, const struct store_place *place)
{
    char path[PATH_MAX];
    cli_note(cli, "made store %s%s%s", realpath(place->path, path) ? path : place->path,
             *place->above ? "; from here it is used instead of " : "", place->above);
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
    if (wait_ms && *wait_ms < 0)
        return INT64_MAX;
    if (cli->room_ms > waited_ms)
        return cli->room_ms - waited_ms;
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
    if (need == STORE_MADE_HERE)
        store_place_stay();
    const struct store_place *place = store_place();
    char who[WHO_BYTES];
    who_am_i(who);
    struct tend_options options;
    tend_options_init(&options);
    options.name = cli->who ? cli->who : who;
    options.must_exist = !may_make(need);
    const char *hook = getenv("TEND_HOOK"); /* set by the runner of the job of a hook */
    options.hook = hook != NULL && *hook != '\0' ? hook : NULL;
    options.beside_workers = cli->beside_workers;
    options.durability_normal = globals.durability && strcmp(globals.durability, "normal") == 0;
    options.log = cli->json ? NULL : log_line;
    options.log_arg = cli;
    options.open_ms = wait_of(cli->command);
    int status = prepare_place(cli, place, need);
    if (status != EXIT_DONE)
        return status;
    bool made = is_to_be_made(place, need);
    signals_suspend_safely();
    int code = open_with_room(cli, place->url, &options);
    if (code == TEND_ENOTFOUND && need == STORE_RESTORED)
        return no_restored_store(cli);
    if (code == TEND_ECORRUPT && need == STORE_EXAMINED) {
        cli->store_damaged = true;
        return EXIT_DONE;
    }
    if (code == TEND_EREADONLY) /* for want of permission, as other files that cannot be opened */
        return cli_fail_as(cli, EXIT_UNREACHABLE, code, "%s", tend_errmsg(cli->store));
    if (code < 0)
        return cli_fail_store(cli, code);
    if (made)
        tell_made(cli, place);
    return EXIT_DONE;
}

int64_t cli_now_ms(struct cli *cli)
{
    int64_t now_ms;
    return tend_now(cli->store, &now_ms) < 0 ? clock_wall_ms() : now_ms;
}
