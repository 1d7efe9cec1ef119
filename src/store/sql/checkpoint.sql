-- Checkpoints of steps that succeeded.

-- doing: reading checkpoints | changing checkpoints

-- name: checkpoint_put(job_id, step_index, step_id, number, now, diff_hash, changed_files, outputs, patch)
-- A step that succeeds again replaces what it left before. Called by queue/checkpoint.c.
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, patch)
VALUES (:job_id, :step_index, :step_id, :number, now(:now), :diff_hash, :changed_files, :outputs, :patch)
ON CONFLICT (job_id, step_index) DO UPDATE
SET step_id = excluded.step_id, number = excluded.number, at = excluded.at,
    diff_hash = excluded.diff_hash, changed_files = excluded.changed_files,
    outputs = excluded.outputs, patch = excluded.patch;

-- name: checkpoint_stage(job_id, step_index, changed_files, outputs, patch)
-- A large part of a report, sent before the job's row is locked: it lies under :job_id, which is no job's id, until the
-- same transaction has looked at the lease. :step_index = 1: of a checkpoint; 2: the job's result, as outputs. Called
-- by queue/checkpoint.c.
INSERT INTO checkpoint (job_id, step_index, step_id, number, at, changed_files, outputs, patch)
VALUES (:job_id, :step_index, '', 0, 0, :changed_files, :outputs, :patch);

-- name: checkpoint_remove(job_id, step_index)
-- Of step :step_index alone. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = :job_id AND step_index = :step_index;

-- name: checkpoint_adopt(job_id, step_index, step_id, number, now, diff_hash, staged_id)
-- What lies under :staged_id is the checkpoint of step :step_index, as checkpoint_put would write it; the patch itself
-- is not written again. Primary key. Called by queue/checkpoint.c.
UPDATE checkpoint
SET job_id = :job_id, step_index = :step_index, step_id = :step_id, number = :number, at = now(:now),
    diff_hash = :diff_hash
WHERE job_id = :staged_id AND step_index = 1;

-- name: checkpoint_result(id, staged_id)
-- What lies under :staged_id is the result of job :id, which was completed without one. Primary keys. Called by
-- queue/checkpoint.c.
UPDATE job
SET result = (SELECT c.outputs FROM checkpoint c WHERE c.job_id = :staged_id AND c.step_index = 2)
WHERE id = :id AND state = {done};
-- dialect: postgres
UPDATE job
SET result = (SELECT c.outputs FROM checkpoint c WHERE c.job_id = :staged_id AND c.step_index = 2)
WHERE id = :id AND state + 0 = {done};

-- name: checkpoint_unstage(job_id)
-- What was not wanted after all. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = :job_id;

-- name: checkpoint_baseline(job_id, now, repo, commit_id)
-- Resolved once, by whoever is first: later ones build on it. Called by queue/checkpoint.c.
INSERT INTO checkpoint (job_id, step_index, step_id, number, at, repo, commit_id)
VALUES (:job_id, 0, '', 0, now(:now), :repo, :commit_id)
ON CONFLICT (job_id, step_index) DO NOTHING;

-- name: checkpoint_drop(job_id, from_step)
-- From step :from_step on. Primary key. Called by queue/checkpoint.c.
DELETE FROM checkpoint WHERE job_id = :job_id AND step_index >= :from_step;

-- name: checkpoint_copy(job_id, from_id, before_step)
-- Those of job :from_id before step :before_step, for job :job_id, with the baseline. Called by queue/control_act.c.
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, patch)
SELECT :job_id, step_index, step_id, 0, at, diff_hash, changed_files, outputs, repo, commit_id, patch
FROM checkpoint
WHERE job_id = :from_id AND step_index < :before_step;
-- dialect: postgres
INSERT INTO checkpoint
    (job_id, step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, patch)
SELECT :job_id::bigint, step_index, step_id, 0, at, diff_hash, changed_files, outputs, repo, commit_id, patch
FROM checkpoint
WHERE job_id = :from_id AND step_index < :before_step;

-- name: checkpoint_list(job_id)
-- Without the patches. Primary key. Called by queue/checkpoint.c.
SELECT step_index, step_id, number, at, diff_hash, changed_files, outputs, repo, commit_id, length(patch) AS patch_bytes
FROM checkpoint
WHERE job_id = :job_id
ORDER BY step_index;

-- name: checkpoint_patch(job_id, step_index)
-- Primary key. Called by queue/checkpoint.c.
SELECT patch FROM checkpoint WHERE job_id = :job_id AND step_index = :step_index;

-- name: checkpoint_steps(job_id)
-- Which steps have one. Primary key. Called by queue/control_step.c.
SELECT step_index FROM checkpoint WHERE job_id = :job_id AND step_index >= 1 ORDER BY step_index;

-- name: step_by_id(job_id, step_id)
-- The index of a step by what it left. Primary keys, all that the job has. Called by queue/control_step.c.
SELECT step_index FROM checkpoint WHERE job_id = :job_id AND step_id = :step_id AND step_index >= 1
UNION ALL
SELECT step_index FROM attempt WHERE job_id = :job_id AND step_id = :step_id
LIMIT 1;

-- name: step_ids(job_id, limit)
-- The steps a job has left something of. Primary key, all that the job has. Called by queue/control_step.c.
SELECT DISTINCT step_index, step_id FROM attempt WHERE job_id = :job_id ORDER BY step_index LIMIT :limit;

-- name: checkpoint_delete(job_id)
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM checkpoint
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM checkpoint
USING unnest(:job_id::bigint[]) AS u (id)
WHERE checkpoint.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
