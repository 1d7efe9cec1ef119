/*
 * What the files of the PostgreSQL engine share. Nobody else includes this.
 *
 *     pg_url.c      the store URL: what libpq gets, what tend keeps (tend_schema, tend_pooler)
 *     pg_errors.c   SQLSTATE to code and sentence
 *     pg_connect.c  making a connection, silently
 *     pg_exec.c     waiting for the server, within limits
 *     pg_settings.c what a session is set to, and whether it is ours
 *     pg_patience.c how long a call may take
 *     pg_conn.c     one connection in pipeline mode: sending, and reading answers in order
 *     pg_pool.c     the connections of a handle, handed out fairly
 *     pg_query.c    a named query: parameters into the pipeline, rows into the arena
 *     pg_array.c    parameters that are arrays
 *     pg_order.c    the order in which rows are locked
 *     pg_flight.c   statements that go to the server together, and their answers
 *     pg_schema.c   migrations
 *     pg_gone.c     whether the store is still the one that was opened
 *     pg_claim.c    where a claim begins to look when dead rows are in its way
 *     pg_clock.c    whether the server's clock has run evenly
 *     pg_keeper.c   the thread that listens, holds liveness locks and looks after a neighbour
 *     pg_session.c  ... and what it says to the server
 *     pg_doctor.c   what there is to say about the server
 *     pg_tx.c       transactions
 *     pg_group.c    transactions of several threads committed together
 *     pg_merge.c    ... and their statements put together
 *     db_postgres.c opening, waiting, and the table of functions
 */
#ifndef STORE_PG_DB_H
#define STORE_PG_DB_H

#include "base/rng.h"
#include "store/db_engine.h"
#include "store/hurry.h"
#include "store/waiter.h"

#include <libpq-fe.h>
#include <pthread.h>

enum { PG_SCHEMA_BYTES = 64, PG_WHERE_BYTES = 200 };

/* --- pg_url.c --- */

struct pg_url {
    const char **keywords; /* for libpq; end with NULL, as values */
    const char **values;
    char schema[PG_SCHEMA_BYTES];
    char channel[PG_SCHEMA_BYTES]; /* of NOTIFY; a name, too */
    char where[PG_WHERE_BYTES];    /* host, port and database, for sentences; never a password */
    bool pooler;              /* behind a transaction pooler: nothing may live in the session */
    bool pooler_given;        /* the URL says whether; otherwise it is found out */
    bool several_hosts;       /* one of them may be another primary */
    PQconninfoOption *parsed; /* owns the strings */
    char *options;            /* ... but this one: the startup options with ours; or NULL */
};

int pg_url_parse(struct pg_url *url, const char *text, struct err *err);
void pg_url_done(struct pg_url *url);
/* Where the keyword is, or where the lists end. */
size_t pg_url_find(const struct pg_url *url, const char *keyword);
/* The startup options that the user has given somewhere, for free(), or NULL. */
char *pg_url_given_options(const struct pg_url *url);
/* Takes over the string, which is sent from here on instead of the user's; NULL: the user's again.
 */
void pg_url_set_options(struct pg_url *url, char *options);

/* Keys of advisory locks: one class per purpose and schema. */
enum pg_lock_class { PG_LOCK_SCHEMA, PG_LOCK_ALIVE, PG_LOCK_BELL };
int32_t pg_lock_class(const struct pg_url *url, enum pg_lock_class class);

/* --- pg_errors.c --- */

/* What a failure means for the body that met it. */
enum pg_fault {
    PG_FINE,
    PG_REFUSED,   /* the statement was refused; trying again would not help */
    PG_UNREAD,    /* the server did it, but its answer could not be read */
    PG_CONTENDED, /* serialization failure or deadlock: run the body again */
    PG_READONLY,  /* nothing can be written there: see enum pg_readonly */
    PG_SHARED,    /* the session is used by others, too: nothing more is to be done in it */
    PG_LOST,      /* the connection is gone */
};

/* Whether the connection cannot be used after it. */
bool pg_fault_ends_it(enum pg_fault fault);

