-- Checkpoints of steps that succeeded.

-- doing: reading checkpoints | changing checkpoints

-- name: checkpoint_put
-- A step that succeeds again replaces what it left before. Called by queue/checkpoint.c.
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, patch)
VALUES ($1, $2, $3, $4, now($5), $6, $7, $8, $9)
ON CONFLICT (job_id, step_index) DO UPDATE
SET step_id = excluded.step_id, number = excluded.number, at = excluded.at,
    diff_hash = excluded.diff_hash, changed_files = excluded.changed_files,
    outputs = excluded.outputs, patch = excluded.patch;

-- name: checkpoint_stage
-- A large part of a report, sent before the job's row is locked: it lies under $1, which is no job's id, until the same
-- transaction has looked at the lease. $2 = 1: of a checkpoint; 2: the job's result, as outputs. Called by
-- queue/checkpoint.c.
INSERT INTO checkpoint (job_id, step_index, step_id, number, at, changed_files, outputs, patch)
VALUES ($1, $2, '', 0, 0, $3, $4, $5);

-- name: checkpoint_remove
-- Of step $2 alone. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = $1 AND step_index = $2;

-- name: checkpoint_adopt
-- What lies under $7 is the checkpoint of step $2, as checkpoint_put would write it; the patch itself is not written
-- again. Primary key. Called by queue/checkpoint.c.
UPDATE checkpoint
SET job_id = $1, step_index = $2, step_id = $3, number = $4, at = now($5), diff_hash = $6
WHERE job_id = $7 AND step_index = 1;

-- name: checkpoint_result
-- What lies under $2 is the result of job $1, which was completed without one. Primary keys. Called by
-- queue/checkpoint.c.
UPDATE job
SET result = (SELECT c.outputs FROM checkpoint c WHERE c.job_id = $2 AND c.step_index = 2)
WHERE id = $1 AND state = 4;
-- dialect: postgres
UPDATE job
SET result = (SELECT c.outputs FROM checkpoint c WHERE c.job_id = $2 AND c.step_index = 2)
WHERE id = $1 AND state + 0 = 4;

-- name: checkpoint_unstage
-- What was not wanted after all. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = $1;

-- name: checkpoint_baseline
-- Resolved once, by whoever is first: later ones build on it. Called by queue/checkpoint.c.
INSERT INTO checkpoint (job_id, step_index, step_id, number, at, repo, commit_id)
VALUES ($1, 0, '', 0, now($2), $3, $4)
ON CONFLICT (job_id, step_index) DO NOTHING;

-- name: checkpoint_drop
-- From step $2 on. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = $1 AND step_index >= $2;

-- name: checkpoint_copy
-- Those of job $2 before step $3, for job $1, with the baseline. Called by queue/control_act.c.
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, patch)
SELECT $1, step_index, step_id, 0, at, diff_hash, changed_files, outputs, repo, commit_id, patch
FROM checkpoint
WHERE job_id = $2 AND step_index < $3;
-- dialect: postgres
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, patch)
SELECT $1::bigint, step_index, step_id, 0, at, diff_hash, changed_files, outputs, repo, commit_id, patch
FROM checkpoint
WHERE job_id = $2 AND step_index < $3;

-- name: checkpoint_list
-- Without the patches. Primary key. Called by queue/checkpoint.c.
SELECT step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, length(patch)
FROM checkpoint
WHERE job_id = $1
ORDER BY step_index;

-- name: checkpoint_patch
-- Primary key. Called by queue/checkpoint.c.
SELECT patch FROM checkpoint WHERE job_id = $1 AND step_index = $2;

-- name: checkpoint_steps
-- Which steps have one. Primary key. Called by queue/control_step.c.
SELECT step_index FROM checkpoint WHERE job_id = $1 AND step_index >= 1 ORDER BY step_index;

-- name: step_by_id
-- The index of a step by what it left. Primary keys, all that the job has. Called by queue/control_step.c.
SELECT step_index FROM checkpoint WHERE job_id = $1 AND step_id = $2 AND step_index >= 1
UNION ALL
SELECT step_index FROM attempt WHERE job_id = $1 AND step_id = $2
LIMIT 1;

-- name: step_ids
-- The steps a job has left something of. Primary key, all that the job has. Called by queue/control_step.c.
SELECT DISTINCT step_index, step_id FROM attempt WHERE job_id = $1 ORDER BY step_index LIMIT $2;

-- name: checkpoint_delete
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM checkpoint
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM checkpoint
USING unnest($1::bigint[]) AS u (id)
WHERE checkpoint.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
