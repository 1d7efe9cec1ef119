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