/* Sentence, code and meaning of a failed result; what was being done: "adding jobs". */
enum pg_fault pg_error(const PGresult *result, const char *what, const char *where,
                       struct err *err);
/* Whether the role lacks a right. */
bool pg_error_is_denied(const PGresult *result);
/* Why a server writes nothing, as PG_READONLY_SQL returns it. */
enum pg_readonly {
    PG_NOT_READONLY,
    PG_READONLY_SET, /* a primary that was told so */
    PG_STANDBY,      /* another may be the primary */
};
#define PG_READONLY_SQL                                                                            \
    "SELECT CASE WHEN pg_is_in_recovery() THEN 2 "                                                 \
    "WHEN current_setting('default_transaction_read_only')::boolean THEN 1 ELSE 0 END"
/* Why, and what to do about it; "" for PG_NOT_READONLY. */
const char *pg_readonly_text(enum pg_readonly why);
/* Adds to the sentence why, and what to do about it. Returns the code. */
int pg_error_readonly(enum pg_readonly why, struct err *err);
/* The same for a connection that broke. */
enum pg_fault pg_error_lost(const PGconn *pg, const char *where, struct err *err);
/* The same for a server that has said nothing for so long. */
enum pg_fault pg_error_silent(const char *where, int64_t limit_ms, struct err *err);
/* Why no connection could be made. Returns the code. */
int pg_error_connect(PGconn *pg, const struct pg_url *url, struct err *err);

/* --- pg_connect.c --- */

/*
 * As PQconnectdbParams, and silent. TEND_EUNREACHABLE. No host gets more than most_ms, whatever the
 * URL says. *ret_refused: a pooler did not let us in because of the startup options.
 */
int pg_connect(PGconn **ret, const struct pg_url *url, int64_t most_ms, const struct hurry *hurry,
               bool *ret_refused, struct err *err);

/* As PQfinish. A child of a fork keeps no copy of the sockets in between. */
void pg_disconnect(PGconn *pg);

/* --- pg_exec.c --- */

/*
 * Waits for the socket: > 0 when it is ready, 0 when it was not within the limit, after which
 * nothing goes through it any more, < 0 when there is none. hurry may be NULL.
 */
int pg_wait(PGconn *pg, short events, int64_t limit_ms, const struct hurry *hurry,
            short *ret_events);
/* As PQexec, outside pipeline mode. NULL: no answer within the limit; the connection is lost. */
PGresult *pg_exec(PGconn *pg, const char *sql, int64_t limit_ms, const struct hurry *hurry);

/* --- pg_settings.c --- */

struct pg_db;

/* Puts the settings into the URL's startup options, unless it says tend_pooler. */
int pg_settings_offer(struct pg_db *db, struct err *err);
/* After connecting: *ret_ours is whether the session can be relied on; behind a pooler nobody does.
 */
int pg_settings_apply(PGconn *pg, const struct pg_db *db, int64_t limit_ms, bool *ret_ours,
                      struct err *err);
/* The sentence when it cannot. Returns the code. */
int pg_settings_shared(const struct pg_db *db, struct err *err);
/* The statement that follows each BEGIN behind a pooler. */
void pg_settings_local(const struct pg_db *db, char *out, size_t size);

/* --- pg_patience.c --- */

/* How long a call may take. */
struct pg_patience {
    int64_t begun_ms;    /* monotonic */
    int64_t deadline_ms; /* monotonic */
    bool hurried;        /* its caller waits less than the options allow: every wait ends by it */
};

/* wait_ms as in db_write_within. */
struct pg_patience pg_patience_start(const struct pg_db *db, int64_t wait_ms);
/* When it is over: its deadline, or earlier if the handle was told to hurry since it began. */
int64_t pg_patience_deadline(const struct pg_patience *patience, const struct pg_db *db);
/* How long an answer may take from now on, and the making of a connection. */
int64_t pg_patience_answer_ms(const struct pg_patience *patience, const struct pg_db *db);
int64_t pg_patience_connect_ms(const struct pg_patience *patience);
/* Whether both end so close to each other that one limit serves them. */
bool pg_patience_alike(const struct pg_patience *one, const struct pg_patience *other);
/* The statement that tells the server, at the beginning of a flight; NULL: its settings serve. */
enum { PG_HURRY_BYTES = 160 };
const char *pg_patience_sql(const struct pg_patience *patience, char out[PG_HURRY_BYTES]);

