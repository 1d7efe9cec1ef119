/* tend notify: commands that run as jobs when automation gives up. */
#include "base/err.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/command_job.h"
#include "cli/json_out.h"
#include "cli/table.h"
#include "queue/hook.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *on, *queue, *into;
    struct command_job_args command;
} args;

enum {
    BASE_NAME_BYTES = 128,
    OWN_NAME_BYTES = BASE_NAME_BYTES + 24, /* with a number */
};

static const struct option add_options[] = {
    OPTION(
        "on", 0, "WORDS", OPTION_TEXT,
        "what it is told, with commas between: failed (a job has failed for good), poison (it "
        "has lost too many workers), exhausted (a step was given up: its tries are used up, or it makes no progress)",
        &args.on, .required = true),
    OPTION("queue", 'q', "QUEUE", OPTION_TEXT, "only for jobs of this queue (default: of all)",
           &args.queue),
    OPTION("into", 0, "QUEUE", OPTION_TEXT,
           "queue its jobs are added to (default: that of --queue, else \"default\")", &args.into),
    COMMAND_JOB_OPTIONS(args.command),
    OPTION_END,
};

/* The command of a hook in one line: the words of its exec, or its whole plan. */
static void put_command(struct buf *out, const char *payload)
{
    json_t *plan = json_loads(payload, 0, NULL);
    const json_t *words = json_object_get(plan, "exec");
    if (!json_is_array(words))
        buf_puts(out, payload);
    for (size_t i = 0; i < json_array_size(words); i++)
        buf_printf(out, "%s%s", i ? " " : "", json_string_value(json_array_get(words, i)));
    json_decref(plan);
}

static void print_hook(struct buf *out, const struct tend_hook *hook, const char *more)
{
    json_open(out, NULL, '{');
    json_text(out, "name", hook->name);
    json_text(out, "on", hook->on);
    json_text(out, "for_queue", hook->for_queue);
    json_text(out, "queue", hook->queue);
    json_raw(out, "payload", hook->payload, strlen(hook->payload));
    json_text(out, "workspace", hook->workspace);
    json_int(out, "at_ms", hook->at_ms);
    json_text(out, "by", hook->by);
    if (more)
        buf_printf(out, ",%s", more);
    json_close(out, '}');
    buf_putc(out, '\n');
}

/* ---- one by its name ---- */

static int no_such_hook(struct cli *cli, const char *name, const struct tend_hooks *all)
{
    struct suggestion near;
    suggestion_init(&near, name);
    for (size_t i = 0; i < all->count; i++)
        suggestion_offer(&near, all->items[i].name);
    if (near.best)
        return cli_fail(cli, TEND_ENOTFOUND, "%s: there is no hook \"%s\"; did you mean \"%s\"?",
                        cli->path, name, near.best);
    return cli_fail(cli, TEND_ENOTFOUND, "%s: there is no hook \"%s\"; 'tend notify ls' lists them",
                    cli->path, name);
}

static const struct tend_hook *find_hook(const struct tend_hooks *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0)
            return &all->items[i];
    return NULL;
}

/* Calls use with the hook of that name; gives its exit status. */
static int with_hook(struct cli *cli, const char *name,
                     int (*use)(struct cli *cli, const struct tend_hook *hook))
{
    struct tend_hooks *all;
    int code = tend_hook_list(cli->store, &all);
    if (code < 0)
        return cli_fail_store(cli, code);
    const struct tend_hook *found = find_hook(all, name);
    int status = found ? use(cli, found) : no_such_hook(cli, name, all);
    tend_hooks_free(all);
    return status;
}

/* ---- a name for a hook that was given none ---- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether two plans run the same words, whatever variables they give them. */
static bool same_command(const char *a, const char *b)
{
    json_t *one = json_loads(a, 0, NULL);
    json_t *other = json_loads(b, 0, NULL);
    const json_t *words = json_object_get(one, "exec");
    bool same = words && json_equal(words, json_object_get(other, "exec"));
    json_decref(one);
    json_decref(other);
    return same;
}

/* Whether the hook that is there runs the same command for the same jobs. */
static bool is_its_successor(const struct tend_hook *hook, const struct tend_hook *there)
{
    return same_text(hook->for_queue, there->for_queue) &&
           same_text(hook->workspace, there->workspace) &&
           same_command(hook->payload, there->payload);
}

/* Whether the hook that is there does the same in every way. */
static bool is_same(const struct tend_hook *hook, const struct tend_hook *there)
{
    const char *into = hook->queue ? hook->queue : hook->for_queue ? hook->for_queue : "default";
    return hook_read_words(hook->on) == hook_read_words(there->on) &&
           same_text(hook->for_queue, there->for_queue) && same_text(into, there->queue) &&
           same_text(hook->payload, there->payload) && same_text(hook->workspace, there->workspace);
}

