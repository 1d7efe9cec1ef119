/* tend schedule: jobs that are added by the clock. */
#include "base/err.h"
#include "base/suggest.h"
#include "base/timetext.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/command_job.h"
#include "cli/json_out.h"
#include "cli/plan.h"
#include "cli/table.h"

#include <string.h>

static struct {
    const char *queue, *kind, *catch_up, *overlap, *timezone;
    int64_t priority;
    struct document payload;
    struct command_job_args command;
} args = {.priority = TEND_PRIORITY_DEFAULT};

static const struct option add_options[] = {
    OPTION("queue", 'q', "QUEUE", OPTION_TEXT, "queue to add to (default \"default\")",
           &args.queue),
    OPTION("kind", 'k', "KIND", OPTION_TEXT, "kind of the jobs", &args.kind),
    OPTION("payload", 0, "JSON|@FILE|-", OPTION_JSON, "payload of the jobs (default {})",
           &args.payload),
    OPTION("priority", 'p', "0-9", OPTION_INT, "0 is most urgent (default 5)", &args.priority,
           .min = 0, .max = 9),
    OPTION(
        "catch-up", 0, "none|one|all", OPTION_CHOICE,
        "jobs to add for runs that were missed, because no worker was there or it was paused: none, one for all of "
        "them (default), or all",
        &args.catch_up, .choices = "none|one|all"),
    OPTION("overlap", 0, "queue|skip|replace", OPTION_CHOICE,
           "when an earlier run has not finished: add this one anyway (default), skip it, or "
           "cancel the earlier one",
           &args.overlap, .choices = "queue|skip|replace"),
    OPTION("timezone", 0, "ZONE", OPTION_TEXT,
           "time zone of CRON, like Europe/Berlin (default UTC)", &args.timezone),
    COMMAND_JOB_OPTIONS(args.command),
    OPTION_END,
};

static const char *timezone_name(const struct tend_schedule *schedule)
{
    return schedule->timezone ? schedule->timezone : "UTC";
}

/* more: members about the answer, as JSON text, or NULL. */
static void print_schedule(struct buf *out, const struct tend_schedule *schedule, const char *more)
{
    json_open(out, NULL, '{');
    json_text(out, "name", schedule->name);
    json_text(out, "cron", schedule->cron);
    json_text(out, "queue", schedule->queue);
    json_text(out, "kind", schedule->kind);
    json_int(out, "priority", schedule->priority);
    json_text(out, "catch_up", schedule->catch_up);
    json_text(out, "overlap", schedule->overlap);
    json_text(out, "timezone", timezone_name(schedule));
    json_bool(out, "paused", schedule->paused);
    json_int_or_null(out, "last_at_ms", schedule->last_at_ms);
    json_text(out, "workspace", schedule->workspace);
    json_int_or_null(out, "next_at_ms", schedule->next_at_ms);
    json_text(out, "next_local", schedule->next_local);
    json_raw(out, "payload", schedule->payload, strlen(schedule->payload));
    if (more)
        buf_printf(out, ",%s", more);
    json_close(out, '}');
    buf_putc(out, '\n');
}

/* ---- one by its name ---- */

static int no_such_schedule(struct cli *cli, const char *name, const struct tend_schedules *all)
{
    struct suggestion near;
    suggestion_init(&near, name);
    for (size_t i = 0; i < all->count; i++)
        suggestion_offer(&near, all->items[i].name);
    if (near.best)
        return cli_fail(cli, TEND_ENOTFOUND,
                        "%s: there is no schedule \"%s\"; did you mean \"%s\"?", cli->path, name,
                        near.best);
    return cli_fail(cli, TEND_ENOTFOUND,
                    "%s: there is no schedule \"%s\"; 'tend schedule ls' lists them", cli->path,
                    name);
}

/* Calls use with the schedule of that name; gives its exit status. */
static int with_schedule(struct cli *cli, const char *name,
                         int (*use)(struct cli *cli, const struct tend_schedule *schedule))
{
    struct tend_schedules *all;
    int code = tend_schedule_list(cli->store, &all);
    if (code < 0)
        return cli_fail_store(cli, code);
    const struct tend_schedule *found = NULL;
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0)
            found = &all->items[i];
    int status = found ? use(cli, found) : no_such_schedule(cli, name, all);
    tend_schedules_free(all);
    return status;
}

