/*
 * The budgets that bound how a step is tried again: names, ranges, defaults, and who overrules
 * whom.
 *
 * One table says it all; help, checks and the environment's names follow from it. Values are set
 * at four places; the nearest to the work counts: step > job > queue > environment > default.
 *
 * Not the policy of the queue (core/policy.h), which takes over when these are used up. Invariants:
 * a value that is set is within its range; after budget_merge every value is set.
 */
#ifndef CORE_BUDGET_H
#define CORE_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* The highest values, also for those who keep budgets elsewhere. */
enum { BUDGET_ATTEMPTS_MOST = 1000, BUDGET_RESETS_MOST = 100 };
#define BUDGET_TIMEOUT_MOST_MS (INT64_C(30) * 24 * 3600 * 1000)
#define BUDGET_GRACE_MOST_MS (INT64_C(3600) * 1000)
#define BUDGET_PAUSE_MOST_MS (INT64_C(3600) * 1000)

/* TEND_UNSET where nothing was said. */
struct budgets {
    int64_t step_max_attempts;        /* attempts of a step in all, the first included */
    int64_t step_timeout_ms;          /* an attempt from its start; 0: no limit */
    int64_t step_idle_timeout_ms;     /* an attempt without output; 0: no limit */
    int64_t step_no_progress_limit;   /* how many attempts in a row may repeat the failure before
                                         them (same signature, same diff) until the step counts as
                                         stuck; see heal.h */
    int64_t job_self_heal_max_resets; /* hard resets of a job over all its steps and attempts */
    int64_t step_grace_ms;            /* from TERM to KILL; 0: KILL at once */
    int64_t step_pause_ms;            /* before a second attempt, doubling from there; 0: none */
    int64_t step_pause_max_ms;        /* before any attempt */
};

enum budget_unit { BUDGET_COUNT, BUDGET_TIME };

struct budget_row {
    const char *name;        /* "step_timeout_seconds": a bare number is in seconds */
    const char *environment; /* "TEND_STEP_TIMEOUT_SECONDS" */
    const char *short_name;  /* "timeout": on a step; a time needs its unit. NULL: there is none */
    enum budget_unit unit;
    int64_t standard, low, high; /* in milliseconds where it is a time */
    size_t offset;               /* in struct budgets */
    const char *text;
};

const struct budget_row *budget_table(size_t *ret_count);

/* By name, environment name or short name; NULL when there is none. */
const struct budget_row *budget_find(const char *name);

/* Everything TEND_UNSET. */
struct budgets budget_none(void);

int64_t budget_get(const struct budgets *budgets, const struct budget_row *row);

/*
 * Sets one budget, called by any of its names, from text: "3", "900", "15m". 0, or TEND_EINVAL
 * with a sentence "NAME: …" that says what was given and what it must be. err may be NULL.
 */
int budget_parse(const char *name, const char *text, struct budgets *budgets, struct err *err);

/*
 * What an environment ("NAME=value" entries, NULL at the end) says about budgets. An empty value
 * says nothing. 0, or TEND_EINVAL as budget_parse; *ret is written only on success.
 */
int budget_from_environment(char *const *environment, struct budgets *ret, struct err *err);

/* The nearest value that is set, else the default. Each may be NULL. */
struct budgets budget_merge(const struct budgets *step, const struct budgets *job,
                            const struct budgets *queue, const struct budgets *environment);

#endif
