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

-- name: lock_acquire(name, owner, held_for_ms, worker_id, job_id, now)
-- LK-1: one atomic upsert. Taken when free or expired; refreshed, with its token, when its holder asks
-- again. One that is held with a job ends with that lease and not otherwise: recovery comes first.
-- :worker_id worker, :job_id job. Tokens begin at the store's generation. Returns nothing when somebody holds it.
-- Called by queue/lock.c and queue/limits.c.
INSERT INTO lock AS l (name, token, owner, worker_id, job_id, acquired_at, expires_at, held_for_ms)
VALUES (:name, token_base() + 1, :owner, :worker_id, :job_id, now(:now), now(:now) + :held_for_ms, :held_for_ms)
ON CONFLICT (name) DO UPDATE
SET token = CASE WHEN {own} THEN l.token
                 WHEN l.token < excluded.token THEN excluded.token ELSE l.token + 1 END,
    acquired_at = CASE WHEN {own} THEN l.acquired_at ELSE excluded.acquired_at END,
    owner = excluded.owner, worker_id = excluded.worker_id, job_id = excluded.job_id,
    expires_at = excluded.expires_at, held_for_ms = excluded.held_for_ms
WHERE l.owner IS NULL
   OR (l.job_id IS NULL AND ((l.expires_at <= excluded.acquired_at AND NOT {left_alone}) OR ({own})))
RETURNING token, acquired_at, expires_at;

-- name: lock_refresh(name, owner, held_for_ms, worker_id, token, now)
-- The same for the holder of token :token alone, before the lock expires: nothing is taken. :worker_id worker. Called
-- by queue/lock.c.
UPDATE lock
SET expires_at = now(:now) + :held_for_ms, held_for_ms = :held_for_ms
WHERE name = :name AND owner = :owner AND worker_id IS NOT DISTINCT FROM :worker_id AND token = :token
  AND job_id IS NULL AND expires_at > now(:now)
RETURNING token, acquired_at, expires_at;

-- name: job_tie(lock_name, id)
-- The job was taken under a lock; for db_each, as the next. Called by queue/limits.c.
UPDATE job SET lock_name = :lock_name WHERE id = :id AND state = {running};

-- name: lock_tie(name, job_id)
-- The lock lasts as long as that job's lease. Called by queue/limits.c.
UPDATE lock
SET job_id = :job_id, expires_at = (SELECT alarm_at FROM job WHERE id = :job_id)
WHERE name = :name;

-- name: lock_follow(job_id)
-- The lock a job was taken with lasts as long as its lease; for db_each. Not run on PostgreSQL, where the trigger of
-- the job does it (job_judge). Called by queue/lease.c and queue/recover.c.
UPDATE lock
SET expires_at = (SELECT alarm_at FROM job WHERE id = :job_id)
WHERE name = (SELECT lock_name FROM job WHERE id = :job_id) AND job_id = :job_id;

-- name: lock_free(name, owner, token)
-- Only the holder releases, and what is held with a job ends with its lease. Where a token is given (:token), only the
-- lock that has it; for db_each. Called by queue/lock.c.
UPDATE lock
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE name = :name AND owner = :owner AND token = coalesce(:token, token) AND job_id IS NULL;

-- name: lock_extend(name, owner, held_for_ms, now, token)
-- LK-6: now + extra, by the holder (and token :token, where one is given), before it expires; for db_each. Called by
-- queue/lock.c.
UPDATE lock
SET expires_at = now(:now) + :held_for_ms, held_for_ms = :held_for_ms
WHERE name = :name AND owner = :owner AND token = coalesce(:token, token) AND expires_at > now(:now) AND job_id IS NULL;

-- left_alone: 1 when it was left alone by a move of the clock. length_ms: for how long it is held at a time.
-- define: lock
l.name, l.owner, l.token, l.acquired_at, l.expires_at, l.worker_id, l.job_id, now(:now) AS now,
CASE WHEN {left_alone} THEN 1 ELSE 0 END AS left_alone,
coalesce(l.held_for_ms, l.expires_at - l.acquired_at) AS length_ms

