-- The schema on PostgreSQL: the tables, columns and meanings of 001.sqlite.sql. {schema} stands for the
-- schema the tables live in (tend_schema in the URL); functions name it, because a trigger runs under
-- whatever search_path its caller has. {bell} is the class of the bell's advisory locks.
--
-- Enforced here, so that no writer can get around it: a job moves only as core/state.c allows, the facts
-- of its state hold, and every move leaves an event in the same transaction. Who moves a job says so in
-- changed_by, changed_what and changed_why; the triggers copy that into the event.
--
-- All of that is in statement-level triggers and none of it in CHECK constraints of the table job: a check,
-- and the WHEN of a trigger, is parsed anew in each statement, which made half the cost of a single add, while
-- the plans inside a trigger function are kept. One statement of a thousand rows is checked and
-- recorded by one INSERT. Adds have changed since: 003.postgres.sql.
--
-- States: 0 scheduled, 1 pending, 2 running, 3 held, 4 done, 5 failed, 6 cancelled.
--
-- Ids come from one sequence: an event takes the next, and a job has the id of the event that added it.
-- Columns of fixed width that are never NULL come first: they are the cheapest to reach. In the table job what never
-- changes is at both ends: of a row that moves within its page the log holds only what is in between.

CREATE SEQUENCE event_id;

-- Store time: the clock of the server, in milliseconds.
CREATE FUNCTION store_clock() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint $$;

CREATE FUNCTION next_event() RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT nextval('{schema}.event_id') $$;

-- Whether a job added by this transaction need wake nobody. True: the lock keeps anybody from beginning to
-- wait until the transaction has ended and can be seen; see store/pg_session.c.
CREATE FUNCTION nobody_waits() RETURNS boolean
LANGUAGE sql VOLATILE
AS $$ SELECT pg_try_advisory_xact_lock({bell}, pg_backend_pid() & 63) $$;

CREATE TABLE job (
    id               bigint   PRIMARY KEY,
    due_at           bigint   NOT NULL,
    created_at       bigint   NOT NULL,
    token            bigint   NOT NULL DEFAULT 0,   -- fences: grows with every lease, and when one is taken away
    event_id         bigint   NOT NULL,             -- its newest event; event.prev leads to the older ones
    changed_at       bigint   NOT NULL,
    version          bigint   NOT NULL DEFAULT 1,
    attempts         bigint   NOT NULL DEFAULT 0,   -- that ended by complete or fail
    crashes          bigint   NOT NULL DEFAULT 0,   -- that ended with their worker
    state            smallint NOT NULL,
    priority         smallint NOT NULL,
    alarm_at         bigint,                        -- when the clock acts on it: due (scheduled), end of lease (running)
    seen_at          bigint,                        -- last sign of life: claim, start or heartbeat
    finished_at      bigint,
    worker_id        bigint,                        -- the registered worker behind the lease; NULL: held by time alone
    started_at       bigint,                        -- NULL while running: leased, not begun, charged nothing
    owner            text     COLLATE "C",          -- who holds the lease, by name
    changed_by       text     COLLATE "C" NOT NULL,
    changed_what     text     COLLATE "C" NOT NULL, -- name of the event, e.g. job.claimed
    lock_name        text     COLLATE "C",          -- the processing lock held along with the lease
    changed_why      text     COLLATE "C",
    phase            text     COLLATE "C",          -- where a running job is, in the words of its kind
    error_class      text     COLLATE "C",
    error_text       text     COLLATE "C",
    result           text     COLLATE "C",          -- JSON
    max_attempts     bigint,                        -- NULL: as the queue says (also the next four)
    max_crashes      bigint,
    backoff_ms       bigint,
    backoff_max_ms   bigint,
    lease_ms         bigint,
    unique_key       text     COLLATE "C",
    subject          text     COLLATE "C",
    concurrency_key  text     COLLATE "C",
    tags             text     COLLATE "C",          -- JSON array of strings
    workspace        text     COLLATE "C",
    schedule         text     COLLATE "C",          -- name of the schedule that added it
    queue            text     COLLATE "C" NOT NULL,
    kind             text     COLLATE "C" NOT NULL,
    payload          text     COLLATE "C" NOT NULL  -- JSON
);

-- Only what is live is indexed for claims, so that finished and future rows cost them nothing.
CREATE INDEX job_pending ON job (queue, priority, due_at, id) WHERE state = 1;
CREATE INDEX job_alarm ON job (state, alarm_at) WHERE alarm_at IS NOT NULL;
CREATE INDEX job_resting ON job (queue, state, finished_at) WHERE state >= 3;
CREATE UNIQUE INDEX job_unique ON job (queue, unique_key)
    WHERE unique_key IS NOT NULL AND finished_at IS NULL;

CREATE TABLE event (
    id          bigint NOT NULL PRIMARY KEY,
    at          bigint NOT NULL,
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
    registration bigint   NOT NULL,                 -- drawn by the worker; the same however often it is tried
    lost_at      bigint                             -- its liveness lock was first seen gone
);
CREATE UNIQUE INDEX worker_registration ON worker (registration);

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

