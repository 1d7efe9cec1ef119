#include "store/sqlite_conn.h"

#include "store/claim_row.h"
#include "store/queries.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <tend.h>

enum { LOOKASIDE_BYTES = 4096, LOOKASIDE_SLOTS = 128 };

/* From so many rows on, one statement for all is cheaper than one for each. */
enum { MANY_ROWS = 4 };

/* SQLite does not keep why it could not make the files beside the store. */
static bool lacks_inodes(const char *path)
{
    struct statvfs disk;
    return statvfs(path, &disk) == 0 && disk.f_files > 0 && disk.f_favail == 0;
}

/*
 * Whether others may have been unable to write as well. Permissions, and a limit on the size of
 * files, are this process's own.
 */
static bool concerns_all(const struct sqlite_conn *conn, int kind)
{
    struct statvfs disk;
    struct rlimit size;
    if (kind == SQLITE_READONLY || kind == SQLITE_PERM)
        return statvfs(conn->path, &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0;
    if (kind == SQLITE_CANTOPEN)
        return lacks_inodes(conn->path);
    if (kind == SQLITE_IOERR)
        return getrlimit(RLIMIT_FSIZE, &size) != 0 || size.rlim_cur == RLIM_INFINITY;
    return kind == SQLITE_FULL;
}

/* The errno of the last failed write to the file that this file control finds: the store or its
 * log. */
static int write_errno(sqlite3 *sqlite, int pointer)
{
    sqlite3_file *file = NULL;
    int failed = 0;
    if (sqlite3_file_control(sqlite, NULL, pointer, &file) == SQLITE_OK && file != NULL &&
        file->pMethods != NULL)
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &failed);
    return failed;
}

/* Whether a file could not grow for a limit on the size of files. SQLite does not keep the errno of
 * a commit that has failed, so its files are asked, too. */
static bool is_too_large(sqlite3 *sqlite)
{
    return sqlite3_system_errno(sqlite) == EFBIG ||
           write_errno(sqlite, SQLITE_FCNTL_JOURNAL_POINTER) == EFBIG ||
           write_errno(sqlite, SQLITE_FCNTL_FILE_POINTER) == EFBIG;
}

/* SQLite's index is a file that grows, for readers too. */
static int fail_io(const struct sqlite_conn *conn, int rc, const char *what, struct err *err)
{
    bool grows = rc == SQLITE_IOERR_WRITE || rc == SQLITE_IOERR_SHMSIZE;
    if (grows && conn->sqlite != NULL && is_too_large(conn->sqlite))
        return err_set(err, TEND_EFULL,
                       "%s: %s or a file beside it would grow beyond the limit on the size of "
                       "files; nothing was changed, raise the limit ('ulimit -f' shows it) and try "
                       "again",
                       what, conn->path);
    if (rc == SQLITE_IOERR_SHMSIZE)
        return err_set(err, TEND_EFULL,
                       "%s: no space left beside %s, and reading needs a little; make room and try "
                       "again",
                       what, conn->path);
    if (rc == SQLITE_IOERR_SHORT_READ)
        return err_set(
            err, TEND_EUNREACHABLE,
            "%s: %s-wal is not the log that %s-shm belongs to: one of them was deleted or "
            "replaced while the store was open; end all programs that have it open "
            "('fuser %s' shows which)",
            what, conn->path, conn->path, conn->path);
    return err_set(err, TEND_EIO, "%s: reading or writing %s failed (%s, code %d)", what,
                   conn->path, sqlite3_errstr(rc), rc);
}

