/*
 * tend queue: one queue's settings.
 *
 * The options of `queue set` are the library's own table of settings; a new setting appears here,
 * in help and in completion by itself.
 */
#include "base/rate.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/queue_text.h"
#include "cli/table.h"
#include "core/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SETTINGS_MAX = 32 };

/* Values given for the rows of the settings table, in its order; NULL: not given. */
static const char *setting_values[SETTINGS_MAX];

static const struct option *setting_options(void)
{
    static struct option rows[SETTINGS_MAX + 1];
    if (rows[0].name)
        return rows;
    size_t count;
    const struct tend_setting_info *table = tend_setting_table(&count);
    for (size_t i = 0; i < count && i < SETTINGS_MAX; i++) {
        bool on_off = strcmp(table[i].value_form, "on|off") == 0;
        rows[i] = (struct option){
            .name = table[i].name,
            .form = table[i].value_form,
            .type = OPTION_TEXT,
            .text = table[i].text,
            .target = &setting_values[i],
            .choices = on_off ? "on|off" : NULL,
            .redacted = strcmp(table[i].name, "why") == 0,
        };
    }
    return rows;
}

/* ---- show ---- */

static void put_setting(struct cli *cli, const char *name, const char *value)
{
    buf_printf(&cli->out, "  %s%-24s%s %s\n", color_on(cli, COLOR_DIM), name,
               color_off(cli, COLOR_DIM), value);
}

static void put_number(struct cli *cli, const char *name, int64_t number, const char *if_unset)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    put_setting(cli, name, number == TEND_UNSET ? if_unset : text);
}

static void put_duration(struct cli *cli, const char *name, int64_t ms, const char *if_unset)
{
    char text[DURATION_TEXT_BYTES];
    put_setting(cli, name, ms == TEND_UNSET ? if_unset : duration_text(ms, text));
}

/* What a queue says about its steps; most say nothing. */
static void put_budgets(struct cli *cli, const struct tend_queue *queue)
{
    const struct budgets standard = budget_merge(NULL, NULL, NULL, NULL);
    const struct {
        const char *name;
        int64_t value, standard;
        bool is_time;
    } rows[] = {
#define BUDGET(name, member, is_time) {name, queue->member, standard.member, is_time}
        BUDGET("step-max-attempts", step_max_attempts, false),
        BUDGET("step-timeout", step_timeout_ms, true),
        BUDGET("step-idle-timeout", step_idle_timeout_ms, true),
        BUDGET("step-no-progress-limit", step_no_progress_limit, false),
        BUDGET("job-self-heal-max-resets", job_self_heal_max_resets, false),
        BUDGET("step-grace", step_grace_ms, true),
        BUDGET("step-pause", step_pause_ms, true),
        BUDGET("step-pause-max", step_pause_max_ms, true),
#undef BUDGET
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char number[DURATION_TEXT_BYTES];
        char text[DURATION_TEXT_BYTES + sizeof " (default)"];
        bool is_set = rows[i].value != TEND_UNSET;
        int64_t value = is_set ? rows[i].value : rows[i].standard;
        if (rows[i].is_time)
            duration_text(value, number);
        else
            snprintf(number, sizeof number, "%" PRId64, value);
        snprintf(text, sizeof text, "%s%s", number, is_set ? "" : " (default)");
        put_setting(cli, rows[i].name, text);
    }
}

static void put_settings(struct cli *cli, const struct tend_queue *queue)
{
    char rate[RATE_TEXT_BYTES];
    bool limited = queue->rate_count != TEND_UNSET;
    struct buf paused;
    buf_init(&paused);
    buf_printf(&paused, "%s%s%s", queue->paused ? "on" : "off",
               queue->paused && *queue->paused_why ? ": " : "",
               queue->paused ? queue->paused_why : "");
    put_setting(cli, "paused", paused.data);
    buf_done(&paused);
    put_setting(cli, "serial", queue->serial ? "on" : "off");
    put_number(cli, "concurrency", queue->concurrency, "no limit");
    put_number(cli, "key-concurrency", queue->key_concurrency, "no limit");
    put_setting(cli, "rate",
                limited ? rate_text(queue->rate_count, queue->rate_period_ms, rate) : "no limit");
    put_setting(cli, "rate-strict", queue->rate_strict ? "on" : "off");
    put_duration(cli, "lease", queue->lease_ms, "-");
    put_number(cli, "max-attempts", queue->max_attempts, "-");
    put_number(cli, "max-crashes", queue->max_crashes, "-");
    put_duration(cli, "backoff", queue->backoff_ms, "-");
    put_duration(cli, "backoff-max", queue->backoff_max_ms, "-");
    put_duration(cli, "keep-done", queue->keep_done_ms, "for ever");
    put_duration(cli, "keep-failed", queue->keep_failed_ms, "for ever");
    put_duration(cli, "keep-workspace", queue->keep_workspace_ms, "for ever");
    put_setting(cli, "retry-classes", queue->retry_classes);
    put_budgets(cli, queue);
}

