/* Nonsense of any kind: every public call answers with a code and a sentence, and nothing changes.
 */
#include "support/store.h"

#include <limits.h>
#include <string.h>

/* Texts that name nothing: none at all, empty, too long, control characters, bytes that are no
 * UTF-8. */
static const char *const no_names[] = {
    NULL,
    "",
    "line\nbreak",
    "tab\there",
    "\x7f",
    "\xff\xfe",
    "cut \xc3",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
};
enum { NO_NAMES = sizeof no_names / sizeof *no_names };

static const int64_t no_times[] = {-1, -5000, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1};
enum { NO_TIMES = sizeof no_times / sizeof *no_times };

static const char *const no_json[] = {
    "",        "{",        "}",           "nul",         "{\"a\":1,}", "[1 2]",       "'single'",
    "\"\\x\"", "\"\xff\"", "{} trailing", "{\"a\":NaN}", "01",         "\"\\ud83d\"", "\"tab\t\"",
};
enum { NO_JSON = sizeof no_json / sizeof *no_json };

/* Refused with a sentence. */
static void check_refused(const char *file, int line, tend *t, int rc, int expected)
{
    store_check_rc(file, line, "the call", t, rc, expected);
    check_int(strlen(tend_errmsg(t)), >, 15);
    check_str(tend_strerror(rc), tend_strerror(expected));
}
#define refused(t, rc, expected) check_refused(__FILE__, __LINE__, t, rc, expected)

static void add_refused(tend *t, const struct tend_job_spec *spec)
{
    struct tend_added added;
    refused(t, tend_add(t, spec, &added), TEND_EINVAL);
    refused(t, tend_add_many(t, spec, 1, &added), TEND_EINVAL);
}

TEST(bad_input, names_in_an_add)
{
    tend *t = store_open("w");
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_NAMES; i++) {
        const char *bad = no_names[i];
        if (bad == NULL)
            continue; /* not given */
        struct tend_job_spec spec = spec_for(bad);
        add_refused(t, &spec);
        spec = spec_for("q");
        spec.unique_key = bad;
        add_refused(t, &spec);
        spec = spec_for("q");
        spec.concurrency_key = bad;
        add_refused(t, &spec);
        spec = spec_for("q");
        spec.by = bad;
        add_refused(t, &spec);
        if (bad[0] == '\0')
            continue; /* no kind and no subject */
        spec = spec_for("q");
        spec.kind = bad;
        add_refused(t, &spec);
        spec = spec_for("q");
        spec.subject = bad;
        add_refused(t, &spec);
    }
    struct tend_job_spec spec = spec_for("q");
    spec.workspace = "/srv/\xff";
    add_refused(t, &spec);
    check_str(store_snapshot(), before);
}

TEST(bad_input, payload_and_tags_in_an_add)
{
    tend *t = store_open("w");
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_JSON; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.payload = no_json[i];
        add_refused(t, &spec);
        check_contains(tend_errmsg(t), "payload");
        check_contains(tend_errmsg(t), "line 1");
    }
    const char *const no_tags[] = {"{}",     "\"x\"",         "1",
                                   "[1]",    "[\"a\", null]", "[[\"a\"]]",
                                   "[\"a\"", "null",          "[{\"a\":\"b\"}]"};
    for (size_t i = 0; i < sizeof no_tags / sizeof *no_tags; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.tags = no_tags[i];
        add_refused(t, &spec);
        check_contains(tend_errmsg(t), "tags");
    }
    struct tend_job_spec spec = spec_for("q");
    spec.payload = "\"a\0b\"";
    spec.payload_bytes = 5;
    add_refused(t, &spec);
    check_str(store_snapshot(), before);
    spec = spec_for("q");
    spec.tags = " [ \"a\" , \"\\u00fc, [x]\" ] ";
    add_spec(t, &spec);
}

