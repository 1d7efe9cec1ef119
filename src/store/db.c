/* Picks the engine by the URL and passes calls on to it; values and results, which are the same for
 * all. */
#include "base/clock.h"
#include "base/text.h"
#include "store/db_engine.h"
#include "store/gate.h"
#include "store/queries.h"

#include <string.h>
#include <tend.h>
#include <unistd.h>

struct db_value db_null(void)
{
    return (struct db_value){.type = DB_NULL, .number = 0};
}

struct db_value db_int(int64_t number)
{
    return (struct db_value){.type = DB_INT, .number = number};
}

struct db_value db_int_or_null(int64_t number)
{
    return number == TEND_UNSET ? db_null() : db_int(number);
}

struct db_value db_text_n(const char *text, size_t bytes)
{
    return (struct db_value){.type = DB_TEXT, .text = text, .bytes = bytes};
}

struct db_value db_text(const char *text)
{
    return text == NULL ? db_null() : db_text_n(text, strlen(text));
}

struct db_value db_bytes(const void *data, size_t bytes)
{
    return data == NULL ? db_null()
                        : (struct db_value){.type = DB_BYTES, .text = data, .bytes = bytes};
}

const struct db_value *db_at(const struct db_result *result, size_t row, size_t column)
{
    return &result->values[row * result->columns + column];
}

int64_t db_num(struct db_value value)
{
    return value.type == DB_INT ? value.number : TEND_UNSET;
}

const char *db_str(struct db_value value)
{
    return value.type == DB_TEXT ? value.text : NULL;
}

int64_t db_number(const struct db_result *result, size_t row, size_t column)
{
    return db_num(*db_at(result, row, column));
}

