/*
 * tend __exec PROTOCOL: the helper behind a worker's steps (run/nursery.h).
 *
 * Started by a worker with a socket, never by hand. It comes before everything else in main(): the
 * process has to stay small, and must not touch the store, the terminal or the signals.
 */
#include "cli/cli.h"
#include "cli/commands.h"
#include "run/nursery.h"

#include <stdio.h>

int cmd_exec_main(int argc, char **argv)
{
    int status = nursery_main(argc, argv);
    if (status == NURSERY_NOT_STARTED_BY_WORKER)
        fputs("tend: __exec is started by 'tend work' of the same version, not by hand\n", stderr);
    return status;
}
