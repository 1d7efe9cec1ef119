-- Jobs: reading, and the one statement that moves them. Adding is in add.sql, claims are in claim.sql.
--
-- How these files are read (tools/sqlgen.c): "-- name:" begins a query, comments below it say what it does,
-- who calls it and which index carries it. $n are its parameters. now($n) is store time: the parameter on
-- SQLite, the server's clock on PostgreSQL unless the parameter is given. next_event() is the
-- id of the event the statement leaves: nextval() on PostgreSQL; on SQLite a parameter more, because a statement
-- that calls a function (also max and min) and fires a trigger would make SQLite copy every page it touches first.
-- token_base() is the store's, on SQLite a parameter as well.
-- "-- each:" begins the statement SQLite runs for every row of the one before, whose first column
-- is $0. "-- many:" begins what SQLite runs once instead, when there are many rows: they are in the table given as
-- p1, p2, ..., with the id of the event each leaves. "-- dialect: postgres" begins the other variant where the engines differ; a query meant for
-- db_each gets its parameters there as arrays of texts and returns either one row per element in
-- order, or (ordinal, value). "-- doing:" is what a sentence about a failure says of the file's queries: of those that
-- only read | of those that write.

-- doing: reading jobs | changing jobs

-- define: job
id, queue, kind, state, priority, due_at, token, owner, worker_id, alarm_at, started_at, seen_at,
attempts, crashes, changed_at, changed_by, changed_what, changed_why, version, created_at,
finished_at, phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
result, payload, stopped_token, nominal_at, followed, coalesce(hook, retry_hook)

-- name: job_get
SELECT {job}, now($2) FROM job WHERE id = $1;

-- name: job_watch
-- How the jobs of a JSON array of ids are now, by id. Primary key. Called by queue/watch.c.
SELECT id, state, version, queue, changed_at, now($2)
FROM job
WHERE id IN (SELECT value FROM json_each($1))
ORDER BY id;
-- dialect: postgres
SELECT id, state, version, queue, changed_at, now($2)
FROM job
WHERE id = ANY (ARRAY(SELECT j.value::bigint FROM json_array_elements_text($1::json) AS j (value)))
ORDER BY id;

-- name: job_rival
-- The live job that has the unique key of job $1. Primary key, then index job_unique. Called by queue/act.c
-- and queue/act_plan.c.
SELECT other.id
FROM job JOIN job AS other ON other.queue = job.queue AND other.unique_key = job.unique_key
WHERE job.id = $1 AND other.id <> $1 AND other.finished_at IS NULL;

-- Which jobs a filter chooses, between two ids. $2 is a mask of states, $5 the newest change that counts. Primary key.
-- define: chosen
id > $6 AND id < $8
  AND ($1 IS NULL OR queue = $1)
  AND ($2 = 0 OR ((1 << state) & $2) <> 0)
  AND ($3 IS NULL OR kind = $3)
  AND ($4 IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) WHERE value = $4))
  AND ($5 IS NULL OR changed_at <= $5)

-- define: chosen_postgres
id > $6 AND id < $8
  AND ($1::text IS NULL OR queue = $1)
  AND ($2 = 0 OR ((1 << state) & $2) <> 0)
  AND ($3::text IS NULL OR kind = $3)
  AND ($4::text IS NULL OR EXISTS (SELECT 1 FROM json_array_elements_text(tags::json) AS t (tag)
                                   WHERE t.tag = $4))
  AND ($5::bigint IS NULL OR changed_at <= $5)

-- name: job_list
-- A page of those that are chosen, in order of id. Called by queue/row.c.
SELECT {job} FROM job WHERE {chosen} ORDER BY id LIMIT $7;
-- dialect: postgres
SELECT {job} FROM job WHERE {chosen_postgres} ORDER BY id LIMIT $7;

-- name: job_list_newest
-- The same from the other end. Called by queue/row.c.
SELECT {job} FROM job WHERE {chosen} ORDER BY id DESC LIMIT $7;
-- dialect: postgres
SELECT {job} FROM job WHERE {chosen_postgres} ORDER BY id DESC LIMIT $7;

-- name: job_chosen
-- A page in order of id, with what decides about an action only: the key, and the live job that has it. Index job_unique.
-- Called by queue/act_plan.c.
SELECT id, queue, unique_key, followed,
       (SELECT other.id FROM job AS other
        WHERE other.queue = job.queue AND other.unique_key = job.unique_key AND other.finished_at IS NULL) AS rival
