/*
 * Group commit across the threads of a handle. The server flushes the commits of several
 * connections together, but each costs it a statement, a transaction and two context switches.
 * Here, while FLIGHTS are under way, transactions that consist of one flight wait for the next free
 * one and go along with it: one of them leads, their statements become one transaction on its
 * connection, and equal statements over arrays (add, complete, heartbeat) become one statement. A
 * lone thread never waits.
 *
 * They stand and fall together only as far as nobody notices: when anything is refused, the whole
 * is undone and each is run alone. When the connection is lost at the commit, all are told that the
 * outcome is not known. Who has waited PATIENCE_MS for a flight goes alone, so that a statement
 * that hangs on a lock does not hold up more than those that are with it.
 *
 * Invariant: a waiting thread's transaction, arena and parameters belong to its leader until it is
 * told.
 */
#include "base/clock.h"
#include "store/pg_tx.h"

#include <string.h>
#include <tend.h>
#include <time.h>

enum {
    FLIGHTS = 2,
    ROWS_MAX = 64, /* of one transaction: larger ones are worth a flight of their own */
    RIDERS_MAX = 32,
    PATIENCE_MS = 20,
    SLOW_NS = 800000,
    WEIGHT = 8, /* of the past in the average */
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
    *group = (struct pg_group){0};
    pthread_mutex_init(&group->mutex, NULL);
}

void pg_group_done(struct pg_group *group)
{
    pthread_mutex_destroy(&group->mutex);
}

bool pg_group_takes(const struct pg_tx *tx)
{
    const struct pg_db *db = (const struct pg_db *)tx->base.db;
    size_t rows = 0;
    for (const struct pg_call *call = tx->first; call != NULL; call = call->next)
        rows += call->each ? call->rows : 1;
    return tx->writes && !tx->begun && tx->conn == NULL && rows <= ROWS_MAX && !db->url.pooler;
}

/* --- putting calls together --- */

/* Whether a transaction is one call whose rows can go into a statement with those of others. */
static bool mergeable(const struct pg_tx *tx, enum db_query query)
{
    const struct pg_call *call = tx->first;
    return call->next == NULL && call->each && call->source != NULL && call->asked == query &&
           pg_call_takes_arrays(query);
}

/* One call for all transactions that are alike, or NULL. */
static struct pg_call *merge(struct pg_tx *leader, struct pg_rider *riders, int64_t **ret_each)
{
    struct arena *arena = leader->base.arena;
    enum db_query query = leader->first->asked;
    size_t width = (size_t)db_query_texts[query].params;
    size_t rows = leader->first->rows;
    if (!mergeable(leader, query))
        return NULL;
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next) {
        if (!mergeable(rider->tx, query))
            return NULL;
        rows += rider->tx->first->rows;
    }
    struct db_value *params = arena_alloc(arena, rows * width * sizeof *params);
    *ret_each = arena_zalloc(arena, rows * sizeof **ret_each);
    if (params == NULL || *ret_each == NULL)
        return NULL;
    size_t at = leader->first->rows * width;
    memcpy(params, leader->first->source, at * sizeof *params);
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next) {
        size_t count = rider->tx->first->rows * width;
        memcpy(params + at, rider->tx->first->source, count * sizeof *params);
        at += count;
    }
    return pg_call_arrays(&leader->base, query, params, rows, *ret_each);
}

static size_t hand_out(const struct pg_tx *tx, const int64_t *each)
{
    const struct pg_call *call = tx->first;
    if (call->ret_each != NULL)
        memcpy(call->ret_each, each, call->rows * sizeof *each);
    return call->rows;
}

/* All calls one after the other, each still answering its own transaction. */
static void chain(struct pg_tx *leader, struct pg_rider *riders)
{
    struct pg_call **tail = leader->tail;
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next) {
        *tail = rider->tx->first;
        tail = rider->tx->tail;
    }
}

static void unchain(struct pg_tx *leader, struct pg_rider *riders)
{
    *leader->tail = NULL;
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next)
        *rider->tx->tail = NULL;
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

/* All together on the leader's connection. Returns false when each must try alone. */
static bool fly_together(struct pg_tx *leader, struct pg_rider *riders, int *ret_rc)
{
    int64_t *each = NULL;
    struct pg_call *merged = merge(leader, riders, &each);
    struct pg_flight flight = {.db = (struct pg_db *)leader->base.db,
                               .conn = leader->conn,
                               .err = leader->base.err,
                               .calls = merged,
                               .commits = true,
                               .rings = leader->base.ring};
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next)
        flight.rings |= rider->tx->base.ring;
    if (merged == NULL) {
        chain(leader, riders);
        flight.calls = leader->first;
    }
    int rc = pg_flight_go(&flight);
    if (merged == NULL)
        unchain(leader, riders);
    if (rc < 0 && !(flight.fault == PG_LOST && flight.sent)) {
        leader->broken = flight.fault == PG_LOST || flight.fault == PG_READONLY;
        return false;
    }
    if (rc == 0 && merged != NULL)
        each += hand_out(leader, each);
    settle(leader, &flight, rc);
    for (struct pg_rider *rider = riders; rider != NULL; rider = rider->next) {
        if (rc == 0 && merged != NULL)
            each += hand_out(rider->tx, each);
        if (rc < 0)
            *rider->tx->base.err = *leader->base.err;
        settle(rider->tx, &flight, rc);
    }
    *ret_rc = rc;
    return true;
}

/* The riders that wait, for one flight. Under the mutex. */
static struct pg_rider *take_riders(struct pg_group *group)
{
    struct pg_rider *riders = group->first;
    struct pg_rider *last = riders;
    if (riders == NULL)
        return NULL;
    last->state = RIDER_ABOARD;
    for (int i = 1; i < RIDERS_MAX && last->next != NULL; i++) {
        last = last->next;
        last->state = RIDER_ABOARD;
    }
    group->first = last->next;
    if (group->first == NULL)
        group->last = NULL;
    last->next = NULL;
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

static int lead(struct pg_group *group, struct pg_tx *tx)
{
    struct pg_db *db = (struct pg_db *)tx->base.db;
    int rc = 0;
    bool together = false;
    int64_t began_ns = clock_mono_ns();
    pthread_mutex_lock(&group->mutex);
    struct pg_rider *riders = take_riders(group);
    pthread_mutex_unlock(&group->mutex);
    if (riders != NULL && pg_pool_take(db, tx->deadline_ms, &tx->conn, tx->base.err) == 0) {
        together = fly_together(tx, riders, &rc);
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
    }
    if (together)
        pass_on(group, began_ns);
    pthread_mutex_unlock(&group->mutex);
    if (together)
        return rc;
    err_clear(tx->base.err);
    rc = pg_tx_fly(tx, true);
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
    if (group->flying < FLIGHTS || group->average_ns > SLOW_NS) {
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
    if (mine.state == RIDER_ALONE)
        return pg_tx_fly(tx, true);
    return tx->failed ? tx->base.err->code : 0;
}
