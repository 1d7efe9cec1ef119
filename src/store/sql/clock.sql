-- Clocks that jump, time in which nobody could write, and servers that were away: none of it ends a lease.

-- doing: looking after leases

-- name: clock_steps
-- How often leases were moved. Called by store/sqlite_clock.c when there is something to move.
SELECT clock_steps FROM store WHERE id = 1;

-- name: clock_look(boot, now)
-- What tells on PostgreSQL whether the clock has run evenly: store time, the number of steps, the start of the server
-- as noted and as it is, the mark of the machine :boot, if it has one since the last step, whether a move has left
-- something alone, and what the mark says of its last step and of doubts. Primary keys. Called by store/pg_clock.c, as
-- all that is PostgreSQL only here.
-- dialect: postgres
SELECT now(:now) AS now, s.clock_steps, s.server_since,
       (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint AS started_at,
       m.boottime_ms, m.store_ms, EXISTS (SELECT 1 FROM clock_left) AS left_alone,
       m.stepped_ms, m.stepped_at, m.doubtful
FROM store s LEFT JOIN clock_mark m ON m.boot = :boot AND (m.clock_steps = s.clock_steps OR m.doubtful = 1)
WHERE s.id = 1;

-- name: clock_turn
-- Whoever notes or moves something locks this row first: one at a time. PostgreSQL only.
-- dialect: postgres
SELECT 1 AS locked FROM store WHERE id = 1 FOR UPDATE;

-- name: clock_note(boot, boottime_ms, store_ms, clock_steps, stepped_ms)
-- The mark of machine :boot; :stepped_ms: by how much it made leases move, or NULL. PostgreSQL only, as the next three.
-- dialect: postgres
INSERT INTO clock_mark (boot, boottime_ms, store_ms, clock_steps, stepped_ms, stepped_at)
VALUES (:boot, :boottime_ms, :store_ms, :clock_steps, :stepped_ms,
        CASE WHEN :stepped_ms::bigint IS NOT NULL THEN :store_ms::bigint END)
ON CONFLICT (boot) DO UPDATE
SET boottime_ms = excluded.boottime_ms, store_ms = excluded.store_ms, clock_steps = excluded.clock_steps,
    stepped_ms = coalesce(excluded.stepped_ms, clock_mark.stepped_ms),
    stepped_at = coalesce(excluded.stepped_at, clock_mark.stepped_at);

-- name: clock_doubt(boot)
-- The marks of machine :boot do not count any more.
-- dialect: postgres
UPDATE clock_mark SET doubtful = 1 WHERE boot = :boot;

-- name: clock_forget(before_steps, before_store_ms)
-- Marks that tell nothing any more, and those of machines not heard of since :before_store_ms.
-- dialect: postgres
DELETE FROM clock_mark WHERE (clock_steps < :before_steps AND doubtful IS NULL) OR store_ms < :before_store_ms;

-- name: clock_server(server_since)
-- dialect: postgres
UPDATE store SET server_since = :server_since WHERE id = 1;

-- name: clock_step
-- Called by store/clock_move.c, as the next three.
UPDATE store SET clock_steps = clock_steps + 1 WHERE id = 1;

-- name: clock_move_leases(by_ms, now)
-- The last :by_ms ms until now (:now) count against no lease: neither its end nor the time since its last sign of life
-- includes them. On PostgreSQL a lease may have been given after the clock was set and before that was noticed, or the
-- clock was set back (:by_ms < 0): none lasts for longer than its length from now on. A row that another session has
-- locked is not waited for: clock_left names it, and clock_give_leases moves it later. Index job_alarm, all that are
-- running.
UPDATE job
SET alarm_at = alarm_at + :by_ms,
    seen_at = CASE WHEN seen_at + :by_ms > now(:now) THEN now(:now) ELSE seen_at + :by_ms END
WHERE state = {running} AND alarm_at IS NOT NULL;
-- dialect: postgres
WITH had AS (
    SELECT j.id
    FROM job j
    WHERE j.state = {running} AND j.alarm_at IS NOT NULL
    ORDER BY j.id + 0
    FOR NO KEY UPDATE OF j SKIP LOCKED
), moved AS (
    UPDATE job
    SET alarm_at = least(alarm_at + greatest(:by_ms::bigint, 0),
                         c.t + coalesce(lease_for_ms, lease_ms,
                                        (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000)),
        seen_at = least(seen_at + greatest(:by_ms::bigint, 0), c.t)
    FROM (SELECT now(:now) AS t OFFSET 0) c, had
    WHERE job.id = had.id
)
INSERT INTO clock_left (job_id, token)
SELECT j.id, j.token
FROM job j
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM had WHERE had.id = j.id)
ON CONFLICT (job_id) DO UPDATE SET token = excluded.token;

-- name: clock_move_locks(by_ms, now)
-- Index lock_expiry. On PostgreSQL those that were taken with a job follow it by a trigger.
UPDATE lock SET expires_at = expires_at + :by_ms WHERE expires_at IS NOT NULL;
-- dialect: postgres
WITH had AS (
    SELECT l.name
    FROM lock l
    WHERE l.expires_at IS NOT NULL AND l.job_id IS NULL
    ORDER BY l.name || ''
    FOR NO KEY UPDATE OF l SKIP LOCKED
), moved AS (
    UPDATE lock
    SET expires_at = least(expires_at + greatest(:by_ms::bigint, 0),
                           c.t + coalesce(held_for_ms, expires_at - acquired_at))
    FROM (SELECT now(:now) AS t OFFSET 0) c, had
    WHERE lock.name = had.name
)
INSERT INTO clock_left (lock_name, token)
SELECT l.name, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND l.job_id IS NULL AND NOT EXISTS (SELECT 1 FROM had WHERE had.name = l.name)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token;

-- name: clock_give_leases(now)
-- What a move left alone and can be had now begins anew, with its full length; what has ended since is forgotten; for
-- db_each. Primary keys. Called by store/pg_clock.c, as the next. PostgreSQL only, both.
-- dialect: postgres
WITH had AS (
    SELECT j.id
    FROM clock_left o, job j
    WHERE j.id = o.job_id AND j.token = o.token AND j.state + 0 = {running}
    ORDER BY j.id + 0
    FOR NO KEY UPDATE OF j SKIP LOCKED
), given AS (
    UPDATE job
    SET alarm_at = c.t + coalesce(lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
        seen_at = c.t
    FROM (SELECT now(:now) AS t OFFSET 0) c, had
    WHERE job.id = had.id
)
DELETE FROM clock_left o
WHERE o.job_id IS NOT NULL
  AND (EXISTS (SELECT 1 FROM had WHERE had.id = o.job_id)
       OR NOT EXISTS (SELECT 1 FROM job j WHERE j.id = o.job_id AND j.token = o.token AND j.state + 0 = {running}));

-- name: clock_give_locks(now)
-- dialect: postgres
WITH had AS (
    SELECT l.name
    FROM clock_left o, lock l
    WHERE l.name = o.lock_name AND l.token = o.token AND l.expires_at IS NOT NULL AND l.job_id IS NULL
    ORDER BY l.name || ''
    FOR NO KEY UPDATE OF l SKIP LOCKED
), given AS (
    UPDATE lock
    SET expires_at = c.t + coalesce(held_for_ms, expires_at - acquired_at)
    FROM (SELECT now(:now) AS t OFFSET 0) c, had
    WHERE lock.name = had.name
)
DELETE FROM clock_left o
WHERE o.lock_name IS NOT NULL
  AND (EXISTS (SELECT 1 FROM had WHERE had.name = o.lock_name)
       OR NOT EXISTS (SELECT 1 FROM lock l
                      WHERE l.name = o.lock_name AND l.token = o.token AND l.expires_at IS NOT NULL
                        AND l.job_id IS NULL));

-- name: clock_move_newcomers(by_ms, now)
-- Workers that had only just registered still have: they may not have taken their liveness lock (queue/registry.c). On
-- PostgreSQL also: nobody has registered at a time to come; the grace of one whose session was lost begins anew; one
-- that somebody is marking or burying is passed over.
UPDATE worker SET since = since + :by_ms WHERE since + :by_ms + 2000 > now(:now) AND since + :by_ms <= now(:now);
-- dialect: postgres
UPDATE worker
SET since = CASE WHEN since + :by_ms::bigint + 2000 > c.t AND since + :by_ms::bigint <= c.t THEN since + :by_ms::bigint
                 ELSE least(since, c.t) END,
    lost_at = CASE WHEN lost_at IS NOT NULL THEN c.t END
FROM (SELECT now(:now) AS t OFFSET 0) c
WHERE worker.id IN (SELECT w.id FROM worker w
                    WHERE w.lost_at IS NOT NULL OR w.since > now(:now)
                       OR (w.since + :by_ms::bigint + 2000 > now(:now) AND w.since + :by_ms::bigint <= now(:now))
                    ORDER BY w.id
                    FOR NO KEY UPDATE SKIP LOCKED);

-- name: job_warn(id, token, spared_ms, now)
-- An expired lease is spared for :spared_ms ms more; for db_each. Any sign of life clears the mark. Primary key. Called
-- by queue/recover.c, as the next.
UPDATE job
SET warned = 1, alarm_at = now(:now) + :spared_ms
WHERE id = :id AND token = :token AND state = {running};
-- dialect: postgres
UPDATE job
SET warned = 1, alarm_at = c.t + u.spared
FROM (SELECT now_each(:now) AS t OFFSET 0) c,
     unnest(:id::bigint[], :token::bigint[], :spared_ms::bigint[]) WITH ORDINALITY AS u (id, token, spared, ordinal)
WHERE job.id = u.id AND job.token = u.token AND state + 0 = {running}
RETURNING u.ordinal, 1;

-- name: event_of_warning(id, now, who, why)
-- Its event, to be put into the job's chain (event_into_chain).
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
SELECT next_event(), event_id, now(:now), id, queue, :who, 'job.warned', state, state, token, owner, :why
FROM job
WHERE id = :id;

-- name: job_lease(id)
-- Of a running job: whether it was warned, whether a move has left it alone, the length of its lease. Primary keys.
-- Called by queue/explain.c.
SELECT j.warned,
       CASE WHEN EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token)
            THEN 1 ELSE 0 END AS left_alone,
       coalesce(j.lease_for_ms, j.lease_ms, (SELECT q.lease_ms FROM queue q WHERE q.name = j.queue), 60000) AS length_ms
FROM job j
WHERE j.id = :id;
