-- Attempts of steps. Whoever writes one has the job's row locked and its lease checked (step_fence), or says so in
-- the statement itself.

-- doing: reading attempts | changing attempts

-- define: attempt
a.job_id, a.number, a.step_index, a.step_id, a.attempt, a.token, a.worker_id, a.host, a.boot_id, a.pid,
a.start_ticks, a.marker, a.state, a.strategy, a.started_at, a.ended_at, a.exit_code, a.signal,
a.failure_class, a.rule, a.evidence, a.summary, a.signature, a.diff_hash, a.progress_percent,
a.progress_text, a.output_bytes, a.output_dropped_bytes, a.verdict, a.no_progress, a.timeout, a.retryable, a.warnings,
a.failures, a.outside, a.next_at, j.state AS job_state, j.token AS job_token, j.life_token AS job_life_token

-- name: step_fence(id)
-- The job as its owner's report finds it; on PostgreSQL it stays so until the end of the transaction, and what is
-- read by statements after this one is of that moment. Primary key. Called by queue/attempt.c and queue/control.c.
SELECT state, token, owner, queue, worker_id, event_id, lock_name, stopped_token, followed
FROM job
WHERE id = :id;
-- dialect: postgres
SELECT state, token, owner, queue, worker_id, event_id, lock_name, stopped_token, followed
FROM job
WHERE id = :id
FOR NO KEY UPDATE;

-- name: attempt_last(job_id)
-- The job's newest attempt: the only one that can be running. Primary key. Called by queue/attempt.c.
SELECT number, state, token, marker, step_index, step_id, attempt, strategy
FROM attempt
WHERE job_id = :job_id
ORDER BY number DESC
LIMIT 1;

-- name: attempt_now(job_id)
-- The newest attempt of a job: what it does, or how it ended. Primary key. Called by queue/explain_step.c.
SELECT number, step_index, step_id, attempt, started_at, progress_percent, progress_text, state, failure_class,
       coalesce(evidence, summary) AS evidence, next_at, token
FROM attempt
WHERE job_id = :job_id
ORDER BY number DESC
LIMIT 1;

-- name: attempt_begin(job_id, number, step_index, step_id, attempt, token, worker_id, host, boot_id, pid,
--       start_ticks, marker, strategy, now)
-- Called by queue/attempt_write.c.
INSERT INTO attempt
    (job_id, number, step_index, step_id, attempt, token, worker_id, host, boot_id, pid, start_ticks,
     marker, strategy, state, may_live, started_at)
VALUES
    (:job_id, :number, :step_index, :step_id, :attempt, :token, :worker_id, :host, :boot_id, :pid, :start_ticks,
     :marker, :strategy, 0, 1, now(:now));

-- name: attempt_end(job_id, number, state, now, exit_code, signal, failure_class, rule, evidence, summary,
--       signature, diff_hash, output_bytes, output_dropped_bytes, may_live, verdict, no_progress, timeout,
--       retryable, warnings, failures, outside, pause_ms)
-- :may_live = 1: something of it may be left. :pause_ms: how long the step waits before its next attempt. Primary key.
-- Called by queue/attempt_write.c.
UPDATE attempt
SET state = :state, ended_at = now(:now), exit_code = :exit_code, signal = :signal,
    failure_class = :failure_class, rule = :rule, evidence = :evidence, summary = :summary,
    signature = :signature, diff_hash = :diff_hash,
    output_bytes = :output_bytes, output_dropped_bytes = :output_dropped_bytes, may_live = :may_live,
    verdict = :verdict, no_progress = :no_progress, timeout = :timeout, retryable = :retryable,
    warnings = :warnings, failures = :failures, outside = :outside, next_at = now(:now) + :pause_ms
WHERE job_id = :job_id AND number = :number AND state = {attempt_running};

-- name: step_event(prev, now, job_id, queue, who, what, from_state, token, owner, why, data)
-- An event of a job that is no move of it, behind :prev in the job's chain, or behind the one written before.
-- Called by queue/attempt_write.c.
INSERT INTO event (prev, id, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data)
VALUES (coalesce(:prev, (SELECT max(id) FROM event)), next_event(), now(:now), :job_id, :queue, :who, :what,
        :from_state, :from_state, :token, :owner, :why, :data);
-- dialect: postgres
-- The columns of a row are computed in the table's order, id first; so the event before comes from a row of its own.
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data)
SELECT next_event(), c.prev, c.t, :job_id::bigint, :queue::text, :who::text, :what::text,
       :from_state::smallint, :from_state::smallint, :token::bigint, :owner::text, :why::text, :data::text
