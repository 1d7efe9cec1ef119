-- What attempts wrote, as it was captured: bounded, redacted, in pieces.

-- doing: reading output | changing output

-- What $1 = job, $2 = token, $3 = number of the attempt must fulfil: the lease is held, or it was ended by a cancel and
-- the attempt is still being stopped.
-- define: owned
EXISTS (SELECT 1 FROM job
        WHERE id = $1
          AND ((token = $2 AND state = 2)
            OR (stopped_token = $2 AND state = 6
                AND EXISTS (SELECT 1 FROM attempt a
                            WHERE a.job_id = $1 AND a.number = $3 AND a.token = $2 AND a.state = 0))))

-- define: owned_and_locked
EXISTS (SELECT 1 FROM job
        WHERE id = $1
          AND ((token = $2 AND state + 0 = 2)
            OR (stopped_token = $2 AND state + 0 = 6
                AND EXISTS (SELECT 1 FROM attempt a
                            WHERE a.job_id = $1 AND a.number = $3 AND a.token = $2 AND a.state = 0)))
        FOR SHARE)

-- name: output_add
-- Pieces under a lease that is held; one that is there already stays; for db_each. On PostgreSQL a piece counts as
-- changed when the lease is held, so that the threads of a handle can share the statement. Primary keys.
-- Called by queue/output.c.
INSERT OR IGNORE INTO output (job_id, number, seq, at, stream, dropped_bytes, text)
SELECT $1, $3, $4, coalesce($5, now($9)), $6, $7, $8
WHERE {owned};
-- dialect: postgres
WITH fenced AS (
    SELECT u.*, c.t
    FROM (SELECT now_each($9) AS t OFFSET 0) c,
         unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[],
                $7::bigint[], $8::text[]) WITH ORDINALITY
             AS u (job_id, token, number, seq, at, stream, dropped_bytes, text, ordinal)
    WHERE EXISTS (SELECT 1 FROM job j
                  WHERE j.id = u.job_id
                    AND ((j.token = u.token AND j.state + 0 = 2)
                      OR (j.stopped_token = u.token AND j.state + 0 = 6
                          AND EXISTS (SELECT 1 FROM attempt a
                                      WHERE a.job_id = u.job_id AND a.number = u.number
                                        AND a.token = u.token AND a.state = 0)))
                  FOR SHARE)
), written AS (
    INSERT INTO output (job_id, number, seq, at, stream, dropped_bytes, text)
    SELECT job_id, number, seq, coalesce(at, t), stream, dropped_bytes, text
    FROM fenced
    ON CONFLICT (job_id, number, seq) DO NOTHING
)
SELECT ordinal, 1 FROM fenced;

-- name: output_discard
-- Pieces from $4 on and before $5 are left out after all. Primary keys. Called by queue/output.c.
DELETE FROM output
WHERE job_id = $1 AND number = $3 AND seq >= $4 AND seq < $5
  AND {owned};
-- dialect: postgres
DELETE FROM output
WHERE job_id = $1 AND number = $3 AND seq >= $4 AND seq < $5
  AND {owned_and_locked};

-- name: output_note_discard
-- The piece behind them says how much was left out. Primary keys. Called by queue/output.c.
UPDATE output
SET dropped_bytes = dropped_bytes + $5
WHERE job_id = $1 AND number = $3 AND seq = $4
  AND {owned};
-- dialect: postgres
UPDATE output
SET dropped_bytes = dropped_bytes + $5
WHERE job_id = $1 AND number = $3 AND seq = $4
  AND {owned_and_locked};

-- name: output_read
-- A page behind a position. Primary key. Called by queue/output.c.
SELECT number, seq, at, stream, dropped_bytes, text
FROM output
WHERE job_id = $1 AND (number, seq) > ($2, $3)
ORDER BY number, seq
LIMIT $4;

-- name: output_newest
-- The newest $3 pieces of an attempt, the newest first. Primary key. Called by queue/explain_step.c.
SELECT text FROM output WHERE job_id = $1 AND number = $2 ORDER BY seq DESC LIMIT $3;

-- name: output_delete
-- Of a job that is gone; for db_each. Called by queue/retain.c.
DELETE FROM output
WHERE job_id = $1 AND NOT EXISTS (SELECT 1 FROM job WHERE id = $1);
-- dialect: postgres
DELETE FROM output
USING unnest($1::bigint[]) AS u (id)
WHERE output.job_id = u.id AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = u.id);
