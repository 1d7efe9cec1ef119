/*
 * BY-2, BY-9: writers of an SQLite store that are stopped at random moments, in line, at the door
 * and in the middle of a write, and continued: nothing acknowledged is lost, nothing is added
 * twice, nobody fails, and nobody is charged. TEND_CRASH_SECONDS says for how long.
 */
#include "actor.h"
#include "crowd.h"
#include "ledger.h"
#include "verdict.h"

#include "store/holder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ADDERS = 5,
    WORKERS = 4,
    WRITERS = 4,
    HOLDERS = 3,
    STOPS_LEAST = 10,
    LONGER_MS = 60000,
    FREEZES = 2,
    FREEZE_MS = HOLDER_LEASE_MS + 1500,
    TURN_BYTE = 0, /* of the lock file, and where the one who has it is noted: turnstile.h */
    TURN_NOTE_AT = 64,
};

TEST_WITHIN(stopped, writers_that_are_stopped_anywhere_lose_nothing, 300)
{
    static const struct crowd_fate peace = {0};
    static const struct crowd_fate stops = {
        .every_ms = 100, .stop_share = 100, .stop_ms = 2500, .stopped_max = 2};
    struct crowd crowd;
    tend *t = store_open_real("judge");
    set_queue(t, SERIAL_QUEUE, "serial", "on");
    crowd_init(&crowd, store_url());
    crowd_add(&crowd, "adder", ADDERS);
    crowd_live(&crowd, &stops, crash_ms(25));
    long long longer_ms = test_clock_ms() + LONGER_MS;
    while (crowd.stops < STOPS_LEAST && test_clock_ms() < longer_ms)
        crowd_live(&crowd, &stops, SECOND_MS);
    crowd_leave(&crowd, "adder");
    check_int(crowd.stops, >=, STOPS_LEAST);
    check_int(crowd.kills, ==, 0);
    crowd_add(&crowd, "worker", WORKERS);
    long long deadline_ms = test_clock_ms() + 120 * SECOND_MS;
    while (verdict_open_jobs() > 0 && test_clock_ms() < deadline_ms)
        crowd_live(&crowd, &peace, 50);
    crowd_leave(&crowd, "worker");
    int64_t jobs = verdict_all_done_once(t);
    printf("# %lld jobs, %u stops\n", (long long)jobs, crowd.stops);
    check_int(jobs, >, 0);
}

static bool has_turn(int lock_fd, pid_t pid)
{
    struct holder_note note = {0};
    struct holder holder;
    if (pread(lock_fd, &note, sizeof note, TURN_NOTE_AT) != (ssize_t)sizeof note)
        return false;
    holder_find(lock_fd, TURN_BYTE, "in the middle of a write", &note, &holder);
    return holder.found && holder.stopped && holder.pid == pid;
}

/* Stops one writer after the other until one is stopped with the turn. Its pid. */
static pid_t stop_one_with_turn(struct crowd *crowd, int lock_fd)
{
    static const struct crowd_fate peace = {0};
    long long deadline_ms = test_clock_ms() + 2 * PATIENCE_MS;
    while (test_clock_ms() < deadline_ms) {
        int status;
        pid_t pid = crowd->members[rng_below(&crowd->rng, WRITERS)].pid;
        check_int(kill(pid, SIGSTOP), ==, 0);
        check_int(waitpid(pid, &status, WUNTRACED), ==, pid);
        check(WIFSTOPPED(status));
        if (has_turn(lock_fd, pid))
            return pid;
        kill(pid, SIGCONT);
        crowd_live(crowd, &peace, 1 + (int64_t)rng_below(&crowd->rng, 20));
    }
    test_fail(__FILE__, __LINE__, "no writer could be stopped with the turn");
}

/* Waits in line with all others, and reclaims what it finds when it has its turn. */
static void recover_always(struct helper *parent, void *arg)
{
    (void)parent;
    (void)arg;
    tend *t = store_open_real("healer");
    for (;;) {
        check_int(recover_now(t).entries_reclaimed, ==, 0);
        test_pause();
    }
}

/*
 * Nobody can write for longer than a lease lasts. Those who hold one could not renew it: each still
 * has it afterwards (a holder that loses its lease fails the test), and is charged nothing.
 */
TEST_WITHIN(stopped, BY_9_one_stopped_with_the_turn_takes_no_lease_from_others, 300)
{
    static const struct crowd_fate peace = {0};
    struct crowd crowd;
    tend *t = store_open_real("judge");
    int lock_fd = open(keep_text("%s-lock", store_path()), O_RDWR | O_CLOEXEC);
    crowd_init(&crowd, store_url());
    crowd_add(&crowd, "hammer", WRITERS);
    crowd_add(&crowd, "holder", HOLDERS);
    add_number(t, PLAIN_QUEUE, HOLDERS);
    wait_until(ledger_length(test_folder(), "held") == HOLDERS, PATIENCE_MS);
    wait_until(ledger_length(test_folder(), "ready") == WRITERS, PATIENCE_MS);
    close(open(test_path("go"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    struct helper healer = helper_start(recover_always, NULL);
    for (int i = 0; i < FREEZES; i++) {
        pid_t pid = stop_one_with_turn(&crowd, lock_fd);
        crowd_live(&crowd, &peace, FREEZE_MS);
        check(has_turn(lock_fd, pid));
        kill(pid, SIGCONT);
        crowd_live(&crowd, &peace, HOLDER_LEASE_MS / 4);
    }
    helper_kill(&healer);
    crowd_leave(&crowd, NULL);
    close(lock_fd);
    check_int(recover_now(t).entries_reclaimed, ==, 0);
    check_int(sql_int("SELECT count(*) FROM job WHERE crashes > 0 OR attempts > 1"), ==, 0);
    check_int(count_events("job.recovered"), ==, 0);
    check_int(count_events("worker.died"), ==, 0);
    check_int(count_events("job.completed"), >=, HOLDERS + FREEZES);
    check_str(sql_rows("SELECT id FROM job WHERE queue = '" PLAIN_QUEUE "' AND state <> 4"), "");
    verdict_acked_are_there();
    verdict_record_is_whole();
}
