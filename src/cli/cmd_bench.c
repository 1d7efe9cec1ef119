/*
 * tend bench: tend against the bare database. The measurements are in bench/; here is what is
 * chosen and what is shown.
 */
#include "base/text.h"
#include "base/timetext.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/json_out.h"
#include "cli/table.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

static struct {
    struct text_list only;
    const char *postgres, *folder, *side;
    bool quick, list;
} args;

static const struct option options[] = {
    OPTION("only", 0, "PATTERN", OPTION_LIST,
           "only what matches, as 'sqlite/*'; may be given again (default all)", &args.only),
    OPTION("quick", 0, NULL, OPTION_FLAG, "shorter and smaller, to see that it works", &args.quick),
    OPTION("list", 0, NULL, OPTION_FLAG, "only list what would be measured", &args.list),
    OPTION("postgres", 0, "URL", OPTION_TEXT,
           "measure PostgreSQL too, in schemas tend_bench_… of this database", &args.postgres),
    OPTION("folder", 0, "FOLDER", OPTION_TEXT,
           "where the files of SQLite are made (default TMPDIR, else /tmp)", &args.folder),
    OPTION("side", 0, "raw|tend", OPTION_CHOICE, "rates of one side alone, for a profiler",
           &args.side, .choices = "raw|tend"),
    OPTION_END,
};

static volatile sig_atomic_t stopped_by;

/* The second one ends the program at once. */
static void on_stop(int number)
{
    stopped_by = number;
    signal(number, SIG_DFL);
}

/* --- what is measured --- */

static bool is_wanted(const struct bench_case *what)
{
    if (what->engine == ENGINE_POSTGRES && !args.postgres && !args.list)
        return false;
    bool by_name_alone = what->on_demand && !args.list;
    for (size_t i = 0; i < args.only.count; i++)
        if (by_name_alone ? strcmp(args.only.items[i], what->name) == 0
                          : fnmatch(args.only.items[i], what->name, 0) == 0)
            return true;
    return args.only.count == 0 && !by_name_alone;
}

static size_t count_wanted(void)
{
    size_t count = 0;
    for (const struct bench_case *what = bench_cases; what->name; what++)
        count += is_wanted(what);
    return count;
}

static int list(struct cli *cli)
{
    for (const struct bench_case *what = bench_cases; what->name; what++) {
        if (!is_wanted(what))
            continue;
        if (cli->json) {
            json_open(&cli->out, NULL, '{');
            json_text(&cli->out, "name", what->name);
            json_text(&cli->out, "what", what->text);
            json_close(&cli->out, '}');
            buf_putc(&cli->out, '\n');
        } else {
            buf_printf(&cli->out, "%-28s %s\n", what->name, what->text);
        }
    }
    return EXIT_DONE;
}

/* --- rows of text --- */

enum { NAME_COLUMNS = 27, FIGURES_COLUMNS = 60, WHAT_COLUMNS = 60, WHAT_LEAST = 12 };

/* Columns for the words: what the terminal has left beside name and figures. */
static size_t what_columns(const struct cli *cli)
{
    size_t taken = NAME_COLUMNS + FIGURES_COLUMNS;
    if (cli->width == 0 || cli->width >= taken + WHAT_COLUMNS)
        return WHAT_COLUMNS;
    return cli->width >= taken + WHAT_LEAST ? cli->width - taken : 0;
}

/* "12,345/s", "0.42 ms"; "-" for what is not there. */
static void figure(char *out, size_t size, double value, const char *unit)
{
    char number[32];
    if (value < 0)
        snprintf(out, size, "-");
    else if (strcmp(unit, "/s") == 0)
        snprintf(out, size, "%s/s", bench_number((size_t)(value + 0.5), number));
    else
        snprintf(out, size, value < 10 ? "%.2f %s" : "%.1f %s", value, unit);
}

static void put_row(struct cli *cli, const char *name, const char *what, const char *const cells[4],
                    enum color color, const char *verdict)
{
    struct buf *out = &cli->out;
    size_t columns = what_columns(cli);
    text_fit(out, name, strlen(name), NAME_COLUMNS, true);
    buf_putc(out, ' ');
    if (columns > 0) {
        text_fit(out, what, strlen(what), columns - 1, true);
        buf_putc(out, ' ');
    }
    buf_printf(out, "%13s %13s %6s %11s  %s%s%s\n", cells[0], cells[1], cells[2], cells[3],
               color_on(cli, color), verdict, color_off(cli, color));
}

static void put_titles(struct cli *cli)
{
    const char *const titles[] = {"AGAINST", "TEND", "RATIO", "TARGET"};
    buf_puts(&cli->out, color_on(cli, COLOR_BOLD));
    put_row(cli, "NAME", "WHAT", titles, COLOR_NONE, "");
    buf_puts(&cli->out, color_off(cli, COLOR_BOLD));
}