/* --- pg_conn.c --- */

struct pg_conn {
    PGconn *pg;
    const struct hurry *hurry; /* the handle's */
    int64_t limit_ms;          /* how long to wait for the server to say something */
    bool silent;               /* it has not */
    struct pg_conn *next;      /* in the pool's list of idle ones */
    unsigned owed;             /* synchronisation points whose answers nobody has waited for */
    bool one_by_one;           /* behind a pooler: nothing is sent while an answer is owed */
    /* per query: 0 not prepared, 1 on its way, 2 prepared */
    unsigned char prepared[DB_QUERIES];
};

/*
 * Connects and sets the session up; *ret_shared when that fails (may be NULL): because a pooler is
 * in between. Then pg_conn_prepare enters pipeline mode. pg_conn_open: both.
 */
int pg_conn_connect(struct pg_conn **ret, const struct pg_db *db,
                    const struct pg_patience *patience, bool *ret_shared, struct err *err);
int pg_conn_prepare(struct pg_conn *conn, struct pg_db *db, struct err *err);
int pg_conn_open(struct pg_conn **ret, struct pg_db *db, const struct pg_patience *patience,
                 struct err *err);
void pg_conn_close(struct pg_conn *conn);
/* Why the connection is lost. */
enum pg_fault pg_conn_lost(const struct pg_conn *conn, const char *where, struct err *err);
/* Whether an idle connection can still be used, as far as can be told without asking the server. */
bool pg_conn_usable(struct pg_conn *conn);
/* Sends what is in the buffers, reading meanwhile, so that neither side waits for the other for
 * ever. */
enum pg_fault pg_conn_flush(struct pg_conn *conn);
/* The next result; NULL at the end of a query's results. */
PGresult *pg_conn_result(struct pg_conn *conn);
/* Reads the answers that are owed. */
enum pg_fault pg_conn_skip(struct pg_conn *conn);
/*
 * After the answers to statements: reads up to their synchronisation point, which commits them
 * where there was no BEGIN. *ret_refusal, to be freed with PQclear: the server did not commit;
 * NULL: it did.
 */
enum pg_fault pg_conn_end(struct pg_conn *conn, PGresult **ret_refusal);
/* A statement whose answer is not waited for, in a transaction of its own. */
bool pg_conn_post(struct pg_conn *conn, const char *sql);
/*
 * To be called before anything is sent. Behind a pooler it reads the answers that are owed. Rule: a
 * client of a pooler never has two synchronisation points under way. A pooler (PgBouncer
 * 1.18) takes a session for free when its client ends after the first answer, and whoever gets the
 * session next reads the second as the answer to its own question. False: the connection is lost.
 */
bool pg_conn_clear(struct pg_conn *conn);
/* The bells in the same way. */
bool pg_conn_ring(struct pg_conn *conn, const struct pg_db *db, uint64_t bells);
/* One statement of the engine's own with text parameters; *ret is to be freed with PQclear. */
enum pg_fault pg_conn_ask(struct pg_conn *conn, const char *sql, int params,
                          const char *const *values, const char *where, PGresult **ret,
                          struct err *err);

/* --- pg_pool.c --- */

struct pg_pool {
    pthread_mutex_t mutex;
    struct pg_conn *idle;    /* last used first: its caches are warm */
    struct pg_ticket *first; /* threads waiting, in the order they came */
    struct pg_ticket *last;
    int open; /* connections that exist or are being made */
    int limit;
    uint64_t owed_bells; /* whoever gives a connection back rings them */
};

void pg_pool_init(struct pg_pool *pool, int limit);
void pg_pool_done(struct pg_pool *pool);
/*
 * A connection for this thread alone; waits for one when all are in use (TEND_EBUSY when none has
 * become free), and tries again when the server cannot be reached, as long as there is patience.
 */
