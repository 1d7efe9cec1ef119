/*
 * Group commit across the threads of a handle. The server flushes the commits of several
 * connections together, but each costs it a statement, a transaction and two context switches.
 * Here, while FLIGHTS are under way, transactions that consist of one flight wait for the next free
 * one and go along with it: one of them leads, their statements become one transaction on its
 * connection, and those that are alike one statement (pg_merge.c). A lone thread never waits.
 *
 * They stand and fall together only as far as nobody notices: when anything is refused, the whole
 * is undone and each is run alone. When the connection is lost at the commit, all are told that the
 * outcome is not known. When an answer cannot be read, only those whom it is for are told so: the
 * others are saved and have theirs. Those in a hurry (pg_patience.c) go with those who have as
 * long. Who has waited PATIENCE_MS for a flight goes alone, so that a statement that hangs on a
 * lock does not hold up more than those that are with it.
 *
 * Invariant: a waiting thread's transaction, arena and parameters belong to its leader until it is
 * told.
 */
#include "base/clock.h"
#include "store/pg_merge.h"

#include <tend.h>
#include <time.h>

enum {
    FLIGHTS = 2,
    ROWS_MAX = 64,         /* of one transaction: larger ones are worth a flight of their own */
    BYTES_MAX = 64 * 1024, /* ... and while these are sent, rows of the others would be locked */
    RIDERS_MAX = 32,
    PATIENCE_MS = 20,
    GATHER_SHARE = 6,     /* of a flight's time that its leader waits for those coming back */
    GATHER_REST_MAX = 64, /* flights without it when they did not come */
    WEIGHT = 8,           /* of the past in the average */
};

enum rider_state { RIDER_WAITS, RIDER_LEADS, RIDER_ABOARD, RIDER_DONE, RIDER_ALONE };

/* A transaction waiting. Lives on the stack of its thread. */
struct pg_rider {
    struct pg_tx *tx;
    struct pg_rider *next;
    enum rider_state state;
    pthread_cond_t told;
};

void pg_group_init(struct pg_group *group)
{
    *group = (struct pg_group){.gather_pause = 1};
    pthread_mutex_init(&group->mutex, NULL);
    pthread_cond_init(&group->gathered, NULL);
}

void pg_group_done(struct pg_group *group)
{
    pthread_cond_destroy(&group->gathered);
    pthread_mutex_destroy(&group->mutex);
}

bool pg_group_takes(const struct pg_tx *tx)
{
    const struct pg_db *db = (const struct pg_db *)tx->base.db;
    size_t rows = 0;
    size_t bytes = 0;
    for (const struct pg_call *call = tx->first; call != NULL; call = call->next) {
        rows += call->each ? call->rows : 1;
        for (int i = 0; i < call->params; i++)
            bytes += (size_t)call->lengths[i];
    }
    return tx->writes && !tx->begun && tx->conn == NULL && rows <= ROWS_MAX && bytes <= BYTES_MAX &&
           !db->url.pooler && pg_order_kept(tx->first);
}

/* --- flying --- */

static void settle(struct pg_tx *tx, const struct pg_flight *flight, int rc)
{
    tx->over = rc == 0;
    tx->rung = flight->rings;
    tx->ended = flight->sent;
    tx->failed = rc < 0;
    tx->fault = flight->fault;
}

/* The leader, then the riders; NULL: out of memory. */
static struct pg_tx **list_of(struct pg_tx *leader, const struct pg_rider *riders,
                              size_t *ret_count)
{
    struct pg_tx **txs = arena_alloc(leader->base.arena, (RIDERS_MAX + 1) * sizeof(struct pg_tx *));
    size_t count = 0;
    if (txs == NULL)
        return NULL;
    txs[count++] = leader;
    for (const struct pg_rider *rider = riders; rider != NULL; rider = rider->next)
        txs[count++] = rider->tx;
    *ret_count = count;
    return txs;
}

/* All together on the leader's connection. Returns false when each must try alone. */
static bool fly_together(struct pg_tx *leader, struct pg_rider *riders)
{
    size_t count = 0;
    struct pg_merged merged;
    struct pg_tx **txs = list_of(leader, riders, &count);
    if (txs == NULL)
        return false;
    bool complete = pg_merge(txs, count, &merged);
    char hurry[PG_HURRY_BYTES];
    struct pg_flight flight = {.db = (struct pg_db *)leader->base.db,
                               .before[2] = pg_patience_sql(&leader->patience, hurry),
                               .conn = leader->conn,
                               .err = leader->base.err,
                               .calls = merged.first,
                               .commits = true};
    for (size_t i = 0; i < count; i++)
        flight.rings |= txs[i]->base.ring;
    int rc = complete ? pg_flight_go(&flight) : TEND_ENOMEM;
    pg_merge_undo(&merged);
    leader->broken = pg_fault_ends_it(flight.fault) || flight.unread;
    if (rc < 0 && !(flight.fault == PG_LOST && flight.sent))
        return false;
    for (size_t i = 0; i < count; i++) {
        settle(txs[i], &flight, rc);
        if (rc < 0 && i > 0)
            *txs[i]->base.err = *leader->base.err;
    }
    if (rc == 0)
        pg_merge_deal(&merged);
    return true;
}

/* The riders that wait, for one flight whose leader has this patience. Under the mutex. */
static struct pg_rider *take_riders(struct pg_group *group, const struct pg_patience *patience)
{
    struct pg_rider *riders = NULL;
    struct pg_rider **tail = &riders;
    struct pg_rider **link = &group->first;
    group->last = NULL; /* of those that stay */
    for (int taken = 0; *link != NULL;) {
        struct pg_rider *rider = *link;
        if (taken == RIDERS_MAX || !pg_patience_alike(patience, &rider->tx->patience)) {
            group->last = rider;
            link = &rider->next;
            continue;
        }
        *link = rider->next;
        rider->next = NULL;
        rider->state = RIDER_ABOARD;
        *tail = rider;
        tail = &rider->next;
        taken++;
    }
    return riders;
}

