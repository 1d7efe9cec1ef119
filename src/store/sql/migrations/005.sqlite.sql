-- Version 5: what is kept of failed attempts, an operator's edits, hooks, and counters that outlive events.

-- --- Attempts ---

ALTER TABLE attempt ADD COLUMN retryable INTEGER;       -- of one that gave the job up: 1: the queue may try it again
ALTER TABLE attempt ADD COLUMN warnings TEXT;           -- JSON array of strings: what was wrong with its report
ALTER TABLE attempt ADD COLUMN failures INTEGER;        -- failing tests or errors that its output counts
ALTER TABLE attempt ADD COLUMN outside INTEGER;         -- 1: the cause lies outside the workspace (network, service)
ALTER TABLE attempt ADD COLUMN next_at INTEGER;         -- until when the step waits before its next attempt
ALTER TABLE attempt ADD COLUMN workspace TEXT;          -- folder on its host that is kept for people

-- What the attempt that gave the job up had changed. Redacted and bounded: for people, not for replay.
CREATE TABLE attempt_patch (
    job_id         INTEGER NOT NULL,
    number         INTEGER NOT NULL,                    -- of the attempt
    at             INTEGER NOT NULL,
    changed_files  TEXT,                                -- JSON array of strings
    dropped_bytes  INTEGER NOT NULL,                    -- cut from the end
    patch          BLOB    NOT NULL,
    PRIMARY KEY (job_id, number)
);

-- What an operator changed in the workspace of a job that was taken over. It is applied to each workspace that is made
-- for the step, and becomes part of the step's checkpoint.
CREATE TABLE edit (
    job_id         INTEGER PRIMARY KEY,
    step_index     INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    who            TEXT    NOT NULL,
    changed_files  TEXT,                                -- JSON array of strings
    patch          BLOB    NOT NULL
);

-- --- Settings of queues; NULL: the default ---

ALTER TABLE queue ADD COLUMN step_pause_ms INTEGER;     -- before the second attempt of a step; doubles
ALTER TABLE queue ADD COLUMN step_pause_max_ms INTEGER;
ALTER TABLE queue ADD COLUMN retry_classes TEXT;        -- failure classes that the queue tries again, with commas
ALTER TABLE queue ADD COLUMN keep_workspace_ms INTEGER; -- how long the workspace of a failed job stays on its machine

-- --- Schedules ---

ALTER TABLE schedule ADD COLUMN workspace TEXT;         -- folder in which the commands of its jobs run

-- --- Hooks: commands that run as jobs when automation gives up ---

CREATE TABLE hook (
    name        TEXT PRIMARY KEY,
    on_what     TEXT    NOT NULL,                       -- failed, poison, exhausted; with commas
    for_queue   TEXT,                                   -- only for jobs of this queue; NULL: of any
    queue       TEXT    NOT NULL,                       -- where its jobs are added
    payload     TEXT    NOT NULL,                       -- the plan of its jobs: JSON
    workspace   TEXT,                                   -- folder in which their commands run; NULL: the worker's
    at          INTEGER NOT NULL,
    who         TEXT    NOT NULL
) WITHOUT ROWID;
-- The failure of a job that a hook has added or retried calls no hook: it would call itself for ever.
ALTER TABLE job ADD COLUMN hook TEXT;                   -- the hook that added it, or whose job did
ALTER TABLE job ADD COLUMN retry_hook TEXT;             -- the hook whose job retried it last; NULL: somebody else did
ALTER TABLE submission ADD COLUMN hook TEXT;            -- the hook whose job submitted it

-- --- When the next job of a queue is due ---

CREATE INDEX job_scheduled ON job (queue, alarm_at) WHERE state = 0 AND alarm_at IS NOT NULL;

-- --- Counters ---

-- How many events of each kind there ever were, up to store.counted_to. Later events are counted from the event table.
CREATE TABLE event_total (
    queue  TEXT    NOT NULL,                            -- '': none
    what   TEXT    NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (queue, what)
) WITHOUT ROWID;
ALTER TABLE store ADD COLUMN counted_to INTEGER NOT NULL DEFAULT 0;
