/* What tend doctor says about an SQLite store. Reads only. */
#include "base/text.h"
#include "base/timetext.h"
#include "store/queries.h"
#include "store/sqlite_check.h"
#include "store/sqlite_db.h"
#include "store/sqlite_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <tend.h>

/* A difference between store time and the wall clock that is worth a note. */
enum { AHEAD_MS = 1000 };

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
            : "; its known checkpoint bug cannot happen here, because tend's write lock prevents it");
    exam->report(exam->arg, version >= 3040000 ? TEND_FINE : TEND_WRONG, "library", text);
}

/* Whether somebody keeps the writers waiting: a process that is stopped, or hangs, or another
 * program. */
static int look_at_turn(const struct examination *exam)
{
    struct holder holder;
    bool held = turnstile_look(&exam->db->turnstile, TURN_LOOK_MS, &holder);
    if (!held)
        exam->report(exam->arg, TEND_FINE, "write lock",
                     "in force: writers and checkpoints of all tend processes stand in line");
    bool wrong = held && (holder.stopped || holder.is_stranger);
    if (held)
        exam->report(exam->arg, wrong ? TEND_WRONG : TEND_NOTE, "write lock", holder.text);
    return wrong;
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

static int look_at_clock(const struct examination *exam, struct db_tx *tx, struct sqlite_conn *conn)
{
    char text[256];
    char by[DURATION_TEXT_BYTES];
    struct clock_steps_rows steps;
    int rc = sqlite_conn_run(conn, tx, Q_CLOCK_STEPS, NULL, &steps.result);
    if (rc < 0)
        return rc;
    int64_t count = steps.count == 0 ? 0 : db_num(steps.at[0].clock_steps);
    int64_t ahead_ms = sqlite_clock_ahead_ms(&exam->db->clock, tx->now.number);
    size_t used = (size_t)(ahead_ms > AHEAD_MS
                               ? snprintf(text, sizeof text,
                                          "store time is %s ahead of this machine's clock; it runs "
                                          "a sixteenth slower until they meet",
                                          span_text(ahead_ms, by))
                               : snprintf(text, sizeof text, "store time is this machine's"));
    if (count > 0)
        snprintf(
            text + used, sizeof text - used,
            "; leases were moved %lld time%s: the clock was set forward, the machine slept, or "
            "nobody could write (events clock.stepped)",
            (long long)count, plural(count));
    exam->report(exam->arg, ahead_ms > AHEAD_MS ? TEND_NOTE : TEND_FINE, "clock", text);
    return 0;
}

static int look_at_space(const struct examination *exam)
{
    struct statvfs disk;
    char text[160];
    if (statvfs(exam->db->path, &disk) != 0)
        return 0;
    unsigned long long free_mib =
        (unsigned long long)disk.f_bavail * (unsigned long long)disk.f_frsize >> 20;
    bool little = free_mib < 64;
    snprintf(text, sizeof text, "%llu MiB free%s", free_mib,
             little ? "; make room on the file system of the store, or nothing can be added soon"
                    : "");
    exam->report(exam->arg, little ? TEND_WRONG : TEND_FINE, "space", text);
    return little;
}

static void look_at_readers(const struct examination *exam)
{
    struct stat status;
    if (stat(exam->db->path, &status) != 0)
        return;
    bool open = (status.st_mode & S_IROTH) != 0;
    bool group = (status.st_mode & S_IRGRP) != 0;
    exam->report(exam->arg, open ? TEND_NOTE : TEND_FINE, "readers",
                 open    ? "every user of this machine can read payloads and output: chmod o= the "
                           "store's files unless that is meant"
                 : group ? "only its owner and group can read the file"
                         : "only its owner can read the file");
}

/* Whoever opens the store is refused when it has a second name; it may have got it since. */
static int look_at_names(const struct examination *exam)
{
    struct err err;
    bool wrong = sqlite_path_check_names(exam->db->path, &err) < 0;
    exam->report(exam->arg, wrong ? TEND_WRONG : TEND_FINE, "name",
                 wrong ? err.text : "the file has no other name");
    return wrong;
}

/* A folder called .tend is made by tend, for its files alone. */
static void look_at_folder(const struct examination *exam)
{
    static const char name[] = "/.tend";
    struct stat status;
    char *folder = strdup(exam->db->path);
    char *text = NULL;
    if (folder != NULL)
        *strrchr(folder, '/') = '\0';
    size_t length = folder == NULL ? 0 : strlen(folder);
    if (length >= strlen(name) && strcmp(folder + length - strlen(name), name) == 0 &&
        stat(folder, &status) == 0) {
        bool wide = (status.st_mode & 0077) != 0;
        bool group = (status.st_mode & S_IRWXO) == 0; /* as for a store that a group shares */
        if (asprintf(
                &text,
                group ? "mode %04o: its group can look into it; that is right for a store the "
                        "group shares, else 'chmod 700 %s'"
                      : "mode %04o: every user of this machine can look into it; 'chmod 700 %s', "
                        "or 2770 for a store that its group shares",
                status.st_mode & 07777, folder) < 0)
            text = NULL;
        exam->report(exam->arg, wide ? TEND_NOTE : TEND_FINE, "folder",
                     !wide          ? "only its owner can enter it"
                     : text != NULL ? text
                                    : "others than its owner can look into it");
    }
    free(text);
    free(folder);
}

static void look_at_log(const struct examination *exam)
{
    char text[512];
    char readers[256];
    int64_t bytes = sqlite_wal_bytes(exam->db);
    bool large = sqlite_wal_is_large(bytes);
    double mib = (double)bytes / (1024 * 1024);
    if (!large)
        snprintf(text, sizeof text, "%.1f MiB", mib);
    else if (sqlite_wal_name_readers(exam->db, readers, sizeof readers))
        snprintf(text, sizeof text,
                 "%.1f MiB, and cannot be emptied while %s keeps a read transaction open", mib,
                 readers);
    else
        snprintf(text, sizeof text,
                 "%.1f MiB; nobody seems to read the store at this moment, so writes will empty it",
                 mib);
    exam->report(exam->arg, large ? TEND_NOTE : TEND_FINE, "log", text);
}

static void look_at_bell(const struct examination *exam)
{
    struct err err;
    bool watched = sqlite_db_listen(exam->db, &err) == 0;
    exam->report(exam->arg, watched ? TEND_FINE : TEND_NOTE, "bell",
                 watched ? "the kernel wakes processes that wait" : err.text);
}

/* What can be seen without looking into the store. How many findings are wrong. */
static int look_around(const struct examination *exam)
{
    look_at_version(exam);
    int wrong = look_at_turn(exam);
    wrong += look_at_names(exam);
    look_at_readers(exam);
    look_at_folder(exam);
    look_at_log(exam);
    look_at_bell(exam);
    return wrong + look_at_space(exam);
}

static int look_inside(struct db_tx *tx, void *arg)
{
    const struct examination *exam = arg;
    struct sqlite_conn *conn = ((struct sqlite_tx *)tx)->conn;
    int rc = look_at_settings(exam, conn, tx->err);
    if (rc == 0)
        rc = look_at_clock(exam, tx, conn);
    return rc < 0 ? rc : sqlite_check(conn->sqlite, exam->report, exam->arg);
}

int sqlite_db_doctor(struct db *base, void (*report)(void *, int, const char *, const char *),
                     void *arg, struct err *err)
{
    struct examination exam = {.db = (struct sqlite_db *)base, .report = report, .arg = arg};
    struct arena arena;
    int rc = sqlite_files_look_beside(&exam.db->files, err);
    if (rc < 0)
        return rc;
    int wrong = look_around(&exam);
    arena_init(&arena);
    rc = sqlite_db_read(base, &arena, look_inside, &exam, err);
    arena_done(&arena);
    if (rc == TEND_ECORRUPT)
        rc = sqlite_check_damaged(exam.db->path, report, arg, err);
    return rc < 0 ? rc : wrong + rc;
}

int db_sqlite_doctor_damaged(const char *path,
                             void (*report)(void *, int, const char *, const char *), void *arg,
                             struct err *err)
{
    char *resolved;
    int rc = sqlite_path_find(path, true, &resolved, err);
    if (rc < 0)
        return rc;
    rc = sqlite_check_damaged(resolved, report, arg, err);
    free(resolved);
    return rc;
}
