/* tend explain: why a job is not running, or what it is doing. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/table.h"

#include <inttypes.h>
#include <string.h>

static void print_document(struct cli *cli, int64_t id, const struct tend_explanation *explanation)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_int(out, "id", id);
    json_text(out, "state", tend_state_name(explanation->state));
    json_bool(out, "waiting", explanation->waiting);
    json_text(out, "reason", explanation->reason);
    json_text(out, "text", explanation->text);
    json_text(out, "hint", *explanation->hint ? explanation->hint : NULL);
    /* Of a paused queue the library has the reason in place of a name. */
    bool paused = strcmp(explanation->reason, "paused") == 0;
    json_text(out, "by", *explanation->by && !paused ? explanation->by : NULL);
    json_text(out, "why", *explanation->by && paused ? explanation->by : NULL);
    json_int_or_null(out, "until_ms", explanation->until_ms);
    json_int(out, "ahead", explanation->ahead);
    json_text(out, "given_back", *explanation->given_back ? explanation->given_back : NULL);
    json_text(out, "step_id", *explanation->step_id ? explanation->step_id : NULL);
    json_int_or_null(out, "step_index", explanation->step_index);
    json_int_or_null(out, "attempt", explanation->attempt);
    json_int_or_null(out, "attempt_ms", explanation->attempt_ms);
    json_int_or_null(out, "percent", explanation->percent);
    json_text(out, "progress", *explanation->progress ? explanation->progress : NULL);
    json_text(out, "line", *explanation->line ? explanation->line : NULL);
    json_int_or_null(out, "next_at_ms", explanation->next_at_ms);
    json_bool(out, "no_worker", explanation->no_worker);
    json_close(out, '}');
    buf_putc(out, '\n');
}

static void print_text(struct cli *cli, int64_t id, const struct tend_explanation *explanation)
{
    static const char it[] = "It ";
    enum color color = color_of_state(explanation->state);
    const char *text = explanation->text;
    bool says_state = explanation->state == TEND_FAILED || explanation->state == TEND_CANCELLED;
    if (says_state && strncmp(text, it, strlen(it)) == 0) {
        buf_printf(&cli->out, "%sjob %" PRId64 "%s ", color_on(cli, color), id,
                   color_off(cli, color));
        text += strlen(it);
    } else
        buf_printf(&cli->out, "job %" PRId64 " is %s%s%s. ", id, color_on(cli, color),
                   tend_state_name(explanation->state), color_off(cli, color));
    put_clean(&cli->out, text);
    buf_putc(&cli->out, '\n');
    if (*explanation->hint)
        buf_printf(&cli->out, "%s\n", explanation->hint);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int64_t id;
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    struct tend_explanation explanation;
    int code = tend_explain(cli->store, id, &explanation);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (cli->json)
        print_document(cli, id, &explanation);
    else
        print_text(cli, id, &explanation);
    return EXIT_DONE;
}

const struct command cmd_explain = {
    .name = "explain",
    .aliases = "why",
    .group = "Jobs",
    .form = "ID",
    .text = "why a job is not running, or what it is doing",
    .about =
        "Says what the job waits for, who holds that and until when, whether its worker is alive, "
        "what was asked of it and is not done yet, and what can be done. Of a running job: which step it is at, the "
        "attempt, how long that runs, its progress and the last line it has printed; between two attempts, "
        "with what the step failed and when the next attempt begins.",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run,
};
