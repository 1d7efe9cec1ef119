/*
 * What the server's refusals mean, decided by SQLSTATE alone. The sentence says what was being
 * done, not by which query nor with which parameters; of the server's message the first line is
 * kept, never its detail, which may hold data.
 */
#include "base/timetext.h"
#include "store/pg_db.h"

#include <errno.h>
#include <string.h>
#include <tend.h>

/* Prepared statements are there twice, or not at all: somebody else uses this session, too. */
#define SHARED_HINT                                                                                \
    "a pooler lends this session to others; add tend_pooler=1 to the store URL (after ? or &)"

#define OTHER_HINT "is this the store of another version? see 'tend doctor'"

#define DENIED "42501"
#define DENIED_HINT                                                                                \
    "grant it USAGE on the schema and ALL on its tables and sequences, or SELECT on both if it "   \
    "only reads"

/* The longest prefix that fits decides. */
static const struct {
    const char *state; /* SQLSTATE or the beginning of one */
    int code;
    enum pg_fault fault;
    const char *hint;
} table[] = {
    {"40001", TEND_EBUSY, PG_CONTENDED, "others were in the way"},
    {"40P01", TEND_EBUSY, PG_CONTENDED, "others were in the way"},
    {"23505", TEND_ECONFLICT, PG_REFUSED, NULL},
    {"23514", TEND_ESTATE, PG_REFUSED, NULL},
    {"23", TEND_EINVAL, PG_REFUSED, NULL},
    {"22", TEND_EINVAL, PG_REFUSED, NULL},
    {"25006", TEND_EREADONLY, PG_READONLY, NULL}, /* see pg_error_readonly */
    {"26000", TEND_EUNREACHABLE, PG_SHARED, SHARED_HINT},
    {"25P03", TEND_EUNREACHABLE, PG_LOST, NULL}, /* idle in transaction for too long */
    {DENIED, TEND_EREADONLY, PG_REFUSED, DENIED_HINT},
    {"42P05", TEND_EUNREACHABLE, PG_SHARED, SHARED_HINT},
    {"3F000", TEND_ENOTADB, PG_REFUSED, OTHER_HINT}, /* no such schema */
    {"42P01", TEND_ENOTADB, PG_REFUSED, OTHER_HINT}, /* ... table */
    {"42883", TEND_ENOTADB, PG_REFUSED, OTHER_HINT}, /* ... function */
    {"53100", TEND_EFULL, PG_REFUSED, "make room on the server's disk"},
    {"53200", TEND_EIO, PG_REFUSED, "the server is short of memory"},
    {"53300", TEND_EUNREACHABLE, PG_LOST, "raise max_connections or lower --connections"},
    {"55P03", TEND_EBUSY, PG_REFUSED, "a session holds the row; see pg_stat_activity"},
    /* No interrupt of ours: nobody here asked for it. */
    {"57014", TEND_EBUSY, PG_REFUSED,
     "the server ended it: it took longer than statement_timeout, or pg_cancel_backend was called; "
     "see pg_stat_activity for what holds it up, then try again"},
    {"57P0", TEND_EUNREACHABLE, PG_LOST, NULL}, /* shut down, crashed, starting up, dropped */
    {"58030", TEND_EIO, PG_REFUSED, NULL},
    {"08", TEND_EUNREACHABLE, PG_LOST, NULL},
    {"XX001", TEND_ECORRUPT, PG_REFUSED, "restore it from a backup"},
    {"XX002", TEND_ECORRUPT, PG_REFUSED, "REINDEX the index named"},
};

enum { TABLE_ROWS = sizeof table / sizeof *table };

static int find(const char *state)
{
    int best = -1;
    size_t best_len = 0;
    for (int i = 0; state != NULL && i < TABLE_ROWS; i++) {
        size_t len = strlen(table[i].state);
        if (len > best_len && strncmp(table[i].state, state, len) == 0) {
            best = i;
            best_len = len;
        }
    }
    return best;
}

bool pg_fault_ends_it(enum pg_fault fault)
{
    return fault == PG_LOST || fault == PG_READONLY || fault == PG_SHARED;
}

bool pg_error_is_denied(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state != NULL && strcmp(state, DENIED) == 0;
}

