/*
 * The job state machine: picture, list, facts, then the table as data. When one of them changes,
 * all change; tests/unit/test_state.c reads the list below and compares it with the table.
 *
 *     add_later        add
 *         │             │
 *         ▼             ▼
 *     scheduled ─due─▶ pending ─claim─▶ running ─complete─▶ done
 *         ▲             ▲ ▲               │ │ │
 *         │             │ └──release,─────┘ │ ├─fail, quarantine─▶ failed ────┐
 *         │             │    recover        │ │                               │
 *         └─────────────┼────retry_later,───┘ └─cancel───────────▶ cancelled ─┤
 *                       │    release_later                                    │
 *         ▲             └─────────────────────redrive─────────────────────────┤
 *         └───────────────────────────────────redrive_later, from cancelled───┘
 *
 *     scheduled, pending, running ─hold─▶ held ─┬─resume───────▶ pending
 *                                               ├─resume_later─▶ scheduled
 *                                               └─cancel───────▶ cancelled
 *     scheduled, pending ─┬─cancel───────────▶ cancelled
 *                         ├─reschedule───────▶ pending
 *                         └─reschedule_later─▶ scheduled
 *
 * Moves:
 *
 *     none      -> pending    [add]
 *     none      -> scheduled  [add_later]
 *     scheduled -> pending    [due]
 *     scheduled -> pending    [reschedule]
 *     scheduled -> scheduled  [reschedule_later]
 *     scheduled -> held       [hold]
 *     scheduled -> cancelled  [cancel]
 *     pending   -> running    [claim]
 *     pending   -> pending    [reschedule]
 *     pending   -> scheduled  [reschedule_later]
 *     pending   -> held       [hold]
 *     pending   -> cancelled  [cancel]
 *     running   -> done       [complete]
 *     running   -> failed     [fail]
 *     running   -> failed     [quarantine]
 *     running   -> scheduled  [retry_later]
 *     running   -> scheduled  [release_later]
 *     running   -> pending    [release]
 *     running   -> pending    [recover]
 *     running   -> held       [hold]
 *     running   -> cancelled  [cancel]
 *     held      -> pending    [resume]
 *     held      -> scheduled  [resume_later]
 *     held      -> cancelled  [cancel]
 *     failed    -> pending    [redrive]
 *     cancelled -> pending    [redrive]
 *     cancelled -> scheduled  [redrive_later]
 *
 * Facts that hold in each state:
 *
 *     scheduled  Nobody owns it. The due time was in the future when it got here. A claim does not
 *                look at it; the due move makes it pending.
 *     pending    Nobody owns it, and it is due: a claim may take it at any moment.
 *     running    It has an owner, a token and an end of lease. Only who shows the token may
 *                complete, fail, retry or release it. started_at is set once work has begun, so a
 *                lease without it has cost neither an attempt nor a crash.
 *     held       Nobody owns it, and it says why it is held. No clock moves it, only resume or
 *                cancel; a timeout on the wait is somebody's resume or cancel.
 *     done       Nobody owns it, finished_at is set, its dedupe key is free. Nothing leads out.
 *     failed     As done, with the error and its class; a dead letter until it is redriven.
 *     cancelled  As done, without a result; can be redriven.
 */
#include "core/state.h"

#include <string.h>
#include <tend.h>

/* Stored and public numbers are the same. */
_Static_assert((int)JOB_SCHEDULED == TEND_SCHEDULED && (int)JOB_PENDING == TEND_PENDING &&
                   (int)JOB_RUNNING == TEND_RUNNING && (int)JOB_HELD == TEND_HELD &&
                   (int)JOB_DONE == TEND_DONE && (int)JOB_FAILED == TEND_FAILED &&
                   (int)JOB_CANCELLED == TEND_CANCELLED && JOB_STATES == TEND_STATE_COUNT,
               "enum job_state and enum tend_state differ");

/* lease_ends, by_owner, bumps_token as they come together. */
#define NO_LEASE false, false, false
#define OWNER_ENDS_LEASE true, true, false
#define OTHER_ENDS_LEASE true, false, true

