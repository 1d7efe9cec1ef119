/* What may be said about steps: checked before the store is asked, so that bad input changes
 * nothing. */
#include "queue/add.h"
#include "queue/attempt.h"
#include "queue/finish.h"
#include "queue/lease.h"

#include <string.h>

enum { STEPS_MAX = 1000000 };

static int check_one_of(tend *t, const char *what, const char *text, const char *const *choices,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (text != NULL && strcmp(text, choices[i]) == 0)
            return 0;
    return handle_fail(t, TEND_EINVAL, "'%.80s' is no %s", text != NULL ? text : "", what);
}

static int check_strategy(tend *t, const char *strategy)
{
    static const char *const strategies[] = {"first", "soft_reset", "hard_reset"};
    return strategy == NULL ? 0
                            : check_one_of(t, "strategy; give first, soft_reset or hard_reset",
                                           strategy, strategies, 3);
}

static int check_count(tend *t, const char *what, int64_t number)
{
    return number >= 1 && number <= STEPS_MAX
               ? 0
               : handle_fail(t, TEND_EINVAL, "%s is %lld; it must be from 1 to %d", what,
                             (long long)number, STEPS_MAX);
}

static int check_json(tend *t, const char *what, const char *text)
{
    return text == NULL ? 0 : add_check_json(t, what, text, strlen(text));
}

static int check_verdict(tend *t, const struct tend_attempt_end *ended)
{
    static const char *const verdicts[] = {"soft_reset", "hard_reset", "failed", "exhausted"};
    static const char *const timeouts[] = {"idle", "wall"};
    static const char *const recovered[] = {"recovered"};
    int rc = 0;
    if (ended->verdict != NULL && ended->state == TEND_ATTEMPT_FAILED)
        rc = check_one_of(t, "verdict on a failure", ended->verdict, verdicts, 4);
    else if (ended->verdict != NULL)
        rc = check_one_of(t, "verdict on a success", ended->verdict, recovered, 1);
    if (rc == 0 && ended->timeout != NULL)
        rc = check_one_of(t, "time that ends an attempt", ended->timeout, timeouts, 2);
    return rc;
}

static int check_ended(tend *t, const struct tend_attempt_end *ended)
{
    int rc = check_verdict(t, ended);
    if (rc < 0)
        return rc;
    if (ended->number < 1)
        return handle_fail(t, TEND_EINVAL, "%lld is no number of an attempt; they count from 1",
                           (long long)ended->number);
    if (ended->state != TEND_ATTEMPT_SUCCEEDED && ended->state != TEND_ATTEMPT_FAILED &&
        ended->state != TEND_ATTEMPT_STOPPED)
        return handle_fail(t, TEND_EINVAL,
                           "an attempt ends as succeeded, failed or stopped, not as %d (%s)",
                           ended->state, tend_attempt_state_name(ended->state));
    if (ended->patch != NULL && ended->patch_bytes > TEND_PATCH_BYTES_MAX)
        return handle_fail(t, TEND_EINVAL,
                           "the patch has %zu bytes, more than a checkpoint can hold (%u)",
                           ended->patch_bytes, TEND_PATCH_BYTES_MAX);
    if (ended->next_in_ms != TEND_UNSET &&
        (rc = handle_check_time(t, "the wait before the next attempt", ended->next_in_ms, 0,
                                SPAN_MOST_MS)) < 0)
        return rc;
    if ((rc = check_json(t, "list of changed files", ended->changed_files)) < 0 ||
        (rc = check_json(t, "list of warnings", ended->warnings)) < 0)
        return rc;
    return check_json(t, "list of outputs", ended->outputs);
}

static int check_begun(tend *t, const struct tend_attempt_begin *begun)
{
    int rc;
    if ((rc = check_count(t, "the index of the step", begun->step_index)) < 0 ||
        (rc = check_count(t, "the attempt", begun->attempt)) < 0 ||
        (rc = handle_check_name(t, "step", begun->step_id)) < 0 ||
        (rc = handle_check_name(t, "marker of an attempt", begun->marker)) < 0)
        return rc;
    return check_strategy(t, begun->strategy);
}

static int check_event(tend *t, const struct tend_step_event *event)
{
    static const char *const names[] = {"task.self_heal.triggered", "task.self_heal.escalated",
                                        "task.self_heal.exhausted", "task.resume.from_step",
                                        "task.step.warning"};
    int rc;
    if ((rc = check_one_of(t, "event of a step", event->what, names,
                           sizeof names / sizeof *names)) < 0 ||
        (rc = check_count(t, "the index of the step", event->step_index)) < 0 ||
        (rc = handle_check_name(t, "step", event->step_id)) < 0)
        return rc;
    return check_strategy(t, event->strategy);
}

int step_check_change(tend *t, const struct tend_step_change *change)
{
    int rc = 0;
    if (change->drop_from_step < 0 || change->drop_from_step > STEPS_MAX)
        return handle_fail(t, TEND_EINVAL,
                           "checkpoints cannot be dropped from step %lld on; steps count from 1",
                           (long long)change->drop_from_step);
    if (change->ended != NULL)
        rc = check_ended(t, change->ended);
    for (size_t i = 0; rc == 0 && i < change->event_count; i++)
        rc = check_event(t, &change->events[i]);
    if (rc == 0 && change->begun != NULL)
        rc = check_begun(t, change->begun);
    return rc;
}

int step_check_changes(tend *t, const struct tend_changes *changes, size_t most_bytes)
{
    if (changes->patch_bytes > most_bytes)
        return handle_fail(t, TEND_EINVAL, "the patch has %zu bytes; at most %zu can be kept",
                           changes->patch_bytes, most_bytes);
    if (changes->patch == NULL || changes->dropped_bytes < 0)
        return handle_fail(t, TEND_EINVAL, "changes without a patch cannot be kept");
    return check_json(t, "list of changed files", changes->changed_files);
}

int step_check_close(tend *t, const struct tend_step_close *close)
{
    int rc = close->changes == NULL
                 ? 0
                 : step_check_changes(t, close->changes, TEND_KEPT_PATCH_BYTES_MAX);
    if (rc < 0)
        return rc;
    switch (close->how) {
    case TEND_STEPS_COMPLETE:
        return lease_check_results(t, &close->result, 1);
    case TEND_STEPS_FAIL:
        return close->failure == NULL ? handle_fail(t, TEND_EINVAL, "a failure must be told")
                                      : finish_check_failure(t, close->failure);
    case TEND_STEPS_RELEASE:
        return handle_check_time(t, "the delay", close->delay_ms, 0, SPAN_MOST_MS);
    case TEND_STEPS_HOLD:
        return 0;
    }
    return handle_fail(t, TEND_EINVAL, "%d is no way to end a job", (int)close->how);
}
