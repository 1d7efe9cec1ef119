/*
 * What a session is set to, and whose it is.
 *
 * Rule: nothing outlives a transaction unless the session is known to be ours. A transaction pooler
 * lends its sessions to whoever comes next, so what is SET or PREPAREd in one stays behind for
 * other applications. There are three ways, one table of settings:
 *
 *   - As a rule the settings travel in the startup packet (options=-c name=value ...). One of them,
 *     tend.session, is a random name of this handle. A pooler refuses the parameter or drops it.
 *     Before anything else the session is asked for that name and for its process id: only one that
 *     knows the name, under the process id told while connecting, is ours. If the first connection
 *     of a handle is not, the handle does as with tend_pooler=1.
 *   - tend_pooler=1: each transaction begins with set_config(..., is_local), and nothing is
 *     prepared.
 *   - tend_pooler=0: the URL vouches for the sessions (a pooler in session mode, which refuses the
 *     parameter, too): the settings are SET once connected.
 *
 * The isolation level. tend relies on read committed: a statement sees what was committed before it
 * began, also what it has waited for (events_since waits for writers and then reads what they
 * wrote). The default of a session behind a pooler may be another, and the level must be set before
 * the first query, for which set_config in a SELECT is too late. So behind a pooler every
 * transaction has a BEGIN, which names the level. (SET LOCAL without BEGIN would make the server
 * log a warning each time, and SET leaves a trace in the session.) Statements of their own
 * (pg_db_ask, the bell) read nothing twice; one that is refused because others were in the way is
 * sent again.
 */
#include "base/buf.h"
#include "store/pg_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum {
    /* A process that says nothing for so long in the middle of a transaction is frozen: what it has
     * locked is let go. */
    FROZEN_MS = 5000,
    STATEMENT_MARGIN_MS = 1000, /* a wait for a lock ends before its statement does */
    VALUE_BYTES = 80,
};

struct setting {
    const char *name;
    char value[VALUE_BYTES];
    bool local; /* also behind a pooler, in each transaction */
};

/*
 * The planner is told what tend's queries are: every one goes by an index. With that, one plan per
 * query is made and kept, also when it was made while the tables were empty. A client that is
 * stopped or cut off must not hold others up for ever, hence the timeouts and the keepalives.
 */
static const struct setting fixed[] = {
    {"tend.engine", "on", true},
    {"plan_cache_mode", "force_generic_plan", false},
    {"enable_seqscan", "off", true},
    {"enable_bitmapscan", "off", true},
    {"enable_hashjoin", "off", true},
    {"enable_mergejoin", "off", true},
    {"jit", "off", true},
    {"client_min_messages", "error", false},
    {"default_transaction_isolation", "read committed", false},
    {"tcp_keepalives_idle", "10", false},
    {"tcp_keepalives_interval", "3", false},
    {"tcp_keepalives_count", "3", false},
    {"tcp_user_timeout", "20000", false},
};
enum { FIXED = sizeof fixed / sizeof *fixed, OF_THE_HANDLE = 4, SETTINGS = FIXED + OF_THE_HANDLE };

static struct setting with_text(const char *name, const char *value)
{
    struct setting setting = {.name = name, .local = true};
    snprintf(setting.value, sizeof setting.value, "%s", value);
    return setting;
}

static struct setting with_number(const char *name, int64_t number)
{
    struct setting setting = {.name = name, .local = true};
    snprintf(setting.value, sizeof setting.value, "%lld", (long long)number);
    return setting;
}

static void list_settings(const struct pg_db *db, struct setting list[SETTINGS])
{
    int64_t busy_ms = db->options.busy_ms;
    list[0] = with_text("search_path", db->url.schema);
    list[1] = with_number("idle_in_transaction_session_timeout",
                          busy_ms < FROZEN_MS ? busy_ms : FROZEN_MS);
    list[2] = with_number("lock_timeout", busy_ms);
    list[3] = with_number("statement_timeout", busy_ms + STATEMENT_MARGIN_MS);
    memcpy(list + OF_THE_HANDLE, fixed, sizeof fixed);
}

/* --- in the startup packet --- */

static void put_option(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, " -c %s=", name);
    for (; *value != '\0'; value++) {
        if (*value == ' ')
            buf_putc(out, '\\');
        buf_putc(out, *value);
    }
}