/* Their ids come from a sequence, which gives each once: nobody was faster, it has begun anew. */
static bool is_id_given_twice(const PGresult *result)
{
    static const char *const keys[] = {"job_pkey", "event_pkey", "worker_pkey", "control_pkey"};
    const char *key = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    for (size_t i = 0; key != NULL && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

enum pg_fault pg_error(const PGresult *result, const char *what, const char *where, struct err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (state == NULL) { /* libpq made this one itself: the connection is gone */
        err_set(err, TEND_EUNREACHABLE, "the connection to PostgreSQL at %s was lost", where);
        return PG_LOST;
    }
    int row = find(state);
    if (message == NULL)
        message = "no message";
    if (row < 0) {
        err_set(err, TEND_EINTERNAL, "%s failed on PostgreSQL: %.300s (SQLSTATE %s)", what, message,
                state);
        return PG_REFUSED;
    }
    if (is_id_given_twice(result)) {
        err_set(err, TEND_ECORRUPT,
                "%s failed on PostgreSQL at %s: the store gives out ids that it has given out "
                "already, as a copy does that was made without its sequences; run 'tend migrate "
                "--after-restore'",
                what, where);
        return PG_REFUSED;
    }
    if (pg_error_is_denied(
            result)) /* the message says for what; which query it was does not help */
        err_set(err, table[row].code,
                "this role may not do that on PostgreSQL at %s: %.150s (SQLSTATE %s); %s", where,
                message, state, table[row].hint);
    else
        err_set(err, table[row].code, "%s failed on PostgreSQL at %s: %.250s (SQLSTATE %s)%s%s",
                what, where, message, state, table[row].hint != NULL ? "; " : "",
                table[row].hint != NULL ? table[row].hint : "");
    return table[row].fault;
}

const char *pg_readonly_text(enum pg_readonly why)
{
    static const char *const texts[] = {
        [PG_NOT_READONLY] = "",
        [PG_READONLY_SET] =
            "default_transaction_read_only is on there for this role, database or server; turn "
            "it off with ALTER ROLE or ALTER DATABASE ... SET, or ALTER SYSTEM SET",
        [PG_STANDBY] = "it is a standby; name the primary in the URL, or all hosts",
    };
    return texts[why];
}

int pg_error_readonly(enum pg_readonly why, struct err *err)
{
    return err_set(err, TEND_EREADONLY, "%.330s%s%s", err->text, why == PG_NOT_READONLY ? "" : "; ",
                   pg_readonly_text(why));
}

enum pg_fault pg_error_lost(const PGconn *pg, const char *where, struct err *err)
{
    const char *message = PQerrorMessage(pg);
    err_set(err, TEND_EUNREACHABLE, "the connection to PostgreSQL at %s was lost: %.*s", where,
            (int)strcspn(message, "\n"), message);
    return PG_LOST;
}

enum pg_fault pg_error_silent(const char *where, int64_t limit_ms, struct err *err)
{
    char span[DURATION_TEXT_BYTES];
    err_set(err, TEND_EUNREACHABLE,
            "PostgreSQL at %s has not answered for %s; is the server well? see pg_stat_activity "
            "there",
            where, span_text(limit_ms, span));
    return PG_LOST;
}

/* The errno that libpq's own sentence names, if it is one of err_lack; else 0. What the server says
 * is about the server. */
static int lack_in(const char *message)
{
    static const int all[] = {ENFILE, EMFILE, ENOMEM}; /* the first begins with the second */
    for (size_t i = 0; i < sizeof all / sizeof *all && strstr(message, "FATAL") == NULL; i++)
        if (strstr(message, strerror(all[i])) != NULL)
            return all[i];
    return 0;
}

int pg_error_connect(PGconn *pg, const struct pg_url *url, struct err *err)
{
    const char *message = pg == NULL ? "out of memory" : PQerrorMessage(pg);
    int len = (int)strcspn(message, "\n");
    int lack = pg == NULL ? ENOMEM : lack_in(message);
    if (lack != 0)
        return err_set(err, TEND_ENOMEM, "PostgreSQL at %s cannot be reached: %.*s; %s", url->where,
                       len, message, err_lack(lack));
    if (pg != NULL && PQconnectionNeedsPassword(pg))
        return err_set(
            err, TEND_EUNREACHABLE,
            "PostgreSQL at %s wants a password and none was given; put it into ~/.pgpass "
            "(mode 0600) or PGPASSWORD",
            url->where);
    if (pg != NULL && PQconnectionUsedPassword(pg))
        return err_set(err, TEND_EUNREACHABLE,
                       "PostgreSQL at %s does not let us in: %.*s; check user and password",
                       url->where, len, message);
    return err_set(
        err, TEND_EUNREACHABLE,
        "PostgreSQL at %s cannot be reached: %.*s; is the server running, and is the URL right?",
        url->where, len, message);
}
