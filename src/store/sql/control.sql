-- Controls: what operators ask of a job.
--
-- A control ends with the job. No row is written for that when the job ends, so that a completion costs nothing for it:
-- one without an outcome whose job has finished is shown as what it is, and no worker is told of it. Who brings the job
-- back (control_close) and who cleans up (control_settle) write it down.

-- doing: reading controls | changing controls

-- define: control
ctl.id, ctl.job_id, ctl.action, ctl.step_index, ctl.step_id, ctl.reason, ctl.actor, ctl.at,
ctl.taken_at, coalesce(ctl.done_at, j.finished_at) AS done_at,
CASE WHEN ctl.done_at IS NULL AND j.finished_at IS NOT NULL THEN 'the job ended before it'
     ELSE ctl.outcome END AS outcome

-- name: control_add(job_id, action, step_index, step_id, reason, actor, now, outcome)
-- :outcome is that of one that is carried out at once; for db_each, which returns the id. Called by queue/control.c.
INSERT INTO control (job_id, action, step_index, step_id, reason, actor, at, done_at, outcome)
VALUES (:job_id, :action, :step_index, :step_id, :reason, :actor, now(:now),
        CASE WHEN :outcome IS NOT NULL THEN now(:now) END, :outcome);
-- dialect: postgres
INSERT INTO control (job_id, action, step_index, step_id, reason, actor, at, done_at, outcome)
SELECT :job_id::bigint, :action::text, :step_index::bigint, :step_id::text, :reason::text, :actor::text, c.t,
       CASE WHEN :outcome::text IS NOT NULL THEN c.t END, :outcome::text
FROM (SELECT now(:now) AS t OFFSET 0) c
RETURNING id;

-- name: control_get(id)
-- Primary keys. Called by queue/control_take.c.
SELECT {control} FROM control ctl JOIN job j ON j.id = ctl.job_id WHERE ctl.id = :id;

-- name: control_list(job_id)
-- All of one job. Index control_job. Called by queue/control_take.c.
SELECT {control} FROM control ctl JOIN job j ON j.id = ctl.job_id WHERE ctl.job_id = :job_id ORDER BY ctl.id;

-- name: control_open_of_job(job_id)
-- Index control_open. Called by queue/control.c.
SELECT {control}
FROM control ctl JOIN job j ON j.id = ctl.job_id
WHERE ctl.job_id = :job_id AND ctl.done_at IS NULL
ORDER BY ctl.id;

-- name: control_open
-- All that are open for jobs that are running, with the token of the lease. Index control_open, which holds
-- nothing else. Called by queue/control_take.c.
SELECT {control}, j.token
FROM control ctl CROSS JOIN job j
WHERE j.id = ctl.job_id AND ctl.done_at IS NULL AND ctl.job_id >= 0 AND j.state = {running}
ORDER BY ctl.job_id, ctl.id;
-- dialect: postgres
SELECT {control}, j.token
FROM control ctl CROSS JOIN job j
WHERE j.id = ctl.job_id AND ctl.done_at IS NULL AND ctl.job_id >= 0 AND j.state + 0 = {running}
ORDER BY ctl.job_id, ctl.id;

-- name: control_taken(job_id, token, id, now)
-- Control :id delivered to the owner of lease (:job_id, :token); for db_each. Primary keys. Called by
-- queue/control_take.c.
UPDATE control
SET taken_at = coalesce(taken_at, now(:now))
WHERE id = :id AND job_id = :job_id AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state = {running});
-- dialect: postgres
UPDATE control
SET taken_at = coalesce(taken_at, now(:now))
WHERE id = :id AND job_id = :job_id AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = :job_id AND token = :token AND state + 0 = {running} FOR SHARE);

-- name: control_done(id, job_id, now, outcome)
-- Answered, by who has the job locked; for db_each. Primary key. Called by queue/control_take.c.
UPDATE control
SET done_at = now(:now), outcome = :outcome
WHERE id = :id AND job_id = :job_id AND done_at IS NULL;

-- name: control_close(job_id, now, outcome, pauses)
-- What is open for job :job_id has become pointless, at :now: all of it, or (:pauses = 1) what asks for a pause or
-- takes one back; for db_each. Index control_open. Called by queue/control_end.c.
UPDATE control
SET done_at = now(:now), outcome = :outcome
WHERE job_id = :job_id AND done_at IS NULL AND (:pauses = 0 OR action IN ('pause', 'takeover', 'resume'));
-- dialect: postgres
UPDATE control
SET done_at = coalesce(u.at, store_clock()), outcome = u.outcome
FROM unnest(:job_id::bigint[], :now::bigint[], :outcome::text[], :pauses::smallint[]) AS u (job_id, at, outcome, pauses)
WHERE control.job_id = u.job_id AND done_at IS NULL
  AND (u.pauses = 0 OR action IN ('pause', 'takeover', 'resume'));

-- name: control_settle
-- What the end of a job has closed is written down, so that workers need not look at it again and again. Index
-- control_open. Called by queue/retain.c.
UPDATE control
SET done_at = (SELECT j.finished_at FROM job j WHERE j.id = control.job_id),
    outcome = 'the job ended before it'
WHERE done_at IS NULL AND job_id >= 0
  AND EXISTS (SELECT 1 FROM job j WHERE j.id = control.job_id AND j.finished_at IS NOT NULL);
-- dialect: postgres
UPDATE control
SET done_at = j.finished_at, outcome = 'the job ended before it'
FROM job j
WHERE j.id = control.job_id AND control.done_at IS NULL AND control.job_id >= 0
  AND j.finished_at IS NOT NULL;

-- name: control_delete(job_id)
-- Of a job that is gone; for db_each. Index control_job. Called by queue/retain.c.
DELETE FROM control
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM control
USING unnest(:job_id::bigint[]) AS u (id)
WHERE control.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);

-- name: control_skip_ids
-- Coming ids are above all that there are, also those that others draw meanwhile: after a restore. PostgreSQL only, as
-- SQLite counts on from the largest. Called by queue/generation.c.
-- dialect: postgres
SELECT setval(s.name, greatest(nextval(s.name), (SELECT coalesce(max(id), 0) FROM control)) + 1000000) AS last_id
FROM (SELECT pg_get_serial_sequence('control', 'id') AS name) s;
