/*
 * Strangers: programs that lock the store in SQLite's own way and do not stand in line at the
 * turnstile, such as an sqlite3 shell with a transaction open. Whoever has the turn meets them when
 * it begins its transaction.
 *
 * It waits in the turn, since nobody else could write either, but no longer than its caller may
 * wait, also when it is told to hurry meanwhile (hurry.h). From a second on, it notes every second
 * that nobody can write: that time counts against no lease (sqlite_clock.h), and its owners know
 * (run/pulse.c). Those who wait for the turn say who the stranger is, not that the one with the
 * turn is slow (turnstile.h).
 *
 * Where nobody is in the way, none of this costs a system call: SQLite calls the handler below only
 * when it finds the store locked.
 */
#include "store/sqlite_db.h"

#include "base/clock.h"

#include <tend.h>
#include <time.h>

/* How often it is looked whether the stranger is gone: soon at first. */
enum { FIRST_PAUSE_US = 500, LONGEST_PAUSE_US = 20000 };

static void note_wait(struct sqlite_db *db, int64_t now_ns)
{
    struct sqlite_stranger *wait = &db->stranger;
    if (wait->since_ms == 0) {
        wait->since_ms = clock_boot_ms();
        wait->begun_ms = now_ns / 1000000;
        wait->note_ns = now_ns + (int64_t)TURNSTILE_STILL_MS * 1000000;
        turnstile_meet_stranger(&db->turnstile);
    } else if (now_ns >= wait->note_ns) {
        wait->note_ns = now_ns + (int64_t)TURNSTILE_STILL_MS * 1000000;
        turnstile_wait_for_stranger(&db->turnstile, wait->since_ms);
    }
}

/* SQLite's busy handler: 0 to give up. */
static int wait_a_little(void *arg, int tries)
{
    struct sqlite_db *db = arg;
    int64_t now_ns = clock_mono_ns();
    int64_t pause_ns = 1000LL * (tries < 5 ? FIRST_PAUSE_US << tries : LONGEST_PAUSE_US);
    int64_t left_ns = db->stranger.until_ns - now_ns;
    note_wait(db, now_ns);
    if (left_ns <= 0 ||
        now_ns / 1000000 >= hurry_until(&db->hurry, db->stranger.begun_ms, INT64_MAX))
        return 0;
    if (pause_ns > left_ns)
        pause_ns = left_ns;
    const struct timespec pause = {.tv_nsec = (long)pause_ns};
    nanosleep(&pause, NULL);
    return 1;
}

void sqlite_stranger_watch(struct sqlite_db *db)
{
    sqlite3_busy_handler(db->writer.sqlite, wait_a_little, db);
}

void sqlite_stranger_limit(struct sqlite_db *db, int64_t until_ns)
{
    db->stranger = (struct sqlite_stranger){.until_ns = until_ns};
}

int sqlite_stranger_begin(struct sqlite_db *db, int64_t until_ns, struct err *err)
{
    sqlite_stranger_limit(db, until_ns);
    int rc = sqlite_conn_fixed(&db->writer, FIXED_WRITE, err);
    if (rc == TEND_EBUSY)
        return turnstile_give_up_on_stranger(&db->turnstile, err);
    if (rc == 0)
        turnstile_begun(&db->turnstile);
    return rc;
}
