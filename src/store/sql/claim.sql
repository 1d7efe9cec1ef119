-- Claims: who gets which job next.

-- doing: claiming jobs

-- define: claimed
id, kind, priority, due_at, token, alarm_at, started_at, attempts, crashes, changed_at, version, created_at,
phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
result, payload, nominal_at, coalesce(hook, retry_hook)

-- Tokens grow, and none of an earlier generation of the store comes again. (On PostgreSQL the base is c.base.)
-- define: next_token
CASE WHEN token < token_base() THEN token_base() ELSE token END + 1

-- define: leased
state = 2, token = greatest(token, c.base) + 1, owner = $3, worker_id = $4,
    alarm_at = c.t + coalesce($6, lease_ms, $7), lease_for_ms = coalesce($6, lease_ms, $7),
    started_at = CASE WHEN $8 = 1 THEN c.t END, seen_at = c.t,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = $3,
    changed_what = 'job.claimed', changed_why = NULL

-- name: job_claim
-- Leases up to $2 pending jobs of queue $1 to owner $3 with worker $4, for $6 ms, or as the job says,
-- or $7 (the queue's). $8 = 1: they start at once. Nothing when the
-- queue's settings are no longer of version $9 (0: none), so that a claimer may remember them.
-- Index job_pending in its order: most urgent, then due, then id. Called by queue/claim.c.
-- Of the job come the columns that the claimer cannot know, as they are after the claim; the others are put in by
-- store/claim_row.c.
SELECT id, kind, priority, due_at, {next_token}, now($5) + coalesce($6, lease_ms, $7),
       CASE WHEN $8 = 1 THEN now($5) END, attempts, crashes, now($5), version + 1, created_at,
       phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
       result, payload, nominal_at, coalesce(hook, retry_hook)
FROM job
WHERE queue = $1 AND state = 1
  AND coalesce((SELECT q.version FROM queue q WHERE q.name = $1), 0) = $9
ORDER BY priority, due_at, id
LIMIT $2;
-- each:
UPDATE OR FAIL job
SET state = 2, token = {next_token}, owner = $3, worker_id = $4,
    alarm_at = now($5) + coalesce($6, lease_ms, $7), lease_for_ms = coalesce($6, lease_ms, $7),
    started_at = CASE WHEN $8 = 1 THEN now($5) END, seen_at = now($5),
    version = version + 1, event_id = next_event(), changed_at = now($5), changed_by = $3,
    changed_what = 'job.claimed', changed_why = NULL
WHERE id = $0 AND state = 1;
-- many:
UPDATE OR FAIL job
SET state = 2, token = {next_token}, owner = $3, worker_id = $4,
    alarm_at = now($5) + coalesce($6, lease_ms, $7), lease_for_ms = coalesce($6, lease_ms, $7),
    started_at = CASE WHEN $8 = 1 THEN now($5) END, seen_at = now($5),
    version = version + 1, event_id = given.event, changed_at = now($5), changed_by = $3,
    changed_what = 'job.claimed', changed_why = NULL
FROM given
WHERE job.id = given.p1 AND state = 1;
-- dialect: postgres
-- The last column says how many entries of job_pending were read: see job_claim_after.
UPDATE job
SET {leased}
FROM (SELECT now($5) AS t, token_base() AS base,
             pg_stat_get_xact_tuples_returned('job_pending'::regclass) AS entries
      OFFSET 0) c
WHERE id = ANY (ARRAY(
    SELECT id
    FROM job
    WHERE queue = $1 AND state = 1
      AND coalesce((SELECT q.version FROM queue q WHERE q.name = $1), 0) = $9
    ORDER BY priority, due_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED))
RETURNING {claimed}, pg_stat_get_xact_tuples_returned('job_pending'::regclass) - c.entries;

-- name: job_claim_after
-- The same, beginning behind a position. While a transaction is held open elsewhere in the database, the entries
-- of claimed jobs cannot be removed from job_pending, and each claim reads them all again. Where that is
-- seen, the engine begins behind the job claimed last, and at the beginning again ten times a second. Nothing when a
-- job can be had before the position: it has cut in (index job_cut_in), or was added at $13 or later, which is a little
-- before the last look from the beginning (a seek in job_pending for each priority).
-- PostgreSQL only. Called by store/pg_claim.c.
SELECT id
FROM job
WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($10, $11, $12) AND due_at > $13
ORDER BY priority, due_at, id
LIMIT $2;
-- dialect: postgres
UPDATE job
SET {leased}
FROM (SELECT now($5) AS t, token_base() AS base,
             pg_stat_get_xact_tuples_returned('job_pending'::regclass) AS entries
      OFFSET 0) c
WHERE id = ANY (ARRAY(
    SELECT id
    FROM job
    WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($10, $11, $12)
      AND coalesce((SELECT q.version FROM queue q WHERE q.name = $1), 0) = $9
      AND (SELECT j.id
           FROM job j
           WHERE j.queue = $1 AND j.state = 1 AND (j.version > 1 OR j.due_at < j.created_at)
             AND (j.priority, j.due_at, j.id) <= ($10, $11, $12)
           LIMIT 1
           FOR UPDATE SKIP LOCKED) IS NULL
      AND (SELECT f.id
           FROM generate_series(0, $10::int) AS p (priority) CROSS JOIN LATERAL (
               SELECT j.id
               FROM job j
               WHERE j.queue = $1 AND j.state = 1 AND j.priority = p.priority AND j.due_at >= $13
                 AND (j.priority, j.due_at, j.id) <= ($10, $11, $12)
               LIMIT 1
               FOR UPDATE SKIP LOCKED) f
           LIMIT 1) IS NULL
    ORDER BY priority, due_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED))
RETURNING {claimed}, pg_stat_get_xact_tuples_returned('job_pending'::regclass) - c.entries;

-- name: job_claim_one
-- The same for the one job $1, a candidate of queue/choice.c. Nothing when it is no longer pending, or somebody else is
-- at it on PostgreSQL: the caller goes on to the next. Primary key.
SELECT id, queue, kind, 2, priority, due_at, {next_token}, $3, $4,
       now($5) + coalesce($6, lease_ms, $7), CASE WHEN $8 = 1 THEN now($5) END, now($5),
       attempts, crashes, now($5), $3, 'job.claimed', NULL, version + 1, created_at,
       finished_at, phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
       result, payload, stopped_token, nominal_at, followed, coalesce(hook, retry_hook)
FROM job
WHERE id = $1 AND state = 1
LIMIT $2;
-- each:
UPDATE OR FAIL job
SET state = 2, token = {next_token}, owner = $3, worker_id = $4,
    alarm_at = now($5) + coalesce($6, lease_ms, $7), lease_for_ms = coalesce($6, lease_ms, $7),
    started_at = CASE WHEN $8 = 1 THEN now($5) END, seen_at = now($5),
    version = version + 1, event_id = next_event(), changed_at = now($5), changed_by = $3,
    changed_what = 'job.claimed', changed_why = NULL
WHERE id = $0 AND state = 1;
-- dialect: postgres
UPDATE job
SET {leased}
FROM (SELECT now($5) AS t, token_base() AS base OFFSET 0) c
WHERE id = (SELECT id FROM job WHERE id = $1 AND state + 0 = 1 AND $2::bigint >= 1 FOR UPDATE SKIP LOCKED)
RETURNING {job};

-- name: claim_candidates
-- The next $5 pending jobs after a position, with their keys and kinds. Index job_pending. Called by
-- queue/choice.c to pass over keys that are at their limit, and kinds that are not wanted.
-- SQLite does not seek by all three columns of such a comparison, and a whole batch may have one due time: so it is put
-- together from three parts, of which each is a seek.
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND priority = $2 AND due_at = $3 AND id > $4
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND priority = $2 AND due_at > $3
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND priority > $2
ORDER BY priority, due_at, id
LIMIT $5;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($2, $3, $4)
ORDER BY priority, due_at, id
LIMIT $5;

-- name: claim_unkeyed
-- The same of one priority and of jobs without a key, however many others are in between: entries of job_pending tell,
-- no rows are read for it. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_pending
WHERE queue = $1 AND state = 1 AND priority = $2 AND due_at = $3 AND id > $4 AND concurrency_key IS NULL
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_pending
WHERE queue = $1 AND state = 1 AND priority = $2 AND due_at > $3 AND concurrency_key IS NULL
ORDER BY due_at, id
LIMIT $5;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND priority = $2 AND (due_at, id) > ($3, $4) AND concurrency_key IS NULL
ORDER BY due_at, id
LIMIT $5;

-- name: claim_next_priority
-- The next priority behind $2 of which something is pending. Index job_pending, a seek. Called by queue/choice.c.
SELECT priority FROM job WHERE queue = $1 AND state = 1 AND priority > $2 ORDER BY priority LIMIT 1;

-- name: claim_cut_in
-- The same of those that did not come last in their priority: they came back, or were added with a time in the past.
-- Index job_cut_in. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = $1 AND state = 1 AND (version > 1 OR due_at < created_at)
  AND priority = $2 AND due_at = $3 AND id > $4
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = $1 AND state = 1 AND (version > 1 OR due_at < created_at)
  AND priority = $2 AND due_at > $3
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = $1 AND state = 1 AND (version > 1 OR due_at < created_at)
  AND priority > $2
ORDER BY priority, due_at, id
LIMIT $5;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND (version > 1 OR due_at < created_at)
  AND (priority, due_at, id) > ($2, $3, $4)
ORDER BY priority, due_at, id
LIMIT $5;

-- define: next_keys
WITH RECURSIVE k (concurrency_key, n) AS (
    SELECT (SELECT j.concurrency_key FROM job j
            WHERE j.queue = $1 AND j.state = 1 AND j.concurrency_key > $2
            ORDER BY j.concurrency_key LIMIT 1), 1
    UNION ALL
    SELECT (SELECT j.concurrency_key FROM job j
            WHERE j.queue = $1 AND j.state = 1 AND j.concurrency_key > k.concurrency_key
            ORDER BY j.concurrency_key LIMIT 1), k.n + 1
    FROM k
    WHERE k.concurrency_key IS NOT NULL AND k.n < $3
)

-- name: claim_keys
-- The first $4 pending jobs of each of the next $3 concurrency keys after key $2. From key to key through index
-- job_pending_key, which also has the jobs of a key in the order of claims. Called by queue/choice.c. On PostgreSQL the
-- key is not said to be equal, because the planner would then take the whole of job_pending in its order.
{next_keys}
SELECT job.id, job.priority, job.due_at, job.concurrency_key, job.kind
FROM k CROSS JOIN job
WHERE job.id IN (SELECT j.id FROM job j
                 WHERE j.queue = $1 AND j.state = 1 AND j.concurrency_key = k.concurrency_key
                 ORDER BY j.priority, j.due_at, j.id LIMIT $4);
-- dialect: postgres
{next_keys}
SELECT f.id, f.priority, f.due_at, k.concurrency_key, f.kind
FROM k CROSS JOIN LATERAL (
    SELECT j.id, j.priority, j.due_at, j.kind FROM job j
    WHERE j.queue = $1 AND j.state = 1
      AND j.concurrency_key >= k.concurrency_key AND j.concurrency_key <= k.concurrency_key
    ORDER BY j.concurrency_key, j.priority, j.due_at, j.id LIMIT $4) f;

-- name: claim_candidate
-- The same for the one job $2, if it is pending in queue $1. Primary key. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE id = $2 AND queue = $1 AND state + 0 = 1;

-- name: claim_any
-- Whether anything is pending in a queue. Index job_pending. Called by queue/claim.c.
SELECT 1 FROM job WHERE queue = $1 AND state = 1 LIMIT 1;

-- name: running_in_queue
-- Jobs of a queue that are running, and when the first of their leases ends: not before then can the clock lift
-- a limit. Index job_alarm, all that are running. Called by queue/limits.c and queue/explain.c.
SELECT count(*), min(alarm_at)
FROM job
WHERE state = 2 AND alarm_at IS NOT NULL AND queue = $1;

-- name: running_by_key
-- The same per concurrency key. Called by queue/limits.c and queue/explain.c.
SELECT concurrency_key, count(*), min(alarm_at)
FROM job
WHERE state = 2 AND alarm_at IS NOT NULL AND queue = $1 AND concurrency_key IS NOT NULL
GROUP BY concurrency_key;
