-- The store itself.

-- doing: reading the store | changing the store

-- name: store_time
SELECT now($1);

-- name: store_last_event
-- The newest event: its id and its time, behind which the clock may not fall. Primary key. SQLite only: called at the
-- start of every read.
SELECT id, at FROM event ORDER BY id DESC LIMIT 1;

-- name: store_begin
-- The same, as ids go on from there, and the token above which this generation began. Primary keys. SQLite only: called
-- at the start of every write.
SELECT id, at, (SELECT token_base FROM store WHERE id = 1) FROM event ORDER BY id DESC LIMIT 1;

-- name: store_begin_empty
-- The same for a store without an event.
SELECT 0, 0, token_base FROM store WHERE id = 1;

-- name: migration_list
-- Primary key. Called by queue/care.c.
SELECT version, checksum FROM migration ORDER BY version;

-- name: store_generation
-- The token above which this generation began, the largest that was given out, and the newest id. Reads all jobs. Called by
-- queue/generation.c.
SELECT token_base, (SELECT coalesce(max(token), 0) FROM job), (SELECT coalesce(max(token), 0) FROM lock),
       (SELECT coalesce(max(id), 0) FROM event)
FROM store
WHERE id = 1;
-- dialect: postgres
SELECT token_base, (SELECT coalesce(max(token), 0) FROM job), (SELECT coalesce(max(token), 0) FROM lock),
       (SELECT last_value FROM event_id)
FROM store
WHERE id = 1;

-- name: store_begin_generation
-- Called by store/db.c.
UPDATE store SET token_base = $1 WHERE id = 1;

-- name: store_skip_ids
-- The next id is $1. PostgreSQL only, as SQLite counts on from the newest event: called by store/db.c.
SELECT $1;
-- dialect: postgres
SELECT setval('event_id', $1, false);
