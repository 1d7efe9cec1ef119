#include "queue/policy_row.h"

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value == TEND_UNSET ? otherwise : value;
}

void policy_row_read(struct policy_row *row, const struct policy_columns *from)
{
    struct retry_policy policy = policy_default();
    policy.max_attempts = (int)or_default(db_num(from->max_attempts), policy.max_attempts);
    policy.max_crashes = (int)or_default(db_num(from->max_crashes), policy.max_crashes);
    policy.backoff_ms = or_default(db_num(from->backoff_ms), policy.backoff_ms);
    policy.backoff_max_ms = or_default(db_num(from->backoff_max_ms), policy.backoff_max_ms);
    *row = (struct policy_row){
        .id = db_num(from->id),
        .state = (enum job_state)db_num(from->state),
        .token = db_num(from->token),
        .attempts = db_num(from->attempts),
        .crashes = db_num(from->crashes),
        .started = db_num(from->started_at) != TEND_UNSET,
        .owner = db_str(from->owner),
        .queue = db_str(from->queue),
        .policy = policy,
    };
}
