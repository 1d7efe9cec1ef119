/* tend phase: say where a running job is. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/redacted.h"

#include <inttypes.h>
#include <stdlib.h>

static void answer(struct cli *cli, struct tend_lease lease, const char *phase)
{
    cli_did(cli, "the phase of job %" PRId64 " was set, but the answer", lease.id);
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_int(&cli->out, "id", lease.id);
        json_int(&cli->out, "token", lease.token);
        json_text(&cli->out, "phase", phase);
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else {
        buf_printf(&cli->out, "%" PRId64 " is now %s\n", lease.id, phase);
    }
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct tend_lease lease;
    const char *phase = NULL;
    int status = argument_lease(cli, argv[0], &lease);
    if (status == EXIT_DONE)
        status = redacted_text(cli, "NAME", argv[1], &phase);
    if (status != EXIT_DONE)
        return status;
    int code = tend_phase(cli->store, lease, phase);
    if (code < 0)
        status = cli_fail_store(cli, code);
    else
        answer(cli, lease, phase);
    free((char *)phase);
    return status;
}

const struct command cmd_phase = {
    .name = "phase",
    .group = "Workers",
    .form = "ID:TOKEN NAME",
    .text = "say where a running job is, in the words of its kind",
    .examples = "tend phase 12:3 rebasing",
    .args_min = 2,
    .args_max = 2,
    .store = STORE_EXISTING,
    .run = run,
};
