#include "queue/policy_row.h"

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value == TEND_UNSET ? otherwise : value;
}

void policy_row_read(struct policy_row *row, const struct db_result *from, size_t index)
{
    struct retry_policy policy = policy_default();
    policy.max_attempts = (int)or_default(db_number(from, index, 8), policy.max_attempts);
    policy.max_crashes = (int)or_default(db_number(from, index, 9), policy.max_crashes);
    policy.backoff_ms = or_default(db_number(from, index, 10), policy.backoff_ms);
    policy.backoff_max_ms = or_default(db_number(from, index, 11), policy.backoff_max_ms);
    *row = (struct policy_row){
        .id = db_number(from, index, 0),
        .state = (enum job_state)db_number(from, index, 1),
        .token = db_number(from, index, 2),
        .attempts = db_number(from, index, 3),
        .crashes = db_number(from, index, 4),
        .started = db_number(from, index, 5) != TEND_UNSET,
        .owner = db_string(from, index, 6),
        .queue = db_string(from, index, 7),
        .spared_ms = from->columns > 12 ? db_number(from, index, 12) : TEND_UNSET,
        .policy = policy,
    };
}