int pg_pool_take(struct pg_db *db, const struct pg_patience *patience, struct pg_conn **ret,
                 struct err *err);
/* Gives it back; a broken one is closed. */
void pg_pool_give(struct pg_db *db, struct pg_conn *conn, bool broken);
/*
 * Rings bells of what is committed already, without waiting for a connection: if none is idle, they
 * are in use, and the first that is given back rings.
 */
void pg_pool_ring(struct pg_db *db, uint64_t bells);

/* --- pg_query.c --- */

struct job_claim_params;

/* What a statement may have to wait for, in the order in which it may: see pg_order.c. */
enum pg_waits { PG_WAITS_FOR_JOBS, PG_SKIPS_JOBS, PG_WAITS_FOR_LOCK, PG_WAITS_NOT };

/* A query on its way to the server. Lives in the transaction's arena. */
struct pg_call {
    struct pg_call *next;
    struct db_tx *tx; /* whose it is: its rows go into that one's arena */
    enum db_query query;
    int params;
    const char **values;
    int *lengths;
    int *formats;
    struct db_result *result;             /* where the rows go; may be NULL */
    bool prepares;                        /* it is preceded by its preparation */
    const struct job_claim_params *claim; /* the parameters of a claim; NULL: it is none */
    /* of db_each */
    bool each;
    bool arrays; /* all rows in one statement */
    size_t rows;
    int64_t *ret_each;             /* what became of each row; may be NULL */
    const size_t *order;           /* where each row stood in what was given; NULL: as it is sent */
    enum pg_waits waits;           /* what its rows are known by: */
    const int64_t *keys;           /* PG_WAITS_FOR_JOBS: their ids, as they are sent */
    int64_t key;                   /* where keys points to if there is one row */
    enum db_query asked;           /* the query that was asked for, where a shorter one serves */
    const struct db_value *source; /* its parameters, while the caller waits; NULL: they are gone */
    bool quiet;                    /* it has seen to it that nobody need be woken */
    bool unread;                   /* it was carried out, but its answer could not be read */
};

/* Encodes; keep: the parameters do not outlive this call. NULL when memory has run out. */
struct pg_call *pg_call_run(struct db_tx *tx, enum db_query query, const struct db_value *params,
                            bool keep, struct db_result *result);
/* One call for all rows, or a list of calls, one for each. */
struct pg_call *pg_call_each(struct db_tx *tx, enum db_query query, const struct db_value *params,
                             size_t rows, bool keep, int64_t *ret_each);
/* One call with arrays for all rows. */
struct pg_call *pg_call_arrays(struct db_tx *tx, enum db_query query, const struct db_value *params,
                               size_t rows, int64_t *ret_each);
/* Whether the query takes arrays. */
bool pg_call_takes_arrays(enum db_query query);
bool pg_call_send(struct pg_call *call, struct pg_conn *conn, bool pooler);
/* Takes the result of a call apart. */
int pg_call_answer(struct pg_call *call, const PGresult *result);
/* Whether the call itself looks whether anybody is to be woken. */
bool pg_call_looks(const struct pg_call *call);

/* --- pg_array.c --- */

/* Parameter `index` of the call: that column of all rows, as an array. False: out of memory. */
bool pg_array_put(struct pg_call *call, int index, const struct db_value *params, size_t rows,
                  struct arena *arena);

/* --- pg_order.c --- */

/*
 * The order in which the rows of a db_each are sent, as places in params; NULL: as they are given.
 * False: out of memory.
 */
bool pg_order_rows(enum db_query query, const struct db_value *params, size_t rows,
                   struct arena *arena, const size_t **ret_order);
/* The rows in that order; NULL: out of memory. */
const struct db_value *pg_order_params(enum db_query query, const struct db_value *params,
                                       size_t rows, const size_t *order, struct arena *arena);
/* Notes in the call what its rows, given as they are sent, wait for. False: out of memory. */
bool pg_order_note(struct pg_call *call, const struct db_value *params, size_t rows,
                   struct arena *arena);
