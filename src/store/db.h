/*
 * The narrow interface to the store. Everything above speaks to this and never sees SQLite or
 * libpq.
 *
 * Named queries live in sql/<noun>.sql; sqlgen turns them into enum db_query and the table behind
 * it (db_query.h, generated). Numbers are int64, everything else is text, or bytes where the column
 * holds bytes; NULL is a value of its own.
 *
 * A write is a body run inside one transaction. On SQLite the bodies of all waiting threads are run
 * one after the other, each in a savepoint, and committed together (group commit); on PostgreSQL
 * each has a connection of its own. A body may be run again after transient contention, so it
 * resets what it fills. Results live in the arena given to the transaction.
 *
 * Invariants: a body that returns a negative code leaves no trace; db_write returns >= 0 only after
 * the commit is durable; bells ring only after the commit is visible to others.
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/proc.h"
#include "store/db_query.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- values --- */

enum db_type { DB_NULL, DB_INT, DB_TEXT, DB_BYTES };

struct db_value {
    union {
        int64_t number;   /* DB_INT */
        const char *text; /* DB_TEXT, DB_BYTES; NUL-terminated when it comes from a result */
    };
    size_t bytes; /* of text */
    enum db_type type;
};

struct db_value db_null(void);
struct db_value db_int(int64_t number);
struct db_value db_int_or_null(int64_t number); /* TEND_UNSET becomes NULL */
struct db_value db_text(const char *text);      /* NULL becomes NULL */
struct db_value db_text_n(const char *text, size_t bytes);
struct db_value db_bytes(const void *data, size_t bytes); /* NULL becomes NULL */

struct db_result {
    size_t rows, columns;
    const struct db_value *values; /* row by row */
};

/* A struct of values, or an array of such structs, as the values themselves (queries.h). */
#define DB_VALUES(structs) ((const struct db_value *)(structs))

int64_t db_num(struct db_value value);     /* NULL: TEND_UNSET */
const char *db_str(struct db_value value); /* NULL: NULL */

const struct db_value *db_at(const struct db_result *result, size_t row, size_t column);
int64_t db_number(const struct db_result *result, size_t row, size_t column); /* NULL: TEND_UNSET */
const char *db_string(const struct db_result *result, size_t row, size_t column); /* NULL: NULL */

/* --- the store --- */

struct db;
struct db_tx;

struct db_options {
    bool must_exist;
    bool beside_workers; /* see tend.h */
    bool durability_normal;
    /* For tests: whether claims begin behind the last one (pg_claim.c); gets clock_arg. NULL: when
     * something is in their way. */
    bool (*claim_behind)(void *arg);
    int connections;
    int64_t busy_ms;
    int64_t open_ms;                /* see tend.h */
    int64_t (*clock_ms)(void *arg); /* store time for tests, or NULL */
    void *clock_arg;
    /* What somebody should know although nothing failed; any thread, outside of transactions. */
    void (*notice)(void *arg, const char *text); /* or NULL */
    void *notice_arg;
    int64_t (*uptime_ms)(void *arg, int with_sleep); /* for tests: see tend.h */
};

/* Opens by URL and brings the schema up to date. On failure *ret stays NULL and err has the
 * sentence. */
int db_open(struct db **ret, const char *url, const struct db_options *options, struct err *err);
void db_close(struct db *db);

/*
 * After fork(), in the child: every call fails with TEND_ESTATE, and db_close frees memory and does
 * nothing to the store. The child has no copy of any lock or session of its parent.
 */
bool db_is_forked(const struct db *db);

typedef int db_body(struct db_tx *tx, void *arg);

/* Both return what body returned, or a negative code with the sentence in err. */
int db_write(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err);
int db_read(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err);

/*
 * The same for a caller that cannot wait for the store as long as the options allow (-1: as they
 * say). SQLite: TEND_EBUSY when the write lock could not be had within wait_ms. PostgreSQL: every
 * wait, for a lock, a connection or an answer, ends soon after wait_ms: TEND_EBUSY, or
 * TEND_EUNREACHABLE when the server has said nothing.
 */
int db_write_within(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body, void *arg,
                    struct err *err);
int db_read_within(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body, void *arg,
                   struct err *err);
/* The last write could not be made because another process keeps the store's write lock, or the
 * last call because the server was out of reach. */
bool db_is_blocked(struct db *db);

struct arena *db_arena(struct db_tx *tx);
struct err *db_err(struct db_tx *tx);
struct db *db_store(struct db_tx *tx);

