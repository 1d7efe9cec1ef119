-- The store itself.

-- name: store_time
SELECT now($1);

-- name: store_last_event
-- The newest event: its id, from which ids go on, and its time, behind which the clock may not fall.
-- Primary key. SQLite only: called at the start of every write.
SELECT id, at FROM event ORDER BY id DESC LIMIT 1;

-- name: migration_list
-- Primary key. Called by queue/care.c.
SELECT version, checksum FROM migration ORDER BY version;
