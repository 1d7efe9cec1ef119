-- The schema on SQLite. Times are int64 milliseconds of store time; JSON is kept as given.
--
-- Enforced here, so that no writer can get around it: a job moves only as core/state.c allows, and
-- every move leaves an event in the same transaction. Who moves a job says so in changed_by,
-- changed_what and changed_why; the triggers copy that into the event.
--
-- States: 0 scheduled, 1 pending, 2 running, 3 held, 4 done, 5 failed, 6 cancelled. Numbers, because
-- checks and partial indexes compare them on every write; the view jobs shows the names.
--
-- Ids come from one counter: an event takes the next, and a job has the id of the event that added it.
-- The newest event is never deleted, so no id is ever given twice.

CREATE TABLE job (
    id               INTEGER PRIMARY KEY,
    queue            TEXT    NOT NULL,
    state            INTEGER NOT NULL,
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    due_at           INTEGER NOT NULL,
    alarm_at         INTEGER,                       -- when the clock acts on it: due (scheduled), end of lease (running)
    token            INTEGER NOT NULL DEFAULT 0,    -- fences: grows with every lease, and when one is taken away
    owner            TEXT,                          -- who holds the lease, by name
    worker_id        INTEGER,                       -- the registered worker behind it; NULL: held by time alone
    started_at       INTEGER,                       -- NULL while running: leased, not begun, charged nothing
    seen_at          INTEGER,                       -- last sign of life: claim, start or heartbeat
    lock_name        TEXT,                          -- the processing lock held along with the lease
    attempts         INTEGER NOT NULL DEFAULT 0,    -- that ended by complete or fail
    crashes          INTEGER NOT NULL DEFAULT 0,    -- that ended with their worker
    event_id         INTEGER NOT NULL,              -- its newest event; event.prev leads to the older ones
    changed_at       INTEGER NOT NULL,
    changed_by       TEXT    NOT NULL,
    changed_what     TEXT    NOT NULL,              -- name of the event, e.g. job.claimed
    changed_why      TEXT,
    version          INTEGER NOT NULL DEFAULT 1,
    created_at       INTEGER NOT NULL,
    finished_at      INTEGER,
    kind             TEXT    NOT NULL,
    phase            TEXT,                          -- where a running job is, in the words of its kind
    unique_key       TEXT,
    subject          TEXT,
    concurrency_key  TEXT,
    tags             TEXT,                          -- JSON array of strings
    workspace        TEXT,
    schedule         TEXT,                          -- name of the schedule that added it
    max_attempts     INTEGER,                       -- NULL: as the queue says (also the next four)
    max_crashes      INTEGER,
    backoff_ms       INTEGER,
    backoff_max_ms   INTEGER,
    lease_ms         INTEGER,
    error_class      TEXT,
    error_text       TEXT,
    result           TEXT,                          -- JSON
    payload          TEXT    NOT NULL,              -- JSON
    -- What holds in each state. One check of ORs and ANDs, the frequent states first: SQLite leaves it at the
    -- first branch that fits, where several checks would all be computed.
    CHECK ((state = 2 AND owner IS NOT NULL AND alarm_at IS NOT NULL AND finished_at IS NULL)
        OR (owner IS NULL AND worker_id IS NULL AND started_at IS NULL AND lock_name IS NULL
            AND ((state = 1 AND alarm_at IS NULL AND finished_at IS NULL)
              OR (state >= 4 AND alarm_at IS NULL AND finished_at IS NOT NULL AND state <= 6)
              OR (state = 0 AND alarm_at IS NOT NULL AND finished_at IS NULL)
              OR (state = 3 AND alarm_at IS NULL AND finished_at IS NULL))))
);

-- Only what is live is indexed for claims, so that finished and future rows cost them nothing.
CREATE INDEX job_pending ON job (queue, priority, due_at, id) WHERE state = 1;
CREATE INDEX job_alarm   ON job (state, alarm_at, queue) WHERE alarm_at IS NOT NULL;
CREATE INDEX job_resting ON job (queue, state, finished_at) WHERE state >= 3;
CREATE UNIQUE INDEX job_unique ON job (queue, unique_key)
    WHERE unique_key IS NOT NULL AND finished_at IS NULL;

CREATE TABLE event (
    id          INTEGER PRIMARY KEY,
    prev        INTEGER,                            -- the job's event before this one
    at          INTEGER NOT NULL,
    job_id      INTEGER,
    queue       TEXT,
    who         TEXT    NOT NULL,
    what        TEXT    NOT NULL,
    from_state  INTEGER,
    to_state    INTEGER,
    token       INTEGER,
    owner       TEXT,                               -- who held the lease before the change
    why         TEXT,
    data        TEXT                                -- JSON
);

