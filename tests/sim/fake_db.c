/* The simulated store: transactions and queries (see fake_db.h). */
#include "fake_db.h"

#include "store/sqlite_db.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 7777777, MAX_PARAMS = 32, PART_FAILS = 3000 };

/* One run of a body inside a real transaction. */
struct run {
    struct fake_db *fake;
    db_body *body;
    void *arg;
    bool discard; /* undo it whatever it returns */
    bool unsaved; /* what it wrote cannot be saved */
    int rc;       /* what the body returned */
};

int fake_out_of_reach(struct fake_db *fake, struct err *err)
{
    fake->actor->op.faults++;
    return err_set(err, TEND_EUNREACHABLE, "the store is out of reach (simulated)");
}

static int failed(struct fake_db *fake, struct err *err)
{
    int code = fault_code(fake->world);
    fake->actor->op.faults++;
    say(fake->world, "    fault: fails with %d", code);
    return err_set(err, code, "the store fails (simulated, code %d)", code);
}

/* --- inside a transaction --- */

/* Hands over what was withheld. The error of one of those queries comes out here. */
static int hand_over(struct fake_db *fake)
{
    for (size_t i = 0; i < fake->later_count; i++) {
        struct withheld *one = &fake->later[i];
        if (one->result != NULL)
            *one->result = one->result_value;
        if (one->each != NULL)
            memcpy(one->each, one->each_value, one->count * sizeof *one->each);
        free(one->each_value);
    }
    fake->later_count = 0;
    int rc = fake->late_error;
    fake->late_error = 0;
    return rc;
}

static void withhold_result(struct fake_db *fake, struct db_result *result)
{
    if (result == NULL)
        return;
    expect(fake->world, fake->later_count < MAX_LATER, "too many queries marked DB_LATER");
    fake->later[fake->later_count++] = (struct withheld){.result = result, .result_value = *result};
    *result = (struct db_result){.rows = POISON, .columns = POISON};
}

static void withhold_each(struct fake_db *fake, int64_t *each, size_t count)
{
    if (each == NULL)
        return;
    expect(fake->world, fake->later_count < MAX_LATER, "too many queries marked DB_LATER");
    int64_t *value = malloc(count * sizeof *value);
    memcpy(value, each, count * sizeof *value);
    fake->later[fake->later_count++] =
        (struct withheld){.each = each, .each_value = value, .count = count};
    for (size_t i = 0; i < count; i++)
        each[i] = POISON;
}

static bool is_recovery(enum db_query query)
{
    return query == Q_LOCK_EXPIRED || query == Q_JOB_ALARMS || query == Q_JOB_DUE ||
           query == Q_SCHEDULE_DUE || query == Q_LOCK_CLEAN || query == Q_JOB_MOVE;
}

/* A fault inside the transaction: the query fails, or the actor ends. */
static int strike_inside(struct fake_db *fake, struct db_tx *tx, enum db_query query)
{
    struct world *world = fake->world;
    fake->queries++;
    world->calls++;
    if (query == Q_LOCK_ACQUIRE || query == Q_LOCK_FREE || query == Q_LOCK_EXTEND)
        fake->actor->op.asks_for_lock = true;
    if (query == Q_QUEUE_GET)
        fake->actor->op.asks_for_jobs = true;
    if (fake->actor->dead)
        return fake_out_of_reach(fake, tx->err);
    if (fake->fail_at != 0 && fake->fail_at == fake->queries)
        return err_set(tx->err, TEND_EBUSY, "contention (simulated)");
    switch (fault_choose(world, fake->writing ? IN_WRITE : IN_READ)) {
    case FAULT_CRASH:
        say(world, "    fault: %s ends at %s", fake->actor->name, db_query_texts[query].name);
        world_crash(world, fake->actor);
        return fake_out_of_reach(fake, tx->err);
    case FAULT_FAIL: {
        int rc = failed(fake, tx->err);
        fake->actor->op.fault_in_recovery = is_recovery(query) && rc != TEND_EUNREACHABLE;
        return rc;
    }
    case FAULT_JUMP:
        fault_jump(world, fake->actor);
        return 0;
    case FAULT_SLEEP:
        fault_sleep(world, fake->actor);
        return 0;
    case FAULT_STALL: /* in a read: readers keep nobody waiting */
        fault_stall(world, fake->actor);
        return 0;
    case FAULT_FORK:
        fault_fork(world, fake->actor, false);
        return 0;
    default:
        return 0;
    }
}

