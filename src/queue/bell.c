#include "queue/bell.h"

#include <string.h>

uint64_t bell_of_lock(const char *name)
{
    static const char prefix[] = "queue:";
    bool of_queue = strncmp(name, prefix, sizeof prefix - 1) == 0;
    return db_bell_of(of_queue ? name + sizeof prefix - 1 : name);
}

/* How long a plain lease may end unheard. */
enum { QUIET_MS = 1000 };

void bell_remember(tend *t, const struct tend_jobs *jobs, bool plain)
{
    int64_t quiet_until_ms = plain ? db_mono_ms(t->db) + QUIET_MS : 0;
    uint64_t bell = jobs->count == 0 ? 0 : db_bell_of(jobs->items[0].queue); /* of one claim */
    for (size_t i = 0; i < jobs->count; i++) {
        size_t place = (size_t)jobs->items[i].id % BELLS_KEPT;
        t->bells[place].job_id = jobs->items[i].id;
        t->bells[place].bell = bell;
        t->bells[place].quiet_until_ms = quiet_until_ms;
        t->bells[place].settings_changes = t->settings_changes;
    }
}

/* now_ms: when they end; INT64_MAX: none of them is quiet. */
static uint64_t bells_at(tend *t, const struct tend_lease *leases, size_t count, int64_t now_ms)
{
    uint64_t bells = 0;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < count; i++) {
        size_t place = (size_t)leases[i].id % BELLS_KEPT;
        if (t->bells[place].job_id != leases[i].id)
            bells = DB_BELLS_ALL;
        else if (now_ms >= t->bells[place].quiet_until_ms ||
                 t->bells[place].settings_changes != t->settings_changes)
            bells |= t->bells[place].bell;
    }
    pthread_mutex_unlock(&t->mutex);
    return bells;
}

uint64_t bell_of_leases(tend *t, const struct tend_lease *leases, size_t count)
{
    return bells_at(t, leases, count, INT64_MAX);
}

uint64_t bell_of_ends(tend *t, const struct tend_lease *leases, size_t count)
{
    return bells_at(t, leases, count, db_mono_ms(t->db));
}

int bell_ask(struct db_tx *tx, const struct tend_lease *leases, size_t count, uint64_t *bells,
             struct job_queue_rows *ret)
{
    *ret = (struct job_queue_rows){0};
    if (*bells != DB_BELLS_ALL || count != 1)
        return 0;
    *bells = 0;
    return run_job_queue(tx, DB_LATER, (struct job_queue_params){.id = db_int(leases[0].id)}, ret);
}

void bell_ring_asked(struct db_tx *tx, const struct job_queue_rows *asked)
{
    if (asked->count > 0)
        db_ring(tx, db_bell_of(db_str(asked->at[0].queue)));
}
