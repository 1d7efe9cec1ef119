/*
 * An attempt that is an HTTP call: run/http.h makes it, here it meets the task. The body of the
 * answer is the attempt's output and its result, one line about status or trouble its error output.
 *
 * A server can tell repeats of a step by the header Idempotency-Key, which is the same in all
 * attempts until one has succeeded; a step that is then run again on purpose has another. The time
 * of the job's creation tells jobs of different stores apart.
 */
#include "base/clock.h"
#include "base/err.h"
#include "run/http.h"
#include "run/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALL_DESCRIPTORS = 8 }; /* to wake it, to look the name up, to connect */

static int take_body(void *context, const void *bytes, size_t len)
{
    attempt_hear(context, 1, bytes, len);
    return 0;
}

/* Why the call must end, as attempt->end; ATTEMPT_SUCCEEDED: it need not. */
static int watch(void *context)
{
    struct attempt *attempt = context;
    attempt->end = attempt_signal(attempt);
    if (attempt->end == ATTEMPT_SUCCEEDED && clock_mono_ms() >= task_safe_until(attempt->run->task))
        attempt->end = ATTEMPT_STOPPED; /* the lease may be over soon */
    if (attempt->end != ATTEMPT_SUCCEEDED)
        return 1;
    attempt_flush(attempt);
    return 0;
}

static void note(struct attempt *attempt, const char *text)
{
    attempt_hear(attempt, 2, text, strlen(text));
    attempt_hear(attempt, 2, "\n", 1);
}

/*
 * Whether a call that came to nobody may have had no descriptors: libcurl tells a socket that it
 * cannot make as a connection that it cannot make. What the call had is free again.
 */
static bool has_no_descriptors(const struct attempt *attempt, const struct ending *ending)
{
    int fds[CALL_DESCRIPTORS];
    size_t count = 0;
    if (ending->kind != ENDED_HTTP_TRANSPORT ||
        (ending->number != HTTP_NOT_RESOLVED && ending->number != HTTP_NOT_CONNECTED &&
         ending->number != HTTP_OTHER_TROUBLE))
        return false;
    while (count < CALL_DESCRIPTORS &&
           (fds[count] = fcntl(attempt->run->task->cancel_fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    bool missing = count < CALL_DESCRIPTORS;
    while (count > 0)
        close(fds[--count]);
    return missing;
}

static void judge(struct attempt *attempt, const struct http_answer *answer)
{
    if (answer->end == HTTP_FAILED && has_no_descriptors(attempt, &answer->ending)) {
        attempt_lacks(attempt, TEND_ENOMEM, "no descriptors for an HTTP call");
        return;
    }
    if (answer->status > 0)
        lack_over(attempt->run->runner, attempt->run->task->lease, true);
    switch (answer->end) {
    case HTTP_SUCCEEDED:
        attempt->end = ATTEMPT_SUCCEEDED;
        break;
    case HTTP_FAILED:
        attempt->end = ATTEMPT_FAILED;
        attempt->ending = answer->ending;
        if (answer->retry_after_ms >= 0)
            attempt->report.retry_after_ms = answer->retry_after_ms;
        break;
    case HTTP_STOPPED:
        /* By cancel_fd: what it was about is asked now. Nothing any more? It was stopped all the
           same. */
        if (attempt->end == ATTEMPT_SUCCEEDED)
            attempt->end = attempt_signal(attempt);
        if (attempt->end == ATTEMPT_SUCCEEDED)
            attempt->end = ATTEMPT_STOPPED;
        break;
    }
    if (answer->end == HTTP_STOPPED)
        return;
    note(attempt, answer->note);
    snprintf(attempt->note, sizeof attempt->note, "%s", answer->note);
}

static const char *key_of(const struct attempt *attempt, struct arena *arena)
{
    const struct job_run *run = attempt->run;
    const struct tend_job *job = run->task->job;
    const char *key = arena_printf(arena, "tend-%lld-%lld-%s", (long long)job->created_at_ms,
                                   (long long)job->id, attempt->step->id);
    int64_t times_done = run->times_done[run->step - 1];
    return key == NULL || times_done == 0
               ? key
               : arena_printf(arena, "%s-%lld", key, (long long)times_done + 1);
}

static int call_out(struct attempt *attempt, struct http_answer *ret, struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    const struct http_call call = {
        .plan = attempt->http,
        .idempotency_key = key_of(attempt, &arena),
        .redactor = attempt->run->redactor,
        .ca_file = getenv("SSL_CERT_FILE"), /* as for the curl command */
        .wall_timeout_ms = attempt->budgets.step_timeout_ms,
        .idle_timeout_ms = attempt->budgets.step_idle_timeout_ms,
        .cancel_fd = attempt->run->task->cancel_fd,
        .on_body = take_body,
        .on_tick = watch,
        .context = attempt,
    };
    int rc = call.idempotency_key == NULL
                 ? err_set(err, TEND_ENOMEM, "out of memory preparing an HTTP request")
                 : http_call(&call, ret, err);
    arena_done(&arena);
    return rc;
}

void attempt_run_http(struct attempt *attempt)
{
    struct http_answer answer = {.end = HTTP_FAILED};
    struct err err;
    if (watch(attempt) != 0)
        return;
    int rc = call_out(attempt, &answer, &err);
    if (rc == 0) {
        judge(attempt, &answer);
    } else {
        attempt_lacks(attempt, TEND_ENOMEM, err.text);
    }
    attempt_end_output(attempt);
}