static void put_result(struct cli *cli, const struct bench_result *result)
{
    char raw[32], ours[32], ratio[16] = "-", target[40] = "-", limit[32];
    figure(raw, sizeof raw, result->raw, result->unit);
    figure(ours, sizeof ours, result->ours, result->unit);
    if (result->ratio >= 0)
        snprintf(ratio, sizeof ratio, "%.2f", result->ratio);
    bool of_ratio = result->goal == GOAL_RATIO || result->goal == GOAL_RATIO_AT_MOST;
    if (of_ratio)
        snprintf(target, sizeof target, "%s %.2f",
                 result->goal == GOAL_RATIO ? ">=" : "<=", result->target);
    if (result->goal == GOAL_AT_MOST || result->goal == GOAL_AT_LEAST) {
        figure(limit, sizeof limit, result->target, result->unit);
        snprintf(target, sizeof target, "%s %s", result->goal == GOAL_AT_MOST ? "<" : ">=", limit);
    }
    const char *const cells[] = {raw, ours, ratio, target};
    bool judged = result->goal != GOAL_NONE && (!of_ratio || result->ratio >= 0);
    if (!judged)
        put_row(cli, result->name, result->what, cells, COLOR_NONE, "");
    else if (bench_met(result))
        put_row(cli, result->name, result->what, cells, COLOR_GREEN, "met");
    else
        put_row(cli, result->name, result->what, cells, COLOR_RED, "not met");
}

/* --- the document --- */

/* A number of a result; null where there is none. */
static void json_figure(struct buf *out, const char *key, double value, bool there)
{
    char text[40];
    int bytes = snprintf(text, sizeof text, "%.4g", value);
    if (value >= 1000)
        bytes = snprintf(text, sizeof text, "%.0f", value);
    json_raw(out, key, there ? text : NULL, (size_t)bytes);
}

static void json_result(struct buf *out, const struct bench_result *result)
{
    static const char *const goals[] = {[GOAL_NONE] = "none",
                                        [GOAL_RATIO] = "ratio",
                                        [GOAL_RATIO_AT_MOST] = "ratio_at_most",
                                        [GOAL_AT_MOST] = "at_most",
                                        [GOAL_AT_LEAST] = "at_least"};
    json_open(out, NULL, '{');
    json_text(out, "name", result->name);
    json_text(out, "what", result->what);
    json_text(out, "unit", result->unit);
    json_figure(out, "raw", result->raw, result->raw >= 0);
    json_figure(out, "ours", result->ours, result->ours >= 0);
    json_figure(out, "ratio", result->ratio, result->ratio >= 0);
    json_text(out, "goal", goals[result->goal]);
    json_figure(out, "target", result->target, result->goal != GOAL_NONE);
    json_bool(out, "met", bench_met(result));
    json_close(out, '}');
}

static size_t count_missed(const struct bench_results *results)
{
    size_t missed = 0;
    for (size_t i = 0; i < results->count; i++)
        missed += !bench_met(&results->items[i]);
    return missed;
}

static void put_document(struct cli *cli, const struct bench *bench, double seconds)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_text(out, "version", tend_version());
    json_bool(out, "quick", bench->quick);
    json_int(out, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    json_figure(out, "seconds", seconds, true);
    json_int(out, "not_met", (int64_t)count_missed(&bench->results));
    json_open(out, "results", '[');
    for (size_t i = 0; i < bench->results.count; i++)
        json_result(out, &bench->results.items[i]);
    json_close(out, ']');
    json_close(out, '}');
    buf_putc(out, '\n');
}

/* --- progress, on a terminal --- */

struct progress {
    struct cli *cli;
    bool live;
    size_t number, total;
    const char *name;
    double drawn_at; /* seconds */
};

static int draw_progress(void *arg, double done)
{
    struct progress *progress = arg;
    double now = bench_seconds();
    if (stopped_by)
        return -1;
    if (!progress->live || now < progress->drawn_at + 0.1)
        return 0;
    progress->drawn_at = now;
    buf_printf(&progress->cli->out, "\r\033[K%zu of %zu  %s  %.0f %%", progress->number,
               progress->total, progress->name, done > 1 ? 100 : done * 100);
    cli_flush(progress->cli);
    return 0;
}

static void clear_progress(struct progress *progress)
{
    if (progress->live)
        buf_puts(&progress->cli->out, "\r\033[K");
    progress->drawn_at = 0;
}

/* --- running --- */

static int make_folder(struct cli *cli, char *out, size_t size)
{
    const char *parent = args.folder ? args.folder : getenv("TMPDIR");
    struct statfs files;
    if (!parent || !*parent)
        parent = "/tmp";
    int len = snprintf(out, size, "%s/tend-bench.XXXXXX", parent);
    if (len < 0 || (size_t)len >= size)
        return cli_fail(cli, TEND_EINVAL, "bench: the name of the folder is too long");
    if (!mkdtemp(out))
        return cli_fail(cli, errno == ENOENT ? TEND_ENOTFOUND : TEND_EREADONLY,
                        "bench: cannot make a folder in %s: %s; --folder can name another place",
                        parent, strerror(errno));
    if (statfs(out, &files) == 0 && files.f_type == 0x01021994)
        cli_note(cli, "%s is in memory: --folder on a disk would measure what a commit costs",
                 parent);
    return EXIT_DONE;
}

