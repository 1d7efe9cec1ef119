-- Named locks. A lock is held while it has an owner; the row stays when it is free, for its token. So free locks only
-- become more: a statement over all locks that are held finds them by expires_at, which those and no others have (index
-- lock_expiry).

-- doing: reading locks | changing locks

-- It is the holder that asks again: by its name, and by the same worker or by none both times.
-- define: own
l.owner = excluded.owner AND l.worker_id IS NOT DISTINCT FROM excluded.worker_id
             AND l.expires_at > excluded.acquired_at

-- It was left alone when the clock was set: its time tells nothing until it was moved.
-- define: left_alone
EXISTS (SELECT 1 FROM clock_left o WHERE o.lock_name = l.name AND o.token = l.token)

-- name: lock_acquire
-- LK-1: one atomic upsert. Taken when free or expired; refreshed, with its token, when its holder asks
-- again. One that is held with a job ends with that lease and not otherwise: recovery comes first.
-- $4 worker, $5 job. Tokens begin at the store's generation. Returns nothing when somebody holds it.
-- Called by queue/lock.c and queue/limits.c.
INSERT INTO lock AS l (name, token, owner, worker_id, job_id, acquired_at, expires_at, held_for_ms)
VALUES ($1, token_base() + 1, $2, $4, $5, now($6), now($6) + $3, $3)
ON CONFLICT (name) DO UPDATE
SET token = CASE WHEN {own} THEN l.token
                 WHEN l.token < excluded.token THEN excluded.token ELSE l.token + 1 END,
    acquired_at = CASE WHEN {own} THEN l.acquired_at ELSE excluded.acquired_at END,
    owner = excluded.owner, worker_id = excluded.worker_id, job_id = excluded.job_id,
    expires_at = excluded.expires_at, held_for_ms = excluded.held_for_ms
WHERE l.owner IS NULL
   OR (l.job_id IS NULL AND ((l.expires_at <= excluded.acquired_at AND NOT {left_alone}) OR ({own})))
RETURNING token, acquired_at, expires_at;

-- name: lock_refresh
-- The same for the holder of token $5 alone, before the lock expires: nothing is taken. $4 worker. Called by queue/lock.c.
UPDATE lock
SET expires_at = now($6) + $3, held_for_ms = $3
WHERE name = $1 AND owner = $2 AND worker_id IS NOT DISTINCT FROM $4 AND token = $5 AND job_id IS NULL
  AND expires_at > now($6)
RETURNING token, acquired_at, expires_at;

-- name: job_tie
-- The job was taken under a lock; for db_each, as the next. Called by queue/limits.c.
UPDATE job SET lock_name = $1 WHERE id = $2 AND state = 2;

-- name: lock_tie
-- The lock lasts as long as that job's lease. Called by queue/limits.c.
UPDATE lock
SET job_id = $2, expires_at = (SELECT alarm_at FROM job WHERE id = $2)
WHERE name = $1;

-- name: lock_follow
-- The lock a job was taken with lasts as long as its lease; for db_each. Not run on PostgreSQL, where the trigger of the
-- job does it (job_judge). Called by queue/lease.c and queue/recover.c.
UPDATE lock
SET expires_at = (SELECT alarm_at FROM job WHERE id = $1)
WHERE name = (SELECT lock_name FROM job WHERE id = $1) AND job_id = $1;

-- name: lock_free
-- Only the holder releases, and what is held with a job ends with its lease. Where a token is given ($3), only the lock
-- that has it; for db_each. Called by queue/lock.c.
UPDATE lock
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE name = $1 AND owner = $2 AND token = coalesce($3, token) AND job_id IS NULL;

-- name: lock_extend
-- LK-6: now + extra, by the holder (and token $5, where one is given), before it expires; for db_each. Called by
-- queue/lock.c.
UPDATE lock
SET expires_at = now($4) + $3, held_for_ms = $3
WHERE name = $1 AND owner = $2 AND token = coalesce($5, token) AND expires_at > now($4) AND job_id IS NULL;

