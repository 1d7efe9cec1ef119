-- Version 5 on PostgreSQL: the columns, tables and meanings of 005.sqlite.sql.

-- --- Attempts ---

ALTER TABLE attempt ADD COLUMN retryable smallint;
ALTER TABLE attempt ADD COLUMN warnings text COLLATE "C";
ALTER TABLE attempt ADD COLUMN failures bigint;
ALTER TABLE attempt ADD COLUMN outside smallint;
ALTER TABLE attempt ADD COLUMN next_at bigint;
ALTER TABLE attempt ADD COLUMN workspace text COLLATE "C";

CREATE TABLE attempt_patch (
    job_id         bigint NOT NULL,
    number         bigint NOT NULL,
    at             bigint NOT NULL,
    changed_files  text   COLLATE "C",
    dropped_bytes  bigint NOT NULL,
    patch          bytea  NOT NULL,
    PRIMARY KEY (job_id, number)
);

CREATE TABLE edit (
    job_id         bigint PRIMARY KEY,
    step_index     bigint NOT NULL,
    at             bigint NOT NULL,
    who            text   COLLATE "C" NOT NULL,
    changed_files  text   COLLATE "C",
    patch          bytea  NOT NULL
);

-- --- Settings of queues ---

ALTER TABLE queue ADD COLUMN step_pause_ms bigint;
ALTER TABLE queue ADD COLUMN step_pause_max_ms bigint;
ALTER TABLE queue ADD COLUMN retry_classes text COLLATE "C";
ALTER TABLE queue ADD COLUMN keep_workspace_ms bigint;

-- --- Schedules ---

ALTER TABLE schedule ADD COLUMN workspace text COLLATE "C";

-- --- Hooks ---

CREATE TABLE hook (
    name        text   COLLATE "C" PRIMARY KEY,
    on_what     text   COLLATE "C" NOT NULL,
    for_queue   text   COLLATE "C",
    queue       text   COLLATE "C" NOT NULL,
    payload     text   COLLATE "C" NOT NULL,
    workspace   text   COLLATE "C",
    at          bigint NOT NULL,
    who         text   COLLATE "C" NOT NULL
);
ALTER TABLE job ADD COLUMN hook text COLLATE "C";
ALTER TABLE job ADD COLUMN retry_hook text COLLATE "C";
ALTER TABLE submission ADD COLUMN hook text COLLATE "C";

-- --- When the next job of a queue is due ---

CREATE INDEX job_scheduled ON job (queue, alarm_at) WHERE state = 0 AND alarm_at IS NOT NULL;

-- --- Counters ---

CREATE TABLE event_total (
    queue  text   COLLATE "C" NOT NULL,
    what   text   COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (queue, what)
);
ALTER TABLE store ADD COLUMN counted_to bigint NOT NULL DEFAULT 0;

-- events_since (001) with a wait of the caller's choice.
CREATE FUNCTION events_within(after_id bigint, want bigint, wait_ms bigint) RETURNS SETOF {schema}.event
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
    FOR tries IN 0..wait_ms / 2 LOOP
        SELECT array_agg(l.virtualtransaction) INTO writers
        FROM pg_locks l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.relation IN ('{schema}.job'::regclass, '{schema}.event'::regclass)
          AND (tries = 0 OR l.virtualtransaction = ANY (writers));
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
CREATE OR REPLACE FUNCTION events_since(after_id bigint, want bigint) RETURNS SETOF {schema}.event
LANGUAGE plpgsql VOLATILE ROWS 100
AS $$
BEGIN
    RETURN QUERY SELECT * FROM {schema}.events_within(after_id, want, 1000);
END
$$;
