/*
 * The line of writers on an SQLite store when somebody in it is stopped: who is named, who goes on,
 * and who is not kept longer than it wanted to wait.
 */
#include "support/store.h"

#include "base/clock.h"
#include "queue/handle.h"
#include "store/db.h"
#include "store/turnstile.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURN = 0, DOOR = 1 };

/* The helper holds the byte until it is killed or hears something. */
static void hold_byte(struct helper *parent, void *arg)
{
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = *(int *)arg, .l_len = 1};
    check_int(fcntl(fd, F_OFD_SETLKW, &lock), ==, 0);
    helper_say(parent, 0);
    helper_hear(parent);
}

static struct helper start_holder(int byte, bool stopped)
{
    struct helper holder = helper_start(hold_byte, &byte);
    helper_hear(&holder);
    if (stopped) {
        check_int(kill(holder.pid, SIGSTOP), ==, 0);
        check_int(waitpid(holder.pid, NULL, WUNTRACED), ==, holder.pid);
    }
    return holder;
}

static int try_add(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    return tend_add(t, &spec, &added);
}

static size_t count_in(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* A process that another one has noted before it. */
static void note_as_holder(pid_t pid, int64_t at)
{
    struct proc_id id;
    check_int(proc_of(pid, &id), ==, 0);
    struct holder_note note = {.pid = id.pid,
                               .start_ticks = id.start_ticks,
                               .pid_ns = id.pid_ns,
                               .since_ms = clock_boot_ms()};
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    check_int(pwrite(fd, &note, sizeof note, at), ==, sizeof note);
    close(fd);
}

/* --- the sentence --- */

TEST(turnstile, a_stopped_writer_is_named_with_what_to_do)
{
    tend *t = store_open_busy("w", 200);
    struct helper holder = start_holder(TURN, true);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_contains(tend_errmsg(t), keep_text("process %d (", (int)holder.pid));
    check_contains(tend_errmsg(t), "is stopped in the middle of a write");
    check_contains(tend_errmsg(t), keep_text("kill -CONT %d", (int)holder.pid));
    helper_kill(&holder);
    check_ok(t, try_add(t));
}

TEST(turnstile, a_writer_that_runs_is_not_called_stopped)
{
    tend *t = store_open_busy("w", 200);
    struct helper holder = start_holder(TURN, false);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_contains(tend_errmsg(t), keep_text("process %d (", (int)holder.pid));
    check_contains(tend_errmsg(t), "has been writing");
    check(strstr(tend_errmsg(t), "stopped") == NULL);
    helper_kill(&holder);
}

/* The note in the file was of the one before, and 2 of 3 sentences named a process that had nothing
 * to do with it. */
TEST(turnstile, the_holder_is_named_although_the_note_is_of_another)
{
    tend *t = store_open_busy("w", 200);
    struct helper bystander = start_holder(100, true);
    struct helper holder = start_holder(TURN, false);
    note_as_holder(bystander.pid, 64);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_contains(tend_errmsg(t), keep_text("process %d (", (int)holder.pid));
    check(strstr(tend_errmsg(t), keep_text("%d", (int)bystander.pid)) == NULL);
    helper_kill(&holder);
    helper_kill(&bystander);
}

TEST(turnstile, the_log_is_told_once_that_nobody_can_write_and_once_that_it_is_over)
{
    tend *t = store_open_busy("w", 1500);
    struct helper holder = start_holder(TURN, true);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_rc(t, try_add(t), TEND_EBUSY);
    check_int(count_in(store_log(), "the store cannot be written: process"), ==, 1);
    check(strstr(store_log(), "can be written again") == NULL);
    helper_kill(&holder);
    check_ok(t, try_add(t));
    check_int(count_in(store_log(), "the store can be written again"), ==, 1);
}

/* --- who goes on --- */

/* A process stopped at the door, with the turn free, blocked everybody without limit. */
TEST_WITHIN(turnstile, a_process_stopped_at_the_door_keeps_nobody_from_writing, 60)
{
    tend *t = store_open_busy("w", 20000);
    tend *other = store_open_busy("v", 20000);
    struct helper holder = start_holder(DOOR, true);
    int64_t begun_ms = clock_mono_ms();
    for (int i = 0; i < 10; i++) {
        check_ok(t, try_add(t));
        check_ok(other, try_add(other));
    }
    /* A second for each handle, not for each write. */
    check_int(clock_mono_ms() - begun_ms, <, 10000);
    check(strstr(store_log(), "cannot be written") == NULL);
    helper_kill(&holder);
    check_ok(t, try_add(t)); /* and in line again */
    check_int(sql_int("SELECT count(*) FROM job"), ==, 21);
}

/* Each command waited for a second at the door at which another one was stopped by Ctrl-Z. */
TEST_WITHIN(turnstile, who_is_known_to_be_stopped_at_the_door_is_waited_for_once, 60)
{
    tend *t = store_open_busy("w", 20000);
    struct helper holder = start_holder(DOOR, true);
    note_as_holder(holder.pid, 96);
    check_ok(t, try_add(t));
    int64_t begun_ms = clock_mono_ms();
    for (int i = 0; i < 20; i++) {
        tend *other = store_open_busy("v", 20000);
        check_ok(other, try_add(other));
        store_close(other);
    }
    check_int(clock_mono_ms() - begun_ms, <, 15000);
    helper_kill(&holder);
}

struct adder {
    tend *t;
    int count;
    pthread_t thread;
};

static void *add_many(void *arg)
{
    struct adder *adder = arg;
    for (int i = 0; i < adder->count; i++)
        check_ok(adder->t, try_add(adder->t));
    return NULL;
}

/* Past the door there is no order, but still one at a time: whoever enters adds without harm. */
TEST_WITHIN(turnstile, past_the_door_writers_still_exclude_each_other, 120)
{
    enum { ADDERS = 4, EACH = 50 };
    struct adder adders[ADDERS];
    for (int i = 0; i < ADDERS; i++)
        adders[i] = (struct adder){.t = store_open_busy(keep_text("w%d", i), 60000), .count = EACH};
    struct helper holder = start_holder(DOOR, true);
    for (int i = 0; i < ADDERS; i++)
        check_int(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), ==, 0);
    wait_until(sql_int("SELECT count(*) FROM job") > EACH, PATIENCE_MS);
    helper_kill(&holder); /* the threads at the door get it one after another, too late */
    for (int i = 0; i < ADDERS; i++)
        pthread_join(adders[i].thread, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, ADDERS * EACH);
}

