-- Steps: what a job's owner does to it, attempt by attempt, and what stays of it. Rows are written by the owner of
-- the lease alone (queue/attempt.c asks for the token first), go with their job (queue/retain.c), and leave
-- their events in the transaction in which they are written.

CREATE TABLE attempt (
    job_id                INTEGER NOT NULL,
    number                INTEGER NOT NULL,             -- 1, 2, ... over the whole life of the job
    step_index            INTEGER NOT NULL,             -- from 1
    step_id               TEXT    NOT NULL,
    attempt               INTEGER NOT NULL,             -- from 1; one that was stopped or lost is made again
    token                 INTEGER NOT NULL,             -- of the lease it runs under
    worker_id             INTEGER,
    host                  TEXT    NOT NULL,
    boot_id               TEXT    NOT NULL,
    pid                   INTEGER,                      -- with start_ticks: its process, once it is known
    start_ticks           INTEGER,
    marker                TEXT    NOT NULL,             -- names its process tree
    state                 INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
                                                        -- 0 running, 1 succeeded, 2 failed, 3 stopped, 4 lost
    may_live              INTEGER NOT NULL,             -- 1: something of its process tree may be left
    strategy              TEXT    NOT NULL CHECK (strategy IN ('first', 'soft_reset', 'hard_reset')),
    started_at            INTEGER NOT NULL,
    ended_at              INTEGER,
    exit_code             INTEGER,
    signal                INTEGER,
    failure_class         TEXT,
    rule                  TEXT,                         -- that decided the class
    evidence              TEXT,                         -- the line that matched
    summary               TEXT,
    signature             TEXT,
    diff_hash             TEXT,
    progress_percent      INTEGER,
    progress_text         TEXT,
    output_bytes          INTEGER,                      -- that it wrote
    output_dropped_bytes  INTEGER,                      -- of these not kept
    PRIMARY KEY (job_id, number),
    CHECK ((state = 0) = (ended_at IS NULL))
) WITHOUT ROWID;
-- What a machine has to look at: attempts that run there, or ran under a lease that ended without them.
CREATE INDEX attempt_may_live ON attempt (boot_id) WHERE may_live = 1;

-- A step that succeeded; step_index 0 is the baseline: the commit the workspace started from.
CREATE TABLE checkpoint (
    job_id         INTEGER NOT NULL,
    step_index     INTEGER NOT NULL CHECK (step_index >= 0),
    step_id        TEXT    NOT NULL,
    number         INTEGER NOT NULL,                    -- the attempt that made it; 0: made for another job
    at             INTEGER NOT NULL,
    diff_hash      TEXT,
    changed_files  TEXT,                                -- JSON array of strings
    outputs        TEXT,                                -- JSON object
    repo           TEXT,                                -- of the baseline, as commit_id
    commit_id      TEXT,
    patch          BLOB,                                -- last: who does not ask for it does not read it
    PRIMARY KEY (job_id, step_index)
);

CREATE TABLE output (
    job_id         INTEGER NOT NULL,
    number         INTEGER NOT NULL,                    -- of the attempt
    seq            INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    stream         INTEGER NOT NULL,                    -- 1 stdout, 2 stderr, 0 a note of the worker
    dropped_bytes  INTEGER NOT NULL,                    -- left out before this piece
    text           TEXT    NOT NULL,
    PRIMARY KEY (job_id, number, seq)
);

-- What operators ask of a job. Open until done_at: a worker that dies with one in hand leaves it to the next.
CREATE TABLE control (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id      INTEGER NOT NULL,
    action      TEXT    NOT NULL CHECK (action IN ('pause', 'resume', 'takeover', 'retry_step',
                                                   'hard_reset_step', 'resume_from_step', 'cancel')),
    step_index  INTEGER,                                -- of step_id, where one was named
    step_id     TEXT,
    reason      TEXT,
    actor       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    taken_at    INTEGER,                                -- first delivered to a worker
    done_at     INTEGER,
    outcome     TEXT,
    CHECK ((done_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX control_job  ON control (job_id);
CREATE INDEX control_open ON control (job_id, id) WHERE done_at IS NULL;

-- Budgets of a queue; NULL: as the environment says, or the default.
ALTER TABLE queue ADD COLUMN step_max_attempts        INTEGER;
ALTER TABLE queue ADD COLUMN step_timeout_ms          INTEGER; -- 0: none, as the next
ALTER TABLE queue ADD COLUMN step_idle_timeout_ms     INTEGER;
ALTER TABLE queue ADD COLUMN step_no_progress_limit   INTEGER;
ALTER TABLE queue ADD COLUMN job_self_heal_max_resets INTEGER;
ALTER TABLE queue ADD COLUMN step_grace_ms            INTEGER;
