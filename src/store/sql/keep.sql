-- What is kept of attempts for people: the workspace, and the changes of an attempt that gave its job up. Whoever
-- writes has the job's row locked.

-- doing: reading what is kept of attempts | changing what is kept of attempts

-- name: keep_workspace(job_id, number, workspace)
-- Primary key. Called by queue/keep.c.
UPDATE attempt SET workspace = :workspace WHERE job_id = :job_id AND number = :number;

-- name: keep_lost(job_id, token, workspace)
-- The newest attempt under lease :token of job :job_id, whose worker was lost. Without a lock on the job's row: nobody
-- else writes this column of an attempt that nobody works on. Primary key. Called by queue/keep_folder.c.
UPDATE attempt SET workspace = :workspace
WHERE job_id = :job_id AND workspace IS NULL
  AND number = (SELECT max(number) FROM attempt WHERE job_id = :job_id AND token = :token);

-- name: keep_patch_add(job_id, number, now, changed_files, dropped_bytes, patch)
-- Also for a large patch that is sent before the job's row is locked: :job_id is no job's id then. Called by
-- queue/keep.c.
INSERT INTO attempt_patch (job_id, number, at, changed_files, dropped_bytes, patch)
VALUES (:job_id, :number, now(:now), :changed_files, :dropped_bytes, :patch);

-- name: keep_patch_adopt(job_id, number, staged_id)
-- What lies under :staged_id belongs to attempt :number of job :job_id; the patch itself is not written again. Primary
-- key. Called by queue/keep.c.
UPDATE attempt_patch SET job_id = :job_id, number = :number WHERE job_id = :staged_id;

-- name: keep_patch_unstage(job_id)
-- What was not wanted after all. Primary key. Called by queue/keep.c.
DELETE FROM attempt_patch WHERE job_id = :job_id;

-- name: keep_patch_trim(job_id, kept)
-- Leaves the newest patches of a job; :kept is the number of those that stay. Primary key. Called by queue/keep.c.
DELETE FROM attempt_patch
WHERE job_id = :job_id
  AND number <= (SELECT p.number FROM attempt_patch p
                 WHERE p.job_id = :job_id
                 ORDER BY p.number DESC
                 LIMIT 1 OFFSET :kept);

-- name: keep_list(job_id)
-- Attempts of which something is kept, with what tells for how long. Primary keys. Called by queue/keep.c.
SELECT a.number, a.step_index, a.step_id, a.state, a.token, a.ended_at, a.host, a.workspace, p.changed_files,
       p.dropped_bytes, length(p.patch) AS patch_bytes, j.state AS job_state, j.stopped_token, j.changed_at, j.queue
FROM attempt a
JOIN job j ON j.id = a.job_id
LEFT JOIN attempt_patch p ON p.job_id = a.job_id AND p.number = a.number
WHERE a.job_id = :job_id AND (a.workspace IS NOT NULL OR p.number IS NOT NULL)
ORDER BY a.number;

-- name: keep_patch(job_id, number)
-- Primary key. Called by queue/keep.c.
SELECT patch FROM attempt_patch WHERE job_id = :job_id AND number = :number;

-- name: keep_job(id)
-- The job a folder belongs to. Primary key. Called by queue/keep_folder.c.
SELECT state, token, stopped_token, changed_at, queue, coalesce(error_class, '') AS error_class FROM job WHERE id = :id;

-- name: keep_leases(job_id)
-- Attempts of a job of which processes may be left or a workspace is kept, and the id of their worker where it is
-- registered. Primary keys. Called by queue/keep_folder.c.
SELECT token, host, boot_id, may_live, state, ended_at, workspace IS NOT NULL AS keeps_workspace,
       coalesce((SELECT w.id FROM worker w WHERE w.id = attempt.worker_id), 0) AS worker_id
FROM attempt
WHERE job_id = :job_id AND (may_live = 1 OR workspace IS NOT NULL);
-- dialect: postgres
SELECT token, host, boot_id, may_live, state, ended_at, (workspace IS NOT NULL)::int AS keeps_workspace,
       coalesce((SELECT w.id FROM worker w WHERE w.id = attempt.worker_id), 0) AS worker_id
FROM attempt
WHERE job_id = :job_id AND (may_live = 1 OR workspace IS NOT NULL);

-- name: keep_patch_delete(job_id)
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM attempt_patch
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM attempt_patch
USING unnest(:job_id::bigint[]) AS u (id)
WHERE attempt_patch.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
