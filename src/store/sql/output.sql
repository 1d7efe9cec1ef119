-- What attempts wrote, as it was captured: bounded, redacted, in pieces.

-- doing: reading output | changing output

-- What :job_id, :token and :number, of the attempt, must fulfil: the lease is held, or it was ended by a cancel or a
-- hold and the attempt is still being stopped.
-- define: owned
EXISTS (SELECT 1 FROM job
        WHERE id = :job_id
          AND ((token = :token AND state = {running})
            OR (stopped_token = :token AND state IN ({held}, {cancelled})
                AND EXISTS (SELECT 1 FROM attempt a
                            WHERE a.job_id = :job_id AND a.number = :number
                              AND a.token = :token AND a.state = {attempt_running}))))

-- define: owned_and_locked
EXISTS (SELECT 1 FROM job
        WHERE id = :job_id
          AND ((token = :token AND state + 0 = {running})
            OR (stopped_token = :token AND state + 0 IN ({held}, {cancelled})
                AND EXISTS (SELECT 1 FROM attempt a
                            WHERE a.job_id = :job_id AND a.number = :number
                              AND a.token = :token AND a.state = {attempt_running})))
        FOR SHARE)

-- name: output_add(job_id, token, number, seq, at, stream, dropped_bytes, text, now)
-- Pieces under a lease that is held; one that is there already stays; for db_each. On PostgreSQL a piece counts as
-- changed when the lease is held, so that the threads of a handle can share the statement. Primary keys.
-- Called by queue/output.c.
INSERT OR IGNORE INTO output (job_id, number, seq, at, stream, dropped_bytes, text)
SELECT :job_id, :number, :seq, coalesce(:at, now(:now)), :stream, :dropped_bytes, :text
WHERE {owned};
-- dialect: postgres
WITH fenced AS (
    SELECT u.*, c.t
    FROM (SELECT now_each(:now) AS t OFFSET 0) c,
         unnest(:job_id::bigint[], :token::bigint[], :number::bigint[], :seq::bigint[], :at::bigint[],
                :stream::smallint[], :dropped_bytes::bigint[], :text::text[]) WITH ORDINALITY
             AS u (job_id, token, number, seq, at, stream, dropped_bytes, text, ordinal)
    WHERE EXISTS (SELECT 1 FROM job j
                  WHERE j.id = u.job_id
                    AND ((j.token = u.token AND j.state + 0 = {running})
                      OR (j.stopped_token = u.token AND j.state + 0 IN ({held}, {cancelled})
                          AND EXISTS (SELECT 1 FROM attempt a
                                      WHERE a.job_id = u.job_id AND a.number = u.number
                                        AND a.token = u.token AND a.state = {attempt_running})))
                  FOR SHARE)
), written AS (
    INSERT INTO output (job_id, number, seq, at, stream, dropped_bytes, text)
    SELECT job_id, number, seq, coalesce(at, t), stream, dropped_bytes, text
    FROM fenced
    ON CONFLICT (job_id, number, seq) DO NOTHING
)
SELECT ordinal, 1 FROM fenced;

-- name: output_discard(job_id, token, number, from_seq, before_seq)
-- Pieces from :from_seq on and before :before_seq are left out after all. Primary keys. Called by queue/output.c.
DELETE FROM output
WHERE job_id = :job_id AND number = :number AND seq >= :from_seq AND seq < :before_seq
  AND {owned};
-- dialect: postgres
DELETE FROM output
WHERE job_id = :job_id AND number = :number AND seq >= :from_seq AND seq < :before_seq
  AND {owned_and_locked};

-- name: output_note_discard(job_id, token, number, seq, dropped_bytes)
-- The piece behind them says how much was left out. Primary keys. Called by queue/output.c.
UPDATE output
SET dropped_bytes = dropped_bytes + :dropped_bytes
WHERE job_id = :job_id AND number = :number AND seq = :seq
  AND {owned};
-- dialect: postgres
UPDATE output
SET dropped_bytes = dropped_bytes + :dropped_bytes
WHERE job_id = :job_id AND number = :number AND seq = :seq
  AND {owned_and_locked};

-- name: output_read(job_id, after_number, after_seq, limit)
-- A page behind a position. Primary key. Called by queue/output.c.
SELECT number, seq, at, stream, dropped_bytes, text
FROM output
WHERE job_id = :job_id AND (number, seq) > (:after_number, :after_seq)
ORDER BY number, seq
LIMIT :limit;

-- name: output_newest(job_id, number, limit)
-- The newest :limit pieces of an attempt, the newest first. Primary key. Called by queue/explain_step.c.
SELECT text FROM output WHERE job_id = :job_id AND number = :number ORDER BY seq DESC LIMIT :limit;

-- name: output_delete(job_id)
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM output
WHERE job_id = :job_id AND NOT EXISTS (SELECT 1 FROM job WHERE id = :job_id);
-- dialect: postgres
DELETE FROM output
USING unnest(:job_id::bigint[]) AS u (id)
WHERE output.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
