/* A tree at the worker: the command on its way out, the events on their way in. See tree.h. */
#include "run/tree.h"

#include "base/err.h"
#include "run/tree_mark.h"
#include "run/tree_pool.h"
#include "run/tree_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tend.h>
#include <unistd.h>

enum { TAKES = 3, SWEEP_MS = 5000 };

void tree_spec_init(struct tree_spec *spec)
{
    *spec = (struct tree_spec){.fds = {-1, -1, -1}, .deadline_mono_ms = INT64_MAX};
}

/* --- starting --- */

static int check_spec(const struct tree_spec *spec, struct err *err)
{
    if (!spec->argv || !spec->argv[0] || !*spec->argv[0])
        return err_set(err, TEND_EINVAL, "there is no command to start");
    if (!spec->env)
        return err_set(err, TEND_EINVAL, "there is no environment to start the command in");
    if (spec->limit_count > TREE_LIMITS)
        return err_set(err, TEND_EINVAL, "%zu limits were given, %d are possible",
                       spec->limit_count, TREE_LIMITS);
    if (spec->leftover_grace_ms < 0)
        return err_set(err, TEND_EINVAL, "a grace of %lld ms is not possible",
                       (long long)spec->leftover_grace_ms);
    if (spec->marker && (!*spec->marker || strlen(spec->marker) > TREE_MARKER_BYTES))
        return err_set(err, TEND_EINVAL, "the marker of an attempt must have 1 to %d bytes",
                       TREE_MARKER_BYTES);
    return 0;
}

static void put_string(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text) + 1);
}

/* Everything that is text, as split_body of the minder reads it. */
static int write_body(const struct tree_spec *spec, struct wire_spawn *spawn, struct buf *body,
                      struct err *err)
{
    static const char marker_name[] = TREE_MARKER_NAME "=";
    buf_clear(body);
    put_string(body, spec->cwd ? spec->cwd : "");
    for (const char *const *arg = spec->argv; *arg; arg++, spawn->argc++)
        put_string(body, *arg);
    for (const char *const *variable = spec->env; *variable; variable++) {
        if (spec->marker && strncmp(*variable, marker_name, sizeof marker_name - 1) == 0)
            continue;
        put_string(body, *variable);
        spawn->envc++;
    }
    if (spec->marker) {
        buf_puts(body, marker_name);
        put_string(body, spec->marker);
        spawn->envc++;
    }
    if (body->failed)
        return err_set(err, TEND_ENOMEM, "out of memory");
    if (body->len > WIRE_BODY_BYTES)
        return err_set(err, TEND_EINVAL,
                       "arguments and environment of '%s' take %zu bytes, which no kernel takes",
                       spec->argv[0], body->len);
    spawn->body_bytes = (uint32_t)body->len;
    return 0;
}

/* A descriptor on a file in memory, or a negative errno. */
static int write_file(const struct buf *body)
{
    int fd = memfd_create("tend-command", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < body->len;) {
        ssize_t wrote = write(fd, body->data + done, body->len - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0) {
            int failed = errno;
            close(fd);
            return -failed;
        }
        done += (size_t)wrote;
    }
    return fd;
}

static struct wire_spawn spawn_of(const struct tree_spec *spec)
{
    struct wire_spawn spawn = {
        .type = WIRE_SPAWN,
        .nice = spec->nice,
        .limit_count = (uint32_t)spec->limit_count,
        .deadline_ms = spec->deadline_mono_ms,
        .leftover_grace_ms = spec->leftover_grace_ms,
        .mark = spec->marker ? tree_mark_make(spec->marker) : 0,
    };
    memcpy(spawn.limits, spec->limits, spec->limit_count * sizeof *spec->limits);
    return spawn;
}

/* To a minder that takes it; NULL with *ret_code and err set. */
static struct tree *send_spawn(struct tree_pool *pool, const struct tree_spec *spec,
                               struct wire_spawn *spawn, int *ret_code, struct err *err)
{
    const struct buf *body = &pool->body;
    int fds[WIRE_FDS];
    size_t fd_count = 0;
    int file = -1;
    for (int i = 0; i < 3; i++) {
        if (spec->fds[i] < 0)
            continue;
        spawn->given_fds |= 1u << i;
        fds[fd_count++] = spec->fds[i];
    }
    if (body->len > WIRE_INLINE_BYTES) {
        if ((file = write_file(body)) < 0) {
            *ret_code = err_set(err, TEND_EIO, "cannot hand '%s' over to be started: %s",
                                spec->argv[0], strerror(-file));
            return NULL;
        }
        spawn->body_in_file = 1;
        fds[fd_count++] = file;
    }
    struct tree *tree = NULL;
    for (int takes = 1; !tree && (*ret_code = pool_take(pool, &tree, err)) == 0; takes++) {
        int r = wire_send(tree->fd, spawn, sizeof *spawn, file < 0 ? body->data : NULL, body->len,
                          fds, fd_count);
        if (r == 0)
            break;
        pool_discard(tree);
        tree = NULL;
        if (r == -EPIPE && takes < TAKES) /* it was killed just now */
            continue;
        *ret_code = err_set(err, TEND_EIO, "cannot hand '%s' over to be started: %s", spec->argv[0],
                            strerror(-r));
        break;
    }
    if (file >= 0)
        close(file);
    return tree;
}