FROM job WHERE {chosen} ORDER BY id LIMIT $7;
-- dialect: postgres
SELECT id, queue, unique_key, followed,
       (SELECT other.id FROM job AS other
        WHERE other.queue = job.queue AND other.unique_key = job.unique_key AND other.finished_at IS NULL) AS rival
FROM job WHERE {chosen_postgres} ORDER BY id LIMIT $7;

-- name: job_queue
-- Where a job is. Primary key. Called by queue/bell.c.
SELECT queue FROM job WHERE id = $1;

-- name: job_policy
-- What decides about a job whose lease ends badly: its own settings, else its queue's. Primary key.
-- Called by queue/finish.c and queue/recover.c.
SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
       coalesce(j.max_attempts, q.max_attempts), coalesce(j.max_crashes, q.max_crashes),
       coalesce(j.backoff_ms, q.backoff_ms), coalesce(j.backoff_max_ms, q.backoff_max_ms)
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.id = $1;

-- name: job_move
-- The choke point: every move of a job that is not a claim or a completion; for db_each.
-- $4 new state, $5 added to the token, $6 due so many ms from now (NULL: unchanged), $7 added to the
-- attempts (NULL: they start over; unless 0, its steps have full budgets again), $8 new number of crashes (NULL: unchanged), $9 to $12 error and why.
-- Not for a run that a submission waits for (submission.sql): queue/move.c takes it off first.
-- A cancel or a hold remembers the lease it ended (stopped_token), until the job can be claimed again.
-- Called by queue/move.c. Primary key.
UPDATE OR FAIL job
SET state = $4, token = token + $5,
    stopped_token = CASE WHEN $4 IN (3, 6) THEN CASE WHEN $2 = 2 THEN token ELSE stopped_token END END,
    owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, warned = NULL,
    due_at = coalesce(now($13) + $6, due_at),
    alarm_at = CASE WHEN $4 = 0 THEN coalesce(now($13) + $6, due_at) END,
    attempts = coalesce(attempts + $7, 0),
    life_token = CASE WHEN $7 = 0 THEN life_token ELSE token + $5 END,
    crashes = coalesce($8, crashes),
    finished_at = CASE WHEN $4 >= 4 THEN now($13) END,
    error_class = coalesce($9, error_class), error_text = coalesce($10, error_text),
    version = version + 1, event_id = next_event(), changed_at = now($13),
    changed_by = coalesce($11, owner), changed_what = $14, changed_why = $12
WHERE id = $1 AND state = $2 AND token = $3 AND followed IS NULL;
-- dialect: postgres
UPDATE job
SET state = u.new_state, token = job.token + u.bump,
    stopped_token = CASE WHEN u.new_state IN (3, 6)
                         THEN CASE WHEN u.old_state = 2 THEN job.token ELSE job.stopped_token END END,
    owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, warned = NULL,
    due_at = coalesce(c.t + u.delay, job.due_at),
    alarm_at = CASE WHEN u.new_state = 0 THEN coalesce(c.t + u.delay, job.due_at) END,
    attempts = coalesce(job.attempts + u.attempts, 0),
    life_token = CASE WHEN u.attempts = 0 THEN job.life_token ELSE job.token + u.bump END,
    crashes = coalesce(u.crashes, job.crashes),
    finished_at = CASE WHEN u.new_state >= 4 THEN c.t END,
    error_class = coalesce(u.error_class, job.error_class),
    error_text = coalesce(u.error_text, job.error_text),
    version = job.version + 1, event_id = next_event(), changed_at = c.t,
    changed_by = coalesce(u.who, job.owner), changed_what = u.what, changed_why = u.why
FROM (SELECT now_each($13) AS t OFFSET 0) c,
     unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[],
            $14::text[]) WITH ORDINALITY
         AS u (id, old_state, token, new_state, bump, delay, attempts, crashes, error_class,
               error_text, who, why, what, ordinal)
WHERE job.id = u.id AND job.state = u.old_state AND job.token = u.token AND job.followed IS NULL
RETURNING u.ordinal, 1;

