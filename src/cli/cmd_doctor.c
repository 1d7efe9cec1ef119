/* tend doctor: look the store over. */
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/table.h"
#include "store/db.h"

struct findings {
    struct cli *cli;
    size_t counts[TEND_WRONG + 1];
};

static const struct {
    const char *word, *mark;
    enum color color;
} verdicts[] = {
    [TEND_FINE] = {"fine", "ok  ", COLOR_GREEN},
    [TEND_NOTE] = {"note", "note", COLOR_YELLOW},
    [TEND_WRONG] = {"wrong", "BAD ", COLOR_RED},
};

static void on_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    struct findings *findings = arg;
    struct cli *cli = findings->cli;
    findings->counts[verdict]++;
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_text(&cli->out, "verdict", verdicts[verdict].word);
        json_text(&cli->out, "what", what);
        json_text(&cli->out, "text", text);
        json_close(&cli->out, '}');
        return;
    }
    enum color color = verdicts[verdict].color;
    buf_printf(&cli->out, "%s%s%s %s: %s\n", color_on(cli, color), verdicts[verdict].mark,
               color_off(cli, color), what, text);
}

/* As on_finding, for what comes from the store itself. */
static void on_damage(void *arg, int verdict, const char *what, const char *text)
{
    on_finding(arg, (enum tend_verdict)verdict, what, text);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct findings findings = {.cli = cli};
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_open(&cli->out, "findings", '[');
    }
    struct err err = {.code = 0};
    int wrong = cli->store_damaged ? db_doctor_damaged(cli_store_url(), on_damage, &findings, &err)
                                   : tend_doctor(cli->store, on_finding, &findings);
    if (wrong < 0) {
        buf_clear(&cli->out);
        return cli->store_damaged ? cli_fail(cli, wrong, "%s", err.text)
                                  : cli_fail_store(cli, wrong);
    }
    if (cli->json) {
        json_close(&cli->out, ']');
        json_int(&cli->out, "wrong", wrong);
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else {
        buf_printf(&cli->out, "%s: %zu fine, %zu to note, %d wrong\n",
                   wrong > 0 ? "something is wrong" : "the store is well",
                   findings.counts[TEND_FINE], findings.counts[TEND_NOTE], wrong);
    }
    return wrong > 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .group = "Store",
    .text = "look the store over: integrity, versions, settings, leftovers",
    .about = "Exit status 1 when something is wrong.",
    .store = STORE_EXAMINED,
    .run = run,
};
