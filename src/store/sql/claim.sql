-- Claims: who gets which job next.

-- define: claimed
id, kind, priority, due_at, token, alarm_at, started_at, attempts, crashes, changed_at, version, created_at,
phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
result, payload

-- Tokens grow, and none of an earlier generation of the store comes again. (On PostgreSQL the base is c.base.)
-- define: next_token
max(token, (SELECT token_base FROM store WHERE id = 1)) + 1

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
       result, payload
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
FROM (SELECT now($5) AS t, (SELECT token_base FROM store WHERE id = 1) AS base,
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
-- seen, the engine begins behind the job claimed last, and at the beginning again ten times a second.
-- PostgreSQL only. Called by store/pg_claim.c.
SELECT id
FROM job
WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($10, $11, $12)
ORDER BY priority, due_at, id
LIMIT $2;
-- dialect: postgres
UPDATE job
SET {leased}
FROM (SELECT now($5) AS t, (SELECT token_base FROM store WHERE id = 1) AS base,
             pg_stat_get_xact_tuples_returned('job_pending'::regclass) AS entries
      OFFSET 0) c
WHERE id = ANY (ARRAY(
    SELECT id
    FROM job
    WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($10, $11, $12)
      AND coalesce((SELECT q.version FROM queue q WHERE q.name = $1), 0) = $9
    ORDER BY priority, due_at, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED))
RETURNING {claimed}, pg_stat_get_xact_tuples_returned('job_pending'::regclass) - c.entries;

-- name: job_claim_one
-- The same for the one job $1, chosen before (limits per key). Primary key. Called by queue/limits.c.
SELECT id, queue, kind, 2, priority, due_at, {next_token}, $3, $4,
       now($5) + coalesce($6, lease_ms, $7), CASE WHEN $8 = 1 THEN now($5) END, now($5),
       attempts, crashes, now($5), $3, 'job.claimed', NULL, version + 1, created_at,
       finished_at, phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
       result, payload, stopped_token, followed
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
FROM (SELECT now($5) AS t, (SELECT token_base FROM store WHERE id = 1) AS base OFFSET 0) c
WHERE id = $1 AND state + 0 = 1 AND $2::bigint >= 1
RETURNING {job};

-- name: claim_candidates
-- The next $5 pending jobs after a position, with their keys and kinds. Index job_pending. Called by
-- queue/limits.c to pass over keys that are at their limit, and kinds that are not wanted.
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = $1 AND state = 1 AND (priority, due_at, id) > ($2, $3, $4)
ORDER BY priority, due_at, id
LIMIT $5;

-- name: claim_candidate
-- The same for the one job $2, if it is pending in queue $1. Primary key. Called by queue/limits.c.
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