-- name: job_lock_rows
-- Jobs that several statements of one transaction wait for, by id. PostgreSQL only: called by store/pg_order.c and
-- queue/move.c.
SELECT id FROM job WHERE id = $1;
-- dialect: postgres
SELECT id FROM job WHERE id = ANY (ARRAY(SELECT unnest($1::bigint[]))) ORDER BY id FOR NO KEY UPDATE;

-- name: job_new_life
-- Its steps have full budgets again, as after a retry. Primary key. Called by queue/control.c.
UPDATE job SET life_token = token WHERE id = $1;

-- name: job_complete
-- The owner reports success, and the error of an earlier attempt goes; for db_each. Primary key. Not for a job that was
-- taken under a lock, or whose end a submission waits for. Called by queue/lease.c.
UPDATE OR FAIL job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now($4), result = $3, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = now($4), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
WHERE id = $1 AND token = $2 AND state = 2 AND lock_name IS NULL AND followed IS NULL;
-- many:
UPDATE OR FAIL job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now($4), result = given.p3, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = given.event, changed_at = now($4), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM given
WHERE job.id = given.p1 AND token = given.p2 AND state = 2 AND lock_name IS NULL AND followed IS NULL;
-- dialect: postgres
UPDATE job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = c.t, result = u.result, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM (SELECT now_each($4) AS t OFFSET 0) c,
     unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY
         AS u (id, token, result, ordinal)
WHERE job.id = u.id AND job.token = u.token AND state + 0 = 2 AND followed IS NULL
RETURNING u.ordinal, 1;

-- name: job_complete_one
-- job_complete for one job, in the same way. Called by store/pg_query.c.
UPDATE job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now($4), result = $3, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = now($4), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
WHERE id = $1 AND token = $2 AND state = 2 AND followed IS NULL;
-- dialect: postgres
UPDATE job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = coalesce($4::bigint, store_clock()), result = $3,
    error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = coalesce($4::bigint, store_clock()),
    changed_by = owner, changed_what = 'job.completed', changed_why = NULL
WHERE id = $1 AND token = $2 AND state + 0 = 2 AND followed IS NULL;

-- name: job_complete_alike
-- job_complete for jobs whose leases have the same token and which have no result: most of those that are completed
-- together. PostgreSQL need not join them with a list then. Returns the ids of those that were. Called by
-- store/pg_query.c.
UPDATE job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now($4), result = $3, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = now($4), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
WHERE id = $1 AND token = $2 AND state = 2 AND followed IS NULL
RETURNING id;
-- dialect: postgres
UPDATE job
SET state = 4, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = c.t, result = ($3::text[])[1], error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM (SELECT now_each($4) AS t OFFSET 0) c
WHERE id = ANY ($1::bigint[]) AND token = ($2::bigint[])[1] AND state + 0 = 2 AND followed IS NULL
RETURNING id;

-- name: job_unlock
-- Before completing a job that was taken under a lock: the lock is given up; for db_each. Called by queue/lease.c.
-- Not run on PostgreSQL, where the trigger of the completion does it, and where a first pass over some of the jobs would
-- lock them in another order than the second over all. One whose end a submission waits for is not completed yet, and
-- keeps its lock.
UPDATE job
SET lock_name = NULL
WHERE id = $1 AND token = $2 AND state = 2 AND lock_name IS NOT NULL AND followed IS NULL;

-- name: job_start
-- Work begins: from here on a crash counts; for db_each. Called by queue/lease.c.
-- PostgreSQL: a row that another session has locked is skipped, so that it holds up no other; and a lease that is named
-- twice is answered twice.
UPDATE job
SET started_at = coalesce(started_at, now($3)), seen_at = now($3), warned = NULL
WHERE id = $1 AND token = $2 AND state = 2;
-- dialect: postgres
WITH held AS (
    SELECT j.id, u.ordinal
    FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (id, token, ordinal),
         job j
    WHERE j.id = u.id AND j.token = u.token AND j.state + 0 = 2
    FOR NO KEY UPDATE OF j SKIP LOCKED
), started AS (
    UPDATE job
    SET started_at = coalesce(started_at, c.t), seen_at = c.t, warned = NULL
    FROM (SELECT now_each($3) AS t OFFSET 0) c, held
    WHERE job.id = held.id
)
SELECT ordinal, 1 FROM held;

