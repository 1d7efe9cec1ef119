/* What tend doctor says about an SQLite store. Reads only. */
#include "store/sqlite_db.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tend.h>

/* How long a write of others may take before the doctor speaks of it. */
enum { TURN_LOOK_MS = 1000 };

struct examination {
    struct sqlite_db *db;
    void (*report)(void *arg, int verdict, const char *what, const char *text);
    void *arg;
};

static void look_at_version(const struct examination *exam)
{
    char text[256];
    int version = sqlite3_libversion_number();
    snprintf(
        text, sizeof text, "SQLite %s%s", sqlite3_libversion(),
        version >= 3051003
            ? ""
            : "; can lose a commit when a checkpoint races it, which tend's write lock rules out");
    exam->report(exam->arg, version >= 3040000 ? TEND_FINE : TEND_WRONG, "library", text);
}

/* Whether somebody keeps the writers waiting: a process that is stopped, or hangs. */
static int look_at_turn(const struct examination *exam)
{
    struct holder holder;
    bool held = turnstile_look(&exam->db->turnstile, TURN_LOOK_MS, &holder);
    if (!held)
        exam->report(exam->arg, TEND_FINE, "write lock",
                     "in force: writers and checkpoints of all tend processes stand in line");
    else
        exam->report(exam->arg, holder.stopped ? TEND_WRONG : TEND_NOTE, "write lock", holder.text);
    return held && holder.stopped;
}

static int look_at_settings(const struct examination *exam, struct sqlite_conn *conn,
                            struct err *err)
{
    sqlite3_stmt *statement = NULL;
    char mode[32] = "?";
    if (sqlite3_prepare_v2(conn->sqlite, "PRAGMA journal_mode", -1, &statement, NULL) ==
            SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        snprintf(mode, sizeof mode, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    bool wal = sqlite3_stricmp(mode, "wal") == 0;
    exam->report(exam->arg, wal ? TEND_FINE : TEND_WRONG, "journal",
                 wal ? "WAL"
                     : "not WAL; another program has changed it: PRAGMA journal_mode = WAL");
    exam->report(exam->arg, exam->db->options.durability_normal ? TEND_NOTE : TEND_FINE,
                 "durability",
                 exam->db->options.durability_normal
                     ? "normal: a loss of power may take the last commits with it"
                     : "full: what is acknowledged survives a loss of power");
    int64_t version;
    int rc = sqlite_conn_pragma_int(conn, "PRAGMA user_version", &version, err);
    if (rc < 0)
        return rc;
    char text[64];
    snprintf(text, sizeof text, "version %lld, as this tend makes it", (long long)version);
    exam->report(exam->arg, TEND_FINE, "schema", text);
    return 0;
}

static int look_at_content(const struct examination *exam, struct sqlite_conn *conn,
                           struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int wrong = 0;
    int rc = sqlite3_prepare_v2(conn->sqlite, "PRAGMA integrity_check(5)", -1, &statement, NULL);
    if (rc != SQLITE_OK)
        return sqlite_conn_fail(conn, rc, "checking the store", err);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        bool fine = text != NULL && sqlite3_stricmp(text, "ok") == 0;
        exam->report(exam->arg, fine ? TEND_FINE : TEND_WRONG, "integrity",
                     fine ? "every page and index is whole" : text);
        wrong += !fine;
    }
    sqlite3_finalize(statement);
    return rc == SQLITE_DONE ? wrong : sqlite_conn_fail(conn, rc, "checking the store", err);
}

static int look_at_space(const struct examination *exam)
{
    struct statvfs disk;
    char text[128];
    if (statvfs(exam->db->path, &disk) != 0)
        return 0;
    unsigned long long free_mib =
        (unsigned long long)disk.f_bavail * (unsigned long long)disk.f_frsize >> 20;
    snprintf(text, sizeof text, "%llu MiB free", free_mib);
    exam->report(exam->arg, free_mib < 64 ? TEND_WRONG : TEND_FINE, "space", text);
    return free_mib < 64;
}

static void look_at_readers(const struct examination *exam)
{
    struct stat status;
    if (stat(exam->db->path, &status) != 0)
        return;
    bool open = (status.st_mode & S_IROTH) != 0;
    exam->report(exam->arg, open ? TEND_NOTE : TEND_FINE, "readers",
                 open ? "every user of this machine can read payloads and output: chmod o= the "
                        "store's files unless that is meant"
                      : "only its owner and group can read the file");
}

static int examine(struct db_tx *tx, void *arg)
{
    const struct examination *exam = arg;
    struct sqlite_conn *conn = ((struct sqlite_tx *)tx)->conn;
    look_at_version(exam);
    int stopped = look_at_turn(exam);
    int rc = look_at_settings(exam, conn, tx->err);
    if (rc < 0)
        return rc;
    look_at_readers(exam);
    int wrong = look_at_content(exam, conn, tx->err);
    return wrong < 0 ? wrong : wrong + stopped + look_at_space(exam);
}

int sqlite_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                     void *arg, struct err *err)
{
    struct examination exam = {.db = (struct sqlite_db *)base, .report = report, .arg = arg};
    struct arena arena;
    arena_init(&arena);
    int rc = sqlite_db_read(base, &arena, examine, &exam, err);
    arena_done(&arena);
    return rc;
}
