/* Which fault strikes where, by the profile of the history and chance. */
#include "sim.h"

#include <string.h>

const char *const profile_names[PROFILE_COUNT] = {
    [PROFILE_CALM] = "calm",
    [PROFILE_CRASH] = "crash",
    [PROFILE_STALL] = "stall",
    [PROFILE_LOST_ANSWER] = "lost-answer",
    [PROFILE_FAILURES] = "failures",
    [PROFILE_CLOCK_JUMP] = "clock-jump",
    [PROFILE_RECOVERERS] = "recoverers",
    [PROFILE_SAME_NAMES] = "same-names",
    [PROFILE_SESSIONS] = "sessions",
    [PROFILE_ALL] = "all",
};

const char *fault_name(enum fault fault)
{
    static const char *const names[] = {
        [FAULT_NONE] = "none",   [FAULT_FAIL] = "fail",   [FAULT_CRASH] = "crash",
        [FAULT_STALL] = "stall", [FAULT_JUMP] = "jump",   [FAULT_LOST] = "lost",
        [FAULT_AGAIN] = "again", [FAULT_SLEEP] = "sleep", [FAULT_FREEZE] = "freeze",
        [FAULT_FORK] = "fork",
    };
    return names[fault];
}

static const struct fault_rates profile_rates[PROFILE_COUNT] = {
    [PROFILE_CALM] = {.again = 100},
    [PROFILE_CRASH] = {.crash = 100, .stall = 100, .fork = 20},
    [PROFILE_STALL] = {.stall = 600},
    [PROFILE_LOST_ANSWER] = {.lost = 600, .stall = 100},
    [PROFILE_FAILURES] = {.fail = 300, .fail_inside = 200, .again = 300},
    [PROFILE_CLOCK_JUMP] = {.jump = 200, .sleep = 60, .freeze = 60, .stall = 100},
    [PROFILE_RECOVERERS] = {.crash = 100, .stall = 800},
    [PROFILE_SAME_NAMES] = {.crash = 60, .stall = 300, .lost = 100, .fork = 20},
    [PROFILE_SESSIONS] = {.crash = 60, .stall = 300, .session = 300},
    [PROFILE_ALL] = {.crash = 60,
                     .stall = 200,
                     .lost = 150,
                     .fail = 100,
                     .fail_inside = 60,
                     .jump = 50,
                     .sleep = 20,
                     .freeze = 20,
                     .again = 100,
                     .fork = 20},
};

void fault_choose_rates(struct world *world)
{
    world->rates = profile_rates[world->profile];
    /* Sometimes few, sometimes many. */
    int64_t percent = between(world, 30, 200);
    int *rates[] = {&world->rates.crash,       &world->rates.stall, &world->rates.lost,
                    &world->rates.fail,        &world->rates.again, &world->rates.jump,
                    &world->rates.fail_inside, &world->rates.sleep, &world->rates.freeze};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        *rates[i] = (int)(*rates[i] * percent / 100);
    if (world->postgres) /* its clock is the server's, which the simulation does not set */
        world->rates.jump = world->rates.sleep = world->rates.freeze = 0;
}

/* The first of several, each with its own chance. */
static enum fault draw(struct world *world, const enum fault *faults, const int *rates, int count)
{
    int64_t number = between(world, 0, 9999);
    for (int i = 0; i < count; i++) {
        if (number < rates[i])
            return faults[i];
        number -= rates[i];
    }
    return FAULT_NONE;
}

