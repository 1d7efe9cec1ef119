#include "store/turnstile.h"

#include "base/civil.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/timetext.h"
#include "store/byte_lock.h"
#include "store/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>
#include <time.h>
#include <unistd.h>

enum {
    TURN_BYTE = 0,
    DOOR_BYTE = 1,
    TURN_NOTE_AT = 64,
    DOOR_NOTE_AT = 96,
    STUCK_AT = 144,
    STRANGER_AT = 176,
    BLOCKED_AT = 208
};
enum { LONGEST_MS = 86400000 };

/* After which time without movement somebody is taken to be stopped, and how often the turn is
 * tried past the door then. */
enum { STILL_MS = TURNSTILE_STILL_MS, PAST_DOOR_MS = 5 };

/* Those who wait look every STILL_MS whether the turn still does not change hands. If nobody has
 * looked for this long, it may have. */
enum { UNSEEN_MS = 3 * STILL_MS };

/* "process 12 (sqlite3)", perhaps several. */
enum { STRANGER_BYTES = 192 };

/* How many bits of a noted time say which boot of the machine it belongs to, and what they say
 * where /proc does not tell. */
enum { BOOT_BITS = 16, BOOT_MASK = (1 << BOOT_BITS) - 1, BOOT_UNKNOWN = 0 };

static const char writing[] = "in the middle of a write";
static const char in_line[] = "at the head of the line of those who want to write";

static bool try_lock(const struct turnstile *turnstile, int64_t byte)
{
    return byte_lock_set(turnstile->fd, byte, F_WRLCK) == 0;
}

static void unlock(const struct turnstile *turnstile, int64_t byte)
{
    byte_lock_set(turnstile->fd, byte, F_UNLCK);
}

/* By another descriptor than this one. */
static bool is_locked(const struct turnstile *turnstile, int64_t byte)
{
    return byte_lock_ask(turnstile->fd, byte, F_WRLCK) > 0;
}

void turnstile_init(struct turnstile *turnstile, int fd)
{
    pthread_condattr_t attr;
    *turnstile = (struct turnstile){.fd = fd};
    pthread_mutex_init(&turnstile->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&turnstile->changed, &attr);
    pthread_condattr_destroy(&attr);
}

/* --- notes --- */

static int64_t write_note(const struct turnstile *turnstile, int64_t at)
{
    struct holder_note note = turnstile->self;
    note.since_ms = clock_boot_ms();
    ssize_t ignored = pwrite(turnstile->fd, &note, sizeof note, at);
    (void)ignored;
    return note.since_ms;
}

static struct holder_note read_note(const struct turnstile *turnstile, int64_t at)
{
    struct holder_note note;
    if (pread(turnstile->fd, &note, sizeof note, at) != (ssize_t)sizeof note)
        note = (struct holder_note){0};
    return note;
}

static bool same_note(const struct holder_note *a, const struct holder_note *b)
{
    return a->pid == b->pid && proc_same_start(a->start_ticks, b->start_ticks) &&
           a->pid_ns == b->pid_ns && a->since_ms == b->since_ms;
}

/* --- time in which nobody could write --- */

static int64_t this_boot(void)
{
    char id[PROC_BOOT_BYTES];
    if (proc_boot_id(id) < 0)
        return BOOT_UNKNOWN;
    int64_t boot = (int64_t)(text_hash(id) & BOOT_MASK);
    return boot != BOOT_UNKNOWN ? boot : BOOT_MASK;
}

static int64_t stamp(int64_t boot_ms)
{
    return (int64_t)(((uint64_t)boot_ms << BOOT_BITS | (uint64_t)this_boot()) & INT64_MAX);
}

/*
 * What was noted before the machine went down says nothing now. Where the reader or the writer of
 * the note does not know its boot, the note is taken for one of this boot: if it is not, leases
 * last longer; nobody loses one.
 */