FROM (SELECT coalesce(:prev::bigint, currval('event_id')) AS prev, now(:now) AS t OFFSET 0) c;

-- name: step_chain(id, now)
-- The event just written is the job's newest. A report about steps is a sign of life, and work has begun.
-- Called by queue/attempt_write.c.
UPDATE job
SET event_id = (SELECT max(id) FROM event), seen_at = now(:now), started_at = coalesce(started_at, now(:now))
WHERE id = :id;
-- dialect: postgres
UPDATE job
SET event_id = currval('event_id'), seen_at = c.t, started_at = coalesce(started_at, c.t)
FROM (SELECT now(:now) AS t OFFSET 0) c
WHERE id = :id;

-- name: attempt_started(job_id, token, number, pid, start_ticks)
-- Its process is known; for db_each. Primary keys. Called by queue/attempt_read.c.
UPDATE attempt
SET pid = :pid, start_ticks = :start_ticks
WHERE job_id = :job_id AND number = :number AND token = :token AND state = {attempt_running}
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state = {running});
-- dialect: postgres
UPDATE attempt
SET pid = :pid, start_ticks = :start_ticks
WHERE job_id = :job_id AND number = :number AND token = :token AND state = {attempt_running}
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state + 0 = {running} FOR SHARE);

-- name: attempt_progress(job_id, token, number, progress_percent, progress_text)
-- For db_each. Primary keys. Called by queue/attempt_read.c.
UPDATE attempt
SET progress_percent = :progress_percent, progress_text = :progress_text
WHERE job_id = :job_id AND number = :number AND token = :token AND state = {attempt_running}
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state = {running});
-- dialect: postgres
UPDATE attempt
SET progress_percent = :progress_percent, progress_text = :progress_text
WHERE job_id = :job_id AND number = :number AND token = :token AND state = {attempt_running}
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state + 0 = {running} FOR SHARE);

-- name: attempt_list(job_id)
-- All of one job, in order. Primary keys. Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a JOIN job j ON j.id = a.job_id
WHERE a.job_id = :job_id
ORDER BY a.number;

-- name: attempt_running(limit)
-- Those whose owner is at it. Index attempt_may_live (CROSS JOIN: SQLite begins with it). Called by
-- queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id >= '' AND a.state = {attempt_running}
  AND j.state = {running} AND j.token = a.token
LIMIT :limit;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id >= '' AND a.state = {attempt_running}
  AND j.state + 0 = {running} AND j.token = a.token
LIMIT :limit;

-- name: attempt_waiting(limit, now)
-- The newest attempts of running jobs whose step waits before its next one. Index job_alarm, then primary keys.
-- Called by queue/attempt_read.c.
SELECT {attempt}
FROM job j CROSS JOIN attempt a
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND a.job_id = j.id AND a.token = j.token AND a.next_at > now(:now)
  AND a.number = (SELECT max(number) FROM attempt WHERE job_id = j.id)
LIMIT :limit;

-- name: attempt_left_behind(boot_id, host, after_job, after_number, limit)
-- Attempts of host :host in boot :boot_id of its machine whose lease is no longer held, after attempt :after_number of
-- job :after_job. Index attempt_may_live, which in SQLite goes on with the primary key; PostgreSQL sorts. Called by
-- queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id = :boot_id AND a.host = :host
  AND (a.job_id, a.number) > (:after_job, :after_number) AND NOT (j.state = {running} AND j.token = a.token)
ORDER BY a.job_id, a.number
LIMIT :limit;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.may_live = 1 AND a.boot_id = :boot_id AND a.host = :host
  AND (a.job_id + 0, a.number) > (:after_job, :after_number) AND NOT (j.state + 0 = {running} AND j.token = a.token)
ORDER BY a.job_id + 0, a.number
LIMIT :limit;

-- name: attempt_left_of_job(boot_id, host, job_id, after_number, limit)
-- The same of job :job_id alone. Primary keys. Called by queue/attempt_read.c.
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.job_id = :job_id AND a.number > :after_number AND a.may_live = 1 AND +a.boot_id = :boot_id
  AND a.host = :host AND NOT (j.state = {running} AND j.token = a.token)