/* --- how long one waits --- */

/* claim --wait 5s came back after 30 s, and said that the queue is held by "" since 1970. */
TEST_WITHIN(turnstile, a_claim_that_waits_does_not_wait_longer_for_the_store, 60)
{
    tend *t = store_open_busy("w", 50000);
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    struct tend_none none = {.code = 1};
    claim_none(t, "q");
    struct helper holder = start_holder(TURN, true);
    int64_t begun_ms = clock_mono_ms();
    claim.wait_ms = 1500;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, &none), TEND_EBUSY);
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    check_int(none.code, ==, 0);
    check_int(none.until_ms, ==, TEND_UNSET);
    check_contains(tend_errmsg(t), keep_text("process %d (", (int)holder.pid));
    store_close(t); /* and closing does not wait for it either */
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    helper_kill(&holder);
}

TEST_WITHIN(turnstile, a_lock_that_is_waited_for_does_not_wait_longer_for_the_store, 60)
{
    tend *t = store_open_busy("w", 50000);
    struct tend_lock_request request;
    struct tend_lock lock = {.token = 7};
    struct helper holder = start_holder(TURN, true);
    int64_t begun_ms = clock_mono_ms();
    tend_lock_request_init(&request);
    request.name = "l";
    request.wait_ms = 1500;
    request.flags = TEND_CLAIM_BY_TIME;
    check_rc(t, tend_lock_acquire(t, &request, &lock), TEND_EBUSY);
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    check_int(lock.token, ==, 0);
    check_contains(tend_errmsg(t), "the store cannot be written");
    helper_kill(&holder);
}

static void *claim_shortly(void *arg)
{
    tend *t = arg;
    struct tend_claim claim = claim_for("q");
    struct tend_jobs *jobs;
    claim.wait_ms = 1;
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EBUSY);
    return NULL;
}

