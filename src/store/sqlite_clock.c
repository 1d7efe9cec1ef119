#include "store/sqlite_clock.h"

#include "base/proc.h"
#include "core/signature.h"
#include "store/clock_move.h"
#include "store/queries.h"
#include "store/sqlite_db.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

/* Below it is the turnstile's part of the lock file. */
enum { PAGE_AT = 256, READ_TRIES = 3 };

/* A page that says nothing but the time is not written more often than this. */
enum { FRESH_US = 20000, AHEAD_US = 500 };

static const uint64_t page_magic = 0x74656e64636c6b01;

/* Milliseconds that come from elsewhere; no number may overflow. */
static int64_t to_us(int64_t ms)
{
    const int64_t most_ms = INT64_MAX / 4000;
    return (ms > most_ms ? most_ms : ms < -most_ms ? -most_ms : ms) * 1000;
}

static void look_at_clocks(const struct sqlite_clock *clock, struct clock_look *ret)
{
    const struct db_options *options = clock->options;
    if (options->clock_ms == NULL) {
        clock_look(ret);
        return;
    }
    *ret = (struct clock_look){.wall_us = to_us(options->clock_ms(options->clock_arg))};
    if (options->uptime_ms != NULL) {
        ret->boottime_us = to_us(options->uptime_ms(options->clock_arg, 1));
        ret->monotonic_us = to_us(options->uptime_ms(options->clock_arg, 0));
    }
}

/* --- the page --- */

static uint64_t checksum(const struct clock_page *page)
{
    return signature_hash(page, offsetof(struct clock_page, checksum));
}

/* The file has its length from the beginning: on a full disk the page can still be written. */
static void make_room(int fd)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && status.st_size < PAGE_AT + (off_t)sizeof(struct clock_page)) {
        int ignored = posix_fallocate(fd, 0, PAGE_AT + (off_t)sizeof(struct clock_page));
        (void)ignored;
    }
}

void sqlite_clock_init(struct sqlite_clock *clock, const struct db_options *options)
{
    *clock = (struct sqlite_clock){.options = options, .fd = -1};
    pthread_mutex_init(&clock->mutex, NULL);
}

void sqlite_clock_done(struct sqlite_clock *clock)
{
    pthread_mutex_destroy(&clock->mutex);
}

void sqlite_clock_open(struct sqlite_clock *clock, int fd)
{
    clock->has_page = clock->options->clock_ms == NULL || clock->options->uptime_ms != NULL;
    if (!clock->has_page)
        return;
    clock->fd = fd;
    make_room(fd);
    clock->blank = (struct clock_page){.magic = page_magic, .time_namespace = clock_namespace()};
    _Static_assert(PROC_BOOT_BYTES <= sizeof clock->blank.boot_id, "a boot id fits");
    proc_boot_id(clock->blank.boot_id);
}

/*
 * Of this boot. Where /proc cannot be read, as in some containers, that cannot be told, and the
 * page is taken for ours: if it is not, leases last longer; nobody loses one.
 */
static bool is_ours(const struct sqlite_clock *clock, const struct clock_page *page)
{
    size_t same = clock->blank.boot_id[0] != '\0' ? offsetof(struct clock_page, mark)
                                                  : offsetof(struct clock_page, boot_id);
    return memcmp(page, &clock->blank, same) == 0;
}

/* False: there is none, or it belongs to another boot. Whoever has no turn may read half of it. */
static bool read_page(const struct sqlite_clock *clock, struct clock_page *ret)
{
    if (!clock->has_page)
        return false;
    for (int i = 0; i < READ_TRIES; i++) {
        if (pread(clock->fd, ret, sizeof *ret, PAGE_AT) != (ssize_t)sizeof *ret)
            return false;
        if (ret->checksum == checksum(ret))
            return is_ours(clock, ret);
    }
    return false;
}

/* Whether the page as found tells the next one as much as a new one would. */
static bool is_fresh(const struct sqlite_clock *clock)
{
    const struct clock_page *page = &clock->page;
    const struct clock_page *next = &clock->next;
    int64_t since_us = next->mark.boottime_us - page->mark.boottime_us;
    /* If the wall clock was set forward a little and is set back, time must go on from here. */
    bool ahead = next->mark.store_us - page->mark.store_us > since_us + AHEAD_US;
    return clock->known && page->failing_since_us == 0 && page->blocked_us == 0 &&
           page->clock_steps == next->clock_steps && since_us < FRESH_US && !ahead;
}

