/* Adding: what is stored, keys (CL-7), batches, tags (BY-4), and that an answer means it is there
 * (BY-2). */
#include "support/store.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

TEST(add, a_job_with_nothing_given_has_the_defaults)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    const struct tend_job *job = job_of(t, add_spec(t, &spec));
    check_str(job->queue, "default");
    check_str(job->kind, "");
    check_str(job->payload, "{}");
    check_int(job->state, ==, TEND_PENDING);
    check_int(job->priority, ==, 5);
    check_int(job->token, ==, 0);
    check_int(job->attempts, ==, 0);
    check_int(job->crashes, ==, 0);
    check_int(job->due_at_ms, ==, clock_now());
    check_int(job->created_at_ms, ==, clock_now());
    check_str(job->owner, NULL);
    check_int(job->until_ms, ==, TEND_UNSET);
    check_int(job->started_at_ms, ==, TEND_UNSET);
    check_int(job->max_attempts, ==, TEND_UNSET);
    check_str(job->changed_by, "adder");
    check_str(events_of(t, job->id), "job.added");
}

TEST(add, everything_given_is_kept)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("build");
    spec.kind = "compile";
    spec.payload = "{ \"a\" : [1,\t2.50] ,\"ü\":\"\\u00fc\"}";
    spec.priority = 0;
    spec.unique_key = "key";
    spec.subject = "main";
    spec.concurrency_key = "host-a";
    spec.tags = "[\"x\", \"y\"]";
    spec.workspace = "/srv/work";
    spec.by = "somebody";
    spec.max_attempts = 7;
    spec.max_crashes = 4;
    spec.backoff_ms = 10;
    spec.backoff_max_ms = 20;
    spec.lease_ms = 5000;
    const struct tend_job *job = job_of(t, add_spec(t, &spec));
    check_str(job->queue, "build");
    check_str(job->kind, "compile");
    check_str(job->payload, spec.payload); /* byte for byte */
    check_int(job->payload_bytes, ==, strlen(spec.payload));
    check_int(job->priority, ==, 0);
    check_str(job->unique_key, "key");
    check_str(job->subject, "main");
    check_str(job->concurrency_key, "host-a");
    check_str(job->tags, spec.tags);
    check_str(job->workspace, "/srv/work");
    check_str(job->changed_by, "somebody");
    check_int(job->max_attempts, ==, 7);
    check_int(job->max_crashes, ==, 4);
    check_int(job->backoff_ms, ==, 10);
    check_int(job->backoff_max_ms, ==, 20);
    check_int(job->lease_ms, ==, 5000);
}

TEST(add, a_job_due_later_is_scheduled_and_becomes_pending_by_the_clock)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    spec.delay_ms = 5000;
    int64_t id = add_spec(t, &spec);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(job_of(t, id)->due_at_ms, ==, clock_now() + 5000);
    clock_advance(4999);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    clock_advance(1);
    check_int(claim_one(t, "q").id, ==, id);
    check_str(events_of(t, id), "job.added job.due job.claimed");
}

TEST(add, a_due_time_in_the_past_is_pending_and_keeps_its_place)
{
    tend *t = store_open("adder");
    int64_t second = add_one(t, "q");
    struct tend_job_spec spec = spec_for("q");
    spec.due_at_ms = clock_now() - HOUR_MS;
    int64_t first = add_spec(t, &spec);
    check_int(state_of(t, first), ==, TEND_PENDING);
    check_int(claim_one(t, "q").id, ==, first);
    check_int(claim_one(t, "q").id, ==, second);
}

/* BY-2: what is acknowledged is there for another process, even when the adder is killed at once.
 */
static void add_and_wait_for_death(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("doomed");
    helper_say(parent, add_one(t, "q"));
    helper_hear(parent);
}

TEST(add, an_acknowledged_job_survives_the_death_of_its_adder)
{
    struct helper adder = helper_start(add_and_wait_for_death, NULL);
    int64_t id = helper_hear(&adder);
    helper_kill(&adder);
    tend *t = store_open_real("other");
    check_int(state_of(t, id), ==, TEND_PENDING);
}

TEST(add, jobs_survive_the_closing_of_the_store)
{
    tend *t = store_open("a");
    int64_t id = add_one(t, "q");
    store_close(t);
    t = store_open("b");
    check_int(claim_one(t, "q").id, ==, id);
}

