-- Jobs: reading, and the one statement that moves them. Adding is in add.sql, claims are in claim.sql.
--
-- How these files are read (tools/sqlgen.c):
--   -- name: job_get(id, now)   begins a query and lists its parameters. Comments below it say what it does, who
--                               calls it and which index carries it. C gives the parameters and reads the columns
--                               by name (store/queries.h).
--   :id                         a parameter.
--   {running}                   the number of a state, or the text of a define.
--   -- define: job              begins a text that queries use in braces; its parameters are theirs.
--   -- dialect: postgres        begins the variant for PostgreSQL, where the engines differ. A query meant for
--                               db_each gets its parameters there as arrays, and returns one row per element in
--                               order, or (ordinal, value).
--   -- each:                    begins what SQLite runs for every row of the statement before; :found is the row's
--                               first column.
--   -- many:                    begins what SQLite runs once instead, when there are many rows. They are in the table
--                               given: found, or the parameters, and event, the id of the event that each leaves.
--   -- doing: A | B             what a sentence about a failure says of the file's queries: that read | that write.
--   now(:now)                   store time: the parameter on SQLite; on PostgreSQL the server's clock, unless given.
--   next_event()                the id of the event that the statement leaves: nextval() on PostgreSQL; on SQLite a
--                               parameter, because a statement that calls a function (also max and min) and fires
--                               a trigger would make SQLite copy every page it touches first.
--   token_base()                the store's; on SQLite a parameter as well.

-- Numbered from 0, as in core/state.h and tend.h.
-- states: scheduled pending running held done failed cancelled
-- states: attempt_running attempt_succeeded attempt_failed attempt_stopped attempt_lost

-- doing: reading jobs | changing jobs

-- define: job
id, queue, kind, state, priority, due_at, token, owner, worker_id, alarm_at, started_at, seen_at,
attempts, crashes, changed_at, changed_by, changed_what, changed_why, version, created_at,
finished_at, phase, unique_key, subject, concurrency_key, tags, workspace, schedule,
max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, error_class, error_text,
result, payload, stopped_token, nominal_at, followed, coalesce(hook, retry_hook) AS hook

-- name: job_get(id, now)
SELECT {job}, now(:now) AS now FROM job WHERE id = :id;

-- name: job_watch(ids, now)
-- How the jobs of a JSON array of ids are now, by id. Primary key. Called by queue/watch.c.
SELECT id, state, version, queue, changed_at, now(:now) AS now
FROM job
WHERE id IN (SELECT value FROM json_each(:ids))
ORDER BY id;
-- dialect: postgres
SELECT id, state, version, queue, changed_at, now(:now) AS now
FROM job
WHERE id = ANY (ARRAY(SELECT j.value::bigint FROM json_array_elements_text(:ids::json) AS j (value)))
ORDER BY id;

-- name: job_rival(id)
-- The live job that has the unique key of job :id. Primary key, then index job_unique. Called by queue/act.c
-- and queue/act_plan.c.
SELECT other.id
FROM job JOIN job AS other ON other.queue = job.queue AND other.unique_key = job.unique_key
WHERE job.id = :id AND other.id <> :id AND other.finished_at IS NULL;

-- Which jobs a filter chooses, between two ids. :states is a mask of states, :changed_to the newest change that counts.
-- Primary key.
-- define: chosen
id > :after_id AND id < :before_id
  AND (:queue IS NULL OR queue = :queue)
  AND (:states = 0 OR ((1 << state) & :states) <> 0)
  AND (:kind IS NULL OR kind = :kind)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) WHERE value = :tag))
  AND (:changed_to IS NULL OR changed_at <= :changed_to)

-- define: chosen_postgres
id > :after_id AND id < :before_id
  AND (:queue::text IS NULL OR queue = :queue)
  AND (:states = 0 OR ((1 << state) & :states) <> 0)
  AND (:kind::text IS NULL OR kind = :kind)
  AND (:tag::text IS NULL OR EXISTS (SELECT 1 FROM json_array_elements_text(tags::json) AS t (tag)
                                   WHERE t.tag = :tag))
  AND (:changed_to::bigint IS NULL OR changed_at <= :changed_to)

