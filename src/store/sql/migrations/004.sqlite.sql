-- Version 4: the store knows its own generation, and answers keep their word.

-- --- The store itself: one row ---

CREATE TABLE store (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    token_base   INTEGER NOT NULL,                      -- every lease of this generation has a larger token
    clock_steps  INTEGER NOT NULL DEFAULT 0,            -- how often leases were moved along with the clock
    server_since INTEGER                                -- PostgreSQL: when the server they were given by was started, in µs
);
-- Below 2^40, so that a token fits into a JSON number. A store that is made anew gets another one.
INSERT INTO store (id, token_base) VALUES (1, 1 + (random() & 1099511627775));
-- Workers too: the liveness lock of a worker is a byte of the -workers file, by its id. A process may still hold one
-- there for a store that was at this path before.
DELETE FROM sqlite_sequence WHERE name = 'worker';
INSERT INTO sqlite_sequence (name, seq) SELECT 'worker', token_base FROM store;

-- Which migrations have run, and what they said.
CREATE TABLE migration (
    version   INTEGER PRIMARY KEY,
    checksum  TEXT    NOT NULL,
    at        INTEGER NOT NULL
);

-- Restores from a backup: where ids have jumped.
CREATE TABLE generation (
    first_id  INTEGER PRIMARY KEY,   -- the ids of the generation begin here ...
    after_id  INTEGER NOT NULL       -- ... and those before it have ended here
);

-- --- Leases ---

ALTER TABLE job ADD COLUMN lease_for_ms INTEGER;        -- length of the lease it runs under
ALTER TABLE job ADD COLUMN stopped_token INTEGER;       -- of the lease that a cancel or a hold ended last
ALTER TABLE job ADD COLUMN warned INTEGER;              -- 1: its lease ended while its worker was alive, and was extended once

ALTER TABLE lock ADD COLUMN held_for_ms INTEGER;        -- for how long it was asked for last

-- Store time beside the clock of each machine that judges by time (PostgreSQL only: store/pg_clock.h).
CREATE TABLE clock_mark (
    boot         TEXT    PRIMARY KEY,                   -- which boot of which machine, and which time namespace
    boottime_ms  INTEGER NOT NULL,                      -- CLOCK_BOOTTIME there ...
    store_ms     INTEGER NOT NULL,                      -- ... when store time was this
    clock_steps  INTEGER NOT NULL,                      -- store.clock_steps then; after the next step it tells nothing
    stepped_ms   INTEGER,                               -- by how much it made leases move last ...
    stepped_at   INTEGER,                               -- ... and when
    doubtful     INTEGER                                -- 1: two clocks go by this name, and no mark of it counts
);

-- What a move left alone, because another session had locked its row (PostgreSQL only): it begins anew when its row can
-- be had, and is not taken by its time before.
CREATE TABLE clock_left (
    job_id       INTEGER UNIQUE,                        -- a lease ...
    lock_name    TEXT    UNIQUE,                        -- ... or a named lock
    token        INTEGER NOT NULL                       -- ... of this token
);

-- --- Submissions under the key of a running job ---

-- 1: a row of submission waits for the end of this job.
ALTER TABLE job ADD COLUMN followed INTEGER;

-- The newest submission under the key of a job that was running then. It becomes a job when that one has finished,
-- in the same transaction, and refreshes it when it goes back to waiting.
CREATE TABLE submission (
    job_id           INTEGER PRIMARY KEY,               -- the running job
    at               INTEGER NOT NULL,
    who              TEXT    NOT NULL,
    kind             TEXT    NOT NULL,
    priority         INTEGER NOT NULL,
    due_at           INTEGER NOT NULL,
    concurrency_key  TEXT,
    tags             TEXT,
    workspace        TEXT,
    max_attempts     INTEGER,
    max_crashes      INTEGER,
    backoff_ms       INTEGER,
    backoff_max_ms   INTEGER,
    lease_ms         INTEGER,
    payload          TEXT    NOT NULL
);

-- --- Claims ---

-- The key comes last, so that jobs without one are found without a look at the others' rows.
DROP INDEX job_pending;
CREATE INDEX job_pending ON job (queue, priority, due_at, id, concurrency_key) WHERE state = 1;
-- The first pending job of each concurrency key.
CREATE INDEX job_pending_key ON job (queue, concurrency_key, priority, due_at, id)
    WHERE state = 1 AND concurrency_key IS NOT NULL;
-- Pending jobs that may come before others which were there first: they came back, or were added with a time in the past.
-- All other jobs come last in their priority, so that a claim need not look at what it has passed before.
CREATE INDEX job_cut_in ON job (queue, priority, due_at, id)
    WHERE state = 1 AND (version > 1 OR due_at < created_at);
ALTER TABLE queue ADD COLUMN rate_strict INTEGER NOT NULL DEFAULT 0;  -- 1: no window of rate_period_ms sees more than rate_count
ALTER TABLE queue ADD COLUMN rate_slots TEXT;           -- claims in the parts of the last window (core/limit.h)

-- --- Schedules ---

ALTER TABLE schedule ADD COLUMN timezone TEXT;          -- a name of the tz database; NULL: UTC
ALTER TABLE schedule ADD COLUMN zone TEXT;              -- its file in hexadecimal, for machines without the database
ALTER TABLE schedule ADD COLUMN overlap TEXT NOT NULL DEFAULT 'queue'
    CHECK (overlap IN ('queue', 'skip', 'replace'));    -- what happens when the run before has not finished
ALTER TABLE job ADD COLUMN nominal_at INTEGER;          -- the time its schedule named
CREATE INDEX job_of_schedule ON job (schedule) WHERE schedule IS NOT NULL AND finished_at IS NULL;

-- --- Moves: cancelled -> scheduled, redriven before it is due ---

DROP TRIGGER job_moved;
CREATE TRIGGER job_moved AFTER UPDATE OF state ON job
BEGIN
    SELECT RAISE(ROLLBACK, 'this change of state is not allowed')
    WHERE (1 << NEW.state) & (CASE OLD.state
        WHEN 2 THEN 123                             -- running 1+2+8+16+32+64: all but running
        WHEN 1 THEN 79                              -- pending 1+2+4+8+64: scheduled, pending, running, held, cancelled
        WHEN 0 THEN 75                              -- scheduled 1+2+8+64: scheduled, pending, held, cancelled
        WHEN 3 THEN 67                              -- held 1+2+64: scheduled, pending, cancelled
        WHEN 4 THEN 0                               -- done
        WHEN 6 THEN 3                               -- cancelled 1+2: scheduled, pending
        ELSE 2 END) = 0;                            -- failed: pending
    INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
    VALUES (NEW.event_id, OLD.event_id, NEW.changed_at, NEW.id, NEW.queue, NEW.changed_by,
            NEW.changed_what, OLD.state, NEW.state, NEW.token, coalesce(OLD.owner, NEW.owner),
            NEW.changed_why);
END;
