-- Events. Those of jobs are written by triggers; these are for all others and for reading.

-- doing: reading events | changing events

-- name: event_add(now, job_id, queue, who, what, token, owner, why, data)
-- For db_each. Called by queue/event.c.
INSERT INTO event (id, at, job_id, queue, who, what, token, owner, why, data)
VALUES (next_event(), now(:now), :job_id, :queue, :who, :what, :token, :owner, :why, :data);

-- name: event_of_phase(id, now)
-- The event of a change of phase, put into the job's chain; goes with job_phase. Called by queue/lease.c.
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
SELECT next_event(), event_id, now(:now), id, queue, owner, 'job.phase', state, state, token, owner, phase
FROM job
WHERE id = :id;

-- name: event_into_chain(id)
-- The job's newest event is the one just written. Called by queue/lease.c, queue/add.c and others.
UPDATE job SET event_id = (SELECT max(id) FROM event) WHERE id = :id;
-- dialect: postgres
UPDATE job SET event_id = currval('event_id') WHERE id = :id;

-- define: event
id, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data

-- name: event_since(after_id, limit)
-- In order of id. On PostgreSQL only what no open transaction can still get before; the function does that. Primary
-- key.
SELECT {event}
FROM event
WHERE id > :after_id
ORDER BY id
LIMIT :limit;
-- dialect: postgres
SELECT {event}
FROM events_since(:after_id, :limit);

-- name: event_exists(id)
-- Whether a row of a statement over many left its event. Primary key. SQLite only: called by store/sqlite_conn.c.
SELECT 1 AS found FROM event WHERE id = :id;

-- name: event_last
SELECT coalesce(max(id), 0) AS id FROM event;

-- name: event_tail(limit)
-- The number after which the last :limit events come; numbers have gaps. Primary key. Called by queue/event.c.
SELECT coalesce(min(id), 1) - 1 AS after_id FROM (SELECT id FROM event ORDER BY id DESC LIMIT :limit) AS tail;

-- name: event_of_job(id)
-- Along the chain from the newest; a deleted event ends it. Primary key, once per event.
WITH RECURSIVE chain (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why, data) AS (
    SELECT e.id, e.prev, e.at, e.job_id, e.queue, e.who, e.what, e.from_state, e.to_state, e.token,
           e.owner, e.why, e.data
    FROM event e
    WHERE e.id = (SELECT event_id FROM job WHERE id = :id)
    UNION ALL
    SELECT e.id, e.prev, e.at, e.job_id, e.queue, e.who, e.what, e.from_state, e.to_state, e.token,
           e.owner, e.why, e.data
    FROM chain c JOIN event e ON e.id = c.prev
)
SELECT {event}
FROM chain
ORDER BY id;

-- name: event_of_gone_job(job_id)
-- The events that a job has left which was deleted: the chain began at its row. None of them is older than the job,
-- which has the id of its first. Reads all events since: for people who ask. Called by queue/event.c.
SELECT {event}
FROM event
WHERE id >= :job_id AND job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id)
ORDER BY id;

-- name: event_behind(after_id, limit)
-- The next events behind :after_id, :limit at most, never the newest (ids go on from it). Primary key. Called by
-- queue/retain.c.
SELECT id, at FROM event WHERE id > :after_id AND id < (SELECT max(id) FROM event) ORDER BY id LIMIT :limit;

-- name: event_purge(after_id, to_id, to_at)
-- Of the events behind :after_id up to :to_id, those up to the time :to_at; but none that is not counted yet
-- (event_count_in). Primary keys. Called by queue/retain.c.
DELETE FROM event
WHERE id > :after_id AND id <= :to_id AND at <= :to_at AND id <= (SELECT counted_to FROM store WHERE id = 1)
RETURNING id;

-- name: event_purge_count(to_at)
-- How many old events there are. Reads all events: for people who ask. Called by queue/retain.c.
SELECT count(*) AS events FROM event WHERE id < (SELECT max(id) FROM event) AND at <= :to_at;

-- name: event_totals
-- How many events of each name a queue has had: those that are counted, and the later ones. Primary keys: reads what
-- came since the last count, and no older event. Called by queue/event_totals.c.
SELECT queue, what, CAST(sum(number) AS bigint) AS number
FROM (SELECT queue, what, count AS number FROM event_total
      UNION ALL
      SELECT coalesce(queue, '') AS queue, what, count(*) AS number
      FROM event
      WHERE id > (SELECT counted_to FROM store WHERE id = 1)
      GROUP BY coalesce(queue, ''), what) AS part
GROUP BY queue, what
ORDER BY queue, what;

-- name: event_uncounted(limit, wait_ms)
-- Up to which event the others are counted; how many come next, :limit at most; the last of these. On PostgreSQL only
-- what no open transaction can still get before: it waits for those up to :wait_ms ms and then answers that there are
-- none. Primary keys. Called by queue/event_totals.c.
SELECT (SELECT counted_to FROM store WHERE id = 1) AS counted_to, count(*) AS events, coalesce(max(id), 0) AS last_id
FROM (SELECT id
      FROM event
      WHERE id > (SELECT counted_to FROM store WHERE id = 1) AND :wait_ms >= 0
      ORDER BY id
      LIMIT :limit) AS next;
-- dialect: postgres
SELECT (SELECT counted_to FROM store WHERE id = 1) AS counted_to, count(*) AS events, coalesce(max(id), 0) AS last_id
FROM events_within((SELECT counted_to FROM store WHERE id = 1), :limit, :wait_ms) AS next;

-- name: event_counted(from_id, to_id)
-- From now on the events up to :to_id are counted, once: :from_id is the guard, on PostgreSQL with the lock on the
-- store's row; for db_each. Primary key. Called by queue/event_totals.c.
UPDATE store SET counted_to = :to_id WHERE id = 1 AND counted_to = :from_id;

-- name: event_count_in(after_id, to_id)
-- Counts the events behind :after_id up to :to_id, which are all there. Primary key. Goes with event_counted. Called by
-- queue/event_totals.c.
INSERT INTO event_total (queue, what, count)
SELECT coalesce(queue, ''), what, count(*)
FROM event
WHERE id > :after_id AND id <= :to_id
GROUP BY coalesce(queue, ''), what
ON CONFLICT (queue, what) DO UPDATE SET count = event_total.count + excluded.count;
