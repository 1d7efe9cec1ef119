/*
 * One SQLite connection with its prepared statements, and how named queries run on it. Not
 * thread-safe; whoever uses it sees to that. Knows nothing of transactions between processes.
 */
#ifndef STORE_SQLITE_CONN_H
#define STORE_SQLITE_CONN_H

#include "store/db_engine.h"
#include "store/sqlite_given.h"

#include <sqlite3.h>

/* Only what comes from outside tend can make a connection busy. How long a reader waits then; the
 * writer: see sqlite_stranger.c. */
enum { SQLITE_CONN_BUSY_MS = 10000 };

/*
 * Statements that begin and end transactions. They are prepared when a connection is opened:
 * whoever undoes something because memory has run out cannot prepare a statement first.
 */
enum sqlite_fixed {
    FIXED_READ,
    FIXED_WRITE,
    FIXED_COMMIT,
    FIXED_ROLLBACK,
    FIXED_SAVEPOINT,
    FIXED_UNDO,
    FIXED_RELEASE,
    FIXED_ATTEMPT, /* inside of the one above */
    FIXED_ATTEMPT_UNDO,
    FIXED_ATTEMPT_RELEASE,
    FIXED_COUNT
};

struct sqlite_conn {
    sqlite3 *sqlite;
    const char *path;                     /* for sentences; the caller's, and outlives this */
    sqlite3_stmt *statements[DB_QUERIES]; /* prepared on first use */
    sqlite3_stmt *each[DB_QUERIES];
    sqlite3_stmt *many[DB_QUERIES];
    sqlite3_stmt *fixed[FIXED_COUNT];
    struct sqlite_given given; /* rows of the call that is running */
    int64_t next_event; /* the id the coming event will have; set at the start of every write */
    int64_t token_base; /* of the store; set with it */
    bool unwritable;    /* nobody can write, as it seems; whoever asks clears it before */
    struct sqlite_conn *next; /* in a list of idle connections */
};

/* On failure err has the sentence; the connection is then closed. */
int sqlite_conn_open(struct sqlite_conn *conn, const char *path, int flags, struct err *err);
void sqlite_conn_close(struct sqlite_conn *conn);

/* Prepares the fixed statements. After all pragmas and migrations, which would expire them. */
int sqlite_conn_prepare_fixed(struct sqlite_conn *conn, struct err *err);
int sqlite_conn_fixed(struct sqlite_conn *conn, enum sqlite_fixed which, struct err *err);
/* Undoes a transaction, if one is open. False: it is still open, and the caller must close the
 * connection, so that nobody commits it or waits for it. */
bool sqlite_conn_undo(struct sqlite_conn *conn);

/* The TEND_E code for SQLite's extended result code, with a sentence about doing `what`. */
int sqlite_conn_fail(struct sqlite_conn *conn, int rc, const char *what, struct err *err);

/* One or several statements without results. */
int sqlite_conn_exec(struct sqlite_conn *conn, const char *sql, const char *what, struct err *err);
int sqlite_conn_pragma_int(struct sqlite_conn *conn, const char *pragma, int64_t *ret,
                           struct err *err);

int sqlite_conn_run(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                    const struct db_value *params, struct db_result *result);
int sqlite_conn_each(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                     const struct db_value *params, size_t count, int64_t *ret_each);

#endif