TEST(bad_input, numbers_in_an_add)
{
    tend *t = store_open("w");
    const char *before = store_snapshot();
    const int priorities[] = {-1, 10, INT_MAX, INT_MIN};
    for (size_t i = 0; i < 4; i++) {
        struct tend_job_spec spec = spec_for("q");
        spec.priority = priorities[i];
        add_refused(t, &spec);
        check_contains(tend_errmsg(t), "priority");
    }
    for (size_t i = 0; i < NO_TIMES; i++) {
        struct tend_job_spec specs[7];
        for (size_t k = 0; k < 7; k++)
            specs[k] = spec_for("q");
        specs[0].due_at_ms = no_times[i];
        specs[1].delay_ms = no_times[i];
        specs[2].max_attempts = no_times[i];
        specs[3].max_crashes = no_times[i];
        specs[4].backoff_ms = no_times[i];
        specs[5].backoff_max_ms = no_times[i];
        specs[6].lease_ms = no_times[i];
        for (size_t k = 0; k < 7; k++)
            add_refused(t, &specs[k]);
    }
    struct tend_job_spec spec = spec_for("q");
    spec.max_attempts = 0;
    add_refused(t, &spec);
    spec = spec_for("q");
    spec.lease_ms = 99;
    add_refused(t, &spec);
    check_str(store_snapshot(), before);
}

/* What is wrong with a spec is known without a store, in the words of the store. */
TEST(bad_input, a_spec_is_checked_without_a_store_as_by_an_add)
{
    static const struct {
        const char *member, *sentence;
    } cases[] = {
        {"due_at_ms", "the due time is 1969-12-31T23:59:55.000Z; it must be a time from "
                      "1970-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z"},
        {"delay_ms", "the delay is 366001d; it must be a duration from 0s to 366000d"},
        {"max_attempts", "the number of attempts is 0; it must be a number from 1 to 1000000"},
        {"lease_ms", "the lease is 99ms; it must be a duration from 100ms to 366d"},
        {"unique_key", "'' cannot name a unique key; give 1 to 200 bytes"},
        {"payload", "the payload is not valid JSON"},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    struct tend_job_spec specs[CASES];
    for (size_t i = 0; i < CASES; i++)
        specs[i] = spec_for("q");
    specs[0].due_at_ms = -5000;
    specs[1].delay_ms = 366001 * DAY_MS;
    specs[2].max_attempts = 0;
    specs[3].lease_ms = 99;
    specs[4].unique_key = "";
    specs[5].payload = "{";
    tend *t = store_open("w");
    for (size_t i = 0; i < CASES; i++) {
        struct tend_spec_fault fault;
        check_int(tend_job_spec_check(&specs[i], &fault), ==, TEND_EINVAL);
        check_str(fault.member, cases[i].member);
        check_contains(fault.text, cases[i].sentence);
        check_int(tend_job_spec_check(&specs[i], NULL), ==, TEND_EINVAL);
        add_refused(t, &specs[i]);
        check_str(tend_errmsg(t), fault.text);
    }
    struct tend_job_spec fine = spec_for("q");
    check_int(tend_job_spec_check(&fine, NULL), ==, 0);
}

/* Symptom: the longest lease was 30 days in a queue, 366 in a job or claim, 36600 in a heartbeat.
 */
TEST(bad_input, a_lease_has_the_same_longest_time_wherever_it_is_given)
{
    static const char range[] = "366d";
    const int64_t longest_ms = 366 * DAY_MS;
    tend *t = store_open("w");
    struct tend_jobs *jobs = NULL;
    struct tend_job_spec spec = spec_for("q");
    struct tend_claim claim = claim_for("q");
    struct tend_lock_request request;
    struct tend_added added;
    tend_lock_request_init(&request);
    request.name = "l";
    for (int64_t over_ms = 0; over_ms <= 1; over_ms++) {
        const char *text = keep_text("%lldms", (long long)longest_ms + over_ms);
        const struct tend_setting setting = {.name = "lease", .value = text};
        int wanted = over_ms == 0 ? 0 : TEND_EINVAL;
        const char *says = over_ms == 0 ? "" : range;
        check_rc(t, tend_queue_set(t, "q", &setting, 1, NULL), wanted);
        check_contains(tend_errmsg(t), says);
        spec.lease_ms = longest_ms + over_ms;
        check_rc(t, tend_add(t, &spec, &added), wanted);
        check_contains(tend_errmsg(t), says);
        claim.ttl_ms = request.ttl_ms = longest_ms + over_ms;
        check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), over_ms == 0 ? 1 : wanted);
        check_contains(tend_errmsg(t), says);
        struct tend_lease lease = {.id = jobs->items[0].id, .token = jobs->items[0].token};
        check_rc(t, tend_heartbeat(t, &lease, 1, longest_ms + over_ms, NULL), wanted);
        check_contains(tend_errmsg(t), says);
        check_rc(t, tend_lock_acquire(t, &request, NULL), wanted);
        check_contains(tend_errmsg(t), says);
        check_rc(t, tend_lock_extend(t, "l", NULL, longest_ms + over_ms),
                 over_ms == 0 ? 1 : wanted);
        check_contains(tend_errmsg(t), says);
    }
    tend_jobs_free(jobs);
}

