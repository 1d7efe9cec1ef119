-- Submissions under the key of a running job: the newest waits for the end of the run. A row is there exactly while
-- job.followed is set, and that only while the job is running: the statements that end a run pass over rows that have
-- it set, so that nobody ends a run without what follows from it.

-- doing: reading submissions | changing submissions

-- name: submission_put(now, id, kind, priority, due_at, delay_ms, payload, concurrency_key, tags, workspace,
--       max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook, who)
-- The newest takes the place of the one before; as in job_refresh, no hook makes that of somebody else its own.
-- Parameters as job_refresh. Primary key. Called by queue/submission.c.
INSERT INTO submission
    (job_id, at, who, kind, priority, due_at, payload, concurrency_key, tags, workspace,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook)
VALUES
    (:id, now(:now), :who, :kind, :priority, coalesce(:due_at, now(:now) + :delay_ms), :payload, :concurrency_key,
     :tags, :workspace,
     :max_attempts, :max_crashes, :backoff_ms, :backoff_max_ms, :lease_ms, :hook)
ON CONFLICT (job_id) DO UPDATE
SET at = excluded.at, who = excluded.who, kind = excluded.kind, priority = excluded.priority,
    due_at = excluded.due_at, payload = excluded.payload, concurrency_key = excluded.concurrency_key,
    tags = excluded.tags, workspace = excluded.workspace, max_attempts = excluded.max_attempts,
    max_crashes = excluded.max_crashes, backoff_ms = excluded.backoff_ms,
    backoff_max_ms = excluded.backoff_max_ms, lease_ms = excluded.lease_ms,
    hook = CASE WHEN excluded.hook IS NOT NULL THEN submission.hook END;

-- name: submission_get(job_id)
-- With the job as it is now. Primary keys. Called by queue/submission.c.
SELECT j.state, j.payload AS old_payload, s.who, s.kind, s.priority, s.due_at, s.payload, s.concurrency_key, s.tags,
       s.workspace, s.max_attempts, s.max_crashes, s.backoff_ms, s.backoff_max_ms, s.lease_ms, s.hook
FROM submission s JOIN job j ON j.id = s.job_id
WHERE s.job_id = :job_id;

-- name: submission_drop(job_id)
-- Called by queue/submission.c.
DELETE FROM submission WHERE job_id = :job_id;

-- name: event_of_submission(id, now, who, what, why)
-- An event of a job that does not move, put into its chain; goes with event_into_chain. Called by queue/submission.c
-- and queue/add.c.
INSERT INTO event (id, prev, at, job_id, queue, who, what, from_state, to_state, token, owner, why)
SELECT next_event(), event_id, now(:now), id, queue, CAST(:who AS text), CAST(:what AS text),
       state, state, token, owner, CAST(:why AS text)
FROM job
WHERE id = :id;

-- name: job_follow(id)
-- A submission waits for the end of this run, and its event is the job's newest. Primary key. Called by
-- queue/submission.c.
UPDATE job SET followed = 1, event_id = (SELECT max(id) FROM event) WHERE id = :id AND state = {running};
-- dialect: postgres
UPDATE job SET followed = 1, event_id = currval('event_id') WHERE id = :id AND state + 0 = {running};

-- name: job_unfollow(id, token)
-- The run under token :token ends in this transaction, and what waits for it is carried out. Primary key. Called by
-- queue/submission.c.
UPDATE job SET followed = NULL WHERE id = :id AND token = :token AND state = {running} AND followed IS NOT NULL;
-- dialect: postgres
UPDATE job SET followed = NULL WHERE id = :id AND token = :token AND state + 0 = {running} AND followed IS NOT NULL;

-- name: job_add_submitted(job_id, now)
-- The submission becomes a job of its own, under the key and subject of the one that has finished. The trigger writes
-- its event. Returns its id. Primary keys. Called by queue/submission.c.
INSERT INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what, changed_why)
SELECT next_event(), next_event(), j.queue, s.kind, s.due_at <= now(:now), s.priority, s.due_at,
       CASE WHEN s.due_at > now(:now) THEN s.due_at END, s.payload,
       j.unique_key, j.subject, s.concurrency_key, s.tags, s.workspace,
       s.max_attempts, s.max_crashes, s.backoff_ms, s.backoff_max_ms, s.lease_ms, s.hook,
       now(:now), now(:now), s.who, 'job.added', 'submitted while job ' || j.id || ' ran'
FROM submission s JOIN job j ON j.id = s.job_id
WHERE s.job_id = :job_id
RETURNING id;
-- dialect: postgres
INSERT INTO job
    (id, event_id, queue, kind, state, priority, due_at, alarm_at, payload,
     unique_key, subject, concurrency_key, tags, workspace,
     max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms, hook,
     created_at, changed_at, changed_by, changed_what, changed_why)
SELECT c.event, c.event, j.queue, s.kind, (s.due_at <= c.t)::int, s.priority, s.due_at,
       CASE WHEN s.due_at > c.t THEN s.due_at END, s.payload,
       j.unique_key, j.subject, s.concurrency_key, s.tags, s.workspace,
       s.max_attempts, s.max_crashes, s.backoff_ms, s.backoff_max_ms, s.lease_ms, s.hook,
       c.t, c.t, s.who, 'job.added', 'submitted while job ' || j.id || ' ran'
FROM (SELECT next_event() AS event, now(:now) AS t OFFSET 0) c, submission s JOIN job j ON j.id = s.job_id
WHERE s.job_id = :job_id
RETURNING id;
