/* tend migrate: make the store, or bring its schema up to date. Opening it does either. */
#include "cli/cli.h"
#include "cli/json_out.h"

#include <inttypes.h>

static struct {
    bool after_restore;
    bool beside_workers;
} args;

static const struct option options[] = {
    OPTION("after-restore", 0, NULL, OPTION_FLAG,
           "the store was restored from a backup: begin a new generation of ids and tokens",
           &args.after_restore),
    OPTION("beside-workers", 0, NULL, OPTION_FLAG,
           "also while workers of an older tend run on the store", &args.beside_workers),
    OPTION_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int in_store, in_library, changed = 0;
    /* What was restored is there; a new store where it is not would hide a wrong path. */
    cli->beside_workers = args.beside_workers;
    int status = cli_open_store(cli, args.after_restore ? STORE_RESTORED : STORE_MADE_HERE);
    if (status != EXIT_DONE)
        return status;
    int code = tend_schema(cli->store, &in_store, &in_library);
    if (code == 0)
        code = tend_schema_changed(cli->store, &changed);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (code > 0)
        return cli_fail(cli, TEND_ESCHEMA,
                        "migrate: migration %d was changed after it had run on this store; use the "
                        "tend that made the store, or move the jobs to a new one",
                        changed);
    struct tend_generation next = {.first_id = TEND_UNSET, .token_base = TEND_UNSET};
    if (args.after_restore && (code = tend_after_restore(cli->store, NULL, &next)) < 0)
        return cli_fail_store(cli, code);
    struct buf *out = &cli->out;
    if (cli->json) {
        json_open(out, NULL, '{');
        json_int(out, "schema", in_store);
        json_int(out, "newest", in_library);
        if (args.after_restore) {
            json_int(out, "first_id", next.first_id);
            json_int(out, "token_base", next.token_base);
        }
        json_close(out, '}');
        buf_putc(out, '\n');
    } else {
        buf_printf(out, "the store is at schema version %d, the newest this tend knows\n",
                   in_store);
        if (args.after_restore)
            buf_printf(out,
                       "a new generation has begun: new ids are at least %" PRId64
                       ", new tokens above %" PRId64 "\n",
                       next.first_id, next.token_base);
    }
    return EXIT_DONE;
}

const struct command cmd_migrate = {
    .name = "migrate",
    .aliases = "init",
    .group = "Store",
    .text = "make the store, or bring its schema up to date",
    .about =
        "Other commands bring an older schema up to date as well; this one does nothing else. A schema newer "
        "than this tend is refused: install the newer tend.\n"
        "While workers of an older tend run on the store, no command changes its schema (exit status 4): they would not "
        "know what the new one is for. Stop them first, or use --beside-workers.\n"
        "After the store was restored from a backup, run it once with --after-restore before the workers "
        "start: ids and tokens that were given out after the backup was made, or after an earlier restore of it, are not given out again. The clock must be right. The store must exist.",
    .options = options,
    .store = STORE_NONE,
    .run = run,
};
