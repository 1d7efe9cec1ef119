-- Hooks: commands that run as jobs when automation gives up.

-- doing: reading hooks | changing hooks

-- name: hook_put(name, on_what, for_queue, queue, payload, workspace, now, who)
-- Make or replace; for db_each. Called by queue/hook.c.
INSERT INTO hook (name, on_what, for_queue, queue, payload, workspace, at, who)
VALUES (:name, :on_what, :for_queue, :queue, :payload, :workspace, now(:now), :who)
ON CONFLICT (name) DO UPDATE
SET on_what = excluded.on_what, for_queue = excluded.for_queue, queue = excluded.queue,
    payload = excluded.payload, workspace = excluded.workspace, at = excluded.at, who = excluded.who;

-- name: hook_remove(name)
-- For db_each. Called by queue/hook.c.
DELETE FROM hook WHERE name = :name;

-- name: hook_list
-- All hooks: there are few. Called by queue/hook.c.
SELECT name, on_what, for_queue, queue, payload, workspace, at, who FROM hook ORDER BY name;

-- name: hook_any
-- A row when there is a hook at all. Called by queue/finish.c and queue/recover.c before they look for more.
SELECT 1 AS found FROM hook LIMIT 1;

-- name: hook_endings(ids)
-- What hooks are told of the jobs of a JSON array of ids, by id. No row for a job that a hook has added or retried:
-- what fails there calls nobody. Primary key. Called by queue/hook_call.c.
SELECT id, queue, kind, state, attempts, crashes, error_class, error_text, changed_at
FROM job
WHERE id IN (SELECT value FROM json_each(:ids)) AND hook IS NULL AND retry_hook IS NULL
ORDER BY id;
-- dialect: postgres
SELECT id, queue, kind, state, attempts, crashes, error_class, error_text, changed_at
FROM job
WHERE id = ANY (ARRAY(SELECT j.value::bigint FROM json_array_elements_text(:ids::json) AS j (value)))
  AND hook IS NULL AND retry_hook IS NULL
ORDER BY id;

-- name: hook_retry(id, hook)
-- Job :id is started over by hook :hook, or NULL: by somebody else, so that its endings call hooks again; for db_each.
-- No move: it leaves no event of its own. Primary key. Called by queue/move.c, which has moved the job.
UPDATE job SET retry_hook = :hook WHERE id = :id AND (:hook IS NOT NULL OR retry_hook IS NOT NULL);
-- dialect: postgres
UPDATE job SET retry_hook = u.hook
FROM unnest(:id::bigint[], :hook::text[]) WITH ORDINALITY AS u (id, hook, ordinal)
WHERE job.id = u.id AND (u.hook IS NOT NULL OR job.retry_hook IS NOT NULL)
RETURNING u.ordinal, 1;