static bool is_of_this_boot(int64_t since)
{
    int64_t noted = since & BOOT_MASK;
    int64_t here = this_boot();
    return since > 0 && (noted == here || noted == BOOT_UNKNOWN || here == BOOT_UNKNOWN);
}

static struct blocked_note read_blocked(const struct turnstile *turnstile)
{
    struct blocked_note note;
    if (pread(turnstile->fd, &note, sizeof note, BLOCKED_AT) != (ssize_t)sizeof note ||
        (note.since != 0 && !is_of_this_boot(note.since)))
        note = (struct blocked_note){0};
    return note;
}

static void write_blocked(const struct turnstile *turnstile, const struct blocked_note *note)
{
    ssize_t ignored = pwrite(turnstile->fd, note, sizeof *note, BLOCKED_AT);
    (void)ignored;
}

/* The length of the latest stretch. */
static int64_t stretch_ms(const struct blocked_note *note)
{
    int64_t now_ms = clock_boot_ms();
    int64_t since_ms = note->since >> BOOT_BITS;
    int64_t until_ms = note->seen_ms + UNSEEN_MS < now_ms ? note->seen_ms + UNSEEN_MS : now_ms;
    return note->since != 0 && since_ms < until_ms ? until_ms - since_ms : 0;
}

static int64_t blocked_ms(const struct blocked_note *note)
{
    return note->owed_ms + stretch_ms(note);
}

/*
 * Nobody can write since since_ms. If that belongs to the stretch that is noted, the start of the
 * stretch stays; otherwise that stretch is over, and a new one begins. turn_ms: since when the one
 * who has the turn has it. If somebody saw the stretch after that, it has not ended in between,
 * however long nobody looked.
 */
static void note_blocked(const struct turnstile *turnstile, int64_t since_ms, int64_t turn_ms)
{
    struct blocked_note note = read_blocked(turnstile);
    bool over = since_ms > note.seen_ms + UNSEEN_MS && turn_ms >= note.seen_ms;
    if (note.since == 0 || over) {
        note.owed_ms = blocked_ms(&note);
        note.since = stamp(since_ms);
    }
    note.seen_ms = clock_boot_ms();
    write_blocked(turnstile, &note);
}

int64_t turnstile_blocked_ms(const struct turnstile *turnstile)
{
    struct blocked_note note = read_blocked(turnstile);
    return blocked_ms(&note);
}

int64_t turnstile_take_blocked(struct turnstile *turnstile)
{
    turnstile->taken = read_blocked(turnstile);
    return blocked_ms(&turnstile->taken);
}

static bool is_long(const struct turnstile *turnstile)
{
    return clock_boot_ms() - turnstile->entered_ms > STILL_MS;
}

/* What came after the clocks were read in this turn, while this process was stopped, stays. */
void turnstile_settle_blocked(struct turnstile *turnstile)
{
    static const struct blocked_note none = {0};
    if (turnstile->taken.since == 0)
        return;
    struct blocked_note note = read_blocked(turnstile);
    bool same = note.since == turnstile->taken.since && note.seen_ms == turnstile->taken.seen_ms;
    turnstile->taken = none;
    if (same && !is_long(turnstile)) {
        note = none;
    } else {
        note.since = stamp(turnstile->entered_ms);
        if (note.seen_ms < turnstile->entered_ms)
            note.seen_ms = turnstile->entered_ms;
        note.owed_ms = 0;
    }
    write_blocked(turnstile, &note);
}

/* A turn in which this process was stopped has ended. What others noted of it ends now; what they
 * noted before it has ended before. */
static void end_long_turn(const struct turnstile *turnstile)
{
    struct blocked_note note = read_blocked(turnstile);
    if (note.since == 0 || note.seen_ms < turnstile->entered_ms)
        return;
    note.seen_ms = clock_boot_ms();
    write_blocked(turnstile, &note);
}

/* --- the thread that stands in line --- */

