/*
 * What a step is told when it is tried again: the file TEND_RETRY_CONTEXT (SH-8).
 *
 *     {"objective", "step": {"id", "title", "instructions"}, "attempt", "max_attempts", "strategy",
 *      "failure": {"class", "rule", "summary", "line", "signature", "signature_text"},
 *      "last_command", "changed_files": […], "changed_files_total", "diff_hash",
 *      "constraints": […]}
 *
 * Minimal on purpose: what was wanted, what went wrong, what was changed. Never the log: all that
 * comes from output is bounded here, whatever the caller gives. What was not given is null or
 * empty, never missing. Not a secret keeper: what comes in is redacted before.
 */
#ifndef CORE_RETRY_CONTEXT_H
#define CORE_RETRY_CONTEXT_H

#include "core/classify.h"
#include "core/heal.h"
#include "core/signature.h"

#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    RETRY_SUMMARY_BYTES = 1000,
    RETRY_COMMAND_BYTES = 500,
    RETRY_PATH_BYTES = 500,
    RETRY_FILES = 100,
};

/* All borrowed; each pointer may be NULL. */
struct retry_context {
    const char *objective;
    const char *step_id, *step_title, *step_instructions;
    const struct classification *failure;
    const struct signature *signature;
    const char *summary;      /* of the failure, in a few words */
    const char *last_command; /* as it was run */
    const char *const *changed_files;
    size_t changed_count;
    const char *diff_hash;
    int64_t attempt;      /* the one that begins now */
    int64_t max_attempts; /* of the step; with the one that a hard reset brings */
    enum heal_action strategy;
    const char *const *constraints; /* beside the two that always hold */
    size_t constraint_count;
};

/* *ret_json ends with a newline and is freed with free(). 0 or TEND_ENOMEM. */
int retry_context_json(const struct retry_context *context, char **ret_json, struct err *err);

#endif