static const struct state_row table[] = {
    {JOB_NONE, MOVE_ADD, JOB_PENDING, "job.added", NO_LEASE},
    {JOB_NONE, MOVE_ADD_LATER, JOB_SCHEDULED, "job.added", NO_LEASE},

    {JOB_SCHEDULED, MOVE_DUE, JOB_PENDING, "job.due", NO_LEASE},
    {JOB_SCHEDULED, MOVE_RESCHEDULE, JOB_PENDING, "job.rescheduled", NO_LEASE},
    {JOB_SCHEDULED, MOVE_RESCHEDULE_LATER, JOB_SCHEDULED, "job.rescheduled", NO_LEASE},
    {JOB_SCHEDULED, MOVE_HOLD, JOB_HELD, "job.held", NO_LEASE},
    {JOB_SCHEDULED, MOVE_CANCEL, JOB_CANCELLED, "job.cancelled", NO_LEASE},

    {JOB_PENDING, MOVE_CLAIM, JOB_RUNNING, "job.claimed", NO_LEASE},
    {JOB_PENDING, MOVE_RESCHEDULE, JOB_PENDING, "job.rescheduled", NO_LEASE},
    {JOB_PENDING, MOVE_RESCHEDULE_LATER, JOB_SCHEDULED, "job.rescheduled", NO_LEASE},
    {JOB_PENDING, MOVE_HOLD, JOB_HELD, "job.held", NO_LEASE},
    {JOB_PENDING, MOVE_CANCEL, JOB_CANCELLED, "job.cancelled", NO_LEASE},

    {JOB_RUNNING, MOVE_COMPLETE, JOB_DONE, "job.completed", OWNER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_FAIL, JOB_FAILED, "job.failed", OWNER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_RETRY_LATER, JOB_SCHEDULED, "job.retry_scheduled", OWNER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_RELEASE, JOB_PENDING, "job.released", OWNER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_RELEASE_LATER, JOB_SCHEDULED, "job.released", OWNER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_RECOVER, JOB_PENDING, "job.recovered", OTHER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_QUARANTINE, JOB_FAILED, "job.quarantined", OTHER_ENDS_LEASE},
    /* Hold and cancel need no token; an owner that asks for them shows it all the same. */
    {JOB_RUNNING, MOVE_HOLD, JOB_HELD, "job.held", OTHER_ENDS_LEASE},
    {JOB_RUNNING, MOVE_CANCEL, JOB_CANCELLED, "job.cancelled", OTHER_ENDS_LEASE},

    {JOB_HELD, MOVE_RESUME, JOB_PENDING, "job.resumed", NO_LEASE},
    {JOB_HELD, MOVE_RESUME_LATER, JOB_SCHEDULED, "job.resumed", NO_LEASE},
    {JOB_HELD, MOVE_CANCEL, JOB_CANCELLED, "job.cancelled", NO_LEASE},

    {JOB_FAILED, MOVE_REDRIVE, JOB_PENDING, "job.redriven", NO_LEASE},
    {JOB_CANCELLED, MOVE_REDRIVE, JOB_PENDING, "job.redriven", NO_LEASE},
    {JOB_CANCELLED, MOVE_REDRIVE_LATER, JOB_SCHEDULED, "job.redriven", NO_LEASE},
};

enum { TABLE_ROWS = sizeof table / sizeof *table };

static const char *const state_names[JOB_STATES] = {
    [JOB_SCHEDULED] = "scheduled", [JOB_PENDING] = "pending", [JOB_RUNNING] = "running",
    [JOB_HELD] = "held",           [JOB_DONE] = "done",       [JOB_FAILED] = "failed",
    [JOB_CANCELLED] = "cancelled",
};

static const char *const move_names[JOB_MOVES] = {
    [MOVE_ADD] = "add",
    [MOVE_ADD_LATER] = "add_later",
    [MOVE_DUE] = "due",
    [MOVE_CLAIM] = "claim",
    [MOVE_COMPLETE] = "complete",
    [MOVE_FAIL] = "fail",
    [MOVE_RETRY_LATER] = "retry_later",
    [MOVE_RELEASE] = "release",
    [MOVE_RELEASE_LATER] = "release_later",
    [MOVE_RECOVER] = "recover",
    [MOVE_QUARANTINE] = "quarantine",
    [MOVE_HOLD] = "hold",
    [MOVE_RESUME] = "resume",
    [MOVE_RESUME_LATER] = "resume_later",
    [MOVE_CANCEL] = "cancel",
    [MOVE_REDRIVE] = "redrive",
    [MOVE_REDRIVE_LATER] = "redrive_later",
    [MOVE_RESCHEDULE] = "reschedule",
    [MOVE_RESCHEDULE_LATER] = "reschedule_later",
};

const char *state_name(enum job_state state)
{
    int number = (int)state;
    if (number == JOB_NONE)
        return "none";
    return number >= 0 && number < JOB_STATES ? state_names[number] : NULL;
}

const char *move_name(enum job_move verb)
{
    int number = (int)verb;
    return number >= 0 && number < JOB_MOVES ? move_names[number] : NULL;
}

int state_move(enum job_state from, enum job_move verb, const struct state_row **ret_row)
{
    if (!state_name(from) || !move_name(verb))
        return TEND_EINVAL;
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        if (table[i].from == from && table[i].verb == verb) {
            *ret_row = &table[i];
            return 0;
        }
    }
    return TEND_ESTATE;
}

bool state_allows(enum job_state from, enum job_state to)
{
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        if (table[i].from == from && table[i].to == to)
            return true;
    }
    return false;
}

bool state_is_finished(enum job_state state)
{
    return state == JOB_DONE || state == JOB_FAILED || state == JOB_CANCELLED;
}

int state_count(void)
{
    return JOB_STATES;
}

int state_parse(const char *name, enum job_state *ret_state)
{
    for (int i = 0; name && i < JOB_STATES; i++) {
        if (strcmp(name, state_names[i]) == 0) {
            *ret_state = (enum job_state)i;
            return 0;
        }
    }
    return TEND_EINVAL;
}

const struct state_row *state_table(size_t *ret_rows)
{
    *ret_rows = TABLE_ROWS;
    return table;
}
