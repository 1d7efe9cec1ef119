/* Nonsense, continued: schedules, events, the small functions, and opening by URLs that lead
 * nowhere. */
#include "support/store.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void refused(tend *t, int rc, int expected)
{
    check_rc(t, rc, expected);
    check_int(strlen(tend_errmsg(t)), >, 15);
}

static struct tend_schedule a_schedule(void)
{
    struct tend_schedule schedule;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@daily";
    return schedule;
}

TEST(bad_calls, schedules)
{
    tend *t = store_open("w");
    const char *const no_names[] = {"", "a\nb", "\xff"};
    const char *const no_crons[] = {NULL,          "",           "* * * *",     "60 * * * *",
                                    "* * * * * *", "@sometimes", "@every",      "@every 0s",
                                    "@every -1s",  "a b c d e",  "*/0 * * * *", "0 0 30 2 *",
                                    "0 0 32 * *"};
    const char *before = store_snapshot();
    struct tend_schedule schedule;
    for (size_t i = 0; i < sizeof no_crons / sizeof *no_crons; i++) {
        schedule = a_schedule();
        schedule.cron = no_crons[i];
        refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    }
    for (size_t i = 0; i < sizeof no_names / sizeof *no_names; i++) {
        schedule = a_schedule();
        schedule.name = no_names[i];
        refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
        refused(t, tend_schedule_remove(t, no_names[i], NULL), TEND_EINVAL);
        schedule = a_schedule();
        schedule.queue = no_names[i];
        refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
        refused(t,
                tend_schedule_put(t, &(struct tend_schedule){.name = "s", .cron = "@daily"},
                                  no_names[i]),
                TEND_EINVAL);
    }
    schedule = a_schedule();
    schedule.name = NULL;
    refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    refused(t, tend_schedule_remove(t, NULL, NULL), TEND_EINVAL);
    schedule = a_schedule();
    schedule.payload = "{";
    refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    schedule = a_schedule();
    schedule.priority = 10;
    refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    schedule = a_schedule();
    schedule.catch_up = "some";
    refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    schedule = a_schedule();
    schedule.kind = "\x01";
    refused(t, tend_schedule_put(t, &schedule, NULL), TEND_EINVAL);
    refused(t, tend_schedule_remove(t, "not there", NULL), TEND_ENOTFOUND);
    check_str(store_snapshot(), before);
}

TEST(bad_calls, events_since_anywhere)
{
    tend *t = store_open("w");
    struct tend_events *events;
    add_number(t, "q", 3);
    check_ok(t, tend_events_since(t, -5, SIZE_MAX, &events));
    check_int(events->count, ==, 3);
    tend_events_free(events);
    check_ok(t, tend_events_since(t, INT64_MAX, 0, &events));
    check_int(events->count, ==, 0);
    tend_events_free(events);
}

TEST(bad_calls, small_functions)
{
    check_str(tend_state_name(TEND_PENDING), "pending");
    check_str(tend_state_name(-1), "?");
    check_str(tend_state_name(99), "?");
    check_int(tend_state_parse("held"), ==, TEND_HELD);
    check_int(tend_state_parse("none"), ==, TEND_EINVAL);
    check_int(tend_state_parse(""), ==, TEND_EINVAL);
    check_int(tend_state_parse(NULL), ==, TEND_EINVAL);
    check(tend_strerror(12345) != NULL);
    check(tend_strerror(-12345) != NULL);
    check_str(tend_version(), TEND_VERSION);
    tend_close(NULL);
    tend_jobs_free(NULL);
    tend_events_free(NULL);
    tend_locks_free(NULL);
    tend_workers_free(NULL);
    tend_schedules_free(NULL);
    tend_stats_free(NULL);
    check(tend_errmsg(NULL) != NULL);
}

TEST(bad_calls, there_is_no_sentence_before_the_first_failure)
{
    tend *t = store_open("w");
    check_str(tend_errmsg(t), "");
    add_one(t, "q");
    check_str(tend_errmsg(t), "");
}

static void check_open_fails(const char *url, const struct tend_options *options, int expected)
{
    tend *t = NULL;
    int rc = tend_open(&t, url, options);
    check_rc(t, rc, expected);
    check_int(strlen(tend_errmsg(t)), >, 15);
    tend_close(t);
}

TEST(bad_calls, urls_that_lead_nowhere)
{
    check_open_fails(NULL, NULL, TEND_EINVAL);
    check_open_fails("", NULL, TEND_EINVAL);
    check_open_fails("tend.db", NULL, TEND_EINVAL);
    check_open_fails("mysql://localhost/x", NULL, TEND_EINVAL);
    check_open_fails("SQLITE:x", NULL, TEND_EINVAL);
    check_open_fails("sqlite:", NULL, TEND_EINVAL);
    check_open_fails("sqlite::memory:", NULL, TEND_EINVAL);
    if (store_is_postgres()) {
        check_open_fails("postgresql://postgres@127.0.0.1:1/nowhere", NULL, TEND_EUNREACHABLE);
        check_open_fails("postgresql://[broken", NULL, TEND_EINVAL);
        check_open_fails(keep_text("%s&nonsense=1", store_url()), NULL, TEND_EINVAL);
    }
}

TEST(bad_calls, an_owner_name_that_is_none_is_refused_on_opening)
{
    struct tend_options options = store_options("a\nb");
    check_open_fails(store_url(), &options, TEND_EINVAL);
    options = store_options("");
    check_open_fails(store_url(), &options, TEND_EINVAL);
}

TEST(bad_calls, a_store_that_must_exist_and_does_not_is_not_made)
{
    struct tend_options options = store_options("w");
    options.must_exist = 1;
    check_open_fails(store_url(), &options, TEND_ENOTFOUND);
    check_open_fails(store_url(), &options, TEND_ENOTFOUND); /* still not */
    options.must_exist = 0;
    tend *t = store_open_with(&options);
    options.must_exist = 1;
    store_open_with(&options);
    add_one(t, "q");
}

TEST(bad_calls, a_newer_schema_is_refused_and_left_alone)
{
    tend *t = store_open("w");
    int in_store = -1;
    int of_library = -1;
    check_ok(t, tend_schema(t, &in_store, &of_library));
    check_int(in_store, ==, of_library);
    check_int(in_store, >, 0);
    add_one(t, "q");
    store_close(t);
    if (store_is_postgres())
        sql_exec("UPDATE tend_schema_version SET version = version + 1");
    else
        sql_exec("PRAGMA user_version = %d", in_store + 1);
    const char *before = store_snapshot();
    check_open_fails(store_url(), NULL, TEND_ESCHEMA);
    check_str(store_snapshot(), before);
}

/* RC-1 */
TEST(bad_calls, a_recovery_interval_that_is_none_is_refused_with_its_name)
{
    const char *const bad[] = {"", "soon", "-1", "1e3", "99999999999999999999", "60s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tend *t = NULL;
        setenv("TEND_RECOVERY_INTERVAL_MS", bad[i], 1);
        check_rc(t, tend_open(&t, store_url(), NULL), TEND_EINVAL);
        check_contains(tend_errmsg(t), "TEND_RECOVERY_INTERVAL_MS");
        tend_close(t);
    }
    setenv("TEND_RECOVERY_INTERVAL_MS", "0", 1);
    struct tend_options options = store_options("w");
    store_open_with(&options);
}
