/* BY-3: whenever automation gives a job up, each hook that listens adds one job of its own, in the
 * transaction of that ending. */
#include "steps.h"

#include <jansson.h>
#include <pthread.h>

static const char *const plan = "{\"exec\":[\"tell\",\"ops\"],\"env\":{\"TO\":\"ops\"}}";

static struct tend_hook hook_on(const char *name, const char *on)
{
    return (struct tend_hook){.name = name, .on = on, .queue = "told", .payload = plan};
}

static void put(tend *t, const char *name, const char *on)
{
    const struct tend_hook hook = hook_on(name, on);
    check_ok(t, tend_hook_put(t, &hook, "ann"));
}

/* How many jobs hooks have added. */
static int64_t told(void)
{
    return sql_int("SELECT count(*) FROM job WHERE queue = 'told'");
}

static int fail(tend *t, struct tend_lease lease, int final)
{
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.error_class = "deterministic_policy";
    failure.text = "no \"right\" to do so";
    failure.final = final;
    return tend_fail(t, lease, &failure, NULL);
}

static struct tend_lease lease_new(tend *t, const char *queue)
{
    add_one(t, queue);
    return claim_one(t, queue);
}

/* The newest job of a hook: its payload. Freed when the test ends, with its process. */
static json_t *newest_payload(tend *t)
{
    int64_t id = sql_int("SELECT max(id) FROM job WHERE queue = 'told'");
    const struct tend_job *job = job_of(t, id);
    json_t *payload = json_loadb(job->payload, job->payload_bytes, 0, NULL);
    check(payload != NULL);
    return payload;
}

static const char *member(const json_t *payload, const char *object, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(payload, object), name));
    return text != NULL ? text : "(none)";
}

TEST(hook, the_job_of_a_hook_has_its_folder)
{
    tend *t = store_open("a");
    struct tend_hook hook = hook_on("ops", "failed");
    struct tend_hooks *all;
    hook.workspace = "/srv/hooks";
    check_ok(t, tend_hook_put(t, &hook, "ann"));
    check_ok(t, tend_hook_list(t, &all));
    check_str(all->items[0].workspace, "/srv/hooks");
    check_str(all->items[0].by, "ann");
    tend_hooks_free(all);
    check_ok(t, fail(t, lease_new(t, "q"), 1));
    check_str(job_of(t, sql_int("SELECT max(id) FROM job WHERE queue = 'told'"))->workspace,
              "/srv/hooks");
    hook.workspace = NULL;
    check_ok(t, tend_hook_put(t, &hook, "ann"));
    check_ok(t, fail(t, lease_new(t, "q"), 1));
    check(job_of(t, sql_int("SELECT max(id) FROM job WHERE queue = 'told'"))->workspace == NULL);
    hook.workspace = "/srv/\xff";
    check_int(tend_hook_put(t, &hook, "ann"), ==, TEND_EINVAL);
}

TEST(hook, BY_3_a_job_that_fails_for_good_adds_the_job_of_its_hook)
{
    tend *t = store_open("w");
    put(t, "ops", "failed");
    struct tend_job_spec spec = spec_for("q");
    spec.kind = "deploy";
    int64_t id = add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 1);
    json_t *payload = newest_payload(t);
    check_str(member(payload, "env", "TO"), "ops");
    check_str(member(payload, "env", "TEND_NOTIFY_ON"), "failed");
    check_str(member(payload, "env", "TEND_NOTIFY_JOB"), keep_text("%lld", (long long)id));
    check_str(member(payload, "env", "TEND_NOTIFY_ENDING"),
              keep_text("%lld:%lld", (long long)id, (long long)lease.token));
    check_str(member(payload, "env", "TEND_NOTIFY_QUEUE"), "q");
    check_str(member(payload, "env", "TEND_NOTIFY_KIND"), "deploy");
    check_str(member(payload, "env", "TEND_NOTIFY_STATE"), "failed");
    check_str(member(payload, "env", "TEND_NOTIFY_CLASS"), "deterministic_policy");
    check_str(member(payload, "env", "TEND_NOTIFY_TEXT"), "no \"right\" to do so");
    check_str(member(payload, "env", "TEND_NOTIFY_ATTEMPTS"), "1");
    check_str(member(payload, "env", "TEND_NOTIFY_AT"), "2023-11-14T22:13:20.000Z");
    check_str(member(payload, "notify", "text"), "no \"right\" to do so");
    check_int(json_integer_value(json_object_get(json_object_get(payload, "notify"), "job")), ==,
              id);
    json_decref(payload);
    const struct tend_job *added = job_of(t, sql_int("SELECT id FROM job WHERE queue = 'told'"));
    check_int(added->state, ==, TEND_PENDING);
    check_str(added->kind, "shell");
    check_str(added->tags, "[\"notify:ops\"]");
    check_str(last_event_of(t, added->id)->who, "hook:ops");
}

