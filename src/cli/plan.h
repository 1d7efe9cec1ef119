/*
 * Payloads that say what to do, looked at before they are added: by `tend add`, each line of its
 * batch, `tend schedule add` and `tend run` alike.
 *
 * The kind of a job that a plan makes goes by its first step: "shell" (run, exec), "http" or
 * "sleep"; "" when it has no steps. Workers limit how many of a kind run at once, and can tell
 * kinds apart before they claim.
 */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct cli;
struct err;
struct tend_job_spec;

/*
 * A payload that may be a plan or data. *kind is the job's, "" or NULL for none: then it becomes
 * that of the plan, "" where the payload is data. With a kind of somebody's own the payload is data
 * for a handler whatever it looks like, and is not looked at. 0, or TEND_EINVAL with the place of
 * the mistake, or TEND_ENOMEM.
 */
int plan_check(const char *payload, size_t bytes, const char **kind, struct err *err);

/* The kind of what must be a plan; more_names as for spec_parse_plan. As above. */
int plan_kind(const char *payload, size_t bytes, const char *const *more_names,
              const char **ret_kind, struct err *err);

/* Whether a payload is a plan whose steps work in a copy of a repository. */
bool plan_has_repo(const char *payload, size_t bytes);

/* A note when a job that is to be added looks as if nobody would run it: a plan that is misspelt,
 * or a kind that a worker has just given back. The store is open. */
void plan_hint(struct cli *cli, const struct tend_job_spec *spec);

#endif