-- name: lock_get(name, now)
-- Called by queue/lock.c, queue/limits.c and queue/explain_queue.c.
SELECT {lock}
FROM lock l
WHERE l.name = :name AND l.owner IS NOT NULL;

-- name: lock_list(now)
-- Index lock_expiry, all that are held; they are sorted (|| '': not read by name, with those that are free). Called by
-- queue/lock.c.
SELECT {lock}
FROM lock l
WHERE l.expires_at IS NOT NULL
ORDER BY l.name || '';

-- A lock that says it was taken with a job, which does not run under it: nobody's end would ever free it. tend leaves
-- none.
-- define: tied_to_nothing
l.job_id IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = l.job_id AND j.state = {running} AND j.lock_name = l.name)

-- name: lock_expired(now, limit)
-- With the job that still runs under it. By name, so that two who clean up do not wait for each other (|| '': after it
-- is found by its time). Index lock_expiry: both ends of the time, so that PostgreSQL expects few of them to have
-- expired; where no lock is held it knows nothing of their times, and would read all locks. Called by queue/recover.c.
SELECT l.name, l.owner, l.token,
       (SELECT j.id FROM job j WHERE j.id = l.job_id AND j.state = {running} AND j.lock_name = l.name) AS held_by,
       l.expires_at
FROM lock l
WHERE l.expires_at BETWEEN 0 AND now(:now) AND NOT {left_alone}
ORDER BY l.name || ''
LIMIT :limit;

-- name: lock_expired_count(now)
-- With those that are tied to nothing, which recovery cleans before they expire. Index lock_expiry, all that are held.
-- Called by queue/recover.c.
SELECT count(*) AS locks
FROM lock l
WHERE l.expires_at IS NOT NULL AND ((l.expires_at <= now(:now) AND NOT {left_alone}) OR ({tied_to_nothing}));

-- name: lock_untied(limit)
-- Locks tied to nothing, :limit at most. Index lock_expiry, all that are held: an index of those that are held with a
-- job would cost every claim of a serial queue. On PostgreSQL what somebody is working on is left alone, as in the
-- next. Called by queue/recover.c.
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND {tied_to_nothing}
LIMIT :limit;
-- dialect: postgres
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND {tied_to_nothing}
LIMIT :limit
FOR UPDATE OF l SKIP LOCKED;

-- name: lock_untied_one(name)
-- The same for lock :name alone. Primary key. Called by queue/recover.c.
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.name = :name AND {tied_to_nothing};
-- dialect: postgres
SELECT l.name, l.owner, l.token
FROM lock l
WHERE l.name = :name AND {tied_to_nothing}
FOR UPDATE OF l SKIP LOCKED;

-- name: lock_of_worker(worker_id, limit)
-- By name, and with the job that still runs under it, as lock_expired. Index lock_worker. Called by queue/recover.c and
-- queue/worker.c.
SELECT l.name, l.owner, l.token,
       (SELECT j.id FROM job j WHERE j.id = l.job_id AND j.state = {running} AND j.lock_name = l.name) AS held_by
FROM lock l
WHERE l.worker_id = :worker_id
ORDER BY l.name || ''
LIMIT :limit;

-- name: lock_clean_untied(name, token)
-- As lock_clean, for a row that lock_untied has found, and locked: now it is looked at as it is. For db_each. Called by
-- queue/recover.c.
UPDATE lock AS l
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE l.name = :name AND l.token = :token AND {tied_to_nothing};

-- name: lock_clean(name, token, worker_id, expires_at)
-- A recoverer takes a lock away, once; for db_each. Only as it was judged: still held under worker :worker_id, or still
-- expiring at :expires_at. A process of the same name may have refreshed it since, which keeps the token. Called by
-- queue/recover.c and queue/worker.c.
UPDATE lock
SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
WHERE name = :name AND token = :token AND owner IS NOT NULL AND (worker_id = :worker_id OR expires_at = :expires_at);
