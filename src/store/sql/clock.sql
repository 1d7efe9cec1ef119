-- Clocks that jump, time in which nobody could write, and servers that were away: none of it ends a lease.

-- doing: looking after leases

-- name: clock_steps
-- How often leases were moved. Called by store/sqlite_clock.c when there is something to move.
SELECT clock_steps FROM store WHERE id = 1;

-- name: clock_look
-- What tells on PostgreSQL whether the clock has run evenly: store time, the number of steps, the start of the server as
-- noted and as it is, the mark of the machine $1, if it has one since the last step, whether a move has left something
-- alone, and what the mark says of its last step and of doubts. Primary keys. Called by store/pg_clock.c, as all that is PostgreSQL only here.
SELECT $1, $2 WHERE false;
-- dialect: postgres
SELECT now($2), s.clock_steps, s.server_since, (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint,
       m.boottime_ms, m.store_ms, EXISTS (SELECT 1 FROM clock_left), m.stepped_ms, m.stepped_at, m.doubtful
FROM store s LEFT JOIN clock_mark m ON m.boot = $1 AND (m.clock_steps = s.clock_steps OR m.doubtful = 1)
WHERE s.id = 1;

-- name: clock_turn
-- Whoever notes or moves something locks this row first: one at a time. PostgreSQL only.
SELECT 1 WHERE false;
-- dialect: postgres
SELECT 1 FROM store WHERE id = 1 FOR UPDATE;

-- name: clock_note
-- The mark of machine $1; $5: by how much it made leases move, or NULL. PostgreSQL only, as the next three.
SELECT $1, $2, $3, $4, $5 WHERE false;
-- dialect: postgres
INSERT INTO clock_mark (boot, boottime_ms, store_ms, clock_steps, stepped_ms, stepped_at)
VALUES ($1, $2, $3, $4, $5, CASE WHEN $5::bigint IS NOT NULL THEN $3::bigint END)
ON CONFLICT (boot) DO UPDATE
SET boottime_ms = excluded.boottime_ms, store_ms = excluded.store_ms, clock_steps = excluded.clock_steps,
    stepped_ms = coalesce(excluded.stepped_ms, clock_mark.stepped_ms),
    stepped_at = coalesce(excluded.stepped_at, clock_mark.stepped_at);

-- name: clock_doubt
-- The marks of machine $1 do not count any more.
SELECT $1 WHERE false;
-- dialect: postgres
UPDATE clock_mark SET doubtful = 1 WHERE boot = $1;

-- name: clock_forget
-- Marks that tell nothing any more, and those of machines not heard of since $2.
SELECT $1, $2 WHERE false;
-- dialect: postgres
DELETE FROM clock_mark WHERE (clock_steps < $1 AND doubtful IS NULL) OR store_ms < $2;

-- name: clock_server
SELECT $1 WHERE false;
-- dialect: postgres
UPDATE store SET server_since = $1 WHERE id = 1;

-- name: clock_step
-- Called by store/clock_move.c, as the next three.
UPDATE store SET clock_steps = clock_steps + 1 WHERE id = 1;

-- name: clock_move_leases
-- The last $1 ms until now ($2) count against no lease: neither its end nor the time since its last sign of life
-- includes them.
-- On PostgreSQL a lease may have been given after the clock was set and before that was noticed, or the clock was set
-- back ($1 < 0): none lasts for longer than its length from now on. A row that another session has locked is not waited
-- for: clock_left names it, and clock_give_leases moves it later.
-- Index job_alarm, all that are running.
UPDATE job
SET alarm_at = alarm_at + $1,
    seen_at = CASE WHEN seen_at + $1 > now($2) THEN now($2) ELSE seen_at + $1 END
WHERE state = 2 AND alarm_at IS NOT NULL;
-- dialect: postgres
WITH had AS (
    SELECT j.id
    FROM job j
    WHERE j.state = 2 AND j.alarm_at IS NOT NULL
    ORDER BY j.id + 0
    FOR NO KEY UPDATE OF j SKIP LOCKED
), moved AS (
    UPDATE job
    SET alarm_at = least(alarm_at + greatest($1::bigint, 0),
                         c.t + coalesce(lease_for_ms, lease_ms,
                                        (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000)),
        seen_at = least(seen_at + greatest($1::bigint, 0), c.t)
    FROM (SELECT now($2) AS t OFFSET 0) c, had
    WHERE job.id = had.id
)
INSERT INTO clock_left (job_id, token)
SELECT j.id, j.token
FROM job j
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM had WHERE had.id = j.id)
ON CONFLICT (job_id) DO UPDATE SET token = excluded.token;

-- name: clock_move_locks
-- Index lock_expiry. On PostgreSQL those that were taken with a job follow it by a trigger.
UPDATE lock SET expires_at = expires_at + $1 WHERE expires_at IS NOT NULL;
-- dialect: postgres
WITH had AS (
    SELECT l.name
    FROM lock l
    WHERE l.expires_at IS NOT NULL AND l.job_id IS NULL
    ORDER BY l.name || ''
    FOR NO KEY UPDATE OF l SKIP LOCKED
), moved AS (
    UPDATE lock
    SET expires_at = least(expires_at + greatest($1::bigint, 0),
                           c.t + coalesce(held_for_ms, expires_at - acquired_at))
    FROM (SELECT now($2) AS t OFFSET 0) c, had
    WHERE lock.name = had.name
)
INSERT INTO clock_left (lock_name, token)
SELECT l.name, l.token
FROM lock l
WHERE l.expires_at IS NOT NULL AND l.job_id IS NULL AND NOT EXISTS (SELECT 1 FROM had WHERE had.name = l.name)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token;

-- name: clock_give_leases
-- What a move left alone and can be had now begins anew, with its full length; what has ended since is forgotten; for
-- db_each. Primary keys. Called by store/pg_clock.c, as the next. PostgreSQL only, both.
SELECT $1 WHERE false;
-- dialect: postgres
WITH had AS (
    SELECT j.id
    FROM clock_left o, job j
    WHERE j.id = o.job_id AND j.token = o.token AND j.state + 0 = 2
    ORDER BY j.id + 0
    FOR NO KEY UPDATE OF j SKIP LOCKED
), given AS (
    UPDATE job
    SET alarm_at = c.t + coalesce(lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
        seen_at = c.t
    FROM (SELECT now($1) AS t OFFSET 0) c, had
    WHERE job.id = had.id
)
DELETE FROM clock_left o
WHERE o.job_id IS NOT NULL
  AND (EXISTS (SELECT 1 FROM had WHERE had.id = o.job_id)
       OR NOT EXISTS (SELECT 1 FROM job j WHERE j.id = o.job_id AND j.token = o.token AND j.state + 0 = 2));

-- name: clock_give_locks
SELECT $1 WHERE false;
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
    FROM (SELECT now($1) AS t OFFSET 0) c, had
    WHERE lock.name = had.name
)
DELETE FROM clock_left o
WHERE o.lock_name IS NOT NULL
  AND (EXISTS (SELECT 1 FROM had WHERE had.name = o.lock_name)
       OR NOT EXISTS (SELECT 1 FROM lock l
                      WHERE l.name = o.lock_name AND l.token = o.token AND l.expires_at IS NOT NULL
                        AND l.job_id IS NULL));

-- name: clock_move_newcomers
-- Workers that had only just registered still have: they may not have taken their liveness lock (queue/registry.c). On
-- PostgreSQL also: nobody has registered at a time to come; the grace of one whose session was lost begins anew; one that somebody is marking or burying is passed
-- over.
UPDATE worker SET since = since + $1 WHERE since + $1 + 2000 > now($2) AND since + $1 <= now($2);
-- dialect: postgres
UPDATE worker
SET since = CASE WHEN since + $1::bigint + 2000 > c.t AND since + $1::bigint <= c.t THEN since + $1::bigint
                 ELSE least(since, c.t) END,
    lost_at = CASE WHEN lost_at IS NOT NULL THEN c.t END
FROM (SELECT now($2) AS t OFFSET 0) c
WHERE worker.id IN (SELECT w.id FROM worker w
                    WHERE w.lost_at IS NOT NULL OR w.since > now($2)
                       OR (w.since + $1::bigint + 2000 > now($2) AND w.since + $1::bigint <= now($2))
                    ORDER BY w.id
                    FOR NO KEY UPDATE SKIP LOCKED);

-- name: job_warn
-- An expired lease is spared for $3 ms more; for db_each. Any sign of life clears the mark. Primary key. Called by
-- queue/recover.c, as the next.
UPDATE job
SET warned = 1, alarm_at = now($4) + $3
WHERE id = $1 AND token = $2 AND state = 2;
-- dialect: postgres
UPDATE job
SET warned = 1, alarm_at = c.t + u.spared
FROM (SELECT now_each($4) AS t OFFSET 0) c,
     unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (id, token, spared, ordinal)
WHERE job.id = u.id AND job.token = u.token AND state + 0 = 2
RETURNING u.ordinal, 1;

-- name: event_of_warning
-- Its event, to be put into the job's chain (event_into_chain).
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
SELECT next_event(), event_id, now($2), id, queue, $3, 'job.warned', state, state, token, owner, $4
FROM job
WHERE id = $1;

-- name: job_lease
-- Of a running job: whether it was warned, whether a move has left it alone, the length of its lease. Primary keys. Called
-- by queue/explain.c.
SELECT j.warned, CASE WHEN EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token) THEN 1 ELSE 0 END,
       coalesce(j.lease_for_ms, j.lease_ms, (SELECT q.lease_ms FROM queue q WHERE q.name = j.queue), 60000)
FROM job j
WHERE j.id = $1;
