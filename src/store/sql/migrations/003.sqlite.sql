-- Version 3: what is known of attempts when somebody else goes on with a step, and figures that outlive the jobs.

-- The token a job had when it was last retried or redriven: its steps have full budgets since.
ALTER TABLE job ADD COLUMN life_token INTEGER NOT NULL DEFAULT 0;

-- What follows a failure, or what a success was; 1: the attempts were alike; which time ended it.
ALTER TABLE attempt ADD COLUMN verdict TEXT
    CHECK (verdict IN ('soft_reset', 'hard_reset', 'failed', 'exhausted', 'recovered'));
ALTER TABLE attempt ADD COLUMN no_progress INTEGER;
ALTER TABLE attempt ADD COLUMN timeout TEXT CHECK (timeout IN ('idle', 'wall'));

-- What attempts of jobs that are deleted came to (queue/retain.c): with those that are kept, all there ever were.
CREATE TABLE step_total (
    failure_class  TEXT    NOT NULL,                    -- '': none
    strategy       TEXT    NOT NULL,
    outcome        TEXT    NOT NULL,
    attempts       INTEGER NOT NULL,
    duration_ms    INTEGER NOT NULL,
    idle_timeouts  INTEGER NOT NULL,
    wall_timeouts  INTEGER NOT NULL,
    no_progress    INTEGER NOT NULL,
    PRIMARY KEY (failure_class, strategy, outcome)
) WITHOUT ROWID;