/* CL-7 */
TEST(add, the_same_key_and_subject_refreshes_the_waiting_job)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.unique_key = "k";
    spec.subject = "branch";
    spec.payload = "1";
    int64_t id = add_spec(t, &spec);
    spec.payload = "2";
    spec.priority = 1;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    check_int(added.id, ==, id);
    const struct tend_job *job = job_of(t, id);
    check_str(job->payload, "2");
    check_int(job->priority, ==, 1);
    check_str(events_of(t, id), "job.added job.rescheduled");
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

TEST(add, a_refresh_can_move_the_due_time_both_ways)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.unique_key = "k";
    int64_t id = add_spec(t, &spec);
    spec.delay_ms = 1000;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(state_of(t, id), ==, TEND_SCHEDULED);
    check_int(claim_none(t, "q").code, ==, TEND_EEMPTY);
    spec.delay_ms = TEND_UNSET;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(claim_one(t, "q").id, ==, id);
}

/* CL-7 */
TEST(add, the_same_key_with_another_subject_is_refused_with_the_id_of_the_other)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added = {0};
    spec.unique_key = "k";
    spec.subject = "one";
    int64_t id = add_spec(t, &spec);
    const char *before = store_snapshot();
    spec.subject = "two";
    check_rc(t, tend_add(t, &spec, &added), TEND_ECONFLICT);
    check_int(added.id, ==, id);
    check_int(added.outcome, ==, TEND_ECONFLICT);
    check_contains(tend_errmsg(t), "'k'");
    spec.subject = NULL;
    check_rc(t, tend_add(t, &spec, &added), TEND_ECONFLICT);
    check_str(store_snapshot(), before);
}

TEST(add, the_same_key_in_another_queue_is_another_key)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    int64_t one = add_spec(t, &spec);
    spec.queue = "p";
    check_int(add_spec(t, &spec), !=, one);
}

/* Only payload, priority and due time were taken over; kind, tags, key and limits were dropped. */
TEST(add, a_refresh_takes_over_all_that_was_submitted)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    spec.tags = "[\"old\"]";
    spec.max_attempts = 9;
    int64_t id = add_spec(t, &spec);
    spec.kind = "build";
    spec.tags = "[\"new\"]";
    spec.concurrency_key = "c";
    spec.workspace = "/w";
    spec.max_attempts = TEND_UNSET;
    spec.max_crashes = 4;
    spec.backoff_ms = 100;
    spec.backoff_max_ms = 200;
    spec.lease_ms = 3000;
    struct tend_added added;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    const struct tend_job *job = job_of(t, id);
    check_str(job->kind, "build");
    check_str(job->tags, "[\"new\"]");
    check_str(job->concurrency_key, "c");
    check_str(job->workspace, "/w");
    check_int(job->max_attempts, ==, TEND_UNSET);
    check_int(job->max_crashes, ==, 4);
    check_int(job->backoff_ms, ==, 100);
    check_int(job->backoff_max_ms, ==, 200);
    check_int(job->lease_ms, ==, 3000);
}

/* CL-7: a running job keeps its key, and is not changed under its owner's hands. */
TEST(add, a_running_job_keeps_its_key_and_its_payload)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.unique_key = "k";
    spec.payload = "1";
    int64_t id = add_spec(t, &spec);
    claim_one(t, "q");
    const char *before = store_snapshot();
    spec.payload = "2";
    spec.if_running = TEND_IF_RUNNING_KEEP;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.id, ==, id);
    check_int(added.outcome, ==, TEND_UNCHANGED);
    check_str(store_snapshot(), before);
}

/* CL-7: free again after each way to finish. */
TEST(add, the_key_is_free_once_the_job_has_finished)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = 1;

    int64_t done = add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    int64_t failed = add_spec(t, &spec);
    check_int(failed, !=, done);
    lease = claim_one(t, "q");
    check_ok(t, tend_fail(t, lease, &failure, NULL));
    int64_t cancelled = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_CANCEL, cancelled, NULL, NULL));
    check_int(add_spec(t, &spec), !=, cancelled);
}

TEST(add, a_held_job_keeps_its_key)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.unique_key = "k";
    spec.subject = "one";
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, NULL));
    spec.subject = "two";
    check_rc(t, tend_add(t, &spec, &added), TEND_ECONFLICT);
    check_int(added.id, ==, id);
}