static int wait_for_byte(int fd, int64_t byte)
{
    int ignored;
    int rc;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE,
                           &ignored); /* turnstile_done need not wait for it */
    do
        rc = byte_lock_wait(fd, byte, F_WRLCK);
    while (rc != 0 && errno == EINTR);
    int failed = rc != 0 ? errno : 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    return failed;
}

/* Called and returns with the mutex held. ret_entered_ms: when it got the turn. */
static int stand_in_line(struct turnstile *turnstile, int64_t *ret_entered_ms)
{
    pthread_mutex_unlock(&turnstile->mutex);
    int failed = wait_for_byte(turnstile->fd, DOOR_BYTE);
    if (failed == 0) {
        write_note(turnstile, DOOR_NOTE_AT);
        pthread_mutex_lock(&turnstile->mutex);
        turnstile->turn = TURN_NEXT;
        turnstile->stuck = false;
        pthread_mutex_unlock(&turnstile->mutex);
        failed = wait_for_byte(turnstile->fd, TURN_BYTE);
        /* Here and not by the thread that is woken: it may take a while until that one runs. */
        if (failed == 0)
            *ret_entered_ms = write_note(turnstile, TURN_NOTE_AT);
        unlock(turnstile, DOOR_BYTE);
    }
    pthread_mutex_lock(&turnstile->mutex);
    return failed;
}

/*
 * What the thread has waited for is there. Its locks are those of the descriptor, which the callers
 * use too: one of them may have taken the turn past the door, and even given it back, while the
 * kernel told the thread that it has it. So the lock is taken once more under the mutex, which does
 * nothing when it is ours. Under the mutex.
 */
static void hand_over(struct turnstile *turnstile, int failed, int64_t entered_ms)
{
    turnstile->failure = failed;
    turnstile->stuck = false;
    turnstile->turn = TURN_IDLE;
    if (turnstile->held)
        return;
    turnstile->entered_ms = entered_ms;
    if (turnstile->abandoned)
        unlock(turnstile, TURN_BYTE);
    else if (failed != 0 || try_lock(turnstile, TURN_BYTE))
        turnstile->turn = TURN_READY;
    else
        turnstile->turn = TURN_WANTED;
}

static void *serve(void *arg)
{
    struct turnstile *turnstile = arg;
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
    pthread_mutex_lock(&turnstile->mutex);
    while (!turnstile->stop) {
        if (turnstile->turn != TURN_WANTED) {
            pthread_cond_wait(&turnstile->changed, &turnstile->mutex);
            continue;
        }
        int64_t entered_ms = 0;
        int failed = stand_in_line(turnstile, &entered_ms);
        hand_over(turnstile, failed, entered_ms);
        pthread_cond_broadcast(&turnstile->changed);
    }
    pthread_mutex_unlock(&turnstile->mutex);
    return NULL;
}

/* Under the mutex. */
static int start(struct turnstile *turnstile, struct err *err)
{
    if (turnstile->running)
        return 0;
    int failed = thread_start(&turnstile->thread, 0, serve, turnstile);
    if (failed != 0)
        return err_set(err, TEND_ENOMEM, "no thread could be started: %s", strerror(failed));
    turnstile->running = true;
    return 0;
}

void turnstile_done(struct turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    turnstile->stop = true;
    pthread_cond_broadcast(&turnstile->changed);
    pthread_mutex_unlock(&turnstile->mutex);
    if (turnstile->running) {
        pthread_cancel(turnstile->thread);
        pthread_join(turnstile->thread, NULL);
    }
    pthread_cond_destroy(&turnstile->changed);
    pthread_mutex_destroy(&turnstile->mutex);
}

/* --- what is said when nobody can write --- */

/* The one who has the turn has noted that a stranger is in its way. */
static bool waits_for_stranger(const struct turnstile *turnstile, const struct holder_note *turn)
{
    struct holder_note noted = read_note(turnstile, STRANGER_AT);
    return noted.since_ms != 0 && same_note(&noted, turn);
}

