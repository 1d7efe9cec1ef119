-- Controls: what operators ask of a job.

-- define: control
ctl.id, ctl.job_id, ctl.action, ctl.step_index, ctl.step_id, ctl.reason, ctl.actor, ctl.at,
ctl.taken_at, ctl.done_at, ctl.outcome

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
-- Primary key. Called by queue/attempt.c and queue/control_take.c.
SELECT {control} FROM control ctl WHERE ctl.id = $1;

-- name: control_list
-- All of one job. Index control_job. Called by queue/control_take.c.
SELECT {control} FROM control ctl WHERE ctl.job_id = $1 ORDER BY ctl.id;

-- name: control_open_of_job
-- Index control_open. Called by queue/control.c.
SELECT {control} FROM control ctl WHERE ctl.job_id = $1 AND ctl.done_at IS NULL ORDER BY ctl.id;

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
-- Delivered to the owner of lease ($2, $3); for db_each. Primary keys. Called by queue/control_take.c.
UPDATE control
SET taken_at = coalesce(taken_at, now($4))
WHERE id = $1 AND job_id = $2 AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = $2 AND token = $3 AND state = 2);
-- dialect: postgres
UPDATE control
SET taken_at = coalesce(taken_at, now($4))
WHERE id = $1 AND job_id = $2 AND done_at IS NULL
  AND EXISTS (SELECT 1 FROM job WHERE id = $2 AND token = $3 AND state + 0 = 2 FOR SHARE);

-- name: control_done
-- Answered, by who has the job locked; for db_each. Primary key. Called by queue/control_take.c.
UPDATE control
SET done_at = now($3), outcome = $4
WHERE id = $1 AND job_id = $2 AND done_at IS NULL;

-- name: control_close
-- All that are open for a job have become pointless. Index control_open. Called by queue/control.c and queue/attempt.c.
UPDATE control
SET done_at = now($2), outcome = $3
WHERE job_id = $1 AND done_at IS NULL;

-- name: control_delete
-- Of a job that is gone; for db_each. Index control_job. Called by queue/retain.c.
DELETE FROM control
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM control
USING unnest($1::bigint[]) AS u (id)
WHERE control.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
