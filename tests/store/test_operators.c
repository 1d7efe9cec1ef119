/* What operators do: hold, resume, cancel, redrive; one by one and all that match (BY-4: dead
 * letters). */
#include "support/store.h"

#include <stdio.h>
#include <string.h>

TEST(operators, a_held_job_is_not_handed_out_until_it_is_resumed)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_HOLD, id, "op", "wait for the release"));
    check_int(state_of(t, id), ==, TEND_HELD);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(365 * DAY_MS); /* no clock moves it */
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    const struct tend_event *event = last_event_of(t, id);
    check_str(event->what, "job.held");
    check_str(event->who, "op");
    check_str(event->why, "wait for the release");
    check_ok(t, tend_act(t, TEND_RESUME, id, "op", NULL));
    check_int(claim_one(t, "q").id, ==, id);
}

TEST(operators, a_scheduled_job_that_was_held_goes_on_waiting_for_its_time)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = HOUR_MS;
    int64_t id = add_spec(t, &spec);
    int64_t due_ms = job_of(t, id)->due_at_ms;
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(job_of(t, id)->due_at_ms, ==, due_ms);
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    clock_set(due_ms);
    check_ok(t, tend_act(t, TEND_RESUME, id, NULL, NULL));
    check_int(state_of(t, id), ==, TEND_PENDING);
}

TEST(operators, holding_a_running_job_takes_the_lease_away_and_charges_nothing)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_act(t, TEND_HOLD, id, "op", NULL));
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_HELD);
    check_str(job->owner, NULL);
    check_int(job->attempts, ==, 0);
    check_int(job->crashes, ==, 0);
    check_int(job->token, >, lease.token);
    check_str(last_event_of(t, id)->owner, "w");
}

TEST(operators, a_cancelled_job_is_finished_and_can_be_redriven)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_CANCEL, id, "op", "not needed"));
    const struct tend_job *job = job_of(t, id);
    check_int(job->state, ==, TEND_CANCELLED);
    check_int(job->finished_at_ms, ==, clock_now());
    check_str(job->changed_why, "not needed");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_advance(5);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "op", NULL));
    check_int(claim_one(t, "q").id, ==, id);
    check_int(job_of(t, id)->finished_at_ms, ==, TEND_UNSET);
}

/* A job that was cancelled before its time came back due at once. */
TEST(operators, a_cancelled_job_that_is_redriven_before_it_is_due_keeps_its_time)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = HOUR_MS;
    int64_t id = add_spec(t, &spec);
    int64_t due_ms = clock_now() + HOUR_MS;
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    clock_advance(MINUTE_MS);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "op", NULL));
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(job_of(t, id)->due_at_ms, ==, due_ms);
    check_str(last_event_of(t, id)->what, "job.redriven");
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    clock_set(due_ms);
    check_int(claim_one(t, "q").id, ==, id);
    /* Once its time has come it is due at once, as any other. */
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    clock_advance(MINUTE_MS);
    check_ok(t, tend_act(t, TEND_REDRIVE, id, "op", NULL));
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->due_at_ms, ==, clock_now());
}

/* "retry --queue" after a few failures brought back what had been cancelled weeks ago. */
TEST(operators, redriving_all_takes_cancelled_jobs_only_where_they_are_named)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_failure failure;
    int64_t cancelled = add_one(t, "q");
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled, NULL, NULL));
    int64_t failed = add_one(t, "q");
    tend_failure_init(&failure);
    failure.final = 1;
    check_ok(t, tend_fail(t, claim_one(t, "q"), &failure, NULL));
    tend_filter_init(&filter);
    filter.queue = "q";
    check_int(act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL), ==, 1);
    check_int(state_of(t, failed), ==, TEND_PENDING);
    check_int(state_of(t, cancelled), ==, TEND_CANCELLED);
    filter.states = 1u << TEND_CANCELLED;
    check_int(act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL), ==, 1);
    check_int(state_of(t, cancelled), ==, TEND_PENDING);
}

TEST(operators, an_unknown_job_is_not_found)
{
    tend *t = store_open("w");
    const enum tend_action actions[] = {TEND_HOLD, TEND_RESUME, TEND_CANCEL, TEND_REDRIVE};
    for (size_t i = 0; i < 4; i++) {
        check_rc(t, tend_act(t, actions[i], 4711, NULL, NULL), TEND_ENOTFOUND);
        check_contains(tend_errmsg(t), "4711");
    }
}

TEST(operators, a_refusal_names_the_state_and_changes_nothing)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    const char *before = store_snapshot();
    check_rc(t, tend_act(t, TEND_RESUME, id, NULL, NULL), TEND_ESTATE);
    check_contains(tend_errmsg(t), "pending");
    check_rc(t, tend_act(t, TEND_REDRIVE, id, NULL, NULL), TEND_ESTATE);
    check_str(store_snapshot(), before);
}

