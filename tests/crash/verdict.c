#include "verdict.h"
#include "actor.h"
#include "ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    int64_t id, token;
};

struct pairs {
    struct pair *items;
    size_t count;
};

static int compare(const void *left, const void *right)
{
    const struct pair *a = left;
    const struct pair *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

/* The rows of a query of one or two numbers, sorted. */
static struct pairs query_pairs(const char *sql)
{
    const char *text = sql_rows("%s", sql);
    struct pairs pairs = {0};
    for (const char *at = text; *at != '\0'; at++)
        pairs.count += *at == '\n';
    pairs.items = calloc(pairs.count + 1, sizeof *pairs.items);
    const char *at = text;
    for (size_t i = 0; i < pairs.count; i++) {
        char *end;
        pairs.items[i].id = strtoll(at, &end, 10);
        if (*end == '|')
            pairs.items[i].token = strtoll(end + 1, &end, 10);
        at = strchr(end, '\n') + 1;
    }
    qsort(pairs.items, pairs.count, sizeof *pairs.items, compare);
    return pairs;
}

static struct pairs ledger_pairs(const char *name)
{
    struct pairs pairs = {0};
    struct ledger_entry *entries = ledger_read(test_folder(), name, &pairs.count);
    if (entries == NULL)
        test_fail(__FILE__, __LINE__, "the ledger %s cannot be read", name);
    pairs.items = calloc(pairs.count + 1, sizeof *pairs.items);
    for (size_t i = 0; i < pairs.count; i++)
        pairs.items[i] = (struct pair){.id = entries[i].id, .token = entries[i].token};
    free(entries);
    qsort(pairs.items, pairs.count, sizeof *pairs.items, compare);
    return pairs;
}

/* Every one of the first is among the second, of which what names them. Frees both. */
static void check_subset(struct pairs some, struct pairs all, const char *what)
{
    for (size_t i = 0; i < some.count; i++) {
        test_count_check();
        if (bsearch(&some.items[i], all.items, all.count, sizeof *all.items, compare) == NULL)
            test_fail(__FILE__, __LINE__, "%s: %" PRId64 ":%" PRId64 " is missing", what,
                      some.items[i].id, some.items[i].token);
    }
    free(some.items);
    free(all.items);
}

int64_t verdict_open_jobs(void)
{
    return sql_int("SELECT count(*) FROM job WHERE state IN (0, 1, 2)");
}

void verdict_acked_are_there(void)
{
    struct pairs acked = ledger_pairs("acked");
    for (size_t i = 1; i < acked.count; i++)
        check_int(acked.items[i].id, >, acked.items[i - 1].id); /* no id was given twice */
    check_subset(acked, query_pairs("SELECT id FROM job"), "jobs that were acknowledged");
}

/* A call whose answer was lost is not simply made again. */
void verdict_none_was_added_twice(void)
{
    check_str(sql_rows("SELECT kind, count(*) FROM job GROUP BY kind HAVING count(*) > 1 LIMIT 5"),
              "");
}

void verdict_completions_are_there(void)
{
    check_subset(ledger_pairs("completed"),
                 query_pairs("SELECT job_id, token FROM event WHERE what = 'job.completed'"),
                 "completions that were acknowledged");
    check_subset(query_pairs("SELECT job_id, token FROM event WHERE what = 'job.completed'"),
                 ledger_pairs("effects"), "work behind completions of the record");
}

size_t verdict_late_completions(void)
{
    struct pairs late = ledger_pairs("refused");
    struct pairs all = query_pairs("SELECT job_id, token FROM event WHERE what = 'job.completed'");
    size_t count = late.count;
    for (size_t i = 0; i < count; i++)
        check(bsearch(&late.items[i], all.items, all.count, sizeof *all.items, compare) == NULL);
    free(late.items);
    free(all.items);
    return count;
}

int64_t verdict_only_killed_are_dead(void)
{
    const char *text = sql_rows("SELECT why FROM event WHERE what = 'worker.died'");
    struct pairs killed = ledger_pairs("killed");
    int64_t count = 0;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, count++) {
        struct pair dead = {0};
        const char *name = strstr(at, "actor ");
        check(name != NULL && name < strchr(at, '\n'));
        /* NOLINTNEXTLINE(cert-err34-c): as crowd.c names them */
        check_int(sscanf(name, "actor %" SCNd64, &dead.id), ==, 1);
        test_count_check();
        if (bsearch(&dead, killed.items, killed.count, sizeof dead, compare) == NULL)
            test_fail(__FILE__, __LINE__, "was not killed: %.*s", (int)strcspn(at, "\n"), at);
    }
    free(killed.items);
    return count;
}

