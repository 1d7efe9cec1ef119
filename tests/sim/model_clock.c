/*
 * The rules about time, looked at with each commit.
 *
 * The world has a wall clock that is set and a time since boot that runs evenly (world_live,
 * fault_jump, fault_sleep). Store time must not run backwards or stand still, and must not be ahead
 * of what the clocks can have said. On SQLite, time that nobody has lived through and time in which
 * nothing could be saved count against no lease: the first commit after it moves all leases and
 * locks, says so in an event, and does so exactly when there is something to move.
 *
 * What is to be moved follows from what was seen: store time at two commits, and how long the
 * machine was awake between them. Nothing is taken from the code under test. Processes need not
 * note each commit (NOTED_MS), so that they may move the leases by so much more.
 */
#include "fake_db.h"

#include <stdlib.h>
#include <string.h>

/* What is not worth a word: half a second, and a thousandth for clocks that drift. */
enum { SLACK_MS = 500, DRIFT_PART = 1000, ROUNDING_MS = 3, NOTED_MS = 20 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_pace(struct world *world, const struct clock_mark *now)
{
    const struct clock_mark *last = &world->mark;
    int64_t since_ms = now->awake_ms + now->slept_ms - last->awake_ms - last->slept_ms;
    expect(world, now->store_ms >= now->wall_ms, "store time is %lld ms behind the clock",
           (long long)(now->wall_ms - now->store_ms));
    expect(world, now->store_ms <= world->latest_ms,
           "store time is %lld ms ahead of all that the clocks can have said",
           (long long)(now->store_ms - world->latest_ms));
    if (world->mark_known)
        expect(world, now->store_ms >= last->store_ms + since_ms * 9 / 10 - ROUNDING_MS,
               "store time has gone on by %lld ms in %lld ms",
               (long long)(now->store_ms - last->store_ms), (long long)since_ms);
}

/* Whether moving by by_ms is right when so much is owed. */
static bool is_paid(int64_t owed_ms, int64_t by_ms)
{
    if (by_ms == 0)
        return owed_ms <= SLACK_MS + ROUNDING_MS;
    return owed_ms > SLACK_MS - NOTED_MS - ROUNDING_MS && by_ms >= owed_ms - ROUNDING_MS &&
           by_ms <= owed_ms + NOTED_MS + ROUNDING_MS;
}

/* by_ms: what leases were moved by, 0: they were not. */
static void check_moved(struct world *world, const struct clock_mark *now, int64_t by_ms)
{
    const struct clock_mark *last = &world->mark;
    if (!world->mark_known) {
        expect(world, by_ms == 0, "leases are moved by %lld ms at the first commit",
               (long long)by_ms);
        return;
    }
    int64_t passed_ms = now->store_ms - last->store_ms;
    int64_t lived_ms = now->awake_ms - last->awake_ms;
    int64_t unlived_ms = passed_ms - lived_ms;
    int64_t tolerated_ms = SLACK_MS + lived_ms / DRIFT_PART;
    int64_t blocked_ms = world->failing ? now->awake_ms - world->failing_since_ms : 0;
    bool right = false;
    if (unlived_ms > tolerated_ms - ROUNDING_MS)
        right |= is_paid(smaller(unlived_ms + blocked_ms, passed_ms), by_ms);
    if (unlived_ms < tolerated_ms + ROUNDING_MS)
        right |= is_paid(smaller(blocked_ms, passed_ms), by_ms);
    expect(world, right,
           "leases are moved by %lld ms; of %lld ms nobody has lived through %lld, and in %lld "
           "nothing could be saved",
           (long long)by_ms, (long long)passed_ms, (long long)unlived_ms, (long long)blocked_ms);
}

/* No lease is shorter for it, and who was silent was not. */
static void move_all(struct world *world, int64_t by_ms, int64_t now_ms)
{
    for (size_t i = 0; i < world->job_count; i++) {
        struct job_model *job = &world->jobs[i];
        if (job->state != JOB_RUNNING)
            continue;
        job->until_ms += by_ms;
        job->seen_ms = smaller(job->seen_ms + by_ms, now_ms);
    }
    for (int i = 0; i < LOCK_NAMES; i++)
        if (world->locks[i].owner[0] != '\0')
            world->locks[i].expires_ms += by_ms;
}

static int64_t moved_by(struct world *world, const struct sight *sight)
{
    int64_t by_ms = 0;
    for (size_t i = 0; i < sight->event_count; i++) {
        if (strcmp(sight->events[i].what, "clock.stepped") != 0)
            continue;
        expect(world, i == 0, "the clock steps in the middle of a commit");
        by_ms = strtoll(sight->events[i].data + strlen("{\"by_ms\":"), NULL, 10);
        expect(world, by_ms > 0, "leases are moved by %lld ms", (long long)by_ms);
    }
    return by_ms;
}

void model_clock(struct world *world, const struct actor *actor, const struct sight *sight)
{
    const struct clock_mark *now = &actor->fake->at;
    if (world->postgres)
        return;
    int64_t by_ms = moved_by(world, sight);
    check_pace(world, now);
    check_moved(world, now, by_ms);
    move_all(world, by_ms, now->store_ms);
    if (!actor->fake->changed)
        return; /* it does not show that the store can be written */
    world->mark = *now;
    world->mark_known = true;
    world->failing = false;
}

void model_not_saved(struct world *world, const struct actor *actor, int rc)
{
    if (world->postgres || !world->mark_known || world->failing)
        return;
    if (rc != TEND_EFULL && rc != TEND_EIO && rc != TEND_EREADONLY)
        return;
    world->failing = true;
    world->failing_since_ms = actor->fake->at.awake_ms;
}
