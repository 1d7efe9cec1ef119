-- The schema on PostgreSQL: the tables, columns and meanings of 001.sqlite.sql. {schema} stands for the
-- schema the tables live in (tend_schema in the URL); functions name it, because a trigger runs under
-- whatever search_path its caller has. {bell} is the class of the bell's advisory locks.
--
-- Enforced here, so that no writer can get around it: a job moves only as core/state.c allows, the facts
-- of its state hold, and every move leaves an event in the same transaction. Who moves a job says so in
-- changed_by, changed_what and changed_why; the triggers copy that into the event.
--
-- All of that is in statement-level triggers and none of it in CHECK constraints of the table job: a check,
-- and the WHEN of a trigger, is parsed anew in each statement, which costs a single add 17 us of 30, while
-- the plans inside a trigger function are kept. One statement of a thousand rows is checked and
-- recorded by one INSERT.
--
-- States: 0 scheduled, 1 pending, 2 running, 3 held, 4 done, 5 failed, 6 cancelled.
--
-- Ids come from one sequence: an event takes the next, and a job has the id of the event that added it.
-- Columns of fixed width that are never NULL come first: they are the cheapest to reach.

CREATE SEQUENCE event_id;

-- Store time: the clock of the server, in milliseconds.
CREATE FUNCTION store_clock() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint $$;

-- The next id of an event. The transaction has its own id before that: see event.horizon.
CREATE FUNCTION next_event() RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('{schema}.event_id') END $$;

-- The first transaction id that nobody has yet. In plpgsql, because that looks at the server as it is now
-- and not as it was when the statement began.
CREATE FUNCTION event_horizon() RETURNS xid8
LANGUAGE plpgsql VOLATILE
AS $$ BEGIN RETURN pg_snapshot_xmax(pg_current_snapshot()); END $$;

-- Whether a job added by this transaction need wake nobody. True: the lock keeps anybody from beginning to
-- wait until the transaction has ended and can be seen; see store/pg_session.c.
CREATE FUNCTION nobody_waits() RETURNS boolean
LANGUAGE sql VOLATILE
AS $$ SELECT pg_try_advisory_xact_lock({bell}, pg_backend_pid() & 63) $$;

CREATE TABLE job (
    id               bigint   PRIMARY KEY,
    due_at           bigint   NOT NULL,
    token            bigint   NOT NULL DEFAULT 0,   -- fences: grows with every lease, and when one is taken away
    event_id         bigint   NOT NULL,             -- its newest event; event.prev leads to the older ones
    changed_at       bigint   NOT NULL,
    created_at       bigint   NOT NULL,
    version          bigint   NOT NULL DEFAULT 1,
    attempts         bigint   NOT NULL DEFAULT 0,   -- that ended by complete or fail
    crashes          bigint   NOT NULL DEFAULT 0,   -- that ended with their worker
    state            smallint NOT NULL,
    priority         smallint NOT NULL,
    queue            text     COLLATE "C" NOT NULL,
    kind             text     COLLATE "C" NOT NULL,
    changed_by       text     COLLATE "C" NOT NULL,
    changed_what     text     COLLATE "C" NOT NULL, -- name of the event, e.g. job.claimed
    payload          text     COLLATE "C" NOT NULL, -- JSON
    alarm_at         bigint,                        -- when the clock acts on it: due (scheduled), end of lease (running)
    worker_id        bigint,                        -- the registered worker behind the lease; NULL: held by time alone
    started_at       bigint,                        -- NULL while running: leased, not begun, charged nothing
    seen_at          bigint,                        -- last sign of life: claim, start or heartbeat
    finished_at      bigint,
    max_attempts     bigint,                        -- NULL: as the queue says (also the next four)
    max_crashes      bigint,
    backoff_ms       bigint,
    backoff_max_ms   bigint,
    lease_ms         bigint,
    owner            text     COLLATE "C",          -- who holds the lease, by name
    lock_name        text     COLLATE "C",          -- the processing lock held along with the lease
    changed_why      text     COLLATE "C",
    phase            text     COLLATE "C",          -- where a running job is, in the words of its kind
    unique_key       text     COLLATE "C",
    subject          text     COLLATE "C",
    concurrency_key  text     COLLATE "C",
    tags             text     COLLATE "C",          -- JSON array of strings
    workspace        text     COLLATE "C",
    schedule         text     COLLATE "C",          -- name of the schedule that added it
    error_class      text     COLLATE "C",
    error_text       text     COLLATE "C",
    result           text     COLLATE "C"           -- JSON
);