TEST(bad_input, ids_that_are_not_there)
{
    tend *t = store_open("w");
    const int64_t ids[] = {0, -1, 4711, INT64_MAX, INT64_MIN};
    struct tend_jobs *jobs = NULL;
    struct tend_explanation explanation;
    struct tend_events *events;
    add_one(t, "q");
    const char *before = store_snapshot();
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        refused(t, tend_get(t, ids[i], &jobs), TEND_ENOTFOUND);
        check(jobs == NULL);
        refused(t, tend_explain(t, ids[i], &explanation), TEND_ENOTFOUND);
        refused(t, tend_act(t, TEND_CANCEL, ids[i], NULL, NULL), TEND_ENOTFOUND);
        struct tend_lease lease = {.id = ids[i], .token = 1};
        refused(t, tend_complete(t, &lease, 1, NULL, NULL), TEND_ELEASELOST);
        check_ok(t, tend_job_events(t, ids[i], &events));
        check_int(events->count, ==, 0);
        tend_events_free(events);
    }
    check_str(store_snapshot(), before);
}

TEST(bad_input, filters)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_jobs *jobs = NULL;
    add_number(t, "q", 3);
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_TIMES; i++) {
        if (no_times[i] > 0)
            continue; /* longer ago than anything */
        tend_filter_init(&filter);
        filter.older_than_ms = no_times[i];
        refused(t, tend_list(t, &filter, &jobs), TEND_EINVAL);
        refused(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL), TEND_EINVAL);
    }
    tend_filter_init(&filter);
    filter.states = 1u << TEND_STATE_COUNT;
    refused(t, tend_list(t, &filter, &jobs), TEND_EINVAL);
    refused(t, tend_act_on_all(t, TEND_CANCEL, &filter, NULL, NULL, NULL), TEND_EINVAL);
    tend_filter_init(&filter);
    filter.queue = "\xff";
    refused(t, tend_list(t, &filter, &jobs), TEND_EINVAL);
    refused(t, tend_act_on_all(t, TEND_HOLD, &filter, NULL, NULL, NULL), TEND_EINVAL);
    check(jobs == NULL);
    check_str(store_snapshot(), before);
    /* As much as there is, longer ago than time, after everything: no nonsense. */
    tend_filter_init(&filter);
    filter.limit = SIZE_MAX;
    check_ok(t, tend_list(t, &filter, &jobs));
    check_int(jobs->count, ==, 3);
    tend_jobs_free(jobs);
    filter.older_than_ms = INT64_MAX;
    filter.after_id = INT64_MAX;
    check_ok(t, tend_list(t, &filter, &jobs));
    check_int(jobs->count, ==, 0);
    tend_jobs_free(jobs);
}