static void print_queue(struct cli *cli, const struct tend_queue_stats *queue)
{
    if (cli->json) {
        queue_stats_json(&cli->out, queue);
        return;
    }
    buf_printf(&cli->out, "%squeue %s%s%s\n", color_on(cli, COLOR_BOLD), queue->settings.name,
               color_off(cli, COLOR_BOLD),
               queue->settings.exists ? "" : " (all settings by default)");
    put_settings(cli, &queue->settings);
    buf_puts(&cli->out, "\n  jobs                    ");
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        enum color color = queue->jobs[state] > 0 ? color_of_state(state) : COLOR_DIM;
        buf_printf(&cli->out, "%s%s%" PRId64 " %s%s", state > 0 ? ", " : " ", color_on(cli, color),
                   queue->jobs[state], tend_state_name(state), color_off(cli, color));
    }
    buf_putc(&cli->out, '\n');
}

static int show_queue(struct cli *cli, const char *name)
{
    struct tend_queue_stats queue = {.oldest_pending_ms = TEND_UNSET};
    int code = tend_queue_get(cli->store, name, &queue.settings);
    if (code < 0)
        return cli_fail_store(cli, code);
    struct tend_stats *stats;
    code = tend_stats(cli->store, &stats);
    if (code < 0)
        return cli_fail_store(cli, code);
    for (size_t i = 0; i < stats->count; i++) {
        if (strcmp(stats->items[i].settings.name, name) != 0)
            continue;
        memcpy(queue.jobs, stats->items[i].jobs, sizeof queue.jobs);
        queue.oldest_pending_ms = stats->items[i].oldest_pending_ms;
    }
    tend_stats_free(stats);
    print_queue(cli, &queue);
    return EXIT_DONE;
}

static int run_show(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct buf unknown;
    int status = show_queue(cli, argv[0]);
    buf_init(&unknown);
    if (status == EXIT_DONE && queue_unknown_text(cli, argv[0], "", &unknown))
        status = cli_fail(cli, TEND_ENOTFOUND, "queue show: %s", unknown.data);
    buf_done(&unknown);
    return status;
}

/* ---- set ---- */

static int run_set(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    size_t rows;
    const struct tend_setting_info *table = tend_setting_table(&rows);
    struct tend_setting settings[SETTINGS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < rows && i < SETTINGS_MAX; i++) {
        if (setting_values[i])
            settings[count++] =
                (struct tend_setting){.name = table[i].name, .value = setting_values[i]};
    }
    if (count == 0)
        return cli_fail(cli, TEND_EINVAL,
                        "queue set: no setting was given; 'tend queue set --help' lists them");
    /* Only now: no store is made for a command that says nothing. */
    int status = cli_open_store(cli, STORE_MADE);
    if (status != EXIT_DONE)
        return status;
    int code = tend_queue_set(cli->store, argv[0], settings, count, NULL);
    if (code < 0)
        return cli_fail_store(cli, code);
    return show_queue(cli, argv[0]);
}

static const struct command set = {
    .name = "set",
    .form = "NAME",
    .text = "change settings of a queue; \"default\" as a value takes one back",
    .about = "A bad value changes nothing. Prints the queue as it is afterwards.",
    .examples = "tend queue set mail --rate 20/60s --concurrency 4\n"
                "tend queue set mail --paused on --why 'provider is down'\n"
                "tend queue set mail --paused off --rate none",
    .more_options = setting_options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_NONE,
    .run = run_set,
};

static const struct command show = {
    .name = "show",
    .form = "NAME",
    .text = "show a queue's settings and what is in it",
    .about =
        "A queue that has neither settings nor jobs is shown with the defaults; the exit status is then 3, and "
        "\"exists\" in JSON is false. Settings of steps that the queue does not make are shown with (default); in JSON "
        "they are null, as the worker's environment may say otherwise.",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_show,
};

static const struct command *const subcommands[] = {&set, &show, NULL};

const struct command cmd_queue = {
    .name = "queue",
    .group = "Operation",
    .text = "settings of one queue: pause, limits, leases, retries, retention",
    .subcommands = subcommands,
};
