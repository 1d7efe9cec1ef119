/* tend doctor: look the store over. */
#include "cli/cli.h"
#include "cli/disk_text.h"
#include "cli/json_out.h"
#include "cli/store_place.h"
#include "cli/table.h"
#include "store/db.h"

static struct {
    const char *folder;
} args;

static const struct option options[] = {
    OPTION("folder", 0, "FOLDER", OPTION_TEXT,
           "of workers, to be looked at as well (default: as of 'tend work')", &args.folder),
    OPTION_END,
};

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

/* What workers have left on the disk. 0 or a code. */
static int look_at_folder(struct cli *cli, struct findings *findings, struct tend_disk *ret)
{
    const char *folder = disk_folder(args.folder);
    int code = tend_disk_look(cli->store, folder, ret);
    if (code < 0)
        return code;
    if (args.folder && !ret->there)
        on_finding(findings, TEND_NOTE, "files", "the folder that was given is not there");
    disk_report(folder, ret, on_finding, findings);
    return 0;
}

static void close_json(struct cli *cli, const struct tend_disk *disk, int wrong)
{
    json_close(&cli->out, ']');
    if (disk->there) {
        json_open(&cli->out, "disk", '{');
        json_text(&cli->out, "folder", disk_folder(args.folder));
        disk_json(&cli->out, disk);
        json_close(&cli->out, '}');
    } else
        json_raw(&cli->out, "disk", NULL, 0);
    json_int(&cli->out, "wrong", wrong);
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct findings findings = {.cli = cli};
    struct tend_disk disk = {0};
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_open(&cli->out, "findings", '[');
    }
    if (*store_place()->path)
        on_finding(&findings, TEND_FINE, "store", store_place()->path);
    struct err err = {.code = 0};
    int wrong = cli->store_damaged ? db_doctor_damaged(cli_store_url(), on_damage, &findings, &err)
                                   : tend_doctor(cli->store, on_finding, &findings);
    int looked = wrong < 0 || cli->store_damaged ? 0 : look_at_folder(cli, &findings, &disk);
    if (looked < 0) /* what cannot be read of the store was said already */
        on_finding(&findings, TEND_NOTE, "files",
                   looked == TEND_ECORRUPT
                       ? "what workers have left cannot be told while the store is damaged"
                       : tend_errmsg(cli->store));
    if (wrong < 0) {
        buf_clear(&cli->out);
        return cli->store_damaged ? cli_fail(cli, wrong, "%s", err.text)
                                  : cli_fail_store(cli, wrong);
    }
    if (cli->json) {
        close_json(cli, &disk, wrong);
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
    .about =
        "Exit status 1 when something is wrong. What workers have left in their folder, and how much "
        "disk it takes, is told as well: 'tend heal' removes what nothing needs.",
    .options = options,
    .store = STORE_EXAMINED,
    .run = run,
};
