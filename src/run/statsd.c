#include "run/statsd.h"

#include "base/thread.h"
#include "base/timetext.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WAIT_MS = 1000, NAME_BYTES = 256, PORT_BYTES = 8 };

/* Freed by the last of its two users, the one who opened it and the thread: a resolver cannot be
 * interrupted, and nobody waits for it. */
struct statsd {
    char name[NAME_BYTES]; /* host:port, for people */
    char host[NAME_BYTES], port[PORT_BYTES];
    int64_t again_ms;
    void (*say)(void *arg, const char *text);
    void *arg;
    _Atomic int fd; /* connected; -1: not yet */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int users;
    bool tried, closed;
};

/* --- the address --- */

static int split(const char *text, char host[NAME_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return -1;
    size_t len = (size_t)(colon - text);
    bool bracketed = len > 2 && text[0] == '[' && colon[-1] == ']';
    size_t digits = strspn(colon + 1, "0123456789");
    long number =
        digits > 0 && digits < 6 && colon[1 + digits] == '\0' ? strtol(colon + 1, NULL, 10) : 0;
    if (number < 1 || number > 65535 || len >= NAME_BYTES - PORT_BYTES)
        return -1;
    snprintf(host, NAME_BYTES, "%.*s", (int)(bracketed ? len - 2 : len), text + bracketed);
    snprintf(port, PORT_BYTES, "%ld", number);
    return 0;
}

int statsd_check(const char *host_port, struct err *err)
{
    char host[NAME_BYTES];
    char port[PORT_BYTES];
    if (split(host_port, host, port) == 0)
        return 0;
    return err_set(err, TEND_EINVAL,
                   "'%s' is no address of a StatsD server; give host:port, as 127.0.0.1:8125",
                   host_port);
}

static int connect_to(const struct addrinfo *addresses)
{
    for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

/* A connected socket, or -1 with the reason. */
static int look_up(const struct statsd *statsd, const char **ret_why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *addresses;
    int rc = getaddrinfo(statsd->host, statsd->port, &hints, &addresses);
    if (rc != 0) {
        *ret_why = gai_strerror(rc);
        return -1;
    }
    int fd = connect_to(addresses);
    if (fd < 0)
        *ret_why = strerrordesc_np(errno);
    freeaddrinfo(addresses);
    return fd;
}

/* --- the thread --- */

/* The mutex is held. */
static void say(struct statsd *statsd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct statsd *statsd, const char *format, ...)
{
    char text[512];
    va_list args;
    if (statsd->closed || statsd->say == NULL)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    statsd->say(statsd->arg, text);
}

/* The mutex is held; sleeps for so long, or until something has changed. */
static void doze(struct statsd *statsd, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&statsd->changed, &statsd->mutex, &until);
}

/* The mutex is held, and let go. */
static void leave(struct statsd *statsd)
{
    bool last = --statsd->users == 0;
    pthread_mutex_unlock(&statsd->mutex);
    if (!last)
        return;
    if (statsd->fd >= 0)
        close(statsd->fd);
    pthread_cond_destroy(&statsd->changed);
    pthread_mutex_destroy(&statsd->mutex);
    free(statsd);
}

static void *seek(void *arg)
{
    struct statsd *statsd = arg;
    char pause[DURATION_TEXT_BYTES];
    pthread_mutex_lock(&statsd->mutex);
    while (!statsd->closed && statsd->fd < 0) {
        const char *why = "";
        pthread_mutex_unlock(&statsd->mutex);
        int fd = look_up(statsd, &why);
        pthread_mutex_lock(&statsd->mutex);
        bool first = !statsd->tried;
        statsd->tried = true;
        statsd->fd = fd;
        pthread_cond_signal(&statsd->changed);
        if (fd < 0 && first)
            say(statsd,
                "StatsD server %s is not found: %s; metrics are dropped, and it is looked up "
                "again every %s",
                statsd->name, why, duration_text(statsd->again_ms, pause));
        else if (fd >= 0 && !first)
            say(statsd, "StatsD server %s is found; metrics are sent from now on", statsd->name);
        if (fd < 0 && !statsd->closed)
            doze(statsd, statsd->again_ms);
    }
    leave(statsd);
    return NULL;
}

int statsd_open(struct statsd **ret, const char *host_port, int64_t again_ms,
                void (*say_it)(void *arg, const char *text), void *arg, struct err *err)
{
    pthread_t thread;
    pthread_condattr_t attr;
    struct statsd *statsd = calloc(1, sizeof *statsd);
    if (statsd == NULL)
        return err_set(err, TEND_ENOMEM, "out of memory");
    snprintf(statsd->name, sizeof statsd->name, "%s", host_port);
    statsd->again_ms = again_ms;
    statsd->say = say_it;
    statsd->arg = arg;
    statsd->fd = -1;
    statsd->users = 2;
    pthread_mutex_init(&statsd->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&statsd->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (split(host_port, statsd->host, statsd->port) < 0 ||
        thread_start(&thread, 0, seek, statsd) != 0) {
        pthread_mutex_lock(&statsd->mutex);
        statsd->users = 1;
        leave(statsd);
        return err_set(err, TEND_ENOMEM, "no thread could be started to look up %s", host_port);
    }
    pthread_detach(thread);
    pthread_mutex_lock(&statsd->mutex);
    if (!statsd->tried)
        doze(statsd, FIRST_WAIT_MS);
    pthread_mutex_unlock(&statsd->mutex);
    *ret = statsd;
    return 0;
}

void statsd_close(struct statsd *statsd)
{
    if (statsd == NULL)
        return;
    pthread_mutex_lock(&statsd->mutex);
    statsd->closed = true;
    pthread_cond_signal(&statsd->changed);
    leave(statsd);
}

void statsd_send(struct statsd *statsd, const char *packet, size_t len)
{
    if (statsd->fd < 0)
        return;
    ssize_t ignored = send(statsd->fd, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}
