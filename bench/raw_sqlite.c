/*
 * The bare side on SQLite: what a careful program without a library would do. WAL,
 * synchronous=FULL, prepared statements, a page cache as large as tend's.
 *
 * Several threads share one connection and commit as a group (group.h).
 */
#include "bench/group.h"
#include "bench/side.h"

#include <sqlite3.h>
#include <stdlib.h>

enum statement { BEGIN, COMMIT, ADD, SELECT, CLAIM, COMPLETE, STATEMENTS };

static const char schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16000;"
    "CREATE TABLE job ("
    "    id INTEGER PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL,"
    "    priority INTEGER NOT NULL, due_at INTEGER NOT NULL, owner TEXT, lease_until INTEGER,"
    "    token INTEGER NOT NULL DEFAULT 0, kind TEXT NOT NULL, payload TEXT NOT NULL);"
    "CREATE INDEX job_pending ON job (queue, priority, due_at) WHERE state = 1;";

static const char *const texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ADD] = "INSERT INTO job (queue, state, priority, due_at, kind, payload)"
            " VALUES (?1, 1, 5, ?2, ?3, ?4)",
    [SELECT] = "SELECT id, token, kind, payload FROM job"
               " WHERE queue = ?1 AND state = 1 ORDER BY priority, due_at, id LIMIT ?2",
    [CLAIM] = "UPDATE job SET state = 2, owner = ?2, lease_until = ?3, token = token + 1"
              " WHERE id = ?1 AND state = 1",
    [COMPLETE] = "UPDATE job SET state = 4, owner = NULL, lease_until = NULL"
                 " WHERE id = ?1 AND token = ?2 AND state = 2",
};

struct raw_store {
    sqlite3 *sqlite;
    sqlite3_stmt *statements[STATEMENTS];
    bool grouped;
    struct group group;
};

static int fail(struct raw_store *store, const char *what)
{
    return bench_fail("bare SQLite, %s: %s", what, sqlite3_errmsg(store->sqlite));
}

static void raw_close(void *arg)
{
    struct raw_store *store = arg;
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->sqlite);
    group_done(&store->group);
    free(store);
}

static int insert_group(void *arg, const struct group_member *first);

static int raw_open(void **ret_store, const struct place *place, size_t sessions)
{
    struct raw_store *store = calloc(1, sizeof *store);
    char path[PLACE_URL_BYTES];
    if (store == NULL)
        return bench_fail("out of memory");
    *ret_store = store;
    store->grouped = sessions > 1;
    group_init(&store->group, insert_group, store);
    place_path(place, path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &store->sqlite, flags, NULL) != SQLITE_OK ||
        sqlite3_exec(store->sqlite, schema, NULL, NULL, NULL) != SQLITE_OK)
        return fail(store, "making the table");
    for (size_t i = 0; i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(store->sqlite, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->statements[i], NULL) != SQLITE_OK)
            return fail(store, texts[i]);
    return 0;
}

static int raw_session_open(void *store, void **ret_session)
{
    *ret_session = store;
    return 0;
}

static void raw_session_close(void *session)
{
    (void)session;
}

static int step(struct raw_store *store, enum statement which)
{
    int rc = sqlite3_step(store->statements[which]);
    sqlite3_reset(store->statements[which]);
    return rc == SQLITE_DONE ? 0 : fail(store, texts[which]);
}

static int insert(struct raw_store *store, size_t count)
{
    sqlite3_stmt *statement = store->statements[ADD];
    sqlite3_bind_text(statement, 1, SIDE_QUEUE, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, bench_now_ms());
    sqlite3_bind_text(statement, 3, SIDE_KIND, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, SIDE_PAYLOAD, -1, SQLITE_STATIC);
    for (size_t i = 0; i < count; i++)
        if (step(store, ADD) < 0)
            return -1;
    return 0;
}

static int insert_group(void *arg, const struct group_member *first)
{
    struct raw_store *store = arg;
    int rc = step(store, BEGIN);
    for (const struct group_member *member = first; rc == 0 && member != NULL;
         member = member->next)
        rc = insert(store, member->count);
    return rc == 0 ? step(store, COMMIT) : rc;
}

static int raw_add(void *session, size_t count)
{
    struct raw_store *store = session;
    if (store->grouped)
        return group_add(&store->group, count);
    if (count == 1)
        return insert(store, 1); /* its own transaction */
    if (step(store, BEGIN) < 0 || insert(store, count) < 0)
        return -1;
    return step(store, COMMIT);
}

static int claim_rows(struct raw_store *store, size_t count, struct tend_lease *ret)
{
    sqlite3_stmt *select = store->statements[SELECT];
    sqlite3_stmt *claim = store->statements[CLAIM];
    int found = 0;
    size_t bytes = 0;
    int rc;
    sqlite3_bind_text(select, 1, SIDE_QUEUE, -1, SQLITE_STATIC);
    sqlite3_bind_int64(select, 2, (int64_t)count);
    while ((rc = sqlite3_step(select)) == SQLITE_ROW) {
        ret[found].id = sqlite3_column_int64(select, 0);
        ret[found].token = sqlite3_column_int64(select, 1) + 1;
        /* A worker would look at these. */
        bytes += (size_t)sqlite3_column_bytes(select, 2) + (size_t)sqlite3_column_bytes(select, 3);
        found++;
    }
    sqlite3_reset(select);
    if (rc != SQLITE_DONE || (found > 0 && bytes == 0))
        return fail(store, texts[SELECT]);
    sqlite3_bind_text(claim, 2, SIDE_OWNER, -1, SQLITE_STATIC);
    sqlite3_bind_int64(claim, 3, bench_now_ms() + 60000);
    for (int i = 0; i < found; i++) {
        sqlite3_bind_int64(claim, 1, ret[i].id);
        if (step(store, CLAIM) < 0)
            return -1;
    }
    return found;
}

static int complete_rows(struct raw_store *store, const struct tend_lease *leases, size_t count)
{
    sqlite3_stmt *complete = store->statements[COMPLETE];
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(complete, 1, leases[i].id);
        sqlite3_bind_int64(complete, 2, leases[i].token);
        if (step(store, COMPLETE) < 0)
            return -1;
    }
    return 0;
}

static int raw_claim(void *session, size_t count, struct tend_lease *ret)
{
    struct raw_store *store = session;
    int found;
    if (step(store, BEGIN) < 0 || (found = claim_rows(store, count, ret)) < 0 ||
        step(store, COMMIT) < 0)
        return -1;
    return found;
}

static int raw_complete(void *session, const struct tend_lease *leases, size_t count)
{
    struct raw_store *store = session;
    if (count == 1)
        return complete_rows(store, leases, 1);
    if (step(store, BEGIN) < 0 || complete_rows(store, leases, count) < 0)
        return -1;
    return step(store, COMMIT);
}

static int raw_turn(void *session, const struct tend_lease *leases, size_t done, size_t count,
                    struct tend_lease *ret)
{
    struct raw_store *store = session;
    int found;
    if (step(store, BEGIN) < 0 || complete_rows(store, leases, done) < 0 ||
        (found = claim_rows(store, count, ret)) < 0 || step(store, COMMIT) < 0)
        return -1;
    return found;
}

const struct side side_raw_sqlite = {
    .name = "raw",
    .open = raw_open,
    .close = raw_close,
    .session_open = raw_session_open,
    .session_close = raw_session_close,
    .add = raw_add,
    .claim = raw_claim,
    .complete = raw_complete,
    .turn = raw_turn,
};