/* Otherwise it was written after the look, or belongs to other clocks. */
static bool is_past(const struct clock_page *page, const struct clock_look *look)
{
    return page->mark.boottime_us <= look->boottime_us &&
           page->mark.monotonic_us <= look->monotonic_us;
}

static void write_page(const struct sqlite_clock *clock, struct clock_page *page)
{
    page->checksum = checksum(page);
    ssize_t ignored = pwrite(clock->fd, page, sizeof *page, PAGE_AT);
    (void)ignored; /* the next one takes up from an older page */
}

/* --- store time --- */

/* page: NULL when it is of no use. */
static int64_t give_out(struct sqlite_clock *clock, const struct clock_page *page,
                        const struct clock_look *look, int64_t newest_ms)
{
    int64_t now_us = look->wall_us;
    if (to_us(newest_ms) > now_us)
        now_us = to_us(newest_ms);
    if (page != NULL && pace_since(&page->mark, look->boottime_us) > now_us)
        now_us = pace_since(&page->mark, look->boottime_us);
    pthread_mutex_lock(&clock->mutex);
    int64_t given_us = pace_since(&clock->given, look->boottime_us);
    if (given_us > now_us)
        now_us = given_us;
    clock->given = (struct pace_mark){.store_us = now_us, .boottime_us = look->boottime_us};
    pthread_mutex_unlock(&clock->mutex);
    return now_us;
}

int64_t sqlite_clock_read(struct sqlite_clock *clock, int64_t newest_ms)
{
    struct clock_look look;
    struct clock_page page;
    look_at_clocks(clock, &look);
    bool known = read_page(clock, &page);
    if (known && !is_past(&page, &look)) { /* somebody has committed meanwhile */
        look_at_clocks(clock, &look);
        known = is_past(&page, &look);
    }
    return give_out(clock, known ? &page : NULL, &look, newest_ms) / 1000;
}

int64_t sqlite_clock_ahead_ms(const struct sqlite_clock *clock, int64_t now_ms)
{
    struct clock_look look;
    look_at_clocks(clock, &look);
    return now_ms - look.wall_us / 1000;
}

/* --- what is owed to the leases --- */

static int read_steps(struct sqlite_conn *conn, struct db_tx *tx, int64_t *ret)
{
    struct clock_steps_rows steps;
    int rc = sqlite_conn_run(conn, tx, Q_CLOCK_STEPS, NULL, &steps.result);
    if (rc == 0)
        *ret = steps.count == 0 ? 0 : db_num(steps.at[0].clock_steps);
    return rc;
}

/*
 * In which nobody could write, since the last commit. While nothing could be saved, whatever the
 * turnstile tells of (noted_us) falls into the same time.
 */
static int64_t blocked_us(const struct clock_page *page, const struct clock_look *look,
                          int64_t noted_us)
{
    int64_t since_us = page->failing_since_us;
    return page->blocked_us + (since_us != 0 ? look->monotonic_us - since_us : noted_us);
}

/* Where no page tells of the last commit, the note of those who waited counts all the same. */
static int64_t noted_alone_us(int64_t noted_us)
{
    return noted_us > PACE_SLACK_US ? noted_us : 0;
}

/*
 * As a writer will do it, in the order that makes the answer certain: the clocks are read first, so
 * that time that passes after it, while this process is stopped, is not counted; a note that is
 * there after that has not been settled by anybody at the time of the clocks.
 */