/* The name of the command's file, as far as it can be the name of a hook. */
static void put_base_name(const char *command, char out[OWN_NAME_BYTES])
{
    const char *slash = strrchr(command, '/');
    const char *base = slash ? slash + 1 : command;
    size_t len = strlen(base);
    snprintf(out, OWN_NAME_BYTES, "%.*s",
             (int)utf8_floor(base, len, len < BASE_NAME_BYTES ? len : BASE_NAME_BYTES), base);
    if (!name_ok(out))
        snprintf(out, OWN_NAME_BYTES, "hook");
}

/* "tell", "tell-2"…: the first that no hook has, or that a hook has which runs the same command for
 * the same jobs, so that a repeated command makes no second hook. */
static void find_name(const struct tend_hooks *all, const struct tend_hook *hook,
                      char name[OWN_NAME_BYTES])
{
    const struct tend_hook *there;
    size_t len = strlen(name);
    for (size_t number = 2; (there = find_hook(all, name)) && !is_its_successor(hook, there);
         number++)
        snprintf(name + len, OWN_NAME_BYTES - len, "-%zu", number);
}

/* ---- add ---- */

enum outcome { OUTCOME_MADE, OUTCOME_REPLACED, OUTCOME_UNCHANGED };
static const char *const outcome_names[] = {"made", "replaced", "unchanged"};

/* own_name: that of the hook, where nobody has given it one; NULL: somebody has. */
static int find_outcome(struct cli *cli, const struct tend_hook *hook,
                        char own_name[OWN_NAME_BYTES], enum outcome *ret)
{
    struct tend_hooks *all;
    int code = tend_hook_list(cli->store, &all);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (own_name)
        find_name(all, hook, own_name);
    const struct tend_hook *there = find_hook(all, hook->name);
    *ret = !there ? OUTCOME_MADE : is_same(hook, there) ? OUTCOME_UNCHANGED : OUTCOME_REPLACED;
    tend_hooks_free(all);
    return EXIT_DONE;
}

static int print_put(struct cli *cli, const struct tend_hook *hook, enum outcome outcome)
{
    char more[32];
    const char *name = outcome_names[outcome];
    snprintf(more, sizeof more, "\"outcome\":\"%s\"", name);
    if (cli->json) {
        print_hook(&cli->out, hook, more);
        return EXIT_DONE;
    }
    buf_printf(&cli->out,
               "hook \"%s\" %s: it runs on %s of %s%s%s; its jobs are added to queue \"%s\": "
               "'tend work -q %s' runs them\n",
               hook->name, name, hook->on, hook->for_queue ? "queue \"" : "any queue",
               hook->for_queue ? hook->for_queue : "", hook->for_queue ? "\"" : "", hook->queue,
               hook->queue);
    return EXIT_DONE;
}

static int print_made(struct cli *cli, const struct tend_hook *hook)
{
    return print_put(cli, hook, OUTCOME_MADE);
}

static int print_replaced(struct cli *cli, const struct tend_hook *hook)
{
    return print_put(cli, hook, OUTCOME_REPLACED);
}

static int print_unchanged(struct cli *cli, const struct tend_hook *hook)
{
    return print_put(cli, hook, OUTCOME_UNCHANGED);
}

static int put(struct cli *cli, const struct tend_hook *hook, char own_name[OWN_NAME_BYTES])
{
    static int (*const print[])(struct cli * cli, const struct tend_hook *hook) = {
        print_made, print_replaced, print_unchanged};
    struct err err;
    enum outcome outcome = OUTCOME_MADE;
    int code = hook_check(hook, &err);
    if (code < 0)
        return cli_fail(cli, code, "notify add: %s", err.text);
    int status = cli_open_store(cli, STORE_MADE);
    if (status == EXIT_DONE)
        status = find_outcome(cli, hook, own_name, &outcome);
    if (status != EXIT_DONE)
        return status;
    code = outcome == OUTCOME_UNCHANGED ? 0 : tend_hook_put(cli->store, hook, NULL);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (outcome != OUTCOME_UNCHANGED)
        cli_did(cli, "hook \"%s\" was set, but the answer", hook->name);
    return with_hook(cli, hook->name, print[outcome]);
}

static int run_add(struct cli *cli, int argc, char **argv)
{
    int words = cli->argc_before;
    char workspace[PATH_MAX];
    char own_name[OWN_NAME_BYTES];
    struct tend_hook hook = {.name = words > 0 ? argv[0] : own_name,
                             .on = args.on,
                             .for_queue = args.queue,
                             .queue = args.into};
    struct buf payload;
    if (words > 1 || argc == words)
        return cli_fail(cli, TEND_EINVAL,
                        "notify add: give at most a NAME and, after --, the command to run: 'tend "
                        "notify add ops --on failed -- ./tell-ops'");
    put_base_name(argv[words], own_name);
    buf_init(&payload);
    int status = command_job_check(cli, &args.command, true);
    if (status == EXIT_DONE)
        status = command_job_folder(cli, &args.command, true, workspace, &hook.workspace);
    if (status == EXIT_DONE)
        status = command_job_plan(cli, &args.command, argc - words, argv + words, &payload);
    hook.payload = payload.data;
    if (status == EXIT_DONE)
        command_job_hint(cli, argv[words], hook.workspace);
    if (status == EXIT_DONE)
        status = put(cli, &hook, words > 0 ? NULL : own_name);
    buf_done(&payload);
    return status;
}

