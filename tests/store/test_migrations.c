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
