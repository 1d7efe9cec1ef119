-- Adding jobs. On PostgreSQL each statement writes the events of its jobs itself and says so in `recorded`; the trigger
-- job_added does it for what others add (migrations/003.postgres.sql).

-- doing: adding jobs

-- define: their_events
INSERT INTO event (id, at, job_id, queue, who, what, to_state)
SELECT id, changed_at, id, queue, changed_by, changed_what, state FROM added
RETURNING id, (SELECT nobody_waits()) AS nobody_waits

-- name: job_add(now, who, queue, kind, priority, due_at, delay_ms, payload, unique_key, subject,
--       concurrency_key, tags, workspace, schedule, max_attempts, max_crashes, backoff_ms, backoff_max_ms,
--       lease_ms, hook)
-- Adds a job; for db_each. Due at :due_at, or :delay_ms ms from now. :hook: the hook whose job adds it. Called by
-- queue/add.c.
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace, schedule,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what)
VALUES
    (next_event(), next_event(), :queue, :kind, coalesce(:due_at, now(:now) + :delay_ms) <= now(:now), :priority,
     coalesce(:due_at, now(:now) + :delay_ms),
     CASE WHEN coalesce(:due_at, now(:now) + :delay_ms) > now(:now) THEN coalesce(:due_at, now(:now) + :delay_ms) END,
     :payload,
     :unique_key, :subject, :concurrency_key, :tags, :workspace, :schedule,
     :max_attempts, :max_crashes, :backoff_ms, :backoff_max_ms, :lease_ms, :hook,
     now(:now), now(:now), :who, 'job.added');
-- many:
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace, schedule,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what)
SELECT event, event, given.queue, given.kind, coalesce(given.due_at, now(:now) + given.delay_ms) <= now(:now),
       given.priority, coalesce(given.due_at, now(:now) + given.delay_ms),
       CASE WHEN coalesce(given.due_at, now(:now) + given.delay_ms) > now(:now)
            THEN coalesce(given.due_at, now(:now) + given.delay_ms) END,
       given.payload,
       given.unique_key, given.subject, given.concurrency_key, given.tags, given.workspace, given.schedule,
       given.max_attempts, given.max_crashes, given.backoff_ms, given.backoff_max_ms, given.lease_ms, given.hook,
       now(:now), now(:now), given.who, 'job.added'
FROM given;
-- dialect: postgres
-- Where a column is the same in all rows its array has one element.
WITH added AS (
    INSERT INTO job
        (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
         unique_key, subject, concurrency_key, tags, workspace, schedule,
         max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
         created_at, changed_at, changed_by, changed_what, recorded)
    SELECT n.event, n.event, n.queue, n.kind, (n.due <= n.t)::int, n.priority, n.due,
           CASE WHEN n.due > n.t THEN n.due END, n.payload,
           n.unique_key, n.subject, n.concurrency_key, n.tags, n.workspace, n.schedule,
           n.max_attempts, n.max_crashes, n.backoff_ms, n.backoff_max_ms, n.lease_ms, n.hook,
           n.t, n.t, n.who, 'job.added', true
    FROM (
        SELECT next_event() AS event, c.t, coalesce(u.due_at, c.t + coalesce(u.delay, c.delay)) AS due,
               coalesce(u.who, c.who) AS who, coalesce(u.queue, c.queue) AS queue,
               coalesce(u.kind, c.kind) AS kind, coalesce(u.priority, c.priority) AS priority, u.payload,
               u.unique_key, u.subject, u.concurrency_key, u.tags, u.workspace, u.schedule,
               u.max_attempts, u.max_crashes, u.backoff_ms, u.backoff_max_ms, u.lease_ms, u.hook
        FROM (SELECT now_each(:now) AS t, (:who::text[])[1] AS who, (:queue::text[])[1] AS queue,
                     (:kind::text[])[1] AS kind, (:priority::smallint[])[1] AS priority,
                     (:delay_ms::bigint[])[1] AS delay
              OFFSET 0) c,
             unnest(:who::text[], :queue::text[], :kind::text[], :priority::smallint[],
                    :due_at::bigint[], :delay_ms::bigint[], :payload::text[], :unique_key::text[], :subject::text[],
                    :concurrency_key::text[], :tags::text[], :workspace::text[], :schedule::text[],
                    :max_attempts::bigint[], :max_crashes::bigint[],
                    :backoff_ms::bigint[], :backoff_max_ms::bigint[], :lease_ms::bigint[], :hook::text[])
                 AS u (who, queue, kind, priority, due_at, delay, payload, unique_key, subject,
                       concurrency_key, tags, workspace, schedule, max_attempts, max_crashes,
                       backoff_ms, backoff_max_ms, lease_ms, hook)
        OFFSET 0
    ) n
    RETURNING id, changed_at, queue, changed_by, changed_what, state
)
{their_events};

