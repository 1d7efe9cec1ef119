-- Schedules: jobs added by the clock.

-- doing: reading schedules | changing schedules

-- name: schedule_put(name, cron, queue, kind, priority, payload, catch_up, paused, next_at, timezone, zone,
--       overlap, workspace)
-- Make or replace. Called by queue/schedule.c.
INSERT INTO schedule
    (name, cron, queue, kind, priority, payload, catch_up, paused, next_at, timezone, zone, overlap,
     workspace)
VALUES
    (:name, :cron, :queue, :kind, :priority, :payload, :catch_up, :paused, :next_at, :timezone, :zone, :overlap,
     :workspace)
ON CONFLICT (name) DO UPDATE
SET cron = excluded.cron, queue = excluded.queue, kind = excluded.kind,
    priority = excluded.priority, payload = excluded.payload, catch_up = excluded.catch_up,
    paused = excluded.paused, next_at = excluded.next_at, timezone = excluded.timezone,
    zone = excluded.zone, overlap = excluded.overlap, workspace = excluded.workspace,
    version = schedule.version + 1;

-- name: schedule_pause(name, paused)
-- Paused (1) or not (0); the version keeps whoever fires it out. Called by queue/schedule.c, with its row locked by
-- schedule_get.
UPDATE schedule SET paused = :paused, version = version + 1 WHERE name = :name;

-- name: schedule_remove(name)
-- For db_each. Called by queue/schedule.c.
DELETE FROM schedule WHERE name = :name;

-- name: schedule_list
SELECT name, cron, queue, kind, payload, priority, catch_up, paused, last_at, next_at, timezone, zone, overlap,
       workspace
FROM schedule
ORDER BY name;

-- define: firing
name, cron, queue, kind, payload, priority, catch_up, next_at, version, timezone, zone, overlap, paused, last_at,
workspace

-- name: schedule_count_due(now)
-- Index schedule_next. Called by queue/schedule_fire.c.
SELECT count(*) AS schedules FROM schedule WHERE next_at <= now(:now) AND paused = 0;

-- name: schedule_due(now, limit, passed)
-- Names alone: payloads are read one at a time. :passed are passed over, then :limit at most. Index schedule_next.
-- Called by queue/schedule_fire.c. On PostgreSQL one that somebody else is firing is skipped: whoever fires may wait
-- for jobs.
SELECT name, overlap
FROM schedule
WHERE next_at <= now(:now) AND paused = 0
ORDER BY next_at DESC, name
LIMIT :limit OFFSET :passed;
-- dialect: postgres
SELECT name, overlap
FROM schedule
WHERE next_at <= now(:now) AND paused = 0
ORDER BY next_at DESC, name
LIMIT :limit OFFSET :passed
FOR UPDATE SKIP LOCKED;

-- name: schedule_get(name)
-- The one of a name, which nobody else fires or changes until the end of the transaction. Primary key.
-- Called by queue/schedule.c and queue/schedule_fire.c.
SELECT {firing} FROM schedule WHERE name = :name;
-- dialect: postgres
SELECT {firing} FROM schedule WHERE name = :name FOR UPDATE;

-- name: schedule_next(after)
-- When the next is due, of those that are due later than :after. Index schedule_next. Called by queue/wait.c.
SELECT min(next_at) AS next_at FROM schedule WHERE next_at > :after AND paused = 0;

-- name: schedule_fired(name, version, last_at, next_at, zone)
-- It has fired, once: the version is the guard; :last_at is the last run that was added; for db_each. Called by
-- queue/schedule_fire.c.
UPDATE schedule
SET last_at = :last_at, next_at = :next_at, zone = :zone, version = version + 1
WHERE name = :name AND version = :version;

-- name: schedule_nominal(id, nominal_at)
-- The time that the run of a job has been named for; for db_each. No move: it leaves no event of its own. Primary key.
-- Called by queue/schedule_fire.c, right after the job was added.
UPDATE job SET nominal_at = :nominal_at WHERE id = :id;
-- dialect: postgres
UPDATE job SET nominal_at = u.nominal_at
FROM unnest(:id::bigint[], :nominal_at::bigint[]) WITH ORDINALITY AS u (id, nominal_at, ordinal)
WHERE job.id = u.id
RETURNING u.ordinal, 1;

-- name: schedule_unfinished(schedule)
-- The first run of a schedule that has not finished. Index job_of_schedule. Called by queue/schedule_fire.c.
SELECT id FROM job WHERE schedule = :schedule AND finished_at IS NULL ORDER BY id LIMIT 1;

-- name: schedule_runs(schedule)
-- All of them, which on PostgreSQL stay as they are until the end of the transaction; if somebody has locked one, it
-- fails at once, as claims would wait. Index job_of_schedule. Called by queue/schedule_fire.c.
SELECT {job} FROM job WHERE schedule = :schedule AND finished_at IS NULL ORDER BY id;
-- dialect: postgres
SELECT {job} FROM job WHERE schedule = :schedule AND finished_at IS NULL ORDER BY id FOR NO KEY UPDATE NOWAIT;