-- name: job_list(queue, states, kind, tag, changed_to, after_id, limit, before_id)
-- A page of those that are chosen, in order of id. Called by queue/row.c.
SELECT {job} FROM job WHERE {chosen} ORDER BY id LIMIT :limit;
-- dialect: postgres
SELECT {job} FROM job WHERE {chosen_postgres} ORDER BY id LIMIT :limit;

-- name: job_list_newest(queue, states, kind, tag, changed_to, after_id, limit, before_id)
-- The same from the other end. Called by queue/row.c.
SELECT {job} FROM job WHERE {chosen} ORDER BY id DESC LIMIT :limit;
-- dialect: postgres
SELECT {job} FROM job WHERE {chosen_postgres} ORDER BY id DESC LIMIT :limit;

-- name: job_chosen(queue, states, kind, tag, changed_to, after_id, limit, before_id)
-- A page in order of id, with what decides about an action only: the key, and the live job that has it. Index
-- job_unique. Called by queue/act_plan.c.
SELECT id, queue, unique_key, followed,
       (SELECT other.id FROM job AS other
        WHERE other.queue = job.queue AND other.unique_key = job.unique_key AND other.finished_at IS NULL) AS rival
FROM job WHERE {chosen} ORDER BY id LIMIT :limit;
-- dialect: postgres
SELECT id, queue, unique_key, followed,
       (SELECT other.id FROM job AS other
        WHERE other.queue = job.queue AND other.unique_key = job.unique_key AND other.finished_at IS NULL) AS rival
FROM job WHERE {chosen_postgres} ORDER BY id LIMIT :limit;

-- name: job_queue(id)
-- Where a job is. Primary key. Called by queue/bell.c.
SELECT queue FROM job WHERE id = :id;

-- What decides about a job whose lease ends badly: its own settings, else its queue's.
-- define: policy
j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
coalesce(j.max_attempts, q.max_attempts) AS max_attempts, coalesce(j.max_crashes, q.max_crashes) AS max_crashes,
coalesce(j.backoff_ms, q.backoff_ms) AS backoff_ms, coalesce(j.backoff_max_ms, q.backoff_max_ms) AS backoff_max_ms

-- name: job_policy(id)
-- What decides about a job whose lease ends badly: its own settings, else its queue's. Primary key.
-- Called by queue/finish.c and queue/recover.c.
SELECT {policy}
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.id = :id;

-- name: job_move(id, old_state, token, new_state, bump, delay_ms, attempts, crashes, error_class, error_text,
--       who, why, now, what)
-- The choke point: every move of a job that is not a claim or a completion; for db_each. :new_state new state, :bump
-- added to the token, :delay_ms due so many ms from now (NULL: unchanged), :attempts added to the attempts (NULL: they
-- start over; unless 0, its steps have full budgets again), :crashes new number of crashes (NULL: unchanged),
-- :error_class to :why error and why. Not for a run that a submission waits for (submission.sql): queue/move.c takes it
-- off first. A cancel or a hold remembers the lease it ended (stopped_token), until the job can be claimed again.
-- Called by queue/move.c. Primary key.
UPDATE OR FAIL job
SET state = :new_state, token = token + :bump,
    stopped_token = CASE WHEN :new_state IN ({held}, {cancelled})
                         THEN CASE WHEN :old_state = {running} THEN token ELSE stopped_token END END,
    owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, warned = NULL,
    due_at = coalesce(now(:now) + :delay_ms, due_at),
    alarm_at = CASE WHEN :new_state = {scheduled} THEN coalesce(now(:now) + :delay_ms, due_at) END,
    attempts = coalesce(attempts + :attempts, 0),
    life_token = CASE WHEN :attempts = 0 THEN life_token ELSE token + :bump END,
    crashes = coalesce(:crashes, crashes),
    finished_at = CASE WHEN :new_state >= {done} THEN now(:now) END,
    error_class = coalesce(:error_class, error_class), error_text = coalesce(:error_text, error_text),
    version = version + 1, event_id = next_event(), changed_at = now(:now),
    changed_by = coalesce(:who, owner), changed_what = :what, changed_why = :why
