-- Attempts of steps. Whoever writes one has the job's row locked and its lease checked (step_fence), or says so in
-- the statement itself.

-- doing: reading attempts | changing attempts

-- define: attempt
a.job_id, a.number, a.step_index, a.step_id, a.attempt, a.token, a.worker_id, a.host, a.boot_id, a.pid,
a.start_ticks, a.marker, a.state, a.strategy, a.started_at, a.ended_at, a.exit_code, a.signal,
a.failure_class, a.rule, a.evidence, a.summary, a.signature, a.diff_hash, a.progress_percent,
a.progress_text, a.output_bytes, a.output_dropped_bytes, a.verdict, a.no_progress, a.timeout, a.retryable, a.warnings,
a.failures, a.outside, a.next_at, j.state, j.token, j.life_token

-- name: step_fence
-- The job as its owner's report finds it; on PostgreSQL it stays so until the end of the transaction, and what is
-- read by statements after this one is of that moment. Primary key. Called by queue/attempt.c and queue/control.c.
SELECT state, token, owner, queue, worker_id, event_id, lock_name, stopped_token, followed
FROM job
WHERE id = $1;
-- dialect: postgres
SELECT state, token, owner, queue, worker_id, event_id, lock_name, stopped_token, followed
FROM job
WHERE id = $1
FOR NO KEY UPDATE;

-- name: attempt_last
-- The job's newest attempt: the only one that can be running. Primary key. Called by queue/attempt.c.
SELECT number, state, token, marker, step_index, step_id, attempt, strategy
FROM attempt
WHERE job_id = $1
ORDER BY number DESC
LIMIT 1;

-- name: attempt_now
-- The newest attempt of a job: what it does, or how it ended. Primary key. Called by queue/explain_step.c.
SELECT number, step_index, step_id, attempt, started_at, progress_percent, progress_text, state, failure_class,
       coalesce(evidence, summary), next_at, token
FROM attempt
WHERE job_id = $1
ORDER BY number DESC
LIMIT 1;

-- name: attempt_begin
-- Called by queue/attempt_write.c.
INSERT INTO attempt
    (job_id, number, step_index, step_id, attempt, token, worker_id, host, boot_id, pid, start_ticks,
     marker, strategy, state, may_live, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 1, now($14));

-- name: attempt_end
-- $15 = 1: something of it may be left. $23: how long the step waits before its next attempt. Primary key.
-- Called by queue/attempt_write.c.
UPDATE attempt
SET state = $3, ended_at = now($4), exit_code = $5, signal = $6, failure_class = $7, rule = $8,
    evidence = $9, summary = $10, signature = $11, diff_hash = $12, output_bytes = $13,
    output_dropped_bytes = $14, may_live = $15, verdict = $16, no_progress = $17, timeout = $18,
    retryable = $19, warnings = $20, failures = $21, outside = $22, next_at = now($4) + $23
WHERE job_id = $1 AND number = $2 AND state = 0;

-- name: step_event
-- An event of a job that is no move of it, behind $1 in the job's chain, or behind the one written before.
-- Called by queue/attempt_write.c.
INSERT INTO event (prev, id, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data)
VALUES (coalesce($1, (SELECT max(id) FROM event)), next_event(), now($2), $3, $4, $5, $6, $7, $7, $8, $9,
        $10, $11);
-- dialect: postgres
-- The columns of a row are computed in the table's order, id first; so the event before comes from a row of its own.
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data)
SELECT next_event(), c.prev, c.t, $3::bigint, $4::text, $5::text, $6::text, $7::smallint, $7::smallint,
       $8::bigint, $9::text, $10::text, $11::text
FROM (SELECT coalesce($1::bigint, currval('event_id')) AS prev, now($2) AS t OFFSET 0) c;

