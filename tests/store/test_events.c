/* Events: who, what, from, to, why, in the transaction of the change; in order, whole, and paged.
 */
#include "support/store.h"

#include <string.h>

static size_t page_since(tend *t, int64_t after, size_t limit, struct tend_events **ret)
{
    check_ok(t, tend_events_since(t, after, limit, ret));
    return (*ret)->count;
}

TEST(events, every_move_of_a_job_leaves_who_what_from_to_and_why)
{
    tend *t = store_open("w");
    struct tend_events *events;
    struct tend_failure failure;
    tend_failure_init(&failure);
    failure.text = "broken";
    failure.retry_in_ms = 0;
    struct tend_job_spec spec = spec_for("q");
    spec.by = "adder";
    int64_t id = add_spec(t, &spec);
    check_ok(t, tend_fail(t, claim_as(t, "q", "first"), &failure, NULL));
    struct tend_lease lease = claim_as(t, "q", "second");
    check_ok(t, tend_act(t, TEND_HOLD, id, "op", "look"));
    check_ok(t, tend_act(t, TEND_RESUME, id, "op", NULL));
    lease = claim_as(t, "q", "third");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    const struct {
        const char *who, *what, *owner, *why;
        int from, to;
    } expected[] = {
        {"adder", "job.added", NULL, NULL, -1, TEND_PENDING},
        {"first", "job.claimed", "first", NULL, TEND_PENDING, TEND_RUNNING},
        {"first", "job.retry_scheduled", "first", "broken", TEND_RUNNING, TEND_SCHEDULED},
        {"w", "job.due", NULL, NULL, TEND_SCHEDULED, TEND_PENDING},
        {"second", "job.claimed", "second", NULL, TEND_PENDING, TEND_RUNNING},
        {"op", "job.held", "second", "look", TEND_RUNNING, TEND_HELD},
        {"op", "job.resumed", NULL, NULL, TEND_HELD, TEND_PENDING},
        {"third", "job.claimed", "third", NULL, TEND_PENDING, TEND_RUNNING},
        {"third", "job.completed", "third", NULL, TEND_RUNNING, TEND_DONE},
    };
    check_ok(t, tend_job_events(t, id, &events));
    check_int(events->count, ==, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < events->count; i++) {
        const struct tend_event *event = &events->items[i];
        check_str(event->who, expected[i].who);
        check_str(event->what, expected[i].what);
        check_str(event->owner, expected[i].owner);
        check_str(event->why, expected[i].why);
        check_int(event->from_state, ==, expected[i].from);
        check_int(event->to_state, ==, expected[i].to);
        check_int(event->job_id, ==, id);
        check_str(event->queue, "q");
        check_int(event->at_ms, ==, clock_now());
    }
    tend_events_free(events);
}

TEST(events, they_come_in_order_page_by_page_without_gap_or_overlap)
{
    tend *t = store_open("w");
    struct tend_events *page;
    int64_t after = 0;
    size_t seen = 0;
    add_number(t, "q", 55);
    claim_many(t, "q", 55, NULL);
    while (page_since(t, after, 20, &page) > 0) {
        check_int(page->count, <=, 20);
        for (size_t i = 0; i < page->count; i++) {
            check_int(page->items[i].id, >, after);
            after = page->items[i].id;
        }
        seen += page->count;
        tend_events_free(page);
    }
    tend_events_free(page);
    check_int(seen, ==, sql_int("SELECT count(*) FROM event"));
    int64_t last = -1;
    check_ok(t, tend_last_event(t, &last));
    check_int(last, ==, after);
}

/* After a restore numbers go on far above: "events -n 3" showed fewer than three. */
TEST(events, the_last_ones_are_found_across_gaps_in_their_numbers)
{
    tend *t = store_open("w");
    struct tend_events *page;
    int64_t after = -1;
    check_ok(t, tend_events_tail(t, 3, &after));
    check_int(after, ==, 0); /* there are none */
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = "l";
    int64_t last = 0;
    add_number(t, "q", 3);
    for (int i = 0; i < 3; i++)
        check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_ok(t, tend_last_event(t, &last));
    sql_exec("DELETE FROM event WHERE id IN (%lld, %lld)", (long long)last - 1,
             (long long)last - 2);
    check_ok(t, tend_events_tail(t, 3, &after));
    check_int(page_since(t, after, 10, &page), ==, 3);
    tend_events_free(page);
    check_ok(t, tend_events_tail(t, 100, &after));
    check_int(after, <, sql_int("SELECT min(id) FROM event"));
    check_rc(t, tend_events_tail(t, -1, &after), TEND_EINVAL);
}