WHERE id = :id AND state = :old_state AND token = :token AND followed IS NULL;
-- dialect: postgres
UPDATE job
SET state = u.new_state, token = job.token + u.bump,
    stopped_token = CASE WHEN u.new_state IN ({held}, {cancelled})
                         THEN CASE WHEN u.old_state = {running} THEN job.token ELSE job.stopped_token END END,
    owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, warned = NULL,
    due_at = coalesce(c.t + u.delay, job.due_at),
    alarm_at = CASE WHEN u.new_state = {scheduled} THEN coalesce(c.t + u.delay, job.due_at) END,
    attempts = coalesce(job.attempts + u.attempts, 0),
    life_token = CASE WHEN u.attempts = 0 THEN job.life_token ELSE job.token + u.bump END,
    crashes = coalesce(u.crashes, job.crashes),
    finished_at = CASE WHEN u.new_state >= {done} THEN c.t END,
    error_class = coalesce(u.error_class, job.error_class),
    error_text = coalesce(u.error_text, job.error_text),
    version = job.version + 1, event_id = next_event(), changed_at = c.t,
    changed_by = coalesce(u.who, job.owner), changed_what = u.what, changed_why = u.why
FROM (SELECT now_each(:now) AS t OFFSET 0) c,
     unnest(:id::bigint[], :old_state::smallint[], :token::bigint[], :new_state::smallint[], :bump::bigint[],
            :delay_ms::bigint[], :attempts::bigint[], :crashes::bigint[], :error_class::text[],
            :error_text::text[], :who::text[], :why::text[], :what::text[]) WITH ORDINALITY
         AS u (id, old_state, token, new_state, bump, delay, attempts, crashes, error_class,
               error_text, who, why, what, ordinal)
WHERE job.id = u.id AND job.state = u.old_state AND job.token = u.token AND job.followed IS NULL
RETURNING u.ordinal, 1;

-- name: job_lock_rows(id)
-- Jobs that several statements of one transaction wait for, by id. PostgreSQL only: called by store/pg_order.c and
-- queue/move.c.
-- dialect: postgres
SELECT id FROM job WHERE id = ANY (ARRAY(SELECT unnest(:id::bigint[]))) ORDER BY id FOR NO KEY UPDATE;

-- name: job_new_life(id)
-- Its steps have full budgets again, as after a retry. Primary key. Called by queue/control.c.
UPDATE job SET life_token = token WHERE id = :id;

-- name: job_complete(id, token, result, now)
-- The owner reports success, and the error of an earlier attempt goes; for db_each. Primary key. Not for a job that was
-- taken under a lock, or whose end a submission waits for. Called by queue/lease.c.
UPDATE OR FAIL job
SET state = {done}, owner = NULL, worker_id = NULL, started_at = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now(:now), result = :result, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = now(:now), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
WHERE id = :id AND token = :token AND state = {running} AND lock_name IS NULL AND followed IS NULL;
-- many:
UPDATE OR FAIL job
SET state = {done}, owner = NULL, worker_id = NULL, started_at = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = now(:now), result = given.result, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = given.event, changed_at = now(:now), changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM given
WHERE job.id = given.id AND token = given.token AND state = {running} AND lock_name IS NULL AND followed IS NULL;
-- dialect: postgres
UPDATE job
SET state = {done}, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = c.t, result = u.result, error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM (SELECT now_each(:now) AS t OFFSET 0) c,
     unnest(:id::bigint[], :token::bigint[], :result::text[]) WITH ORDINALITY
         AS u (id, token, result, ordinal)
WHERE job.id = u.id AND job.token = u.token AND state + 0 = {running} AND followed IS NULL
RETURNING u.ordinal, 1;