int tree_spawn(struct tree_pool *pool, const struct tree_spec *spec, struct tree **ret_tree,
               struct err *err)
{
    int r = check_spec(spec, err);
    if (r < 0)
        return r;
    struct wire_spawn spawn = spawn_of(spec);
    char *marker = NULL;
    if ((r = write_body(spec, &spawn, &pool->body, err)) < 0)
        return r;
    if (pool_check_nursery(pool, err) < 0)
        return err->code = TEND_EIO; /* whatever it is, it is not the spec */
    if (spec->marker && !(marker = strdup(spec->marker)))
        return err_set(err, TEND_ENOMEM, "out of memory");
    struct tree *tree = send_spawn(pool, spec, &spawn, &r, err);
    if (!tree) {
        free(marker);
        return r;
    }
    free(tree->marker);
    tree->marker = marker;
    tree->pid = tree->start_ticks = 0;
    tree->begun = false;
    tree->busy = true;
    tree->ended = false;
    *ret_tree = tree;
    return 0;
}

/* --- events --- */

int tree_fd(const struct tree *tree)
{
    return tree->fd;
}

/* The minder is gone, and no nursery has cleaned up after it: it was killed too. */
static void sweep_own(struct tree *tree, struct tree_event *event)
{
    struct tree_record record = {.marker = tree->marker};
    size_t killed = 0;
    if (tree->pid > 0 && proc_self(&record.id) == 0) { /* same boot, same namespace */
        record.id.pid = tree->pid;
        record.id.start_ticks = tree->start_ticks;
    }
    event->alive = tree_sweep(&record, 1, SWEEP_MS, &killed, NULL) == 0 ? 0 : 1;
    event->left = (unsigned)killed;
    event->forced = true;
}

static const enum tree_event_kind kinds[] = {
    [WIRE_STARTED] = TREE_STARTED,
    [WIRE_NOT_STARTED] = TREE_NOT_STARTED,
    [WIRE_EXITED] = TREE_EXITED,
    [WIRE_GONE] = TREE_LOST,
};

static void read_answer(struct tree *tree, const struct wire_answer *answer,
                        struct tree_event *event)
{
    *event = (struct tree_event){
        .kind = kinds[answer->type],
        .fault = (enum tree_fault)answer->fault,
        .err_number = answer->err_number,
        .wait_status = answer->wait_status,
        .stopped = answer->stopped,
        .deadline_passed = answer->deadline_passed,
        .forced = answer->forced,
        .oom_kills = (enum oom_kills)answer->oom_kills,
        .left = answer->left,
        .alive = answer->alive,
        .user_us = answer->user_us,
        .system_us = answer->system_us,
        .max_rss_bytes = answer->max_rss_bytes,
    };
    memcpy(event->text, answer->text, sizeof event->text);
    event->text[sizeof event->text - 1] = '\0';
    if (event->kind == TREE_STARTED) {
        tree->pid = answer->pid;
        tree->start_ticks = answer->start_ticks;
        return;
    }
    tree->ended = true;
    tree->broken = event->kind == TREE_LOST || event->alive > 0;
}

int tree_read(struct tree *tree, struct tree_event *ret_event)
{
    struct wire_answer answer = {0};
    struct tree_event event = {.kind = TREE_NOTHING};
    ssize_t got = -EAGAIN;
    if (!tree->ended)
        got = wire_receive(tree->fd, &answer, sizeof answer, NULL, NULL);
    if (got == (ssize_t)sizeof answer && answer.type == WIRE_BEGINS) {
        tree->begun = true;
        return tree_read(tree, ret_event);
    }
    if (got == 0) {
        tree->ended = tree->broken = true;
        event.kind = TREE_LOST;
        sweep_own(tree, &event);
    } else if (got == (ssize_t)sizeof answer && answer.type < sizeof kinds / sizeof *kinds &&
               kinds[answer.type] != TREE_NOTHING) {
        read_answer(tree, &answer, &event);
    } else if (got != -EAGAIN) {
        return TEND_EIO;
    }
    event.pid = tree->pid;
    event.start_ticks = tree->start_ticks;
    event.begun = tree->begun;
    *ret_event = event;
    return 0;
}

/* --- orders --- */

static void send_order(const struct tree *tree, enum wire_type type, int64_t time_ms)
{
    struct wire_order order = {.type = type, .time_ms = time_ms};
    /* Where it does not arrive the minder is gone, and the next event says so. */
    if (tree->ended)
        return;
    wire_send(tree->fd, &order, sizeof order, NULL, 0, NULL, 0);
    pool_wake(tree->pool);
}

void tree_stop(struct tree *tree, int64_t grace_ms)
{
    send_order(tree, WIRE_STOP, grace_ms);
}

void tree_keep(struct tree *tree, int64_t deadline_mono_ms)
{
    send_order(tree, WIRE_KEEP, deadline_mono_ms);
}

void tree_free(struct tree *tree)
{
    if (!tree)
        return;
    if (tree->ended && !tree->broken)
        pool_give_back(tree);
    else
        pool_discard(tree);
}
