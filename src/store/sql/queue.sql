-- Queues: settings, limits and figures.

-- doing: reading queues | changing queues

-- define: queue
name, paused, paused_why, serial, concurrency, key_concurrency, rate_count, rate_period_ms, rate_level,
rate_at, lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms, keep_done_ms, keep_failed_ms,
version, step_max_attempts, step_timeout_ms, step_idle_timeout_ms, step_no_progress_limit,
job_self_heal_max_resets, step_grace_ms, rate_strict, rate_slots, step_pause_ms, step_pause_max_ms,
retry_classes, keep_workspace_ms

-- name: queue_get
-- Primary key. Called by queue/settings.c and, before each claim, by queue/claim.c.
SELECT {queue}
FROM queue
WHERE name = $1;

-- name: queue_lock
-- As queue_get; on PostgreSQL claimers of a limited queue stand in line here.
SELECT {queue}
FROM queue
WHERE name = $1;
-- dialect: postgres
SELECT {queue}
FROM queue
WHERE name = $1
FOR UPDATE;

-- name: queue_list
SELECT {queue}
FROM queue
ORDER BY name;

-- name: queue_put
-- All settings of a queue at once. Called by queue/settings.c.
INSERT INTO queue
    (name, paused, paused_why, serial, concurrency, key_concurrency, rate_count, rate_period_ms,
     rate_level, rate_at, lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms,
     keep_done_ms, keep_failed_ms, step_max_attempts, step_timeout_ms, step_idle_timeout_ms,
     step_no_progress_limit, job_self_heal_max_resets, step_grace_ms, rate_strict, rate_slots,
     step_pause_ms, step_pause_max_ms, retry_classes, keep_workspace_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
        $21, $22, $23, $24, $25, $26, $27, $28, $29)
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

-- name: queue_rate
-- Tokens were taken. Called by queue/limits.c inside the claim.
UPDATE queue SET rate_level = $2, rate_at = $3, rate_slots = $4 WHERE name = $1;

-- name: queue_counts
-- Jobs per queue and state, each part from an index alone. A scheduled job that is due counts as pending: nobody may have
-- asked for jobs since. A queue and state can come twice. Called by queue/stats.c.
SELECT queue, 1, count(*) FROM job WHERE state = 1 GROUP BY queue
UNION ALL
SELECT queue, 1, count(*) FROM job WHERE state = 0 AND alarm_at <= now($1) GROUP BY queue
UNION ALL
SELECT queue, 0, count(*) FROM job WHERE state = 0 AND alarm_at > now($1) GROUP BY queue
UNION ALL
SELECT queue, 2, count(*) FROM job WHERE state = 2 AND alarm_at IS NOT NULL GROUP BY queue
UNION ALL
SELECT queue, state, count(*) FROM job WHERE state >= 3 GROUP BY queue, state;

-- name: queue_oldest
-- First pending job of each queue by due time, over the priorities, and first scheduled job that is due. Indexes
-- job_pending, job_alarm. Called by queue/stats.c.
SELECT queue, min(due_at) FROM job WHERE state = 1 GROUP BY queue
UNION ALL
SELECT queue, min(alarm_at) FROM job WHERE state = 0 AND alarm_at <= now($1) GROUP BY queue;

-- name: queue_outlook
-- What a queue has that cannot be claimed: when its first scheduled job is due; how many jobs run; whether some are held;
-- whether the queue is known by anything else. Indexes job_scheduled, job_alarm, job_pending, job_resting, primary key.
-- Called by queue/stats.c.
SELECT (SELECT min(alarm_at) FROM job WHERE queue = $1 AND state = 0 AND alarm_at IS NOT NULL),
       (SELECT count(*) FROM job WHERE state = 2 AND alarm_at IS NOT NULL AND queue = $1),
       (SELECT count(*) FROM (SELECT 1 AS one FROM job WHERE queue = $1 AND state >= 3 AND state < 4 LIMIT 1) h),
       (SELECT count(*) FROM (SELECT 1 AS one FROM job WHERE queue = $1 AND state = 1 LIMIT 1) p)
         + (SELECT count(*) FROM (SELECT 1 AS one FROM job WHERE queue = $1 AND state >= 3 LIMIT 1) r)
         + (SELECT count(*) FROM queue WHERE name = $1);

-- name: store_counts
-- All workers and schedules; the locks that are held by index lock_expiry. Events are not counted one by one, there may
-- be millions: their ids follow each other, but for those that a restore has jumped over. Called by queue/stats.c.
SELECT (SELECT count(*) FROM worker), (SELECT count(*) FROM lock WHERE expires_at IS NOT NULL),
       (SELECT count(*) FROM schedule),
       (SELECT coalesce(e.last + 1 - e.first - (SELECT coalesce(sum(g.first_id - g.after_id - 1), 0)
                                                FROM generation g WHERE g.after_id >= e.first), 0)
        FROM (SELECT (SELECT min(id) FROM event) AS first, (SELECT max(id) FROM event) AS last) e),
       now($1);
-- dialect: postgres
SELECT (SELECT count(*) FROM worker), (SELECT count(*) FROM lock WHERE expires_at IS NOT NULL),
       (SELECT count(*) FROM schedule),
       (SELECT coalesce(e.last + 1 - e.first - (SELECT coalesce(sum(g.first_id - g.after_id - 1), 0)::bigint
                                                FROM generation g WHERE g.after_id >= e.first), 0)
        FROM (SELECT (SELECT min(id) FROM event) AS first, (SELECT max(id) FROM event) AS last) e),
       now($1);

-- name: queue_names_resting
-- Queues with finished or held jobs, from the name $1 on, $2 at most. From queue to queue through index job_resting: a
-- seek for each, however many jobs it has. Called by queue/retain.c.
WITH RECURSIVE k (queue, place) AS (
    SELECT (SELECT j.queue FROM job j WHERE j.state >= 3 AND j.queue >= $1 ORDER BY j.queue LIMIT 1), CAST(1 AS bigint)
    UNION ALL
    SELECT (SELECT j.queue FROM job j WHERE j.state >= 3 AND j.queue > k.queue ORDER BY j.queue LIMIT 1), k.place + 1
    FROM k
    WHERE k.queue IS NOT NULL AND k.place < $2
)
SELECT queue FROM k WHERE queue IS NOT NULL;