-- name: job_complete_one(id, token, result, now)
-- job_complete for one job, in the same way. Called by store/pg_query.c.
-- dialect: postgres
UPDATE job
SET state = {done}, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = coalesce(:now::bigint, store_clock()), result = :result,
    error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = coalesce(:now::bigint, store_clock()),
    changed_by = owner, changed_what = 'job.completed', changed_why = NULL
WHERE id = :id AND token = :token AND state + 0 = {running} AND followed IS NULL;

-- name: job_complete_alike(id, token, result, now)
-- job_complete for jobs whose leases have the same token and which have no result: most of those that are completed
-- together. PostgreSQL need not join them with a list then. Returns the ids of those that were. Called by
-- store/pg_query.c.
-- dialect: postgres
UPDATE job
SET state = {done}, owner = NULL, worker_id = NULL, started_at = NULL, lock_name = NULL, alarm_at = NULL,
    attempts = attempts + 1, finished_at = c.t, result = (:result::text[])[1], error_class = NULL, error_text = NULL,
    version = version + 1, event_id = next_event(), changed_at = c.t, changed_by = owner,
    changed_what = 'job.completed', changed_why = NULL
FROM (SELECT now_each(:now) AS t OFFSET 0) c
WHERE id = ANY (:id::bigint[]) AND token = (:token::bigint[])[1] AND state + 0 = {running} AND followed IS NULL
RETURNING id;

-- name: job_unlock(id, token)
-- Before completing a job that was taken under a lock: the lock is given up; for db_each. Called by queue/lease.c. Not
-- run on PostgreSQL, where the trigger of the completion does it, and where a first pass over some of the jobs would
-- lock them in another order than the second over all. One whose end a submission waits for is not completed yet, and
-- keeps its lock.
UPDATE job
SET lock_name = NULL
WHERE id = :id AND token = :token AND state = {running} AND lock_name IS NOT NULL AND followed IS NULL;

-- name: job_start(id, token, now)
-- Work begins: from here on a crash counts; for db_each. Called by queue/lease.c.
-- PostgreSQL: a row that another session has locked is skipped, so that it holds up no other; and a lease that is named
-- twice is answered twice.
UPDATE job
SET started_at = coalesce(started_at, now(:now)), seen_at = now(:now), warned = NULL
WHERE id = :id AND token = :token AND state = {running};
-- dialect: postgres
WITH held AS (
    SELECT j.id, u.ordinal
    FROM unnest(:id::bigint[], :token::bigint[]) WITH ORDINALITY AS u (id, token, ordinal),
         job j
    WHERE j.id = u.id AND j.token = u.token AND j.state + 0 = {running}
    FOR NO KEY UPDATE OF j SKIP LOCKED
), started AS (
    UPDATE job
    SET started_at = coalesce(started_at, c.t), seen_at = c.t, warned = NULL
    FROM (SELECT now_each(:now) AS t OFFSET 0) c, held
    WHERE job.id = held.id
)
SELECT ordinal, 1 FROM held;

