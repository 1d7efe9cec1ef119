/* See budget.h. */
#include "core/budget.h"

#include "base/err.h"
#include "base/timetext.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

static const int64_t second_ms = 1000;

#define AT(member) offsetof(struct budgets, member)
static const struct budget_row table[] = {
    {"step_max_attempts", "TEND_STEP_MAX_ATTEMPTS", "attempts", BUDGET_COUNT, 3, 1,
     BUDGET_ATTEMPTS_MOST, AT(step_max_attempts), "attempts of a step, the first included"},
    {"step_timeout_seconds", "TEND_STEP_TIMEOUT_SECONDS", "timeout", BUDGET_TIME, 900 * 1000, 0,
     BUDGET_TIMEOUT_MOST_MS, AT(step_timeout_ms),
     "how long an attempt may take; 0: as long as it likes"},
    {"step_idle_timeout_seconds", "TEND_STEP_IDLE_TIMEOUT_SECONDS", "idle_timeout", BUDGET_TIME,
     300 * 1000, 0, BUDGET_TIMEOUT_MOST_MS, AT(step_idle_timeout_ms),
     "how long an attempt may be silent; 0: as long as it likes"},
    {"step_no_progress_limit", "TEND_STEP_NO_PROGRESS_LIMIT", "no_progress_limit", BUDGET_COUNT, 2,
     1, BUDGET_ATTEMPTS_MOST, AT(step_no_progress_limit),
     "how many attempts in a row may repeat the failure before them (same signature, same diff) "
     "until the step counts as stuck"},
    {"job_self_heal_max_resets", "TEND_JOB_SELF_HEAL_MAX_RESETS", NULL, BUDGET_COUNT, 1, 0,
     BUDGET_RESETS_MOST, AT(job_self_heal_max_resets), "hard resets of a job over all its steps"},
    {"step_grace_seconds", "TEND_STEP_GRACE_SECONDS", "grace", BUDGET_TIME, 10 * 1000, 0,
     BUDGET_GRACE_MOST_MS, AT(step_grace_ms),
     "from asking a process to end (TERM) to ending it (KILL)"},
    {"step_pause_seconds", "TEND_STEP_PAUSE_SECONDS", "pause", BUDGET_TIME, 1000, 0,
     BUDGET_PAUSE_MOST_MS, AT(step_pause_ms),
     "wait before the second attempt after a transient failure; doubles; 0: none"},
    {"step_pause_max_seconds", "TEND_STEP_PAUSE_MAX_SECONDS", "pause_max", BUDGET_TIME, 30 * 1000,
     0, BUDGET_PAUSE_MOST_MS, AT(step_pause_max_ms), "longest wait between attempts of a step"},
};
enum { ROWS = sizeof table / sizeof *table };

const struct budget_row *budget_table(size_t *ret_count)
{
    *ret_count = ROWS;
    return table;
}

const struct budget_row *budget_find(const char *name)
{
    for (int i = 0; i < ROWS; i++) {
        const struct budget_row *row = &table[i];
        if (strcmp(row->name, name) == 0 || strcmp(row->environment, name) == 0 ||
            (row->short_name && strcmp(row->short_name, name) == 0))
            return row;
    }
    return NULL;
}

static int64_t *field(struct budgets *budgets, const struct budget_row *row)
{
    return (int64_t *)(void *)((char *)budgets + row->offset);
}

int64_t budget_get(const struct budgets *budgets, const struct budget_row *row)
{
    return *(const int64_t *)(const void *)((const char *)budgets + row->offset);
}

struct budgets budget_none(void)
{
    struct budgets budgets;
    for (int i = 0; i < ROWS; i++)
        *field(&budgets, &table[i]) = TEND_UNSET;
    return budgets;
}

/* Digits with at most one point: a number that has no unit. */
static bool is_bare_number(const char *text)
{
    size_t digits = strspn(text, "0123456789.");
    return digits > 0 && text[digits] == '\0';
}

static bool read_time(const char *text, bool seconds, int64_t *ret_ms)
{
    char with_unit[64];
    if (seconds && is_bare_number(text)) {
        if (snprintf(with_unit, sizeof with_unit, "%ss", text) >= (int)sizeof with_unit)
            return false;
        text = with_unit;
    }
    return duration_parse(text, ret_ms, NULL) == 0;
}

static bool read_count(const char *text, int64_t *ret)
{
    if (text[strspn(text, "0123456789")] != '\0' || text[0] == '\0')
        return false;
    errno = 0;
    *ret = strtoll(text, NULL, 10);
    return errno == 0;
}

static int refuse(const struct budget_row *row, const char *name, const char *text, bool seconds,
                  struct err *err)
{
    if (row->unit == BUDGET_COUNT)
        return err_set(err, TEND_EINVAL, "%s: \"%.60s\" must be a whole number from %lld to %lld",
                       name, text, (long long)row->low, (long long)row->high);
    char high[DURATION_TEXT_BYTES];
    if (seconds)
        return err_set(err, TEND_EINVAL,
                       "%s: \"%.60s\" must be seconds from 0 to %lld, or a duration such as 15m",
                       name, text, (long long)(row->high / second_ms));
    return err_set(err, TEND_EINVAL, "%s: \"%.60s\" must be a duration such as 15m, from 0s to %s",
                   name, text, duration_text(row->high, high));
}

int budget_parse(const char *name, const char *text, struct budgets *budgets, struct err *err)
{
    const struct budget_row *row = budget_find(name);
    if (!row)
        return err_set(err, TEND_EINVAL, "%s: there is no such budget", name);
    /* The long names say their unit; "timeout: 15" could be anything. */
    bool seconds = !row->short_name || strcmp(row->short_name, name) != 0;
    int64_t value;
    bool read =
        row->unit == BUDGET_TIME ? read_time(text, seconds, &value) : read_count(text, &value);
    if (!read || value < row->low || value > row->high)
        return refuse(row, name, text, seconds, err);
    *field(budgets, row) = value;
    return 0;
}

/* The value behind "NAME="; NULL when the entry is about something else. */
static const char *value_of(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '=' ? entry + len + 1 : NULL;
}

int budget_from_environment(char *const *environment, struct budgets *ret, struct err *err)
{
    struct budgets budgets = budget_none();
    for (char *const *entry = environment; *entry; entry++) {
        for (int i = 0; i < ROWS; i++) {
            const char *value = value_of(*entry, table[i].environment);
            if (!value || value[0] == '\0')
                continue;
            int code = budget_parse(table[i].environment, value, &budgets, err);
            if (code < 0)
                return code;
        }
    }
    *ret = budgets;
    return 0;
}

struct budgets budget_merge(const struct budgets *step, const struct budgets *job,
                            const struct budgets *queue, const struct budgets *environment)
{
    enum { PLACES = 4 };
    const struct budgets *nearest_first[PLACES] = {step, job, queue, environment};
    struct budgets merged;
    for (int i = 0; i < ROWS; i++) {
        int64_t value = TEND_UNSET;
        for (int at = 0; at < PLACES; at++)
            if (value == TEND_UNSET && nearest_first[at])
                value = budget_get(nearest_first[at], &table[i]);
        *field(&merged, &table[i]) = value == TEND_UNSET ? table[i].standard : value;
    }
    return merged;
}
