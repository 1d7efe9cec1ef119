/*
 * What an engine (db_sqlite*.c, db_postgres*.c) provides: db.h as a table of functions. db.c picks
 * the engine by URL and passes calls on; the meaning and ownership of each slot is that of its twin
 * in db.h.
 */
#ifndef STORE_DB_ENGINE_H
#define STORE_DB_ENGINE_H

#include "store/db.h"
#include "store/forks.h"

struct db_engine {
    void (*close)(struct db *db);
    /* Around fork(), see forks.h; each but close_forked may be NULL. The child closes descriptors;
     * close_forked, in the child, frees memory and tells nobody. */
    void (*before_fork)(struct db *db);
    void (*fork_parent)(struct db *db);
    void (*fork_child)(struct db *db);
    void (*close_forked)(struct db *db);
    int (*write)(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err);
    int (*write_within)(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body,
                        void *arg, struct err *err); /* NULL: as write */
    int (*read_within)(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body,
                       void *arg, struct err *err); /* NULL: as read */
    bool (*is_blocked)(struct db *db);              /* NULL: never */
    int (*read)(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err);
    int (*run)(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
               struct db_result *result);
    int (*each)(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
                size_t count, int64_t *ret_each);
    int (*attempt)(struct db_tx *tx, db_body *part, void *arg,
                   bool *ret_undone); /* NULL: a failure is the whole body's */
    int (*time)(struct db_tx *tx, int64_t *ret_ms);
    int (*owed)(struct db_tx *tx, struct db_owed *ret); /* NULL: nothing ever is */
    int (*begin_generation)(struct db_tx *tx, int64_t first_id,
                            int64_t token_base); /* NULL: by the query store_skip_ids */
    uint64_t (*bell)(struct db *db, uint64_t bells);
    int (*wait)(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms, struct err *err);
    int64_t (*mono_ms)(const struct db *db); /* NULL: the monotonic clock */
    void (*interrupt)(struct db *db);
    void (*hurry)(struct db *db, int64_t most_ms); /* NULL: nothing to hurry */
    int (*watch)(struct db *db, const struct db_watched *workers, size_t count, struct err *err);
    int (*alive_begin)(struct db *db, int64_t worker_id, int64_t wait_ms, struct err *err);
    void (*alive_end)(struct db *db, int64_t worker_id);
    bool (*alive_buried)(struct db *db, int64_t worker_id); /* NULL: never */
    int (*alive_deny)(struct db_tx *tx, int64_t worker_id); /* NULL: a lock that is gone stays so */
    int (*alive_check)(struct db *db, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                       bool *ret_alive, struct err *err);
    int (*schema_version)(struct db *db, int *ret_store, struct err *err);
    int (*doctor)(struct db *db, void (*report)(void *, int, const char *, const char *), void *arg,
                  struct err *err);
    const struct db_migration *migrations;
    bool (*gone)(struct db *db);                  /* NULL: never */
    bool (*clock_is_uneven)(const struct db *db); /* NULL: it is even */
    int (*clock_look)(struct db_tx *tx);          /* NULL, as the next: it is even */
    int (*clock_settle)(struct db_tx *tx);
    int64_t alive_grace_ms;
    int64_t alarm_interval_ms;
    bool one_machine;
    bool concurrent;
    bool alive_in_body;
    bool guards_change; /* see forks_begin_change */
};

/* The part of a store every engine starts its own struct with. */
struct db {
    const struct db_engine *engine;
    struct fork_link link;
    int64_t pid; /* of the process that opened it */
    bool forked; /* this is another one, a child of it */
};

/* The part of a transaction every engine starts its own struct with. */
struct db_tx {
    struct db *db;
    struct arena *arena;
    struct err *err;
    struct db_value now; /* see db_now */
    uint64_t ring;       /* the bells that ring once it has committed */
};

/* Whether a failure with this code says nothing about the store as a whole; see db_attempt. */
bool db_fails_alone(int code);

void db_notice(const struct db_options *options, const char *text);

int db_sqlite_open(struct db **ret, const char *path, const struct db_options *options,
                   struct err *err);
/* See db_doctor_damaged. */
int db_sqlite_doctor_damaged(const char *path,
                             void (*report)(void *arg, int verdict, const char *what,
                                            const char *text),
                             void *arg, struct err *err);
int db_postgres_open(struct db **ret, const char *url, const struct db_options *options,
                     struct err *err);

/* One row of the generated table of queries. */
struct db_query_text {
    const char *name;  /* for the database alone */
    const char *doing; /* for sentences: "changing jobs" */
    const char *sqlite;
    const char *sqlite_each; /* run for every row of `sqlite`, its first column as the last
                                parameter; or NULL */
    const char *sqlite_many; /* run once for many rows, which are in the table given; or NULL */
    const char *postgres;
    int params;
    const char *columns; /* their names; "": it returns nothing, or is for db_each */
};
extern const struct db_query_text db_query_texts[DB_QUERIES];

/*
 * The migrations of one dialect, in order; one without a text ends them. The store's version is how
 * many ran. Each that has run is a row of the store's table migration with the checksum it had; for
 * those before version 4, which made the table, it is the one known then.
 */
extern const struct db_migration db_migrations_sqlite[];
extern const struct db_migration db_migrations_postgres[];
int db_library_schema(void);

#endif
