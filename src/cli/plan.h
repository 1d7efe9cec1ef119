/* Payloads that say what to do, looked at before they are added. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include <stddef.h>

struct err;

/*
 * *ret_kind: the kind of job a plan makes, by its first step: "shell" (run, exec), "http" or
 * "sleep"; "" when it has no steps or the payload is no plan but data. Workers limit how many of a
 * kind run at once, and can tell kinds apart before they claim. 0, or TEND_EINVAL with the place of
 * the mistake, or TEND_ENOMEM.
 */
int plan_kind(const char *payload, size_t bytes, const char **ret_kind, struct err *err);

#endif