static bool name_stranger(const struct turnstile *turnstile, char name[STRANGER_BYTES])
{
    return turnstile->name_stranger != NULL &&
           turnstile->name_stranger(turnstile->name_arg, name, STRANGER_BYTES);
}

static void describe_stranger(const struct turnstile *turnstile, char *text, size_t size)
{
    char name[STRANGER_BYTES];
    char span[DURATION_TEXT_BYTES];
    char time[DURATION_TEXT_BYTES + 8] = "";
    struct blocked_note note = read_blocked(turnstile);
    int64_t blocked_ms = stretch_ms(&note);
    if (blocked_ms >= MS_PER_SECOND)
        snprintf(time, sizeof time, " for %s", span_text(blocked_ms, span));
    if (!name_stranger(turnstile, name))
        snprintf(name, sizeof name, "a program that cannot be seen from here");
    snprintf(
        text, size,
        "%s has locked the file%s without standing in tend's line; end its transaction, or the "
        "program",
        name, time);
}

static int say_stranger(const struct turnstile *turnstile, struct err *err)
{
    char text[HOLDER_TEXT];
    describe_stranger(turnstile, text, sizeof text);
    return err_set(err, TEND_EBUSY, "the store cannot be written: %s", text);
}

int turnstile_say_busy(const struct turnstile *turnstile, struct err *err)
{
    struct holder holder;
    struct holder_note noted = read_note(turnstile, TURN_NOTE_AT);
    bool stranger = waits_for_stranger(turnstile, &noted);
    bool locked = is_locked(turnstile, TURN_BYTE); /* not by this handle */
    if (!locked && !stranger)
        return err_set(err, TEND_EBUSY,
                       "the store could not be written in time: too many are in line; try again");
    if (locked)
        holder_find(turnstile->fd, TURN_BYTE, writing, &noted, &holder);
    if (!locked || (stranger && !holder.stopped))
        return say_stranger(turnstile, err);
    return err_set(err, TEND_EBUSY, "the store cannot be written: %s", holder.text);
}

/* Whether the one with this note has the turn; not this handle. */
static bool has_turn(const struct turnstile *turnstile, const struct holder_note *note)
{
    struct holder_note now = read_note(turnstile, TURN_NOTE_AT);
    return same_note(note, &now) && is_locked(turnstile, TURN_BYTE);
}

/*
 * Once for each stretch of time in which nobody could write. holder: who has the turn; NULL: this
 * handle. Finding out what it is doing takes a while; if it has given the turn back meanwhile,
 * nothing is said. Not under the mutex.
 */
static void tell_blocked(struct turnstile *turnstile, int64_t since_ms,
                         const struct holder_note *holder)
{
    struct err err;
    if (turnstile->told || turnstile->log == NULL)
        return;
    turnstile_say_busy(turnstile, &err);
    if (holder != NULL && !has_turn(turnstile, holder))
        return;
    turnstile->told = true;
    turnstile->told_since_ms = since_ms;
    turnstile->log(turnstile->log_arg, err.text);
}

static void tell_over(struct turnstile *turnstile)
{
    char line[96];
    char span[DURATION_TEXT_BYTES];
    if (!turnstile->told)
        return;
    turnstile->told = false;
    snprintf(line, sizeof line, "the store can be written again, after %s",
             span_text(clock_boot_ms() - turnstile->told_since_ms, span));
    turnstile->log(turnstile->log_arg, line);
}

void turnstile_meet_stranger(struct turnstile *turnstile)
{
    struct holder_note turn = turnstile->self;
    turn.since_ms = turnstile->entered_ms;
    ssize_t ignored = pwrite(turnstile->fd, &turn, sizeof turn, STRANGER_AT);
    (void)ignored;
    turnstile->has_stranger = true;
}

void turnstile_wait_for_stranger(struct turnstile *turnstile, int64_t since_ms)
{
    note_blocked(turnstile, since_ms, turnstile->entered_ms);
    tell_blocked(turnstile, since_ms, NULL);
}