TEST(events, an_empty_store_has_none)
{
    tend *t = store_open("w");
    struct tend_events *page;
    int64_t last = -1;
    check_ok(t, tend_last_event(t, &last));
    check_int(last, ==, 0);
    check_int(page_since(t, 0, 10, &page), ==, 0);
    tend_events_free(page);
}

TEST(events, a_job_that_is_not_there_has_no_history)
{
    tend *t = store_open("w");
    struct tend_events *events;
    check_ok(t, tend_job_events(t, 4711, &events));
    check_int(events->count, ==, 0);
    tend_events_free(events);
}

/* Symptom: a job that was purged had no history, though its events are kept for 30 days. */
TEST(events, a_job_that_was_deleted_keeps_its_history_as_long_as_its_events_are_kept)
{
    tend *t = store_open("w");
    set_queue(t, "q", "keep-done", "0s");
    int64_t id = add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    add_one(t, "q");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
    clock_advance(1);
    struct tend_purged purged;
    check_ok(t, tend_purge(t, &purged));
    check_int(purged.jobs, ==, 1);
    check_str(events_of(t, id), "job.added job.claimed job.completed");
    sql_exec("DELETE FROM event WHERE id <= %lld", (long long)id);
    check_str(events_of(t, id), "job.claimed job.completed");
}

TEST(events, the_histories_of_two_jobs_do_not_mix)
{
    tend *t = store_open("w");
    int64_t one = add_one(t, "q");
    int64_t two = add_one(t, "q");
    struct tend_lease first = claim_one(t, "q");
    struct tend_lease second = claim_one(t, "q");
    check_ok(t, tend_phase(t, first, "a"));
    check_ok(t, tend_phase(t, second, "b"));
    check_ok(t, tend_complete(t, &second, 1, NULL, NULL));
    check_ok(t, tend_phase(t, first, "c"));
    check_str(events_of(t, one), "job.added job.claimed job.phase job.phase");
    check_str(events_of(t, two), "job.added job.claimed job.phase job.completed");
}

/* The change and its event are one: when the event cannot be written, the change has not happened.
 */
TEST(events, a_change_whose_event_cannot_be_written_does_not_happen)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    if (store_is_postgres())
        sql_exec("CREATE FUNCTION no_event() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN RAISE EXCEPTION 'no event today'; END$$;"
                 "CREATE TRIGGER no_event BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION "
                 "no_event()");
    else
        sql_exec("CREATE TRIGGER no_event BEFORE INSERT ON event "
                 "BEGIN SELECT RAISE(ABORT, 'no event today'); END");
    const char *before = store_snapshot();
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    check_int(tend_add(t, &spec, &added), <, 0);
    check_int(tend_complete(t, &lease, 1, NULL, NULL), <, 0);
    check_int(tend_release(t, &lease, 1, 0, NULL, NULL), <, 0);
    check_int(tend_act(t, TEND_CANCEL, lease.id, NULL, NULL), <, 0);
    check_int(tend_phase(t, lease, "x"), <, 0);
    check_str(store_snapshot(), before);
    sql_exec(store_is_postgres() ? "DROP TRIGGER no_event ON event" : "DROP TRIGGER no_event");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

TEST(events, workers_queues_locks_and_schedules_leave_theirs)
{
    tend *t = store_open("w");
    struct tend_schedule schedule;
    struct tend_lock_request request;
    tend_schedule_init(&schedule);
    schedule.name = "s";
    schedule.cron = "@daily";
    check_ok(t, tend_schedule_put(t, &schedule, "op"));
    set_queue(t, "q", "concurrency", "2");
    tend_lock_request_init(&request);
    request.name = "l";
    check_ok(t, tend_lock_acquire(t, &request, NULL));
    check_int(tend_lock_release(t, "l", NULL), ==, 1);
    store_close(t);
    check_int(count_events("worker.joined"), ==, 1);
    check_int(count_events("worker.left"), ==, 1);
    check_int(count_events("lock.acquired"), ==, 1);
    check_int(count_events("lock.released"), ==, 1);
    check_int(count_events("schedule.put"), ==, 1);
    check_str(sql_rows("SELECT who, queue, why FROM event WHERE what = 'queue.set'"),
              "operator|q|concurrency=2\n");
}

TEST(events, ids_are_never_given_twice_even_when_a_call_failed_in_between)
{
    tend *t = store_open("w");
    tend *other = store_open("v");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    int64_t last = 0;
    spec.unique_key = "k";
    spec.subject = "one";
    add_spec(t, &spec);
    spec.subject = "two";
    for (int i = 0; i < 10; i++) {
        tend *turn = i % 2 == 0 ? t : other;
        check_rc(turn, tend_add(turn, &spec, &added), TEND_ECONFLICT);
        int64_t id = add_one(turn, "p");
        check_int(id, >, last);
        last = id;
    }
}
