-- Adding jobs. On PostgreSQL each statement writes the events of its jobs itself and says so in `recorded`; the trigger
-- job_added does it for what others add (migrations/003.postgres.sql).

-- doing: adding jobs

-- define: their_events
INSERT INTO event (id, at, job_id, queue, who, what, to_state)
SELECT id, changed_at, id, queue, changed_by, changed_what, state FROM added
RETURNING id, (SELECT nobody_waits())

-- name: job_add
-- Adds a job; for db_each. Due at $6, or $7 ms from now. $20: the hook whose job adds it. Called by queue/add.c.
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace, schedule,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what)
VALUES
    (next_event(), next_event(), $3, $4, coalesce($6, now($1) + $7) <= now($1), $5,
     coalesce($6, now($1) + $7),
     CASE WHEN coalesce($6, now($1) + $7) > now($1) THEN coalesce($6, now($1) + $7) END,
     $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, now($1), now($1), $2,
     'job.added');
-- many:
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace, schedule,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what)
SELECT event, event, p3, p4, coalesce(p6, now($1) + p7) <= now($1), p5,
       coalesce(p6, now($1) + p7),
       CASE WHEN coalesce(p6, now($1) + p7) > now($1) THEN coalesce(p6, now($1) + p7) END,
       p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, now($1), now($1), p2,
       'job.added'
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
        FROM (SELECT now_each($1) AS t, ($2::text[])[1] AS who, ($3::text[])[1] AS queue,
                     ($4::text[])[1] AS kind, ($5::smallint[])[1] AS priority,
                     ($7::bigint[])[1] AS delay
              OFFSET 0) c,
             unnest($2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::bigint[],
                    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],
                    $14::text[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
                    $19::bigint[], $20::text[])
                 AS u (who, queue, kind, priority, due_at, delay, payload, unique_key, subject,
                       concurrency_key, tags, workspace, schedule, max_attempts, max_crashes,
                       backoff_ms, backoff_max_ms, lease_ms, hook)
        OFFSET 0
    ) n
    RETURNING id, changed_at, queue, changed_by, changed_what, state
)
{their_events};

-- name: job_add_basic
-- The same for jobs with nothing but the first eight parameters: most are, and the statement is a fifth shorter.
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     created_at, changed_at, changed_by, changed_what)
VALUES
    (next_event(), next_event(), $3, $4, coalesce($6, now($1) + $7) <= now($1), $5,
     coalesce($6, now($1) + $7),
     CASE WHEN coalesce($6, now($1) + $7) > now($1) THEN coalesce($6, now($1) + $7) END,
     $8, now($1), now($1), $2, 'job.added');
-- many:
INSERT OR FAIL INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     created_at, changed_at, changed_by, changed_what)
SELECT event, event, p3, p4, coalesce(p6, now($1) + p7) <= now($1), p5,
       coalesce(p6, now($1) + p7),
       CASE WHEN coalesce(p6, now($1) + p7) > now($1) THEN coalesce(p6, now($1) + p7) END,
       p8, now($1), now($1), p2, 'job.added'
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
        FROM (SELECT now_each($1) AS t, ($2::text[])[1] AS who, ($3::text[])[1] AS queue,
                     ($4::text[])[1] AS kind, ($5::smallint[])[1] AS priority,
                     ($7::bigint[])[1] AS delay
              OFFSET 0) c,
             unnest($2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::bigint[],
                    $8::text[])
                 AS u (who, queue, kind, priority, due_at, delay, payload)
        OFFSET 0
    ) n
    RETURNING id, changed_at, queue, changed_by, changed_what, state
)
{their_events};

-- name: job_add_one
-- The same for one job that is due at once: half the work for PostgreSQL, whose engine takes it by itself where
-- it fits. Called by store/pg_query.c.
INSERT INTO job
    (id, event_id, queue, kind, state, priority, due_at, payload,
     created_at, changed_at, changed_by, changed_what)
VALUES
    (next_event(), next_event(), $3, $4, 1, $5, now($1), $6, now($1), now($1), $2, 'job.added');
-- dialect: postgres
WITH e AS (
    INSERT INTO event (id, at, job_id, queue, who, what, to_state)
    VALUES (next_event(), coalesce($1::bigint, store_clock()), currval('event_id'), $3, $2,
            'job.added', 1)
    RETURNING id, at
)
INSERT INTO job
    (id, event_id, queue, kind, state, priority, due_at, payload,
     created_at, changed_at, changed_by, changed_what, recorded)
SELECT e.id, e.id, $3, $4, 1, $5, e.at, $6, e.at, e.at, $2, 'job.added', true FROM e
RETURNING id, nobody_waits();

