/* What the store knows about the folders of jobs, for whoever collects what nothing needs. */
#include "queue/keep.h"
#include "queue/registry.h"
#include "queue/settings.h"

#include <string.h>

static int id_body(struct db_tx *tx, void *arg)
{
    struct store_id_rows found;
    int64_t *ret = arg;
    int rc = run_store_id(tx, DB_LAST, &found);
    if (rc >= 0)
        *ret = db_num(found.at[0].token_base);
    return rc;
}

int keep_store_id(tend *t, int64_t *ret)
{
    int64_t id = 0;
    int rc = handle_read(t, id_body, &id);
    if (rc >= 0)
        *ret = id;
    return rc < 0 ? rc : 0;
}

struct look_call {
    tend *t;
    struct arena *arena; /* of the leases */
    struct keep_folder *folders;
    size_t count;
    int64_t now_ms;
    int64_t newest_id; /* that the store has given out */
    bool attended;     /* a lease is */
};

static struct keep_lease *find_lease(struct keep_lease *leases, size_t *count, int64_t token)
{
    for (size_t i = 0; i < *count; i++)
        if (leases[i].token == token)
            return &leases[i];
    leases[*count] = (struct keep_lease){.token = token};
    return &leases[(*count)++];
}

/* An earlier boot of this machine has left nothing that runs. */
static void add_attempt(struct keep_lease *lease, const tend *t,
                        const struct keep_leases_row *attempt)
{
    bool may_live = db_num(attempt->may_live) == 1;
    bool this_host = strcmp(db_str(attempt->host), t->host) == 0;
    bool this_boot = strcmp(db_str(attempt->boot_id), t->boot_id) == 0;
    lease->may_live_here |= may_live && this_host && this_boot;
    lease->may_live_elsewhere |= may_live && !this_host;
    if (may_live && db_num(attempt->worker_id) != 0) {
        lease->attended = true;
        lease->worker_id = db_num(attempt->worker_id);
    }
    if (db_num(attempt->keeps_workspace) != 1)
        return;
    lease->why = keep_why_of_attempt((int)db_num(attempt->state));
    lease->failed_at_ms = lease->why == KEEP_FAILED ? db_num(attempt->ended_at) : 0;
}

static int read_leases(struct db_tx *tx, struct look_call *call, struct keep_folder *folder)
{
    struct keep_leases_rows rows;
    const struct keep_leases_params params = {.job_id = db_int(folder->job_id)};
    int rc = run_keep_leases(tx, 0, params, &rows);
    if (rc < 0 || rows.count == 0)
        return rc;
    struct keep_lease *leases = arena_zalloc(call->arena, rows.count * sizeof *leases);
    if (leases == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading about folders");
    for (size_t i = 0; i < rows.count; i++)
        add_attempt(find_lease(leases, &folder->lease_count, db_num(rows.at[i].token)), call->t,
                    &rows.at[i]);
    for (size_t i = 0; i < folder->lease_count; i++)
        call->attended |= leases[i].attended;
    folder->leases = leases;
    return 0;
}

/* `settings` are those of the job before: many jobs in a row are of one queue. */
static int read_folder(struct db_tx *tx, struct look_call *call, struct keep_folder *folder,
                       struct queue_settings *settings)
{
    struct keep_job_rows found;
    const struct keep_job_params params = {.id = db_int(folder->job_id)};
    *folder = (struct keep_folder){.job_id = folder->job_id,
                                   .job.given = folder->job_id <= call->newest_id};
    int rc = run_keep_job(tx, 0, params, &found);
    if (rc < 0 || found.count == 0)
        return rc;
    const struct keep_job_row *row = &found.at[0];
    const char *queue = db_str(row->queue);
    if (strcmp(settings->queue.name, queue) != 0 &&
        (rc = settings_load(tx, queue, false, settings)) < 0)
        return rc;
    int64_t keep_ms = settings->queue.keep_workspace_ms;
    folder->job = (struct keep_job){.known = true,
                                    .given = true,
                                    .state = (int)db_num(row->state),
                                    .token = db_num(row->token),
                                    .stopped_token = db_num(row->stopped_token),
                                    .changed_at_ms = db_num(row->changed_at),
                                    .poisoned = strcmp(db_str(row->error_class), "poison") == 0,
                                    .keep_ms = keep_ms == TEND_UNSET ? -1 : keep_ms};
    return read_leases(tx, call, folder);
}

static int look_body(struct db_tx *tx, void *arg)
{
    struct look_call *call = arg;
    struct queue_settings settings = {0};
    struct store_newest_id_rows newest;
    int rc = db_time(tx, &call->now_ms);
    if (rc >= 0)
        rc = run_store_newest_id(tx, 0, &newest);
    if (rc >= 0)
        call->newest_id = db_num(newest.at[0].id);
    for (size_t i = 0; rc >= 0 && i < call->count; i++)
        rc = read_folder(tx, call, &call->folders[i], &settings);
    return rc;
}

static bool is_dead(tend *t, const struct registry *registry, int64_t worker_id)
{
    for (size_t i = 0; i < registry->count; i++)
        if (registry->entries[i].id == worker_id)
            return registry_fate(t, &registry->entries[i], registry->now_ms, NULL) == FATE_DEAD;
    return true; /* it has signed off since */
}

/* A worker that was killed stays registered until somebody recovers, and attends to nothing. */
static int forget_dead_workers(const struct look_call *call)
{
    struct registry registry;
    int rc = registry_load(call->t, -1, &registry);
    for (size_t i = 0; rc >= 0 && i < call->count; i++) {
        struct keep_folder *folder = &call->folders[i];
        for (size_t j = 0; j < folder->lease_count; j++)
            if (folder->leases[j].attended)
                folder->leases[j].attended =
                    !is_dead(call->t, &registry, folder->leases[j].worker_id);
    }
    registry_done(&registry);
    return rc;
}

int keep_look(tend *t, struct arena *arena, struct keep_folder *folders, size_t count,
              int64_t *ret_now_ms)
{
    struct look_call call = {.t = t, .arena = arena, .folders = folders, .count = count};
    int rc = attempt_machine(t);
    if (rc == 0)
        rc = handle_read(t, look_body, &call);
    if (rc >= 0 && call.attended)
        rc = forget_dead_workers(&call);
    if (rc >= 0)
        *ret_now_ms = call.now_ms;
    return rc < 0 ? rc : 0;
}

struct note_call {
    int64_t job_id, token;
    const char *workspace;
};

static int note_body(struct db_tx *tx, void *arg)
{
    const struct note_call *call = arg;
    const struct keep_lost_params params = {
        .job_id = db_int(call->job_id),
        .token = db_int(call->token),
        .workspace = db_text(handle_clean_text(db_arena(tx), call->workspace))};
    return run_keep_lost(tx, 0, params);
}

int keep_note_lost(tend *t, int64_t job_id, int64_t token, const char *workspace)
{
    struct note_call call = {job_id, token, workspace};
    return handle_write(t, note_body, &call);
}

struct keep_lease keep_lease_of(const struct keep_folder *folder, int64_t token)
{
    for (size_t i = 0; i < folder->lease_count; i++)
        if (folder->leases[i].token == token)
            return folder->leases[i];
    return (struct keep_lease){.token = token};
}