-- name: job_add_basic(now, who, queue, kind, priority, due_at, delay_ms, payload)
-- The same for jobs with nothing but the first eight parameters: most are, and the statement is a fifth shorter.
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     created_at, changed_at, changed_by, changed_what)
VALUES
    (next_event(), next_event(), :queue, :kind, coalesce(:due_at, now(:now) + :delay_ms) <= now(:now), :priority,
     coalesce(:due_at, now(:now) + :delay_ms),
     CASE WHEN coalesce(:due_at, now(:now) + :delay_ms) > now(:now) THEN coalesce(:due_at, now(:now) + :delay_ms) END,
     :payload, now(:now), now(:now), :who, 'job.added');
-- many:
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     created_at, changed_at, changed_by, changed_what)
SELECT event, event, given.queue, given.kind, coalesce(given.due_at, now(:now) + given.delay_ms) <= now(:now),
       given.priority, coalesce(given.due_at, now(:now) + given.delay_ms),
       CASE WHEN coalesce(given.due_at, now(:now) + given.delay_ms) > now(:now)
            THEN coalesce(given.due_at, now(:now) + given.delay_ms) END,
       given.payload, now(:now), now(:now), given.who, 'job.added'
FROM given;
-- dialect: postgres
WITH added AS (
    INSERT INTO job
        (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
         created_at, changed_at, changed_by, changed_what, recorded)
    SELECT n.event, n.event, n.queue, n.kind, (n.due <= n.t)::int, n.priority, n.due,
           CASE WHEN n.due > n.t THEN n.due END, n.payload, n.t, n.t, n.who, 'job.added', true
    FROM (
        SELECT next_event() AS event, c.t, coalesce(u.due_at, c.t + coalesce(u.delay, c.delay)) AS due,
               coalesce(u.who, c.who) AS who, coalesce(u.queue, c.queue) AS queue,
               coalesce(u.kind, c.kind) AS kind, coalesce(u.priority, c.priority) AS priority, u.payload
        FROM (SELECT now_each(:now) AS t, (:who::text[])[1] AS who, (:queue::text[])[1] AS queue,
                     (:kind::text[])[1] AS kind, (:priority::smallint[])[1] AS priority,
                     (:delay_ms::bigint[])[1] AS delay
              OFFSET 0) c,
             unnest(:who::text[], :queue::text[], :kind::text[], :priority::smallint[],
                    :due_at::bigint[], :delay_ms::bigint[], :payload::text[])
                 AS u (who, queue, kind, priority, due_at, delay, payload)
        OFFSET 0
    ) n
    RETURNING id, changed_at, queue, changed_by, changed_what, state
)
{their_events};

-- name: job_add_one(now, who, queue, kind, priority, payload)
-- The same for one job that is due at once: half the work for PostgreSQL, whose engine takes it by itself where
-- it fits. Called by store/pg_query.c.
-- dialect: postgres
WITH e AS (
    INSERT INTO event (id, at, job_id, queue, who, what, to_state)
    VALUES (next_event(), coalesce(:now::bigint, store_clock()), currval('event_id'), :queue, :who,
            'job.added', {pending})
    RETURNING id, at
)
INSERT INTO job
    (id, event_id, queue, kind, state, priority, due_at, payload,
     created_at, changed_at, changed_by, changed_what, recorded)
SELECT e.id, e.id, :queue, :kind, {pending}, :priority, e.at, :payload, e.at, e.at, :who, 'job.added', true FROM e
RETURNING id, nobody_waits() AS nobody_waits;

-- name: job_by_key(queue, unique_key)
-- The live job that has a unique key; on PostgreSQL it stays so until the end of the transaction. Index job_unique.
-- Called by queue/add.c.
SELECT id, state, subject, payload
FROM job
WHERE queue = :queue AND unique_key = :unique_key AND finished_at IS NULL;
-- dialect: postgres
SELECT id, state, subject, payload
FROM job
WHERE queue = :queue AND unique_key = :unique_key AND finished_at IS NULL
FOR NO KEY UPDATE;