/* Before each query: order, faults, and the error of an earlier one that comes out now. */
static int enter(struct fake_db *fake, struct db_tx *tx, enum db_query query, unsigned how)
{
    expect(fake->world, !fake->last_seen, "%s is run after a query marked DB_LAST",
           db_query_texts[query].name);
    int rc = strike_inside(fake, tx, query);
    if (rc < 0 && (how & DB_LATER) != 0 && fake->late_error == 0)
        fake->late_error = rc;
    return rc;
}

/* After each query: what is due is handed over, what is not is withheld. */
static int leave(struct fake_db *fake, unsigned how, int rc)
{
    if (!fake->world->postgres) {
        if ((how & DB_LATER) != 0)
            return 0; /* an error too comes later */
        int late = hand_over(fake);
        rc = late < 0 ? late : rc;
    }
    fake->last_seen = (how & DB_LAST) != 0 && rc >= 0;
    return rc;
}

static void own_params(struct fake_db *fake, enum db_query query, const struct db_value *params,
                       size_t count, struct db_value *copy)
{
    size_t width = (size_t)db_query_texts[query].params;
    if (width > 0)
        memcpy(copy, params, width * count * sizeof *copy);
    if (query == Q_WORKER_ADD) {
        copy[3] = db_int(1000 + fake->actor->number); /* a pid that is the same in every run ... */
        copy[4] = db_int(1);                          /* ... in a pid namespace that is not ours */
    }
    sabotage_params(fake->world, query, copy, width, count);
}

/*
 * PostgreSQL commits along with the last query, which must not happen when all is to be undone; and
 * it shows a result marked DB_LATER too late to be tampered with.
 */
static unsigned real_how(const struct fake_db *fake, unsigned how)
{
    if (fake->world->sabotage != SABOTAGE_NONE)
        how &= ~(unsigned)DB_LATER;
    return fake->discard ? how & ~(unsigned)DB_LAST : how;
}

static int fake_run(struct db_tx *tx, enum db_query query, unsigned how,
                    const struct db_value *params, struct db_result *result)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    struct db_value copy[MAX_PARAMS];
    int rc = enter(fake, tx, query, how);
    if (rc < 0) {
        if (result != NULL && (how & DB_LATER) != 0)
            *result = (struct db_result){0};
        return leave(fake, how, rc);
    }
    own_params(fake, query, params, 1, copy);
    tx->db = fake->real;
    /* Not this one: the model's table of workers goes by their ids, which have to stay small. */
    if (query != Q_WORKER_SKIP_IDS)
        rc = fake->real->engine->run(tx, query, real_how(fake, how), copy, result);
    tx->db = &fake->base;
    if (rc < 0 && (how & DB_LATER) != 0)
        fake->late_error = rc;
    if (rc == 0 && result != NULL)
        sabotage_result(fake->world, fake->actor, query, result, tx->arena);
    rc = leave(fake, how, rc);
    if (rc == 0 && (how & DB_LATER) != 0 && !fake->world->postgres)
        withhold_result(fake, result);
    return rc;
}