/* A change and its event are one; nothing of either is there without the other. */
void verdict_record_is_whole(void)
{
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.added'"), ==,
              sql_int("SELECT count(*) FROM job"));
    check_subset(query_pairs("SELECT id FROM job"),
                 query_pairs("SELECT job_id FROM event WHERE what = 'job.added'"),
                 "events of jobs that were added");
    check_int(sql_int("SELECT count(*) FROM job j LEFT JOIN event e ON e.id = j.event_id "
                      "WHERE e.id IS NULL OR e.job_id <> j.id OR e.to_state <> j.state"),
              ==, 0);
    check_int(sql_int("SELECT count(*) FROM event e JOIN event p ON p.id = e.prev "
                      "WHERE p.job_id <> e.job_id OR p.id >= e.id OR p.to_state <> e.from_state"),
              ==, 0);
    check_int(sql_int("SELECT count(*) FROM (SELECT prev FROM event WHERE prev IS NOT NULL "
                      "GROUP BY prev HAVING count(*) > 1) AS forks"),
              ==, 0);
}

/* LS-1, RC-12: what is charged is what happened. */
static void check_charges(void)
{
    check_int(sql_int("SELECT coalesce(sum(crashes), 0) FROM job"), ==,
              count_events("job.recovered"));
    check_int(sql_int("SELECT coalesce(sum(attempts), 0) FROM job"), ==,
              count_events("job.completed") + count_events("job.retry_scheduled"));
}

static void check_done_once(void)
{
    check_str(sql_rows("SELECT state, count(*) FROM job WHERE state <> 4 GROUP BY state"), "");
    check_str(sql_rows("SELECT job_id, count(*) FROM event WHERE what = 'job.completed' "
                       "GROUP BY job_id HAVING count(*) <> 1 LIMIT 5"),
              "");
    check_int(sql_int("SELECT count(*) FROM event WHERE what = 'job.completed'"), ==,
              sql_int("SELECT count(*) FROM job"));
    check_subset(query_pairs("SELECT id FROM job"),
                 query_pairs("SELECT job_id FROM event WHERE what = 'job.completed'"),
                 "completions of jobs");
}

/* Events of the queue in order: what is claimed ends before the next is claimed. */
void verdict_serial_queue_was_serial(void)
{
    const char *text = sql_rows("SELECT job_id, from_state, to_state FROM event "
                                "WHERE queue = '%s' AND (from_state = 2 OR to_state = 2) "
                                "AND from_state <> to_state ORDER BY id",
                                SERIAL_QUEUE);
    int64_t running = 0;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        long long id = 0;
        int from = 0;
        int to = 0;
        /* NOLINTNEXTLINE(cert-err34-c): numbers of the database */
        check_int(sscanf(at, "%lld|%d|%d", &id, &from, &to), ==, 3);
        check_int(running, ==, to == TEND_RUNNING ? 0 : id);
        running = to == TEND_RUNNING ? id : 0;
    }
}

/* Events come in an order in which none is ever inserted before one that was read. */
void verdict_follower_saw_everything(void)
{
    size_t count;
    struct ledger_entry *entries = ledger_read(test_folder(), "followed", &count);
    check(entries != NULL);
    for (size_t i = 1; i < count; i++)
        check_int(entries[i].id, >, entries[i - 1].id);
    free(entries);
    struct pairs all = query_pairs("SELECT id FROM event");
    check_int(count, ==, all.count);
    check_subset(all, ledger_pairs("followed"), "events seen by one who reads along");
}

void verdict_nothing_is_held(tend *t)
{
    struct tend_recovery recovery;
    check_ok(t, tend_detect_and_recover_stale(t, &recovery));
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 0);
    check_str(sql_rows("SELECT name, owner FROM lock WHERE owner IS NOT NULL"), "");
    check_str(sql_rows("SELECT id, name, pid FROM worker"), "");
}

static void show_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    (void)arg;
    if (verdict == TEND_WRONG)
        printf("# doctor: %s: %s\n", what, text);
}

void verdict_store_is_sound(tend *t)
{
    check_int(tend_doctor(t, show_finding, NULL), ==, 0);
    if (!store_is_postgres())
        check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}

int64_t verdict_all_done_once(tend *t)
{
    verdict_store_is_sound(t);
    verdict_record_is_whole();
    check_done_once();
    check_charges();
    verdict_acked_are_there();
    verdict_none_was_added_twice();
    verdict_completions_are_there();
    verdict_nothing_is_held(t);
    return sql_int("SELECT count(*) FROM job");
}