/* BY-4: bulk add. */
TEST(add, a_batch_is_added_whole_with_an_answer_for_each)
{
    enum { COUNT = 1500 };
    tend *t = store_open("adder");
    static struct tend_job_spec specs[COUNT];
    static struct tend_added added[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        specs[i] = spec_for("q");
        specs[i].payload = keep_text("%zu", i);
    }
    check_ok(t, tend_add_many(t, specs, COUNT, added));
    for (size_t i = 0; i < COUNT; i++) {
        check_int(added[i].outcome, ==, TEND_OK);
        check(i == 0 || added[i].id > added[i - 1].id);
    }
    for (size_t i = 0; i < COUNT; i++)
        check_str(job_of(t, added[i].id)->payload, specs[i].payload);
    check_int(sql_int("SELECT count(*) FROM job"), ==, COUNT);
    check_int(count_events("job.added"), ==, COUNT);
}

/* CL-7 inside one batch: each outcome on its own. */
TEST(add, a_batch_can_hold_every_outcome_at_once)
{
    tend *t = store_open("adder");
    struct tend_job_spec specs[5];
    struct tend_added added[5];
    for (size_t i = 0; i < 5; i++)
        specs[i] = spec_for("q");
    specs[1].unique_key = specs[2].unique_key = specs[3].unique_key = "k";
    specs[1].subject = specs[2].subject = "one";
    specs[3].subject = "two";
    check_ok(t, tend_add_many(t, specs, 5, added));
    check_int(added[0].outcome, ==, TEND_OK);
    check_int(added[1].outcome, ==, TEND_OK);
    check_int(added[2].outcome, ==, TEND_REFRESHED);
    check_int(added[2].id, ==, added[1].id);
    check_int(added[3].outcome, ==, TEND_ECONFLICT);
    check_int(added[3].id, ==, added[1].id);
    check_int(added[4].outcome, ==, TEND_OK);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 3);
}

/* Jobs with a key used to be put in before all others of their batch. */
TEST(add, a_batch_is_handed_out_in_its_order_also_when_some_have_keys)
{
    enum { COUNT = 6 };
    tend *t = store_open("adder");
    struct tend_job_spec specs[COUNT];
    struct tend_added added[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        specs[i] = spec_for("q");
        specs[i].unique_key = i % 2 == 1 ? keep_text("key-%zu", i) : NULL;
    }
    check_ok(t, tend_add_many(t, specs, COUNT, added));
    for (size_t i = 0; i < COUNT; i++)
        check_int(claim_one(t, "q").id, ==, added[i].id);
}

TEST(add, bad_input_anywhere_in_a_batch_adds_nothing)
{
    tend *t = store_open("adder");
    struct tend_job_spec specs[3] = {spec_for("q"), spec_for("q"), spec_for("q")};
    struct tend_added added[3];
    add_one(t, "other");
    const char *before = store_snapshot();
    specs[2].payload = "{\"a\":}";
    check_rc(t, tend_add_many(t, specs, 3, added), TEND_EINVAL);
    check_contains(tend_errmsg(t), "line 1, column 6");
    check_str(store_snapshot(), before);
}

TEST(add, an_empty_batch_is_no_error)
{
    tend *t = store_open("adder");
    check_ok(t, tend_add_many(t, NULL, 0, NULL));
}

TEST(add, a_large_payload_comes_back_as_it_was)
{
    enum { BYTES = 3 * 1024 * 1024 };
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    char *payload = malloc(BYTES + 1);
    memset(payload, 'x', BYTES);
    payload[0] = payload[BYTES - 1] = '"';
    payload[BYTES] = '\0';
    spec.payload = payload;
    struct tend_lease lease;
    int64_t id = add_spec(t, &spec);
    lease = claim_one(t, "q");
    check_int(lease.id, ==, id);
    check(strcmp(job_of(t, id)->payload, payload) == 0);
    free(payload);
}

TEST(add, a_payload_need_not_end_with_a_nul)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "[1,2]garbage";
    spec.payload_bytes = 5;
    check_str(job_of(t, add_spec(t, &spec))->payload, "[1,2]");
}

/* --- reading back --- */

static size_t count_listed(tend *t, const struct tend_filter *filter)
{
    struct tend_jobs *jobs;
    check_ok(t, tend_list(t, filter, &jobs));
    size_t count = jobs->count;
    tend_jobs_free(jobs);
    return count;
}

