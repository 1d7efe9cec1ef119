-- Hooks: commands that run as jobs when automation gives up.

-- doing: reading hooks | changing hooks

-- name: hook_put
-- Make or replace; for db_each. Called by queue/hook.c.
INSERT INTO hook (name, on_what, for_queue, queue, payload, workspace, at, who)
VALUES ($1, $2, $3, $4, $5, $6, now($7), $8)
ON CONFLICT (name) DO UPDATE
SET on_what = excluded.on_what, for_queue = excluded.for_queue, queue = excluded.queue,
    payload = excluded.payload, workspace = excluded.workspace, at = excluded.at, who = excluded.who;

-- name: hook_remove
-- For db_each. Called by queue/hook.c.
DELETE FROM hook WHERE name = $1;

-- name: hook_list
-- All hooks: there are few. Called by queue/hook.c.
SELECT name, on_what, for_queue, queue, payload, workspace, at, who FROM hook ORDER BY name;

-- name: hook_any
-- A row when there is a hook at all. Called by queue/finish.c and queue/recover.c before they look for more.
SELECT 1 FROM hook LIMIT 1;

-- name: hook_of_job
-- The hooks for the queue of job $1, each with what it is told of the job. No row for a job that a hook has added: what
-- fails there calls nobody. Primary key, then all hooks. Called by queue/hook_call.c.
SELECT h.name, h.on_what, h.queue, h.payload, h.workspace,
       j.queue, j.kind, j.state, j.attempts, j.crashes, j.error_class, j.error_text, j.changed_at
FROM job j JOIN hook h ON h.for_queue IS NULL OR h.for_queue = j.queue
WHERE j.id = $1 AND j.hook IS NULL
ORDER BY h.name;

-- name: hook_mark
-- The hook that has added job $1; for db_each. No move: it leaves no event of its own. Primary key. Called by
-- queue/hook_call.c, right after the job was added.
UPDATE job SET hook = $2 WHERE id = $1;
-- dialect: postgres
UPDATE job SET hook = u.hook
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS u (id, hook, ordinal)
WHERE job.id = u.id
RETURNING u.ordinal, 1;