/* Leases get back all time up to now, and a long turn is one that is long from now on. */
void turnstile_begun(struct turnstile *turnstile)
{
    if (turnstile->has_stranger) {
        turnstile->has_stranger = false;
        turnstile->entered_ms = write_note(turnstile, TURN_NOTE_AT);
    }
    tell_over(turnstile);
}

int turnstile_give_up_on_stranger(struct turnstile *turnstile, struct err *err)
{
    __atomic_store_n(&turnstile->gave_up, true, __ATOMIC_RELAXED);
    return say_stranger(turnstile, err);
}

bool turnstile_gave_up(const struct turnstile *turnstile)
{
    return __atomic_load_n(&turnstile->gave_up, __ATOMIC_RELAXED);
}

/* Nobody wakes who only looks. */
static const struct timespec look_step = {.tv_nsec = 20000000};

/* Whether the byte stays locked by the same one. */
static bool stays_locked(const struct turnstile *turnstile, int64_t byte, int64_t note_at,
                         int64_t until_ms)
{
    struct holder_note first = read_note(turnstile, note_at);
    while (is_locked(turnstile, byte)) {
        struct holder_note now = read_note(turnstile, note_at);
        if (!same_note(&first, &now))
            return false;
        if (clock_mono_ms() >= until_ms)
            return true;
        nanosleep(&look_step, NULL);
    }
    return false;
}

/* Somebody has the turn, on this handle or another. */
static bool is_taken(struct turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    bool held = turnstile->held;
    pthread_mutex_unlock(&turnstile->mutex);
    return held || is_locked(turnstile, TURN_BYTE);
}

/* Whether the same program keeps the store locked while nobody has the turn. */
static bool stays_stranger(struct turnstile *turnstile, int64_t until_ms)
{
    char first[STRANGER_BYTES];
    char now[STRANGER_BYTES];
    if (!name_stranger(turnstile, first))
        return false;
    while (!is_taken(turnstile) && name_stranger(turnstile, now) && strcmp(first, now) == 0) {
        if (clock_mono_ms() >= until_ms)
            return true;
        nanosleep(&look_step, NULL);
    }
    return false;
}

static void tell_of_stranger(const struct turnstile *turnstile, struct holder *ret)
{
    *ret = (struct holder){.is_stranger = true};
    describe_stranger(turnstile, ret->text, sizeof ret->text);
}

bool turnstile_look(struct turnstile *turnstile, int64_t wait_ms, struct holder *ret)
{
    int64_t until_ms = clock_mono_ms() + wait_ms;
    struct holder_note noted;
    if (stays_locked(turnstile, TURN_BYTE, TURN_NOTE_AT, until_ms)) {
        noted = read_note(turnstile, TURN_NOTE_AT);
        holder_find(turnstile->fd, TURN_BYTE, writing, &noted, ret);
        if (!ret->stopped && waits_for_stranger(turnstile, &noted))
            tell_of_stranger(turnstile, ret);
        return true;
    }
    if (stays_stranger(turnstile, until_ms)) {
        tell_of_stranger(turnstile, ret);
        return true;
    }
    if (!stays_locked(turnstile, DOOR_BYTE, DOOR_NOTE_AT, until_ms))
        return false;
    noted = read_note(turnstile, DOOR_NOTE_AT);
    holder_find(turnstile->fd, DOOR_BYTE, in_line, &noted, ret);
    return ret->stopped;
}

/* --- entering and leaving --- */

/* Nobody is in line: the door and the turn are free. Otherwise nothing is taken. Under the mutex.
 */
static bool take_at_once(struct turnstile *turnstile)
{
    if (!try_lock(turnstile, DOOR_BYTE))
        return false;
    turnstile->held = try_lock(turnstile, TURN_BYTE);
    if (turnstile->held)
        turnstile->entered_ms = write_note(turnstile, TURN_NOTE_AT);
    unlock(turnstile, DOOR_BYTE);
    return turnstile->held;
}

