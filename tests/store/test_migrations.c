/* Migrations are remembered with what they said, and one that was edited later is noticed. */
#include "store/db_engine.h"
#include "support/store.h"

#include <stdio.h>
#include <string.h>

static const struct db_migration *known(void)
{
    return store_is_postgres() ? db_migrations_postgres : db_migrations_sqlite;
}

struct findings {
    int wrong;
    char text[4096];
};

static void note_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    struct findings *findings = arg;
    size_t used = strlen(findings->text);
    if (strcmp(what, "migrations") != 0)
        return;
    findings->wrong += verdict == TEND_WRONG;
    snprintf(findings->text + used, sizeof findings->text - used, "%s\n", text);
}

static struct findings doctor(tend *t)
{
    struct findings findings = {0};
    check_int(tend_doctor(t, note_finding, &findings), >=, findings.wrong);
    return findings;
}

TEST(migrations, a_new_store_has_a_row_for_each_and_is_found_fine)
{
    tend *t = store_open("w");
    int version;
    int count = 0;
    for (; known()[count].sql != NULL; count++)
        check_int(sql_int("SELECT count(*) FROM migration WHERE version = %d AND checksum = '%s'",
                          count + 1, known()[count].checksum),
                  ==, 1);
    check_int(sql_int("SELECT count(*) FROM migration"), ==, count);
    check_int(tend_schema_changed(t, &version), ==, 0);
    struct findings findings = doctor(t);
    check_int(findings.wrong, ==, 0);
    check_contains(findings.text, "as this tend knows them");
}

/* A migration was edited after stores had run it, and nothing could tell. */
TEST(migrations, one_that_was_changed_after_it_had_run_is_told)
{
    tend *t = store_open("w");
    int version;
    sql_exec("UPDATE migration SET checksum = '0123456789abcdef' WHERE version IN (3, 4)");
    check_int(tend_schema_changed(t, &version), ==, 1);
    check_int(version, ==, 3);
    struct findings findings = doctor(t);
    check_int(findings.wrong, ==, 2);
    check_contains(findings.text, "migration 3 was changed after it had run here");
    check_contains(findings.text, "migration 4 was changed after it had run here");
    add_one(t, "q"); /* only told: opening and working go on */
    store_close(t);
    store_open("w");
}

TEST(migrations, the_checksum_is_of_the_exact_text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    char hex[17];
    for (const char *at = known()[0].sql; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    check_str(known()[0].checksum, hex);
}

/* --- workers of an older tend --- */

/* As the tend before the last migration has left it. */
static void make_older(void)
{
    static const char *const columns[][2] = {
        {"attempt", "retryable"},       {"attempt", "warnings"},        {"attempt", "failures"},
        {"attempt", "outside"},         {"attempt", "next_at"},         {"attempt", "workspace"},
        {"queue", "step_pause_ms"},     {"queue", "step_pause_max_ms"}, {"queue", "retry_classes"},
        {"queue", "keep_workspace_ms"}, {"schedule", "workspace"},      {"job", "hook"},
        {"job", "retry_hook"},          {"submission", "hook"},         {"store", "counted_to"}};
    sql_exec("DROP INDEX job_scheduled");
    sql_exec("DROP TABLE attempt_patch");
    sql_exec("DROP TABLE edit");
    sql_exec("DROP TABLE hook");
    sql_exec("DROP TABLE event_total");
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        sql_exec("ALTER TABLE %s DROP COLUMN %s", columns[i][0], columns[i][1]);
    if (store_is_postgres())
        sql_exec("DROP FUNCTION events_within");
    sql_exec("DELETE FROM migration WHERE version = 5");
}

static void set_version(int version)
{
    sql_exec(store_is_postgres() ? "UPDATE tend_schema_version SET version = %d"
                                 : "PRAGMA user_version = %d",
             version);
}

static int try_open(int beside_workers, const char **ret_sentence)
{
    struct tend_options options = store_options("newer");
    tend *t;
    options.beside_workers = beside_workers;
    int rc = tend_open(&t, store_url(), &options);
    *ret_sentence = keep_text("%s", tend_errmsg(t));
    tend_close(t);
    return rc;
}

static void work_until_told(struct helper *parent, void *arg)
{
    tend *t = store_open("old-timer");
    (void)arg;
    add_one(t, "q");
    claim_one(t, "q");
    helper_say(parent, 1);
    helper_hear(parent);
}

/* A worker of an older tend went on after 'tend jobs' of a newer one had changed the schema, and
 * called no hooks. */
TEST(migrations, an_older_schema_stays_while_workers_live_by_it)
{
    const char *sentence;
    store_close(store_open("maker"));
    struct helper worker = helper_start(work_until_told, NULL);
    helper_hear(&worker);
    make_older();
    set_version(4);
    check_int(try_open(0, &sentence), ==, TEND_ESTATE);
    check_contains(sentence, "old-timer (pid ");
    check_contains(sentence, keep_text("(pid %d on ", (int)worker.pid));
    check_contains(sentence, "stop them and run 'tend migrate'");
    check_int(sql_int("SELECT count(*) FROM migration"), ==, 4);
    helper_kill(&worker);
    wait_until(try_open(0, &sentence) == 0, PATIENCE_MS);
    check_int(sql_int("SELECT count(*) FROM migration"), ==, 5);
}

TEST(migrations, an_older_schema_is_changed_beside_workers_on_request)
{
    const char *sentence;
    store_close(store_open("maker"));
    struct helper worker = helper_start(work_until_told, NULL);
    helper_hear(&worker);
    make_older();
    set_version(4);
    check_int(try_open(1, &sentence), ==, 0);
    check_int(sql_int("SELECT count(*) FROM migration"), ==, 5);
    helper_kill(&worker);
}

/* From now on a worker notices it: it finishes what it has, and claims nothing more. */
TEST(migrations, a_worker_whose_store_has_become_newer_claims_nothing_more)
{
    tend *t = store_open("w");
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    add_number(t, "q", 2);
    struct tend_lease lease = claim_one(t, "q");
    set_version(99);
    recover_now(t);
    check_int(tend_claim_jobs(t, &claim, &jobs, NULL), ==, TEND_ESCHEMA);
    check_contains(tend_errmsg(t), "schema 99");
    check_contains(tend_errmsg(t), "use a newer tend");
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}