static int fake_each(struct db_tx *tx, enum db_query query, unsigned how,
                     const struct db_value *params, size_t count, int64_t *ret_each)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    size_t width = (size_t)db_query_texts[query].params;
    int rc = enter(fake, tx, query, how);
    if (rc < 0)
        return leave(fake, how, rc);
    struct db_value *copy = arena_alloc(tx->arena, (count * width + 1) * sizeof *copy);
    own_params(fake, query, params, count, copy);
    if (sabotage_forgets(fake->world, query)) {
        for (size_t i = 0; ret_each != NULL && i < count; i++)
            ret_each[i] = 1;
    } else {
        tx->db = fake->real;
        rc = fake->real->engine->each(tx, query, real_how(fake, how), copy, count, ret_each);
        tx->db = &fake->base;
    }
    if (rc < 0 && (how & DB_LATER) != 0)
        fake->late_error = rc;
    rc = leave(fake, how, rc);
    if (rc == 0 && (how & DB_LATER) != 0 && !fake->world->postgres)
        withhold_each(fake, ret_each, count);
    return rc;
}

/* A part of a body inside the savepoint of the real engine. */
struct part {
    struct fake_db *fake;
    db_body *body;
    void *arg;
};

static int run_part(struct db_tx *tx, void *arg)
{
    struct part *part = arg;
    tx->db = &part->fake->base;
    int rc = part->body(tx, part->arg);
    int late = hand_over(part->fake);
    expect(part->fake->world, !part->fake->last_seen, "a part ends with a query marked DB_LAST");
    tx->db = part->fake->real;
    return late < 0 ? late : rc;
}

static int fake_attempt(struct db_tx *tx, db_body *body, void *arg, bool *ret_undone)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    struct part part = {.fake = fake, .body = body, .arg = arg};
    int rc = hand_over(fake);
    if (rc < 0)
        return rc;
    int fail_at = fake->fail_at;
    if (fail_at == 0 && fake->world->rates.fail_inside > 0 && chance(fake->world, PART_FAILS))
        fake->fail_at = fake->queries + (int)between(fake->world, 1, 6);
    tx->db = fake->real;
    rc = fake->real->engine->attempt(tx, run_part, &part, ret_undone);
    tx->db = &fake->base;
    fake->fail_at = fail_at;
    if (*ret_undone)
        say(fake->world, "    fault: a part is undone");
    return rc;
}

/* On PostgreSQL it is a query like others. */
static int fake_begin_generation(struct db_tx *tx, int64_t first_id, int64_t token_base)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    tx->db = fake->real;
    int rc = fake->real->engine->begin_generation(tx, first_id, token_base);
    tx->db = &fake->base;
    return rc;
}

static int fake_time(struct db_tx *tx, int64_t *ret_ms)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    tx->db = fake->real;
    int rc = fake->real->engine->time(tx, ret_ms);
    tx->db = &fake->base;
    return rc;
}

static int fake_owed(struct db_tx *tx, struct db_owed *ret)
{
    struct fake_db *fake = (struct fake_db *)tx->db;
    if (fake->real->engine->owed == NULL)
        return 0;
    tx->db = fake->real;
    int rc = fake->real->engine->owed(tx, ret);
    tx->db = &fake->base;
    return rc;
}

/* --- transactions --- */

static void note_clocks(struct fake_db *fake, const struct db_tx *tx)
{
    const struct world *world = fake->world;
    fake->at = (struct clock_mark){.wall_ms = world->clock_ms,
                                   .awake_ms = world->awake_ms,
                                   .slept_ms = world->slept_ms,
                                   .store_ms = tx->now.number};
}

/* The simulated failures are SQLite's, not the body's own: the engine asks its connection. */
static void blame_sqlite(const struct fake_db *fake, struct db_tx *tx, int rc)
{
    if (!fake->world->postgres && (rc == TEND_EFULL || rc == TEND_EIO || rc == TEND_EREADONLY))
        ((struct sqlite_tx *)tx)->conn->unwritable = true;
}

