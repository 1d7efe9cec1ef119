/* See show_steps.h. */
#include "cli/show_steps.h"

#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_step.h"
#include "cli/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

int job_steps_read(struct cli *cli, int64_t job_id, struct job_steps *ret)
{
    *ret = (struct job_steps){.attempts = NULL};
    int code = tend_attempts(cli->store, job_id, &ret->attempts);
    if (code >= 0)
        code = tend_checkpoints(cli->store, job_id, &ret->checkpoints);
    if (code >= 0)
        code = tend_controls(cli->store, job_id, &ret->controls);
    if (code >= 0)
        code = tend_keeps(cli->store, job_id, &ret->keeps);
    if (code >= 0 && (code = tend_edit_get(cli->store, job_id, &ret->edit)) == TEND_ENOTFOUND)
        code = 0;
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

void job_steps_done(struct job_steps *steps)
{
    tend_attempts_free(steps->attempts);
    tend_checkpoints_free(steps->checkpoints);
    tend_controls_free(steps->controls);
    tend_keeps_free(steps->keeps);
    tend_edit_free(steps->edit);
}

static void put_title(struct cli *cli, const char *title)
{
    buf_printf(&cli->out, "\n%s%s%s\n", color_on(cli, COLOR_BOLD), title,
               color_off(cli, COLOR_BOLD));
}

/* --- attempts --- */

static const struct column attempt_columns[] = {
    {"   #", COLUMN_RIGHT}, {"STEP", COLUMN_WIDE},     {"TRY", COLUMN_RIGHT},
    {"STATE", COLUMN_LEFT}, {"CLASS", COLUMN_LEFT},    {"RULE", COLUMN_LEFT},
    {"TIME", COLUMN_RIGHT}, {"PROGRESS", COLUMN_WIDE}, {"BECAUSE OF", COLUMN_WIDE},
};

static enum color attempt_color(int state)
{
    static const enum color colors[] = {COLOR_CYAN, COLOR_GREEN, COLOR_RED, COLOR_YELLOW,
                                        COLOR_MAGENTA};
    return state >= 0 && state <= TEND_ATTEMPT_LOST ? colors[state] : COLOR_NONE;
}

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static void progress_cell(struct table *table, const struct tend_attempt *attempt)
{
    const char *text = attempt->progress_text ? attempt->progress_text : "";
    if (attempt->progress_percent == TEND_UNSET)
        table_cell(table, COLOR_NONE, "%s", or_dash(text));
    else
        table_cell(table, COLOR_NONE, "%" PRId64 "%%%s%s", attempt->progress_percent,
                   *text ? " " : "", text);
}

/* Why it ended so. A summary begins with step and attempt, which the row has already. */
static const char *because_of(const struct tend_attempt *attempt)
{
    const char *text = attempt->evidence ? attempt->evidence : attempt->summary;
    char begins[160];
    int len = snprintf(begins, sizeof begins, "step %s, attempt %" PRId64, attempt->step_id,
                       attempt->attempt);
    if (!text || len >= (int)sizeof begins || strncmp(text, begins, (size_t)len) != 0)
        return text ? text : "";
    static const char of[] = " of ", reset[] = ", after a hard reset";
    const char *rest = text + len;
    if (strncmp(rest, of, strlen(of)) == 0)
        rest += strlen(of) + strspn(rest + strlen(of), "0123456789");
    else if (strncmp(rest, reset, strlen(reset)) == 0)
        rest += strlen(reset);
    return strncmp(rest, ": ", 2) == 0 ? rest + 2 : text;
}

static void attempt_row(struct table *table, const struct tend_attempt *attempt, int64_t now_ms)
{
    char time[DURATION_TEXT_BYTES];
    int64_t end_ms = attempt->ended_at_ms == TEND_UNSET ? now_ms : attempt->ended_at_ms;
    bool timed = attempt->ended_at_ms != TEND_UNSET || attempt->state == TEND_ATTEMPT_RUNNING;
    table_number(table, COLOR_NONE, attempt->number);
    table_cell(table, COLOR_NONE, "%" PRId64 " %s", attempt->step_index, attempt->step_id);
    table_number(table, attempt->attempt > 1 ? COLOR_MAGENTA : COLOR_NONE, attempt->attempt);
    table_cell(table, attempt_color(attempt->state), "%s", tend_attempt_state_name(attempt->state));
    table_cell(table, COLOR_NONE, "%s", or_dash(attempt->failure_class));
    table_cell(table, COLOR_NONE, "%s", or_dash(attempt->rule));
    table_cell(table, COLOR_NONE, "%s",
               timed ? span_text(end_ms - attempt->started_at_ms, time) : "-");
    progress_cell(table, attempt);
    table_cell(table, COLOR_DIM, "%s", table_cut(table, because_of(attempt)));
}

static int print_attempts(struct cli *cli, const struct tend_attempts *attempts, int64_t now_ms)
{
    if (attempts->count == 0)
        return EXIT_DONE;
    struct table table;
    table_init(&table, attempt_columns, sizeof attempt_columns / sizeof *attempt_columns);
    for (size_t i = 0; i < attempts->count; i++)
        attempt_row(&table, &attempts->items[i], now_ms);
    put_title(cli, "attempts");
    int status = table_print(&table, cli);
    table_done(&table);
    return status;
}

/* What was wrong with what the steps reported. */
static void print_warnings(struct cli *cli, const struct tend_attempts *attempts)
{
    bool titled = false;
    for (size_t i = 0; i < attempts->count; i++) {
        const struct tend_attempt *attempt = &attempts->items[i];
        json_t *warnings = attempt->warnings ? json_loads(attempt->warnings, 0, NULL) : NULL;
        size_t at;
        json_t *warning;
        json_array_foreach(warnings, at, warning)
        {
            if (!titled)
                put_title(cli, "warnings");
            titled = true;
            buf_printf(&cli->out, "  attempt %" PRId64 ", step %s: ", attempt->number,
                       attempt->step_id);
            put_clean(&cli->out, json_string_value(warning) ? json_string_value(warning) : "");
            buf_putc(&cli->out, '\n');
        }
        json_decref(warnings);
    }
}

/* The step waits between two attempts. */
static void print_wait(struct cli *cli, const struct tend_attempts *attempts, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    const struct tend_attempt *last =
        attempts->count > 0 ? &attempts->items[attempts->count - 1] : NULL;
    if (!last || last->next_at_ms == TEND_UNSET || last->next_at_ms <= now_ms || last->earlier_life)
        return;
    buf_printf(&cli->out, "\nstep %s waits before attempt %" PRId64 ", which begins %s\n",
               last->step_id, last->attempt + 1, relative_text(last->next_at_ms, now_ms, when));
}

/* --- checkpoints --- */

static const struct column checkpoint_columns[] = {
    {"  STEP", COLUMN_WIDE}, {"BY ATTEMPT", COLUMN_RIGHT}, {"WHEN", COLUMN_RIGHT},
    {"FILES", COLUMN_RIGHT}, {"PATCH", COLUMN_RIGHT},      {"OUTPUTS", COLUMN_WIDE},
};

/* How many files a step has changed, or TEND_UNSET where nothing is known of them. */
static int64_t file_count(const struct tend_checkpoint *checkpoint)
{
    json_t *files =
        checkpoint->changed_files ? json_loads(checkpoint->changed_files, 0, NULL) : NULL;
    int64_t count = json_is_array(files) ? (int64_t)json_array_size(files) : TEND_UNSET;
    json_decref(files);
    return count;
}

static void checkpoint_row(struct table *table, const struct tend_checkpoint *checkpoint,
                           int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    if (checkpoint->step_index == 0)
        table_cell(table, COLOR_NONE, "  the beginning: %.12s of %s", or_dash(checkpoint->commit),
                   or_dash(checkpoint->repo));
    else
        table_cell(table, COLOR_NONE, "  %" PRId64 " %s", checkpoint->step_index,
                   checkpoint->step_id);
    if (checkpoint->number > 0)
        table_number(table, COLOR_NONE, checkpoint->number);
    else
        table_cell(table, COLOR_NONE, "-");
    table_cell(table, COLOR_DIM, "%s", relative_text(checkpoint->at_ms, now_ms, when));
    table_number(table, COLOR_NONE, file_count(checkpoint));
    if (checkpoint->patch_bytes == TEND_UNSET)
        table_cell(table, COLOR_NONE, "-");
    else
        table_cell(table, COLOR_NONE, "%" PRId64 " B", checkpoint->patch_bytes);
    table_cell(table, COLOR_NONE, "%s", checkpoint->outputs ? checkpoint->outputs : "");
}

static int print_checkpoints(struct cli *cli, const struct tend_checkpoints *checkpoints,
                             int64_t now_ms)
{
    if (checkpoints->count == 0)
        return EXIT_DONE;
    struct table table;
    table_init(&table, checkpoint_columns, sizeof checkpoint_columns / sizeof *checkpoint_columns);
    for (size_t i = 0; i < checkpoints->count; i++)
        checkpoint_row(&table, &checkpoints->items[i], now_ms);
    put_title(cli, "checkpoints");
    int status = table_print(&table, cli);
    table_done(&table);
    return status;
}

/* --- controls that are still open --- */

static void print_open_controls(struct cli *cli, const struct tend_controls *controls,
                                int64_t now_ms)
{
    bool titled = false;
    for (size_t i = 0; i < controls->count; i++) {
        const struct tend_control *control = &controls->items[i];
        char when[DURATION_TEXT_BYTES];
        if (control->done_at_ms != TEND_UNSET)
            continue;
        if (!titled)
            put_title(cli, "asked for");
        titled = true;
        buf_printf(&cli->out, "  %s%s%s, %s, by %s", control->action, control->step_id ? " " : "",
                   control->step_id ? control->step_id : "",
                   relative_text(control->at_ms, now_ms, when), control->actor);
        if (control->reason) {
            buf_puts(&cli->out, ": ");
            put_clean(&cli->out, control->reason);
        }
        buf_puts(&cli->out, control->taken_at_ms == TEND_UNSET ? " (no worker has heard of it)\n"
                                                               : " (its worker knows)\n");
    }
}

/* --- what is kept for people --- */

static void print_kept_workspace(struct cli *cli, const struct tend_keep *keep, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    char time[TIME_TEXT_BYTES];
    bool failed = keep->state == TEND_ATTEMPT_FAILED;
    buf_printf(&cli->out, "  attempt %" PRId64 ", step %s: its workspace is ", keep->number,
               keep->step_id);
    put_clean(&cli->out, keep->workspace);
    buf_printf(&cli->out, " on %s, ", keep->host);
    if (keep->until_ms != TEND_UNSET)
        buf_printf(&cli->out, "until %s (%s)\n", time_text(keep->until_ms, time),
                   relative_text(keep->until_ms, now_ms, when));
    else
        buf_puts(&cli->out, failed ? "for ever\n" : "while the job is held\n");
}

static void print_kept_patch(struct cli *cli, const struct job_steps *steps,
                             const struct tend_keep *keep, bool newest)
{
    int64_t job_id = steps->attempts->count > 0 ? steps->attempts->items[0].job_id : 0;
    buf_printf(
        &cli->out, "  attempt %" PRId64 ", step %s: what it had changed is kept (%" PRId64 " B%s)",
        keep->number, keep->step_id, keep->patch_bytes, keep->dropped_bytes > 0 ? ", cut" : "");
    if (newest)
        buf_printf(&cli->out, "; see it with 'tend patch %" PRId64 " --failed'", job_id);
    buf_putc(&cli->out, '\n');
}

static void print_keeps(struct cli *cli, const struct job_steps *steps, int64_t now_ms)
{
    bool titled = false;
    bool newest = true;
    for (size_t i = steps->keeps->count; i-- > 0;) {
        const struct tend_keep *keep = &steps->keeps->items[i];
        bool there = keep->workspace && keep->there;
        if (!there && keep->patch_bytes == TEND_UNSET)
            continue;
        if (!titled)
            put_title(cli, "kept for you");
        titled = true;
        if (there)
            print_kept_workspace(cli, keep, now_ms);
        if (keep->patch_bytes != TEND_UNSET) {
            print_kept_patch(cli, steps, keep, newest);
            newest = false;
        }
    }
}

static void print_edit(struct cli *cli, const struct tend_edit *edit, int64_t now_ms)
{
    char when[DURATION_TEXT_BYTES];
    if (edit)
        buf_printf(&cli->out, "\nstep %" PRId64 " goes on with what %s changed %s (%zu B)\n",
                   edit->step_index, edit->by, relative_text(edit->at_ms, now_ms, when),
                   edit->changes.patch_bytes);
}

/* --- the whole --- */

int job_steps_print(struct cli *cli, const struct job_steps *steps, int64_t now_ms)
{
    print_open_controls(cli, steps->controls, now_ms);
    int status = print_attempts(cli, steps->attempts, now_ms);
    print_wait(cli, steps->attempts, now_ms);
    print_warnings(cli, steps->attempts);
    if (status == EXIT_DONE)
        status = print_checkpoints(cli, steps->checkpoints, now_ms);
    print_keeps(cli, steps, now_ms);
    print_edit(cli, steps->edit, now_ms);
    return status;
}

void job_steps_json(struct cli *cli, const struct job_steps *steps)
{
    json_attempts(&cli->out, "attempts", steps->attempts);
    json_checkpoints(&cli->out, "checkpoints", steps->checkpoints);
    json_controls(&cli->out, "controls", steps->controls);
    json_keeps(&cli->out, "kept", steps->keeps);
    json_edit(&cli->out, "edits", steps->edit);
}