-- name: job_heartbeat
-- The owner is alive: the lease starts over with the length it has, or $3 ms, which is its length from now on; for
-- db_each. Called by queue/lease.c. PostgreSQL: as job_start.
UPDATE job
SET alarm_at = now($4) + coalesce($3, lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
    lease_for_ms = coalesce($3, lease_for_ms), seen_at = now($4), warned = NULL
WHERE id = $1 AND token = $2 AND state = 2;
-- dialect: postgres
WITH held AS (
    SELECT j.id, u.ttl, u.ordinal
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (id, token, ttl, ordinal),
         job j
    WHERE j.id = u.id AND j.token = u.token AND j.state + 0 = 2
    FOR NO KEY UPDATE OF j SKIP LOCKED
), extended AS (
    UPDATE job
    SET alarm_at = c.t + coalesce(held.ttl, lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
        lease_for_ms = coalesce(held.ttl, lease_for_ms), seen_at = c.t, warned = NULL
    FROM (SELECT now_each($4) AS t OFFSET 0) c, held
    WHERE job.id = held.id
)
SELECT ordinal, 1 FROM held;

-- name: job_phase
-- Where the job is, with an event. Called by queue/lease.c.
UPDATE job
SET phase = $3, seen_at = now($4), version = version + 1
WHERE id = $1 AND token = $2 AND state = 2;
-- dialect: postgres
UPDATE job
SET phase = $3, seen_at = now($4), version = version + 1
WHERE id = $1 AND token = $2 AND state + 0 = 2;

-- name: job_fence
-- What became of lease $2 of job $1, which an owner's call did not match, and the event with which its owner has ended
-- it, if that is so: moves that need no lease may have come since, so it is looked for along the chain. Primary keys.
-- Called by queue/lease.c.
-- The columns after that event say what stands: its state, its time and its reason; the job's due time, unless somebody has
-- changed that since; the job's error.
WITH RECURSIVE chain (prev, what, from_state, to_state, token, at, why) AS (
    SELECT e.prev, e.what, e.from_state, e.to_state, e.token, e.at, e.why
    FROM job j JOIN event e ON e.id = j.event_id
    WHERE j.id = $1 AND j.token = $2 AND j.state <> 2
    UNION ALL
    SELECT e.prev, e.what, e.from_state, e.to_state, e.token, e.at, e.why
    FROM chain c JOIN event e ON e.id = c.prev
    WHERE c.from_state <> 2 OR c.to_state = 2
)
SELECT j.state, j.token, j.owner, j.result, c.what, c.to_state, c.at, c.why,
       CASE WHEN j.changed_what IN (c.what, 'job.due') THEN j.due_at END, j.error_class, j.error_text
FROM job j
LEFT JOIN (SELECT what, to_state, at, why
           FROM chain
           WHERE from_state = 2 AND to_state <> 2 AND token = $2) c ON 1 = 1
WHERE j.id = $1;

-- name: job_due
-- A scheduled job's time has come; for db_each. Called by queue/recover.c.
UPDATE OR FAIL job
SET state = 1, alarm_at = NULL, version = version + 1, event_id = next_event(),
    changed_at = now($2), changed_by = $3, changed_what = 'job.due', changed_why = NULL
WHERE id = $1 AND state = 0 AND alarm_at <= now($2);
-- dialect: postgres
UPDATE job
SET state = 1, alarm_at = NULL, version = version + 1, event_id = next_event(),
    changed_at = c.t, changed_by = u.who, changed_what = 'job.due', changed_why = NULL
FROM (SELECT now_each($2) AS t OFFSET 0) c,
     unnest($1::bigint[], $3::text[]) WITH ORDINALITY AS u (id, who, ordinal)
WHERE job.id = u.id AND state + 0 = 0 AND alarm_at + 0 <= c.t
RETURNING u.ordinal, 1;

-- name: clock_acts
-- A row when the clock has something to do now: a lease or a lock has expired, a scheduled job is due, or a schedule.
-- Mostly it has not, and this costs a third of looking what it is. Indexes job_alarm, lock_expiry, schedule_next.
-- The column: when the newest of the schedules was due, NULL when it is none of them. Called by queue/claim.c.
SELECT (SELECT max(next_at) FROM schedule WHERE next_at <= now($1) AND paused = 0)
WHERE EXISTS (SELECT 1 FROM job WHERE state = 2 AND alarm_at <= now($1))
   OR EXISTS (SELECT 1 FROM job WHERE state = 0 AND alarm_at <= now($1))
   OR EXISTS (SELECT 1 FROM lock WHERE expires_at <= now($1))
   OR EXISTS (SELECT 1 FROM schedule WHERE next_at <= now($1) AND paused = 0);

-- name: job_alarms
-- What the clock acts on now: scheduled jobs that are due and leases that have expired ($2 of each at most), with
-- what decides about the latter. Index job_alarm, once per state: costs what it finds. Called by queue/recover.c.
-- The last column: for how many ms more a lease is spared (job_warn), NULL: it is over. $3 = 1: the clock may have
-- jumped or the server been away, so that nobody could renew in time. A registered worker that is not known to be
-- dead is given half its lease, from 1 s to 10 s, once. 0 ms: a move has left it alone (clock_left), and it is to be given
-- its time first.
-- On PostgreSQL what somebody is working on is left alone: its owner gives a sign of life, or another recovers it.
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           coalesce(j.max_attempts, q.max_attempts), coalesce(j.max_crashes, q.max_crashes),
           coalesce(j.backoff_ms, q.backoff_ms), coalesce(j.backoff_max_ms, q.backoff_max_ms),
           CASE WHEN $3 = 1 AND j.warned IS NULL AND EXISTS (SELECT 1 FROM worker w WHERE w.id = j.worker_id)
                THEN min(max(coalesce(j.lease_for_ms, 60000) / 2, 1000), 10000) END
    FROM job j LEFT JOIN queue q ON q.name = j.queue
    WHERE j.state = 2 AND j.alarm_at <= now($1)
    ORDER BY j.alarm_at
    LIMIT $2) AS expired
UNION ALL
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           NULL, NULL, NULL, NULL, NULL
    FROM job j
    WHERE j.state = 0 AND j.alarm_at <= now($1)
    ORDER BY j.alarm_at
    LIMIT $2) AS due;