/* BY-4: tags. */
TEST(add, jobs_are_listed_by_queue_kind_state_tag_and_age)
{
    tend *t = store_open("adder");
    struct tend_job_spec spec = spec_for("a");
    struct tend_filter filter;
    spec.tags = "[\"red\",\"blue\"]";
    spec.kind = "k";
    add_spec(t, &spec);
    clock_advance(MINUTE_MS);
    spec.tags = "[\"redder\"]";
    spec.kind = "other";
    add_spec(t, &spec);
    add_one(t, "b");
    claim_one(t, "b");

    tend_filter_init(&filter);
    check_int(count_listed(t, &filter), ==, 3);
    filter.queue = "a";
    check_int(count_listed(t, &filter), ==, 2);
    filter.kind = "k";
    check_int(count_listed(t, &filter), ==, 1);
    tend_filter_init(&filter);
    filter.tag = "red";
    check_int(count_listed(t, &filter), ==, 1);
    filter.tag = "r";
    check_int(count_listed(t, &filter), ==, 0);
    tend_filter_init(&filter);
    filter.states = 1u << TEND_RUNNING;
    check_int(count_listed(t, &filter), ==, 1);
    filter.states |= 1u << TEND_PENDING;
    check_int(count_listed(t, &filter), ==, 3);
    tend_filter_init(&filter);
    filter.older_than_ms = MINUTE_MS;
    check_int(count_listed(t, &filter), ==, 1);
}

/* All pages of 10; *bound is what goes on with the last id. */
static size_t read_pages(tend *t, struct tend_filter *filter, int64_t *bound)
{
    size_t seen = 0;
    struct tend_jobs *page;
    filter->limit = 10;
    for (size_t count = 1; count > 0; seen += count) {
        check_ok(t, tend_list(t, filter, &page));
        count = page->count;
        check_int(count, <=, 10);
        for (size_t i = 0; i < count; i++) {
            check(*bound == 0 ||
                  (filter->newest_first ? page->items[i].id < *bound : page->items[i].id > *bound));
            *bound = page->items[i].id;
        }
        tend_jobs_free(page);
    }
    return seen;
}

TEST(add, pages_follow_each_other_without_gap_or_overlap)
{
    tend *t = store_open("adder");
    struct tend_filter filter;
    add_number(t, "q", 25);
    tend_filter_init(&filter);
    check_int(read_pages(t, &filter, &filter.after_id), ==, 25);
}

TEST(add, pages_of_the_newest_first_follow_each_other_too_whatever_is_added_meanwhile)
{
    tend *t = store_open("adder");
    struct tend_filter filter;
    struct tend_jobs *page;
    int64_t first = add_one(t, "q");
    add_number(t, "q", 23);
    int64_t last = add_one(t, "q");
    tend_filter_init(&filter);
    filter.newest_first = 1;
    filter.limit = 1;
    check_ok(t, tend_list(t, &filter, &page));
    check_int(page->items[0].id, ==, last);
    filter.before_id = page->items[0].id;
    tend_jobs_free(page);
    add_number(t, "q", 5);
    check_int(read_pages(t, &filter, &filter.before_id), ==, 24);
    check_int(filter.before_id, ==, first);
}

TEST(add, a_list_can_be_bounded_on_both_sides_in_both_orders)
{
    tend *t = store_open("adder");
    struct tend_filter filter;
    struct tend_jobs *page;
    int64_t ids[7];
    for (int i = 0; i < 7; i++)
        ids[i] = add_one(t, "q");
    tend_filter_init(&filter);
    filter.after_id = ids[1];
    filter.before_id = ids[5];
    for (filter.newest_first = 0; filter.newest_first < 2; filter.newest_first++) {
        check_ok(t, tend_list(t, &filter, &page));
        check_int(page->count, ==, 3);
        for (int i = 0; i < 3; i++)
            check_int(page->items[filter.newest_first ? 2 - i : i].id, ==, ids[2 + i]);
        tend_jobs_free(page);
    }
    /* An action goes by the bounds as well. */
    struct tend_acted *acted;
    check_ok(t, tend_act_on_all(t, TEND_HOLD, &filter, NULL, NULL, &acted));
    check_int(acted->count, ==, 3);
    tend_acted_free(acted);
}

static void *no_memory(size_t bytes)
{
    (void)bytes;
    return NULL;
}

/* Symptom: "tags must be a JSON array of strings, not ["x"]". */
TEST(add, tags_that_there_is_no_memory_for_are_not_called_wrong)
{
    tend *t = store_open("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    spec.tags = "[\"x\"]";
    json_set_alloc_funcs(no_memory, free);
    int rc = tend_add(t, &spec, &added);
    json_set_alloc_funcs(malloc, free);
    check_int(rc, ==, TEND_ENOMEM);
    check_ok(t, tend_add(t, &spec, &added));
}
