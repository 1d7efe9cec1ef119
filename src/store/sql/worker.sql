-- Workers: who can be told to be alive by more than the time of a lease.

-- doing: reading workers | changing workers

-- name: worker_add(name, host, boot_id, pid, pid_ns, start_ticks, session, now, registration)
-- For db_each, which returns the id. Called by queue/worker.c.
INSERT INTO worker (name, host, boot_id, pid, pid_ns, start_ticks, session, since, registration)
VALUES (:name, :host, :boot_id, :pid, :pid_ns, :start_ticks, :session, now(:now), :registration);
-- dialect: postgres
INSERT INTO worker (name, host, boot_id, pid, pid_ns, start_ticks, session, since, registration)
VALUES (:name, :host, :boot_id, :pid, :pid_ns, :start_ticks, :session, now(:now), :registration)
RETURNING id;

-- name: worker_skip_ids(above)
-- Coming workers have ids above :above: after a restore (queue/generation.c), and when a liveness lock is held that
-- belongs to nobody in this store (queue/worker.c). PostgreSQL, whose locks take ids of 32 bits, goes a million on at
-- least.
UPDATE sqlite_sequence SET seq = max(seq, :above) WHERE name = 'worker';
-- dialect: postgres
SELECT setval(pg_get_serial_sequence('worker', 'id'),
              greatest(nextval(pg_get_serial_sequence('worker', 'id')) + 1000000, :above::bigint));

-- name: worker_find(registration)
-- Index worker_registration. Called by queue/worker.c.
SELECT id FROM worker WHERE registration = :registration;

-- name: worker_deny(class, worker_id)
-- Whether a liveness lock is free; then nobody has it until the transaction has ended. Only PostgreSQL asks: see
-- db_alive_deny.
-- dialect: postgres
SELECT pg_try_advisory_xact_lock(:class::int, :worker_id::int)::int AS free;

-- When the holder of a lock has last taken, refreshed or extended it. One that was taken with a job lasts as its lease,
-- whose sign of life is the job's.
-- define: lock_sign
CASE WHEN l.job_id IS NULL THEN coalesce(l.expires_at - l.held_for_ms, l.acquired_at) ELSE l.acquired_at END

-- name: worker_list(now)
-- Then, of those marked as lost, the last sign of life on record (worker_sign); then the version of the schema, which
-- others may have changed; then whether two machines go by its boot id (PostgreSQL). Called by queue/registry.c.
SELECT w.id, w.name, w.host, w.boot_id, w.pid, w.pid_ns, w.start_ticks, w.session, w.since,
       w.lost_at, now(:now) AS now,
       CASE WHEN w.lost_at IS NOT NULL
            THEN (SELECT max(at)
                  FROM (SELECT j.seen_at AS at
                        FROM job j
                        WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.worker_id = w.id
                        UNION ALL
                        SELECT {lock_sign} FROM lock l
                        WHERE l.worker_id = w.id AND {lock_sign} <= now(:now)) AS sign) END AS last_sign_at,
       (SELECT user_version FROM pragma_user_version) AS schema_version, 0 AS doubtful
FROM worker w
ORDER BY w.id;
-- dialect: postgres
SELECT w.id, w.name, w.host, w.boot_id, w.pid, w.pid_ns, w.start_ticks, w.session, w.since,
       w.lost_at, now(:now) AS now,
       CASE WHEN w.lost_at IS NOT NULL
            THEN (SELECT max(at)
                  FROM (SELECT j.seen_at AS at
                        FROM job j
                        WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.worker_id = w.id
                        UNION ALL
                        SELECT {lock_sign} FROM lock l
                        WHERE l.worker_id = w.id AND {lock_sign} <= now(:now)) AS sign) END AS last_sign_at,
       (SELECT version FROM tend_schema_version) AS schema_version,
       (SELECT max(m.doubtful) FROM clock_mark m WHERE m.boot LIKE w.boot_id || ':%') AS doubtful
FROM worker w
ORDER BY w.id;