TEST(hook, BY_3_a_failure_that_is_tried_again_calls_nobody)
{
    tend *t = store_open("w");
    put(t, "ops", "failed,poison,exhausted");
    check_ok(t, fail(t, lease_new(t, "q"), 0));
    check_int(told(), ==, 0);
    clock_advance(HOUR_MS);
    check_ok(t, fail(t, claim_one(t, "q"), 0));
    clock_advance(HOUR_MS);
    check_int(told(), ==, 0);
    check_ok(t, fail(t, claim_one(t, "q"), 0));
    check_int(told(), ==, 1);
}

TEST(hook, BY_3_a_repeated_report_adds_nothing)
{
    tend *t = store_open("w");
    put(t, "ops", "failed");
    struct tend_lease lease = lease_new(t, "q");
    check_ok(t, fail(t, lease, 1));
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 1);
    /* A job that is brought back and fails again has ended a second time. */
    check_ok(t, tend_act(t, TEND_REDRIVE, lease.id, NULL, NULL));
    check_int(fail(t, lease, 1), <, 0);
    check_int(told(), ==, 1);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 2);
}

TEST(hook, BY_3_an_ending_that_is_not_saved_calls_nobody)
{
    tend *t = store_open("w");
    put(t, "ops", "failed");
    struct tend_lease lease = lease_new(t, "q");
    sql_forbid_move(TEND_RUNNING, TEND_FAILED);
    check_int(fail(t, lease, 1), <, 0);
    check_int(told(), ==, 0);
    check_int(state_of(t, lease.id), ==, TEND_RUNNING);
}

/* One that cannot be added takes the ending with it: nothing is given up in silence. */
TEST(hook, BY_3_an_ending_whose_hook_cannot_be_called_is_not_saved)
{
    tend *t = store_open("w");
    put(t, "ops", "failed");
    struct tend_lease lease = lease_new(t, "q");
    sql_forbid_jobs("NEW.queue = 'told'");
    check_int(fail(t, lease, 1), <, 0);
    check_int(state_of(t, lease.id), ==, TEND_RUNNING);
    sql_allow_jobs();
    check_ok(t, fail(t, lease, 1));
    check_int(state_of(t, lease.id), ==, TEND_FAILED);
    check_int(told(), ==, 1);
}