/*
 * For a program's main, before anything else: SQLite stops counting its allocations, each of which
 * takes a process-wide mutex. Changes the process, so the library never does it by itself.
 */
void db_tune_process(void);

/*
 * For a program that is about to be stopped, by Ctrl-Z: no thread of the process keeps the writers
 * of others waiting from the return of db_pause_process to db_resume_process; those that want to
 * write wait.
 */
void db_pause_process(void);
void db_resume_process(void);

/* --- inside a body --- */

/*
 * How a query is run; may be combined. Both are hints that save PostgreSQL round trips and change
 * nothing on SQLite.
 */
enum {
    DB_LATER =
        1, /* the result is not needed before the next query that is not DB_LATER, or the end */
    DB_LAST = 2, /* nothing follows and the body will return >= 0: commit along with it */
};

/* Runs a named query; result may be NULL. 0 or a negative code; TEND_ECONFLICT: a unique key is
 * taken. */
int db_run(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
           struct db_result *result);

/*
 * Runs a named query for each of count rows of params (row by row, as many as the query has). For
 * each row, ret_each tells what happened: 0 when nothing changed, otherwise the id of the inserted
 * row, or 1. On PostgreSQL it is one statement over arrays.
 */
int db_each(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
            size_t count, int64_t *ret_each);

/*
 * A part of a body that may fail without the rest: what it returned. When it fails and
 * *ret_undone is true, its changes are undone, the sentence is in db_err, and the body may continue
 * and return >= 0. When *ret_undone is false, the whole body must fail with that code: the store
 * itself has failed. The part runs no query with DB_LAST.
 */
int db_attempt(struct db_tx *tx, db_body *part, void *arg, bool *ret_undone);

/* The parameter behind now(:now): the time on SQLite or in a test, NULL where the server's clock
 * counts. */
struct db_value db_now(struct db_tx *tx);

/* Store time as a number; may cost a round trip. */
int db_time(struct db_tx *tx, int64_t *ret_ms);

/*
 * Time that counts against no lease, but that no lease has got back yet: the next commit moves all
 * of them (on PostgreSQL, the next that would take something because its time is over). In a write
 * nothing is owed: on SQLite it has moved them, on PostgreSQL it looks for itself (db_clock_look).
 */
struct db_owed {
    int64_t all_ms; /* by so much the leases will be moved; more than any lasts: they begin anew */
    int64_t blocked_ms; /* the part of it in which nobody could write */
};
/* 0 or a negative code; a round trip on PostgreSQL. Whoever writes first gives back all of it but
 * for a second at most (who has the turn may have read its clocks so much later), and what comes
 * after. */
int db_owed(struct db_tx *tx, struct db_owed *ret);

/* The parameter behind now(:now) with which a reader compares the ends of leases: what is owed to
 * them is taken off. 0 or a negative code. */
int db_lease_now(struct db_tx *tx, struct db_value *ret);

/* The end of a lease or lock as it will be once what is owed was given back: a move makes none
 * longer than its length from now on. */
int64_t db_owed_end(const struct db_owed *owed, int64_t end_ms, int64_t now_ms, int64_t length_ms);

/* Ids go on at first_id and tokens above token_base, which are above all that there are. */
int db_begin_generation(struct db_tx *tx, int64_t first_id, int64_t token_base);

/* Others may have work to do once this has committed: whoever waits for one of these bells wakes.
 */
void db_ring(struct db_tx *tx, uint64_t bells);

/*
 * Whether bodies of others run at the same time, so that a row one has locked keeps others waiting:
 * on PostgreSQL. Then rows are locked in one order (store/pg_order.c, queue/claim.c), and what is
 * large is sent before the first is locked.
 */
bool db_concurrent(const struct db_tx *tx);
bool db_is_concurrent(const struct db *db);

/* --- waiting --- */

/*
 * A store has DB_BELLS bells, so that news about one queue do not wake those who wait for another.
 * A name has one of them, which it may share with other names. A set of bells is a bit mask.
 */
enum { DB_BELLS = 64 };
#define DB_BELLS_ALL UINT64_MAX
uint64_t db_bell_of(const char *name);

/*
 * A number that changes when one of these bells has rung since it was last read here. Taken before
 * looking for work, given to db_wait, so that no ring in between is missed.
 */
uint64_t db_bell(struct db *db, uint64_t bells);

enum db_news {
    DB_TIMEOUT,     /* nothing happened */
    DB_RANG,        /* one of the bells rang after `seen` */
    DB_DEATH,       /* a watched process ended, or a session was lost: look at the workers */
    DB_INTERRUPTED, /* db_interrupt */
};

