/*
 * CL-5: several processes hammer one SQLite file. Nobody is ever told that it is locked, and
 * everybody gets its share of the commits.
 */
#include "support/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 8, HAMMER_MS = 3000 };

/* In shared memory. */
struct score {
    int go;
    long commits[PROCESSES];
    long longest_ms[PROCESSES];
};

/* Add, claim, complete, one by one; each a commit of its own. */
static void hammer_once(tend *t, const char *queue)
{
    struct tend_lease lease;
    add_one(t, queue);
    lease = claim_one(t, queue);
    check_ok(t, tend_complete(t, &lease, 1, NULL, NULL));
}

static void hammer(struct score *score, int number)
{
    char queue[16];
    tend *t = store_open_real("hammer");
    snprintf(queue, sizeof queue, "q%d", number);
    while (__atomic_load_n(&score->go, __ATOMIC_ACQUIRE) == 0)
        test_pause();
    long long end_ms = test_clock_ms() + HAMMER_MS;
    for (long long now_ms = test_clock_ms(); now_ms < end_ms;) {
        hammer_once(t, queue);
        long long after_ms = test_clock_ms();
        score->commits[number] += 3;
        if (after_ms - now_ms > score->longest_ms[number])
            score->longest_ms[number] = (long)(after_ms - now_ms);
        now_ms = after_ms;
    }
    store_close(t);
}

TEST(hammer, eight_processes_never_see_locked_and_are_served_fairly)
{
    pid_t children[PROCESSES];
    long total = 0;
    int status;
    struct score *score =
        mmap(NULL, sizeof *score, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(score != MAP_FAILED);
    store_close(store_open_real("maker"));
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        check_int(children[i], >=, 0);
        if (children[i] == 0) {
            hammer(score, i);
            _exit(0);
        }
    }
    __atomic_store_n(&score->go, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < PROCESSES; i++) {
        check_int(waitpid(children[i], &status, 0), ==, children[i]);
        check_int(status, ==, 0);
        total += score->commits[i];
    }
    for (int i = 0; i < PROCESSES; i++) {
        printf("process %d: %ld commits, longest round %ld ms\n", i, score->commits[i],
               score->longest_ms[i]);
        check_int(score->commits[i] * 3, >=, total / PROCESSES);
    }
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 4") * 3, ==, total);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}
