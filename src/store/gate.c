#include "store/gate.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool closed;
    int waiting, holding; /* threads */
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void gate_enter(void)
{
    pthread_mutex_lock(&gate.mutex);
    while (gate.closed)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.waiting++;
    pthread_mutex_unlock(&gate.mutex);
}

bool gate_hold(void)
{
    pthread_mutex_lock(&gate.mutex);
    bool held = !gate.closed;
    if (held) {
        gate.waiting--;
        gate.holding++;
    }
    pthread_mutex_unlock(&gate.mutex);
    return held;
}

void gate_leave(bool held)
{
    pthread_mutex_lock(&gate.mutex);
    if (held)
        gate.holding--;
    else
        gate.waiting--;
    if (gate.closed)
        pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

void gate_close(int64_t wait_ms)
{
    int64_t until_ns = clock_mono_ns() + wait_ms * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    bool late = false;
    pthread_mutex_lock(&gate.mutex);
    gate.closed = true;
    while (gate.holding > 0 || (gate.waiting > 0 && !late)) {
        if (late)
            pthread_cond_wait(&gate.changed, &gate.mutex);
        else
            late = pthread_cond_clockwait(&gate.changed, &gate.mutex, CLOCK_MONOTONIC, &until) ==
                   ETIMEDOUT;
    }
    pthread_mutex_unlock(&gate.mutex);
}

void gate_open(void)
{
    pthread_mutex_lock(&gate.mutex);
    gate.closed = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

void gate_after_fork(void)
{
    pthread_mutex_init(&gate.mutex, NULL);
    pthread_cond_init(&gate.changed, NULL);
    gate.closed = false;
    gate.waiting = gate.holding = 0;
}