static void print_next(struct cli *cli, const struct tend_schedule *schedule)
{
    char time[TIME_TEXT_BYTES];
    char when[DURATION_TEXT_BYTES];
    int64_t now_ms = cli_now_ms(cli);
    bool late = schedule->next_at_ms <= now_ms;
    buf_printf(&cli->out, "%s %s (%s)%s%s%s\n", late ? "has been due since" : "runs next at",
               schedule->timezone && schedule->next_local ? schedule->next_local
                                                          : time_text(schedule->next_at_ms, time),
               relative_text(schedule->next_at_ms, now_ms, when),
               late ? "; the next claim catches up (catch-up " : "", late ? schedule->catch_up : "",
               late ? ")" : "");
}

static int print_one(struct cli *cli, const struct tend_schedule *schedule)
{
    if (cli->json) {
        print_schedule(&cli->out, schedule, NULL);
        return EXIT_DONE;
    }
    buf_printf(&cli->out, "schedule \"%s\" ", schedule->name);
    if (schedule->paused)
        buf_puts(&cli->out, "is paused\n");
    else if (schedule->next_at_ms == TEND_UNSET)
        buf_puts(&cli->out, "never runs\n");
    else
        print_next(cli, schedule);
    return EXIT_DONE;
}

/* One that is paused does not run because it was put again: the answer says so. */
static int print_put(struct cli *cli, const struct tend_schedule *schedule, bool replaced)
{
    if (!cli->json && !schedule->paused)
        return print_one(cli, schedule);
    struct buf note, more;
    buf_init(&note);
    buf_init(&more);
    buf_printf(&note, "schedule \"%s\" is still paused; 'tend schedule resume %s' resumes it",
               schedule->name, schedule->name);
    json_bool(&more, "replaced", replaced);
    if (schedule->paused)
        json_text(&more, "note", note.data);
    if (cli->json)
        print_schedule(&cli->out, schedule, more.data);
    else
        buf_printf(&cli->out, "%s\n", note.data);
    buf_done(&more);
    buf_done(&note);
    return EXIT_DONE;
}

static int print_made(struct cli *cli, const struct tend_schedule *schedule)
{
    return print_put(cli, schedule, false);
}

static int print_replaced(struct cli *cli, const struct tend_schedule *schedule)
{
    return print_put(cli, schedule, true);
}

/* ---- the commands ---- */

/* As for `tend add`: what cannot run is refused now, and not at three in the morning. */
static int check_plan(struct cli *cli, struct tend_schedule *schedule)
{
    struct err err;
    size_t bytes = schedule->payload ? strlen(schedule->payload) : 0;
    int code = plan_check(schedule->payload, bytes, &schedule->kind, &err);
    return code < 0 ? cli_fail(cli, code, "schedule add: %s: %s",
                               args.payload.text ? "--payload" : "the command", err.text)
                    : EXIT_DONE;
}

static void schedule_of_args(struct tend_schedule *schedule)
{
    tend_schedule_init(schedule);
    if (args.queue)
        schedule->queue = args.queue;
    if (args.kind)
        schedule->kind = args.kind;
    if (args.payload.text)
        schedule->payload = args.payload.text;
    if (args.catch_up)
        schedule->catch_up = args.catch_up;
    schedule->overlap = args.overlap;
    schedule->timezone = args.timezone;
    schedule->priority = (int)args.priority;
}

static bool is_there(struct cli *cli, const char *name)
{
    struct tend_schedules *all;
    bool found = false;
    if (tend_schedule_list(cli->store, &all) < 0)
        return false;
    for (size_t i = 0; i < all->count; i++)
        found |= strcmp(all->items[i].name, name) == 0;
    tend_schedules_free(all);
    return found;
}

static int put(struct cli *cli, const struct tend_schedule *schedule, bool *ret_replaced)
{
    int status = cli_open_store(cli, STORE_MADE);
    if (status != EXIT_DONE)
        return status;
    bool replaces = is_there(cli, schedule->name);
    int code = tend_schedule_put(cli->store, schedule, NULL);
    /* In a folder with files no * is left. */
    if (code == TEND_EINVAL && cli->argc_before > 2 && !strchr(schedule->cron, '*'))
        return cli_fail(cli, code,
                        "%s; quote the five fields, else the shell replaces each * by the names of "
                        "files",
                        tend_errmsg(cli->store));
    if (code < 0)
        return cli_fail_store(cli, code);
    if (replaces)
        cli_note(cli, "schedule add: replaced the schedule \"%s\" that was there", schedule->name);
    *ret_replaced = replaces;
    return EXIT_DONE;
}