-- name: job_heartbeat(id, token, ttl_ms, now)
-- The owner is alive: the lease starts over with the length it has, or :ttl_ms ms, which is its length from now on; for
-- db_each. Called by queue/lease.c. PostgreSQL: as job_start.
UPDATE job
SET alarm_at = now(:now) + coalesce(:ttl_ms, lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
    lease_for_ms = coalesce(:ttl_ms, lease_for_ms), seen_at = now(:now), warned = NULL
WHERE id = :id AND token = :token AND state = {running};
-- dialect: postgres
WITH held AS (
    SELECT j.id, u.ttl, u.ordinal
    FROM unnest(:id::bigint[], :token::bigint[], :ttl_ms::bigint[]) WITH ORDINALITY AS u (id, token, ttl, ordinal),
         job j
    WHERE j.id = u.id AND j.token = u.token AND j.state + 0 = {running}
    FOR NO KEY UPDATE OF j SKIP LOCKED
), extended AS (
    UPDATE job
    SET alarm_at = c.t + coalesce(held.ttl, lease_for_ms, lease_ms,
                                  (SELECT q.lease_ms FROM queue q WHERE q.name = job.queue), 60000),
        lease_for_ms = coalesce(held.ttl, lease_for_ms), seen_at = c.t, warned = NULL
    FROM (SELECT now_each(:now) AS t OFFSET 0) c, held
    WHERE job.id = held.id
)
SELECT ordinal, 1 FROM held;

-- name: job_phase(id, token, phase, now)
-- Where the job is, with an event. Called by queue/lease.c.
UPDATE job
SET phase = :phase, seen_at = now(:now), version = version + 1
WHERE id = :id AND token = :token AND state = {running};
-- dialect: postgres
UPDATE job
SET phase = :phase, seen_at = now(:now), version = version + 1
WHERE id = :id AND token = :token AND state + 0 = {running};

-- name: job_fence(id, token)
-- What became of lease :token of job :id, which an owner's call did not match, and the event with which its owner has
-- ended it, if that is so: moves that need no lease may have come since, so it is looked for along the chain. Primary
-- keys. Called by queue/lease.c. The columns after that event say what stands: its state, its time and its reason; the
-- job's due time, NULL when somebody has changed that since; the job's error.
WITH RECURSIVE chain (prev, what, from_state, to_state, token, at, why) AS (
    SELECT e.prev, e.what, e.from_state, e.to_state, e.token, e.at, e.why
    FROM job j JOIN event e ON e.id = j.event_id
    WHERE j.id = :id AND j.token = :token AND j.state <> {running}
    UNION ALL
    SELECT e.prev, e.what, e.from_state, e.to_state, e.token, e.at, e.why
    FROM chain c JOIN event e ON e.id = c.prev
    WHERE c.from_state <> {running} OR c.to_state = {running}
)
SELECT j.state, j.token, j.owner, j.result,
       c.what AS ending, c.to_state AS ending_state, c.at AS ending_at, c.why AS ending_why,
       CASE WHEN j.changed_what IN (c.what, 'job.due') THEN j.due_at END AS due_at, j.error_class, j.error_text
FROM job j
LEFT JOIN (SELECT what, to_state, at, why
           FROM chain
           WHERE from_state = {running} AND to_state <> {running} AND token = :token) c ON 1 = 1
WHERE j.id = :id;

-- name: job_due(id, now, who)
-- A scheduled job's time has come; for db_each. Called by queue/recover.c.
UPDATE OR FAIL job
SET state = {pending}, alarm_at = NULL, version = version + 1, event_id = next_event(),
    changed_at = now(:now), changed_by = :who, changed_what = 'job.due', changed_why = NULL
WHERE id = :id AND state = {scheduled} AND alarm_at <= now(:now);
-- dialect: postgres
UPDATE job
SET state = {pending}, alarm_at = NULL, version = version + 1, event_id = next_event(),
    changed_at = c.t, changed_by = u.who, changed_what = 'job.due', changed_why = NULL
FROM (SELECT now_each(:now) AS t OFFSET 0) c,
     unnest(:id::bigint[], :who::text[]) WITH ORDINALITY AS u (id, who, ordinal)
WHERE job.id = u.id AND state + 0 = {scheduled} AND alarm_at + 0 <= c.t
RETURNING u.ordinal, 1;

-- name: clock_acts(now)
-- A row when the clock has something to do now: a lease or a lock has expired, a scheduled job is due, or a schedule.
-- Mostly it has not, and this costs a third of looking what it is. Indexes job_alarm, lock_expiry, schedule_next.
-- The column: when the newest of the schedules was due, NULL when it is none of them. Called by queue/claim.c.
SELECT (SELECT max(next_at) FROM schedule WHERE next_at <= now(:now) AND paused = 0) AS schedule_due_at
WHERE EXISTS (SELECT 1 FROM job WHERE state = {running} AND alarm_at <= now(:now))
   OR EXISTS (SELECT 1 FROM job WHERE state = {scheduled} AND alarm_at <= now(:now))
   OR EXISTS (SELECT 1 FROM lock WHERE expires_at <= now(:now))
   OR EXISTS (SELECT 1 FROM schedule WHERE next_at <= now(:now) AND paused = 0);

-- name: job_alarms(now, limit, warns)
-- What the clock acts on now: scheduled jobs that are due and leases that have expired (:limit of each at most), with
-- what decides about the latter. Index job_alarm, once per state: costs what it finds. Called by queue/recover.c. The
-- last column: for how many ms more a lease is spared (job_warn), NULL: it is over. :warns = 1: the clock may have
-- jumped or the server been away, so that nobody could renew in time. A registered worker that is not known to be dead
-- is given half its lease, from 1 s to 10 s, once. 0 ms: a move has left it alone (clock_left), and it is to be given
-- its time first. On PostgreSQL what somebody is working on is left alone: its owner gives a sign of life, or another
-- recovers it.
SELECT * FROM (
    SELECT {policy},
           CASE WHEN :warns = 1 AND j.warned IS NULL AND EXISTS (SELECT 1 FROM worker w WHERE w.id = j.worker_id)
                THEN min(max(coalesce(j.lease_for_ms, 60000) / 2, 1000), 10000) END AS spared_ms
    FROM job j LEFT JOIN queue q ON q.name = j.queue
    WHERE j.state = {running} AND j.alarm_at <= now(:now)
    ORDER BY j.alarm_at
    LIMIT :limit) AS expired
UNION ALL
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           NULL, NULL, NULL, NULL, NULL
    FROM job j
    WHERE j.state = {scheduled} AND j.alarm_at <= now(:now)
    ORDER BY j.alarm_at
    LIMIT :limit) AS due;
