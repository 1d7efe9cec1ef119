/* Budgets: SH-17, names and defaults of SH-1, SH-2, SH-3 and SH-7. */
#include "base/err.h"
#include "core/budget.h"
#include "unit/case.h"

#include <string.h>
#include <tend.h>

TEST(budget, the_defaults_are_those_of_the_contract)
{
    struct budgets budgets = budget_merge(NULL, NULL, NULL, NULL);
    check_int(budgets.step_max_attempts, ==, 3);
    check_int(budgets.step_timeout_ms, ==, 900000);
    check_int(budgets.step_idle_timeout_ms, ==, 300000);
    check_int(budgets.step_no_progress_limit, ==, 2);
    check_int(budgets.job_self_heal_max_resets, ==, 1);
    check_int(budgets.step_grace_ms, ==, 10000);
}

TEST(budget, every_row_names_a_field_of_its_own_and_has_a_default_in_its_range)
{
    size_t count;
    const struct budget_row *rows = budget_table(&count);
    check_int(count * sizeof(int64_t), ==, sizeof(struct budgets));
    for (size_t i = 0; i < count; i++) {
        check_case(rows[i].standard >= rows[i].low && rows[i].standard <= rows[i].high,
                   rows[i].name);
        check_case(budget_find(rows[i].name) == &rows[i], rows[i].name);
        check_case(budget_find(rows[i].environment) == &rows[i], rows[i].name);
        check_case(strncmp(rows[i].environment, "TEND_", 5) == 0, rows[i].name);
        check_case(strcasecmp(rows[i].environment + 5, rows[i].name) == 0, rows[i].name);
        check_case(strlen(rows[i].text) > 0, rows[i].name);
        for (size_t other = 0; other < i; other++)
            check_case(rows[other].offset != rows[i].offset, rows[i].name);
    }
    check(budget_find("step_max_attempt") == NULL);
}

TEST(budget, text_is_read_by_every_name_in_the_unit_of_the_name)
{
    static const struct {
        const char *name, *text;
        int64_t value;
    } cases[] = {
        {"step_max_attempts", "1", 1},
        {"attempts", "1000", 1000},
        {"TEND_STEP_MAX_ATTEMPTS", "7", 7},
        {"step_timeout_seconds", "900", 900000},
        {"step_timeout_seconds", "1.5", 1500},
        {"step_timeout_seconds", "0", 0},
        {"step_timeout_seconds", "15m", 900000},
        {"TEND_STEP_TIMEOUT_SECONDS", "2592000", INT64_C(2592000000)},
        {"timeout", "15m", 900000},
        {"timeout", "0", 0},
        {"timeout", "30d", INT64_C(2592000000)},
        {"idle_timeout", "250ms", 250},
        {"step_idle_timeout_seconds", "300", 300000},
        {"no_progress_limit", "1", 1},
        {"job_self_heal_max_resets", "0", 0},
        {"grace", "5s", 5000},
        {"step_grace_seconds", "0", 0},
        {"step_grace_seconds", "3600", 3600000},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct budgets budgets = budget_none();
        struct err err = {0};
        check_case_int(budget_parse(cases[i].name, cases[i].text, &budgets, &err), 0,
                       cases[i].name);
        check_case_int(budget_get(&budgets, budget_find(cases[i].name)), cases[i].value,
                       cases[i].text);
    }
}

