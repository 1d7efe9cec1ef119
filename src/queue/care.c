/* Looking after the store: examination and schema. */
#include "queue/handle.h"

#include <stdio.h>

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

int tend_doctor(tend *t,
                void (*report)(void *arg, enum tend_verdict verdict, const char *what,
                               const char *text),
                void *arg)
{
    struct report all = {.report = report, .arg = arg};
    struct tend_recovery stale;
    int rc = db_doctor(t->db, pass_on, &all, handle_err(t));
    if (rc < 0 || (rc = tend_get_recovery_stats(t, &stale)) < 0)
        return rc;
    char text[160];
    bool clean = stale.entries_reclaimed == 0 && stale.locks_cleaned == 0;
    snprintf(text, sizeof text,
             clean ? "nothing is stale"
                   : "%lld jobs and %lld locks are stale; the "
                     "next claim or 'tend heal' recovers them",
             (long long)stale.entries_reclaimed, (long long)stale.locks_cleaned);
    pass_on(&all, clean ? TEND_FINE : TEND_NOTE, "recovery", text);
    return all.wrong;
}

int tend_schema(tend *t, int *ret_store, int *ret_library)
{
    return db_schema_version(t->db, ret_store, ret_library, handle_err(t));
}