/* A flight has landed: the next who waits leads, or it is free. Under the mutex. */
static void pass_on(struct pg_group *group, int64_t began_ns)
{
    struct pg_rider *next = group->first;
    group->average_ns += (clock_mono_ns() - began_ns - group->average_ns) / WEIGHT;
    if (next == NULL) {
        group->flying--;
        return;
    }
    group->first = next->next;
    if (group->first == NULL)
        group->last = NULL;
    next->state = RIDER_LEADS;
    pthread_cond_signal(&next->told);
}

/*
 * Those answered by the flight before are on their way back, if that is what they do, and in a
 * moment can all go along; without that moment they would be two crowds that take turns. Who waits
 * in vain rests from it for some flights, twice as many each time. Under the mutex.
 */
static void gather(struct pg_group *group)
{
    int64_t until_ns = clock_mono_ns() + group->average_ns / GATHER_SHARE;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int missing = group->coming_back;
    int rc = 0;
    if (missing == 0 || group->gathers)
        return;
    if (group->gather_rest > 0) {
        group->gather_rest--;
        group->coming_back = 0;
        return;
    }
    group->gathers = true;
    while (rc == 0 && group->coming_back > 0)
        rc = pthread_cond_clockwait(&group->gathered, &group->mutex, CLOCK_MONOTONIC, &until);
    group->gathers = false;
    if (group->coming_back * 2 <= missing)
        group->gather_pause = 1;
    else if (group->gather_pause < GATHER_REST_MAX)
        group->gather_pause *= 2;
    group->gather_rest = group->gather_pause - 1;
    group->coming_back = 0;
}

static int lead(struct pg_group *group, struct pg_tx *tx)
{
    struct pg_db *db = (struct pg_db *)tx->base.db;
    bool together = false;
    pthread_mutex_lock(&group->mutex);
    gather(group);
    struct pg_rider *riders = take_riders(group, &tx->patience);
    pthread_mutex_unlock(&group->mutex);
    bool aboard = pg_pool_take(db, &tx->patience, &tx->conn, tx->base.err) == 0;
    /* Counted from here: how long others wait for a connection says nothing about the server. */
    int64_t began_ns = clock_mono_ns();
    if (riders != NULL && aboard) {
        together = fly_together(tx, riders);
        if (!together && tx->broken) {
            pg_pool_give(db, tx->conn, true);
            tx->conn = NULL;
            tx->broken = false;
        }
    }
    pthread_mutex_lock(&group->mutex);
    for (struct pg_rider *rider = riders, *next; rider != NULL; rider = next) {
        next = rider->next;
        rider->state = together ? RIDER_DONE : RIDER_ALONE;
        pthread_cond_signal(&rider->told);
        group->coming_back++;
    }
    group->coming_back += riders != NULL;
    if (together)
        pass_on(group, began_ns);
    pthread_mutex_unlock(&group->mutex);
    if (together)
        return tx->failed ? tx->base.err->code : 0;
    err_clear(tx->base.err);
    int rc = pg_tx_fly(tx, true);
    pthread_mutex_lock(&group->mutex);
    pass_on(group, began_ns);
    pthread_mutex_unlock(&group->mutex);
    return rc;
}

static void leave_line(struct pg_group *group, struct pg_rider *mine)
{
    struct pg_rider *before = NULL;
    struct pg_rider **link = &group->first;
    while (*link != mine) {
        before = *link;
        link = &before->next;
    }
    *link = mine->next;
    if (group->last == mine)
        group->last = before;
    mine->state = RIDER_ALONE;
}

/* Waits to be told what to do. Under the mutex. */
static void stand_in_line(struct pg_group *group, struct pg_rider *mine)
{
    int64_t until_ns = clock_mono_ns() + PATIENCE_MS * INT64_C(1000000);
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    if (group->last != NULL)
        group->last->next = mine;
    else
        group->first = mine;
    group->last = mine;
    while (mine->state == RIDER_WAITS || mine->state == RIDER_ABOARD) {
        int rc = mine->state == RIDER_ABOARD
                     ? pthread_cond_wait(&mine->told, &group->mutex)
                     : pthread_cond_clockwait(&mine->told, &group->mutex, CLOCK_MONOTONIC, &until);
        if (rc != 0 && mine->state == RIDER_WAITS)
            leave_line(group, mine);
    }
}

int pg_group_fly(struct pg_tx *tx)
{
    struct pg_group *group = &((struct pg_db *)tx->base.db)->group;
    struct pg_rider mine = {.tx = tx};
    pthread_mutex_lock(&group->mutex);
    if (group->coming_back > 0 && --group->coming_back == 0)
        pthread_cond_signal(&group->gathered);
    if (group->flying < FLIGHTS) {
        group->flying++;
        pthread_mutex_unlock(&group->mutex);
        return lead(group, tx);
    }
    pthread_cond_init(&mine.told, NULL);
    stand_in_line(group, &mine);
    pthread_mutex_unlock(&group->mutex);
    pthread_cond_destroy(&mine.told);
    if (mine.state == RIDER_LEADS)
        return lead(group, tx);
    if (mine.state == RIDER_ALONE) {
        err_clear(tx->base.err);
        return pg_tx_fly(tx, true);
    }
    return tx->failed ? tx->base.err->code : 0;
}
