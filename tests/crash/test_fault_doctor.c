/*
 * Doctor beside a disk that fails to read, at every single read in turn: the store is whole, and
 * nobody is told to put a backup in its place.
 */
#include "fault_vfs.h"
#include "support/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOLD = 10, NOT_REACHED }; /* how the process that looks ends */

static void keep_in_mind(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    bool *told = arg;
    (void)what;
    if (strstr(text, "the store is damaged") != NULL || strstr(text, "put a backup") != NULL)
        test_fail(__FILE__, __LINE__, "a read that fails is told as damage: %s", text);
    if (verdict == TEND_WRONG && strstr(text, "parts of the store could not be read") != NULL)
        *told = true;
}

static _Noreturn void look(const char *url, unsigned at)
{
    const struct fault_plan plan = {.kind = FAULT_READ, .at = at};
    bool told = false;
    tend *t;
    fault_vfs_install(&plan);
    int rc = tend_open(&t, url, NULL);
    if (rc == 0)
        rc = tend_doctor(t, keep_in_mind, &told);
    if (rc < 0)
        check_int(rc, ==, TEND_EIO);
    tend_close(t);
    exit(!fault_vfs_struck() ? NOT_REACHED : told ? TOLD : 0);
}

/* The row that the failed read left behind was taken for damage. */
TEST_WITHIN(fault, doctor_does_not_take_a_read_that_fails_for_damage, 300)
{
    const char *url = store_url();
    tend *t;
    check_int(tend_open(&t, url, NULL), ==, 0);
    for (int i = 0; i < 200; i++)
        add_one(t, "q");
    tend_close(t);
    sql_int("PRAGMA wal_checkpoint(TRUNCATE)");
    store_sql_close();
    int told = 0;
    for (unsigned at = 1;; at++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            look(url, at);
        check_int(waitpid(pid, &status, 0), ==, pid);
        check(WIFEXITED(status));
        if (WEXITSTATUS(status) == NOT_REACHED)
            break;
        check(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == TOLD);
        told += WEXITSTATUS(status) == TOLD;
    }
    check_int(told, >, 5);
}