-- What core/state.c says of each state. Sessions of tend itself (tend.engine is on) are taken at their word here:
-- their statements are known to keep it, and to look cost a third of the trigger. The moves below are
-- looked at in any case.
CREATE FUNCTION job_facts_hold(j job) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    SELECT j.state BETWEEN 0 AND 6
       AND j.priority BETWEEN 0 AND 9
       AND (j.state = 2) = (j.owner IS NOT NULL)
       AND (j.state IN (0, 2)) = (j.alarm_at IS NOT NULL)
       AND (j.state >= 4) = (j.finished_at IS NOT NULL)
       AND (j.state = 2 OR (j.worker_id IS NULL AND j.started_at IS NULL AND j.lock_name IS NULL))
$$;

-- The table in core/state.c: [from][to]. To look into an array is not a call, and calls are what costs in an expression
-- that is made ready anew for each statement.
CREATE FUNCTION job_may_move(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    -- scheduled -> scheduled, pending, held, cancelled
    -- pending   -> scheduled, pending, running, held, cancelled
    -- running   -> all but running
    -- held      -> scheduled, pending, cancelled
    -- done      -> nothing
    -- failed    -> pending
    -- cancelled -> pending
    SELECT ('[0:6][0:6]={{t,t,f,t,f,f,t},
                         {t,t,t,t,f,f,t},
                         {t,t,f,t,t,t,t},
                         {t,t,f,f,f,f,t},
                         {f,f,f,f,f,f,f},
                         {f,t,f,f,f,f,f},
                         {f,t,f,f,f,f,f}}'::boolean[])[from_state][to_state]
$$;

CREATE FUNCTION job_refuse(job_id bigint, from_state smallint, to_state smallint) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'job %: this change of state is not allowed', job_id
        USING ERRCODE = 'check_violation', DETAIL = format('from %s to %s', from_state, to_state),
              HINT = 'A move follows core/state.c, keeps the facts of the state, and takes a new version and event_id.';
END
$$;

CREATE FUNCTION job_added() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('tend.engine', true) IS DISTINCT FROM 'on' THEN
        PERFORM {schema}.job_refuse(n.id, NULL, n.state)
        FROM job_new n
        WHERE NOT (n.state IN (0, 1) AND {schema}.job_facts_hold(n::{schema}.job));
    END IF;
    INSERT INTO {schema}.event (id, at, job_id, queue, who, what, to_state, why)
    SELECT n.event_id, n.changed_at, n.id, n.queue, n.changed_by, n.changed_what, n.state,
           n.changed_why
    FROM job_new n;
    RETURN NULL;
END
$$;
CREATE TRIGGER job_added AFTER INSERT ON job
    REFERENCING NEW TABLE AS job_new
    FOR EACH STATEMENT EXECUTE FUNCTION job_added();

-- A row of a statement that is not plain: it is refused, or the processing lock follows its lease. Returns whether it
-- is to be recorded.
CREATE FUNCTION job_judge(new_id bigint, new_event bigint, new_version bigint, new_state smallint, new_lock text,
                          until bigint, old_id bigint, old_event bigint, old_version bigint, old_state smallint,
                          old_lock text) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    moved boolean := new_event <> old_event AND new_version <> old_version;
BEGIN
    IF (CASE WHEN moved THEN {schema}.job_may_move(old_state, new_state) ELSE old_state = new_state END)
       IS NOT TRUE THEN
        PERFORM {schema}.job_refuse(coalesce(new_id, old_id), old_state, new_state);
    ELSIF new_lock IS NULL THEN
        UPDATE {schema}.lock
        SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
        WHERE name = old_lock AND job_id = new_id;
    ELSE
        UPDATE {schema}.lock SET expires_at = until WHERE name = new_lock AND job_id = new_id;
    END IF;
    RETURN moved;
END
$$;

-- A row has moved, and is recorded, when it has a new version and a new event_id: its state has changed, or it was
-- rescheduled in the same one. One of the two alone is not a move (a change of phase, and its event).
--
-- The expressions have as few calls as they can, because each is made ready anew for each statement. The join is
-- FULL so that it can only be carried out by sorting or hashing, however few rows the statement had that
-- was planned first; and a changed id, which leaves rows without partner, is refused.
CREATE FUNCTION job_moved() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('tend.engine', true) IS DISTINCT FROM 'on' THEN
        PERFORM {schema}.job_refuse(n.id, NULL, n.state)
        FROM job_new n
        WHERE NOT {schema}.job_facts_hold(n::{schema}.job);
    END IF;
    INSERT INTO {schema}.event
        (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
    SELECT n.event_id, o.event_id, n.changed_at, n.id, n.queue, n.changed_by, n.changed_what,
           o.state, n.state, n.token, coalesce(o.owner, n.owner), n.changed_why
    FROM job_new n FULL JOIN job_old o ON o.id = n.id
    WHERE CASE
        WHEN o.lock_name IS NULL AND n.lock_name IS NULL
             AND n.event_id <> o.event_id AND n.version <> o.version
             AND {schema}.job_may_move(o.state, n.state)
        THEN true
        WHEN o.lock_name IS NULL AND n.lock_name IS NULL
             AND (n.event_id = o.event_id OR n.version = o.version) AND n.state = o.state
        THEN false
        ELSE {schema}.job_judge(n.id, n.event_id, n.version, n.state, n.lock_name, n.alarm_at,
                                o.id, o.event_id, o.version, o.state, o.lock_name)
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
-- A writer that does not end keeps the rest back, which is better than to leave something out.
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