/* The bodies of all threads wait behind one of them; when that one gives up, only its own fails. */
TEST_WITHIN(turnstile, one_that_gives_up_takes_nobody_with_it, 60)
{
    tend *t = store_open_busy("w", 50000);
    struct adder adder = {.t = t, .count = 1};
    pthread_t claimer;
    claim_none(t, "q");
    struct helper holder = start_holder(TURN, true);
    check_int(pthread_create(&claimer, NULL, claim_shortly, t), ==, 0);
    check_int(pthread_create(&adder.thread, NULL, add_many, &adder), ==, 0);
    pthread_join(claimer, NULL);
    helper_kill(&holder);
    pthread_join(adder.thread, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

static void *add_in_vain(void *t)
{
    check_rc(t, try_add(t), TEND_EBUSY);
    return NULL;
}

/* Symptom: a worker whose claim was in line ended half a minute after it was told to stop. */
TEST_WITHIN(turnstile, a_handle_that_is_told_to_hurry_ends_the_calls_that_are_in_line, 60)
{
    tend *t = store_open_busy("w", 50000);
    pthread_t threads[2]; /* one leads, the other waits for it */
    struct helper holder = start_holder(TURN, true);
    for (int i = 0; i < 2; i++)
        check_int(pthread_create(&threads[i], NULL, add_in_vain, t), ==, 0);
    wait_until(strstr(store_log(), "the store cannot be written") != NULL, PATIENCE_MS);
    int64_t begun_ms = clock_mono_ms();
    db_hurry(t->db, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    check_rc(t, try_add(t), TEND_EBUSY); /* one that comes later hurries too */
    check_int(clock_mono_ms() - begun_ms, <, 25000);
    helper_kill(&holder);
    check_ok(t, try_add(t));
}

/* --- time in which nobody could write --- */

enum { TURN_NOTE_AT = 64, BLOCKED_AT = 208 };

static struct blocked_note read_blocked(int fd)
{
    struct blocked_note note;
    check_int(pread(fd, &note, sizeof note, BLOCKED_AT), ==, sizeof note);
    return note;
}

static void write_blocked(int fd, const struct blocked_note *note)
{
    check_int(pwrite(fd, note, sizeof *note, BLOCKED_AT), ==, sizeof *note);
}

/* As if what is noted had been noted so much earlier. */
static void age_blocked(int fd, int64_t ms)
{
    struct blocked_note note = read_blocked(fd);
    note.since -= ms << 16;
    note.seen_ms -= ms;
    write_blocked(fd, &note);
}

static int open_line(struct turnstile *line)
{
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    turnstile_init(line, fd);
    return fd;
}

static void close_line(struct turnstile *line)
{
    turnstile_done(line);
    close(line->fd);
}

TEST(turnstile, BY_9_the_time_in_which_nobody_could_write_is_told_once)
{
    struct turnstile line;
    struct err err = {0};
    tend *t = store_open("w");
    (void)t;
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    turnstile_init(&line, fd);
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_take_blocked(&line), ==, 0);
    turnstile_leave(&line);
    struct helper holder = start_holder(TURN, true);
    check_int(turnstile_enter(&line, 1300, &err), ==, TEND_EBUSY);
    helper_kill(&holder);
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_take_blocked(&line), >=, 1000);
    turnstile_leave(&line); /* as one that was killed: nobody has given it back */
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_blocked_ms(&line), >=, 1000);
    check_int(turnstile_take_blocked(&line), >=, 1000);
    turnstile_settle_blocked(&line);
    check_int(turnstile_take_blocked(&line), ==, 0);
    check_int(turnstile_blocked_ms(&line), ==, 0);
    turnstile_leave(&line);
    /* The one that had the turn was killed, and nobody wanted to write for a long time after that:
     * it counted as time in which nobody could. */
    holder = start_holder(TURN, true);
    check_int(turnstile_enter(&line, 1300, &err), ==, TEND_EBUSY);
    helper_kill(&holder);
    struct blocked_note note = read_blocked(fd);
    note.since -= 100 * SECOND_MS << 16;
    note.seen_ms -= 90 * SECOND_MS;
    write_blocked(fd, &note);
    check_int(turnstile_blocked_ms(&line), >=, 11 * SECOND_MS);
    check_int(turnstile_blocked_ms(&line), <, 30 * SECOND_MS);
    /* What is left of an earlier boot says nothing. */
    const int64_t boot = note.since & 0xffff;
    const struct blocked_note old = {
        .since = 123LL << 16 | (boot == 0xffff ? 1 : boot + 1), .seen_ms = 456, .owed_ms = 789};
    write_blocked(fd, &old);
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_take_blocked(&line), ==, 0);
    turnstile_leave(&line);
    turnstile_done(&line);
    close(fd);
}