/* Past a door at which nothing moves. Under the mutex. */
static bool take_past_door(struct turnstile *turnstile)
{
    turnstile->held = try_lock(turnstile, TURN_BYTE);
    if (turnstile->held) {
        turnstile->entered_ms = write_note(turnstile, TURN_NOTE_AT);
        turnstile->abandoned = true;
    }
    return turnstile->held;
}

/* A wait as it goes on. Times in ns are monotonic. */
struct turn_wait {
    int64_t begun_ms; /* monotonic */
    int64_t until_ns;
    int64_t look_ns;  /* when it is looked whether anything has moved */
    int64_t since_ms; /* since when the turn has not changed hands (clock_boot_ms) */
    struct holder_note turn, door;
};

static void begin_look(const struct turnstile *turnstile, struct turn_wait *wait)
{
    struct holder_note notes[2] = {0}; /* in a new file the second may be missing */
    _Static_assert(DOOR_NOTE_AT - TURN_NOTE_AT == sizeof notes[0], "they follow each other");
    wait->look_ns = clock_mono_ns() + (int64_t)STILL_MS * 1000000;
    ssize_t ignored = pread(turnstile->fd, notes, sizeof notes, TURN_NOTE_AT);
    (void)ignored;
    wait->turn = notes[0];
    wait->door = notes[1];
}

/* Somebody has found that the one at the door does not move, and it is still there: everybody else
 * goes past it without waiting for a second. */
static bool is_known_stuck(const struct turnstile *turnstile, const struct holder_note *door)
{
    struct holder_note stuck = read_note(turnstile, STUCK_AT);
    return stuck.pid != 0 && same_note(&stuck, door);
}

static void note_stuck(const struct turnstile *turnstile, const struct holder_note *door)
{
    ssize_t ignored = pwrite(turnstile->fd, door, sizeof *door, STUCK_AT);
    (void)ignored;
}

/* Whether anything has moved since the last look. The mutex is given up while the log is told. */
static void look(struct turnstile *turnstile, struct turn_wait *wait)
{
    struct turn_wait before = *wait;
    begin_look(turnstile, wait);
    if (turnstile->turn == TURN_WANTED && same_note(&before.door, &wait->door)) {
        turnstile->stuck = true;
        note_stuck(turnstile, &wait->door);
    }
    if (!same_note(&before.turn, &wait->turn) || !is_locked(turnstile, TURN_BYTE)) {
        wait->since_ms = clock_boot_ms();
        return;
    }
    note_blocked(turnstile, wait->since_ms, wait->turn.since_ms);
    pthread_mutex_unlock(&turnstile->mutex);
    tell_blocked(turnstile, wait->since_ms, &wait->turn);
    pthread_mutex_lock(&turnstile->mutex);
}

/* Until the thread has something to say, or it is time to look or to try. Under the mutex. */
static void sleep_in_line(struct turnstile *turnstile, struct turn_wait *wait)
{
    int64_t wake_ns = wait->look_ns < wait->until_ns ? wait->look_ns : wait->until_ns;
    int64_t try_ns = clock_mono_ns() + (int64_t)PAST_DOOR_MS * 1000000;
    if (turnstile->stuck && try_ns < wake_ns)
        wake_ns = try_ns;
    struct timespec wake = {.tv_sec = wake_ns / 1000000000, .tv_nsec = wake_ns % 1000000000};
    pthread_cond_timedwait(&turnstile->changed, &turnstile->mutex, &wake);
    /* This process itself was stopped: that does not count as waiting. */
    int64_t late_ns = clock_mono_ns() - wake_ns;
    if (late_ns > (int64_t)STILL_MS * 1000000)
        wait->until_ns += late_ns;
}

static bool is_over(const struct turnstile *turnstile, const struct turn_wait *wait)
{
    return clock_mono_ns() >= wait->until_ns ||
           clock_mono_ms() >= hurry_until(turnstile->hurry, wait->begun_ms, INT64_MAX);
}

