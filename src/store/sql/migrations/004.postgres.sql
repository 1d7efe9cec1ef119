-- Version 4 on PostgreSQL: the columns, tables and meanings of 004.sqlite.sql.

-- --- The store itself: one row ---

CREATE TABLE store (
    id           smallint PRIMARY KEY CHECK (id = 1),
    token_base   bigint   NOT NULL,
    clock_steps  bigint   NOT NULL DEFAULT 0,
    server_since bigint
);
INSERT INTO store (id, token_base, server_since)
VALUES (1, 1 + floor(random() * 1099511627776)::bigint,
        (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint);
-- Workers too. A process may still hold the liveness lock of a worker of a store that was in this schema before; the key
-- of that lock is the low 32 bits of the id.
SELECT setval(pg_get_serial_sequence('worker', 'id'), token_base) FROM store;

CREATE TABLE migration (
    version   integer PRIMARY KEY,
    checksum  text    COLLATE "C" NOT NULL,
    at        bigint  NOT NULL
);

-- Restores from a backup: where ids have jumped.
CREATE TABLE generation (
    first_id  bigint  PRIMARY KEY,   -- the ids of the generation begin here ...
    after_id  bigint  NOT NULL       -- ... and those before it have ended here
);

-- --- Leases ---

ALTER TABLE job ADD COLUMN lease_for_ms bigint;
ALTER TABLE job ADD COLUMN stopped_token bigint;
ALTER TABLE job ADD COLUMN warned smallint;

ALTER TABLE lock ADD COLUMN held_for_ms bigint;

CREATE TABLE clock_mark (
    boot         text   COLLATE "C" PRIMARY KEY,
    boottime_ms  bigint NOT NULL,
    store_ms     bigint NOT NULL,
    clock_steps  bigint NOT NULL,
    stepped_ms   bigint,
    stepped_at   bigint,
    doubtful     smallint
);

CREATE TABLE clock_left (
    job_id       bigint UNIQUE,
    lock_name    text   COLLATE "C" UNIQUE,
    token        bigint NOT NULL
);

-- As in 001, but for the last UPDATE: a sign of life waits for nobody. While the job runs, expires_at of the lock it was
-- taken with decides nothing.
CREATE OR REPLACE FUNCTION job_judge(new_id bigint, new_event bigint, new_version bigint, new_state smallint,
                                     new_lock text, until bigint, old_id bigint, old_event bigint, old_version bigint,
                                     old_state smallint, old_lock text) RETURNS boolean
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
        UPDATE {schema}.lock
        SET expires_at = until
        WHERE name = (SELECT l.name FROM {schema}.lock l
                      WHERE l.name = new_lock AND l.job_id = new_id
                      FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    RETURN moved;
END
$$;

-- --- Submissions under the key of a running job ---

ALTER TABLE job ADD COLUMN followed smallint;

CREATE TABLE submission (
    job_id           bigint   PRIMARY KEY,
    at               bigint   NOT NULL,
    due_at           bigint   NOT NULL,
    max_attempts     bigint,
    max_crashes      bigint,
    backoff_ms       bigint,
    backoff_max_ms   bigint,
    lease_ms         bigint,
    priority         smallint NOT NULL,
    who              text     COLLATE "C" NOT NULL,
    kind             text     COLLATE "C" NOT NULL,
    concurrency_key  text     COLLATE "C",
    tags             text     COLLATE "C",
    workspace        text     COLLATE "C",
    payload          text     COLLATE "C" NOT NULL
);

-- --- Claims ---

DROP INDEX job_pending;
CREATE INDEX job_pending ON job (queue, priority, due_at, id, concurrency_key) WHERE state = 1;
CREATE INDEX job_pending_key ON job (queue, concurrency_key, priority, due_at, id)
    WHERE state = 1 AND concurrency_key IS NOT NULL;
CREATE INDEX job_cut_in ON job (queue, priority, due_at, id)
    WHERE state = 1 AND (version > 1 OR due_at < created_at);
ALTER TABLE queue ADD COLUMN rate_strict smallint NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN rate_slots text COLLATE "C";

-- --- Schedules ---

ALTER TABLE schedule ADD COLUMN timezone text COLLATE "C";
ALTER TABLE schedule ADD COLUMN zone text COLLATE "C";
ALTER TABLE schedule ADD COLUMN overlap text COLLATE "C" NOT NULL DEFAULT 'queue'
    CHECK (overlap IN ('queue', 'skip', 'replace'));
ALTER TABLE job ADD COLUMN nominal_at bigint;
CREATE INDEX job_of_schedule ON job (schedule) WHERE schedule IS NOT NULL AND finished_at IS NULL;

-- --- Moves: cancelled -> scheduled, redriven before it is due ---

CREATE OR REPLACE FUNCTION job_may_move(from_state smallint, to_state smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    -- scheduled -> scheduled, pending, held, cancelled
    -- pending   -> scheduled, pending, running, held, cancelled
    -- running   -> all but running
    -- held      -> scheduled, pending, cancelled
    -- done      -> nothing
    -- failed    -> pending
    -- cancelled -> scheduled, pending
    SELECT ('[0:6][0:6]={{t,t,f,t,f,f,t},
                         {t,t,t,t,f,f,t},
                         {t,t,f,t,t,t,t},
                         {t,t,f,f,f,f,t},
                         {f,f,f,f,f,f,f},
                         {f,t,f,f,f,f,f},
                         {t,t,f,f,f,f,f}}'::boolean[])[from_state][to_state]
$$;