-- name: lock_get
-- The last columns: 1 when it was left alone by a move of the clock; for how long it is held at a time. So in lock_list.
-- Called by queue/lock.c, queue/limits.c and queue/explain_queue.c.
SELECT l.name, l.owner, l.token, l.acquired_at, l.expires_at, l.worker_id, l.job_id, now($2),
       CASE WHEN {left_alone} THEN 1 ELSE 0 END, coalesce(l.held_for_ms, l.expires_at - l.acquired_at)
FROM lock l
WHERE l.name = $1 AND l.owner IS NOT NULL;

-- name: lock_list
-- Index lock_expiry, all that are held; they are sorted (|| '': not read by name, with those that are free). Called by
-- queue/lock.c.
SELECT l.name, l.owner, l.token, l.acquired_at, l.expires_at, l.worker_id, l.job_id, now($1),
       CASE WHEN {left_alone} THEN 1 ELSE 0 END, coalesce(l.held_for_ms, l.expires_at - l.acquired_at)
FROM lock l
WHERE l.expires_at IS NOT NULL
ORDER BY l.name || '';

-- A lock that says it was taken with a job, which does not run under it: nobody's end would ever free it. tend leaves none.
-- define: tied_to_nothing
l.job_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = l.job_id AND j.state = 2 AND j.lock_name = l.name)

-- name: lock_expired
-- With the job that still runs under it. By name, so that two who clean up do not wait for each other (|| '':
-- after it is found by its time). Index lock_expiry: both ends of the time, so that PostgreSQL expects few of them to have
-- expired; where no lock is held it knows nothing of their times, and would read all locks. Called by queue/recover.c.
SELECT l.name, l.owner, l.token,
       (SELECT j.id FROM job j WHERE j.id = l.job_id AND j.state = 2 AND j.lock_name = l.name), l.expires_at
FROM lock l
WHERE l.expires_at BETWEEN 0 AND now($1) AND NOT {left_alone}
ORDER BY l.name || ''
LIMIT $2;

-- name: lock_expired_count
-- With those that are tied to nothing, which recovery cleans before they expire. Index lock_expiry, all that are held.
-- Called by queue/recover.c.
SELECT count(*)
FROM lock l
WHERE l.expires_at IS NOT NULL AND ((l.expires_at <= now($1) AND NOT {left_alone}) OR ({tied_to_nothing}));

-- name: lock_untied
-- Locks tied to nothing, $1 at most. Index lock_expiry, all that are held: an index of those that are held with a job would
-- cost every claim of a serial queue. On PostgreSQL what somebody is working on is left alone, as in the next. Called by
-- queue/recover.c.
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND {tied_to_nothing}
LIMIT $1;
-- dialect: postgres
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND {tied_to_nothing}
LIMIT $1
FOR UPDATE OF l SKIP LOCKED;

-- name: lock_untied_one
-- The same for lock $1 alone. Primary key. Called by queue/recover.c.
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.name = $1 AND {tied_to_nothing};
-- dialect: postgres
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.name = $1 AND {tied_to_nothing}
FOR UPDATE OF l SKIP LOCKED;

-- name: lock_of_worker
-- By name, and with the job that still runs under it, as lock_expired. Index lock_worker. Called by queue/recover.c and
-- queue/worker.c.
SELECT l.name, l.owner, l.token,
       (SELECT j.id FROM job j WHERE j.id = l.job_id AND j.state = 2 AND j.lock_name = l.name)
FROM lock l
WHERE l.worker_id = $1
ORDER BY l.name || ''
LIMIT $2;

-- name: lock_clean_untied
-- As lock_clean, for a row that lock_untied has found, and locked: now it is looked at as it is. For db_each. Called by
-- queue/recover.c.
UPDATE lock AS l
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE l.name = $1 AND l.token = $2 AND {tied_to_nothing};

-- name: lock_clean
-- A recoverer takes a lock away, once; for db_each. Only as it was judged: still held under worker $3, or still expiring
-- at $4. A process of the same name may have refreshed it since, which keeps the token. Called by queue/recover.c and
-- queue/worker.c.
UPDATE lock
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE name = $1 AND token = $2 AND owner IS NOT NULL AND (worker_id = $3 OR expires_at = $4);