static bool is_in_line(const struct turnstile *turnstile)
{
    return turnstile->turn == TURN_WANTED || turnstile->turn == TURN_NEXT;
}

/* Has the thread stand in line. Under the mutex, which is given up meanwhile. */
static int wait_for_turn(struct turnstile *turnstile, int64_t busy_ms, struct err *err)
{
    int64_t longest_ms = busy_ms < LONGEST_MS ? busy_ms : LONGEST_MS;
    struct turn_wait wait = {.begun_ms = clock_mono_ms(),
                             .until_ns = clock_mono_ns() + longest_ms * 1000000,
                             .since_ms = clock_boot_ms()};
    int rc = start(turnstile, err);
    if (rc < 0)
        return rc;
    turnstile->abandoned = false; /* one that was given up may still be in line, and is as good */
    if (turnstile->turn == TURN_IDLE)
        turnstile->turn = TURN_WANTED;
    pthread_cond_broadcast(&turnstile->changed);
    begin_look(turnstile, &wait);
    if (turnstile->turn == TURN_WANTED && is_known_stuck(turnstile, &wait.door))
        turnstile->stuck = true;
    while (is_in_line(turnstile)) {
        if (turnstile->stuck && take_past_door(turnstile))
            return 0;
        if (is_over(turnstile, &wait)) {
            turnstile->abandoned = true;
            return turnstile_say_busy(turnstile, err);
        }
        sleep_in_line(turnstile, &wait);
        if (is_in_line(turnstile) && clock_mono_ns() >= wait.look_ns)
            look(turnstile, &wait);
    }
    turnstile->turn = TURN_IDLE;
    turnstile->held = turnstile->failure == 0;
    if (turnstile->failure != 0)
        return err_set(err, TEND_EIO, "locking the store failed: %s", strerror(turnstile->failure));
    return 0;
}

static int enter(struct turnstile *turnstile, int64_t busy_ms, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&turnstile->mutex);
    /* While the thread is in line its locks are this descriptor's too, and a try would succeed
     * falsely. */
    if (turnstile->turn != TURN_IDLE || !take_at_once(turnstile))
        rc = wait_for_turn(turnstile, busy_ms, err);
    pthread_mutex_unlock(&turnstile->mutex);
    return rc;
}

static void give_back(struct turnstile *turnstile)
{
    pthread_mutex_lock(&turnstile->mutex);
    turnstile->held = false;
    unlock(turnstile, TURN_BYTE);
    pthread_mutex_unlock(&turnstile->mutex);
}

int turnstile_enter(struct turnstile *turnstile, int64_t busy_ms, struct err *err)
{
    if (turnstile->self.pid == 0)
        turnstile->self = holder_self();
    for (;;) {
        gate_enter();
        int rc = enter(turnstile, busy_ms, err);
        if (rc == 0 && !gate_hold()) { /* the process is about to be stopped */
            give_back(turnstile);
            gate_leave(false);
            continue;
        }
        if (rc < 0)
            gate_leave(false);
        __atomic_store_n(&turnstile->gave_up, rc == TEND_EBUSY, __ATOMIC_RELAXED);
        return rc;
    }
}

bool turnstile_try_enter(struct turnstile *turnstile)
{
    gate_enter();
    pthread_mutex_lock(&turnstile->mutex);
    bool taken = turnstile->turn == TURN_IDLE && take_at_once(turnstile);
    pthread_mutex_unlock(&turnstile->mutex);
    if (taken && gate_hold())
        return true;
    if (taken)
        give_back(turnstile);
    gate_leave(false);
    return false;
}

void turnstile_leave(struct turnstile *turnstile)
{
    turnstile->taken = (struct blocked_note){0};
    if (is_long(turnstile))
        end_long_turn(turnstile);
    give_back(turnstile);
    gate_leave(true);
}
