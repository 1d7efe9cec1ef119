/*
 * The write-ahead log of an SQLite store: when it is copied back into the store (a checkpoint), and
 * what keeps it from being emptied.
 *
 * SQLite by itself tries a checkpoint at every commit that leaves more than 1,000 frames in the
 * log. That goes wrong when somebody holds a read transaction open: the log cannot be emptied, and
 * where the reader began on an empty log, every try sorts all frames of the log in vain. Commits
 * become slower with each commit. Hence a schedule of our own:
 *
 *   - A checkpoint is tried when the log has grown by 1,000 frames since the last one that copied
 *     everything (the number is that of PRAGMA wal_autocheckpoint).
 *   - When it could not copy everything, the next try is 20 ms later, then 40 ms, up to 2 s, and
 * never before twenty times as long has passed as the try took. The time of the next try is in the
 *     store's lock file, so that it holds for all processes, also for those that end after one
 * commit.
 *   - While the log is small, nobody waits for readers. When many short reads overlap, there is
 * always one in the way; so once the log is large, the readers of that moment get 20 ms to finish.
 *   - A log that was emptied begins anew, and SQLite cuts it to SHRINK_BYTES.
 *
 * Invariant: a checkpoint runs only in the writers' turn, as in SQLite before 3.51.3 one that races
 * a commit can lose it.
 */
#include "store/sqlite_db.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

#define MIB (1024LL * 1024)
#define SHRINK_BYTES (16 * MIB)
#define LARGE_BYTES (64 * MIB)

enum {
    DEFAULT_FRAMES = 1000,
    FRAME_BYTES = 4096 + 24, /* pages have SQLite's default size */
    FIRST_PAUSE_MS = 20,
    LONGEST_PAUSE_MS = 2000,
    PAUSE_PER_COST = 20,
    READERS_MS = 20,
};

/* In the lock file, for all processes; read and written in the writers' turn. */
struct schedule {
    int64_t
        next_ms; /* monotonic: no checkpoint is tried before; one of an earlier boot is ignored */
    int64_t pause_ms;
};

static int note_frames(void *arg, sqlite3 *sqlite, const char *name, int frames)
{
    struct sqlite_wal *wal = arg;
    (void)sqlite;
    (void)name;
    if (frames < wal->frames) /* it has begun anew */
        wal->next_frames = wal->every;
    wal->frames = frames;
    return SQLITE_OK;
}

int sqlite_wal_init(struct sqlite_db *db, struct err *err)
{
    int64_t frames = 0;
    char pragma[64];
    int rc = sqlite_conn_pragma_int(&db->writer, "PRAGMA wal_autocheckpoint", &frames, err);
    if (rc < 0)
        return rc;
    db->wal.every = frames > 0 && frames < INT32_MAX ? (int)frames : DEFAULT_FRAMES;
    db->wal.next_frames = db->wal.every;
    sqlite3_wal_hook(db->writer.sqlite, note_frames, &db->wal); /* in place of SQLite's own */
    snprintf(pragma, sizeof pragma, "PRAGMA journal_size_limit = %lld", (long long)SHRINK_BYTES);
    return sqlite_conn_exec(&db->writer, pragma, "opening the store", err);
}

/* --- checkpoints --- */

static struct schedule read_schedule(const struct sqlite_db *db)
{
    struct schedule schedule;
    if (pread(db->files.lock_fd, &schedule, sizeof schedule, LOCK_FILE_CHECKPOINT_AT) !=
        (ssize_t)sizeof schedule)
        schedule = (struct schedule){0};
    return schedule;
}

static void write_schedule(const struct sqlite_db *db, struct schedule schedule)
{
    /* When it cannot be written, the next commit tries again: slower, not wrong. */
    ssize_t ignored =
        pwrite(db->files.lock_fd, &schedule, sizeof schedule, LOCK_FILE_CHECKPOINT_AT);
    (void)ignored;
}

static void put_off(const struct sqlite_db *db, struct schedule schedule, int64_t cost_ms)
{
    int64_t pause_ms = schedule.pause_ms * 2;
    if (pause_ms < FIRST_PAUSE_MS)
        pause_ms = FIRST_PAUSE_MS;
    if (pause_ms < cost_ms * PAUSE_PER_COST)
        pause_ms = cost_ms * PAUSE_PER_COST;
    if (pause_ms > LONGEST_PAUSE_MS)
        pause_ms = LONGEST_PAUSE_MS;
    write_schedule(db,
                   (struct schedule){.next_ms = clock_mono_ms() + pause_ms, .pause_ms = pause_ms});
}

/* Whether everything in the log was copied; an error is as good as no. */
static bool checkpoint(struct sqlite_db *db)
{
    sqlite3 *sqlite = db->writer.sqlite;
    int frames = 0;
    int copied = 0;
    int rc;
    if ((int64_t)db->wal.frames * FRAME_BYTES <= SHRINK_BYTES) {
        rc = sqlite3_wal_checkpoint_v2(sqlite, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &copied);
    } else {
        sqlite3_busy_timeout(sqlite, READERS_MS);
        rc = sqlite3_wal_checkpoint_v2(sqlite, NULL, SQLITE_CHECKPOINT_RESTART, &frames, &copied);
        sqlite_stranger_watch(db);
    }
    return rc == SQLITE_OK && frames == copied;
}

