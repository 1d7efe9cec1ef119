-- Controls: what operators ask of a job.
--
-- A control ends with the job. No row is written for that when the job ends, so that a completion costs nothing for it:
-- one without an outcome whose job has finished is shown as what it is, and no worker is told of it. Who brings the job
-- back (control_close) and who cleans up (control_settle) write it down.

-- doing: reading controls | changing controls

-- define: control
ctl.id, ctl.job_id, ctl.action, ctl.step_index, ctl.step_id, ctl.reason, ctl.actor, ctl.at,
ctl.taken_at, coalesce(ctl.done_at, j.finished_at),
CASE WHEN ctl.done_at IS NULL AND j.finished_at IS NOT NULL THEN 'the job ended before it' ELSE ctl.outcome END

-- name: control_add
-- $8 is the outcome of one that is carried out at once; for db_each, which returns the id. Called by queue/control.c.
INSERT INTO control (job_id, action, step_index, step_id, reason, actor, at, done_at, outcome)
VALUES ($1, $2, $3, $4, $5, $6, now($7), CASE WHEN $8 IS NOT NULL THEN now($7) END, $8);
-- dialect: postgres
INSERT INTO control (job_id, action, step_index, step_id, reason, actor, at, done_at, outcome)
SELECT $1::bigint, $2::text, $3::bigint, $4::text, $5::text, $6::text, c.t,
       CASE WHEN $8::text IS NOT NULL THEN c.t END, $8::text
FROM (SELECT now($7) AS t OFFSET 0) c
RETURNING id;

-- name: control_get
-- Primary keys. Called by queue/control_take.c.
SELECT {control} FROM control ctl JOIN job j ON j.id = ctl.job_id WHERE ctl.id = $1;

-- name: control_list
-- All of one job. Index control_job. Called by queue/control_take.c.
SELECT {control} FROM control ctl JOIN job j ON j.id = ctl.job_id WHERE ctl.job_id = $1 ORDER BY ctl.id;

-- name: control_open_of_job
-- Index control_open. Called by queue/control.c.
SELECT {control}
FROM control ctl JOIN job j ON j.id = ctl.job_id
WHERE ctl.job_id = $1 AND ctl.done_at IS NULL
ORDER BY ctl.id;

-- name: control_open
-- All that are open for jobs that are running, with the token of the lease. Index control_open, which holds
-- nothing else. Called by queue/control_take.c.
SELECT {control}, j.token
FROM control ctl CROSS JOIN job j
WHERE j.id = ctl.job_id AND ctl.done_at IS NULL AND ctl.job_id >= 0 AND j.state = 2
ORDER BY ctl.job_id, ctl.id;
-- dialect: postgres
SELECT {control}, j.token
FROM control ctl CROSS JOIN job j
WHERE j.id = ctl.job_id AND ctl.done_at IS NULL AND ctl.job_id >= 0 AND j.state + 0 = 2
ORDER BY ctl.job_id, ctl.id;

-- name: control_taken
-- Control $3 delivered to the owner of lease ($1, $2); for db_each. Primary keys. Called by queue/control_take.c.
UPDATE control
SET taken_at = coalesce(taken_at, now($4))
WHERE id = $3 AND job_id = $1 AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state = 2);
-- dialect: postgres
UPDATE control
SET taken_at = coalesce(taken_at, now($4))
WHERE id = $3 AND job_id = $1 AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = $1 AND token = $2 AND state + 0 = 2 FOR SHARE);

-- name: control_done
-- Answered, by who has the job locked; for db_each. Primary key. Called by queue/control_take.c.
UPDATE control
SET done_at = now($3), outcome = $4
WHERE id = $1 AND job_id = $2 AND done_at IS NULL;

-- name: control_close
-- What is open for job $1 has become pointless, at $2: all of it, or ($4 = 1) what asks for a pause or takes one back;
-- for db_each. Index control_open. Called by queue/control_end.c.
UPDATE control
SET done_at = now($2), outcome = $3
WHERE job_id = $1 AND done_at IS NULL AND ($4 = 0 OR action IN ('pause', 'takeover', 'resume'));
-- dialect: postgres
UPDATE control
SET done_at = coalesce(u.at, store_clock()), outcome = u.outcome
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::smallint[]) AS u (job_id, at, outcome, pauses)
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

-- name: control_delete
-- Of a job that is gone; for db_each. Index control_job. Called by queue/retain.c.
DELETE FROM control
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM control
USING unnest($1::bigint[]) AS u (id)
WHERE control.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);

-- name: control_skip_ids
-- Coming ids are above all that there are, also those that others draw meanwhile: after a restore. PostgreSQL only, as SQLite counts on from the largest. Called
-- by queue/generation.c.
SELECT 1;
-- dialect: postgres
SELECT setval(s.name, greatest(nextval(s.name), (SELECT coalesce(max(id), 0) FROM control)) + 1000000)
FROM (SELECT pg_get_serial_sequence('control', 'id') AS name) s;
