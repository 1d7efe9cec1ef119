/* tend purge: delete what retention is over for, now and by hand. */
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/purge.h"

#include <inttypes.h>

static struct {
    bool dry_run;
} args;

static const struct option options[] = {
    OPTION("dry-run", 0, NULL, OPTION_FLAG, "say what would be deleted, change nothing",
           &args.dry_run),
    OPTION_END,
};

void purge_print(struct buf *out, const struct tend_purged *purged, bool dry_run)
{
    buf_printf(out, "%" PRId64 " %s and %" PRId64 " %s %s\n", purged->jobs,
               purged->jobs == 1 ? "job" : "jobs", purged->events,
               purged->events == 1 ? "event" : "events", dry_run ? "would be deleted" : "deleted");
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_purged purged;
    int code =
        args.dry_run ? tend_purge_count(cli->store, &purged) : tend_purge(cli->store, &purged);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (!cli->json) {
        purge_print(&cli->out, &purged, args.dry_run);
        return EXIT_DONE;
    }
    json_open(&cli->out, NULL, '{');
    json_int(&cli->out, "jobs", purged.jobs);
    json_int(&cli->out, "events", purged.events);
    json_bool(&cli->out, "dry_run", args.dry_run);
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
    return EXIT_DONE;
}

const struct command cmd_purge = {
    .name = "purge",
    .group = "Operation",
    .text = "delete finished jobs and old events that need not be kept any longer",
    .about =
        "A queue's keep-done and keep-failed say how long its finished jobs are kept; events are kept for 30 days. "
        "Every worker does this every ten minutes; the command is for when none runs.",
    .examples = "tend purge --dry-run\n"
                "tend queue set crawl --keep-done 1h && tend purge",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