-- name: worker_holdings
-- Leases and locks per worker. Index job_alarm, lock_worker. Called by queue/worker.c.
SELECT worker_id, count(*) AS leases, 0 AS locks
FROM job
WHERE state = {running} AND alarm_at IS NOT NULL AND worker_id IS NOT NULL
GROUP BY worker_id
UNION ALL
SELECT worker_id, 0, count(*) FROM lock WHERE worker_id IS NOT NULL GROUP BY worker_id;

-- name: worker_expired(now)
-- Those of them whose time is over as job_stale_count and lock_expired_count see it, and how many of the leases were
-- not yet spared (job_warn). Index job_alarm, lock_expiry. Called by queue/worker_list.c.
SELECT j.worker_id, count(*) AS leases, 0 AS locks, count(*) - count(j.warned) AS unwarned
FROM job j
WHERE j.state = {running} AND j.alarm_at <= now(:now) AND j.worker_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token)
GROUP BY j.worker_id
UNION ALL
SELECT l.worker_id, 0, count(*), 0
FROM lock l
WHERE l.expires_at <= now(:now) AND l.worker_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.lock_name = l.name AND o.token = l.token)
GROUP BY l.worker_id;

-- name: worker_lost(id, lost_at)
-- Its liveness lock is gone (:lost_at = now) or back (:lost_at NULL); for db_each. Called by queue/recover.c.
UPDATE worker SET lost_at = :lost_at WHERE id = :id;

-- name: worker_lost_since(id)
-- PostgreSQL: nobody else clears the mark or removes the worker until the transaction has ended. Called by
-- queue/worker_dead.c.
SELECT lost_at FROM worker WHERE id = :id;
-- dialect: postgres
SELECT lost_at FROM worker WHERE id = :id FOR UPDATE;

-- name: worker_sign(worker_id, now)
-- The last sign of life that is on record: of its leases, and of the locks it has taken, refreshed or extended (not those from before the
-- clock was set back). PostgreSQL: no heartbeat comes in until the transaction has ended, but one may be on its way:
-- the second column counts the leases whose rows somebody else is writing, or has just written. Index job_alarm,
-- lock_worker. Called by queue/worker_dead.c.
SELECT max(at) AS at, 0 AS in_flight
FROM (SELECT seen_at AS at FROM job WHERE state = {running} AND alarm_at IS NOT NULL AND worker_id = :worker_id
      UNION ALL
      SELECT {lock_sign} FROM lock l WHERE l.worker_id = :worker_id AND {lock_sign} <= now(:now)) AS sign;
-- dialect: postgres
SELECT max(at) AS at,
       (SELECT count(*) FROM job WHERE state = {running} AND alarm_at IS NOT NULL AND worker_id = :worker_id)
         - count(lease_id) AS in_flight
FROM (SELECT at, lease_id
      FROM (SELECT seen_at AS at, id AS lease_id
            FROM job
            WHERE state = {running} AND alarm_at IS NOT NULL AND worker_id = :worker_id
            ORDER BY id
            FOR UPDATE SKIP LOCKED) AS lease
      UNION ALL
      SELECT {lock_sign}, NULL FROM lock l WHERE l.worker_id = :worker_id AND {lock_sign} <= now(:now)) AS sign;

-- name: worker_forget(before)
-- Entries from before :before that have no liveness lock and hold nothing: whether their process lives cannot be told
-- from everywhere. One that does comes again with its next claim; for db_each. Reads all entries, indexes job_alarm and
-- lock_worker. Called by queue/retain.c.
DELETE FROM worker
WHERE session = 0 AND since < :before
  AND NOT EXISTS (SELECT 1 FROM job j WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.worker_id = worker.id)
  AND NOT EXISTS (SELECT 1 FROM lock l WHERE l.worker_id = worker.id);

-- name: worker_remove(id)
-- For db_each. Called by queue/worker.c and queue/recover.c.
DELETE FROM worker WHERE id = :id;