enum fault fault_choose(struct world *world, enum point point)
{
    const struct fault_rates *rates = &world->rates;
    if (world->quiet)
        return FAULT_NONE;
    switch (point) {
    case BEFORE_WRITE: {
        const enum fault faults[] = {FAULT_CRASH, FAULT_FAIL,  FAULT_STALL,  FAULT_JUMP,
                                     FAULT_AGAIN, FAULT_SLEEP, FAULT_FREEZE, FAULT_FORK};
        const int chances[] = {rates->crash, rates->fail,  rates->stall,  rates->jump,
                               rates->again, rates->sleep, rates->freeze, rates->fork};
        return draw(world, faults, chances, 8);
    }
    case AFTER_WRITE: {
        const enum fault faults[] = {FAULT_CRASH, FAULT_LOST, FAULT_STALL, FAULT_FORK};
        const int chances[] = {rates->crash, rates->lost, rates->stall, rates->fork};
        return draw(world, faults, chances, 4);
    }
    case IN_WRITE: {
        const enum fault faults[] = {FAULT_CRASH, FAULT_FAIL, FAULT_JUMP, FAULT_FORK};
        const int chances[] = {rates->crash / 3, rates->fail_inside, rates->jump / 3, rates->fork};
        return draw(world, faults, chances, 4);
    }
    default: {
        const enum fault faults[] = {FAULT_CRASH, FAULT_FAIL, FAULT_STALL, FAULT_FORK};
        const int chances[] = {rates->crash / 3, rates->fail / 3, rates->stall, rates->fork};
        return draw(world, faults, chances, 4);
    }
    }
}

int fault_code(struct world *world)
{
    static const int codes[] = {TEND_EIO, TEND_EUNREACHABLE, TEND_EFULL, TEND_EBUSY};
    return codes[between(world, 0, 3)];
}

/* How long a stalled call stands still: a moment, longer than a short lease, longer than any. */
static int64_t stall_ms(struct world *world)
{
    switch (between(world, 0, 3)) {
    case 0:
        return 0;
    case 1:
        return between(world, 1, 3000);
    case 2:
        return between(world, 3000, 90000);
    default:
        return between(world, 60000, 700000);
    }
}

/* Time passes in parts, between which others act. */
static void others_act(struct world *world, int64_t long_ms, int64_t others)
{
    int64_t parts = others + 1;
    world->depth++;
    for (int64_t i = 0; i < others; i++) {
        world_live(world, long_ms / parts);
        world_step(world);
    }
    world->depth--;
    world_live(world, long_ms - long_ms / parts * others);
}

static int64_t how_many_others(struct world *world)
{
    return world->depth >= MAX_DEPTH ? 0 : between(world, 0, 3);
}

void fault_stall(struct world *world, struct actor *actor)
{
    int64_t long_ms = stall_ms(world);
    int64_t others = how_many_others(world);
    actor->op.stalls++;
    say(world, "    fault: %s stalls %lld ms while others do %lld things", actor->name,
        (long long)long_ms, (long long)others);
    others_act(world, long_ms, others);
}

void fault_freeze(struct world *world, struct actor *actor)
{
    int64_t long_ms = stall_ms(world);
    int64_t others = how_many_others(world);
    actor->op.stalls++;
    say(world, "    fault: nothing can be saved for %lld ms while others do %lld things",
        (long long)long_ms, (long long)others);
    others_act(world, long_ms, others);
    world->frozen = false;
}

static int64_t jump_ms(struct world *world)
{
    static const int64_t most_ms[] = {5000, 120000, 3600000, 20000000};
    return between(world, 1, most_ms[between(world, 0, 3)]);
}

void fault_jump(struct world *world, struct actor *actor)
{
    int64_t by_ms = jump_ms(world);
    if (chance(world, 5000))
        by_ms = -by_ms;
    world->clock_ms += by_ms;
    if (world->clock_ms > world->latest_ms)
        world->latest_ms = world->clock_ms;
    actor->op.stalls++;
    say(world, "    fault: the clock jumps %+lld ms", (long long)by_ms);
}

void fault_sleep(struct world *world, struct actor *actor)
{
    int64_t by_ms = jump_ms(world);
    world->clock_ms += by_ms;
    world->slept_ms += by_ms;
    world->latest_ms += by_ms;
    actor->op.stalls++;
    say(world, "    fault: the machine sleeps %lld ms", (long long)by_ms);
}