ORDER BY a.number
LIMIT :limit;
-- dialect: postgres
SELECT {attempt}
FROM attempt a CROSS JOIN job j
WHERE j.id = a.job_id AND a.job_id = :job_id AND a.number > :after_number AND a.may_live = 1 AND a.boot_id = :boot_id
  AND a.host = :host AND NOT (j.state + 0 = {running} AND j.token = a.token)
ORDER BY a.number
LIMIT :limit;

-- name: attempt_swept(job_id, number)
-- Nothing is left of its process tree; for db_each. Not while its lease is held: then its owner says so.
-- Called by queue/attempt_read.c.
UPDATE attempt
SET may_live = 0
WHERE job_id = :job_id AND number = :number AND may_live = 1
  AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = :job_id AND j.state = {running} AND j.token = attempt.token);

-- name: attempt_delete(job_id)
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM attempt
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM attempt
USING unnest(:job_id::bigint[]) AS u (id)
WHERE attempt.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);

-- One attempt that has ended as the metrics count it (SH-14): class of the failure, strategy that followed it, and what
-- became of it; of a recovery those of the failure before, by primary key.
-- define: counted
CASE WHEN a.state = {attempt_failed} THEN coalesce(a.failure_class, '')
     WHEN a.verdict = 'recovered'
     THEN coalesce((SELECT p.failure_class
                    FROM attempt p
                    WHERE p.job_id = a.job_id AND p.number < a.number AND p.step_index = a.step_index
                      AND p.state = {attempt_failed}
                    ORDER BY p.number DESC
                    LIMIT 1), '')
     ELSE ''
END AS failure_class,
CASE WHEN a.state = {attempt_succeeded} THEN a.strategy
     WHEN a.verdict IN ('soft_reset', 'hard_reset') THEN a.verdict
     ELSE 'none'
END AS strategy,
CASE WHEN a.verdict = 'recovered' THEN 'recovered'
     WHEN a.state = {attempt_succeeded} THEN 'succeeded'
     WHEN a.verdict IN ('soft_reset', 'hard_reset') THEN 'retried'
     WHEN a.verdict = 'exhausted' THEN 'exhausted'
     ELSE 'failed'
END AS outcome,
1 AS attempts, a.ended_at - a.started_at AS duration_ms,
CASE WHEN a.timeout = 'idle' THEN 1 ELSE 0 END AS idle_timeouts,
CASE WHEN a.timeout = 'wall' THEN 1 ELSE 0 END AS wall_timeouts,
coalesce(a.no_progress, 0) AS no_progress

-- define: summed
CAST(sum(c.attempts) AS bigint) AS attempts, CAST(sum(c.duration_ms) AS bigint) AS duration_ms,
CAST(sum(c.idle_timeouts) AS bigint) AS idle_timeouts, CAST(sum(c.wall_timeouts) AS bigint) AS wall_timeouts,
CAST(sum(c.no_progress) AS bigint) AS no_progress

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
    WHERE a.state IN ({attempt_succeeded}, {attempt_failed})
    UNION ALL
    SELECT failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress
    FROM step_total
) c
GROUP BY c.failure_class, c.strategy, c.outcome
ORDER BY c.failure_class, c.strategy, c.outcome;

-- name: step_totals_keep(job_id)
-- Before the attempts of a job that is gone are deleted: they stay counted; for db_each. Primary keys. Always in the
-- same order, and once in a transaction, so that two who clean up do not wait for each other. Called by queue/retain.c.
INSERT INTO step_total
    (failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress)
SELECT c.failure_class, c.strategy, c.outcome, {summed}
FROM (
    SELECT {counted}
    FROM attempt a
    WHERE a.job_id = :job_id AND a.state IN ({attempt_succeeded}, {attempt_failed})
      AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id)
) c
WHERE true
GROUP BY c.failure_class, c.strategy, c.outcome
ON CONFLICT (failure_class, strategy, outcome) DO UPDATE SET {added};
-- dialect: postgres
INSERT INTO step_total
    (failure_class, strategy, outcome, attempts, duration_ms, idle_timeouts, wall_timeouts, no_progress)
SELECT c.failure_class, c.strategy, c.outcome, {summed}
FROM (
    SELECT {counted}
    FROM unnest(:job_id::bigint[]) AS u (id) JOIN attempt a ON a.job_id = u.id
    WHERE a.state IN ({attempt_succeeded}, {attempt_failed}) AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id)
) c
GROUP BY c.failure_class, c.strategy, c.outcome
ORDER BY c.failure_class, c.strategy, c.outcome
ON CONFLICT (failure_class, strategy, outcome) DO UPDATE SET {added};
