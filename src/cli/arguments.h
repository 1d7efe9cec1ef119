/* Arguments that several commands take: job ids, leases and commands to run. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <stdint.h>
#include <tend.h>

struct buf;
struct cli;

/* A job's id. 0, or an exit status after telling what is wrong. */
int argument_id(struct cli *cli, const char *text, int64_t *ret);

/* A command as a member of a plan that runs it: "exec": […]. 0, or an exit status. */
int argument_words(struct cli *cli, int argc, char **argv, struct buf *out);

/* ID:TOKEN, as `tend claim` prints it. 0, or an exit status. */
int argument_lease(struct cli *cli, const char *text, struct tend_lease *ret);

/* All of them, or none; free() what comes back. */
int argument_leases(struct cli *cli, int argc, char **argv, struct tend_lease **ret);

/*
 * What became of each lease: a line each with `done` ("completed"), a sentence for each that is
 * lost; with --json one document. code is what the library returned, each its answers. Gives the
 * exit status.
 */
int leases_report(struct cli *cli, int code, const struct tend_lease *leases, const int *each,
                  size_t count, const char *done);
/* With --json also what is asked of the jobs whose leases are held; controls may be NULL. */
int leases_report_controls(struct cli *cli, int code, const struct tend_lease *leases,
                           const int *each, size_t count, const char *done,
                           const struct tend_controls *controls);

#endif
