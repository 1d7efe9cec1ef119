/*
 * The keeper: a thread with a session of its own that does for the handle what outlives a
 * statement. It listens for the bell, holds the liveness locks of the workers registered here, and
 * looks after a neighbour, so that all of that goes on while the program's own threads are busy. It
 * runs from the first wait or registration on. What is said over its session, and why no wake-up is
 * lost, is told in pg_session.c; this file is the thread, and how others speak to it.
 *
 * Invariant: the session belongs to the thread; others set what they want under the mutex, wake the
 * thread, and wait until it has served their request or has found that it cannot now.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "store/pg_session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <tend.h>
#include <unistd.h>

enum {
    LINGER_MS = 1000, /* how long after the last wait rings are still heard */
    LEAVE_MS = 2000,  /* how long one that gives a worker up waits for the session */
    AGAIN_MS = 20,
};

/* --- the thread --- */

/* Whether rings are to reach this handle. Once not, nobody may rely on it from here on. Under the
 * mutex. */
static bool wants_rings(struct pg_keeper *keeper)
{
    bool wants = keeper->waiting > 0 ||
                 (keeper->idle_since_ms > 0 && clock_mono_ms() - keeper->idle_since_ms < LINGER_MS);
    if (!wants)
        keeper->registered = false;
    return wants;
}

/* Under the mutex. */
static void forget(struct pg_keeper *keeper, int64_t worker_id)
{
    for (size_t i = 0; i < keeper->worker_count; i++) {
        if (keeper->workers[i] == worker_id) {
            keeper->workers[i] = keeper->workers[--keeper->worker_count];
            break;
        }
    }
}

/* Brings the session in line with what is asked for, and answers those who asked. */
static void serve(struct pg_keeper *keeper, struct pg_session *session)
{
    pthread_mutex_lock(&keeper->mutex);
    uint64_t asked = keeper->asked;
    size_t count = keeper->worker_count;
    bool rings = wants_rings(keeper);
    int64_t *asked_for = calloc(2 * count + 1, sizeof *asked_for);
    int64_t *left = asked_for + count;
    if (asked_for != NULL && count > 0) {
        memcpy(asked_for, keeper->workers, count * sizeof *asked_for);
        memcpy(left, keeper->workers, count * sizeof *left);
    }
    pthread_mutex_unlock(&keeper->mutex);

    pg_session_connect(session);
    size_t missing = asked_for == NULL ? count : pg_session_hold(session, left, count);
    pg_session_register(session, rings);

    pthread_mutex_lock(&keeper->mutex);
    for (size_t i = 0; asked_for != NULL && i < count; i++)
        if (left[i] == 0)
            forget(keeper, asked_for[i]);
    free(asked_for);
    keeper->served = asked;
    keeper->registered = session->registered;
    keeper->complete = session->pg != NULL && missing == 0;
    keeper->err = session->err;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
}

static int sleep_ms(const struct pg_session *session, bool waits)
{
    int idle_ms = pg_session_idle_ms(session, waits);
    if (!waits && session->registered && (idle_ms < 0 || idle_ms > LINGER_MS))
        return LINGER_MS;
    return idle_ms;
}

static void *keep(void *arg)
{
    struct pg_keeper *keeper = arg;
    struct pg_session session;
    pg_session_init(&session, keeper->db);
    for (;;) {
        uint64_t ignored;
        serve(keeper, &session);
        pthread_mutex_lock(&keeper->mutex);
        bool stop = keeper->stop;
        bool waits = keeper->waiting > 0;
        pthread_mutex_unlock(&keeper->mutex);
        if (stop)
            break;
        if (waits)
            pg_session_probe(&session);
        pg_session_remind(&session);
        pg_session_hear(&session); /* what came along with an answer makes no socket readable */
        if (session.pg == NULL) {
            pthread_mutex_lock(&keeper->mutex);
            keeper->registered = keeper->complete = false;
            pthread_mutex_unlock(&keeper->mutex);
        }
        struct pollfd fds[] = {
            {.fd = keeper->wake_fd, .events = POLLIN},
            {.fd = session.pg != NULL ? PQsocket(session.pg) : -1, .events = POLLIN},
        };
        if (poll(fds, 2, sleep_ms(&session, waits)) > 0 && fds[0].revents != 0 &&
            read(keeper->wake_fd, &ignored, sizeof ignored) < 0 && errno != EAGAIN)
            break;
    }
    pg_session_done(&session);
    return NULL;
}

/* Starts the thread; under the mutex. */
static int start(struct pg_keeper *keeper, struct err *err)
{
    if (keeper->running)
        return 0;
    int rc = thread_start(&keeper->thread, 0, keep, keeper);
    if (rc != 0)
        return err_set(err, TEND_ENOMEM, "no thread could be started: %s", strerror(rc));
    keeper->running = true;
    return 0;
}

/* --- how others speak to it --- */