static bool name_nobody(void *arg, char *text, size_t size)
{
    (void)arg;
    snprintf(text, size, "somebody");
    return true;
}

/* Nobody can write for a little more than a second, because of a stranger. The sentence says so. */
static void block(struct turnstile *holder, struct turnstile *line, struct err *err)
{
    struct err ignored = {0};
    check_int(turnstile_enter(holder, 1000, &ignored), ==, 0);
    turnstile_meet_stranger(holder);
    check_int(turnstile_enter(line, 1300, err), ==, TEND_EBUSY);
    turnstile_leave(holder);
}

/* Two locks of 5 s and 3 s with 40 s of rest between them moved all leases by 48 s, and a program
 * was told to have locked the file for 66 s that had done so for 2 s. */
TEST(turnstile, BY_9_time_between_two_stretches_in_which_nobody_could_write_is_not_one_of_them)
{
    struct turnstile holder;
    struct turnstile line;
    struct err err = {0};
    store_open("w");
    open_line(&holder);
    int fd = open_line(&line);
    line.name_stranger = name_nobody;
    block(&holder, &line, &err);
    age_blocked(fd, 90 * SECOND_MS);
    int64_t first_ms = turnstile_blocked_ms(&line);
    check_int(first_ms, >=, SECOND_MS);
    block(&holder, &line, &err);
    check_contains(err.text, "somebody has locked the file for ");
    char *unit;
    check_int((int64_t)strtod(strstr(err.text, " for ") + strlen(" for "), &unit), <, 90);
    check_int(*unit, ==, 's');
    /* Neither is lost. */
    check_int(turnstile_blocked_ms(&line), >=, first_ms + SECOND_MS);
    check_int(turnstile_blocked_ms(&line), <, 90 * SECOND_MS);
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_take_blocked(&line), >=, first_ms + SECOND_MS);
    turnstile_settle_blocked(&line);
    check_int(turnstile_blocked_ms(&line), ==, 0);
    turnstile_leave(&line);
    close_line(&line);
    close_line(&holder);
}

/* Those who want to write come and go, while one process is stopped in the middle of a write. */
TEST(turnstile, BY_9_a_turn_that_never_changed_hands_is_one_stretch_however_seldom_somebody_looks)
{
    struct turnstile holder;
    struct turnstile line;
    struct holder_note turn;
    struct err err = {0};
    store_open("w");
    open_line(&holder);
    int fd = open_line(&line);
    check_int(turnstile_enter(&holder, 1000, &err), ==, 0);
    check_int(turnstile_enter(&line, 1300, &err), ==, TEND_EBUSY);
    check_int(pread(fd, &turn, sizeof turn, TURN_NOTE_AT), ==, sizeof turn);
    turn.since_ms -= 90 * SECOND_MS;
    check_int(pwrite(fd, &turn, sizeof turn, TURN_NOTE_AT), ==, sizeof turn);
    age_blocked(fd, 90 * SECOND_MS);
    check_int(turnstile_enter(&line, 1300, &err), ==, TEND_EBUSY);
    check_int(turnstile_blocked_ms(&line), >=, 91 * SECOND_MS);
    turnstile_leave(&holder);
    close_line(&line);
    close_line(&holder);
}

/*
 * Symptom: a process that had used up its descriptors could not read which boot it is. It took the
 * note of the others for one of another boot, replaced it by one that they did not believe, and a
 * lease expired although nobody could have renewed it. Its log called the process whose note was
 * there, which was itself, one of another container.
 */
TEST(turnstile, BY_9_without_descriptors_the_time_in_which_nobody_could_write_is_kept)
{
    struct turnstile line;
    struct turnstile poor;
    struct err err = {0};
    store_open("w");
    open_line(&line);
    open_line(&poor);
    check_int(turnstile_enter(&poor, 1000, &err), ==, 0); /* so the note of the turn is its own */
    turnstile_leave(&poor);
    struct helper holder = start_holder(TURN, false);
    check_int(turnstile_enter(&line, 1300, &err), ==, TEND_EBUSY);
    int64_t noted_ms = turnstile_blocked_ms(&line);
    check_int(noted_ms, >=, SECOND_MS);
    struct rlimit limit = leave_descriptors(0);
    int64_t seen_ms = turnstile_blocked_ms(&poor);
    int rc = turnstile_enter(&poor, 1300, &err);
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_int(rc, ==, TEND_EBUSY);
    check_contains(err.text, "a process is in the middle of a write; this one has no descriptors");
    check_contains(err.text, "ulimit -n");
    check_int(seen_ms, >=, noted_ms);
    check_int(turnstile_blocked_ms(&line), >=, noted_ms + SECOND_MS);
    helper_kill(&holder);
    close_line(&poor);
    close_line(&line);
}