/*
 * Puts statements that commit together in order. *ret_first: one that has to go before them all, or
 * NULL. False: out of memory.
 */
bool pg_order_calls(struct pg_call **calls, size_t count, struct arena *arena,
                    struct pg_call **ret_first);
/* Whether the calls of one transaction are in that order. */
bool pg_order_kept(const struct pg_call *calls);

/* --- pg_flight.c --- */

/* Statements that go to the server together, and their answers. */
struct pg_flight {
    struct pg_db *db;
    struct pg_conn *conn;
    struct err *err;
    const char *before[5]; /* statements before the calls; NULL: none */
    struct pg_call *calls;
    const char *after; /* a statement after them; NULL: none */
    bool commits;      /* the transaction ends with this flight */
    uint64_t rings;    /* the bells that follow */
    /* how it went */
    enum pg_fault fault;
    bool sent; /* what commits may have reached the server */
    bool
        unread; /* of some calls the answer could not be read; their transactions' errors say why */
};

/* 0, also when answers are unread, or a negative code with fault and err set. */
int pg_flight_go(struct pg_flight *flight);

/* --- pg_schema.c --- */

/* limit_ms: how long to wait for an answer while there is nothing to do. */
int pg_schema_update(struct pg_db *db, PGconn *pg, int64_t limit_ms, struct err *err);

/* --- pg_gone.c --- */

struct pg_identity {
    int64_t table; /* 0: not known yet */
    int64_t token_base;
};

/* Writes db->identity_sql, a query whose one value tells the store from others. */
void pg_gone_write_sql(struct pg_db *db);
/* Whether it was noticed that the store is gone. */
bool pg_gone(const struct pg_db *db);
/* It is: the sentence, and the code. */
int pg_gone_say(struct pg_db *db, struct err *err);
/* Looks at the answer to identity_sql; the first one is remembered. 0, or as pg_gone_say. */
int pg_gone_check(struct pg_db *db, const char *identity, struct err *err);
/* After a failure, with the sentence in err: when a table is missing, whether the store is. Returns
 * the code that is in err then. */
int pg_gone_missing(struct pg_db *db, struct err *err);

/* --- pg_clock.c --- */

enum { PG_BOOT_BYTES = 64 };

/* What this process has seen of the clocks itself: pg_clock.h. */
struct pg_own_mark {
    pthread_mutex_t mutex;
    bool known;
    int64_t boottime_ms, store_ms, clock_steps; /* as in a mark of the store */
    int64_t seen_boottime_ms, seen_store_ms;    /* the mark that was in the store then, or UNSET */
};

/* --- pg_claim.c --- */

enum { PG_CLAIM_QUEUES = 32, PG_QUEUE_BYTES = 208 };

/* Where claims of a queue begin to look. */
struct pg_position {
    char queue[PG_QUEUE_BYTES];
    int64_t priority, due_at, id; /* of the job claimed last */
    bool used;                    /* dead entries have been seen before it */
    int64_t from_start_ms; /* when a claim last looked from the beginning, on pg_claim.c's clock */
    int64_t from_start_at; /* the same in store time */
};

struct pg_claims {
    pthread_mutex_t mutex;
    struct pg_position positions[PG_CLAIM_QUEUES];
    size_t next; /* which is replaced next */
};

void pg_claims_init(struct pg_claims *claims);
void pg_claims_done(struct pg_claims *claims);
/* A transaction was undone, and what it claimed can be had again: claims begin at the beginning. */
void pg_claims_forget(struct pg_claims *claims);
/* The call for job_claim with its parameters, from the beginning or behind a position. */
struct pg_call *pg_claim_call(struct db_tx *tx, const struct db_value *params, bool keep,
                              struct db_result *result);
bool pg_claim_is(const struct pg_call *call);
/* Whether two claims differ in nothing but how many jobs they want. */
bool pg_claim_alike(const struct pg_call *one, const struct pg_call *other);
int64_t pg_claim_count(const struct pg_call *call);
/* The same claim for another number of jobs. */
struct pg_call *pg_claim_again(const struct pg_call *call, int64_t count, struct db_result *result);
/* Puts claimed rows in order, learns from them, and takes off the column that is not the caller's.
 */