-- dialect: postgres
SELECT * FROM (
    SELECT {policy},
           CASE WHEN EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token) THEN 0
                WHEN :warns = 1 AND j.warned IS NULL AND EXISTS (SELECT 1 FROM worker w WHERE w.id = j.worker_id)
                THEN least(greatest(coalesce(j.lease_for_ms, 60000) / 2, 1000), 10000) END AS spared_ms
    FROM job j LEFT JOIN queue q ON q.name = j.queue
    WHERE j.state = {running} AND j.alarm_at <= now(:now)
    ORDER BY j.alarm_at
    LIMIT :limit
    FOR UPDATE OF j SKIP LOCKED) AS expired
UNION ALL
SELECT * FROM (
    SELECT j.id, j.state, j.token, j.attempts, j.crashes, j.started_at, j.owner, j.queue,
           NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint
    FROM job j
    WHERE j.state = {scheduled} AND j.alarm_at <= now(:now)
    ORDER BY j.alarm_at
    LIMIT :limit
    FOR UPDATE OF j SKIP LOCKED) AS due;

-- Who has locked the row of job j on PostgreSQL, as far as one can see: the session whose transaction stands in the
-- row, if it is still under way. How long is since that transaction began.
-- define: row_holder
SELECT a.pid::bigint AS pid, coalesce(nullif(a.application_name, ''), a.usename::text) AS program,
       host(a.client_addr) AS host,
       floor(date_part('epoch', clock_timestamp() - a.xact_start) * 1000)::bigint AS for_ms
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = j.xmax AND l.pid <> pg_backend_pid()
  AND EXISTS (SELECT 1 FROM pg_locks r
              WHERE r.pid = l.pid AND r.locktype = 'relation' AND r.relation = 'job'::regclass)
LIMIT 1

-- What of it is told.
-- define: holder
h.pid, h.program, h.host, h.for_ms

-- define: stale
j.state = {running} AND j.alarm_at <= CASE WHEN :silent_ms::bigint IS NULL THEN now(:now) ELSE 9223372036854775807 END
AND (j.alarm_at <= now(:now) OR j.seen_at <= now(:now) - :silent_ms::bigint)