const char *db_string(const struct db_result *result, size_t row, size_t column)
{
    return db_str(*db_at(result, row, column));
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_sqlite(const char *url)
{
    return begins_with(url, "sqlite:");
}

/* What may hold a password is not repeated: only a path, or what stands before the first colon. */
static int refuse_url(const char *url, struct err *err)
{
    if (url[0] == '\0')
        return err_set(err, TEND_EINVAL,
                       "the store URL is empty; give sqlite:PATH or postgresql://HOST/DATABASE");
    if (url[strcspn(url, "=:/@?")] == '=')
        return err_set(err, TEND_EINVAL,
                       "a string of KEYWORD=VALUE is no store URL; give "
                       "postgresql://USER@HOST:PORT/DATABASE, with further keywords after ? and &");
    if (strpbrk(url, "=:@?") == NULL)
        return err_set(err, TEND_EINVAL, "'%s' is no store URL; did you mean sqlite:%s?", url, url);
    size_t scheme = strcspn(url, "=:/@? ");
    if (url[scheme] != ':')
        scheme = 0;
    return err_set(err, TEND_EINVAL,
                   "'%.*s…' is no store URL; give sqlite:PATH or postgresql://HOST/DATABASE",
                   (int)scheme, url);
}

static int open_engine(struct db **ret, const char *url, const struct db_options *options,
                       struct err *err)
{
    if (is_sqlite(url))
        return db_sqlite_open(ret, url + strlen("sqlite:"), options, err);
    if (begins_with(url, "postgresql://") || begins_with(url, "postgres://"))
        return db_postgres_open(ret, url, options, err);
    return refuse_url(url, err);
}

static void before_fork(void *arg)
{
    struct db *db = arg;
    if (!db->forked && db->engine->before_fork != NULL)
        db->engine->before_fork(db);
}

static void after_fork(void *arg)
{
    struct db *db = arg;
    if (!db->forked && db->engine->fork_parent != NULL)
        db->engine->fork_parent(db);
}

static void after_fork_in_child(void *arg)
{
    struct db *db = arg;
    if (!db->forked && db->engine->fork_child != NULL)
        db->engine->fork_child(db);
    db->forked = true;
}

static int open_known(struct db **ret, const char *url, const struct db_options *options,
                      struct err *err)
{
    int rc = open_engine(ret, url, options, err);
    if (rc < 0)
        return rc;
    struct db *db = *ret;
    db->pid = getpid();
    db->link = (struct fork_link){
        .before = before_fork, .parent = after_fork, .child = after_fork_in_child, .arg = db};
    forks_add(&db->link);
    return rc;
}

/* Until the handle is in the list of forks.h a child would not know of it. */
int db_open(struct db **ret, const char *url, const struct db_options *options, struct err *err)
{
    bool guarded = is_sqlite(url);
    if (guarded)
        forks_begin_change();
    int rc = open_known(ret, url, options, err);
    if (guarded)
        forks_end_change();
    return rc;
}

bool db_is_forked(const struct db *db)
{
    return db->forked;
}

static int say_forked(const struct db *db, struct err *err)
{
    return err_set(
        err, TEND_ESTATE,
        "this handle belongs to process %lld, of which this one is a child by fork; close "
        "it here and open the store again",
        (long long)db->pid);
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    bool guarded = db->engine->guards_change;
    if (guarded)
        forks_begin_change();
    forks_remove(&db->link);
    if (db->forked)
        db->engine->close_forked(db);
    else
        db->engine->close(db);
    if (guarded)
        forks_end_change();
}

int db_write(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->write(db, arena, body, arg, err);
}

int db_write_within(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body, void *arg,
                    struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    if (wait_ms < 0 || db->engine->write_within == NULL)
        return db_write(db, arena, body, arg, err);
    return db->engine->write_within(db, wait_ms, arena, body, arg, err);
}

bool db_is_blocked(struct db *db)
{
    return !db->forked && db->engine->is_blocked != NULL && db->engine->is_blocked(db);
}

int db_read(struct db *db, struct arena *arena, db_body *body, void *arg, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->read(db, arena, body, arg, err);
}

int db_read_within(struct db *db, int64_t wait_ms, struct arena *arena, db_body *body, void *arg,
                   struct err *err)
{
    if (db->forked || wait_ms < 0 || db->engine->read_within == NULL)
        return db_read(db, arena, body, arg, err);
    return db->engine->read_within(db, wait_ms, arena, body, arg, err);
}

struct arena *db_arena(struct db_tx *tx)
{
    return tx->arena;
}

struct err *db_err(struct db_tx *tx)
{
    return tx->err;
}

struct db *db_store(struct db_tx *tx)
{
    return tx->db;
}

int db_run(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
           struct db_result *result)
{
    return tx->db->engine->run(tx, query, how, params, result);
}

int db_each(struct db_tx *tx, enum db_query query, unsigned how, const struct db_value *params,
            size_t count, int64_t *ret_each)
{
    return count == 0 ? 0 : tx->db->engine->each(tx, query, how, params, count, ret_each);
}

int db_attempt(struct db_tx *tx, db_body *part, void *arg, bool *ret_undone)
{
    *ret_undone = false;
    if (tx->db->engine->attempt == NULL)
        return part(tx, arg);
    return tx->db->engine->attempt(tx, part, arg, ret_undone);
}

bool db_fails_alone(int code)
{
    switch (code) {
    case TEND_EINVAL:
    case TEND_ESTATE:
    case TEND_ECONFLICT:
    case TEND_EBUSY:
    case TEND_EINTERNAL:
        return true;
    default:
        return false;
    }
}

struct db_value db_now(struct db_tx *tx)
{
    return tx->now;
}

int db_time(struct db_tx *tx, int64_t *ret_ms)
{
    if (tx->now.type == DB_INT) {
        *ret_ms = tx->now.number;
        return 0;
    }
    return tx->db->engine->time(tx, ret_ms);
}

int db_owed(struct db_tx *tx, struct db_owed *ret)
{
    *ret = (struct db_owed){0};
    return tx->db->engine->owed == NULL ? 0 : tx->db->engine->owed(tx, ret);
}

int db_lease_now(struct db_tx *tx, struct db_value *ret)
{
    struct db_owed owed;
    int64_t now_ms;
    int rc = db_owed(tx, &owed);
    *ret = tx->now;
    if (rc < 0 || owed.all_ms == 0 || (rc = db_time(tx, &now_ms)) < 0)
        return rc;
    *ret = db_int(now_ms - owed.all_ms);
    return 0;
}

int64_t db_owed_end(const struct db_owed *owed, int64_t end_ms, int64_t now_ms, int64_t length_ms)
{
    if (owed->all_ms == 0 || end_ms + owed->all_ms < now_ms + length_ms)
        return end_ms + owed->all_ms;
    return now_ms + length_ms;
}

int db_begin_generation(struct db_tx *tx, int64_t first_id, int64_t token_base)
{
    const struct store_begin_generation_params base = {.token_base = db_int(token_base)};
    const struct store_skip_ids_params next = {.next_id = db_int(first_id)};
    int rc = each_store_begin_generation(tx, 0, &base, 1, NULL);
    if (rc < 0)
        return rc;
    return tx->db->engine->begin_generation != NULL
               ? tx->db->engine->begin_generation(tx, first_id, token_base)
               : run_store_skip_ids(tx, 0, next, NULL);
}

void db_ring(struct db_tx *tx, uint64_t bells)
{
    tx->ring |= bells;
}

uint64_t db_bell_of(const char *name)
{
    return UINT64_C(1) << text_hash(name) % DB_BELLS;
}

bool db_concurrent(const struct db_tx *tx)
{
    return tx->db->engine->concurrent;
}

bool db_is_concurrent(const struct db *db)
{
    return db->engine->concurrent;
}

uint64_t db_bell(struct db *db, uint64_t bells)
{
    return db->forked ? 0 : db->engine->bell(db, bells);
}

int db_wait(struct db *db, uint64_t bells, uint64_t seen, int64_t timeout_ms, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->wait(db, bells, seen, timeout_ms, err);
}

int64_t db_mono_ms(const struct db *db)
{
    return db->engine->mono_ms == NULL ? clock_mono_ms() : db->engine->mono_ms(db);
}

void db_interrupt(struct db *db)
{
    if (!db->forked)
        db->engine->interrupt(db);
}

void db_hurry(struct db *db, int64_t most_ms)
{
    if (!db->forked && db->engine->hurry != NULL)
        db->engine->hurry(db, most_ms);
}

int db_watch(struct db *db, const struct db_watched *workers, size_t count, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->watch(db, workers, count, err);
}

int db_alive_begin(struct db *db, int64_t worker_id, int64_t wait_ms, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->alive_begin(db, worker_id, wait_ms, err);
}

void db_alive_end(struct db *db, int64_t worker_id)
{
    if (!db->forked)
        db->engine->alive_end(db, worker_id);
}

bool db_alive_buried(struct db *db, int64_t worker_id)
{
    return !db->forked && db->engine->alive_buried != NULL &&
           db->engine->alive_buried(db, worker_id);
}

int db_alive_deny(struct db_tx *tx, int64_t worker_id)
{
    return tx->db->engine->alive_deny == NULL ? 1 : tx->db->engine->alive_deny(tx, worker_id);
}

int db_alive_check(struct db *db, const int64_t *worker_ids, size_t count, int64_t wait_ms,
                   bool *ret_alive, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->alive_check(db, worker_ids, count, wait_ms, ret_alive, err);
}

bool db_gone(struct db *db)
{
    return db->engine->gone != NULL && db->engine->gone(db);
}

void db_notice(const struct db_options *options, const char *text)
{
    if (options->notice != NULL)
        options->notice(options->notice_arg, text);
}

int64_t db_alive_grace_ms(const struct db *db)
{
    return db->engine->alive_grace_ms;
}

bool db_alive_in_body(const struct db *db)
{
    return db->engine->alive_in_body;
}

bool db_one_machine(const struct db *db)
{
    return db->engine->one_machine;
}

bool db_clock_is_even(const struct db *db)
{
    return db->engine->clock_is_uneven == NULL || !db->engine->clock_is_uneven(db);
}

int db_clock_look(struct db_tx *tx)
{
    return tx->db->engine->clock_look == NULL ? 0 : tx->db->engine->clock_look(tx);
}

int db_clock_settle(struct db_tx *tx)
{
    return tx->db->engine->clock_settle == NULL ? 0 : tx->db->engine->clock_settle(tx);
}

int64_t db_alarm_interval_ms(const struct db *db)
{
    return db->engine->alarm_interval_ms;
}

/* A thread that still waits in line after so long is stopped while it waits. If the turn comes to
 * it then, it passes the turn on when the process continues. */
enum { PAUSE_MS = 500 };

void db_pause_process(void)
{
    gate_close(PAUSE_MS);
}

void db_resume_process(void)
{
    gate_open();
}

int db_library_schema(void)
{
    int count = 0;
    while (db_migrations_sqlite[count].sql != NULL)
        count++;
    return count;
}

const struct db_migration *db_migrations(const struct db *db)
{
    return db->engine->migrations;
}

int db_schema_version(struct db *db, int *ret_store, int *ret_library, struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    *ret_library = db_library_schema();
    return db->engine->schema_version(db, ret_store, err);
}

int db_doctor(struct db *db,
              void (*report)(void *arg, int verdict, const char *what, const char *text), void *arg,
              struct err *err)
{
    if (db->forked)
        return say_forked(db, err);
    return db->engine->doctor(db, report, arg, err);
}

int db_doctor_damaged(const char *url,
                      void (*report)(void *arg, int verdict, const char *what, const char *text),
                      void *arg, struct err *err)
{
    return is_sqlite(url) ? db_sqlite_doctor_damaged(url + strlen("sqlite:"), report, arg, err)
                          : err_set(err, TEND_ECORRUPT,
                                    "the store is damaged, and only its server can tell where");
}