int sqlite_conn_fail(struct sqlite_conn *conn, int rc, const char *what, struct err *err)
{
    const char *path = conn->path;
    const char *text = conn->sqlite == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(conn->sqlite);
    int kind = rc & 0xff;
    int failed = conn->sqlite == NULL ? 0 : sqlite3_system_errno(conn->sqlite);
    if ((kind == SQLITE_CANTOPEN || kind == SQLITE_IOERR) && err_lack(failed) != NULL)
        return err_set(err, TEND_ENOMEM, "%s: %s cannot be used: %s; %s", what, path,
                       strerror(failed), err_lack(failed));
    conn->unwritable |= concerns_all(conn, kind);
    switch (kind) {
    case SQLITE_CONSTRAINT:
        if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY)
            return err_set(err, TEND_ECONFLICT, "%s: %s", what, text);
        if (rc == SQLITE_CONSTRAINT_TRIGGER)
            return err_set(err, TEND_ESTATE, "%s: %s", what, text);
        return err_set(err, TEND_EINTERNAL, "%s: %s", what, text);
    case SQLITE_NOMEM:
        return err_set(err, TEND_ENOMEM, "%s: out of memory", what);
    case SQLITE_FULL:
        return err_set(err, TEND_EFULL,
                       "%s: no space left for %s; nothing was changed, make room and try again",
                       what, path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(err, TEND_EREADONLY,
                       "%s: %s cannot be written; check the permissions of the file and its folder",
                       what, path);
    case SQLITE_NOTADB:
        return err_set(err, TEND_ENOTADB,
                       "%s: %s is not a database; give the path of a tend store or of a new file",
                       what, path);
    case SQLITE_CORRUPT:
        return err_set(err, TEND_ECORRUPT,
                       "%s: %s is damaged (%s); stop all programs that use it, put a backup in its "
                       "place and run 'tend migrate --after-restore' ('tend doctor' lists what is "
                       "damaged as far as it can be read)",
                       what, path, text);
    case SQLITE_CANTOPEN:
        if (lacks_inodes(path))
            return err_set(err, TEND_EFULL,
                           "%s: no inodes left for files beside %s; make room and try again", what,
                           path);
        return err_set(err, TEND_EUNREACHABLE,
                       "%s: %s cannot be opened (%s); check that its folder exists and is yours",
                       what, path, text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(
            err, TEND_EBUSY,
            "%s: another program keeps %s locked without tend's guard; end it and try again", what,
            path);
    case SQLITE_IOERR:
        return fail_io(conn, rc, what, err);
    default:
        return err_set(err, TEND_EINTERNAL, "%s: %s (SQLite code %d)", what, text, rc);
    }
}

void db_tune_process(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int sqlite_conn_open(struct sqlite_conn *conn, const char *path, int flags, struct err *err)
{
    *conn = (struct sqlite_conn){.path = path};
    int rc = sqlite3_open_v2(
        path, &conn->sqlite,
        flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    /* Frames of trigger programs fit into these slots; otherwise every write would malloc them. */
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(conn->sqlite, SQLITE_DBCONFIG_LOOKASIDE, NULL, LOOKASIDE_BYTES,
                               LOOKASIDE_SLOTS);
    if (rc == SQLITE_OK)
        rc = sqlite_given_register(conn->sqlite, &conn->given);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(conn->sqlite, SQLITE_CONN_BUSY_MS);
    if (rc == SQLITE_OK)
        return 0;
    rc = sqlite_conn_fail(conn, rc, "opening the store", err);
    sqlite_conn_close(conn);
    return rc;
}

void sqlite_conn_close(struct sqlite_conn *conn)
{
    for (size_t i = 0; i < FIXED_COUNT; i++)
        sqlite3_finalize(conn->fixed[i]);
    for (size_t i = 0; i < DB_QUERIES; i++) {
        sqlite3_finalize(conn->statements[i]);
        sqlite3_finalize(conn->each[i]);
        sqlite3_finalize(conn->many[i]);
    }
    sqlite3_close(conn->sqlite);
    memset(conn, 0, sizeof *conn);
}

int sqlite_conn_prepare_fixed(struct sqlite_conn *conn, struct err *err)
{
    static const char *const texts[FIXED_COUNT] = {
        [FIXED_READ] = "BEGIN",
        [FIXED_WRITE] = "BEGIN IMMEDIATE",
        [FIXED_COMMIT] = "COMMIT",
        [FIXED_ROLLBACK] = "ROLLBACK",
        [FIXED_SAVEPOINT] = "SAVEPOINT operation",
        [FIXED_UNDO] = "ROLLBACK TO operation",
        [FIXED_RELEASE] = "RELEASE operation",
        [FIXED_ATTEMPT] = "SAVEPOINT attempt",
        [FIXED_ATTEMPT_UNDO] = "ROLLBACK TO attempt",
        [FIXED_ATTEMPT_RELEASE] = "RELEASE attempt",
    };
    for (size_t i = 0; i < FIXED_COUNT; i++) {
        int rc = sqlite3_prepare_v3(conn->sqlite, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &conn->fixed[i], NULL);
        if (rc != SQLITE_OK)
            return sqlite_conn_fail(conn, rc, "opening the store", err);
    }
    return 0;
}

int sqlite_conn_fixed(struct sqlite_conn *conn, enum sqlite_fixed which, struct err *err)
{
    int rc = sqlite3_step(conn->fixed[which]);
    sqlite3_reset(conn->fixed[which]);
    if (rc == SQLITE_DONE)
        return 0;
    return sqlite_conn_fail(conn, rc,
                            which == FIXED_READ     ? "reading the store"
                            : which == FIXED_COMMIT ? "saving to the store"
                                                    : "writing to the store",
                            err);
}

bool sqlite_conn_undo(struct sqlite_conn *conn)
{
    struct err ignored;
    if (!sqlite3_get_autocommit(conn->sqlite))
        sqlite_conn_fixed(conn, FIXED_ROLLBACK, &ignored);
    return sqlite3_get_autocommit(conn->sqlite);
}

int sqlite_conn_exec(struct sqlite_conn *conn, const char *sql, const char *what, struct err *err)
{
    int rc = sqlite3_exec(conn->sqlite, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_conn_fail(conn, rc, what, err);
}

int sqlite_conn_pragma_int(struct sqlite_conn *conn, const char *pragma, int64_t *ret,
                           struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(conn->sqlite, pragma, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? 0 : sqlite_conn_fail(conn, rc, "reading the store", err);
}

static int prepare(struct sqlite_conn *conn, sqlite3_stmt **slot, const char *sql,
                   enum db_query query, struct err *err)
{
    if (*slot != NULL)
        return 0;
    int rc = sqlite3_prepare_v3(conn->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
    return rc == SQLITE_OK ? 0 : sqlite_conn_fail(conn, rc, db_query_texts[query].doing, err);
}

static void bind(sqlite3_stmt *statement, int number, const struct db_value *value)
{
    switch (value->type) {
    case DB_INT:
        sqlite3_bind_int64(statement, number, value->number);
        break;
    case DB_TEXT:
        sqlite3_bind_text64(statement, number, value->text, value->bytes, SQLITE_STATIC,
                            SQLITE_UTF8);
        break;
    case DB_BYTES:
        sqlite3_bind_blob64(statement, number, value->text, value->bytes, SQLITE_STATIC);
        break;
    case DB_NULL:
        sqlite3_bind_null(statement, number);
        break;
    }
}

/* The same to the letter: a text by its address, since all rows of a call exist at once. */
static bool same_value(const struct db_value *a, const struct db_value *b)
{
    return a->type == b->type && a->number == b->number && a->bytes == b->bytes;
}

/*
 * Behind the parameters of the call and $0 come token_base() and next_event(). A statement that
 * turns out to change nothing leaves a gap in the ids of events, which is allowed.
 */
static void bind_own(struct sqlite_conn *conn, sqlite3_stmt *statement, int params)
{
    int used = sqlite3_bind_parameter_count(statement);
    if (used >= params + 2)
        sqlite3_bind_int64(statement, params + 2, conn->token_base);
    if (used >= params + 3)
        sqlite3_bind_int64(statement, params + 3, conn->next_event++);
}

static int read_column(sqlite3_stmt *statement, int column, struct arena *arena,
                       struct db_value *out)
{
    sqlite3_value *value = sqlite3_column_value(statement, column);
    switch (sqlite3_value_type(value)) {
    case SQLITE_NULL:
        *out = db_null();
        return 0;
    case SQLITE_INTEGER:
        *out = db_int(sqlite3_value_int64(value));
        return 0;
    default: {
        /* Asked for text, SQLite would first make a copy of its own for the NUL at the end. */
        const char *text = sqlite3_value_blob(value); /* NULL when it is empty */
        size_t bytes = (size_t)sqlite3_value_bytes(value);
        char *copy = text == NULL && bytes > 0 ? NULL : arena_strndup(arena, text, bytes);
        *out = sqlite3_value_type(value) == SQLITE_BLOB ? db_bytes(copy, bytes)
                                                        : db_text_n(copy, bytes);
        return copy == NULL ? SQLITE_NOMEM : 0;
    }
    }
}

/* Rows as they come; how many there are is known only after the last. */
struct row_chunk {
    struct row_chunk *next;
    size_t rows, room;
    struct db_value values[];
};

struct row_chunks {
    struct row_chunk *first, *last;
    size_t columns, rows;
};

static struct db_value *chunks_next_row(struct row_chunks *chunks, struct arena *arena)
{
    struct row_chunk *last = chunks->last;
    if (last == NULL || last->rows == last->room) {
        size_t room = last == NULL ? 1 : 64; /* most queries find one row */
        struct row_chunk *chunk =
            arena_alloc(arena, sizeof *chunk + room * chunks->columns * sizeof(struct db_value));
        if (chunk == NULL)
            return NULL;
        *chunk = (struct row_chunk){.room = room};
        if (last == NULL)
            chunks->first = chunk;
        else
            last->next = chunk;
        chunks->last = last = chunk;
    }
    chunks->rows++;
    return &last->values[last->rows++ * chunks->columns];
}

/* All rows as one array; a single chunk is one already. */
static int chunks_join(const struct row_chunks *chunks, struct arena *arena,
                       struct db_result *result)
{
    *result = (struct db_result){.rows = chunks->rows, .columns = chunks->columns};
    if (chunks->first == NULL || chunks->first->next == NULL) {
        result->values = chunks->first == NULL ? NULL : chunks->first->values;
        return 0;
    }
    size_t width = chunks->columns * sizeof(struct db_value);
    char *values = arena_alloc(arena, chunks->rows * width);
    if (values == NULL)
        return SQLITE_NOMEM;
    result->values = (const struct db_value *)(const void *)values;
    for (const struct row_chunk *chunk = chunks->first; chunk != NULL; chunk = chunk->next) {
        memcpy(values, chunk->values, chunk->rows * width);
        values += chunk->rows * width;
    }
    return 0;
}

/* Steps through a bound statement; rows go into result. SQLITE_DONE when all went well. */
static int step_all(sqlite3_stmt *statement, struct arena *arena, struct db_result *result)
{
    struct row_chunks chunks = {.columns = (size_t)sqlite3_column_count(statement)};
    int rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        struct db_value *row = chunks_next_row(&chunks, arena);
        if (row == NULL)
            return SQLITE_NOMEM;
        for (size_t column = 0; column < chunks.columns; column++)
            if (read_column(statement, (int)column, arena, &row[column]) != 0)
                return SQLITE_NOMEM;
    }
    if (rc == SQLITE_DONE && chunks_join(&chunks, arena, result) != 0)
        return SQLITE_NOMEM;
    return rc;
}

/*
 * One statement for all rows: what differs between them it takes from the table given, $n are the
 * parameters of the call or of its first row. How many rows it changed, or a negative code.
 */
static int run_many(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                    const struct db_value *params, struct sqlite_given given)
{
    const struct db_query_text *text = &db_query_texts[query];
    int rc = prepare(conn, &conn->many[query], text->sqlite_many, query, tx->err);
    if (rc < 0)
        return rc;
    sqlite3_stmt *statement = conn->many[query];
    int used = sqlite3_bind_parameter_count(statement);
    for (int i = 0; i < text->params && i < used; i++)
        bind(statement, i + 1, &params[i]);
    bind_own(conn, statement, text->params);
    given.first_event = conn->next_event;
    conn->given = given;
    conn->next_event += (int64_t)given.count;
    int step = sqlite3_step(statement);
    sqlite3_reset(statement);
    if (step != SQLITE_DONE)
        return sqlite_conn_fail(conn, step, text->doing, tx->err);
    return sqlite3_changes(conn->sqlite);
}

/* Of the rows of the last run_many those are changed that left their event. */
static int find_changed(struct sqlite_conn *conn, struct db_tx *tx, int64_t *ret_each)
{
    for (size_t row = 0; row < conn->given.count; row++) {
        struct event_exists_rows found = {0};
        const struct event_exists_params event = {
            .id = db_int(conn->given.first_event + (int64_t)row)};
        int rc = sqlite_conn_run(conn, tx, Q_EVENT_EXISTS, DB_VALUES(&event), &found.result);
        if (rc < 0)
            return rc;
        ret_each[row] = found.count > 0;
    }
    return 0;
}

static int each_as_many(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                        const struct db_value *params, size_t count, int64_t *ret_each)
{
    const struct db_query_text *text = &db_query_texts[query];
    struct sqlite_given given = {.values = params, .width = (size_t)text->params, .count = count};
    int changed = run_many(conn, tx, query, params, given);
    if (changed < 0)
        return changed;
    if (ret_each != NULL && changed != (int)count)
        return find_changed(conn, tx, ret_each);
    bool inserts = strncmp(text->sqlite, "INSERT", 6) == 0;
    for (size_t row = 0; ret_each != NULL && row < count; row++)
        ret_each[row] = inserts ? conn->given.first_event + (int64_t)row : 1;
    return 0;
}

/* The second statement of a query, once for every row of the first. */
static int run_each_part(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                         const struct db_value *params, const struct db_result *rows)
{
    const struct db_query_text *text = &db_query_texts[query];
    if (text->sqlite_many != NULL && rows->rows >= MANY_ROWS) {
        struct sqlite_given given = {
            .values = rows->values, .width = rows->columns, .count = rows->rows};
        int changed = run_many(conn, tx, query, params, given);
        if (changed >= 0 && changed != (int)rows->rows)
            return err_set(tx->err, TEND_EINTERNAL, "%s: a row changed under the write lock",
                           text->doing);
        return changed < 0 ? changed : 0;
    }
    int rc = prepare(conn, &conn->each[query], text->sqlite_each, query, tx->err);
    if (rc < 0)
        return rc;
    sqlite3_stmt *statement = conn->each[query];
    for (int i = 0; i < text->params; i++)
        bind(statement, i + 1, &params[i]);
    for (size_t row = 0; row < rows->rows; row++) {
        bind(statement, text->params + 1, db_at(rows, row, 0));
        bind_own(conn, statement, text->params);
        int step = sqlite3_step(statement);
        sqlite3_reset(statement);
        if (step != SQLITE_DONE)
            return sqlite_conn_fail(conn, step, text->doing, tx->err);
        if (sqlite3_changes(conn->sqlite) != 1)
            return err_set(tx->err, TEND_EINTERNAL, "%s: a row changed under the write lock",
                           text->doing);
    }
    return 0;
}

/* Whole jobs of what a claim has read; what it was told goes into them as well. */
static bool complete_claim(struct db_tx *tx, const struct job_claim_params *params,
                           struct db_result *rows)
{
    struct job_claim_params known = *params;
    known.queue.text = arena_strndup(tx->arena, params->queue.text, params->queue.bytes);
    known.owner.text = arena_strndup(tx->arena, params->owner.text, params->owner.bytes);
    if (known.queue.text == NULL || known.owner.text == NULL)
        return false;
    return rows->rows == 0 || claim_rows_complete(rows, &known, tx->arena);
}

int sqlite_conn_run(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                    const struct db_value *params, struct db_result *result)
{
    const struct db_query_text *text = &db_query_texts[query];
    int rc = prepare(conn, &conn->statements[query], text->sqlite, query, tx->err);
    if (rc < 0)
        return rc;
    sqlite3_stmt *statement = conn->statements[query];
    struct db_result rows = {0};
    for (int i = 0; i < text->params; i++)
        bind(statement, i + 1, &params[i]);
    bind_own(conn, statement, text->params);
    int step = step_all(statement, tx->arena, &rows);
    if (step != SQLITE_DONE)
        rc = sqlite_conn_fail(conn, step, text->doing, tx->err);
    sqlite3_reset(statement);
    if (rc == 0 && text->sqlite_each != NULL)
        rc = run_each_part(conn, tx, query, params, &rows);
    if (rc == 0 && query == Q_JOB_CLAIM &&
        !complete_claim(tx, (const struct job_claim_params *)params, &rows))
        rc = err_set(tx->err, TEND_ENOMEM, "out of memory while claiming");
    if (rc == 0 && result != NULL)
        *result = rows;
    return rc;
}

int sqlite_conn_each(struct sqlite_conn *conn, struct db_tx *tx, enum db_query query,
                     const struct db_value *params, size_t count, int64_t *ret_each)
{
    const struct db_query_text *text = &db_query_texts[query];
    if (text->sqlite_many != NULL && count >= MANY_ROWS)
        return each_as_many(conn, tx, query, params, count, ret_each);
    int rc = prepare(conn, &conn->statements[query], text->sqlite, query, tx->err);
    if (rc < 0)
        return rc;
    sqlite3_stmt *statement = conn->statements[query];
    size_t width = (size_t)text->params;
    bool inserts = strncmp(text->sqlite, "INSERT", 6) == 0;
    for (size_t row = 0; row < count; row++) {
        for (size_t i = 0; i < width; i++)
            if (row == 0 || !same_value(&params[row * width + i], &params[(row - 1) * width + i]))
                bind(statement, (int)i + 1, &params[row * width + i]);
        bind_own(conn, statement, text->params);
        int step = sqlite3_step(statement);
        sqlite3_reset(statement);
        if (step != SQLITE_DONE)
            return sqlite_conn_fail(conn, step, text->doing, tx->err);
        if (ret_each != NULL) {
            int changes = sqlite3_changes(conn->sqlite);
            ret_each[row] = changes == 0 ? 0
                            : inserts    ? sqlite3_last_insert_rowid(conn->sqlite)
                                         : 1;
        }
    }
    return 0;
}
