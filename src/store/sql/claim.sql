-- Claims: who gets which job next.

-- doing: claiming jobs

-- define: claimed
id, kind, priority, due_at, token, alarm_at, started_at, attempts, crashes, changed_at, version, created_at,
phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
result, payload, nominal_at, coalesce(hook, retry_hook) AS hook

-- Tokens grow, and none of an earlier generation of the store comes again. (On PostgreSQL the base is c.base.)
-- define: next_token
CASE WHEN token < token_base() THEN token_base() ELSE token END + 1

-- define: leased
state = {running}, token = greatest(token, c.base) + 1, owner = :owner, worker_id = :worker_id,
    alarm_at = c.t + coalesce(:asked_ms, lease_ms, :usual_ms), lease_for_ms = coalesce(:asked_ms, lease_ms, :usual_ms),
    started_at = CASE WHEN :starts = 1 THEN c.t END, seen_at = c.t,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = :owner,
    changed_what = 'job.claimed', changed_why = NULL

-- name: job_claim(queue, count, owner, worker_id, now, asked_ms, usual_ms, starts, settings_version)
-- Leases up to :count pending jobs of queue :queue to owner :owner with worker :worker_id, for :asked_ms ms, or as the
-- job says, or :usual_ms (the queue's). :starts = 1: they start at once. Nothing when the queue's settings are no
-- longer of version :settings_version (0: none), so that a claimer may remember them. Index job_pending in its order:
-- most urgent, then due, then id. Called by queue/claim.c. Of the job come the columns that the claimer cannot know, as
-- they are after the claim; the others are put in by store/claim_row.c.
SELECT id, kind, priority, due_at, {next_token} AS token,
       now(:now) + coalesce(:asked_ms, lease_ms, :usual_ms) AS alarm_at,
       CASE WHEN :starts = 1 THEN now(:now) END AS started_at,
       attempts, crashes, now(:now) AS changed_at, version + 1 AS version, created_at,
       phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
       result, payload, nominal_at, coalesce(hook, retry_hook) AS hook, 0 AS entries
FROM job
WHERE queue = :queue AND state = {pending}
  AND coalesce((SELECT q.version FROM queue q WHERE q.name = :queue), 0) = :settings_version
ORDER BY priority, due_at, id
LIMIT :count;
-- each:
UPDATE OR FAIL job
SET state = {running}, token = {next_token}, owner = :owner, worker_id = :worker_id,
    alarm_at = now(:now) + coalesce(:asked_ms, lease_ms, :usual_ms),
    lease_for_ms = coalesce(:asked_ms, lease_ms, :usual_ms),
    started_at = CASE WHEN :starts = 1 THEN now(:now) END, seen_at = now(:now),
    version = version + 1, event_id = next_event(), changed_at = now(:now), changed_by = :owner,
    changed_what = 'job.claimed', changed_why = NULL
WHERE id = :found AND state = {pending};
-- many:
UPDATE OR FAIL job
SET state = {running}, token = {next_token}, owner = :owner, worker_id = :worker_id,
    alarm_at = now(:now) + coalesce(:asked_ms, lease_ms, :usual_ms),
    lease_for_ms = coalesce(:asked_ms, lease_ms, :usual_ms),
    started_at = CASE WHEN :starts = 1 THEN now(:now) END, seen_at = now(:now),
    version = version + 1, event_id = given.event, changed_at = now(:now), changed_by = :owner,
    changed_what = 'job.claimed', changed_why = NULL
FROM given
WHERE job.id = given.found AND state = {pending};
-- dialect: postgres
-- The last column says how many entries of job_pending were read: see job_claim_after.
UPDATE job
SET {leased}
FROM (SELECT now(:now) AS t, token_base() AS base,
             pg_stat_get_xact_tuples_returned('job_pending'::regclass) AS entries
      OFFSET 0) c
WHERE id = ANY (ARRAY(
    SELECT id
    FROM job
    WHERE queue = :queue AND state = {pending}
      AND coalesce((SELECT q.version FROM queue q WHERE q.name = :queue), 0) = :settings_version
    ORDER BY priority, due_at, id
    LIMIT :count
    FOR UPDATE SKIP LOCKED))
RETURNING {claimed}, pg_stat_get_xact_tuples_returned('job_pending'::regclass) - c.entries AS entries;

-- name: job_claim_after(queue, count, owner, worker_id, now, asked_ms, usual_ms, starts, settings_version,
--       after_priority, after_due_at, after_id, looked_at)
-- The same, beginning behind a position. While a transaction is held open elsewhere in the database, the entries of
-- claimed jobs cannot be removed from job_pending, and each claim reads them all again. Where that is seen, the engine
-- begins behind the job claimed last, and at the beginning again ten times a second. Nothing when a job can be had
-- before the position: it has cut in (index job_cut_in), or was added at :looked_at or later, which is a little before
-- the last look from the beginning (a seek in job_pending for each priority). PostgreSQL only. Called by
-- store/pg_claim.c.
-- dialect: postgres
UPDATE job
SET {leased}
FROM (SELECT now(:now) AS t, token_base() AS base,
             pg_stat_get_xact_tuples_returned('job_pending'::regclass) AS entries
      OFFSET 0) c
WHERE id = ANY (ARRAY(
    SELECT id
    FROM job
    WHERE queue = :queue AND state = {pending} AND (priority, due_at, id) > (:after_priority, :after_due_at, :after_id)
      AND coalesce((SELECT q.version FROM queue q WHERE q.name = :queue), 0) = :settings_version
      AND (SELECT j.id
           FROM job j
           WHERE j.queue = :queue AND j.state = {pending} AND (j.version > 1 OR j.due_at < j.created_at)
             AND (j.priority, j.due_at, j.id) <= (:after_priority, :after_due_at, :after_id)
           LIMIT 1
           FOR UPDATE SKIP LOCKED) IS NULL
      AND (SELECT f.id
           FROM generate_series(0, :after_priority::int) AS p (priority) CROSS JOIN LATERAL (
               SELECT j.id
               FROM job j
               WHERE j.queue = :queue AND j.state = {pending} AND j.priority = p.priority AND j.due_at >= :looked_at
                 AND (j.priority, j.due_at, j.id) <= (:after_priority, :after_due_at, :after_id)
               LIMIT 1
               FOR UPDATE SKIP LOCKED) f
           LIMIT 1) IS NULL
    ORDER BY priority, due_at, id
    LIMIT :count
    FOR UPDATE SKIP LOCKED))
RETURNING {claimed}, pg_stat_get_xact_tuples_returned('job_pending'::regclass) - c.entries AS entries;

-- name: job_claim_one(id, count, owner, worker_id, now, asked_ms, usual_ms, starts, kind, key)
-- The same for the one job :id, a candidate of queue/choice.c. Nothing when it is no longer pending, when it was submitted
-- again with another kind or key than it was chosen by, or when somebody else is at it on PostgreSQL: the caller goes on to
-- the next. Primary key.
SELECT id, queue, kind, {running} AS state, priority, due_at,
       {next_token} AS token, :owner AS owner, :worker_id AS worker_id,
       now(:now) + coalesce(:asked_ms, lease_ms, :usual_ms) AS alarm_at,
       CASE WHEN :starts = 1 THEN now(:now) END AS started_at, now(:now) AS seen_at,
       attempts, crashes, now(:now) AS changed_at, :owner AS changed_by, 'job.claimed' AS changed_what,
       NULL AS changed_why, version + 1 AS version, created_at,
       finished_at, phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
       result, payload, stopped_token, nominal_at, followed, coalesce(hook, retry_hook) AS hook
FROM job
WHERE id = :id AND state = {pending} AND kind = :kind AND concurrency_key IS NOT DISTINCT FROM :key
LIMIT :count;
-- each:
UPDATE OR FAIL job
SET state = {running}, token = {next_token}, owner = :owner, worker_id = :worker_id,
    alarm_at = now(:now) + coalesce(:asked_ms, lease_ms, :usual_ms),
    lease_for_ms = coalesce(:asked_ms, lease_ms, :usual_ms),
    started_at = CASE WHEN :starts = 1 THEN now(:now) END, seen_at = now(:now),
    version = version + 1, event_id = next_event(), changed_at = now(:now), changed_by = :owner,
    changed_what = 'job.claimed', changed_why = NULL
WHERE id = :found AND state = {pending};
-- dialect: postgres
UPDATE job
SET {leased}
FROM (SELECT now(:now) AS t, token_base() AS base OFFSET 0) c
WHERE id = (SELECT id
            FROM job
            WHERE id = :id AND state + 0 = {pending} AND :count::bigint >= 1
              AND kind = :kind AND concurrency_key IS NOT DISTINCT FROM :key
            FOR UPDATE SKIP LOCKED)
RETURNING {job};

-- name: claim_candidates(queue, after_priority, after_due_at, after_id, limit)
-- The next :limit pending jobs after a position, with their keys and kinds. Index job_pending. Called by
-- queue/choice.c to pass over keys that are at their limit, and kinds that are not wanted.
-- SQLite does not seek by all three columns of such a comparison, and a whole batch may have one due time: so it is put
-- together from three parts, of which each is a seek.
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND priority = :after_priority AND due_at = :after_due_at AND id > :after_id
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND priority = :after_priority AND due_at > :after_due_at
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND priority > :after_priority
ORDER BY priority, due_at, id
LIMIT :limit;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND (priority, due_at, id) > (:after_priority, :after_due_at, :after_id)
ORDER BY priority, due_at, id
LIMIT :limit;

-- name: claim_unkeyed(queue, priority, after_due_at, after_id, limit)
-- The same of one priority and of jobs without a key, however many others are in between: entries of job_pending tell,
-- no rows are read for it. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_pending
WHERE queue = :queue AND state = {pending} AND priority = :priority AND due_at = :after_due_at AND id > :after_id
  AND concurrency_key IS NULL
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_pending
WHERE queue = :queue AND state = {pending} AND priority = :priority AND due_at > :after_due_at
  AND concurrency_key IS NULL
ORDER BY due_at, id
LIMIT :limit;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND priority = :priority AND (due_at, id) > (:after_due_at, :after_id)
  AND concurrency_key IS NULL
ORDER BY due_at, id
LIMIT :limit;

-- name: claim_next_priority(queue, after_priority)
-- The next priority behind :after_priority of which something is pending. Index job_pending, a seek. Called by
-- queue/choice.c.
SELECT priority
FROM job
WHERE queue = :queue AND state = {pending} AND priority > :after_priority
ORDER BY priority
LIMIT 1;

-- name: claim_cut_in(queue, after_priority, after_due_at, after_id, limit)
-- The same of those that did not come last in their priority: they came back, or were added with a time in the past.
-- Index job_cut_in. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = :queue AND state = {pending} AND (version > 1 OR due_at < created_at)
  AND priority = :after_priority AND due_at = :after_due_at AND id > :after_id
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = :queue AND state = {pending} AND (version > 1 OR due_at < created_at)
  AND priority = :after_priority AND due_at > :after_due_at
UNION ALL
SELECT id, priority, due_at, concurrency_key, kind
FROM job INDEXED BY job_cut_in
WHERE queue = :queue AND state = {pending} AND (version > 1 OR due_at < created_at)
  AND priority > :after_priority
ORDER BY priority, due_at, id
LIMIT :limit;
-- dialect: postgres
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE queue = :queue AND state = {pending} AND (version > 1 OR due_at < created_at)
  AND (priority, due_at, id) > (:after_priority, :after_due_at, :after_id)
ORDER BY priority, due_at, id
LIMIT :limit;

-- define: next_keys
WITH RECURSIVE k (concurrency_key, n) AS (
    SELECT (SELECT j.concurrency_key FROM job j
            WHERE j.queue = :queue AND j.state = {pending} AND j.concurrency_key > :after_key
            ORDER BY j.concurrency_key LIMIT 1), 1
    UNION ALL
    SELECT (SELECT j.concurrency_key FROM job j
            WHERE j.queue = :queue AND j.state = {pending} AND j.concurrency_key > k.concurrency_key
            ORDER BY j.concurrency_key LIMIT 1), k.n + 1
    FROM k
    WHERE k.concurrency_key IS NOT NULL AND k.n < :keys
)

-- name: claim_keys(queue, after_key, keys, per_key)
-- The first :per_key pending jobs of each of the next :keys concurrency keys after key :after_key. From key to key
-- through index job_pending_key, which also has the jobs of a key in the order of claims. Called by queue/choice.c. On
-- PostgreSQL the key is not said to be equal, because the planner would then take the whole of job_pending in its
-- order.
{next_keys}
SELECT job.id, job.priority, job.due_at, job.concurrency_key, job.kind
FROM k CROSS JOIN job
WHERE job.id IN (SELECT j.id FROM job j
                 WHERE j.queue = :queue AND j.state = {pending} AND j.concurrency_key = k.concurrency_key
                 ORDER BY j.priority, j.due_at, j.id LIMIT :per_key);
-- dialect: postgres
{next_keys}
SELECT f.id, f.priority, f.due_at, k.concurrency_key, f.kind
FROM k CROSS JOIN LATERAL (
    SELECT j.id, j.priority, j.due_at, j.kind FROM job j
    WHERE j.queue = :queue AND j.state = {pending}
      AND j.concurrency_key >= k.concurrency_key AND j.concurrency_key <= k.concurrency_key
    ORDER BY j.concurrency_key, j.priority, j.due_at, j.id LIMIT :per_key) f;

-- name: claim_candidate(queue, id)
-- The same for the one job :id, if it is pending in queue :queue. Primary key. Called by queue/choice.c.
SELECT id, priority, due_at, concurrency_key, kind
FROM job
WHERE id = :id AND queue = :queue AND state + 0 = {pending};

-- name: claim_any(queue)
-- Whether anything is pending in a queue. Index job_pending. Called by queue/claim.c.
SELECT 1 AS found FROM job WHERE queue = :queue AND state = {pending} LIMIT 1;

-- name: running_in_queue(queue)
-- Jobs of a queue that are running, and when the first of their leases ends: not before then can the clock lift
-- a limit. Index job_alarm, all that are running. Called by queue/limits.c and queue/explain.c.
SELECT count(*) AS jobs, min(alarm_at) AS first_end_at
FROM job
WHERE state = {running} AND alarm_at IS NOT NULL AND queue = :queue;

-- name: running_by_key(queue)
-- The same per concurrency key. Called by queue/limits.c and queue/explain.c.
SELECT concurrency_key, count(*) AS jobs, min(alarm_at) AS first_end_at
FROM job
WHERE state = {running} AND alarm_at IS NOT NULL AND queue = :queue AND concurrency_key IS NOT NULL
GROUP BY concurrency_key;
