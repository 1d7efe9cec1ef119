#include "run/lease_watch.h"

#include <tend.h>

enum {
    WAITS_A_LEASE = 8,       /* a wait for the store lasts such a part of a lease */
    WAIT_LEAST_MS = 1200,    /* ... and long enough to see that nobody can write */
    BLOCKED_LEASE_MS = 6000, /* shorter leases are not kept while nobody can write */
    STOP_PATIENCE_MS = 2000, /* how long an owner that is to end still tells the store */
};

static int64_t safe_part_ms(const struct lease_watch *watch)
{
    return watch->lease_ms * 2 / 3;
}

void lease_watch_beat(struct lease_watch *watch, int64_t at_ms)
{
    watch->beat_ms = at_ms;
    watch->safe_until_ms = at_ms + safe_part_ms(watch);
}

bool lease_watch_blocked(struct lease_watch *watch, int64_t blocked_ms)
{
    int64_t until_ms = watch->beat_ms + safe_part_ms(watch) + blocked_ms;
    if (watch->lease_ms < BLOCKED_LEASE_MS || until_ms <= watch->safe_until_ms)
        return false;
    watch->safe_until_ms = until_ms;
    return true;
}

int64_t lease_watch_held_until(const struct lease_watch *watch)
{
    return watch->safe_until_ms + watch->lease_ms - safe_part_ms(watch);
}

int64_t lease_beat_pause_ms(int64_t lease_ms)
{
    return lease_ms / LEASE_BEATS;
}

int64_t lease_patience_ms(int64_t lease_ms)
{
    int64_t wait_ms = lease_ms / WAITS_A_LEASE;
    return wait_ms > WAIT_LEAST_MS ? wait_ms : WAIT_LEAST_MS;
}

bool lease_trouble_passes(int rc)
{
    return rc == TEND_EUNREACHABLE || rc == TEND_EBUSY || rc == TEND_EIO || rc == TEND_EFULL ||
           rc == TEND_EREADONLY || rc == TEND_ENOMEM;
}

bool lease_tells_again(struct lease_telling *telling, int rc, bool ends, int64_t now_ms)
{
    if (!lease_trouble_passes(rc))
        return false;
    if (ends && telling->give_up_ms == 0)
        telling->give_up_ms = now_ms + STOP_PATIENCE_MS;
    return !ends || now_ms < telling->give_up_ms;
}