/* NAME CRON, where the five fields may also be words of their own; then the command. */
static int run_add(struct cli *cli, int argc, char **argv)
{
    int words = cli->argc_before;
    if (words > 6)
        return cli_fail(cli, TEND_EINVAL,
                        "schedule add: unexpected argument \"%s\"; quote the five fields, else the "
                        "shell replaces each * by the names of files",
                        argv[6]);
    struct tend_schedule schedule;
    struct buf cron, payload;
    int status = EXIT_DONE;
    bool replaced = false;
    buf_init(&cron);
    buf_init(&payload);
    schedule_of_args(&schedule);
    for (int i = 1; i < words; i++)
        buf_printf(&cron, "%s%s", i > 1 ? " " : "", argv[i]);
    schedule.name = argv[0];
    schedule.cron = cron.data;
    char workspace[PATH_MAX];
    bool has_command = argc > words;
    status = command_job_check(cli, &args.command, has_command);
    if (status == EXIT_DONE)
        status = command_job_folder(cli, &args.command,
                                    has_command || command_job_has_near_repo(schedule.payload),
                                    workspace, &schedule.workspace);
    if (status == EXIT_DONE && has_command && args.payload.text)
        status = cli_fail(cli, TEND_EINVAL,
                          "schedule add: a command makes the payload itself; leave out --payload");
    if (status == EXIT_DONE && has_command) {
        status = command_job_plan(cli, &args.command, argc - words, argv + words, &payload);
        schedule.payload = payload.data;
    }
    if (status == EXIT_DONE)
        status = check_plan(cli, &schedule);
    if (status == EXIT_DONE && has_command)
        command_job_hint(cli, argv[words], schedule.workspace);
    if (status == EXIT_DONE)
        status = put(cli, &schedule, &replaced);
    buf_done(&cron);
    buf_done(&payload);
    if (status != EXIT_DONE)
        return status;
    cli_did(cli, "schedule \"%s\" was put, but the answer", argv[0]);
    return with_schedule(cli, argv[0], replaced ? print_replaced : print_made);
}

static int remove_one(struct cli *cli, const struct tend_schedule *schedule)
{
    int code = tend_schedule_remove(cli->store, schedule->name, NULL);
    if (code < 0)
        return cli_fail_store(cli, code);
    cli_did(cli, "schedule \"%s\" was removed, but the answer", schedule->name);
    if (cli->json)
        print_schedule(&cli->out, schedule, "\"removed\":true");
    else
        buf_printf(&cli->out, "schedule \"%s\" removed\n", schedule->name);
    return EXIT_DONE;
}

/* The exit status is that of the first that went wrong. */
static int run_rm(struct cli *cli, int argc, char **argv)
{
    int status = EXIT_DONE;
    for (int i = 0; i < argc; i++) {
        int now = with_schedule(cli, argv[i], remove_one);
        if (now != EXIT_DONE && now != EXIT_NOT_FOUND)
            return now;
        status = status == EXIT_DONE ? now : status;
    }
    return status;
}