TEST(budget, a_bad_value_is_refused_with_its_name_and_range_and_changes_nothing)
{
    /* SH-17 */
    static const struct {
        const char *name, *text, *sentence;
    } cases[] = {
        {"step_max_attempts", "0", "step_max_attempts: \"0\" must be a whole number from 1 to"},
        {"attempts", "1001", "attempts: \"1001\" must be a whole number from 1 to 1000"},
        {"attempts", "-1", "from 1 to 1000"},
        {"attempts", "", "from 1 to 1000"},
        {"attempts", " 3", "from 1 to 1000"},
        {"attempts", "3x", "from 1 to 1000"},
        {"attempts", "2.5", "from 1 to 1000"},
        {"attempts", "99999999999999999999", "from 1 to 1000"},
        {"step_timeout_seconds", "-5", "seconds from 0 to 2592000, or a duration such as 15m"},
        {"step_timeout_seconds", "2592001", "seconds from 0 to 2592000"},
        {"step_timeout_seconds", "0.0001", "seconds from 0"},
        {"step_timeout_seconds", "1.2.3", "seconds from 0"},
        {"timeout", "15", "timeout: \"15\" must be a duration such as 15m, from 0s to 30d"},
        {"timeout", "31d", "from 0s to 30d"},
        {"timeout", "soon", "\"soon\""},
        {"step_no_progress_limit", "0", "from 1 to 1000"},
        {"job_self_heal_max_resets", "101", "from 0 to 100"},
        {"step_grace_seconds", "3601", "seconds from 0 to 3600"},
        {"grace", "2h", "from 0s to 1h"},
        {"TEND_STEP_MAX_ATTEMPTS", "many", "TEND_STEP_MAX_ATTEMPTS: \"many\""},
        {"step_luck", "3", "step_luck: there is no such budget"},
    };
    struct budgets none = budget_none();
    for (size_t i = 0; i < CASES(cases); i++) {
        struct budgets budgets = budget_none();
        struct err err = {0};
        check_case_int(budget_parse(cases[i].name, cases[i].text, &budgets, &err), TEND_EINVAL,
                       cases[i].text);
        check_contains(err.text, cases[i].sentence);
        check_case(memcmp(&budgets, &none, sizeof none) == 0, cases[i].text);
        check_case_int(budget_parse(cases[i].name, cases[i].text, &budgets, NULL), TEND_EINVAL,
                       cases[i].text);
    }
}

TEST(budget, the_environment_is_read_and_a_bad_value_in_it_refused)
{
    char *const good[] = {"PATH=/bin",
                          "TEND_STEP_MAX_ATTEMPTS=5",
                          "TEND_STEP_TIMEOUT_SECONDS=60",
                          "TEND_STEP_GRACE_SECONDS=",
                          "TEND_STEP_MAX_ATTEMPTSX=9",
                          NULL};
    char *const bad[] = {"TEND_STEP_IDLE_TIMEOUT_SECONDS=long", NULL};
    struct err err = {0};
    struct budgets budgets;
    check_int(budget_from_environment(good, &budgets, &err), ==, 0);
    check_int(budgets.step_max_attempts, ==, 5);
    check_int(budgets.step_timeout_ms, ==, 60000);
    check_int(budgets.step_grace_ms, ==, TEND_UNSET);
    check_int(budgets.step_idle_timeout_ms, ==, TEND_UNSET);
    check_int(budget_from_environment(bad, &budgets, &err), ==, TEND_EINVAL);
    check_contains(err.text, "TEND_STEP_IDLE_TIMEOUT_SECONDS: \"long\"");
    check_int(budgets.step_max_attempts, ==, 5);
}

TEST(budget, the_nearest_place_that_says_something_counts)
{
    /* SH-17: step > job > queue > environment > default. */
    struct budgets step = budget_none();
    struct budgets job = budget_none();
    struct budgets queue = budget_none();
    struct budgets environment = budget_none();
    environment.step_max_attempts = 10;
    environment.step_timeout_ms = 11;
    environment.step_idle_timeout_ms = 12;
    environment.step_no_progress_limit = 13;
    queue.step_max_attempts = 20;
    queue.step_timeout_ms = 21;
    queue.step_idle_timeout_ms = 22;
    job.step_max_attempts = 30;
    job.step_timeout_ms = 0;
    step.step_max_attempts = 40;
    struct budgets merged = budget_merge(&step, &job, &queue, &environment);
    check_int(merged.step_max_attempts, ==, 40);
    check_int(merged.step_timeout_ms, ==, 0); /* "no limit" is a value, not an absence */
    check_int(merged.step_idle_timeout_ms, ==, 22);
    check_int(merged.step_no_progress_limit, ==, 13);
    check_int(merged.job_self_heal_max_resets, ==, 1);
    merged = budget_merge(NULL, NULL, &queue, NULL);
    check_int(merged.step_max_attempts, ==, 20);
    check_int(merged.step_grace_ms, ==, 10000);
}
