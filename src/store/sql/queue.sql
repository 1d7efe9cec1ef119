-- Queues: settings, limits and figures.

-- doing: reading queues | changing queues

-- define: queue
name, paused, paused_why, serial, concurrency, key_concurrency, rate_count, rate_period_ms, rate_level,
rate_at, lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms, keep_done_ms, keep_failed_ms,
version, step_max_attempts, step_timeout_ms, step_idle_timeout_ms, step_no_progress_limit,
job_self_heal_max_resets, step_grace_ms, rate_strict, rate_slots, step_pause_ms, step_pause_max_ms,
retry_classes, keep_workspace_ms

-- name: queue_get(name)
-- Primary key. Called by queue/settings.c and, before each claim, by queue/claim.c.
SELECT {queue}
FROM queue
WHERE name = :name;

-- name: queue_lock(name)
-- As queue_get; on PostgreSQL claimers of a limited queue stand in line here.
SELECT {queue}
FROM queue
WHERE name = :name;
-- dialect: postgres
SELECT {queue}
FROM queue
WHERE name = :name
FOR UPDATE;

-- name: queue_make(name)
-- A queue without settings of its own, unless it is there: so that two that set something come one after the other; for
-- db_each. Primary key. PostgreSQL only. Called by queue/settings.c.
-- dialect: postgres
INSERT INTO queue (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: queue_list
SELECT {queue}
FROM queue
ORDER BY name;

-- name: queue_put(name, paused, paused_why, serial, concurrency, key_concurrency, rate_count, rate_period_ms,
--       rate_level, rate_at, lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms, keep_done_ms,
--       keep_failed_ms, step_max_attempts, step_timeout_ms, step_idle_timeout_ms, step_no_progress_limit,
--       job_self_heal_max_resets, step_grace_ms, rate_strict, rate_slots, step_pause_ms, step_pause_max_ms,
--       retry_classes, keep_workspace_ms)
-- All settings of a queue at once. Called by queue/settings.c.
INSERT INTO queue
    (name, paused, paused_why, serial, concurrency, key_concurrency, rate_count, rate_period_ms,
     rate_level, rate_at, lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms,
     keep_done_ms, keep_failed_ms, step_max_attempts, step_timeout_ms, step_idle_timeout_ms,
     step_no_progress_limit, job_self_heal_max_resets, step_grace_ms, rate_strict, rate_slots,
     step_pause_ms, step_pause_max_ms, retry_classes, keep_workspace_ms)
VALUES
    (:name, :paused, :paused_why, :serial, :concurrency, :key_concurrency, :rate_count, :rate_period_ms,
     :rate_level, :rate_at, :lease_ms, :max_attempts, :max_crashes, :backoff_ms, :backoff_max_ms,
     :keep_done_ms, :keep_failed_ms, :step_max_attempts, :step_timeout_ms, :step_idle_timeout_ms,
     :step_no_progress_limit, :job_self_heal_max_resets, :step_grace_ms, :rate_strict, :rate_slots,
     :step_pause_ms, :step_pause_max_ms, :retry_classes, :keep_workspace_ms)
ON CONFLICT (name) DO UPDATE
SET paused = excluded.paused, paused_why = excluded.paused_why, serial = excluded.serial,
    concurrency = excluded.concurrency, key_concurrency = excluded.key_concurrency,
    rate_count = excluded.rate_count, rate_period_ms = excluded.rate_period_ms,
    rate_level = excluded.rate_level, rate_at = excluded.rate_at, lease_ms = excluded.lease_ms,
    max_attempts = excluded.max_attempts, max_crashes = excluded.max_crashes,
    backoff_ms = excluded.backoff_ms, backoff_max_ms = excluded.backoff_max_ms,
    keep_done_ms = excluded.keep_done_ms, keep_failed_ms = excluded.keep_failed_ms,
    step_max_attempts = excluded.step_max_attempts, step_timeout_ms = excluded.step_timeout_ms,
    step_idle_timeout_ms = excluded.step_idle_timeout_ms,
    step_no_progress_limit = excluded.step_no_progress_limit,
    job_self_heal_max_resets = excluded.job_self_heal_max_resets,
    step_grace_ms = excluded.step_grace_ms,
    rate_strict = excluded.rate_strict, rate_slots = excluded.rate_slots,
    step_pause_ms = excluded.step_pause_ms, step_pause_max_ms = excluded.step_pause_max_ms,
    retry_classes = excluded.retry_classes, keep_workspace_ms = excluded.keep_workspace_ms,
    version = queue.version + 1;

-- name: queue_rate(name, rate_level, rate_at, rate_slots)
-- Tokens were taken. Called by queue/limits.c inside the claim.
UPDATE queue SET rate_level = :rate_level, rate_at = :rate_at, rate_slots = :rate_slots WHERE name = :name;

-- name: queue_counts(now)
-- Jobs per queue and state, each part from an index alone. A scheduled job that is due counts as pending: nobody may
-- have asked for jobs since. A queue and state can come twice. Called by queue/stats.c.
SELECT queue, {pending} AS state, count(*) AS jobs FROM job WHERE state = {pending} GROUP BY queue
UNION ALL
SELECT queue, {pending}, count(*) FROM job WHERE state = {scheduled} AND alarm_at <= now(:now) GROUP BY queue
UNION ALL
SELECT queue, {scheduled}, count(*) FROM job WHERE state = {scheduled} AND alarm_at > now(:now) GROUP BY queue
UNION ALL
SELECT queue, {running}, count(*) FROM job WHERE state = {running} AND alarm_at IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, state, count(*) FROM job WHERE state >= {held} GROUP BY queue, state;

-- name: queue_oldest(now)
-- First pending job of each queue by due time, over the priorities, and first scheduled job that is due. Indexes
-- job_pending, job_alarm. Called by queue/stats.c.
SELECT queue, min(due_at) AS due_at FROM job WHERE state = {pending} GROUP BY queue
UNION ALL
SELECT queue, min(alarm_at) FROM job WHERE state = {scheduled} AND alarm_at <= now(:now) GROUP BY queue;

-- name: queue_outlook(queue)
-- What a queue has that cannot be claimed: when its first scheduled job is due; how many jobs run; whether some are
-- held; whether the queue is known by anything else. Indexes job_scheduled, job_alarm, job_pending, job_resting,
-- primary key. Called by queue/stats.c.
SELECT (SELECT min(alarm_at) FROM job
        WHERE queue = :queue AND state = {scheduled} AND alarm_at IS NOT NULL) AS next_due_at,
       (SELECT count(*) FROM job WHERE state = {running} AND alarm_at IS NOT NULL AND queue = :queue) AS running,
       (SELECT count(*) FROM (SELECT 1 AS one FROM job
                              WHERE queue = :queue AND state >= {held} AND state < {done}
                              LIMIT 1) h) AS held,
       (SELECT count(*) FROM (SELECT 1 AS one FROM job WHERE queue = :queue AND state = {pending} LIMIT 1) p)
         + (SELECT count(*) FROM (SELECT 1 AS one FROM job WHERE queue = :queue AND state >= {held} LIMIT 1) r)
         + (SELECT count(*) FROM queue WHERE name = :queue) AS known;

-- name: store_counts(now)
-- All workers and schedules; the locks that are held by index lock_expiry. Events are not counted one by one, there may
-- be millions: their ids follow each other, but for those that a restore has jumped over. Called by queue/stats.c.
SELECT (SELECT count(*) FROM worker) AS workers, (SELECT count(*) FROM lock WHERE expires_at IS NOT NULL) AS locks,
       (SELECT count(*) FROM schedule) AS schedules,
       (SELECT coalesce(e.last + 1 - e.first - (SELECT coalesce(sum(g.first_id - g.after_id - 1), 0)
                                                FROM generation g WHERE g.after_id >= e.first), 0)
        FROM (SELECT (SELECT min(id) FROM event) AS first, (SELECT max(id) FROM event) AS last) e) AS events,
       now(:now) AS now;
-- dialect: postgres
SELECT (SELECT count(*) FROM worker) AS workers, (SELECT count(*) FROM lock WHERE expires_at IS NOT NULL) AS locks,
       (SELECT count(*) FROM schedule) AS schedules,
       (SELECT coalesce(e.last + 1 - e.first - (SELECT coalesce(sum(g.first_id - g.after_id - 1), 0)::bigint
                                                FROM generation g WHERE g.after_id >= e.first), 0)
        FROM (SELECT (SELECT min(id) FROM event) AS first, (SELECT max(id) FROM event) AS last) e) AS events,
       now(:now) AS now;

-- name: queue_names_resting(from_queue, limit)
-- Queues with finished or held jobs, from the name :from_queue on, :limit at most. From queue to queue through index
-- job_resting: a seek for each, however many jobs it has. Called by queue/retain.c.
WITH RECURSIVE k (queue, place) AS (
    SELECT (SELECT j.queue FROM job j WHERE j.state >= {held} AND j.queue >= :from_queue ORDER BY j.queue LIMIT 1),
           CAST(1 AS bigint)
    UNION ALL
    SELECT (SELECT j.queue FROM job j WHERE j.state >= {held} AND j.queue > k.queue ORDER BY j.queue LIMIT 1),
           k.place + 1
    FROM k
    WHERE k.queue IS NOT NULL AND k.place < :limit
)
SELECT queue FROM k WHERE queue IS NOT NULL;
