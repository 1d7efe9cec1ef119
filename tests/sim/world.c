/* One history: actors come, act, crash and go over one store. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const queue_names[QUEUE_COUNT] = {
    [Q_PLAIN] = "plain", [Q_SERIAL] = "serial", [Q_LIMITED] = "limited",
    [Q_KEYED] = "keyed", [Q_RATED] = "rated",
};

const char *const lock_names[LOCK_NAMES] = {
    "red",          "green",         "blue",        "queue:plain",
    "queue:serial", "queue:limited", "queue:keyed", "queue:rated",
};

const int64_t schedule_period_ms = 600000;
const char *const schedule_names[SCHEDULES] = {"tick", "tock"};

#define DAY_MS (24LL * 3600 * 1000)
#define FIRST_START_MS 1700006400000LL /* 2023-11-15 00:00 UTC */

/* --- chance and words --- */

int64_t between(struct world *world, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(&world->rng, (uint64_t)(high - low + 1));
}

bool chance(struct world *world, int in_10000)
{
    return between(world, 0, 9999) < in_10000;
}

void say(struct world *world, const char *format, ...)
{
    va_list args;
    if (!world->verbose)
        return;
    printf("%+10lld %*s", (long long)(world->clock_ms - world->start_ms), world->depth * 4, "");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(struct world *world, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "seed %llu (%s): ", (unsigned long long)world->seed,
            profile_names[world->profile]);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr,
            "\n  after %lld operations and %lld calls of the store; to see it again:\n"
            "  sim --store %s --seed %llu%s%s --verbose\n",
            (long long)world->steps, (long long)world->calls,
            world->postgres ? "postgresql://…" : "sqlite", (unsigned long long)world->seed,
            world->sabotage != SABOTAGE_NONE ? " --sabotage " : "",
            world->sabotage != SABOTAGE_NONE ? sabotage_names[world->sabotage] : "");
    if (world->clean_up != NULL)
        world->clean_up();
    _exit(1); /* not exit(): what is still allocated is not the news here */
}

static int64_t read_clock(void *arg)
{
    struct world *world = arg;
    if (world->clock_ms > world->highest_ms)
        world->highest_ms = world->clock_ms;
    world->set_back |= world->clock_ms < world->highest_ms;
    return world->clock_ms;
}

static int64_t read_uptime(void *arg, int with_sleep)
{
    const struct world *world = arg;
    return world->awake_ms + (with_sleep ? world->slept_ms : 0);
}

void world_live(struct world *world, int64_t ms)
{
    world->clock_ms += ms;
    world->awake_ms += ms;
    world->latest_ms += ms;
}

/* Always but after the clock was set back, when a job may be overtaken for a while (pg_claim.c). */
static bool claims_begin_behind(void *arg)
{
    const struct world *world = arg;
    return !world->set_back;
}

/* --- actors --- */

int world_open_store(struct world *world, struct db **ret, struct err *err)
{
    struct db_options options = {.durability_normal = true,
                                 .claim_behind = claims_begin_behind,
                                 .connections = 2,
                                 .busy_ms = 30000,
                                 .clock_ms = read_clock,
                                 .clock_arg = world,
                                 /* PostgreSQL's clock is the server's. */
                                 .uptime_ms = world->postgres ? NULL : read_uptime};
    return db_open(ret, world->url, &options, err);
}

static struct db *real_store(struct world *world)
{
    struct db *db = NULL;
    struct err err;
    if (world->idle_count > 0)
        return world->idle[--world->idle_count];
    int rc = world_open_store(world, &db, &err);
    expect(world, rc == 0, "%s cannot be opened: %s", world->url, err.text);
    return db;
}

static void log_line(void *arg, const char *line)
{
    say(arg, "      log: %s", line);
}

static void name_actor(struct world *world, struct actor *actor, int slot)
{
    if (world->same_names)
        snprintf(actor->name, sizeof actor->name, "twin%d", slot % 2);
    else
        snprintf(actor->name, sizeof actor->name, "w%d", actor->number);
}

