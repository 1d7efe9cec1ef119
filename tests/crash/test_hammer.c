/*
 * Several processes on one SQLite file (CL-5): nobody ever sees "locked", everybody gets a fair
 * share, and one that is stopped while it holds the write lock makes others wait, not fail.
 */
#include "crowd.h"
#include "ledger.h"
#include "verdict.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 8, HAMMER_MS = 3000, FRESH_STORES = 40 };

/* --- fairness --- */

static void make_file(const char *name)
{
    int fd = open(test_path(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    check_int(fd, >=, 0);
    close(fd);
}

struct score {
    size_t rounds;
    int64_t longest_us;
};

static struct score score_of(const struct ledger_entry *entries, size_t count, pid_t pid)
{
    struct score score = {0};
    for (size_t i = 0; i < count; i++) {
        if (entries[i].pid != pid)
            continue;
        score.rounds++;
        if (entries[i].took_us > score.longest_us)
            score.longest_us = entries[i].took_us;
    }
    return score;
}

TEST(hammer, CL_5_eight_processes_commit_one_by_one_and_none_is_refused_or_left_behind)
{
    static const struct crowd_fate peace = {0};
    struct crowd crowd;
    pid_t pids[PROCESSES];
    size_t count;
    int ready = ledger_open(test_folder(), "ready");
    crowd_init(&crowd, store_url());
    crowd_add(&crowd, "hammer", PROCESSES);
    for (size_t i = 0; i < PROCESSES; i++)
        pids[i] = crowd.members[i].pid;
    wait_until(ledger_count(ready) == PROCESSES, PATIENCE_MS);
    make_file("go");
    crowd_live(&crowd, &peace, HAMMER_MS); /* one that is refused ends, and fails the test */
    struct ledger_entry *acked = ledger_read(test_folder(), "acked", &count);
    check(acked != NULL);
    for (size_t i = 0; i < PROCESSES; i++) {
        struct score score = score_of(acked, count, pids[i]);
        printf("# process %zu: %zu of %zu rounds of three commits, the longest %lld us\n", i + 1,
               score.rounds, count, (long long)score.longest_us);
        check_int(score.rounds * 3, >=, count / PROCESSES);
    }
    free(acked);
    crowd_leave(&crowd, NULL);
    close(ready);
    tend *t = store_open_real("judge");
    verdict_acked_are_there();
    verdict_record_is_whole();
    verdict_nothing_is_held(t);
    verdict_store_is_sound(t);
}

/* --- a store that is not there yet --- */

static void open_and_add(struct helper *parent, void *arg)
{
    tend *t;
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    helper_hear(parent);
    int rc = tend_open(&t, keep_text("sqlite:%s", (const char *)arg), NULL);
    if (rc == 0)
        rc = tend_add(t, &spec, &added);
    if (rc != 0)
        printf("%s\n", tend_errmsg(t));
    helper_say(parent, rc);
    tend_close(t);
}

TEST(hammer, CL_5_eight_processes_make_one_new_store_at_the_same_moment)
{
    for (int round = 0; round < FRESH_STORES; round++) {
        struct helper helpers[PROCESSES];
        struct tend_stats *stats;
        tend *t;
        char *path = keep_text("%s", test_path(keep_text("fresh-%d.db", round)));
        for (size_t i = 0; i < PROCESSES; i++)
            helpers[i] = helper_start(open_and_add, path);
        for (size_t i = 0; i < PROCESSES; i++)
            helper_say(&helpers[i], 0);
        for (size_t i = 0; i < PROCESSES; i++)
            check_int(helper_hear(&helpers[i]), ==, 0);
        for (size_t i = 0; i < PROCESSES; i++)
            helper_join(&helpers[i]);
        check_int(tend_open(&t, keep_text("sqlite:%s", path), NULL), ==, 0);
        check_ok(t, tend_stats(t, &stats));
        check_int(stats->items[0].jobs[TEND_PENDING], ==, PROCESSES);
        tend_stats_free(stats);
        tend_close(t);
    }
}

/* --- a holder of the write lock that is stopped --- */

/* The engine asks for the time when it has the write lock and has begun. */
static int64_t stop_at_the_clock(void *armed)
{
    struct timespec now;
    if (*(bool *)armed) {
        *(bool *)armed = false;
        raise(SIGSTOP);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void stop_with_the_lock(struct helper *parent, void *arg)
{
    (void)arg;
    bool armed = false;
    struct tend_options options = store_options("stopped");
    options.clock_ms = stop_at_the_clock;
    options.clock_arg = &armed;
    tend *t = store_open_with(&options);
    armed = true;
    int64_t id = add_one(t, "q");
    helper_say(parent, id);
    store_close(t);
}

static struct helper start_stopped_holder(void)
{
    struct helper holder = helper_start(stop_with_the_lock, NULL);
    int status;
    check_int(waitpid(holder.pid, &status, WUNTRACED), ==, holder.pid);
    check(WIFSTOPPED(status));
    return holder;
}

static void add_behind_it(struct helper *parent, void *arg)
{
    (void)arg;
    tend *t = store_open_real("waiting");
    helper_say(parent, 0);
    helper_say(parent, add_one(t, "q"));
    store_close(t);
}

/* How many wait for a lock on the file, as the kernel tells it. */
static int waiting_for(const char *path)
{
    struct stat status;
    char line[256];
    int waiting = 0;
    check_int(stat(path, &status), ==, 0);
    const char *inode = keep_text(":%lu ", (unsigned long)status.st_ino);
    FILE *locks = fopen("/proc/locks", "re");
    check(locks != NULL);
    while (fgets(line, sizeof line, locks) != NULL)
        waiting += strstr(line, "->") != NULL && strstr(line, inode) != NULL;
    fclose(locks);
    return waiting;
}

TEST(hammer, a_process_stopped_with_the_write_lock_makes_others_wait_and_go_on_when_it_does)
{
    enum { BEHIND = 3 };
    struct helper behind[BEHIND];
    struct helper holder = start_stopped_holder();
    const char *lock_path = keep_text("%s-lock", store_path());
    for (int i = 0; i < BEHIND; i++) {
        behind[i] = helper_start(add_behind_it, NULL);
        helper_hear(&behind[i]);
    }
    wait_until(waiting_for(lock_path) == BEHIND, PATIENCE_MS);
    tend *t = store_open_real("reader"); /* reading and opening go on meanwhile */
    struct tend_stats *stats;
    check_ok(t, tend_stats(t, &stats));
    check_int(stats->count, ==, 0);
    tend_stats_free(stats);
    /* They still wait. (The kernel may name one twice: its list is read in pieces, while it
     * changes.)
     */
    wait_until(waiting_for(lock_path) == BEHIND, PATIENCE_MS);
    kill(holder.pid, SIGCONT);
    check_int(helper_hear(&holder), >, 0);
    helper_join(&holder);
    for (int i = 0; i < BEHIND; i++) {
        check_int(helper_hear(&behind[i]), >, 0);
        helper_join(&behind[i]);
    }
    check_int(sql_int("SELECT count(*) FROM job"), ==, BEHIND + 1);
}

TEST(hammer, a_process_killed_with_the_write_lock_leaves_nothing_behind)
{
    struct helper holder = start_stopped_holder();
    struct helper behind = helper_start(add_behind_it, NULL);
    helper_hear(&behind);
    wait_until(waiting_for(keep_text("%s-lock", store_path())) == 1, PATIENCE_MS);
    helper_kill(&holder);
    check_int(helper_hear(&behind), >, 0);
    helper_join(&behind);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
    verdict_record_is_whole();
    verdict_store_is_sound(store_open_real("judge"));
}

static void tick(int signal_number)
{
    (void)signal_number;
}

/*
 * A program's own signals, which interrupt and do not restart, must neither shorten the wait nor
 * prolong it.
 */
static void tick_every_20_ms(bool on)
{
    const struct sigaction action = {.sa_handler = tick};
    const struct itimerval often = {.it_interval = {.tv_usec = 20000},
                                    .it_value = {.tv_usec = 20000}};
    const struct itimerval never = {0};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, on ? &often : &never, NULL);
}

static void check_refused(tend *t, const struct helper *holder, int64_t busy_ms)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    long long asked_ms = test_clock_ms();
    check_rc(t, tend_add(t, &spec, &added), TEND_EBUSY);
    check_int(test_clock_ms() - asked_ms, >=, busy_ms);
    check_contains(tend_errmsg(t), keep_text("process %d ", (int)holder->pid));
    check_contains(tend_errmsg(t), keep_text("kill -CONT %d", (int)holder->pid));
}

TEST(hammer, whoever_does_not_want_to_wait_is_told_who_holds_the_lock_and_can_go_on_later)
{
    struct helper holder = start_stopped_holder();
    struct tend_options options = store_options("hurried");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    options.clock_ms = NULL;
    options.busy_ms = 100;
    tend *t = store_open_with(&options);
    check_refused(t, &holder, options.busy_ms);
    tick_every_20_ms(true);
    check_refused(t, &holder, options.busy_ms);
    check_refused(t, &holder, options.busy_ms);
    kill(holder.pid, SIGCONT);
    wait_until(tend_add(t, &spec, &added) == 0, PATIENCE_MS); /* the same handle, ticking on */
    tick_every_20_ms(false);
    check_int(helper_hear(&holder), >, 0);
    wait_until(tend_add(t, &spec, &added) == 0, PATIENCE_MS);
    helper_join(&holder);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 3);
}