TEST(hook, BY_3_jobs_that_complete_release_or_are_cancelled_call_nobody)
{
    tend *t = store_open("w");
    put(t, "ops", "failed,poison,exhausted");
    struct tend_lease lease = lease_new(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    lease = lease_new(t, "q");
    check_ok(t, tend_release(t, &lease, 1, 0, NULL, NULL));
    check_ok(t, tend_act(t, TEND_CANCEL, lease.id, NULL, NULL));
    check_int(told(), ==, 0);
}

TEST(hook, BY_3_a_quarantined_job_calls_those_who_listen_for_poison_and_for_failures)
{
    tend *t = store_open("w");
    put(t, "poison", "poison");
    put(t, "failed", "failed");
    put(t, "exhausted", "exhausted");
    struct tend_job_spec spec = spec_for("q");
    spec.max_crashes = 1;
    spec.lease_ms = 1000;
    int64_t first = add_spec(t, &spec);
    int64_t second = add_spec(t, &spec);
    struct tend_claim claim = claim_for("q");
    claim.count = 2;
    claim.flags = TEND_CLAIM_BY_TIME;
    struct tend_jobs *jobs;
    check_int(tend_claim_jobs(t, &claim, &jobs, NULL), ==, 2);
    tend_jobs_free(jobs);
    clock_advance(1000);
    check_int(recover_now(t).entries_quarantined, ==, 2);
    check_int(state_of(t, first), ==, TEND_FAILED);
    check_int(state_of(t, second), ==, TEND_FAILED);
    check_str(sql_rows("SELECT tags, count(*) FROM job WHERE queue = 'told' GROUP BY tags "
                       "ORDER BY tags"),
              "[\"notify:failed\"]|2\n[\"notify:poison\"]|2\n");
    json_t *payload = newest_payload(t);
    check_str(member(payload, "notify", "on"), "poison");
    check_str(member(payload, "notify", "class"), "poison");
    check_contains(member(payload, "notify", "text"), "its worker was lost 1 time");
    json_decref(payload);
    recover_now(t);
    check_int(told(), ==, 4);
}

/* A step that is given up with this verdict; the queue may try the job again. */
static struct tend_lease give_up(tend *t, const char *verdict, int final)
{
    struct tend_lease lease = lease_with_steps(t, THREE_STEPS);
    struct tend_attempt_end ended = end_of(begin_step(t, lease, 1, "build"), TEND_ATTEMPT_FAILED);
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.final = final;
    ended.failure_class = "transient_runtime";
    ended.verdict = verdict;
    const struct tend_step_change change = {.ended = &ended};
    const struct tend_step_close close = {.how = TEND_STEPS_FAIL, .failure = &failure};
    check_ok(t, tend_step_finish(t, lease, &change, &close, NULL));
    check_ok(t, tend_step_finish(t, lease, &change, &close, NULL)); /* a repeated report */
    return lease;
}

TEST(hook, BY_3_a_step_that_is_exhausted_is_told_although_the_queue_tries_the_job_again)
{
    tend *t = store_open("w");
    put(t, "used-up", "exhausted");
    give_up(t, "failed", 0);
    check_int(told(), ==, 0);
    struct tend_lease lease = give_up(t, "exhausted", 0);
    check_int(state_of(t, lease.id), ==, TEND_SCHEDULED);
    check_int(told(), ==, 1);
    json_t *payload = newest_payload(t);
    check_str(member(payload, "notify", "on"), "exhausted");
    check_str(member(payload, "notify", "state"), "scheduled");
    json_decref(payload);
}

TEST(hook, BY_3_one_ending_is_told_once_to_a_hook_that_listens_for_all)
{
    tend *t = store_open("w");
    put(t, "ops", "exhausted,failed,poison");
    give_up(t, "exhausted", 1);
    check_int(told(), ==, 1);
    json_t *payload = newest_payload(t);
    check_str(member(payload, "notify", "on"), "failed");
    json_decref(payload);
}

TEST(hook, BY_3_a_hook_hears_of_its_queue_alone)
{
    tend *t = store_open("w");
    struct tend_hook hook = hook_on("mail", "failed");
    hook.for_queue = "mail";
    check_ok(t, tend_hook_put(t, &hook, NULL));
    check_ok(t, fail(t, lease_new(t, "q"), 1));
    check_int(told(), ==, 0);
    check_ok(t, fail(t, lease_new(t, "mail"), 1));
    check_int(told(), ==, 1);
}

/* It would call itself for ever. */
TEST(hook, BY_3_the_job_of_a_hook_that_fails_calls_no_hook)
{
    tend *t = store_open("w");
    put(t, "ops", "failed,poison,exhausted");
    check_ok(t, fail(t, lease_new(t, "q"), 1));
    check_int(told(), ==, 1);
    struct tend_lease lease = claim_one(t, "told");
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 1);
    check_ok(t, tend_act(t, TEND_REDRIVE, lease.id, NULL, NULL));
    check_ok(t, fail(t, claim_one(t, "told"), 1));
    check_int(told(), ==, 1);
}

/* The run ends and a submission becomes a job, in the same transaction as the call. */
TEST(hook, BY_3_a_run_that_a_submission_waits_for_calls_hooks_too)
{
    tend *t = store_open("w");
    put(t, "ops", "failed");
    struct tend_job_spec spec = spec_for("q");
    spec.unique_key = "k";
    int64_t id = add_spec(t, &spec);
    struct tend_lease lease = claim_one(t, "q");
    struct tend_added added;
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_AGAIN);
    check_ok(t, fail(t, lease, 1));
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_int(told(), ==, 1);
    check_int(sql_int("SELECT count(*) FROM job WHERE queue = 'q'"), ==, 2);
}

