#include "run/metrics.h"

#include "run/job.h"
#include "run/step_record.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PACKET_BYTES = 1400 };

struct statsd {
    int fd; /* connected */
};

/* --- the server --- */

static int bad_form(const char *text, struct err *err)
{
    return err_set(err, TEND_EINVAL,
                   "'%s' is no address of a StatsD server; give host:port, as 127.0.0.1:8125",
                   text);
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

int metrics_open(struct statsd **ret, const char *host_port, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *addresses;
    const char *colon = strrchr(host_port, ':');
    char *end = NULL;
    long port = colon == NULL ? 0 : strtol(colon + 1, &end, 10);
    if (colon == NULL || colon == host_port || *end != '\0' || port < 1 || port > 65535)
        return bad_form(host_port, err);
    size_t len = (size_t)(colon - host_port);
    bool bracketed = len > 2 && host_port[0] == '[' && colon[-1] == ']';
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? len - 2 : len), host_port + bracketed);
    int rc = getaddrinfo(host, colon + 1, &hints, &addresses);
    if (rc != 0)
        return rc == EAI_SERVICE
                   ? bad_form(host_port, err)
                   : err_set(err, TEND_ENOTFOUND, "the StatsD server %s is not to be found: %s",
                             host_port, gai_strerror(rc));
    struct statsd *statsd = calloc(1, sizeof *statsd);
    int fd = statsd == NULL ? -1 : connect_to(addresses);
    freeaddrinfo(addresses);
    if (fd < 0) {
        free(statsd);
        return err_set(err, TEND_ENOTFOUND, "there is no way to the StatsD server %s: %s",
                       host_port, strerror(errno));
    }
    statsd->fd = fd;
    *ret = statsd;
    return 0;
}

void metrics_close(struct statsd *statsd)
{
    if (statsd == NULL)
        return;
    close(statsd->fd);
    free(statsd);
}

/* --- figures --- */

/* Several lines make one packet. */
struct packet {
    char text[PACKET_BYTES];
    size_t len;
};

static void put(struct packet *packet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct packet *packet, const char *format, ...)
{
    va_list args;
    size_t room = sizeof packet->text - packet->len;
    va_start(args, format);
    int len = vsnprintf(packet->text + packet->len, room, format, args);
    va_end(args);
    if (len > 0 && (size_t)len < room)
        packet->len += (size_t)len;
}

static void send_off(const tend_runner *runner, const struct packet *packet)
{
    ssize_t ignored =
        send(runner->statsd->fd, packet->text, packet->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

static void put_duration(struct packet *packet, const struct attempt *attempt, const char *outcome)
{
    put(packet, "task.step.duration_seconds:%.3f|h|#outcome:%s\n",
        (double)attempt->duration_ms / 1000, outcome);
}

void metrics_attempt_failed(tend_runner *runner, const struct attempt *attempt,
                            const struct failure *failure)
{
    struct packet packet = {.len = 0};
    const struct heal_verdict *verdict = &failure->verdict;
    const char *strategy = heal_strategy_name(verdict->action);
    const char *outcome = verdict->action == HEAL_FAIL        ? "failed"
                          : verdict->action == HEAL_EXHAUSTED ? "exhausted"
                                                              : "retried";
    if (runner->statsd == NULL)
        return;
    put(&packet, "task.self_heal.attempts_total:1|c|#class:%s,strategy:%s,outcome:%s\n",
        failure_class_name(verdict->class), strategy[0] != '\0' ? strategy : "none", outcome);
    if (verdict->action == HEAL_EXHAUSTED)
        put(&packet, "task.self_heal.exhausted_total:1|c\n");
    if (attempt->ending.kind == ENDED_IDLE_TIMEOUT)
        put(&packet, "task.step.idle_timeout_total:1|c\n");
    if (attempt->ending.kind == ENDED_WALL_TIMEOUT)
        put(&packet, "task.step.wall_timeout_total:1|c\n");
    if (verdict->no_progress)
        put(&packet, "task.step.no_progress_total:1|c\n");
    put_duration(&packet, attempt, "failed");
    send_off(runner, &packet);
}

void metrics_attempt_succeeded(tend_runner *runner, const struct attempt *attempt,
                               const struct failure *before)
{
    struct packet packet = {.len = 0};
    if (runner->statsd == NULL)
        return;
    if (attempt->attempt > 1)
        put(&packet,
            "task.self_heal.attempts_total:1|c|#class:%s,strategy:%s,outcome:recovered\n"
            "task.self_heal.recovered_total:1|c\n",
            failure_class_name(before->verdict.class), heal_strategy_name(before->verdict.action));
    put_duration(&packet, attempt, "succeeded");
    send_off(runner, &packet);
}