void world_spawn(struct world *world, int slot)
{
    struct tend_options options;
    expect(world, world->actor_count < MAX_ACTORS, "the simulation has too many actors");
    struct actor *actor = &world->actors[world->actor_count];
    *actor = (struct actor){.number = world->actor_count++, .slot = slot, .lost_at_ms = TEND_UNSET};
    name_actor(world, actor, slot);
    world->slots[slot] = actor->number;
    tend_options_init(&options);
    options.name = actor->name;
    options.recovery_ms = 0;
    options.log = log_line;
    options.log_arg = world;
    /* A handle that could not open its store is given this one. */
    int rc = tend_open(&actor->t, "simulated", &options);
    expect(world, rc == TEND_EINVAL && actor->t != NULL, "tend_open answers %d", rc);
    actor->fake = fake_db_new(world, actor, real_store(world));
    actor->t->db = (struct db *)actor->fake;
    actor->t->purge_next_ms = INT64_MAX;
    rng_seed(&actor->t->rng, rng_u64(&world->rng));
    say(world, "%s comes (slot %d)", actor->name, slot);
}

void world_bury(struct world *world, struct actor *actor)
{
    (void)world;
    tend_close(actor->t); /* frees memory; the store is out of its reach */
    actor->t = NULL;
}

void world_crash(struct world *world, struct actor *actor)
{
    actor->dead = true;
    world->slots[actor->slot] = -1;
    if (!actor->busy)
        world_bury(world, actor);
}

void world_close(struct world *world, struct actor *actor)
{
    struct op *op = op_begin(world, actor, OP_CLOSE);
    say(world, "%s closes", actor->name);
    tend_close(actor->t);
    actor->t = NULL;
    if (!actor->dead)
        world->slots[actor->slot] = -1;
    actor->dead = true;
    actor->busy = false;
    /* LS-6; also what was claimed under a registration that was buried while it lived. */
    for (size_t i = 0; op->faults == 0 && i < world->job_count; i++)
        expect(world,
               world->jobs[i].state != JOB_RUNNING || world->jobs[i].holder != actor->number ||
                   world->jobs[i].worker_id == TEND_UNSET,
               "job %lld is leased by %s, who has left", (long long)world->jobs[i].id, actor->name);
}

static void change_sessions(struct world *world)
{
    if (!chance(world, world->rates.session) || world->quiet)
        return;
    int slot = (int)between(world, 0, world->slot_count - 1);
    if (world->slots[slot] < 0)
        return;
    struct actor *actor = &world->actors[world->slots[slot]];
    actor->session_lost = !actor->session_lost;
    if (actor->session_lost && actor->lost_at_ms == TEND_UNSET)
        actor->lost_at_ms = world->clock_ms;
    say(world, "fault: the session of %s is %s", actor->name,
        actor->session_lost ? "lost" : "back");
}

static enum op_kind choose_op(struct world *world)
{
    int64_t total = 0;
    for (int i = 0; i < OP_COUNT; i++)
        total += world->weights[i];
    int64_t number = between(world, 0, total - 1);
    for (int i = 0; i < OP_COUNT; i++) {
        if (number < world->weights[i])
            return (enum op_kind)i;
        number -= world->weights[i];
    }
    return OP_NONE;
}

void world_step(struct world *world)
{
    int slot = (int)between(world, 0, world->slot_count - 1);
    world_live(world, chance(world, 7000) ? between(world, 0, 500) : between(world, 0, 5000));
    change_sessions(world);
    if (world->slots[slot] < 0) {
        if (world->actor_count < MAX_ACTORS - 4)
            world_spawn(world, slot);
        return;
    }
    struct actor *actor = &world->actors[world->slots[slot]];
    if (actor->busy)
        return;
    if (!world->quiet && chance(world, world->rates.crash / 2)) {
        say(world, "fault: %s ends between two calls", actor->name);
        world_crash(world, actor);
        return;
    }
    op_run(world, actor, choose_op(world));
}

/* --- a history --- */

/* How often each operation is chosen: around a usual number, and some not at all in some histories.
 */