int sqlite_clock_owed(struct sqlite_db *db, struct sqlite_tx *tx, struct db_owed *ret)
{
    struct sqlite_clock *clock = &db->clock;
    struct clock_look look;
    struct clock_page page;
    int64_t steps = 0;
    if (!clock->has_page || tx->conn == &db->writer)
        return 0;
    look_at_clocks(clock, &look);
    int64_t noted_us = to_us(turnstile_blocked_ms(&db->turnstile));
    bool known = read_page(clock, &page) && is_past(&page, &look);
    int rc = read_steps(tx->conn, &tx->base, &steps);
    if (rc < 0)
        return rc;
    struct pace_mark now = {.store_us =
                                give_out(clock, known ? &page : NULL, &look, tx->base.now.number),
                            .boottime_us = look.boottime_us,
                            .monotonic_us = look.monotonic_us};
    known = known && page.clock_steps == steps;
    int64_t owed_us = known ? pace_owed(&page.mark, &now, blocked_us(&page, &look, noted_us))
                            : noted_alone_us(noted_us);
    int64_t unlived_us = known ? pace_unlived(&page.mark, &now) : 0;
    int64_t lease_now_ms = now.store_us / 1000 - owed_us / 1000;
    if (lease_now_ms < tx->base.now.number)
        ret->all_ms = tx->base.now.number - lease_now_ms;
    if (owed_us > unlived_us)
        ret->blocked_ms = (owed_us - unlived_us) / 1000;
    return 0;
}

/* --- writing --- */

/* The clocks are read first: if the process is stopped after that, it goes on with clocks that are
 * too early, and clocks that are too early end no lease. */
static void take_up(struct sqlite_clock *clock, struct turnstile *turnstile)
{
    look_at_clocks(clock, &clock->look);
    clock->blocked_us = turnstile == NULL ? 0 : to_us(turnstile_take_blocked(turnstile));
    clock->known = read_page(clock, &clock->page) && is_past(&clock->page, &clock->look);
    if (!clock->known)
        clock->page = clock->blank;
    clock->begun = true;
}

int sqlite_clock_begin(struct sqlite_db *db, struct db_tx *tx, int64_t newest_ms,
                       int64_t *ret_now_ms)
{
    struct sqlite_clock *clock = &db->clock;
    take_up(clock, &db->turnstile);
    int64_t now_us = give_out(clock, clock->known ? &clock->page : NULL, &clock->look, newest_ms);
    *ret_now_ms = now_us / 1000;
    if (!clock->has_page)
        return 0;
    struct clock_page *next = &clock->next;
    *next = clock->page;
    next->mark = (struct pace_mark){.store_us = now_us,
                                    .boottime_us = clock->look.boottime_us,
                                    .monotonic_us = clock->look.monotonic_us};
    next->failing_since_us = next->blocked_us = 0;
    int64_t owed_us = clock->known
                          ? pace_owed(&clock->page.mark, &next->mark,
                                      blocked_us(&clock->page, &clock->look, clock->blocked_us))
                          : noted_alone_us(clock->blocked_us);
    if (clock->known && owed_us == 0)
        return 0;
    int rc = read_steps(&db->writer, tx, &next->clock_steps);
    if (clock->known && next->clock_steps != clock->page.clock_steps)
        owed_us = noted_alone_us(clock->blocked_us);
    if (rc < 0 || owed_us == 0)
        return rc;
    next->clock_steps++;
    int64_t by_ms = owed_us / 1000;
    return clock_move(tx, db_int(*ret_now_ms), by_ms, "clock.stepped",
                      arena_printf(tx->arena, "{\"by_ms\":%lld}", (long long)by_ms));
}

void sqlite_clock_end(struct sqlite_db *db, enum clock_outcome outcome)
{
    struct sqlite_clock *clock = &db->clock;
    struct clock_page *page = &clock->page;
    bool saved = outcome == CLOCK_WRITTEN; /* that the time noted at the turnstile was given back */
    if (!clock->has_page)
        return;
    if (!clock->begun)
        take_up(clock, outcome == CLOCK_UNWRITABLE ? &db->turnstile : NULL);
    clock->begun = false;
    if (outcome == CLOCK_WRITTEN) {
        if (!is_fresh(clock))
            write_page(clock, &clock->next);
    } else if (clock->known && page->failing_since_us == 0) {
        /* The mark stays that of the last commit: what was owed to the leases still is. */
        page->blocked_us += clock->blocked_us;
        if (outcome == CLOCK_UNWRITABLE)
            page->failing_since_us = clock->look.monotonic_us;
        saved = outcome == CLOCK_UNWRITABLE || (outcome == CLOCK_UNDONE && clock->blocked_us > 0);
        if (saved)
            write_page(clock, page);
    }
    if (saved)
        turnstile_settle_blocked(&db->turnstile);
}