/* The body between the real engine's begin and commit. */
static int run_body(struct db_tx *tx, void *arg)
{
    struct run *run = arg;
    struct fake_db *fake = run->fake;
    fake->actor->op.asks_for_lock = fake->actor->op.asks_for_jobs = false;
    fake->last_seen = false;
    fake->queries = 0;
    fake->late_error = 0;
    fake->later_count = 0;
    fake->discard = run->discard || run->unsaved;
    note_clocks(fake, tx);
    tx->db = &fake->base;
    int rc = run->body(tx, run->arg);
    int late = hand_over(fake);
    tx->db = fake->real;
    if (late < 0)
        rc = late;
    /* A read that finds nothing has nothing to undo. */
    expect(fake->world, !fake->last_seen || rc >= 0 || !fake->writing || fake->actor->op.faults > 0,
           "a body fails with %d after a query marked DB_LAST", rc);
    fake->now = tx->now;
    fake->ring = tx->ring;
    run->rc = rc;
    if (run->discard && rc >= 0)
        return TEND_EBUSY;
    if (fake->actor->dead)
        return TEND_EUNREACHABLE;
    if (run->unsaved && rc >= 0)
        rc = err_set(tx->err, TEND_EFULL, "nothing can be saved (simulated)");
    blame_sqlite(fake, tx, rc);
    return rc;
}

/* The body is run and undone once before it counts, as after contention between two transactions.
 */
static void run_in_vain(struct fake_db *fake, struct arena *arena, db_body *body, void *arg)
{
    struct run run = {.fake = fake, .body = body, .arg = arg, .discard = true};
    struct err ignored;
    fake->fail_at = chance(fake->world, 5000) ? (int)between(fake->world, 1, 4) : 0;
    say(fake->world, "    fault: runs twice (fails at query %d)", fake->fail_at);
    fake->world->quiet = true;
    fake->real->engine->write(fake->real, arena, run_body, &run, &ignored);
    fake->world->quiet = false;
    fake->fail_at = 0;
    model_no_commit(fake->world, fake->actor, fake->now.number);
}

/* As the engine sees it: rows written, undone ones too. */
static int count_changes(const struct fake_db *fake)
{
    return fake->world->postgres
               ? 0
               : sqlite3_total_changes(((struct sqlite_db *)fake->real)->writer.sqlite);
}

static int commit(struct fake_db *fake, struct arena *arena, db_body *body, void *arg,
                  struct err *err)
{
    struct world *world = fake->world;
    struct run run = {
        .fake = fake, .body = body, .arg = arg, .unsaved = world->frozen && !world->quiet};
    fake->actor->op.faults += run.unsaved;
    if (sabotage_forgets_commit(world)) {
        run.discard = true;
        fake->real->engine->write(fake->real, arena, run_body, &run, err);
        return run.rc;
    }
    int changes = count_changes(fake);
    fake->writing = true;
    int rc = fake->real->engine->write(fake->real, arena, run_body, &run, err);
    fake->writing = false;
    fake->changed = count_changes(fake) != changes;
    if (rc < 0) {
        model_not_saved(world, fake->actor, rc);
        sabotage_not_saved(world);
        model_no_commit(world, fake->actor, fake->now.number);
        return rc;
    }
    for (int i = 0; world->sabotage != SABOTAGE_BELL_SILENT && i < DB_BELLS; i++)
        world->rings[i] += fake->ring >> i & 1;
    sabotage_commit(world);
    model_commit(world, fake->actor, fake->now.number);
    return rc;
}

static int after_commit(struct fake_db *fake, int rc, struct err *err)
{
    struct world *world = fake->world;
    switch (fault_choose(world, AFTER_WRITE)) {
    case FAULT_CRASH:
        say(world, "    fault: %s ends after the commit", fake->actor->name);
        world_crash(world, fake->actor);
        return fake_out_of_reach(fake, err);
    case FAULT_LOST:
        say(world, "    fault: the answer to %s is lost", fake->actor->name);
        return fake_out_of_reach(fake, err);
    case FAULT_STALL:
        fault_stall(world, fake->actor);
        return rc;
    case FAULT_FORK:
        fault_fork(world, fake->actor, true);
        return rc;
    default:
        return rc;
    }
}

