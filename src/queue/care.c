/* Looking after the store: examination and schema. */
#include "base/text.h"
#include "queue/handle.h"
#include "store/queries.h"

#include <stdio.h>
#include <string.h>

struct report {
    void (*report)(void *arg, enum tend_verdict verdict, const char *what, const char *text);
    void *arg;
    int wrong;
};

static void pass_on(void *arg, int verdict, const char *what, const char *text)
{
    struct report *report = arg;
    report->wrong += verdict == TEND_WRONG;
    report->report(report->arg, (enum tend_verdict)verdict, what, text);
}

/* --- migrations --- */

enum { VERSIONS_MAX = 64 };

struct migrations_call {
    const struct db_migration *known;
    int count;
    bool same[VERSIONS_MAX]; /* by version - 1: it ran here as it is known */
};

static int migrations_body(struct db_tx *tx, void *arg)
{
    struct migrations_call *call = arg;
    struct migration_list_rows rows;
    int rc = run_migration_list(tx, DB_LAST, &rows);
    for (size_t i = 0; rc >= 0 && i < rows.count; i++) {
        int64_t version = db_num(rows.at[i].version);
        if (version >= 1 && version <= call->count)
            call->same[version - 1] =
                strcmp(db_str(rows.at[i].checksum), call->known[version - 1].checksum) == 0;
    }
    return rc;
}

/* The first migration after `after` that ran here in another form than it is known in; 0: none. */
static int changed_migration(tend *t, int after, int *ret_version)
{
    struct migrations_call call = {.known = db_migrations(t->db)};
    while (call.known[call.count].sql != NULL && call.count < VERSIONS_MAX)
        call.count++;
    int rc = handle_read(t, migrations_body, &call);
    if (rc < 0)
        return rc;
    while (after < call.count && call.same[after])
        after++;
    *ret_version = after < call.count ? after + 1 : 0;
    return 0;
}

int tend_schema_changed(tend *t, int *ret_version)
{
    int rc = changed_migration(t, 0, ret_version);
    return rc < 0 ? rc : *ret_version != 0;
}

static int look_at_migrations(tend *t, struct report *all)
{
    int version = 0;
    int rc;
    bool same = true;
    while ((rc = changed_migration(t, version, &version)) == 0 && version != 0) {
        char text[256];
        snprintf(text, sizeof text,
                 "migration %d was changed after it had run here: the tables may differ from what "
                 "this tend expects; compare them with those of a new store",
                 version);
        pass_on(all, TEND_WRONG, "migrations", text);
        same = false;
    }
    if (rc == 0 && same)
        pass_on(all, TEND_FINE, "migrations", "all have run as this tend knows them");
    return rc;
}

/* What the store does not let us see is a finding as any other; db_doctor has said why. */
static int note_unseen(int rc, struct report *all, const char *what)
{
    if (rc != TEND_ECORRUPT && rc != TEND_EREADONLY)
        return rc;
    pass_on(all, TEND_WRONG, what,
            rc == TEND_ECORRUPT ? "cannot be read: the store is damaged"
                                : "cannot be read: this role has no permission");
    return 0;
}

static int look_at_recovery(tend *t, struct report *all)
{
    struct tend_recovery stale;
    char text[160];
    int rc = tend_get_recovery_stats(t, &stale);
    if (rc < 0)
        return rc;
    bool clean = stale.entries_reclaimed == 0 && stale.locks_cleaned == 0;
    snprintf(text, sizeof text,
             clean ? "nothing is stale"
                   : "%lld job%s and %lld lock%s are stale; the "
                     "next claim or 'tend heal' recovers them",
             (long long)stale.entries_reclaimed, plural(stale.entries_reclaimed),
             (long long)stale.locks_cleaned, plural(stale.locks_cleaned));
    pass_on(all, clean ? TEND_FINE : TEND_NOTE, "recovery", text);
    return 0;
}

int tend_doctor(tend *t,
                void (*report)(void *arg, enum tend_verdict verdict, const char *what,
                               const char *text),
                void *arg)
{
    struct report all = {.report = report, .arg = arg};
    int rc = db_doctor(t->db, pass_on, &all, handle_err(t));
    if (rc >= 0)
        rc = note_unseen(look_at_migrations(t, &all), &all, "migrations");
    if (rc >= 0)
        rc = note_unseen(look_at_recovery(t, &all), &all, "recovery");
    if (rc < 0)
        return rc;
    return all.wrong;
}

int tend_schema(tend *t, int *ret_store, int *ret_library)
{
    return db_schema_version(t->db, ret_store, ret_library, handle_err(t));
}