-- Only what is live is indexed for claims, so that finished and future rows cost them nothing.
CREATE INDEX job_pending ON job (queue, priority, due_at, id) WHERE state = 1;
CREATE INDEX job_alarm ON job (state, alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX job_resting ON job (queue, state, finished_at) WHERE state >= 3;
CREATE UNIQUE INDEX job_unique ON job (queue, unique_key)
    WHERE unique_key IS NOT NULL AND finished_at IS NULL;

-- horizon makes it safe to follow events by id although transactions do not commit in that order: no
-- event with a smaller id can come from a transaction whose id is not below it. Such a transaction
-- took its own id before that of its event (next_event), which was before this event took its
-- id, which was before the horizon was read. See event_since.
CREATE TABLE event (
    id          bigint NOT NULL PRIMARY KEY,
    at          bigint NOT NULL,
    horizon     xid8   NOT NULL DEFAULT {schema}.event_horizon(),
    prev        bigint,                             -- the job's event before this one
    job_id      bigint,
    token       bigint,
    from_state  smallint,
    to_state    smallint,
    who         text   COLLATE "C" NOT NULL,
    what        text   COLLATE "C" NOT NULL,
    queue       text   COLLATE "C",
    owner       text   COLLATE "C",                 -- who held the lease before the change
    why         text   COLLATE "C",
    data        text   COLLATE "C"                  -- JSON
);

CREATE TABLE lock (
    name         text   COLLATE "C" PRIMARY KEY,
    token        bigint NOT NULL,                   -- kept while the lock is free, so that it only grows
    owner        text   COLLATE "C",                -- NULL: free
    worker_id    bigint,
    job_id       bigint,                            -- the job it was taken with; it ends with that lease
    acquired_at  bigint,
    expires_at   bigint,
    CHECK ((owner IS NULL) = (expires_at IS NULL))
);
CREATE INDEX lock_expiry ON lock (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX lock_worker ON lock (worker_id) WHERE worker_id IS NOT NULL;

-- Settings of a queue. A queue without a row, or a NULL: the default.
CREATE TABLE queue (
    name             text     COLLATE "C" PRIMARY KEY,
    paused           smallint NOT NULL DEFAULT 0,
    paused_why       text     COLLATE "C",
    serial           smallint NOT NULL DEFAULT 0,   -- one at a time, under the lock queue:NAME
    concurrency      bigint,                        -- running at once, over all workers
    key_concurrency  bigint,                        -- running at once for one concurrency_key
    rate_count       bigint,                        -- claims per rate_period_ms
    rate_period_ms   bigint,
    rate_level       bigint,                        -- micro-tokens at rate_at (core/limit.h)
    rate_at          bigint,
    lease_ms         bigint,
    max_attempts     bigint,
    max_crashes      bigint,
    backoff_ms       bigint,
    backoff_max_ms   bigint,
    keep_done_ms     bigint,                        -- retention of done and cancelled jobs
    keep_failed_ms   bigint,                        -- retention of dead letters
    version          bigint   NOT NULL DEFAULT 1
);

CREATE TABLE worker (
    id           bigint   GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name         text     COLLATE "C" NOT NULL,
    host         text     COLLATE "C" NOT NULL,
    boot_id      text     COLLATE "C" NOT NULL,
    pid          bigint   NOT NULL,
    pid_ns       bigint   NOT NULL,
    start_ticks  bigint   NOT NULL,
    session      smallint NOT NULL,                 -- 1: holds a liveness lock; 0: known by its pid alone
    since        bigint   NOT NULL,
    lost_at      bigint                             -- its liveness lock was first seen gone
);

CREATE TABLE schedule (
    name        text     COLLATE "C" PRIMARY KEY,
    cron        text     COLLATE "C" NOT NULL,
    queue       text     COLLATE "C" NOT NULL,
    kind        text     COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    payload     text     COLLATE "C" NOT NULL,
    catch_up    text     COLLATE "C" NOT NULL CHECK (catch_up IN ('none', 'one', 'all')),
    paused      smallint NOT NULL DEFAULT 0,
    last_at     bigint,
    next_at     bigint,                             -- NULL: never again
    version     bigint   NOT NULL DEFAULT 1
);
CREATE INDEX schedule_next ON schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0;

-- A job lives through three versions of its row. The room left in a page takes the next version in, so
-- that the log holds only the difference; vacuum comes by number of rows, not by share of the table,
-- because dead entries of job_pending are what slows claims down, however large the table has grown.
ALTER TABLE job SET (
    fillfactor = 60,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE event SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE lock SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE queue SET (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Ends a statement that would move a job as it must not. It is called where the state to be recorded is
-- expected, so that what is allowed costs one CASE.
CREATE FUNCTION job_refuse(id bigint, from_state smallint, to_state smallint) RETURNS smallint
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'job %: this change of state is not allowed', id
        USING ERRCODE = 'check_violation',
              DETAIL = format('from %s to %s', from_state, to_state),
              HINT = 'A move follows core/state.c, keeps the facts of its state and takes a new event_id.';
END
$$;

CREATE FUNCTION job_added() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO {schema}.event (id, horizon, at, job_id, queue, who, what, to_state, why)
    SELECT n.event_id, (SELECT pg_snapshot_xmax(pg_current_snapshot())), n.changed_at, n.id, n.queue,
           n.changed_by, n.changed_what,
           CASE WHEN n.priority BETWEEN 0 AND 9 AND CASE n.state
                         WHEN 0 THEN n.alarm_at IS NOT NULL
                         WHEN 1 THEN n.alarm_at IS NULL
                     END
                     AND n.owner IS NULL AND n.worker_id IS NULL AND n.started_at IS NULL
                     AND n.lock_name IS NULL AND n.finished_at IS NULL
                THEN n.state
                ELSE {schema}.job_refuse(n.id, NULL, n.state) END,
           n.changed_why
    FROM job_new n;
    RETURN NULL;
END
$$;
CREATE TRIGGER job_added AFTER INSERT ON job
    REFERENCING NEW TABLE AS job_new
    FOR EACH STATEMENT EXECUTE FUNCTION job_added();

-- The processing lock of a serial queue lasts as long as the lease it was taken with.
CREATE FUNCTION job_lock_follows(job bigint, old_lock text, new_lock text, until bigint) RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    IF new_lock IS NULL THEN
        UPDATE {schema}.lock
        SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
        WHERE name = old_lock AND job_id = job;
    ELSE
        UPDATE {schema}.lock SET expires_at = until WHERE name = new_lock AND job_id = job;
    END IF;
    RETURN true;
END
$$;

-- The masks are the rows of the table in core/state.c: bit n is set when state n can be reached. A row is
-- recorded when its state changes, or when it is rescheduled in the same state, which takes a new
-- version and a new event_id; whatever else changes, the facts of its state must hold.
--
-- The join is FULL so that it can only be carried out by sorting or hashing, however few rows the
-- statement had that was planned first; and a changed id, which leaves rows without partner, is refused.
-- Locks are seen to in the WHERE, because every row passes there and one without a lock pays nothing.
CREATE FUNCTION job_moved() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO {schema}.event
        (id, horizon, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
    SELECT n.event_id, (SELECT pg_snapshot_xmax(pg_current_snapshot())), o.event_id, n.changed_at, n.id,
           n.queue, n.changed_by, n.changed_what, o.state,
           CASE WHEN n.event_id <> o.event_id
                     AND (1 << n.state) & (CASE o.state
                         WHEN 0 THEN 1 + 2 + 8 + 64           -- scheduled -> scheduled, pending, held, cancelled
                         WHEN 1 THEN 1 + 2 + 4 + 8 + 64       -- pending -> scheduled, pending, running, held, cancelled
                         WHEN 2 THEN 1 + 2 + 8 + 16 + 32 + 64 -- running -> all but running
                         WHEN 3 THEN 1 + 2 + 64               -- held -> scheduled, pending, cancelled
                         WHEN 4 THEN 0                        -- done
                         ELSE 2 END) <> 0                     -- failed, cancelled -> pending
                     AND n.state BETWEEN 0 AND 6
                     AND (n.state = 2) = (n.owner IS NOT NULL)
                     AND (n.state = 2 OR n.state = 0) = (n.alarm_at IS NOT NULL)
                     AND (n.state >= 4) = (n.finished_at IS NOT NULL)
                     AND (n.state = 2
                          OR (n.worker_id IS NULL AND n.started_at IS NULL AND n.lock_name IS NULL))
                     AND n.priority BETWEEN 0 AND 9
                THEN n.state
                ELSE {schema}.job_refuse(coalesce(n.id, o.id), o.state, n.state) END,
           n.token, coalesce(o.owner, n.owner), n.changed_why
    FROM job_new n FULL JOIN job_old o ON o.id = n.id
    WHERE CASE
        WHEN (n.lock_name IS NOT NULL OR o.lock_name IS NOT NULL)
             AND NOT {schema}.job_lock_follows(n.id, o.lock_name, n.lock_name, n.alarm_at)
        THEN false
        ELSE n.state IS DISTINCT FROM o.state
             OR (n.event_id <> o.event_id AND n.version <> o.version)
             OR (n.state = 2) <> (n.owner IS NOT NULL)
             OR (n.state = 2 OR n.state = 0) <> (n.alarm_at IS NOT NULL)
             OR (n.state >= 4) <> (n.finished_at IS NOT NULL)
             OR (n.state <> 2
                 AND (n.worker_id IS NOT NULL OR n.started_at IS NOT NULL OR n.lock_name IS NOT NULL))
             OR n.priority NOT BETWEEN 0 AND 9
        END;
    RETURN NULL;
END
$$;
CREATE TRIGGER job_moved AFTER UPDATE ON job
    REFERENCING OLD TABLE AS job_old NEW TABLE AS job_new
    FOR EACH STATEMENT EXECUTE FUNCTION job_moved();

-- Events after an id, such that none is ever inserted before one that was given out, although transactions do not
-- end in the order in which they took ids. An id is taken only inside a statement that writes to job or event, whose
-- lock on that table lasts until the transaction has ended and can be seen. So: the newest id that was taken, then who
-- is writing at this moment; once those have ended, whoever else is writing by then, all up to that id is there.
-- (The xmax of a snapshot would not do for a mark: transactions beyond it may be running.) A writer that does not
-- end keeps the rest back, which is better than to leave something out.
CREATE FUNCTION events_since(after_id bigint, want bigint) RETURNS SETOF {schema}.event
LANGUAGE plpgsql VOLATILE ROWS 100
AS $$
DECLARE
    newest bigint;
    writers text[];
BEGIN
    SELECT last_value INTO newest FROM {schema}.event_id;
    IF newest <= after_id THEN
        RETURN;
    END IF;
    FOR tries IN 1..500 LOOP
        SELECT array_agg(l.virtualtransaction) INTO writers
        FROM pg_locks l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.relation IN ('{schema}.job'::regclass, '{schema}.event'::regclass)
          AND (tries = 1 OR l.virtualtransaction = ANY (writers));
        IF writers IS NULL THEN
            RETURN QUERY
                SELECT * FROM {schema}.event
                WHERE id > after_id AND id <= newest
                ORDER BY id
                LIMIT want;
            RETURN;
        END IF;
        PERFORM pg_sleep(0.002);
    END LOOP;
END
$$;

-- For people: jobs as one would want to read them.
CREATE VIEW jobs AS
SELECT id, queue, kind,
       CASE state WHEN 0 THEN 'scheduled' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'held'
                  WHEN 4 THEN 'done' WHEN 5 THEN 'failed' ELSE 'cancelled' END AS state,
       priority, owner, attempts, crashes, changed_by, changed_what, changed_why,
       to_timestamp(changed_at / 1000.0) AS changed, payload, result, error_class, error_text
FROM job;