-- dialect: postgres
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           coalesce(j.max_attempts, q.max_attempts) AS max_attempts,
           coalesce(j.max_crashes, q.max_crashes) AS max_crashes,
           coalesce(j.backoff_ms, q.backoff_ms) AS backoff_ms,
           coalesce(j.backoff_max_ms, q.backoff_max_ms) AS backoff_max_ms,
           CASE WHEN EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token) THEN 0
                WHEN $3 = 1 AND j.warned IS NULL AND EXISTS (SELECT 1 FROM worker w WHERE w.id = j.worker_id)
                THEN least(greatest(coalesce(j.lease_for_ms, 60000) / 2, 1000), 10000) END AS spared
    FROM job j LEFT JOIN queue q ON q.name = j.queue
    WHERE j.state = 2 AND j.alarm_at <= now($1)
    ORDER BY j.alarm_at
    LIMIT $2
    FOR UPDATE OF j SKIP LOCKED) AS expired
UNION ALL
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
    FROM job j
    WHERE j.state = 0 AND j.alarm_at <= now($1)
    ORDER BY j.alarm_at
    LIMIT $2
    FOR UPDATE OF j SKIP LOCKED) AS due;

-- Who has locked the row of job j on PostgreSQL, as far as one can see: the session whose transaction stands in the row,
-- if it is still under way. How long is since that transaction began.
-- define: row_holder
SELECT a.pid::bigint AS pid, coalesce(nullif(a.application_name, ''), a.usename::text) AS program,
       host(a.client_addr) AS host,
       floor(date_part('epoch', clock_timestamp() - a.xact_start) * 1000)::bigint AS for_ms
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = j.xmax AND l.pid <> pg_backend_pid()
  AND EXISTS (SELECT 1 FROM pg_locks r
              WHERE r.pid = l.pid AND r.locktype = 'relation' AND r.relation = 'job'::regclass)
LIMIT 1

-- define: stale
j.state = 2 AND j.alarm_at <= CASE WHEN $2::bigint IS NULL THEN now($1) ELSE 9223372036854775807 END
AND (j.alarm_at <= now($1) OR j.seen_at <= now($1) - $2::bigint)