-- name: step_chain
-- The event just written is the job's newest. A report about steps is a sign of life, and work has begun.
-- Called by queue/attempt_write.c.
UPDATE job
SET event_id = (SELECT max(id) FROM event), seen_at = now($2), started_at = coalesce(started_at, now($2))
WHERE id = $1;
-- dialect: postgres
UPDATE job
SET event_id = currval('event_id'), seen_at = c.t, started_at = coalesce(started_at, c.t)
FROM (SELECT now($2) AS t OFFSET 0) c
WHERE id = $1;

-- name: attempt_started
-- Its process is known; for db_each. Primary keys. Called by queue/attempt_read.c.
UPDATE attempt
SET pid = $4, start_ticks = $5
WHERE job_id = $1 AND number = $3 AND token = $2 AND state = 0
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state = 2);
-- dialect: postgres
UPDATE attempt
SET pid = $4, start_ticks = $5
WHERE job_id = $1 AND number = $3 AND token = $2 AND state = 0
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state + 0 = 2 FOR SHARE);

-- name: attempt_progress
-- For db_each. Primary keys. Called by queue/attempt_read.c.
UPDATE attempt
SET progress_percent = $4, progress_text = $5
WHERE job_id = $1 AND number = $3 AND token = $2 AND state = 0
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state = 2);
-- dialect: postgres
UPDATE attempt
SET progress_percent = $4, progress_text = $5
WHERE job_id = $1 AND number = $3 AND token = $2 AND state = 0
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state + 0 = 2 FOR SHARE);

-- name: attempt_list
-- All of one job, in order. Primary keys. Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a JOIN job j ON j.id = a.job_id
WHERE a.job_id = $1
ORDER BY a.number;

-- name: attempt_running
-- Those whose owner is at it. Index attempt_may_live (CROSS JOIN: SQLite begins with it). Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id >= '' AND a.state = 0 AND j.state = 2 AND j.token = a.token
LIMIT $1;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id >= '' AND a.state = 0 AND j.state + 0 = 2 AND j.token = a.token
LIMIT $1;

-- name: attempt_waiting
-- The newest attempts of running jobs whose step waits before its next one. Index job_alarm, then primary keys.
-- Called by queue/attempt_read.c.
SELECT {attempt}
FROM job j CROSS JOIN attempt a
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND a.job_id = j.id AND a.token = j.token AND a.next_at > now($2)
  AND a.number = (SELECT max(number) FROM attempt WHERE job_id = j.id)
LIMIT $1;

-- name: attempt_left_behind
-- Attempts of host $2 in boot $1 of its machine whose lease is no longer held, after attempt $4 of job $3. Index
-- attempt_may_live, which in SQLite goes on with the primary key; PostgreSQL sorts. Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id = $1 AND a.host = $2
  AND (a.job_id, a.number) > ($3, $4) AND NOT (j.state = 2 AND j.token = a.token)
ORDER BY a.job_id, a.number
LIMIT $5;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id = $1 AND a.host = $2
  AND (a.job_id + 0, a.number) > ($3, $4) AND NOT (j.state + 0 = 2 AND j.token = a.token)
ORDER BY a.job_id + 0, a.number
LIMIT $5;

-- name: attempt_left_of_job
-- The same of job $3 alone. Primary keys. Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.job_id = $3 AND a.number > $4 AND a.may_live = 1 AND +a.boot_id = $1
  AND a.host = $2 AND NOT (j.state = 2 AND j.token = a.token)
ORDER BY a.number
LIMIT $5;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.job_id = $3 AND a.number > $4 AND a.may_live = 1 AND a.boot_id = $1
  AND a.host = $2 AND NOT (j.state + 0 = 2 AND j.token = a.token)
ORDER BY a.number
LIMIT $5;

-- name: attempt_swept
-- Nothing is left of its process tree; for db_each. Not while its lease is held: then its owner says so.
-- Called by queue/attempt_read.c.
UPDATE attempt
SET may_live = 0
WHERE job_id = $1 AND number = $2 AND may_live = 1
  AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = $1 AND j.state = 2 AND j.token = attempt.token);