/* Time by which waits are measured: the monotonic clock's, or a simulation's. */
int64_t db_mono_ms(const struct db *db);

/* Sleeps until there is news or timeout_ms (-1: for ever) has passed. An enum db_news or a negative
 * code. */
int db_wait(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms, struct err *err);
void db_interrupt(struct db *db); /* async-signal-safe */
/*
 * No call waits for a silent server, or for others that write to an SQLite store, longer than
 * most_ms (at least a second or so) from its beginning, or from now on if it is under way; 0: as
 * the options say. Async-signal-safe.
 */
void db_hurry(struct db *db, int64_t most_ms);

/* A worker of this machine, other than this process. */
struct db_watched {
    int64_t id;             /* 0: it holds no liveness lock */
    struct proc_id process; /* pid 0: of another pid namespace */
};

/* Whose end db_wait reports; replaces those given before. */
int db_watch(struct db *db, const struct db_watched *workers, size_t count, struct err *err);

/* --- liveness --- */

/* From now until db_alive_end, or the end of this process or session, others see worker_id alive.
 * TEND_EBUSY, in a body: another process holds the lock of that id. wait_ms as in db_write_within.
 */
int db_alive_begin(struct db *db, int64_t worker_id, int64_t wait_ms, struct err *err);
void db_alive_end(struct db *db, int64_t worker_id);

/*
 * Whether db_alive_begin may be called inside the body that makes worker_id known, so that nobody
 * ever sees the one without the other. On PostgreSQL it cannot: another session holds the lock.
 */
bool db_alive_in_body(const struct db *db);

/* Whether worker_id, of this handle, was taken for dead while its session was lost. Cheap. */
bool db_alive_buried(struct db *db, int64_t worker_id);

/*
 * In a body that is about to take worker_id for dead because its liveness lock is gone. 1: it is,
 * and will not come back before the body has committed; 0: it has come back, or somebody else is at
 * it.
 */
int db_alive_deny(struct db_tx *tx, int64_t worker_id);

/* Which of the workers hold their liveness lock. Cheap; not inside a body. */
int db_alive_check(struct db *db, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                   bool *ret_alive, struct err *err);

/* How long a lost liveness lock is given to come back: 0 on SQLite, where it cannot. */
int64_t db_alive_grace_ms(const struct db *db);

/* Whether all workers run on one machine, so that another boot id means an earlier boot. */
bool db_one_machine(const struct db *db);

/*
 * Whether store time tells by itself that an owner was silent: it moves leases along with time that
 * nobody has lived through. False where the clock is the server's, which may jump or be away.
 */
bool db_clock_is_even(const struct db *db);

/*
 * In a body, before something is taken because its time is over. 0: the clock has run evenly; 1:
 * whether it has is to be settled first (db_clock_settle), and nothing is to be taken.
 */
int db_clock_look(struct db_tx *tx);

/*
 * A body of its own: moves leases and locks along with a clock that was set, or a server that was
 * away, and notes what to compare with the next time. 1: something was moved; 0: all is well now;
 * DB_CLOCK_DOUBTFUL: nothing was moved, because two machines go by one name and their marks differ.
 * On SQLite every write begins with this by itself.
 */
enum { DB_CLOCK_DOUBTFUL = 2 };
int db_clock_settle(struct db_tx *tx);

/* How often a claim looks for alarms although it finds work: 0 always (cheap), else every so many
 * ms. */
int64_t db_alarm_interval_ms(const struct db *db);

/* Whether the store was deleted or replaced while it was open: no call on it can succeed any more.
 */
bool db_gone(struct db *db);

/* --- care --- */

int db_schema_version(struct db *db, int *ret_store, int *ret_library, struct err *err);

struct db_migration {
    const char *sql;
    const char *checksum; /* of that text */
};
/* All this library has for the store, in order; one without a text ends them. */
const struct db_migration *db_migrations(const struct db *db);

/* Engine-specific findings, as tend_doctor; verdict is an enum tend_verdict. */
int db_doctor(struct db *db,
              void (*report)(void *arg, int verdict, const char *what, const char *text), void *arg,
              struct err *err);
/* The same for a store that cannot be opened because it is damaged: what is, as far as it can be
 * read. TEND_ECORRUPT: the engine of this URL cannot tell. */
int db_doctor_damaged(const char *url,
                      void (*report)(void *arg, int verdict, const char *what, const char *text),
                      void *arg, struct err *err);

#endif