-- name: job_skipped
-- What job_alarms, and job_silent with $2 ms (else NULL), left alone because others have locked it: the first $3, with how
-- many there are and who holds each. Index job_alarm. PostgreSQL only. Called by queue/holder.c.
SELECT $1, $2, $3 WHERE false;
-- dialect: postgres
WITH free AS MATERIALIZED (
    SELECT j.id FROM job j WHERE {stale} FOR UPDATE SKIP LOCKED
)
SELECT j.id, count(*) OVER (), h.pid, h.program, h.host, h.for_ms
FROM job j LEFT JOIN LATERAL ({row_holder}) h ON true
WHERE {stale} AND NOT EXISTS (SELECT 1 FROM free f WHERE f.id = j.id)
ORDER BY j.id + 0
LIMIT $3;

-- name: job_held
-- The same, in a transaction that only reads: stale jobs whose row is seen to be locked by another session. One that several
-- have locked together, as foreign keys do, is not seen. Index job_alarm. PostgreSQL only. Called by queue/holder.c.
SELECT $1, $2, $3 WHERE false;
-- dialect: postgres
SELECT j.id, count(*) OVER (), h.pid, h.program, h.host, h.for_ms
FROM job j CROSS JOIN LATERAL ({row_holder}) h
WHERE {stale}
ORDER BY j.id + 0
LIMIT $3;

-- name: job_row_holder
-- Who has locked the row of job $1. Primary key. PostgreSQL only. Called by queue/holder.c.
SELECT $1 WHERE false;
-- dialect: postgres
SELECT j.id, 1, h.pid, h.program, h.host, h.for_ms
FROM job j CROSS JOIN LATERAL ({row_holder}) h
WHERE j.id = $1;

-- name: job_next_alarm
-- When the clock acts next, later than $1. Index job_alarm, once per state. Called by queue/wait.c.
SELECT min(at)
FROM (SELECT min(alarm_at) AS at FROM job WHERE state = 0 AND alarm_at > $1
      UNION ALL
      SELECT min(alarm_at) AS at FROM job WHERE state = 2 AND alarm_at > $1) AS alarm;

-- name: job_stale_count
-- How many leases have expired, without those that are given their time first, because a move has left them alone. Index
-- job_alarm. Called by queue/recover.c.
SELECT count(*)
FROM job j
WHERE j.state = 2 AND j.alarm_at <= now($1)
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token);

-- name: job_silent
-- Leases without a sign of life for $2 ms. Index job_alarm, all that are running. Called by queue/recover.c.
-- On PostgreSQL as job_alarms: a sign of life that is being written counts, and so does one that was written meanwhile.
-- What a move of the clock has left alone is given its time first (clock_left).
SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
       coalesce(j.max_attempts, q.max_attempts), coalesce(j.max_crashes, q.max_crashes),
       coalesce(j.backoff_ms, q.backoff_ms), coalesce(j.backoff_max_ms, q.backoff_max_ms)
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND j.seen_at <= now($1) - $2
LIMIT $3;
-- dialect: postgres
SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
       coalesce(j.max_attempts, q.max_attempts), coalesce(j.max_crashes, q.max_crashes),
       coalesce(j.backoff_ms, q.backoff_ms), coalesce(j.backoff_max_ms, q.backoff_max_ms)
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND j.seen_at <= now($1) - $2
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token)
LIMIT $3
FOR UPDATE OF j SKIP LOCKED;

-- define: leases_of_worker
SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
       coalesce(j.max_attempts, q.max_attempts), coalesce(j.max_crashes, q.max_crashes),
       coalesce(j.backoff_ms, q.backoff_ms), coalesce(j.backoff_max_ms, q.backoff_max_ms)
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND j.worker_id = $1

-- name: job_of_worker
-- Leases held by one worker. Index job_alarm, all that are running: a worker dies rarely. Called by
-- queue/recover.c and queue/worker.c. On PostgreSQL they are locked, by id (+ 0: not by the index of the ids, which has
-- all jobs).
{leases_of_worker};
-- dialect: postgres
{leases_of_worker}
ORDER BY j.id + 0
FOR UPDATE OF j;

-- name: job_of_dead
-- The same of a worker that is dead, $2 at most. On PostgreSQL what somebody is working on is left alone: job_left.
-- Called by queue/recover.c.
{leases_of_worker}
LIMIT $2;
-- dialect: postgres
{leases_of_worker}
ORDER BY j.id + 0
LIMIT $2
FOR UPDATE OF j SKIP LOCKED;

