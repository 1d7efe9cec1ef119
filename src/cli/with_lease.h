/* A command under a lease (run/leased.h), for `tend with-lease` and `tend claim --exec`. */
#ifndef CLI_WITH_LEASE_H
#define CLI_WITH_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

struct cli;

/* As the options of both commands name it. */
struct with_lease {
    struct tend_lease lease;
    const char *const *argv; /* NULL at the end */
    const char *shell_line;  /* as in leased_command */
    int64_t grace_ms;
    bool takes_result;
    bool gives_payload; /* on the command's standard input; else the caller's is passed on */
};

enum { WITH_LEASE_GRACE_MS = 10000 };

/* Runs it, and tells on standard error what came of it, unless all went well. Gives the exit
 * status. */
int with_lease(struct cli *cli, const struct with_lease *wish);

#endif
