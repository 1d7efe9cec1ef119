-- Schedules: jobs added by the clock.

-- name: schedule_put
-- Make or replace. Called by queue/schedule.c.
INSERT INTO schedule (name, cron, queue, kind, priority, payload, catch_up, paused, next_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (name) DO UPDATE
SET cron = excluded.cron, queue = excluded.queue, kind = excluded.kind,
    priority = excluded.priority, payload = excluded.payload, catch_up = excluded.catch_up,
    paused = excluded.paused, next_at = excluded.next_at, version = schedule.version + 1;

-- name: schedule_remove
-- For db_each. Called by queue/schedule.c.
DELETE FROM schedule WHERE name = $1;

-- name: schedule_list
SELECT name, cron, queue, kind, payload, priority, catch_up, paused, last_at, next_at
FROM schedule
ORDER BY name;

-- name: schedule_due
-- Index schedule_next. Called by queue/schedule.c. Those due at the same time by name, so that two who fire them do not
-- wait for each other.
SELECT name, cron, queue, kind, payload, priority, catch_up, next_at, version, now($1)
FROM schedule
WHERE next_at <= now($1) AND paused = 0
ORDER BY next_at, name
LIMIT 100;

-- name: schedule_next
-- When the next is due. Index schedule_next. Called by queue/wait.c.
SELECT min(next_at) FROM schedule WHERE next_at IS NOT NULL AND paused = 0;

-- name: schedule_fired
-- It has fired for $3, once: the version is the guard; for db_each. Called by queue/schedule.c.
UPDATE schedule
SET last_at = $3, next_at = $4, version = version + 1
WHERE name = $1 AND version = $2;