-- name: job_skipped(now, silent_ms, limit)
-- What job_alarms, and job_silent with :silent_ms ms (else NULL), left alone because others have locked it: the first
-- :limit, with how
-- many there are and who holds each. Index job_alarm. PostgreSQL only. Called by queue/holder.c.
-- dialect: postgres
WITH free AS MATERIALIZED (
    SELECT j.id FROM job j WHERE {stale} FOR UPDATE SKIP LOCKED
)
SELECT j.id, count(*) OVER () AS held, {holder}
FROM job j LEFT JOIN LATERAL ({row_holder}) h ON true
WHERE {stale} AND NOT EXISTS (SELECT 1 FROM free f WHERE f.id = j.id)
ORDER BY j.id + 0
LIMIT :limit;

-- name: job_held(now, silent_ms, limit)
-- The same, in a transaction that only reads: stale jobs whose row is seen to be locked by another session. One that
-- several have locked together, as foreign keys do, is not seen. Index job_alarm. PostgreSQL only. Called by
-- queue/holder.c.
-- dialect: postgres
SELECT j.id, count(*) OVER () AS held, {holder}
FROM job j CROSS JOIN LATERAL ({row_holder}) h
WHERE {stale}
ORDER BY j.id + 0
LIMIT :limit;

-- name: job_row_holder(id)
-- Who has locked the row of job :id. Primary key. PostgreSQL only. Called by queue/holder.c.
-- dialect: postgres
SELECT j.id, 1 AS held, {holder}
FROM job j CROSS JOIN LATERAL ({row_holder}) h
WHERE j.id = :id;

-- name: job_next_alarm(after)
-- When the clock acts next, later than :after. Index job_alarm, once per state. Called by queue/wait.c.
SELECT min(at) AS at
FROM (SELECT min(alarm_at) AS at FROM job WHERE state = {scheduled} AND alarm_at > :after
      UNION ALL
      SELECT min(alarm_at) AS at FROM job WHERE state = {running} AND alarm_at > :after) AS alarm;

-- name: job_stale_count(now)
-- How many leases have expired, without those that are given their time first, because a move has left them alone.
-- Index job_alarm. Called by queue/recover.c.
SELECT count(*) AS jobs
FROM job j
WHERE j.state = {running} AND j.alarm_at <= now(:now)
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token);

-- name: job_silent(now, silent_ms, limit)
-- Leases without a sign of life for :silent_ms ms. Index job_alarm, all that are running. Called by queue/recover.c.
-- On PostgreSQL as job_alarms: a sign of life that is being written counts, and so does one that was written meanwhile.
-- What a move of the clock has left alone is given its time first (clock_left).
SELECT {policy}
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.seen_at <= now(:now) - :silent_ms
LIMIT :limit;
-- dialect: postgres
SELECT {policy}
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.seen_at <= now(:now) - :silent_ms
  AND NOT EXISTS (SELECT 1 FROM clock_left o WHERE o.job_id = j.id AND o.token = j.token)
LIMIT :limit
FOR UPDATE OF j SKIP LOCKED;

-- define: leases_of_worker
SELECT {policy}
FROM job j LEFT JOIN queue q ON q.name = j.queue
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.worker_id = :worker_id

-- name: job_of_worker(worker_id)
-- Leases held by one worker. Index job_alarm, all that are running: a worker dies rarely. Called by
-- queue/recover.c and queue/worker.c. On PostgreSQL they are locked, by id (+ 0: not by the index of the ids, which has
-- all jobs).
{leases_of_worker};
-- dialect: postgres
{leases_of_worker}
ORDER BY j.id + 0
FOR UPDATE OF j;

-- name: job_of_dead(worker_id, limit)
-- The same of a worker that is dead, :limit at most. On PostgreSQL what somebody is working on is left alone: job_left.
-- Called by queue/recover.c.
{leases_of_worker}
LIMIT :limit;
-- dialect: postgres
{leases_of_worker}
ORDER BY j.id + 0
LIMIT :limit
FOR UPDATE OF j SKIP LOCKED;

