/* tend version. */
#include "cli/cli.h"
#include "cli/json_out.h"

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (globals.json) {
        json_open(&cli->out, NULL, '{');
        json_text(&cli->out, "version", tend_version());
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else {
        buf_printf(&cli->out, "tend %s\n", tend_version());
    }
    return EXIT_DONE;
}

const struct command cmd_version = {
    .name = "version",
    .group = "Help",
    .text = "print the version",
    .run = run,
};
