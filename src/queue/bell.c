#include "queue/bell.h"

#include <string.h>

uint64_t bell_of_lock(const char *name)
{
    static const char prefix[] = "queue:";
    bool of_queue = strncmp(name, prefix, sizeof prefix - 1) == 0;
    return db_bell_of(of_queue ? name + sizeof prefix - 1 : name);
}

void bell_remember(tend *t, const struct tend_jobs *jobs)
{
    uint64_t bell = jobs->count == 0 ? 0 : db_bell_of(jobs->items[0].queue); /* of one claim */
    for (size_t i = 0; i < jobs->count; i++) {
        size_t place = (size_t)jobs->items[i].id % BELLS_KEPT;
        t->bells[place].job_id = jobs->items[i].id;
        t->bells[place].bell = bell;
    }
}

uint64_t bell_of_leases(tend *t, const struct tend_lease *leases, size_t count)
{
    uint64_t bells = 0;
    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < count; i++) {
        size_t place = (size_t)leases[i].id % BELLS_KEPT;
        bells |= t->bells[place].job_id == leases[i].id ? t->bells[place].bell : DB_BELLS_ALL;
    }
    pthread_mutex_unlock(&t->mutex);
    return bells;
}

int bell_ask(struct db_tx *tx, const struct tend_lease *leases, size_t count, uint64_t *bells,
             struct db_result *ret)
{
    *ret = (struct db_result){0};
    if (*bells != DB_BELLS_ALL || count != 1)
        return 0;
    *bells = 0;
    const struct db_value params[] = {db_int(leases[0].id)};
    return db_run(tx, Q_JOB_QUEUE, DB_LATER, params, ret);
}

void bell_ring_asked(struct db_tx *tx, const struct db_result *asked)
{
    if (asked->rows > 0)
        db_ring(tx, db_bell_of(db_string(asked, 0, 0)));
}