static void choose_weights(struct world *world)
{
    static const int usual[OP_COUNT] = {
        [OP_ADD] = 14,        [OP_CLAIM] = 20,        [OP_NEXT_WITH_LOCK] = 8,
        [OP_START] = 5,       [OP_COMPLETE] = 10,     [OP_COMPLETE_AND_CLAIM] = 8,
        [OP_FAIL] = 6,        [OP_HEARTBEAT] = 8,     [OP_RELEASE] = 5,
        [OP_PHASE] = 2,       [OP_ACT] = 8,           [OP_ACT_ON_ALL] = 1,
        [OP_RECOVER] = 5,     [OP_RECLAIM] = 2,       [OP_STATS] = 2,
        [OP_QUEUE_SET] = 4,   [OP_LOCK_ACQUIRE] = 8,  [OP_LOCK_RELEASE] = 3,
        [OP_CLOSE] = 1,       [OP_LOCK_EXTEND] = 3,   [OP_STEP_NEXT] = 36,
        [OP_STEP_FINISH] = 8, [OP_STEP_TELL] = 6,     [OP_STEP_LOOK] = 2,
        [OP_CONTROL] = 10,    [OP_CONTROLS_TAKE] = 6, [OP_CONTROL_DONE] = 4,
    };
    for (int i = 0; i < OP_COUNT; i++) {
        world->weights[i] = usual[i] * (int)between(world, 5, 15);
        if (chance(world, 1000))
            world->weights[i] = 0;
    }
    world->weights[OP_RESTORE] =
        chance(world, 2000) || world->sabotage == SABOTAGE_GENERATION_KEPT ? 20 : 0;
    world->weights[OP_ADD] += 50;
    world->weights[OP_CLAIM] += 50;
    if (world->profile == PROFILE_RECOVERERS)
        world->weights[OP_RECOVER] += 200;
}

static void clear(struct world *world, uint64_t seed, enum sabotage sabotage)
{
    if (world->latest_ms > world->highest_ms)
        world->highest_ms = world->latest_ms;
    struct world fresh = {.seed = seed,
                          .sabotage = sabotage,
                          .profile = (enum profile)(seed % PROFILE_COUNT),
                          .verbose = world->verbose,
                          .postgres = world->postgres,
                          .url = world->url,
                          .clean_up = world->clean_up,
                          .observer = world->observer,
                          .idle_count = world->idle_count,
                          .highest_ms = world->highest_ms,
                          .awake_ms = world->awake_ms,
                          .slept_ms = world->slept_ms,
                          .add_count = 1,
                          .token_base = TOKEN_BASE};
    memcpy(fresh.idle, world->idle, sizeof fresh.idle);
    *world = fresh;
    rng_seed(&world->rng, seed);
    /* A handle's time never runs backwards, so the next history begins on a later day. */
    world->start_ms = FIRST_START_MS;
    if (world->highest_ms >= FIRST_START_MS)
        world->start_ms = (world->highest_ms / DAY_MS + 2) * DAY_MS;
    world->clock_ms = world->latest_ms = world->start_ms;
    for (int i = 0; i < MAX_WORKERS; i++)
        world->worker_actors[i] = -1;
    for (int i = 0; i < MAX_SLOTS; i++)
        world->slots[i] = -1;
    for (int i = 0; i < LOCK_NAMES; i++)
        world->locks[i] = (struct lock_model){.worker_id = TEND_UNSET, .job_id = TEND_UNSET};
    for (int i = 0; i < QUEUE_COUNT; i++)
        world->queues[i] = (struct queue_model){.concurrency = TEND_UNSET,
                                                .key_concurrency = TEND_UNSET,
                                                .rate_count = TEND_UNSET,
                                                .rate_period_ms = 60000};
}