TEST(operators, redriving_a_job_whose_key_is_taken_by_now_is_refused)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    int64_t old = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, old, NULL, NULL));
    add_spec(t, &spec);
    const char *before = store_snapshot();
    check_rc(t, tend_act(t, TEND_REDRIVE, old, NULL, NULL), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "unique key");
    check_str(store_snapshot(), before);
}

/* Symptom: it was said that another live job had its key, although it has none. */
TEST(operators, a_job_that_others_change_each_time_is_told_from_one_whose_key_is_taken)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    /* Whoever looks at it finds it moved when it comes to the change. */
    if (store_is_postgres()) {
        sql_exec("CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS "
                 "'BEGIN RETURN NULL; END'");
        sql_exec("CREATE TRIGGER too_late BEFORE UPDATE ON job FOR EACH ROW "
                 "EXECUTE FUNCTION nothing()");
    } else {
        sql_exec("CREATE TRIGGER too_late BEFORE UPDATE ON job BEGIN SELECT RAISE(IGNORE); END");
    }
    check_rc(t, tend_act(t, TEND_CANCEL, id, NULL, NULL), TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "others changed it");
    check(strstr(tend_errmsg(t), "unique key") == NULL);
}

/* BY-4 */
TEST(operators, all_that_match_are_changed_and_counted)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    add_number(t, "q", 2500);
    add_number(t, "p", 3);
    claim_many(t, "q", 10, NULL);
    tend_filter_init(&filter);
    filter.queue = "q";
    check_int(act_on_all(t, TEND_CANCEL, &filter, "op", "all"), ==, 2500);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 6"), ==, 2500);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 3);
    check_int(act_on_all(t, TEND_CANCEL, &filter, "op", "again"), ==, 0);
    filter.states = 1u << TEND_CANCELLED;
    check_ok(t, tend_act_on_all(t, TEND_REDRIVE, &filter, "op", NULL, NULL));
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 2503);
}

TEST(operators, only_jobs_whose_state_allows_it_are_changed)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    add_number(t, "q", 3);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    tend_filter_init(&filter);
    check_int(act_on_all(t, TEND_HOLD, &filter, NULL, NULL), ==, 2);
    filter.states = 1u << TEND_DONE;
    check_int(act_on_all(t, TEND_CANCEL, &filter, NULL, NULL), ==, 0);
    filter.states = 0;
    check_int(act_on_all(t, TEND_RESUME, &filter, NULL, NULL), ==, 2);
}

TEST(operators, a_filter_by_kind_tag_and_age_counts_here_too)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_filter filter;
    spec.tags = "[\"x\"]";
    spec.kind = "k";
    int64_t old = add_spec(t, &spec);
    clock_advance(MINUTE_MS);
    int64_t fresh = add_spec(t, &spec);
    add_one(t, "q");
    tend_filter_init(&filter);
    filter.tag = "x";
    filter.kind = "k";
    filter.older_than_ms = MINUTE_MS;
    check_int(act_on_all(t, TEND_HOLD, &filter, NULL, NULL), ==, 1);
    check_int(state_of(t, old), ==, TEND_HELD);
    check_int(state_of(t, fresh), ==, TEND_PENDING);
}

/* One job whose key is taken used to keep all others of its page from being redriven. */
TEST(operators, redriving_all_passes_over_those_whose_key_is_taken)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_filter filter;
    spec.unique_key = "k";
    int64_t older = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, older, NULL, NULL));
    int64_t newer = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, newer, NULL, NULL));
    add_number(t, "q", 3);
    tend_filter_init(&filter);
    check_ok(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL));
    filter.states = 1u << TEND_CANCELLED;
    check_int(act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL), ==, 4);
    check_int(state_of(t, older), ==, TEND_CANCELLED);
    check_int(state_of(t, newer), ==, TEND_PENDING);
}

/* --- what a redrive leaves out because of keys, told before and after --- */

static int64_t add_cancelled(tend *t, const char *key)
{
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = key;
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, id, NULL, NULL));
    return id;
}

static struct tend_filter all_cancelled(void)
{
    struct tend_filter filter;
    tend_filter_init(&filter);
    filter.states = 1u << TEND_CANCELLED;
    return filter;
}

static void check_refused(const struct tend_acted *acted, size_t i, int64_t id, const char *text)
{
    check_int((int64_t)acted->refused_count, >, (int64_t)i);
    check_int(acted->refused[i].id, ==, id);
    check_int(acted->refused[i].code, ==, TEND_ECONFLICT);
    check_contains(acted->refused[i].text, text);
}

