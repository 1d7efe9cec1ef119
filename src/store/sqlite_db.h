/* The SQLite engine's handle, shared by the files that make it up (see db_sqlite.c). */
#ifndef STORE_SQLITE_DB_H
#define STORE_SQLITE_DB_H

#include "store/neighbour.h"
#include "store/sqlite_clock.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_files.h"
#include "store/turnstile.h"
#include "store/waiter.h"

#include <pthread.h>
#include <sys/types.h>

/* The write-ahead log (sqlite_wal.c). Only the leading thread touches it. */
struct sqlite_wal {
    int frames;      /* in the log after the last commit */
    int every;       /* so many frames are worth a checkpoint */
    int next_frames; /* ... and then it is looked at again */
    bool large;      /* it has grown large, and cannot be emptied */
    bool told;       /* ... which has been said */
};

/* A wait for another program that has locked the store (sqlite_stranger.c). */
struct sqlite_stranger {
    int64_t until_ns; /* monotonic: how long whoever has the turn may wait */
    int64_t since_ms; /* clock_boot_ms when this wait began; 0: it has not */
    int64_t begun_ms; /* ... monotonic */
    int64_t note_ns;  /* monotonic: when it is noted next that nobody can write */
};

struct sqlite_db {
    struct db base;
    char *path; /* resolved: see sqlite_path.h */
    struct db_options options;
    struct sqlite_files files;
    struct turnstile turnstile;
    struct waiter waiter;
    struct neighbour neighbour; /* under watch_mutex */
    pthread_mutex_t watch_mutex;

    pthread_mutex_t mutex;             /* guards the next seven */
    struct sqlite_write *first, *last; /* bodies waiting to be run */
    bool leading;                      /* a thread is running a group */
    struct sqlite_conn *readers;       /* idle */
    int reading;                       /* how many are in use */
    int64_t *own_workers;              /* whose liveness locks this handle holds */
    size_t own_worker_count;

    struct hurry hurry;
    bool deaf_told; /* atomic: it was said that inotify cannot be had */
    struct sqlite_clock clock;

    /* sqlite_fork.c */
    bool is_inherited;
    struct sqlite_db *inherited; /* the next in the list of those */

    /* Only the leading thread touches what follows. */
    struct sqlite_conn writer; /* not open: it had to be closed, and is opened by the next one */
    struct sqlite_wal wal;
    struct sqlite_stranger stranger;
};

struct sqlite_tx {
    struct db_tx base;
    struct sqlite_conn *conn;
};

int sqlite_db_write(struct db *base, struct arena *arena, db_body *body, void *arg,
                    struct err *err);
int sqlite_db_write_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                           void *arg, struct err *err);
int sqlite_db_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);

/* sqlite_open.c */
/* Opens the writer that had to be closed. In the writers' turn. */
int sqlite_db_reopen_writer(struct sqlite_db *db, struct err *err);
void sqlite_db_close_connections(struct sqlite_db *db);

/* sqlite_fork.c */
void sqlite_fork_before(struct db *base);
void sqlite_fork_parent(struct db *base);
void sqlite_fork_child(struct db *base);
void sqlite_fork_close(struct db *base);
/* To be called before a store is opened. TEND_ESTATE: not possible in this process. */
int sqlite_fork_settle(const char *path, struct err *err);

/* Watches the bell from now on. TEND_EIO: by a timer, as inotify cannot be had; tried anew each
 * time. */
int sqlite_db_listen(struct sqlite_db *db, struct err *err);

/* When a wait that begins now and lasts for wait_ms is over, or for busy_ms, if that is less.
 * Monotonic. */
int64_t sqlite_db_until_ns(const struct sqlite_db *db, int64_t wait_ms);

/* The writers' turn, within wait_ms; ended by turnstile_leave. Fails also when a file of the store
 * is known to be gone (sqlite_files.h). */
int sqlite_db_enter(struct sqlite_db *db, int64_t wait_ms, struct err *err);

/* sqlite_wal.c */

/* From this on the writer's log is looked after by sqlite_wal_tend, not by SQLite. */
int sqlite_wal_init(struct sqlite_db *db, struct err *err);
/* After a commit, in the writers' turn: a checkpoint, if it is time for one. */
void sqlite_wal_tend(struct sqlite_db *db);
/* Whether somebody should be told that the log has grown large; true once. */
bool sqlite_wal_to_tell(struct sqlite_db *db);
void sqlite_wal_tell(struct sqlite_db *db);
int64_t sqlite_wal_bytes(const struct sqlite_db *db);
bool sqlite_wal_is_large(int64_t bytes);
/* A text that names the other processes that read the store at this moment; false: none is seen. */
bool sqlite_wal_name_readers(const struct sqlite_db *db, char *text, size_t size);
/* The same for the one process that has SQLite's write lock, which may be this one. */
bool sqlite_wal_name_writer(const struct sqlite_db *db, char *text, size_t size);

/* sqlite_stranger.c */

/* What the writer does when the store is locked: it waits as sqlite_stranger_begin says. Before
 * that, and while a store is made: up to until_ns (monotonic). */
void sqlite_stranger_watch(struct sqlite_db *db);
void sqlite_stranger_limit(struct sqlite_db *db, int64_t until_ns);
/* Begins a write transaction, in the writers' turn. TEND_EBUSY: another program has kept the store
 * locked until until_ns. */
int sqlite_stranger_begin(struct sqlite_db *db, int64_t until_ns, struct err *err);

/* sqlite_doctor.c */
int sqlite_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                     void *arg, struct err *err);

#endif