static void empty_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static int run_case(struct progress *progress, struct bench *bench, const struct bench_case *what)
{
    struct cli *cli = progress->cli;
    size_t before = bench->results.count;
    progress->number++;
    progress->name = what->name;
    draw_progress(progress, 0);
    empty_folder(bench->folder);
    int rc = what->run(bench, what);
    clear_progress(progress);
    if (rc < 0)
        return stopped_by
                   ? EXIT_SIGNAL + stopped_by
                   : cli_fail(cli, TEND_EINTERNAL, "bench, %s: %s", what->name, bench_failure());
    if (before == 0 && !cli->json)
        put_titles(cli);
    for (size_t i = before; i < bench->results.count && !cli->json; i++)
        put_result(cli, &bench->results.items[i]);
    return cli->json ? EXIT_DONE : cli_flush(cli);
}

static void put_end(struct cli *cli, size_t missed, double seconds)
{
    char took[DURATION_TEXT_BYTES];
    buf_printf(&cli->out, "%zu target%s not met; measured in %s\n", missed, plural((int64_t)missed),
               span_text((int64_t)(seconds * 1000), took));
}

static int run_all(struct progress *progress, struct bench *bench)
{
    struct cli *cli = progress->cli;
    double began = bench_seconds();
    int status = EXIT_DONE;
    for (const struct bench_case *what = bench_cases; what->name && status == EXIT_DONE; what++)
        if (is_wanted(what))
            status = run_case(progress, bench, what);
    if (status != EXIT_DONE)
        return status;
    double seconds = bench_seconds() - began;
    if (cli->json)
        put_document(cli, bench, seconds);
    else
        put_end(cli, count_missed(&bench->results), seconds);
    return EXIT_DONE;
}

static int check_arguments(struct cli *cli)
{
    if (globals.store_url)
        return cli_fail(cli, TEND_EINVAL,
                        "bench: it makes stores of its own and removes them; leave --store out");
    if (args.postgres && strncmp(args.postgres, "postgresql://", 13) != 0 &&
        strncmp(args.postgres, "postgres://", 11) != 0)
        return cli_fail(cli, TEND_EINVAL, "bench: --postgres wants a URL: postgresql://…");
    if (count_wanted() == 0)
        return cli_fail(cli, TEND_EINVAL,
                        "bench: nothing to measure; --list names what there is, and what is on "
                        "PostgreSQL needs --postgres URL");
    if (args.postgres && !args.list && bench_reach_postgres(args.postgres) < 0)
        return cli_fail(cli, TEND_EUNREACHABLE, "bench: %s", bench_failure());
    return EXIT_DONE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char folder[256];
    int status = check_arguments(cli);
    if (status != EXIT_DONE || args.list)
        return status != EXIT_DONE ? status : list(cli);
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    signal(SIGHUP, on_stop);
    if ((status = make_folder(cli, folder, sizeof folder)) != EXIT_DONE)
        return status;
    const char *term = getenv("TERM");
    struct progress progress = {
        .cli = cli,
        .total = count_wanted(),
        .live = cli->width > 0 && !cli->json && term && strcmp(term, "dumb") != 0,
    };
    struct bench bench = {
        .progress = draw_progress,
        .progress_arg = &progress,
        .quick = args.quick,
        .only_side = args.side,
        .folder = folder,
        .postgres = args.postgres,
    };
    status = run_all(&progress, &bench);
    bench_results_done(&bench.results);
    empty_folder(folder);
    rmdir(folder);
    return status;
}

const struct command cmd_bench = {
    .name = "bench",
    .group = "Help",
    .text = "measure tend against the bare database",
    .about =
        "Rates are compared with a plain C loop that does the same commits on the same disk or "
        "server, in turns within one run, and given as ratios; absolute figures are the machine's. "
        "Further: how rates hold in a store with a million rows, how long work waits to be "
        "started or taken over, what CPU and memory it takes, and what a workspace costs beside "
        "'git worktree add'. Takes about three minutes, and "
        "five more with PostgreSQL; what takes longer is measured when --only has its full name. It "
        "should be alone on the machine. The exit status is 0 also when a target is not met.",
    .examples = "tend bench --quick\n"
                "tend bench --only 'sqlite/work*' --json | jq '.results[].ratio'\n"
                "tend bench --only steps/workspace-large\n"
                "tend bench --postgres 'postgresql:///test?host=/run/postgresql'",
    .options = options,
    .run = run,
};

static int run_child(struct cli *cli, int argc, char **argv)
{
    (void)cli;
    return bench_child_main(argc, argv);
}

const struct command cmd_bench_child = {
    .name = "__bench-child",
    .form = "ROLE URL PARENT",
    .text = "a process of 'tend bench'",
    .args_min = 3,
    .args_max = 3,
    .hidden = true,
    .run = run_child,
};