static void claim_refused(tend *t, const struct tend_claim *claim)
{
    struct tend_jobs *jobs = NULL;
    struct tend_lease lease = {.id = 1, .token = 1};
    refused(t, tend_claim_jobs(t, claim, &jobs, NULL), TEND_EINVAL);
    refused(t, tend_next_with_lock(t, claim, &jobs, NULL), TEND_EINVAL);
    refused(t, tend_complete_and_claim(t, &lease, 1, NULL, NULL, claim, &jobs, NULL), TEND_EINVAL);
    check(jobs == NULL);
}

TEST(bad_input, claims)
{
    tend *t = store_open("w");
    add_one(t, "q");
    const char *before = store_snapshot();
    for (size_t i = 1; i < NO_NAMES; i++) {
        struct tend_claim claim = claim_for(no_names[i]);
        claim_refused(t, &claim);
        claim = claim_for("q");
        claim.owner = no_names[i];
        claim_refused(t, &claim);
    }
    for (size_t i = 0; i < NO_TIMES; i++) {
        struct tend_claim claim = claim_for("q");
        claim.ttl_ms = no_times[i];
        claim_refused(t, &claim);
    }
    struct tend_claim claim = claim_for("q");
    claim.ttl_ms = 0;
    claim_refused(t, &claim);
    claim = claim_for("q");
    claim.count = 100001;
    claim_refused(t, &claim);
    claim = claim_for("q");
    claim.while_pid = -1;
    claim_refused(t, &claim);
    claim.while_pid = INT64_MAX;
    claim_refused(t, &claim);
    claim = claim_for("q");
    claim.wait_ms = -2;
    claim_refused(t, &claim);
    claim = claim_for("q");
    claim.flags = 4096;
    claim_refused(t, &claim);
    check_str(store_snapshot(), before);
    /* Longer than anybody lives is for ever, not an overflow. */
    claim = claim_for("q");
    claim.wait_ms = INT64_MAX;
    claim_with(t, &claim);
}

TEST(bad_input, calls_with_a_lease)
{
    tend *t = store_open("w");
    struct tend_failure failure;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs = NULL;
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_TIMES; i++) {
        refused(t, tend_heartbeat(t, &lease, 1, no_times[i], NULL), TEND_EINVAL);
        refused(t, tend_release(t, &lease, 1, no_times[i], NULL, NULL), TEND_EINVAL);
        tend_failure_init(&failure);
        failure.retry_in_ms = no_times[i];
        refused(t, tend_fail(t, lease, &failure, NULL), TEND_EINVAL);
    }
    refused(t, tend_heartbeat(t, &lease, 1, 0, NULL), TEND_EINVAL);
    for (size_t i = 0; i < NO_JSON; i++) {
        refused(t, tend_complete(t, &lease, 1, &no_json[i], NULL), TEND_EINVAL);
        refused(t, tend_complete_and_claim(t, &lease, 1, &no_json[i], NULL, &claim, &jobs, NULL),
                TEND_EINVAL);
    }
    for (size_t i = 0; i < NO_NAMES; i++) {
        refused(t, tend_phase(t, lease, no_names[i]), TEND_EINVAL);
        if (no_names[i] == NULL)
            continue;
        tend_failure_init(&failure);
        failure.error_class = no_names[i];
        refused(t, tend_fail(t, lease, &failure, NULL), TEND_EINVAL);
        tend_failure_init(&failure);
        failure.by = no_names[i];
        refused(t, tend_fail(t, lease, &failure, NULL), TEND_EINVAL);
    }
    check(jobs == NULL);
    check_str(store_snapshot(), before);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