static const struct column columns[] = {
    {"NAME", COLUMN_WIDE}, {"ON", COLUMN_LEFT},      {"OF QUEUE", COLUMN_WIDE},
    {"INTO", COLUMN_WIDE}, {"COMMAND", COLUMN_WIDE},
};

static void add_row(struct table *table, const struct tend_hook *hook)
{
    struct buf command;
    buf_init(&command);
    put_command(&command, hook->payload);
    table_cell(table, COLOR_NONE, "%s", hook->name);
    table_cell(table, COLOR_NONE, "%s", hook->on);
    table_cell(table, COLOR_NONE, "%s", hook->for_queue ? hook->for_queue : "any");
    table_cell(table, COLOR_NONE, "%s", hook->queue);
    table_cell(table, COLOR_NONE, "%s", command.data);
    buf_done(&command);
}

static int run_ls(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_hooks *all;
    int code = tend_hook_list(cli->store, &all);
    if (code < 0)
        return cli_fail_store(cli, code);
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < all->count; i++) {
        if (cli->json)
            print_hook(&cli->out, &all->items[i], NULL);
        else
            add_row(&table, &all->items[i]);
    }
    int status = cli->json ? EXIT_DONE : table_print(&table, cli);
    table_done(&table);
    tend_hooks_free(all);
    return status;
}

static int remove_one(struct cli *cli, const struct tend_hook *hook)
{
    int code = tend_hook_remove(cli->store, hook->name, NULL);
    if (code < 0)
        return cli_fail_store(cli, code);
    cli_did(cli, "hook \"%s\" was removed, but the answer", hook->name);
    if (cli->json)
        print_hook(&cli->out, hook, "\"removed\":true");
    else
        buf_printf(&cli->out, "hook \"%s\" removed\n", hook->name);
    return EXIT_DONE;
}

static int run_rm(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    return with_hook(cli, argv[0], remove_one);
}

static const struct command add = {
    .name = "add",
    .form = "[NAME] --on WORDS -- CMD ARG…",
    .text = "make or replace a hook",
    .about =
        "When a job is given up, the hook's command is added as a job of its own, in the same transaction: one for each hook "
        "and ending. The command finds in its environment what has happened: TEND_NOTIFY_ON (failed, poison or exhausted), "
        "TEND_NOTIFY_JOB (the id), _QUEUE, _KIND, _STATE, _CLASS, _TEXT, _ATTEMPTS, _CRASHES, _AT, and _ENDING (ID:TOKEN, "
        "one for each ending); and in the file TEND_INPUT the same as JSON (payload.notify). "
        "failed is told of poison, too. After exhausted the queue may try the job again; TEND_NOTIFY_STATE tells. "
        "CMD runs in the current folder, or as --workspace and --no-folder say; --env-from gives it variables of its worker, "
        "such as a token. Without NAME the hook is called as the file of CMD, with a number where another hook is called so; the "
        "same CMD for the same queue replaces that hook. The answer says whether the hook was made, replaced or unchanged; "
        "with --json, as \"outcome\". "
        "The job of a hook that fails calls no hook.",
    .examples =
        "tend notify add --on failed,poison,exhausted -- ./tell-ops\n"
        "tend notify add chat --on failed,exhausted --env-from CHAT_TOKEN -- sh ./tell-chat.sh\n"
        "tend notify add pager --on failed -q billing --into alerts -- sh -c 'page \"job $TEND_NOTIFY_JOB: $TEND_NOTIFY_TEXT\"'",
    .options = add_options,
    .args_max = ARGS_ANY,
    .then_command = true,
    .store = STORE_NONE,
    .run = run_add,
};

static const struct command ls = {
    .name = "ls",
    .aliases = "list",
    .text = "list the hooks",
    .store = STORE_EXISTING,
    .run = run_ls,
};

static const struct command rm = {
    .name = "rm",
    .aliases = "remove",
    .form = "NAME",
    .text = "remove a hook; jobs it has added stay",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_rm,
};

static const struct command *const subcommands[] = {&add, &ls, &rm, NULL};

const struct command cmd_notify = {
    .name = "notify",
    .group = "Operation",
    .text = "run a command when a job is given up",
    .subcommands = subcommands,
};
