/*
 * An SQLite handle in the child of a fork.
 *
 * Our own descriptors, with the kernel's locks on them, are closed at once. SQLite's connections
 * are another matter: SQLite keeps a table of the locks that its process holds, per file, and the
 * child inherits the table but not the locks. A connection opened on the same file would believe
 * that it is locked already. So before a child opens anything, the inherited connections are closed
 * (sqlite_fork_settle), which ends the entries in the table. That is harmless to the parent as long
 * as none of them was in use at the moment of the fork: no transaction is open that would be rolled
 * back in the parent's shared memory, and no thread that is not there any more holds a mutex of
 * SQLite's. If one was in use, or a thread was opening or closing a store, no store is opened in
 * this process, whatever its file: that thread may have held a mutex that all of SQLite shares.
 *
 * Invariant: in a child, no statement is ever run on an inherited connection.
 */
#include "store/sqlite_db.h"

#include <stdlib.h>
#include <tend.h>

static struct {
    pthread_mutex_t mutex;
    struct sqlite_db *first; /* inherited and not settled, by `inherited` */
    bool busy;               /* one of them was in use when the process was forked */
} left = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void sqlite_fork_before(struct db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    pthread_mutex_lock(&db->mutex);
    pthread_mutex_lock(&db->waiter.mutex);
}

void sqlite_fork_parent(struct db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    pthread_mutex_unlock(&db->waiter.mutex);
    pthread_mutex_unlock(&db->mutex);
}

void sqlite_fork_child(struct db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    sqlite_fork_parent(base);
    bool busy = db->leading || db->first != NULL || db->reading > 0;
    neighbour_after_fork(&db->neighbour);
    waiter_after_fork(&db->waiter);
    sqlite_files_close_fds(&db->files);
    db->turnstile.fd = -1;
    /* Of a grandchild, nothing new: it was forked from a process in which the handle was dead. */
    if (!db->is_inherited) {
        db->is_inherited = true;
        left.busy |= busy;
        db->inherited = left.first;
        left.first = db;
    }
}

/* Under the mutex. */
static void settle(struct sqlite_db *db)
{
    struct sqlite_db **at = &left.first;
    while (*at != NULL && *at != db)
        at = &(*at)->inherited;
    if (*at == NULL)
        return;
    *at = db->inherited;
    if (!left.busy)
        sqlite_db_close_connections(db);
}

static int say_refused(const char *path, const char *did, struct err *err)
{
    return err_set(err, TEND_ESTATE,
                   "%s cannot be opened in this process: it was forked while another thread %s; "
                   "fork when no call is under way, or exec first",
                   path, did);
}

int sqlite_fork_settle(const char *path, struct err *err)
{
    if (forks_cut_short())
        return say_refused(path, "opened or closed a store", err);
    pthread_mutex_lock(&left.mutex);
    while (left.first != NULL)
        settle(left.first);
    bool busy = left.busy;
    pthread_mutex_unlock(&left.mutex);
    return busy ? say_refused(path, "used a store", err) : 0;
}

/* Memory only; mutexes and threads are as fork left them, and go with the memory. */
void sqlite_fork_close(struct db *base)
{
    struct sqlite_db *db = (struct sqlite_db *)base;
    if (!forks_cut_short()) {
        pthread_mutex_lock(&left.mutex);
        settle(db);
        pthread_mutex_unlock(&left.mutex);
    }
    sqlite_files_close(&db->files);
    free(db->waiter.processes);
    free(db->own_workers);
    free(db->path);
    free(db);
}