-- name: job_by_key
-- The live job that has a unique key; on PostgreSQL it stays so until the end of the transaction. Index job_unique.
-- Called by queue/add.c.
SELECT id, state, subject, payload
FROM job
WHERE queue = $1 AND unique_key = $2 AND finished_at IS NULL;
-- dialect: postgres
SELECT id, state, subject, payload
FROM job
WHERE queue = $1 AND unique_key = $2 AND finished_at IS NULL
FOR NO KEY UPDATE;

-- name: keys_take
-- A batch takes its unique keys before it looks for them, so that two batches with the same keys come one after the
-- other, in whatever order they have them; for db_each. A key is one of 1024 advisory locks of the schema, taken by
-- number until the end of the transaction. PostgreSQL only. Called by queue/add.c, also for queue/act.c.
SELECT $1, $2;
-- dialect: postgres
SELECT pg_advisory_xact_lock(k.number)
FROM (SELECT DISTINCT (hashtextextended(current_schema(), 0) & -1024)
                    | (hashtextextended(u.queue || ' ' || u.unique_key, 0) & 1023) AS number
      FROM unnest($1::text[], $2::text[]) AS u (queue, unique_key)
      ORDER BY number) k;

-- name: keys_lock_jobs
-- ... and locks the live jobs that have them, by id as everybody does, before it looks at one after the other; for
-- db_each. Index job_unique. PostgreSQL only. Called by queue/add.c.
SELECT id FROM job WHERE queue = $1 AND unique_key = $2 AND finished_at IS NULL;
-- dialect: postgres
SELECT j.id
FROM unnest($1::text[], $2::text[]) AS u (queue, unique_key)
     JOIN job j ON j.queue = u.queue AND j.unique_key = u.unique_key
WHERE j.finished_at IS NULL
ORDER BY j.id + 0
FOR NO KEY UPDATE OF j;

-- What a job that is there takes over from what is submitted under its key. Its queue, key and subject are the same.
-- What was tried and lost for another payload says nothing about the new one, which has full budgets. A job of a hook
-- ($16) that somebody else submits again is that one's; but no hook makes the job of somebody else its own.
-- define: submitted
kind = $3, priority = $4, payload = $7, concurrency_key = $8, tags = $9, workspace = $10,
    max_attempts = $11, max_crashes = $12, backoff_ms = $13, backoff_max_ms = $14, lease_ms = $15,
    hook = CASE WHEN CAST($16 AS text) IS NOT NULL THEN hook END,
    retry_hook = CASE WHEN CAST($16 AS text) IS NOT NULL THEN retry_hook END,
    attempts = CASE WHEN payload = $7 THEN attempts ELSE 0 END,
    crashes = CASE WHEN payload = $7 THEN crashes ELSE 0 END,
    life_token = CASE WHEN payload = $7 THEN life_token ELSE token END

-- name: job_refresh
-- A waiting job, $2, takes over what was submitted again under its key, by $17: due at $5, or $6 ms from now. Primary
-- key. Called by queue/add.c.
UPDATE OR FAIL job
SET {submitted},
    due_at = coalesce($5, now($1) + $6), state = coalesce($5, now($1) + $6) <= now($1),
    alarm_at = CASE WHEN coalesce($5, now($1) + $6) > now($1) THEN coalesce($5, now($1) + $6) END,
    version = version + 1, event_id = next_event(), changed_at = now($1), changed_by = $17,
    changed_what = 'job.rescheduled', changed_why = 'submitted again under its key'
WHERE id = $2 AND state IN (0, 1);
-- dialect: postgres
UPDATE job
SET {submitted},
    due_at = c.due, state = (c.due <= c.t)::int, alarm_at = CASE WHEN c.due > c.t THEN c.due END,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = $17,
    changed_what = 'job.rescheduled', changed_why = 'submitted again under its key'
FROM (
    SELECT b.t, coalesce($5, b.t + $6) AS due
    FROM (SELECT now($1) AS t OFFSET 0) b
) c
WHERE id = $2 AND state + 0 IN (0, 1);

-- name: job_refresh_held
-- The same for a job that is held. It does not move, and goes on saying who holds it and why; its event is written by
-- event_of_submission. Primary key. Called by queue/add.c.
UPDATE job
SET {submitted}, due_at = coalesce($5, now($1) + $6), version = version + 1
WHERE id = $2 AND state = 3;
-- dialect: postgres
UPDATE job
SET {submitted}, due_at = coalesce($5, now($1) + $6), version = version + 1
WHERE id = $2 AND state + 0 = 3;