/* Queues and a schedule, made by an actor that nothing happens to. */
static void set_up(struct world *world)
{
    struct tend_schedule schedule;
    struct tend_setting serial = {.name = "serial", .value = "on"};
    world->quiet = true;
    world_spawn(world, 0);
    struct actor *actor = &world->actors[world->slots[0]];
    op_change_queue(world, actor, Q_SERIAL, SET_PAUSED, 0);
    op_begin(world, actor, OP_QUEUE_SET)->queue = Q_SERIAL;
    int rc = tend_queue_set(actor->t, queue_names[Q_SERIAL], &serial, 1, NULL);
    expect(world, op_end(world, actor, rc) && rc == 0, "the serial queue cannot be made");
    world->queues[Q_SERIAL].serial = true;
    op_change_queue(world, actor, Q_LIMITED, SET_CONCURRENCY, between(world, 1, 3));
    op_change_queue(world, actor, Q_KEYED, SET_KEY_CONCURRENCY, between(world, 1, 2));
    op_change_queue(world, actor, Q_RATED, SET_RATE_COUNT, between(world, 2, 6));
    bool scheduled = chance(world, 3000);
    for (int i = 0; scheduled && i < SCHEDULES; i++) {
        tend_schedule_init(&schedule);
        schedule.name = schedule_names[i];
        schedule.cron = "@every 10m";
        schedule.queue = queue_names[Q_PLAIN];
        schedule.payload = "{\"n\":0}";
        schedule.catch_up = "all";
        op_begin(world, actor, OP_SCHEDULE);
        rc = tend_schedule_put(actor->t, &schedule, NULL);
        expect(world, op_end(world, actor, rc) && rc == 0, "a schedule cannot be made");
        world->schedule_first_ms = world->clock_ms;
    }
    world->quiet = false;
}

/*
 * A store was here before, in which leases were given out, and another is made in its place: ids
 * begin again, and its token base is drawn anew. Those leases are shown to the new one.
 */
static void inherit(struct world *world, uint64_t seed, enum sabotage sabotage)
{
    struct tend_lease leases[OLD_LEASES];
    wipe_store(world->url, TOKEN_BASE);
    clear(world, seed, SABOTAGE_NONE);
    world->quiet = true;
    world_spawn(world, 0);
    struct actor *actor = &world->actors[world->slots[0]];
    for (int i = 0; i < 6; i++) {
        op_add(world, actor);
        op_claim(world, actor, OP_CLAIM);
    }
    size_t count = world->old_lease_count < OLD_LEASES ? world->old_lease_count : OLD_LEASES;
    memcpy(leases, world->old_leases, count * sizeof *leases);
    world_crash(world, actor);
    int64_t base = sabotage == SABOTAGE_MADE_ALIKE ? TOKEN_BASE : NEXT_TOKEN_BASE;
    wipe_store(world->url, base);
    clear(world, seed, sabotage);
    world->token_base = base;
    world->inherited_count = count;
    memcpy(world->inherited, leases, count * sizeof *leases);
    say(world, "%zu leases are left of the store before", count);
}

void world_run(struct world *world, uint64_t seed, enum sabotage sabotage)
{
    if (seed % 3 == 0 || sabotage == SABOTAGE_MADE_ALIKE) {
        inherit(world, seed, sabotage);
    } else {
        wipe_store(world->url, TOKEN_BASE);
        clear(world, seed, sabotage);
    }
    fault_choose_rates(world);
    choose_weights(world);
    world->grace_ms = world->profile == PROFILE_SESSIONS ? 2000 : 0;
    world->same_names =
        world->profile == PROFILE_SAME_NAMES || (world->profile == PROFILE_ALL && seed % 2 == 0);
    world->slot_count = (int)between(world, 3, MAX_SLOTS - 1);
    say(world, "seed %llu, %s, %d workers", (unsigned long long)seed, profile_names[world->profile],
        world->slot_count);
    set_up(world);
    int64_t steps = between(world, 80, 240);
    while (world->steps < steps)
        world_step(world);
    world_drain(world);
    model_finished(world);
    if (seed % 4 == 1 || sabotage == SABOTAGE_PURGE_LEAVES)
        world_purge(world);
    say(world, "over after %lld operations, %lld calls of the store, %zu jobs",
        (long long)world->steps, (long long)world->calls, world->job_count);
}

void world_init(struct world *world, const char *url, bool verbose)
{
    *world = (struct world){.url = url,
                            .verbose = verbose,
                            .postgres = strncmp(url, "postgres", strlen("postgres")) == 0};
    world->observer = real_store(world);
}

void world_done(struct world *world)
{
    for (size_t i = 0; i < world->idle_count; i++)
        db_close(world->idle[i]);
    db_close(world->observer);
}
