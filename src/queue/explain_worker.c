/* Who could work on a job, and whether who does is alive; as far as the store and the kernel know.
 */
#include "queue/explain.h"
#include "queue/registry.h"

#include <string.h>

static const struct registry_entry *entry_of(const struct registry *registry, int64_t worker_id)
{
    for (size_t i = 0; i < registry->count; i++)
        if (registry->entries[i].id == worker_id)
            return &registry->entries[i];
    return NULL;
}

/* What was said of its doing is replaced: nobody is at it any more. */
static void explain_dead(struct explain_call *call, const struct registry_entry *entry)
{
    char rest[sizeof call->out.text];
    const struct tend_explanation *out = &call->out;
    snprintf(rest, sizeof rest, "%s", out->text + call->told_bytes);
    SAY(call, "Its worker (pid %lld on %s) is dead; the next claim takes the job back.",
        (long long)entry->process.pid, entry->host);
    if (out->step_id[0] != '\0')
        explain_add(call, " It was at step %lld (%s), attempt %lld.", (long long)out->step_index,
                    out->step_id, (long long)out->attempt);
    explain_add(call, "%s", rest);
    explain_because(call, "worker_dead", entry->name, call->out.until_ms);
    explain_take_back(call);
}

/* Its liveness lock is gone: after the grace it is taken for dead. */
static void explain_silent(tend *t, struct explain_call *call, const struct registry_entry *entry)
{
    char left[DURATION_TEXT_BYTES];
    char gone[DURATION_TEXT_BYTES];
    bool noted = entry->lost_at_ms != TEND_UNSET;
    int64_t dead_ms = (noted ? entry->lost_at_ms : call->now_ms) + db_alive_grace_ms(t->db);
    explain_add(call,
                " But the connection of that worker (pid %lld on %s) is gone%s%s: unless it comes "
                "back in %s, it is taken for dead and the job given to others.",
                (long long)entry->process.pid, entry->host, noted ? " for " : "",
                noted ? span_text(call->now_ms - entry->lost_at_ms, gone) : "",
                explain_left(call, dead_ms, left));
    explain_because(call, "worker_silent", entry->name, dead_ms);
}

/* expired: its lease is, and what takes the job back has been said. */
static void explain_stopped(struct explain_call *call, const struct registry_entry *entry,
                            bool expired)
{
    long long pid = (long long)entry->process.pid;
    size_t used = expired ? strlen(call->out.hint) : 0;
    explain_add(call, "%s process of that worker (pid %lld) is stopped.",
                expired ? " The" : " But the", pid);
    explain_because(call, "worker_stopped", entry->name, call->out.until_ms);
    snprintf(call->out.hint + used, sizeof call->out.hint - used,
             expired ? " 'kill -CONT %lld' continues its worker."
                     : "'kill -CONT %lld' continues it.",
             pid);
}

static void explain_holder(tend *t, struct explain_call *call, const struct registry *registry)
{
    const struct registry_entry *entry = entry_of(registry, call->worker_id);
    bool expired = call->out.until_ms <= call->now_ms;
    if (entry == NULL)
        return;
    if (expired) { /* the rest of it is explained already */
        if (registry_is_stopped(entry))
            explain_stopped(call, entry, true);
        return;
    }
    enum fate fate = registry_fate(t, entry, registry->now_ms, NULL);
    if (fate == FATE_DEAD)
        explain_dead(call, entry);
    else if (fate == FATE_LOST || (fate == FATE_ALIVE && entry->lost_at_ms != TEND_UNSET))
        explain_silent(t, call, entry);
    else if (registry_is_stopped(entry))
        explain_stopped(call, entry, false);
}

/* Which queues and kinds a worker serves it tells nobody, and who claims by the hour is not seen.
 */
static void explain_lack(tend *t, struct explain_call *call, const struct registry *registry)
{
    size_t alive = 0;
    for (size_t i = 0; i < registry->count; i++)
        alive += registry_fate(t, &registry->entries[i], registry->now_ms, NULL) != FATE_DEAD;
    if (alive > 0) {
        explain_add(call, " %zu worker%s alive: busy, or not for this queue or kind.", alive,
                    alive == 1 ? " is" : "s are");
        if (call->is_plan)
            HINT(call, "'tend workers' shows who is there.");
        else
            explain_hint_at_handler(call);
        return;
    }
    call->out.no_worker = 1;
    explain_add(call, registry->count == 0 ? " No worker is there."
                                           : " No worker is there: all that were are dead.");
    if (call->is_plan)
        HINT(call, "'tend work -q %.160s' in another terminal runs it.", call->queue);
    else
        explain_hint_at_handler(call);
}

int explain_workers(tend *t, struct explain_call *call)
{
    struct registry registry;
    bool runs = call->out.state == TEND_RUNNING && call->worker_id != TEND_UNSET;
    bool could = strcmp(call->out.reason, "ready") == 0 || strcmp(call->out.reason, "behind") == 0;
    if (!runs && !could)
        return 0;
    int rc = registry_load(t, -1, &registry);
    if (rc >= 0 && runs)
        explain_holder(t, call, &registry);
    else if (rc >= 0)
        explain_lack(t, call, &registry);
    registry_done(&registry);
    return rc < 0 ? rc : 0;
}