int fake_before(struct fake_db *fake, enum point point, bool *ret_again, struct err *err)
{
    struct world *world = fake->world;
    world->calls++;
    if (fake->actor->dead)
        return fake_out_of_reach(fake, err);
    switch (fault_choose(world, point)) {
    case FAULT_CRASH:
        say(world, "    fault: %s ends before the call", fake->actor->name);
        world_crash(world, fake->actor);
        return fake_out_of_reach(fake, err);
    case FAULT_FAIL:
        return failed(fake, err);
    case FAULT_STALL:
        fault_stall(world, fake->actor);
        return 0;
    case FAULT_JUMP:
        fault_jump(world, fake->actor);
        return 0;
    case FAULT_SLEEP:
        fault_sleep(world, fake->actor);
        return 0;
    case FAULT_FREEZE:
        world->frozen = true;
        return 0;
    case FAULT_FORK:
        fault_fork(world, fake->actor, true);
        return 0;
    case FAULT_AGAIN:
        *ret_again = true;
        return 0;
    default:
        return 0;
    }
}

static int fake_write(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    bool again = false;
    bool frozen = fake->world->frozen;
    int rc = fake_before(fake, BEFORE_WRITE, &again, err);
    if (rc < 0)
        return rc;
    if (again)
        run_in_vain(fake, arena, body, arg);
    rc = commit(fake, arena, body, arg, err);
    if (fake->world->frozen && !frozen) /* it begins here, and lasts */
        fault_freeze(fake->world, fake->actor);
    if (fake->actor->dead)
        return fake_out_of_reach(fake, err);
    return rc < 0 ? rc : after_commit(fake, rc, err);
}

static int fake_read(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    bool again = false;
    int rc = fake_before(fake, BEFORE_READ, &again, err);
    if (rc < 0)
        return rc;
    struct run run = {.fake = fake, .body = body, .arg = arg};
    rc = fake->real->engine->read(fake->real, arena, run_body, &run, err);
    return fake->actor->dead ? fake_out_of_reach(fake, err) : rc;
}

/* --- the rest --- */

static int fake_schema_version(struct db *db, int *ret_store, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    return fake->real->engine->schema_version(fake->real, ret_store, err);
}

static int fake_doctor(struct db *db, void (*report)(void *, int, const char *, const char *),
                       void *arg, struct err *err)
{
    struct fake_db *fake = (struct fake_db *)db;
    return fake->real->engine->doctor(fake->real, report, arg, err);
}

static void fake_close(struct db *db)
{
    struct fake_db *fake = (struct fake_db *)db;
    struct world *world = fake->world;
    world->idle[world->idle_count++] = fake->real;
    free(fake);
}

struct fake_db *fake_db_new(struct world *world, struct actor *actor, struct db *real)
{
    struct fake_db *fake = calloc(1, sizeof *fake);
    fake->engine = (struct db_engine){
        .close = fake_close,
        .write = fake_write,
        .read = fake_read,
        .run = fake_run,
        .each = fake_each,
        .attempt = fake_attempt,
        .time = fake_time,
        .owed = fake_owed,
        .begin_generation = real->engine->begin_generation == NULL ? NULL : fake_begin_generation,
        .bell = fake_bell,
        .wait = fake_wait,
        .mono_ms = fake_mono_ms,
        .interrupt = fake_interrupt,
        .watch = fake_watch,
        .alive_begin = fake_alive_begin,
        .alive_end = fake_alive_end,
        .alive_buried = fake_alive_buried,
        .alive_deny = fake_alive_deny,
        .alive_check = fake_alive_check,
        .schema_version = fake_schema_version,
        .doctor = fake_doctor,
        .migrations = real->engine->migrations,
        .alive_grace_ms = world->grace_ms,
        .alarm_interval_ms = real->engine->alarm_interval_ms,
        .one_machine = real->engine->one_machine,
        .concurrent = real->engine->concurrent,
    };
    fake->base.engine = &fake->engine;
    fake->real = real;
    fake->world = world;
    fake->actor = actor;
    return fake;
}
