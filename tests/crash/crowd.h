/*
 * A crowd of actors (actor.h) over one store, and what is done to them: killed, stopped for a
 * while, told to leave, and replaced by new ones. Each has a number of its own, which no other ever
 * gets; the numbers of those that were killed are in the ledger "killed".
 *
 * Invariant: an actor that ends otherwise than by what the crowd did to it fails the test.
 */
#ifndef TEND_CRASH_CROWD_H
#define TEND_CRASH_CROWD_H

#include "base/rng.h"
#include "support/store.h"

enum { CROWD_MAX = 16 };

struct crowd_member {
    const char *role, *url;
    int place_fd; /* its pid namespace; -1: that of the test */
    pid_t pid;
    int64_t number;
    bool told_to_leave, killed;
    long long stopped_until_ms; /* 0: runs */
};

struct crowd {
    const char *url; /* of those that are added next */
    struct rng rng;
    struct crowd_member members[CROWD_MAX];
    size_t count;
    int64_t started; /* also the newest number */
    int killed;      /* ledger */
    unsigned kills, stops, leaves;
};

/* What happens to a crowd. */
struct crowd_fate {
    int64_t every_ms;     /* something happens about so often; 0: nothing */
    unsigned stop_share;  /* percent of the time it is a stop ... */
    unsigned leave_share; /* ... or a request to leave; otherwise a kill */
    int64_t stop_ms;      /* a stop lasts so long at most */
    unsigned stopped_max; /* so many may be stopped at once */
};

void crowd_init(struct crowd *crowd, const char *url);
void crowd_add(struct crowd *crowd, const char *role, size_t count);
/*
 * The same in another pid namespace, which crowd_make_place returns and which lasts as long as the
 * test. -1, which is the namespace of the test, where this process may not make one.
 */
int crowd_make_place(void);
void crowd_add_at(struct crowd *crowd, int place_fd, const char *role, size_t count);

/* One look: ends stops whose time is over, replaces those who are gone, maybe strikes. */
void crowd_step(struct crowd *crowd, const struct crowd_fate *fate);
/* Steps for so long. */
void crowd_live(struct crowd *crowd, const struct crowd_fate *fate, int64_t ms);
/* Nobody stays stopped. */
void crowd_wake(struct crowd *crowd);
/* Has all of a role (NULL: of any) leave and waits for them; each must end with status 0. */
void crowd_leave(struct crowd *crowd, const char *role);

/* TEND_CRASH_SECONDS, 60 without; a share of it in percent. */
int64_t crash_ms(unsigned percent);

#endif