-- name: keys_take(queue, unique_key)
-- A batch takes its unique keys before it looks for them, so that two batches with the same keys come one after the
-- other, in whatever order they have them; for db_each. A key is one of 1024 advisory locks of the schema, taken by
-- number until the end of the transaction. PostgreSQL only. Called by queue/add.c, also for queue/act.c.
-- dialect: postgres
SELECT pg_advisory_xact_lock(k.number) AS taken
FROM (SELECT DISTINCT (hashtextextended(current_schema(), 0) & -1024)
                    | (hashtextextended(u.queue || ' ' || u.unique_key, 0) & 1023) AS number
      FROM unnest(:queue::text[], :unique_key::text[]) AS u (queue, unique_key)
      ORDER BY number) k;

-- name: keys_lock_jobs(queue, unique_key)
-- ... and locks the live jobs that have them, by id as everybody does, before it looks at one after the other; for
-- db_each. Index job_unique. PostgreSQL only. Called by queue/add.c.
-- dialect: postgres
SELECT j.id
FROM unnest(:queue::text[], :unique_key::text[]) AS u (queue, unique_key)
     JOIN job j ON j.queue = u.queue AND j.unique_key = u.unique_key
WHERE j.finished_at IS NULL
ORDER BY j.id + 0
FOR NO KEY UPDATE OF j;

-- What a job that is there takes over from what is submitted under its key. Its queue, key and subject are the same.
-- What was tried and lost for another payload says nothing about the new one, which has full budgets. A job of a hook
-- (:hook) that somebody else submits again is that one's; but no hook makes the job of somebody else its own.
-- define: submitted
kind = :kind, priority = :priority, payload = :payload, concurrency_key = :concurrency_key, tags = :tags,
    workspace = :workspace, max_attempts = :max_attempts, max_crashes = :max_crashes,
    backoff_ms = :backoff_ms, backoff_max_ms = :backoff_max_ms, lease_ms = :lease_ms,
    hook = CASE WHEN CAST(:hook AS text) IS NOT NULL THEN hook END,
    retry_hook = CASE WHEN CAST(:hook AS text) IS NOT NULL THEN retry_hook END,
    attempts = CASE WHEN payload = :payload THEN attempts ELSE 0 END,
    crashes = CASE WHEN payload = :payload THEN crashes ELSE 0 END,
    life_token = CASE WHEN payload = :payload THEN life_token ELSE token END

-- name: job_refresh(now, id, kind, priority, due_at, delay_ms, payload, concurrency_key, tags, workspace,
--       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook, who)
-- A waiting job, :id, takes over what was submitted again under its key, by :who: due at :due_at, or :delay_ms ms from
-- now. Primary key. Called by queue/add.c.
UPDATE OR FAIL job
SET {submitted},
    due_at = coalesce(:due_at, now(:now) + :delay_ms), state = coalesce(:due_at, now(:now) + :delay_ms) <= now(:now),
    alarm_at = CASE WHEN coalesce(:due_at, now(:now) + :delay_ms) > now(:now)
                    THEN coalesce(:due_at, now(:now) + :delay_ms) END,
    version = version + 1, event_id = next_event(), changed_at = now(:now), changed_by = :who,
    changed_what = 'job.rescheduled', changed_why = 'submitted again under its key'
WHERE id = :id AND state IN ({scheduled}, {pending});
-- dialect: postgres
UPDATE job
SET {submitted},
    due_at = c.due, state = (c.due <= c.t)::int, alarm_at = CASE WHEN c.due > c.t THEN c.due END,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = :who,
    changed_what = 'job.rescheduled', changed_why = 'submitted again under its key'
FROM (
    SELECT b.t, coalesce(:due_at, b.t + :delay_ms) AS due
    FROM (SELECT now(:now) AS t OFFSET 0) b
) c
WHERE id = :id AND state + 0 IN ({scheduled}, {pending});

-- name: job_refresh_held(now, id, kind, priority, due_at, delay_ms, payload, concurrency_key, tags, workspace,
--       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook)
-- The same for a job that is held. It does not move, and goes on saying who holds it and why; its event is written by
-- event_of_submission. Primary key. Called by queue/add.c.
UPDATE job
SET {submitted}, due_at = coalesce(:due_at, now(:now) + :delay_ms), version = version + 1
WHERE id = :id AND state = {held};
-- dialect: postgres
UPDATE job
SET {submitted}, due_at = coalesce(:due_at, now(:now) + :delay_ms), version = version + 1
WHERE id = :id AND state + 0 = {held};