static int pause_one(struct cli *cli, const struct tend_schedule *schedule)
{
    int code = tend_schedule_pause(cli->store, schedule->name, NULL);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int resume_one(struct cli *cli, const struct tend_schedule *schedule)
{
    int code = tend_schedule_resume(cli->store, schedule->name, NULL);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int run_pause(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int status = with_schedule(cli, argv[0], pause_one);
    return status == EXIT_DONE ? with_schedule(cli, argv[0], print_one) : status;
}

static int run_resume(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int status = with_schedule(cli, argv[0], resume_one);
    return status == EXIT_DONE ? with_schedule(cli, argv[0], print_one) : status;
}

static const struct column columns[] = {
    {"NAME", COLUMN_WIDE},    {"CRON", COLUMN_LEFT},  {"TIMEZONE", COLUMN_LEFT},
    {"QUEUE", COLUMN_WIDE},   {"KIND", COLUMN_WIDE},  {"CATCH-UP", COLUMN_LEFT},
    {"OVERLAP", COLUMN_LEFT}, {"LAST", COLUMN_RIGHT}, {"NEXT", COLUMN_RIGHT},
    {"AT", COLUMN_LEFT},
};

static void time_cell(struct table *table, int64_t ms, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    if (ms == TEND_UNSET)
        table_cell(table, COLOR_DIM, "-");
    else
        table_cell(table, COLOR_NONE, "%s", relative_text(ms, now_ms, when));
}

static void add_row(struct table *table, const struct tend_schedule *schedule, int64_t now_ms)
{
    table_cell(table, COLOR_NONE, "%s", schedule->name);
    table_cell(table, COLOR_NONE, "%s", schedule->cron);
    table_cell(table, COLOR_NONE, "%s", timezone_name(schedule));
    table_cell(table, COLOR_NONE, "%s", schedule->queue);
    table_cell(table, COLOR_NONE, "%s", *schedule->kind ? schedule->kind : "-");
    table_cell(table, COLOR_NONE, "%s", schedule->catch_up);
    table_cell(table, COLOR_NONE, "%s", schedule->overlap);
    time_cell(table, schedule->last_at_ms, now_ms);
    if (schedule->paused)
        table_cell(table, COLOR_YELLOW, "paused");
    else
        time_cell(table, schedule->next_at_ms, now_ms);
    bool known = !schedule->paused && schedule->next_local;
    table_cell(table, known ? COLOR_NONE : COLOR_DIM, "%s", known ? schedule->next_local : "-");
}

static int run_ls(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_schedules *all;
    int code = tend_schedule_list(cli->store, &all);
    if (code < 0)
        return cli_fail_store(cli, code);
    int64_t now_ms = cli_now_ms(cli);
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < all->count; i++) {
        if (cli->json)
            print_schedule(&cli->out, &all->items[i], NULL);
        else
            add_row(&table, &all->items[i], now_ms);
    }
    int status = cli->json ? EXIT_DONE : table_print(&table, cli);
    table_done(&table);
    tend_schedules_free(all);
    return status;
}

static const struct command add = {
    .name = "add",
    .form = "NAME CRON [-- CMD ARG…]",
    .text = "make or replace a schedule",
    .about =
        "CRON is five fields (minute hour day month weekday), a word like @daily, or \"@every 90s\". Its times are UTC, or "
        "those of --timezone: a time that the clock skips runs when the gap ends, a time that comes twice runs the first "
        "time; where the hour field begins with *, runs follow the time that passes. "
        "How often its jobs are tried, their backoff, leases and limits are those of the queue ('tend queue set'); they have no "
        "tags and no unique key, as --overlap says what happens when runs meet. "
        "A command after -- becomes the payload {\"exec\": […]}. A payload that says what to do is checked, and gives the "
        "jobs their kind, as for 'tend add'. Each job knows the time it was scheduled for (nominal_at_ms; in steps "
        "TEND_NOMINAL_TIME). If a run is due when the schedule is replaced, it is added first; but a paused schedule stays "
        "paused and adds nothing. With --overlap skip or replace, --catch-up all is the same as one. Prints when it runs "
        "next; --json has \"replaced\".",
    .examples = "tend schedule add nightly '15 3 * * *' --timezone Europe/Berlin -- make report\n"
                "tend schedule add report '15 3 * * 1-5' -k report --payload '{\"for\": \"all\"}'\n"
                "tend schedule add poll '@every 90s' -q crawl --catch-up none --overlap skip",
    .options = add_options,
    .args_min = 2,
    .args_max = ARGS_ANY,
    .then_command = true,
    .store = STORE_NONE,
    .run = run_add,
};

static const struct command ls = {
    .name = "ls",
    .aliases = "list",
    .text = "list the schedules",
    .about =
        "LAST is the time of the last run that was added as a job (last_at_ms in JSON); runs that were missed or skipped "
        "are none, and 'tend events' has them (schedule.skipped). NEXT is when it runs next (next_at_ms), \"paused\", or - "
        "when it never runs again; AT is the same in its time zone (next_local).",
    .store = STORE_EXISTING,
    .run = run_ls,
};

static const struct command rm = {
    .name = "rm",
    .aliases = "remove",
    .form = "NAME…",
    .text = "remove schedules; jobs they have added stay",
    .about =
        "A name that there is not is said, and the others are removed all the same; the exit status is then 3.",
    .args_min = 1,
    .args_max = ARGS_ANY,
    .store = STORE_EXISTING,
    .run = run_rm,
};

static const struct command pause = {
    .name = "pause",
    .form = "NAME",
    .text = "add no jobs until it is resumed",
    .about =
        "Runs that are due already are not added either. Jobs that it has added stay as they are.",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_pause,
};

static const struct command resume = {
    .name = "resume",
    .form = "NAME",
    .text = "let a paused schedule add jobs again",
    .about =
        "Runs missed during the pause are treated as after a time without workers: as the schedule's --catch-up says, no "
        "job is added for them, one, or one for each. The next claim does it.",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_resume,
};

static const struct command *const subcommands[] = {&add, &ls, &rm, &pause, &resume, NULL};

const struct command cmd_schedule = {
    .name = "schedule",
    .group = "Operation",
    .text = "jobs that are added by the clock",
    .subcommands = subcommands,
};
