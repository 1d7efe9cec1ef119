-- What operators changed in the workspaces of their jobs. One row a job; whoever writes has the job's row locked.

-- doing: reading an operator's edits | changing an operator's edits

-- name: edit_add(job_id, step_index, now, who, changed_files, patch)
-- Also for large edits that are sent before the job's row is locked: :job_id is no job's id then. Called by
-- queue/edit.c.
INSERT INTO edit (job_id, step_index, at, who, changed_files, patch)
VALUES (:job_id, :step_index, now(:now), :who, :changed_files, :patch);

-- name: edit_adopt(job_id, step_index, staged_id)
-- What lies under :staged_id belongs to step :step_index of job :job_id; the patch itself is not written again. Primary
-- key. Called by queue/edit.c.
UPDATE edit SET job_id = :job_id, step_index = :step_index WHERE job_id = :staged_id;

-- name: edit_remove(job_id)
-- Primary key. Called by queue/edit.c.
DELETE FROM edit WHERE job_id = :job_id;

-- name: edit_drop(job_id, after_step)
-- The job goes back to step :after_step: edits of later steps go. Primary key. Called by queue/edit.c.
DELETE FROM edit WHERE job_id = :job_id AND step_index > :after_step;

-- name: edit_get(job_id)
-- Primary key. Called by queue/edit.c.
SELECT step_index, at, who, changed_files, patch FROM edit WHERE job_id = :job_id;

-- name: edit_delete(job_id)
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM edit
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM edit
USING unnest(:job_id::bigint[]) AS u (id)
WHERE edit.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
