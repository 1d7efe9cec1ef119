/* tend migrate: make the store, or bring its schema up to date. Opening it does either. */
#include "cli/cli.h"
#include "cli/json_out.h"

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    int in_store, in_library, changed;
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
    struct buf *out = &cli->out;
    if (cli->json) {
        json_open(out, NULL, '{');
        json_int(out, "schema", in_store);
        json_int(out, "newest", in_library);
        json_close(out, '}');
        buf_putc(out, '\n');
    } else {
        buf_printf(out, "the store is at schema version %d, the newest this tend knows\n",
                   in_store);
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
        "than this tend is refused: install the newer tend.",
    .store = STORE_MADE,
    .run = run,
};
