/* The SQLite engine's handle, shared by the files that make it up (see db_sqlite.c). */
#ifndef STORE_SQLITE_DB_H
#define STORE_SQLITE_DB_H

#include "base/rng.h"
#include "store/neighbour.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_files.h"
#include "store/turnstile.h"
#include "store/waiter.h"

#include <pthread.h>
#include <sys/types.h>

/* Statements that are not named queries. */
enum sqlite_fixed {
    FIXED_BEGIN,
    FIXED_COMMIT,
    FIXED_ROLLBACK,
    FIXED_SAVEPOINT,
    FIXED_UNDO,
    FIXED_RELEASE,
    FIXED_COUNT
};

struct sqlite_db {
    struct db base;
    char *path;
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

    struct rng rng;
    int64_t last_now_ms; /* atomic: store time never runs backwards */

    /* sqlite_fork.c */
    dev_t device; /* of the file */
    ino_t inode;
    bool is_inherited;
    struct sqlite_db *inherited; /* the next in the list of those */

    /* Only the leading thread touches what follows. */
    struct sqlite_conn writer;
    sqlite3_stmt *fixed[FIXED_COUNT];
};

struct sqlite_tx {
    struct db_tx base;
    struct sqlite_conn *conn;
};

int64_t sqlite_db_clock(const struct sqlite_db *db);
int sqlite_db_write(struct db *base, struct arena *arena, db_body *body, void *arg,
                    struct err *err);
int sqlite_db_write_within(struct db *base, int64_t wait_ms, struct arena *arena, db_body *body,
                           void *arg, struct err *err);
int sqlite_db_read(struct db *base, struct arena *arena, db_body *body, void *arg, struct err *err);

/* sqlite_open.c */
void sqlite_db_close_connections(struct sqlite_db *db);

/* sqlite_fork.c */
void sqlite_fork_before(struct db *base);
void sqlite_fork_parent(struct db *base);
void sqlite_fork_child(struct db *base);
void sqlite_fork_close(struct db *base);
/* To be called before a store is opened. TEND_ESTATE: not possible in this process. */
int sqlite_fork_settle(const char *path, struct err *err);

/* sqlite_doctor.c */
int sqlite_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                     void *arg, struct err *err);

#endif