/* Nobody can write since so long, as far as this one has seen. */
static void say_blocked(struct turnstile *line, int64_t ms)
{
    struct err err = {0};
    check_int(turnstile_enter(line, 1000, &err), ==, 0);
    turnstile_wait_for_stranger(line, clock_boot_ms() - ms);
    turnstile_leave(line);
}

static void say_blocked_for_a_minute(struct helper *parent, void *arg)
{
    struct turnstile line;
    (void)arg;
    open_line(&line);
    say_blocked(&line, 60 * SECOND_MS);
    close_line(&line);
    helper_say(parent, 0);
    helper_hear(parent);
}

/* Symptom: where /proc cannot be read, all notes were those of another boot. */
TEST(turnstile, BY_9_who_does_not_know_its_boot_believes_the_others_and_is_believed)
{
    struct turnstile line;
    struct err err = {0};
    close(open(test_path("tend.db-lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    struct helper other = helper_start(say_blocked_for_a_minute, NULL);
    helper_hear(&other);
    open_line(&line);
    struct rlimit limit = leave_descriptors(0); /* before it has read which boot it is */
    int64_t believed_ms = turnstile_blocked_ms(&line);
    check_int(turnstile_enter(&line, 1000, &err), ==, 0);
    check_int(turnstile_take_blocked(&line), >=, 60 * SECOND_MS);
    turnstile_settle_blocked(&line);
    turnstile_leave(&line);
    int64_t settled_ms = turnstile_blocked_ms(&line);
    say_blocked(&line, 30 * SECOND_MS);
    check_int(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    check_int(believed_ms, >=, 60 * SECOND_MS);
    check_int(settled_ms, ==, 0);
    check_int(turnstile_blocked_ms(&line), >=, 30 * SECOND_MS); /* now it knows its boot */
    check_int(turnstile_blocked_ms(&line), <, 60 * SECOND_MS);
    helper_kill(&other);
    close_line(&line);
}

static void note_line(void *arg, const char *line)
{
    (void)line;
    ++*(int *)arg;
}

static bool leave_meanwhile(void *arg, char *text, size_t size)
{
    turnstile_leave(arg);
    snprintf(text, size, "somebody");
    return true;
}

/* It was found out who was in the way; the log was told when it was gone and others had written. */
TEST(turnstile, nobody_is_told_that_the_store_cannot_be_written_when_it_can_again)
{
    struct turnstile holder;
    struct turnstile line;
    struct err err = {0};
    int lines = 0;
    store_open("w");
    open_line(&holder);
    open_line(&line);
    line.name_stranger = leave_meanwhile;
    line.name_arg = &holder;
    line.log = note_line;
    line.log_arg = &lines;
    check_int(turnstile_enter(&holder, 1000, &err), ==, 0);
    turnstile_meet_stranger(&holder);
    check_int(turnstile_enter(&line, PATIENCE_MS, &err), ==, 0);
    turnstile_begun(&line);
    check_int(lines, ==, 0);
    turnstile_leave(&line);
    close_line(&line);
    close_line(&holder);
}

/* --- the gate --- */

static bool turn_is_free(void)
{
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = TURN, .l_len = 1};
    check_int(fcntl(fd, F_OFD_GETLK, &lock), ==, 0);
    close(fd);
    return lock.l_type == F_UNLCK;
}

/* A process is stopped between db_pause_process and db_resume_process: never with the turn. */
TEST(turnstile, while_the_process_pauses_none_of_its_threads_has_the_turn)
{
    struct adder adder = {.t = store_open_real("w"), .count = 500};
    check_int(pthread_create(&adder.thread, NULL, add_many, &adder), ==, 0);
    for (int i = 0; i < 50; i++) {
        db_pause_process();
        int64_t before = sql_int("SELECT count(*) FROM job");
        for (int k = 0; k < 20; k++)
            check(turn_is_free());
        check_int(sql_int("SELECT count(*) FROM job"), ==, before);
        db_resume_process();
    }
    pthread_join(adder.thread, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 500);
}