-- name: job_left(worker_id, limit)
-- The leases of one worker, the first :limit: those whose row is seen to be locked by another session come first, with
-- how
-- many they are and who holds each; the last column counts all. Index job_alarm, all that are running. PostgreSQL only.
-- Called by queue/holder.c.
-- dialect: postgres
SELECT j.id, count(h.pid) OVER () AS held, {holder}, count(*) OVER () AS total
FROM job j LEFT JOIN LATERAL ({row_holder}) h ON true
WHERE j.state = {running} AND j.alarm_at IS NOT NULL AND j.worker_id = :worker_id
ORDER BY h.pid IS NULL, j.id + 0
LIMIT :limit;

-- name: job_ahead(queue, priority, due_at, id, now)
-- Jobs before one in its queue: pending, and scheduled ones that are due, which the next claim makes pending. Indexes
-- job_pending, job_alarm. Called by queue/explain_queue.c.
SELECT (SELECT count(*)
        FROM job
        WHERE queue = :queue AND state = {pending}
          AND (priority < :priority
            OR (priority = :priority AND (due_at < :due_at OR (due_at = :due_at AND id < :id)))))
     + (SELECT count(*)
        FROM job
        WHERE state = {scheduled} AND alarm_at <= now(:now) AND queue = :queue
          AND (priority < :priority
            OR (priority = :priority AND (due_at < :due_at OR (due_at = :due_at AND id < :id))))) AS jobs;

-- name: job_last_end(id)
-- How the last lease of a job has ended: who ended it, by which event, why. No row: never leased, or that event was
-- deleted. Along the chain, as job_fence. Primary keys. Called by queue/explain.c.
WITH RECURSIVE chain (prev, who, what, why, from_state, to_state) AS (
    SELECT e.prev, e.who, e.what, e.why, e.from_state, e.to_state
    FROM event e
    WHERE e.id = (SELECT event_id FROM job WHERE id = :id)
    UNION ALL
    SELECT e.prev, e.who, e.what, e.why, e.from_state, e.to_state
    FROM chain c JOIN event e ON e.id = c.prev
    WHERE coalesce(c.from_state, -1) <> {running} OR c.to_state = {running}
)
SELECT who, what, why FROM chain WHERE from_state = {running} AND to_state <> {running};

-- name: job_unhandled(now, queue, kind, why)
-- Who has given back a job of queue :queue and kind :kind for a reason like :why, as far as it comes back within a
-- minute. Index job_alarm: costs what is due so soon. Called by queue/explain_step.c.
SELECT changed_by
FROM job
WHERE state = {scheduled} AND alarm_at > now(:now) AND alarm_at <= now(:now) + 60000 AND queue = :queue AND kind = :kind
  AND changed_what = 'job.released' AND changed_why LIKE :why
LIMIT 1;

-- name: job_expired_finished(queue, state, to_finished_at, limit)
-- Finished jobs whose retention is over, :limit at most, those that finished first. Index job_resting in its order, by
-- all three columns: costs what it finds. It takes both ends of the time: with one, SQLite would rather seek by the
-- state that makes the index usable (>= 3) and read all finished jobs of the queue, and PostgreSQL all jobs. Called by
-- queue/retain.c. On PostgreSQL what somebody is working on (brings back) is left for the next time.
SELECT id
FROM job
WHERE queue = :queue AND state >= {held} AND state = :state AND finished_at BETWEEN 0 AND :to_finished_at
ORDER BY finished_at
LIMIT :limit;
-- dialect: postgres
SELECT id
FROM job
WHERE queue = :queue AND state >= {held} AND state = :state AND finished_at BETWEEN 0 AND :to_finished_at
ORDER BY finished_at
LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: job_expired_count(queue, state, to_finished_at)
-- How many of them there are. Index job_resting. Called by queue/retain.c.
SELECT count(*) AS jobs
FROM job
WHERE queue = :queue AND state >= {held} AND state = :state AND finished_at BETWEEN 0 AND :to_finished_at;

-- name: job_delete(id)
-- For db_each. Called by queue/retain.c.
DELETE FROM job WHERE id = :id AND state >= {done};
-- dialect: postgres
DELETE FROM job
USING unnest(:id::bigint[]) WITH ORDINALITY AS u (id, ordinal)
WHERE job.id = u.id AND state + 0 >= {done}
RETURNING u.ordinal, 1;