-- name: job_left
-- The leases of one worker, the first $2: those whose row is seen to be locked by another session come first, with how
-- many they are and who holds each; the last column counts all. Index job_alarm, all that are running. PostgreSQL only.
-- Called by queue/holder.c.
SELECT $1, $2 WHERE false;
-- dialect: postgres
SELECT j.id, count(h.pid) OVER (), h.pid, h.program, h.host, h.for_ms, count(*) OVER ()
FROM job j LEFT JOIN LATERAL ({row_holder}) h ON true
WHERE j.state = 2 AND j.alarm_at IS NOT NULL AND j.worker_id = $1
ORDER BY h.pid IS NULL, j.id + 0
LIMIT $2;

-- name: job_ahead
-- Jobs before one in its queue: pending, and scheduled ones that are due, which the next claim makes pending. Indexes
-- job_pending, job_alarm. Called by queue/explain_queue.c.
SELECT (SELECT count(*)
        FROM job
        WHERE queue = $1 AND state = 1
          AND (priority < $2 OR (priority = $2 AND (due_at < $3 OR (due_at = $3 AND id < $4)))))
     + (SELECT count(*)
        FROM job
        WHERE state = 0 AND alarm_at <= now($5) AND queue = $1
          AND (priority < $2 OR (priority = $2 AND (due_at < $3 OR (due_at = $3 AND id < $4)))));

-- name: job_last_end
-- How the last lease of a job has ended: who ended it, by which event, why. No row: never leased, or that event was
-- deleted. Along the chain, as job_fence. Primary keys. Called by queue/explain.c.
WITH RECURSIVE chain (prev, who, what, why, from_state, to_state) AS (
    SELECT e.prev, e.who, e.what, e.why, e.from_state, e.to_state
    FROM event e
    WHERE e.id = (SELECT event_id FROM job WHERE id = $1)
    UNION ALL
    SELECT e.prev, e.who, e.what, e.why, e.from_state, e.to_state
    FROM chain c JOIN event e ON e.id = c.prev
    WHERE coalesce(c.from_state, -1) <> 2 OR c.to_state = 2
)
SELECT who, what, why FROM chain WHERE from_state = 2 AND to_state <> 2;

-- name: job_unhandled
-- Who has given back a job of queue $2 and kind $3 for a reason like $4, as far as it comes back within a minute. Index
-- job_alarm: costs what is due so soon. Called by queue/explain_step.c.
SELECT changed_by
FROM job
WHERE state = 0 AND alarm_at > now($1) AND alarm_at <= now($1) + 60000 AND queue = $2 AND kind = $3
  AND changed_what = 'job.released' AND changed_why LIKE $4
LIMIT 1;

-- name: job_expired_finished
-- Finished jobs whose retention is over, $4 at most, those that finished first. Index job_resting in its order, by all
-- three columns: costs what it finds. It takes both ends of the time: with one, SQLite would rather seek by the state that
-- makes the index usable (>= 3) and read all finished jobs of the queue, and PostgreSQL all jobs. Called by queue/retain.c.
-- On PostgreSQL what somebody is working on (brings back) is left for the next time.
SELECT id
FROM job
WHERE queue = $1 AND state >= 3 AND state = $2 AND finished_at BETWEEN 0 AND $3
ORDER BY finished_at
LIMIT $4;
-- dialect: postgres
SELECT id
FROM job
WHERE queue = $1 AND state >= 3 AND state = $2 AND finished_at BETWEEN 0 AND $3
ORDER BY finished_at
LIMIT $4
FOR UPDATE SKIP LOCKED;

-- name: job_expired_count
-- How many of them there are. Index job_resting. Called by queue/retain.c.
SELECT count(*)
FROM job
WHERE queue = $1 AND state >= 3 AND state = $2 AND finished_at BETWEEN 0 AND $3;

-- name: job_delete
-- For db_each. Called by queue/retain.c.
DELETE FROM job WHERE id = $1 AND state >= 4;
-- dialect: postgres
DELETE FROM job
USING unnest($1::bigint[]) WITH ORDINALITY AS u (id, ordinal)
WHERE job.id = u.id AND state + 0 >= 4
RETURNING u.ordinal, 1;
