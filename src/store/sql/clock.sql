-- Clocks that jump, and time in which nobody could write: neither ends a lease.

-- name: clock_steps
-- How often leases were moved. Called by store/sqlite_clock.c, as the next five, when there is something to move.
SELECT clock_steps FROM store WHERE id = 1;

-- name: clock_step
UPDATE store SET clock_steps = clock_steps + 1 WHERE id = 1;

-- name: clock_move_leases
-- The last $1 ms until now ($2) count against no lease: neither its end nor the time since its last sign of life
-- includes them.
-- Index job_alarm, all that are running.
UPDATE job
SET alarm_at = alarm_at + $1,
    seen_at = CASE WHEN seen_at + $1 > $2 THEN $2 ELSE seen_at + $1 END
WHERE state = 2 AND alarm_at IS NOT NULL;

-- name: clock_move_locks
-- Index lock_expiry.
UPDATE lock SET expires_at = expires_at + $1 WHERE expires_at IS NOT NULL;

-- name: clock_move_newcomers
-- Workers that had only just registered still have: they may not have taken their liveness lock (queue/registry.c).
UPDATE worker SET since = since + $1 WHERE since + $1 + 2000 > $2 AND since + $1 <= $2;

-- name: job_warn
-- An expired lease is spared for $3 ms more; for db_each. Any sign of life clears the mark. Primary key. Called by
-- queue/recover.c, as the next.
UPDATE job
SET warned = 1, alarm_at = now($4) + $3
WHERE id = $1 AND token = $2 AND state = 2;
-- dialect: postgres
UPDATE job
SET warned = 1, alarm_at = c.t + u.spared
FROM (SELECT now_each($4) AS t OFFSET 0) c,
     unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (id, token, spared, ordinal)
WHERE job.id = u.id AND job.token = u.token AND state + 0 = 2
RETURNING u.ordinal, 1;

-- name: event_of_warning
-- Its event, to be put into the job's chain (event_into_chain).
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
SELECT next_event(), event_id, now($2), id, queue, $3, 'job.warned', state, state, token, owner, $4
FROM job
WHERE id = $1;

-- name: job_warned
-- Primary key. Called by queue/explain.c.
SELECT warned FROM job WHERE id = $1;