TEST(hook, hooks_are_replaced_listed_and_removed_with_events)
{
    tend *t = store_open("w");
    struct tend_hooks *hooks;
    put(t, "z", "failed");
    put(t, "a", "exhausted,failed");
    put(t, "z", "poison");
    check_ok(t, tend_hook_list(t, &hooks));
    check_int(hooks->count, ==, 2);
    check_str(hooks->items[0].name, "a");
    check_str(hooks->items[0].on, "failed,exhausted");
    check(hooks->items[0].for_queue == NULL);
    check_str(hooks->items[0].queue, "told");
    check_str(hooks->items[0].payload, plan);
    check_int(hooks->items[0].at_ms, ==, CLOCK_START_MS);
    check_str(hooks->items[0].by, "ann");
    check_str(hooks->items[1].on, "poison");
    tend_hooks_free(hooks);
    check_ok(t, tend_hook_remove(t, "z", "ben"));
    check_rc(t, tend_hook_remove(t, "z", "ben"), TEND_ENOTFOUND);
    check_contains(tend_errmsg(t), "there is no hook 'z'");
    check_str(sql_rows("SELECT what, who, why FROM event ORDER BY id"),
              "hook.set|ann|z\nhook.set|ann|a\nhook.set|ann|z\nhook.removed|ben|z\n");
    check_ok(t, fail(t, lease_new(t, "q"), 1));
    check_int(told(), ==, 1);
}

TEST(hook, the_jobs_go_to_the_hooks_queue_else_to_the_default)
{
    tend *t = store_open("w");
    struct tend_hook hook = hook_on("a", "failed");
    hook.queue = NULL;
    check_ok(t, tend_hook_put(t, &hook, NULL));
    hook.name = "b";
    hook.for_queue = "mail";
    check_ok(t, tend_hook_put(t, &hook, NULL));
    check_str(sql_rows("SELECT name, queue FROM hook ORDER BY name"), "a|default\nb|mail\n");
}

TEST(hook, what_is_no_hook_is_refused)
{
    tend *t = store_open("w");
    struct tend_hook hook = hook_on("a", "fail");
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "failed, poison or exhausted");
    hook.on = "failed,";
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    hook.on = NULL;
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    hook = hook_on("a", "failed");
    hook.payload = "{\"Run\":\"make\"}";
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    check_contains(tend_errmsg(t), "did you mean");
    hook.payload = NULL;
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    hook = hook_on("", "failed");
    check_rc(t, tend_hook_put(t, &hook, NULL), TEND_EINVAL);
    check_int(sql_int("SELECT count(*) FROM hook"), ==, 0);
}

/* A long error has to fit into an environment. */
TEST(hook, a_very_long_error_is_cut_for_the_hook)
{
    static char text[200000];
    tend *t = store_open("w");
    struct tend_failure failure;
    put(t, "ops", "failed");
    memset(text, 'x', sizeof text - 1);
    tend_failure_init(&failure);
    failure.text = text;
    failure.final = 1;
    check_ok(t, tend_fail(t, lease_new(t, "q"), &failure, NULL));
    json_t *payload = newest_payload(t);
    check_int(strlen(member(payload, "env", "TEND_NOTIFY_TEXT")), <, 5000);
    json_decref(payload);
}

/* --- a hook that cannot be used --- */

/* Its ending was rolled back for ever. */
TEST(hook, BY_3_a_hook_that_was_damaged_is_skipped_and_the_ending_stands)
{
    static const char *const damages[] = {"payload = '{'", "payload = '[]'",
                                          "payload = '{\"env\":1}'", "queue = ''",
                                          "on_what = 'failed,never'"};
    tend *t = store_open("w");
    put(t, "good", "failed");
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        put(t, "bad", "failed");
        sql_exec("UPDATE hook SET %s WHERE name = 'bad'", damages[i]);
        struct tend_lease lease = lease_new(t, "q");
        check_ok(t, fail(t, lease, 1));
        check_ok(t, fail(t, lease, 1));
        check_int(state_of(t, lease.id), ==, TEND_FAILED);
        check_int(told(), ==, (long long)i + 1);
        check_int(count_events("hook.skipped"), ==, (long long)i + 1);
        check_contains(
            sql_rows("SELECT why FROM event WHERE what = 'hook.skipped' ORDER BY id DESC"),
            keep_text("hook 'bad' cannot be used and was not called for job %lld: ",
                      (long long)lease.id));
    }
}

/* --- what is done in the job of a hook --- */

