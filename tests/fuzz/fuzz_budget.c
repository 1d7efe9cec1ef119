/* core/budget: a value that is taken is within its range and the only one that changes; one that is
 * refused changes nothing and gets a sentence. */
#include "base/err.h"
#include "core/budget.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "attempts=3",
    "step_max_attempts=1000",
    "timeout=15m",
    "step_timeout_seconds=900",
    "TEND_STEP_IDLE_TIMEOUT_SECONDS=0",
    "step_no_progress_limit=2",
    "job_self_heal_max_resets=1",
    "grace=1h",
    "step_grace_seconds=0.5",
    NULL,
};

static void check_one(const struct budget_row *row, const struct budgets *budgets)
{
    struct budgets none = budget_none();
    size_t count;
    const struct budget_row *table = budget_table(&count);
    int64_t value = budget_get(budgets, row);
    must(value >= row->low && value <= row->high);
    for (size_t i = 0; i < count; i++)
        must(&table[i] == row || budget_get(budgets, &table[i]) == budget_get(&none, &table[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *const environment[] = {text, NULL};
    struct budgets none = budget_none();
    struct budgets budgets = none;
    struct err err = {0};
    if (budget_from_environment(environment, &budgets, &err) < 0) {
        must(strlen(err.text) > 0);
        must(memcmp(&budgets, &none, sizeof none) == 0);
    }
    budgets = none;
    char *value = strchr(text, '=');
    if (value != NULL) {
        *value++ = '\0';
        if (budget_parse(text, value, &budgets, &err) == 0) {
            must(budget_find(text) != NULL);
            check_one(budget_find(text), &budgets);
        } else {
            must(strlen(err.text) > 0);
            must(memcmp(&budgets, &none, sizeof none) == 0);
        }
    }
    free(text);
    return 0;
}
