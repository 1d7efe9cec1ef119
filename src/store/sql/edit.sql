-- What operators changed in the workspaces of their jobs. One row a job; whoever writes has the job's row locked.

-- doing: reading an operator's edits | changing an operator's edits

-- name: edit_add
-- Also for large edits that are sent before the job's row is locked: $1 is no job's id then. Called by queue/edit.c.
INSERT INTO edit (job_id, step_index, at, who, changed_files, patch)
VALUES ($1, $2, now($3), $4, $5, $6);

-- name: edit_adopt
-- What lies under $3 belongs to step $2 of job $1; the patch itself is not written again. Primary key. Called by
-- queue/edit.c.
UPDATE edit SET job_id = $1, step_index = $2 WHERE job_id = $3;

-- name: edit_remove
-- Primary key. Called by queue/edit.c.
DELETE FROM edit WHERE job_id = $1;

-- name: edit_drop
-- The job goes back to step $2: edits of later steps go. Primary key. Called by queue/edit.c.
DELETE FROM edit WHERE job_id = $1 AND step_index > $2;

-- name: edit_get
-- Primary key. Called by queue/edit.c.
SELECT step_index, at, who, changed_files, patch FROM edit WHERE job_id = $1;

-- name: edit_delete
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM edit
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM edit
USING unnest($1::bigint[]) AS u (id)
WHERE edit.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