bool pg_claim_answer(const struct pg_call *call, struct db_result *rows);

/* --- pg_group.c --- */

struct pg_group {
    pthread_mutex_t mutex;
    struct pg_rider *first; /* transactions waiting to fly along, in the order they came */
    struct pg_rider *last;
    int flying;         /* flights under way */
    int64_t average_ns; /* how long they take */
    int coming_back;    /* threads answered together and not seen since */
    bool gathers;       /* a leader waits for them */
    pthread_cond_t gathered;
    int gather_pause; /* every so many flights one may wait */
    int gather_rest;  /* ... and this many to go */
};

void pg_group_init(struct pg_group *group);
void pg_group_done(struct pg_group *group);

/* --- pg_keeper.c, pg_session.c --- */

enum { PG_BELL_SLOTS = 64 }; /* also in 001.postgres.sql */

struct pg_keeper {
    struct pg_db *db;
    pthread_t thread;
    int wake_fd;           /* eventfd: something was asked for */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool running;
    bool stop;
    /* asked for */
    int64_t *workers; /* whose liveness locks are to be held */
    size_t worker_count;
    int waiting;           /* threads in db_wait */
    int64_t idle_since_ms; /* monotonic: since when there is none; 0: there never was */
    uint64_t asked;
    /* as it is */
    uint64_t served; /* all that was asked up to here is so, or cannot be now */
    bool registered; /* rings reach this handle */
    bool complete;   /* connected, and all liveness locks are held */
    struct err err;  /* why it is not connected */
};

int pg_keeper_init(struct pg_keeper *keeper, struct pg_db *db, struct err *err);
void pg_keeper_done(struct pg_keeper *keeper);
int pg_keeper_hold(struct pg_keeper *keeper, int64_t worker_id, int64_t wait_ms, struct err *err);
void pg_keeper_release(struct pg_keeper *keeper, int64_t worker_id);
/* False: it was taken for dead while the session was lost, or is not one of this handle. */
bool pg_keeper_knows(struct pg_keeper *keeper, int64_t worker_id);
/*
 * Around the sleep of a thread. When rings did not reach this handle before, that counts as a ring,
 * so that the caller looks once more; *ret_hears: whether they do now. most_ms: how long that may
 * take.
 */
int pg_keeper_enter(struct pg_keeper *keeper, int64_t most_ms, bool *ret_hears, struct err *err);
void pg_keeper_leave(struct pg_keeper *keeper);
bool pg_keeper_runs(struct pg_keeper *keeper);

/* --- db_postgres.c --- */

struct pg_db {
    struct db base;
    struct db_options options;
    struct pg_url url;
    struct pg_pool pool;
    struct waiter waiter;
    struct pg_keeper keeper;
    struct pg_claims claims;
    struct pg_own_mark own_mark;
    char boot[PG_BOOT_BYTES]; /* whose time since boot this process sees; "": that is not known */
    struct pg_group group;
    pthread_mutex_t rng_mutex;
    struct rng rng;
    char session_name[20]; /* by which our own sessions are known; see pg_settings.c */
    char bell_sql[512];    /* rings the bells $1, if anybody waits for any */
    char local_sql[1024];  /* sets up a transaction behind a pooler */
    char identity_sql[256];
    struct pg_identity identity;
    bool gone; /* see pg_gone.c */
    bool away; /* the last call failed because the server was out of reach; see db_is_blocked */
    struct hurry hurry;
};

/* How long a call waits for the server to say something: longer than a statement may take there. */
int64_t pg_db_limit_ms(const struct pg_db *db);

double pg_db_random(struct pg_db *db);
void pg_db_sleep(int64_t ms);
/* Asks the server something with retries, as a read. *ret is to be freed with PQclear. */
int pg_db_ask(struct pg_db *db, int64_t wait_ms, const char *sql, PGresult **ret, struct err *err);

int pg_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                 void *arg, struct err *err);

#endif