TEST(bad_input, operators)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_acted *acted = NULL;
    int64_t id = add_one(t, "q");
    const char *before = store_snapshot();
    tend_filter_init(&filter);
    for (int action = 4; action < 100; action += 31) {
        refused(t, tend_act(t, (enum tend_action)action, id, NULL, NULL), TEND_EINVAL);
        refused(t, tend_act_on_all(t, (enum tend_action)action, &filter, NULL, NULL, &acted),
                TEND_EINVAL);
    }
    for (size_t i = 1; i < NO_NAMES; i++) {
        refused(t, tend_act(t, TEND_HOLD, id, no_names[i], NULL), TEND_EINVAL);
        refused(t, tend_act_on_all(t, TEND_HOLD, &filter, no_names[i], NULL, &acted), TEND_EINVAL);
    }
    check(acted == NULL);
    check_str(store_snapshot(), before);
    /* A reason is text for people: it is cleaned, not refused. */
    check_ok(t, tend_act(t, TEND_HOLD, id, NULL, "caf\xe9"));
    check_str(last_event_of(t, id)->why, "caf\xef\xbf\xbd");
}

TEST(bad_input, locks)
{
    tend *t = store_open("w");
    struct tend_lock_request request;
    struct tend_lock lock;
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_NAMES; i++) {
        tend_lock_request_init(&request);
        request.name = no_names[i];
        refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
        refused(t, tend_lock_release(t, no_names[i], "a"), TEND_EINVAL);
        refused(t, tend_lock_get(t, no_names[i], &lock), TEND_EINVAL);
        refused(t, tend_lock_extend(t, no_names[i], "a", 1000), TEND_EINVAL);
        refused(t, tend_is_lock_stale(t, no_names[i]), TEND_EINVAL);
        if (no_names[i] == NULL)
            continue;
        request.name = "l";
        request.owner = no_names[i];
        refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
        refused(t, tend_lock_release(t, "l", no_names[i]), TEND_EINVAL);
        refused(t, tend_lock_extend(t, "l", no_names[i], 1000), TEND_EINVAL);
    }
    for (size_t i = 0; i < NO_TIMES; i++) {
        tend_lock_request_init(&request);
        request.name = "l";
        request.ttl_ms = no_times[i];
        refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
        refused(t, tend_lock_extend(t, "l", "a", no_times[i]), TEND_EINVAL);
    }
    tend_lock_request_init(&request);
    request.name = "l";
    request.ttl_ms = 0;
    refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
    tend_lock_request_init(&request);
    request.name = "l";
    request.while_pid = -3;
    refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
    request.while_pid = 0;
    request.wait_ms = -2;
    refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
    request.wait_ms = 0;
    request.flags = TEND_CLAIM_UNSTARTED;
    refused(t, tend_lock_acquire(t, &request, &lock), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

TEST(bad_input, recovery_by_hand)
{
    tend *t = store_open("w");
    struct tend_recovery recovery;
    add_one(t, "q");
    claim_one(t, "q");
    const char *before = store_snapshot();
    refused(t, tend_reclaim_stale(t, -1, &recovery), TEND_EINVAL);
    refused(t, tend_reclaim_stale(t, INT64_MIN, &recovery), TEND_EINVAL);
    refused(t, tend_reclaim_stale(t, INT64_MAX, &recovery), TEND_EINVAL);
    check_str(store_snapshot(), before);
}

TEST(bad_input, queues)
{
    tend *t = store_open("w");
    struct tend_queue queue;
    const struct tend_setting fine[] = {{"paused", "on"}};
    const struct tend_setting no_value[] = {{"concurrency", NULL}};
    const struct tend_setting no_name[] = {{NULL, "1"}};
    const char *before = store_snapshot();
    for (size_t i = 0; i < NO_NAMES; i++) {
        refused(t, tend_queue_set(t, no_names[i], fine, 1, NULL), TEND_EINVAL);
        refused(t, tend_queue_get(t, no_names[i], &queue), TEND_EINVAL);
        if (no_names[i] != NULL)
            refused(t, tend_queue_set(t, "q", fine, 1, no_names[i]), TEND_EINVAL);
    }
    refused(t, tend_queue_set(t, "q", no_value, 1, NULL), TEND_EINVAL);
    refused(t, tend_queue_set(t, "q", no_name, 1, NULL), TEND_EINVAL);
    refused(t, tend_queue_set(t, "q", NULL, 0, NULL), TEND_EINVAL);
    check_str(store_snapshot(), before);
}