int pg_settings_offer(struct pg_db *db, struct err *err)
{
    struct setting list[SETTINGS];
    struct buf options;
    if (db->url.pooler_given)
        return 0;
    char *given = pg_url_given_options(&db->url);
    buf_init(&options);
    buf_puts(&options, given != NULL ? given : "");
    free(given);
    snprintf(db->session_name, sizeof db->session_name, "%016llx",
             (unsigned long long)rng_u64(&db->rng));
    put_option(&options, "tend.session", db->session_name);
    list_settings(db, list);
    for (size_t i = 0; i < SETTINGS; i++)
        put_option(&options, list[i].name, list[i].value);
    if (options.failed) {
        buf_done(&options);
        return err_set(err, TEND_ENOMEM, "out of memory while opening the store");
    }
    pg_url_set_options(&db->url, buf_take(&options));
    return 0;
}

/* --- in the session --- */

static PGresult *ask(PGconn *pg, const struct pg_db *db, const char *sql, int64_t limit_ms,
                     struct err *err)
{
    PGresult *result = pg_exec(pg, sql, limit_ms, &db->hurry);
    ExecStatusType status = PQresultStatus(result);
    if (result == NULL)
        pg_error_silent(db->url.where, limit_ms, err);
    else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        pg_error(result, "setting up a session", db->url.where, err);
    else
        return result;
    PQclear(result);
    return NULL;
}

/* The server's synchronous_commit may ask for more than "on", but not for less. */
static int set_all(PGconn *pg, const struct pg_db *db, int64_t limit_ms, struct err *err)
{
    struct setting list[SETTINGS];
    struct buf sql;
    buf_init(&sql);
    list_settings(db, list);
    for (size_t i = 0; i < SETTINGS; i++)
        buf_printf(&sql, "SET %s = '%s'; ", list[i].name, list[i].value);
    if (!db->options.durability_normal)
        buf_puts(&sql, "SELECT set_config('synchronous_commit', 'on', false) "
                       "WHERE current_setting('synchronous_commit') = 'off'");
    PGresult *result = sql.failed ? NULL : ask(pg, db, sql.data, limit_ms, err);
    int rc = sql.failed       ? err_set(err, TEND_ENOMEM, "out of memory while connecting")
             : result == NULL ? err->code
                              : 0;
    PQclear(result);
    buf_done(&sql);
    return rc;
}

/* In one statement, so that what it sees and what it sets is the same session in any case. */
static int look_and_set(PGconn *pg, const struct pg_db *db, int64_t limit_ms, bool *ret_ours,
                        struct err *err)
{
    char sql[384];
    snprintf(sql, sizeof sql,
             "SELECT pg_backend_pid(), current_setting('tend.session', true), "
             "CASE WHEN current_setting('tend.session', true) = '%s' "
             "AND current_setting('synchronous_commit') = 'off' AND %s "
             "THEN set_config('synchronous_commit', 'on', false) END",
             db->session_name, db->options.durability_normal ? "false" : "true");
    PGresult *result = ask(pg, db, sql, limit_ms, err);
    if (result == NULL)
        return err->code;
    *ret_ours = PQntuples(result) == 1 &&
                strtol(PQgetvalue(result, 0, 0), NULL, 10) == PQbackendPID(pg) &&
                strcmp(PQgetvalue(result, 0, 1), db->session_name) == 0;
    PQclear(result);
    return 0;
}

int pg_settings_apply(PGconn *pg, const struct pg_db *db, int64_t limit_ms, bool *ret_ours,
                      struct err *err)
{
    *ret_ours = true;
    if (db->url.pooler)
        return 0;
    return db->url.pooler_given ? set_all(pg, db, limit_ms, err)
                                : look_and_set(pg, db, limit_ms, ret_ours, err);
}

int pg_settings_shared(const struct pg_db *db, struct err *err)
{
    return err_set(
        err, TEND_EUNREACHABLE,
        "PostgreSQL at %s is reached through a pooler whose sessions are not ours alone; "
        "add tend_pooler=1 to the store URL, or name the server itself",
        db->url.where);
}

/* --- in each transaction --- */

void pg_settings_local(const struct pg_db *db, char *out, size_t size)
{
    struct setting list[SETTINGS];
    size_t used = (size_t)snprintf(out, size, "SELECT ");
    list_settings(db, list);
    for (size_t i = 0; i < SETTINGS; i++)
        if (list[i].local && used < size)
            used += (size_t)snprintf(out + used, size - used, "%sset_config('%s', '%s', true)",
                                     i == 0 ? "" : ", ", list[i].name, list[i].value);
    if (!db->options.durability_normal && used < size)
        snprintf(out + used, size - used,
                 ", CASE current_setting('synchronous_commit') WHEN 'off' "
                 "THEN set_config('synchronous_commit', 'on', true) END");
}
