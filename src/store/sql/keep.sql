-- What is kept of attempts for people: the workspace, and the changes of an attempt that gave its job up. Whoever writes
-- has the job's row locked.

-- doing: reading what is kept of attempts | changing what is kept of attempts

-- name: keep_workspace
-- Primary key. Called by queue/keep.c.
UPDATE attempt SET workspace = $3 WHERE job_id = $1 AND number = $2;

-- name: keep_lost
-- The newest attempt under lease $2 of job $1, whose worker was lost. Without a lock on the job's row: nobody else writes
-- this column of an attempt that nobody works on. Primary key. Called by queue/keep_folder.c.
UPDATE attempt SET workspace = $3
WHERE job_id = $1 AND workspace IS NULL
  AND number = (SELECT max(number) FROM attempt WHERE job_id = $1 AND token = $2);

-- name: keep_patch_add
-- Also for a large patch that is sent before the job's row is locked: $1 is no job's id then. Called by queue/keep.c.
INSERT INTO attempt_patch (job_id, number, at, changed_files, dropped_bytes, patch)
VALUES ($1, $2, now($3), $4, $5, $6);

-- name: keep_patch_adopt
-- What lies under $3 belongs to attempt $2 of job $1; the patch itself is not written again. Primary key. Called by
-- queue/keep.c.
UPDATE attempt_patch SET job_id = $1, number = $2 WHERE job_id = $3;

-- name: keep_patch_unstage
-- What was not wanted after all. Primary key. Called by queue/keep.c.
DELETE FROM attempt_patch WHERE job_id = $1;

-- name: keep_patch_trim
-- Leaves the newest patches of a job; $2 is the number of those that stay. Primary key. Called by queue/keep.c.
DELETE FROM attempt_patch
WHERE job_id = $1
  AND number <= (SELECT p.number FROM attempt_patch p WHERE p.job_id = $1 ORDER BY p.number DESC LIMIT 1 OFFSET $2);

-- name: keep_list
-- Attempts of which something is kept, with what tells for how long. Primary keys. Called by queue/keep.c.
SELECT a.number, a.step_index, a.step_id, a.state, a.token, a.ended_at, a.host, a.workspace, p.changed_files,
       p.dropped_bytes, length(p.patch), j.state, j.stopped_token, j.changed_at, j.queue
FROM attempt a
JOIN job j ON j.id = a.job_id
LEFT JOIN attempt_patch p ON p.job_id = a.job_id AND p.number = a.number
WHERE a.job_id = $1 AND (a.workspace IS NOT NULL OR p.number IS NOT NULL)
ORDER BY a.number;

-- name: keep_patch
-- Primary key. Called by queue/keep.c.
SELECT patch FROM attempt_patch WHERE job_id = $1 AND number = $2;

-- name: keep_job
-- The job a folder belongs to. Primary key. Called by queue/keep_folder.c.
SELECT state, token, stopped_token, changed_at, queue, coalesce(error_class, '') FROM job WHERE id = $1;

-- name: keep_leases
-- Attempts of a job of which processes may be left or a workspace is kept, and the id of their worker where it is registered.
-- Primary keys. Called by queue/keep_folder.c.
SELECT token, host, boot_id, may_live, state, ended_at, workspace IS NOT NULL,
       coalesce((SELECT w.id FROM worker w WHERE w.id = attempt.worker_id), 0)
FROM attempt
WHERE job_id = $1 AND (may_live = 1 OR workspace IS NOT NULL);
-- dialect: postgres
SELECT token, host, boot_id, may_live, state, ended_at, (workspace IS NOT NULL)::int,
       coalesce((SELECT w.id FROM worker w WHERE w.id = attempt.worker_id), 0)
FROM attempt
WHERE job_id = $1 AND (may_live = 1 OR workspace IS NOT NULL);

-- name: keep_patch_delete
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM attempt_patch
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM attempt_patch
USING unnest($1::bigint[]) AS u (id)
WHERE attempt_patch.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