void sqlite_wal_tend(struct sqlite_db *db)
{
    struct sqlite_wal *wal = &db->wal;
    if (wal->frames < wal->next_frames)
        return;
    struct schedule schedule = read_schedule(db);
    int64_t now_ms = clock_mono_ms();
    if (now_ms < schedule.next_ms && schedule.next_ms - now_ms <= LONGEST_PAUSE_MS)
        return;
    if (checkpoint(db)) {
        wal->next_frames = wal->frames + wal->every;
        wal->large = wal->told = false;
        if (schedule.pause_ms != 0)
            write_schedule(db, (struct schedule){0});
        return;
    }
    put_off(db, schedule, clock_mono_ms() - now_ms);
    wal->large = sqlite_wal_is_large((int64_t)wal->frames * FRAME_BYTES);
}

/* --- for people --- */

bool sqlite_wal_to_tell(struct sqlite_db *db)
{
    bool tell = db->wal.large && !db->wal.told;
    db->wal.told |= tell;
    return tell;
}

bool sqlite_wal_is_large(int64_t bytes)
{
    return bytes > LARGE_BYTES;
}

static bool stat_beside(const struct sqlite_db *db, const char *suffix, struct stat *ret)
{
    char *name = sqlite3_mprintf("%s%s", db->path, suffix);
    bool found = name != NULL && stat(name, ret) == 0;
    sqlite3_free(name);
    return found;
}

int64_t sqlite_wal_bytes(const struct sqlite_db *db)
{
    struct stat wal;
    return stat_beside(db, "-wal", &wal) ? (int64_t)wal.st_size : 0;
}

/*
 * A read transaction locks one of the bytes 123 to 127 of the -shm file (SQLite's WAL_READ_LOCK), a
 * write transaction byte 120 (WAL_WRITE_LOCK). /proc/locks tells by which process; asking by fcntl
 * would take a descriptor of that file, whose closing drops this process's own locks.
 */
static bool parse_lock(const char *line, uint64_t inode, bool writes, int64_t *ret_pid)
{
    char kind[8], pid[24], locked[24], byte[24];
    if (sscanf(line, "%*s POSIX ADVISORY %7s %23s %*[^:]:%*[^:]:%23s %23s", kind, pid, locked,
               byte) != 4 ||
        strtoull(locked, NULL, 10) != inode || strcmp(kind, writes ? "WRITE" : "READ") != 0)
        return false;
    *ret_pid = strtoll(pid, NULL, 10);
    int64_t first = strtoll(byte, NULL, 10);
    return writes ? first == 120 : first >= 123 && first <= 127;
}

static void add_process(char *text, size_t size, int64_t pid)
{
    char path[64];
    char name[32] = "?";
    char entry[80];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(name, sizeof name, file) != NULL)
        name[strcspn(name, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
    snprintf(entry, sizeof entry, "process %" PRId64 " (%s)", pid, name);
    size_t used = strlen(text);
    if (strstr(text, entry) == NULL && used + strlen(entry) + 3 < size)
        snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", entry);
}

static void look_at_locks(uint64_t inode, bool writes, char *text, size_t size)
{
    char line[256];
    int64_t pid;
    FILE *locks = fopen("/proc/locks", "re");
    while (locks != NULL && fgets(line, sizeof line, locks) != NULL)
        if (parse_lock(line, inode, writes, &pid) && pid > 0 && (writes || pid != getpid()))
            add_process(text, size, pid);
    if (locks != NULL)
        fclose(locks);
}

/* The kernel gives the list in pieces. Where other programs lock and unlock in between, a lock that
 * stays may be missing from it, so it is looked for more than once. */
static bool name_lockers(const struct sqlite_db *db, bool writes, char *text, size_t size)
{
    enum { LOOKS = 5 };
    struct stat index;
    text[0] = '\0';
    if (!stat_beside(db, "-shm", &index))
        return false;
    for (int i = 0; i < LOOKS && text[0] == '\0'; i++)
        look_at_locks(index.st_ino, writes, text, size);
    return text[0] != '\0';
}

bool sqlite_wal_name_readers(const struct sqlite_db *db, char *text, size_t size)
{
    return name_lockers(db, false, text, size);
}

bool sqlite_wal_name_writer(const struct sqlite_db *db, char *text, size_t size)
{
    return name_lockers(db, true, text, size);
}

void sqlite_wal_tell(struct sqlite_db *db)
{
    char readers[256];
    char text[600];
    bool found = sqlite_wal_name_readers(db, readers, sizeof readers);
    snprintf(text, sizeof text,
             "the log %s-wal has grown to %lld MiB and cannot be emptied, because %s keeps a read "
             "transaction open; end it",
             db->path, (long long)(sqlite_wal_bytes(db) / MIB),
             found ? readers : "a process that cannot be seen from here");
    db_notice(&db->options, text);
}
