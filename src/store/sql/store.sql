-- The store itself.

-- doing: reading the store | changing the store

-- name: store_time(now)
SELECT now(:now) AS now;

-- name: store_last_event
-- The newest event: its id and its time, behind which the clock may not fall. Primary key. SQLite only: called at the
-- start of every read.
SELECT id, at FROM event ORDER BY id DESC LIMIT 1;

-- name: store_begin
-- The same, as ids go on from there, and the token above which this generation began. Primary keys. SQLite only: called
-- at the start of every write.
SELECT id, at, (SELECT token_base FROM store WHERE id = 1) AS token_base FROM event ORDER BY id DESC LIMIT 1;

-- name: store_begin_empty
-- The same for a store without an event.
SELECT 0 AS id, 0 AS at, token_base FROM store WHERE id = 1;

-- name: store_id
-- Drawn when the store is made, and again when it was restored from a backup. Primary key. Called by
-- queue/keep_folder.c.
SELECT token_base FROM store WHERE id = 1;

-- name: store_newest_id
-- The newest id that was given out: every job and every event takes one. Primary key. Called by queue/keep_folder.c.
SELECT coalesce(max(id), 0) AS id FROM event;
-- dialect: postgres
SELECT last_value AS id FROM event_id;

-- name: migration_list
-- Primary key. Called by queue/care.c.
SELECT version, checksum FROM migration ORDER BY version;

-- name: store_lock
-- One after the other: before anything is read from which ids or tokens are made. On SQLite every write is. Called by
-- queue/generation.c.
SELECT 1 AS locked;
-- dialect: postgres
SELECT 1 AS locked FROM store WHERE id = 1 FOR UPDATE;

-- name: store_generation
-- The token above which this generation began, the largest that was given out, the newest id that was given out (which
-- on PostgreSQL nobody may have used), and the newest event. Reads all jobs. Called by queue/generation.c.
SELECT token_base,
       (SELECT coalesce(max(token), 0) FROM job) AS job_token, (SELECT coalesce(max(token), 0) FROM lock) AS lock_token,
       (SELECT coalesce(max(id), 0) FROM event) AS newest_id, (SELECT coalesce(max(id), 0) FROM event) AS newest_event
FROM store
WHERE id = 1;
-- dialect: postgres
SELECT token_base,
       (SELECT coalesce(max(token), 0) FROM job) AS job_token, (SELECT coalesce(max(token), 0) FROM lock) AS lock_token,
       (SELECT greatest(last_value, (SELECT max(id) FROM event)) FROM event_id) AS newest_id,
       (SELECT coalesce(max(id), 0) FROM event) AS newest_event
FROM store
WHERE id = 1;

-- name: store_begin_generation(token_base)
-- Called by store/db.c.
UPDATE store SET token_base = :token_base WHERE id = 1;

-- name: store_skip_ids(next_id)
-- The next id is :next_id. PostgreSQL only, as SQLite counts on from the newest event: called by store/db.c.
-- dialect: postgres
SELECT setval('event_id', :next_id, false) AS next_id;

-- name: generation_add(first_id, after_id)
-- Ids go on at :first_id, and :after_id was the newest event before. Called by queue/generation.c.
INSERT INTO generation (first_id, after_id) VALUES (:first_id, :after_id);