static tend *open_in_hook(const char *hook)
{
    struct tend_options options = store_options("in-hook");
    options.hook = hook;
    return store_open_with(&options);
}

TEST(hook, BY_3_a_job_added_in_the_job_of_a_hook_calls_no_hook)
{
    tend *t = store_open("w");
    tend *inside = open_in_hook("ops");
    put(t, "ops", "failed");
    add_one(inside, "q");
    struct tend_lease lease = claim_one(t, "q");
    check_str(job_of(t, lease.id)->hook, "ops");
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 0);
}

/* A hook that retries what has failed ran for ever. */
TEST(hook, BY_3_a_job_retried_in_the_job_of_a_hook_calls_none_until_somebody_else_retries_it)
{
    tend *t = store_open("w");
    tend *inside = open_in_hook("ops");
    put(t, "ops", "failed");
    struct tend_lease lease = lease_new(t, "q");
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 1);
    check_ok(t, tend_act(inside, TEND_REDRIVE, lease.id, NULL, NULL));
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 1);
    struct tend_filter filter = {.queue = "q"};
    check_int(act_on_all(inside, TEND_REDRIVE, &filter, NULL, NULL), ==, 1);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 1);
    check_ok(t, tend_act(t, TEND_REDRIVE, lease.id, NULL, NULL));
    check(job_of(t, lease.id)->hook == NULL);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 2);
}

/* Under a key: what was submitted during a run keeps its mark, and nobody else's job gets one. */
TEST(hook, BY_3_a_submission_of_a_hook_is_told_from_those_of_others)
{
    tend *t = store_open("w");
    tend *inside = open_in_hook("ops");
    struct tend_added added;
    struct tend_job_spec spec = spec_for("q");
    put(t, "ops", "failed");
    spec.unique_key = "k";
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_add(inside, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    check(job_of(t, id)->hook == NULL);
    struct tend_lease lease = claim_one(t, "q");
    check_ok(t, tend_add(inside, &spec, &added));
    check_int(added.outcome, ==, TEND_AGAIN);
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 1);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 1);
    add_spec(inside, &spec);
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 2);
}

/* Symptom: what a hook had retried stayed the hook's although somebody else submitted it again. */
TEST(hook, BY_3_what_somebody_else_submits_again_is_no_hook_s_any_more)
{
    tend *t = store_open("w");
    tend *inside = open_in_hook("ops");
    struct tend_added added;
    struct tend_job_spec spec = spec_for("q");
    put(t, "ops", "failed");
    spec.unique_key = "k";
    int64_t id = add_spec(t, &spec);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 1);
    check_ok(t, tend_act(inside, TEND_REDRIVE, id, NULL, NULL));
    check_ok(t, tend_add(t, &spec, &added));
    check_int(added.outcome, ==, TEND_REFRESHED);
    struct tend_lease lease = claim_one(t, "q");
    /* While it runs, a hook submits over what somebody else has submitted. */
    check_ok(t, tend_add(t, &spec, &added));
    check_ok(t, tend_add(inside, &spec, &added));
    check_ok(t, fail(t, lease, 1));
    check_int(told(), ==, 2);
    check_ok(t, fail(t, claim_one(t, "q"), 1));
    check_int(told(), ==, 3);
}

/* --- many at once --- */

enum { THREADS = 6, JOBS_EACH = 40 };

static void *fail_many(void *arg)
{
    tend *t = arg;
    struct tend_lease leases[4];
    size_t got;
    while ((got = claim_many(t, "q", 4, leases)) > 0)
        for (size_t i = 0; i < got; i++) {
            check_ok(t, fail(t, leases[i], 1));
            check_ok(t, fail(t, leases[i], 1));
        }
    return NULL;
}

TEST_WITHIN(hook, BY_3_many_that_fail_at_once_are_each_told_once, 120)
{
    pthread_t threads[THREADS];
    tend *t = store_open_real("all");
    put(t, "ops", "failed");
    put(t, "more", "failed");
    add_number(t, "q", (size_t)THREADS * JOBS_EACH);
    for (int i = 0; i < THREADS; i++)
        check_int(pthread_create(&threads[i], NULL, fail_many,
                                 i % 2 == 0 ? t : store_open_real(keep_text("own-%d", i))),
                  ==, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_int(told(), ==, 2 * THREADS * JOBS_EACH);
}
