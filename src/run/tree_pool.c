/* The nursery's end at the worker, and its minders while they are idle. See tree.h. */
#include "run/tree_pool.h"

#include "base/clock.h"
#include "base/err.h"
#include "run/tree_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

enum { HELLO_MS = 30000, CLOSE_MS = 30000 };

static bool wait_readable(int fd, int64_t until_ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t left_ms = until_ms - clock_mono_ms();
        int r = poll(&ready, 1, left_ms > 0 ? (int)left_ms : 0);
        if (r > 0 || (r == 0 && left_ms <= 0))
            return r > 0;
        if (r < 0 && errno != EINTR)
            return false;
    }
}

/* --- the nursery --- */

/* All signals blocked and at their default, a group of its own, the socket and nothing else. */
static int spawn_helper(const struct tree_pool *pool, int socket, pid_t *ret_pid)
{
    char *argv[] = {"tend", "__exec", WIRE_PROTOCOL, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    if ((failed = posix_spawnattr_init(&attributes)) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return failed;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    failed = posix_spawn_file_actions_adddup2(&files, socket, WIRE_NURSERY_FD);
    for (int fd = 0; fd < 3 && !failed; fd++)
        failed = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    if (!failed)
        failed = posix_spawn(ret_pid, pool->helper, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

/* Waits for its end. By pidfd: the program around us may have waited for it already. */
static void forget_nursery(struct tree_pool *pool, int64_t patience_ms)
{
    if (pool->nursery_fd < 0)
        return;
    close(pool->nursery_fd);
    pool->nursery_fd = -1;
    if (pool->nursery_pidfd >= 0) {
        siginfo_t info;
        if (!wait_readable(pool->nursery_pidfd, clock_mono_ms() + patience_ms))
            syscall(SYS_pidfd_send_signal, pool->nursery_pidfd, SIGKILL, NULL, 0u);
        while (waitid(P_PIDFD, (id_t)pool->nursery_pidfd, &info, WEXITED) < 0 && errno == EINTR)
            continue;
        close(pool->nursery_pidfd);
    }
    pool->nursery_pidfd = -1;
    pool->nursery_pid = 0;
}

static int start_nursery(struct tree_pool *pool, struct err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(err, TEND_EIO, "cannot start a helper for steps: %s", strerror(errno));
    pid_t pid = 0;
    int failed = spawn_helper(pool, pair[1], &pid);
    pool->nursery_pid = failed ? 0 : pid;
    close(pair[1]);
    if (failed) {
        close(pair[0]);
        int code = failed == ENOENT || failed == EACCES ? TEND_ENOTFOUND : TEND_EIO;
        return err_set(err, code, "cannot start the helper for steps, %s: %s", pool->helper,
                       strerror(failed));
    }
    pool->nursery_fd = pair[0];
    pool->nursery_pidfd = proc_pidfd(pool->nursery_pid);
    struct wire_order hello = {0};
    if (wait_readable(pair[0], clock_mono_ms() + HELLO_MS) &&
        wire_receive(pair[0], &hello, sizeof hello, NULL, NULL) == (ssize_t)sizeof hello &&
        hello.type == WIRE_HELLO)
        return 0;
    forget_nursery(pool, 0);
    return err_set(err, TEND_EINVAL,
                   "%s gave no answer as the helper for steps; it must be the tend binary of "
                   "this version (%s)",
                   pool->helper, TEND_VERSION);
}

int pool_check_nursery(struct tree_pool *pool, struct err *err)
{
    char byte = 0;
    if (pool->nursery_fd >= 0 &&
        wire_receive(pool->nursery_fd, &byte, sizeof byte, NULL, NULL) == -EAGAIN)
        return 0;
    forget_nursery(pool, CLOSE_MS);
    /* Those have nobody behind them who would clean up after them. */
    while (pool->idle) {
        struct tree *tree = pool->idle;
        pool->idle = tree->next_idle;
        pool_discard(tree);
    }
    return start_nursery(pool, err);
}

/* --- minders --- */

void pool_wake(const struct tree_pool *pool)
{
    pid_t nursery = pool->nursery_pid;
    char path[64];
    long minder;
    if (nursery <= 0)
        return;
    kill(nursery, SIGCONT);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)nursery, (int)nursery);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%ld", &minder) == 1)
        kill((pid_t)minder, SIGCONT);
    if (children)
        fclose(children);
}

static int hatch(struct tree_pool *pool, struct tree **ret_tree, struct err *err)
{
    struct tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return err_set(err, TEND_ENOMEM, "out of memory");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        free(tree);
        return err_set(err, TEND_EIO, "cannot start another process tree: %s", strerror(errno));
    }
    struct wire_order order = {.type = WIRE_HATCH};
    int r = wire_send(pool->nursery_fd, &order, sizeof order, NULL, 0, &pair[1], 1);
    close(pair[1]);
    if (r < 0) {
        close(pair[0]);
        free(tree);
        return err_set(err, TEND_EIO, "cannot start another process tree: %s", strerror(-r));
    }
    tree->pool = pool;
    tree->fd = pair[0];
    tree->next = pool->all;
    if (pool->all)
        pool->all->previous = tree;
    pool->all = tree;
    pool->count++;
    *ret_tree = tree;
    return 0;
}

int pool_take(struct tree_pool *pool, struct tree **ret_tree, struct err *err)
{
    char byte = 0;
    while (pool->idle) {
        struct tree *tree = pool->idle;
        pool->idle = tree->next_idle;
        if (wire_receive(tree->fd, &byte, sizeof byte, NULL, NULL) == -EAGAIN) {
            *ret_tree = tree;
            return 0;
        }
        pool_discard(tree); /* it was killed meanwhile */
    }
    return hatch(pool, ret_tree, err);
}

void pool_give_back(struct tree *tree)
{
    tree->busy = false;
    tree->next_idle = tree->pool->idle;
    tree->pool->idle = tree;
}

void pool_discard(struct tree *tree)
{
    struct tree_pool *pool = tree->pool;
    if (tree->previous)
        tree->previous->next = tree->next;
    else
        pool->all = tree->next;
    if (tree->next)
        tree->next->previous = tree->previous;
    pool->count--;
    close(tree->fd);
    free(tree->marker);
    free(tree);
}

size_t tree_pool_minders(const struct tree_pool *pool)
{
    return pool->count;
}

int64_t tree_pool_nursery_pid(const struct tree_pool *pool)
{
    return pool->nursery_pid;
}

/* --- the pool --- */

int tree_pool_open(struct tree_pool **ret_pool, const char *helper_path, struct err *err)
{
    struct tree_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return err_set(err, TEND_ENOMEM, "out of memory");
    buf_init(&pool->body);
    pool->nursery_fd = pool->nursery_pidfd = -1;
    pool->helper = strdup(helper_path ? helper_path : "/proc/self/exe");
    int r = pool->helper ? start_nursery(pool, err) : err_set(err, TEND_ENOMEM, "out of memory");
    if (r < 0) {
        tree_pool_close(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

/* Its minder lets go of the socket when everything below it is gone. */
static void wait_for_end(const struct tree *tree, int64_t until_ms)
{
    struct wire_answer ignored = {0};
    while (wait_readable(tree->fd, until_ms) &&
           wire_receive(tree->fd, &ignored, sizeof ignored, NULL, NULL) != 0)
        continue;
}

void tree_pool_close(struct tree_pool *pool)
{
    if (!pool)
        return;
    int64_t until_ms = clock_mono_ms() + CLOSE_MS;
    pool_wake(pool);
    for (struct tree *tree = pool->all; tree; tree = tree->next)
        shutdown(tree->fd, SHUT_WR);
    /* The nursery waits for its minders, but some may be older than it. */
    for (struct tree *tree = pool->all; tree; tree = tree->next)
        wait_for_end(tree, until_ms);
    for (struct tree *tree = pool->all, *next; tree; tree = next) {
        next = tree->next;
        pool_discard(tree);
    }
    forget_nursery(pool, CLOSE_MS);
    buf_done(&pool->body);
    free(pool->helper);
    free(pool);
}