-- name: attempt_delete
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM attempt
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM attempt
USING unnest($1::bigint[]) AS u (id)
WHERE attempt.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);

-- One attempt that has ended as the metrics count it (SH-14): class of the failure, strategy that followed it, and what
-- became of it; of a recovery those of the failure before, by primary key.
-- define: counted
CASE WHEN a.state = 2 THEN coalesce(a.failure_class, '')
     WHEN a.verdict = 'recovered'
     THEN coalesce((SELECT p.failure_class
                    FROM attempt p
                    WHERE p.job_id = a.job_id AND p.number < a.number AND p.step_index = a.step_index
                      AND p.state = 2
                    ORDER BY p.number DESC
                    LIMIT 1), '')
     ELSE ''
END AS failure_class,
CASE WHEN a.state = 1 THEN a.strategy
     WHEN a.verdict IN ('soft_reset', 'hard_reset') THEN a.verdict
     ELSE 'none'
END AS strategy,
CASE WHEN a.verdict = 'recovered' THEN 'recovered'
     WHEN a.state = 1 THEN 'succeeded'
     WHEN a.verdict IN ('soft_reset', 'hard_reset') THEN 'retried'
     WHEN a.verdict = 'exhausted' THEN 'exhausted'
     ELSE 'failed'
END AS outcome,
1 AS attempts, a.ended_at - a.started_at AS duration_ms,
CASE WHEN a.timeout = 'idle' THEN 1 ELSE 0 END AS idle_timeouts,
CASE WHEN a.timeout = 'wall' THEN 1 ELSE 0 END AS wall_timeouts,
coalesce(a.no_progress, 0) AS no_progress

-- define: summed
CAST(sum(c.attempts) AS bigint), CAST(sum(c.duration_ms) AS bigint), CAST(sum(c.idle_timeouts) AS bigint),
CAST(sum(c.wall_timeouts) AS bigint), CAST(sum(c.no_progress) AS bigint)

-- define: added
attempts = step_total.attempts + excluded.attempts,
duration_ms = step_total.duration_ms + excluded.duration_ms,
idle_timeouts = step_total.idle_timeouts + excluded.idle_timeouts,
wall_timeouts = step_total.wall_timeouts + excluded.wall_timeouts,
no_progress = step_total.no_progress + excluded.no_progress

-- name: step_totals
-- What all attempts came to. A scan, for whoever asks for figures. Called by queue/step_totals.c.
SELECT c.failure_class, c.strategy, c.outcome, {summed}
FROM (
    SELECT {counted}
    FROM attempt a
    WHERE a.state IN (1, 2)
    UNION ALL
    SELECT failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress
    FROM step_total
) c
GROUP BY c.failure_class, c.strategy, c.outcome
ORDER BY c.failure_class, c.strategy, c.outcome;

-- name: step_totals_keep
-- Before the attempts of a job that is gone are deleted: they stay counted; for db_each. Primary keys. Always in the same
-- order, and once in a transaction, so that two who clean up do not wait for each other. Called by queue/retain.c.
INSERT INTO step_total (failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress)
SELECT c.failure_class, c.strategy, c.outcome, {summed}
FROM (
    SELECT {counted}
    FROM attempt a
    WHERE a.job_id = $1 AND a.state IN (1, 2) AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1)
) c
WHERE true
GROUP BY c.failure_class, c.strategy, c.outcome
ON CONFLICT (failure_class, strategy, outcome) DO UPDATE SET {added};
-- dialect: postgres
INSERT INTO step_total (failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress)
SELECT c.failure_class, c.strategy, c.outcome, {summed}
FROM (
    SELECT {counted}
    FROM unnest($1::bigint[]) AS u (id) JOIN attempt a ON a.job_id = u.id
    WHERE a.state IN (1, 2) AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id)
) c
GROUP BY c.failure_class, c.strategy, c.outcome
ORDER BY c.failure_class, c.strategy, c.outcome
ON CONFLICT (failure_class, strategy, outcome) DO UPDATE SET {added};