/* Symptom: the call announced every job that matched; and it left jobs out without a word. */
TEST(operators, a_redrive_of_many_tells_whose_key_is_taken_before_and_after)
{
    tend *t = store_open("w");
    struct tend_filter filter = all_cancelled();
    struct tend_job_spec spec = spec_for("q");
    struct tend_acted *acted = NULL;
    int64_t old = add_cancelled(t, "k");
    int64_t other = add_cancelled(t, "other");
    int64_t plain = add_cancelled(t, NULL);
    char why[64];
    spec.unique_key = "k";
    snprintf(why, sizeof why, "job %lld, which has not finished", (long long)add_spec(t, &spec));
    const char *before = store_snapshot();
    check_ok(t, tend_act_count(t, TEND_REDRIVE, &filter, &acted));
    check_str(store_snapshot(), before);
    check_int(acted->count, ==, 2);
    check_int((int64_t)acted->refused_count, ==, 1);
    check_refused(acted, 0, old, why);
    tend_acted_free(acted);
    check_ok(t, tend_act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL, &acted));
    check_int(acted->count, ==, 2);
    check_int((int64_t)acted->refused_count, ==, 1);
    check_refused(acted, 0, old, why);
    tend_acted_free(acted);
    check_int(state_of(t, old), ==, TEND_CANCELLED);
    check_int(state_of(t, other), ==, TEND_PENDING);
    check_int(state_of(t, plain), ==, TEND_PENDING);
}

/* Symptom: the oldest submission of a key came back, and what was submitted since did not. Between
 * the two are more jobs than one transaction moves. */
TEST(operators, of_several_jobs_with_one_key_the_newest_is_redriven)
{
    tend *t = store_open("w");
    struct tend_filter filter = all_cancelled();
    struct tend_filter everything;
    struct tend_acted *acted = NULL;
    int64_t first = add_cancelled(t, "k");
    int64_t second = add_cancelled(t, "k");
    tend_filter_init(&everything);
    add_number(t, "q", 1100);
    check_ok(t, tend_act_on_all(t, TEND_CANCEL, &everything, NULL, NULL, NULL));
    int64_t newest = add_cancelled(t, "k");
    check_ok(t, tend_act_count(t, TEND_REDRIVE, &filter, &acted));
    check_int(acted->count, ==, 1101);
    check_int((int64_t)acted->refused_count, ==, 2);
    tend_acted_free(acted);
    check_ok(t, tend_act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL, &acted));
    check_int(acted->count, ==, 1101);
    check_int((int64_t)acted->refused_count, ==, 2);
    check_refused(acted, 0, first, "which was submitted later, has its unique key");
    check_refused(acted, 1, second, "which was submitted later, has its unique key");
    tend_acted_free(acted);
    check_int(state_of(t, first), ==, TEND_CANCELLED);
    check_int(state_of(t, second), ==, TEND_CANCELLED);
    check_int(state_of(t, newest), ==, TEND_PENDING);
}

/* The same key in another queue is another key. */
TEST(operators, jobs_of_two_queues_with_one_key_are_both_redriven)
{
    tend *t = store_open("w");
    struct tend_filter filter = all_cancelled();
    struct tend_job_spec spec = spec_for("p");
    spec.unique_key = "k";
    add_cancelled(t, "k");
    check_ok(t, tend_act(t, TEND_CANCEL, add_spec(t, &spec), NULL, NULL));
    check_int(act_on_all(t, TEND_REDRIVE, &filter, NULL, NULL), ==, 2);
}

/* Symptom: it was announced that a job would be started over, whose key another had. */
TEST(operators, what_an_action_would_refuse_is_known_before)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_acted *acted = NULL;
    int64_t older = add_cancelled(t, "two");
    int64_t newer = add_cancelled(t, "two");
    int64_t taken = add_cancelled(t, "k");
    spec.unique_key = "k";
    int64_t live = add_spec(t, &spec);
    const int64_t ids[] = {older, newer, taken, live, live + 1000, newer};
    const char *before = store_snapshot();
    check_ok(t, tend_act_check(t, TEND_REDRIVE, ids, 6, &acted));
    check_str(store_snapshot(), before);
    check_int(acted->count, ==, 1);
    check_int((int64_t)acted->refused_count, ==, 5);
    check_int(acted->refused[0].code, ==, TEND_ESTATE);
    check_contains(acted->refused[0].text, "only failed or cancelled jobs can be retried");
    check_int(acted->refused[1].code, ==, TEND_ENOTFOUND);
    check_contains(acted->refused[2].text, "named twice");
    check_refused(acted, 3, older, "which was submitted later");
    check_refused(acted, 4, taken, "which has not finished");
    tend_acted_free(acted);
    check_ok(t, tend_act_check(t, TEND_CANCEL, &live, 1, &acted));
    check_int(acted->count, ==, 1);
    check_int((int64_t)acted->refused_count, ==, 0);
    tend_acted_free(acted);
}