CREATE TABLE lock (
    name         TEXT PRIMARY KEY,
    token        INTEGER NOT NULL,                  -- kept while the lock is free, so that it only grows
    owner        TEXT,                              -- NULL: free
    worker_id    INTEGER,
    job_id       INTEGER,                           -- the job it was taken with; it ends with that lease
    acquired_at  INTEGER,
    expires_at   INTEGER,
    CHECK ((owner IS NULL) = (expires_at IS NULL))
) WITHOUT ROWID;
CREATE INDEX lock_expiry ON lock (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX lock_worker ON lock (worker_id) WHERE worker_id IS NOT NULL;

-- Settings of a queue. A queue without a row, or a NULL: the default.
CREATE TABLE queue (
    name             TEXT PRIMARY KEY,
    paused           INTEGER NOT NULL DEFAULT 0,
    paused_why       TEXT,
    serial           INTEGER NOT NULL DEFAULT 0,    -- one at a time, under the lock queue:NAME
    concurrency      INTEGER,                       -- running at once, over all workers
    key_concurrency  INTEGER,                       -- running at once for one concurrency_key
    rate_count       INTEGER,                       -- claims per rate_period_ms
    rate_period_ms   INTEGER,
    rate_level       INTEGER,                       -- micro-tokens at rate_at (core/limit.h)
    rate_at          INTEGER,
    lease_ms         INTEGER,
    max_attempts     INTEGER,
    max_crashes      INTEGER,
    backoff_ms       INTEGER,
    backoff_max_ms   INTEGER,
    keep_done_ms     INTEGER,                       -- retention of done and cancelled jobs
    keep_failed_ms   INTEGER,                       -- retention of dead letters
    version          INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;

CREATE TABLE worker (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    boot_id      TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    pid_ns       INTEGER NOT NULL,
    start_ticks  INTEGER NOT NULL,
    session      INTEGER NOT NULL,                  -- 1: holds a liveness lock; 0: known by its pid alone
    since        INTEGER NOT NULL,
    registration INTEGER NOT NULL,                  -- drawn by the worker; the same however often it is tried
    lost_at      INTEGER                            -- its liveness lock was first seen gone
);
CREATE UNIQUE INDEX worker_registration ON worker (registration);

CREATE TABLE schedule (
    name        TEXT PRIMARY KEY,
    cron        TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    priority    INTEGER NOT NULL,
    payload     TEXT    NOT NULL,
    catch_up    TEXT    NOT NULL CHECK (catch_up IN ('none', 'one', 'all')),
    paused      INTEGER NOT NULL DEFAULT 0,
    last_at     INTEGER,
    next_at     INTEGER,                            -- NULL: never again
    version     INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX schedule_next ON schedule (next_at) WHERE next_at IS NOT NULL AND paused = 0;

CREATE TRIGGER job_added AFTER INSERT ON job
BEGIN
    INSERT INTO event (id, at, job_id, queue, who, what, to_state, why)
    VALUES (NEW.event_id, NEW.changed_at, NEW.id, NEW.queue, NEW.changed_by, NEW.changed_what,
            NEW.state, NEW.changed_why);
END;

-- The masks are the rows of the table in core/state.c: bit n is set when state n can be reached. Who tries
-- another move loses the whole transaction: RAISE(ROLLBACK) leaves nothing of it, whoever writes (after
-- RAISE(FAIL) the row would stay changed). It spares SQLite, as UPDATE OR FAIL does in the queries, the copy of each
-- page that it would need to undo half a statement; the savepoint around every operation undoes it whole.
CREATE TRIGGER job_moved AFTER UPDATE OF state ON job
BEGIN
    SELECT RAISE(ROLLBACK, 'this change of state is not allowed')
    WHERE (1 << NEW.state) & (CASE OLD.state
        WHEN 2 THEN 123                             -- running 1+2+8+16+32+64: all but running
        WHEN 1 THEN 79                              -- pending 1+2+4+8+64: scheduled, pending, running, held, cancelled
        WHEN 0 THEN 75                              -- scheduled 1+2+8+64: scheduled, pending, held, cancelled
        WHEN 3 THEN 67                              -- held 1+2+64: scheduled, pending, cancelled
        WHEN 4 THEN 0                               -- done
        ELSE 2 END) = 0;                            -- failed, cancelled: pending
    INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
    VALUES (NEW.event_id, OLD.event_id, NEW.changed_at, NEW.id, NEW.queue, NEW.changed_by,
            NEW.changed_what, OLD.state, NEW.state, NEW.token, coalesce(OLD.owner, NEW.owner),
            NEW.changed_why);
END;

-- The processing lock of a serial queue ends with the lease it was taken with. Statements that know that there is none
-- leave lock_name alone, which spares them this trigger.
CREATE TRIGGER job_unlocks AFTER UPDATE OF lock_name ON job
WHEN OLD.lock_name IS NOT NULL AND NEW.lock_name IS NULL
BEGIN
    UPDATE lock
    SET owner = NULL, worker_id = NULL, job_id = NULL, acquired_at = NULL, expires_at = NULL
    WHERE name = OLD.lock_name AND job_id = OLD.id;
END;

-- For people: jobs as one would want to read them.
CREATE VIEW jobs AS
SELECT id, queue, kind,
       CASE state WHEN 0 THEN 'scheduled' WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'held'
                  WHEN 4 THEN 'done' WHEN 5 THEN 'failed' ELSE 'cancelled' END AS state,
       priority, owner, attempts, crashes, changed_by, changed_what, changed_why,
       datetime(changed_at / 1000, 'unixepoch') AS changed, payload, result, error_class, error_text
FROM job;
