#include "run/metrics.h"

#include "run/job.h"
#include "run/statsd.h"
#include "run/step_record.h"

#include <stdarg.h>
#include <stdio.h>

enum { PACKET_BYTES = 1400 };

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
    statsd_send(runner->statsd, packet.text, packet.len);
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
    statsd_send(runner->statsd, packet.text, packet.len);
}
