-- Version 3 on PostgreSQL: the columns, tables and meanings of 003.sqlite.sql.

ALTER TABLE job ADD COLUMN life_token bigint NOT NULL DEFAULT 0;

ALTER TABLE attempt ADD COLUMN verdict text COLLATE "C"
    CHECK (verdict IN ('soft_reset', 'hard_reset', 'failed', 'exhausted', 'recovered'));
ALTER TABLE attempt ADD COLUMN no_progress smallint;
ALTER TABLE attempt ADD COLUMN timeout text COLLATE "C" CHECK (timeout IN ('idle', 'wall'));

CREATE TABLE step_total (
    attempts       bigint   NOT NULL,
    duration_ms    bigint   NOT NULL,
    idle_timeouts  bigint   NOT NULL,
    wall_timeouts  bigint   NOT NULL,
    no_progress    bigint   NOT NULL,
    failure_class  text     COLLATE "C" NOT NULL,
    strategy       text     COLLATE "C" NOT NULL,
    outcome        text     COLLATE "C" NOT NULL,
    PRIMARY KEY (failure_class, strategy, outcome)
);

-- A statement that adds a job and writes its event as well says so in the row; for all others the trigger does. To look
-- at a row's column is the cheapest WHEN: it is parsed anew in each statement.
ALTER TABLE job ADD COLUMN recorded boolean;

DROP TRIGGER job_added ON job;
CREATE OR REPLACE FUNCTION job_added() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT (NEW.state IN (0, 1) AND {schema}.job_facts_hold(NEW)) THEN
        PERFORM {schema}.job_refuse(NEW.id, NULL, NEW.state);
    END IF;
    INSERT INTO {schema}.event (id, at, job_id, queue, who, what, to_state, why)
    VALUES (NEW.event_id, NEW.changed_at, NEW.id, NEW.queue, NEW.changed_by, NEW.changed_what, NEW.state,
            NEW.changed_why);
    RETURN NULL;
END
$$;
CREATE TRIGGER job_added AFTER INSERT ON job
    FOR EACH ROW WHEN (NEW.recorded IS NOT TRUE)
    EXECUTE FUNCTION job_added();