int pg_keeper_init(struct pg_keeper *keeper, struct pg_db *db, struct err *err)
{
    pthread_condattr_t attr;
    *keeper = (struct pg_keeper){.db = db, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (keeper->wake_fd < 0)
        return err_set(err, TEND_EIO, "no event descriptor could be made: %s", strerror(errno));
    return 0;
}

static void wake(struct pg_keeper *keeper)
{
    uint64_t one = 1;
    ssize_t ignored = write(keeper->wake_fd, &one, sizeof one);
    (void)ignored;
}

void pg_keeper_done(struct pg_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool running = keeper->running;
    keeper->stop = true;
    pthread_mutex_unlock(&keeper->mutex);
    if (running) {
        wake(keeper);
        pthread_join(keeper->thread, NULL);
    }
    if (keeper->wake_fd >= 0)
        close(keeper->wake_fd);
    free(keeper->workers);
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->mutex);
}

/* Has the thread catch up and waits until it has tried, at most until until_ms; whether it has.
 * Under the mutex. */
static bool have_served(struct pg_keeper *keeper, int64_t until_ms)
{
    uint64_t mine = ++keeper->asked;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    wake(keeper);
    while (keeper->served < mine &&
           pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &until) == 0)
        ;
    return keeper->served >= mine;
}

/* Under the mutex, which is given up meanwhile. */
static int wait_until_held(struct pg_keeper *keeper, int64_t wait_ms, struct err *err)
{
    int64_t busy_ms = keeper->db->options.busy_ms;
    if (wait_ms >= 0 && wait_ms < busy_ms)
        busy_ms = wait_ms;
    int64_t begun_ms = clock_mono_ms();
    int64_t until_ms = begun_ms + busy_ms;
    bool served = false;
    for (;;) {
        int64_t look_ms = clock_mono_ms() + HURRY_LOOK_MS;
        bool now = have_served(keeper, look_ms < until_ms ? look_ms : until_ms);
        until_ms = hurry_until(&keeper->db->hurry, begun_ms, until_ms);
        served |= now;
        if (now && keeper->complete)
            return 0;
        if (pg_gone(keeper->db))
            return pg_gone_say(keeper->db, err);
        if (clock_mono_ms() >= until_ms)
            break;
        pthread_mutex_unlock(&keeper->mutex);
        pg_db_sleep(AGAIN_MS);
        pthread_mutex_lock(&keeper->mutex);
    }
    if (keeper->err.code < 0) {
        *err = keeper->err;
        return err->code;
    }
    if (!served) { /* the server keeps it waiting */
        pg_error_silent(keeper->db->url.where, busy_ms, err);
        return err->code;
    }
    return err_set(err, TEND_EBUSY, "the liveness lock of this worker is held by another session");
}

int pg_keeper_hold(struct pg_keeper *keeper, int64_t worker_id, int64_t wait_ms, struct err *err)
{
    pthread_mutex_lock(&keeper->mutex);
    int64_t *grown = realloc(keeper->workers, (keeper->worker_count + 1) * sizeof *grown);
    int rc =
        grown == NULL ? err_set(err, TEND_ENOMEM, "out of memory while registering a worker") : 0;
    if (grown != NULL) {
        keeper->workers = grown;
        keeper->workers[keeper->worker_count++] = worker_id;
        rc = start(keeper, err);
    }
    if (rc == 0)
        rc = wait_until_held(keeper, wait_ms, err);
    pthread_mutex_unlock(&keeper->mutex);
    if (rc < 0)
        pg_keeper_release(keeper, worker_id);
    return rc;
}

void pg_keeper_release(struct pg_keeper *keeper, int64_t worker_id)
{
    pthread_mutex_lock(&keeper->mutex);
    forget(keeper, worker_id);
    if (keeper->running)
        have_served(keeper, clock_mono_ms() + LEAVE_MS);
    pthread_mutex_unlock(&keeper->mutex);
}

bool pg_keeper_knows(struct pg_keeper *keeper, int64_t worker_id)
{
    bool known = false;
    pthread_mutex_lock(&keeper->mutex);
    for (size_t i = 0; i < keeper->worker_count; i++)
        known |= keeper->workers[i] == worker_id;
    pthread_mutex_unlock(&keeper->mutex);
    return known;
}

int pg_keeper_enter(struct pg_keeper *keeper, int64_t most_ms, bool *ret_hears, struct err *err)
{
    pthread_mutex_lock(&keeper->mutex);
    keeper->waiting++;
    int rc = start(keeper, err);
    if (rc == 0 && !keeper->registered)
        have_served(keeper, clock_mono_ms() + most_ms);
    else if (rc == 0 && keeper->waiting == 1)
        wake(keeper); /* there is somebody again to look after a neighbour for */
    *ret_hears = keeper->registered;
    pthread_mutex_unlock(&keeper->mutex);
    return rc;
}

void pg_keeper_leave(struct pg_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    if (--keeper->waiting == 0)
        keeper->idle_since_ms = clock_mono_ms();
    pthread_mutex_unlock(&keeper->mutex);
}

bool pg_keeper_runs(struct pg_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool running = keeper->running;
    pthread_mutex_unlock(&keeper->mutex);
    return running;
}
