/*
 * The files beside an SQLite store, and the kernel locks on them:
 *
 *     PATH-lock     the turnstile at which writers of all processes stand in line (turnstile.c),
 *                   the clock page (sqlite_clock.c), and when the log is looked after
 * (sqlite_wal.c) PATH-bell     written after a commit that others should look at; waiters watch it
 * by inotify PATH-workers  byte n is locked for as long as worker n lives; a read lock on it is
 * waited for by who watches that worker (neighbour.c)
 *
 * PATH is resolved (sqlite_path.h), so that all processes that have a store open share one set.
 *
 * All locks are open-file-description locks, which the kernel drops when the last copy of the
 * descriptor goes: with the process, however it ends. Descriptors are close-on-exec and closed in
 * the child of a fork, so that no child keeps a copy.
 *
 * Whose files they are: the folder may be writable for others than the one who opens the store, and
 * root may open the store of a user. So no symlink is followed, and what is there already must be a
 * regular file with one name that belongs to the owner of the store, to root or to the one who
 * opens it; otherwise the store is not opened. Mode and owner are set only on a file that this call
 * has made.
 *
 * The files of a store belong together. When the store is deleted or replaced while it is open, a
 * commit would go into a file that nobody finds again; when one of its companions is, processes no
 * longer wait for each other, are not woken, or take the living for dead. Nothing of that can be
 * mended by one process alone, so it is noticed, once and for all: every further call on the handle
 * fails with TEND_EUNREACHABLE, and the store must be opened again. All are compared by device and
 * inode with what their names lead to, as a file that was renamed is out of place too: the store
 * after each commit, before anybody is answered, and after each read; the index of SQLite's log at
 * the start of each turn, because who has another one does not see the end of the log, and would
 * write over what others have acknowledged; the log itself and the others at the start of a turn
 * every BESIDE_CHECK_MS, as more calls would make each commit slower (a look at the log makes the
 * next sync of it a fifth slower). So a commit may still go into a file that was renamed
 * a moment before; whoever made it is told that, and not that nothing was saved. The companions are
 * always looked at before a free liveness lock is believed.
 *
 * A process that opens the store when one of the companions is missing or new would be alone with
 * it: it would not wait for the writers that have the old one, and take living workers for dead. So
 * whoever has the store open holds a read lock on one byte of each companion, and who opens it is
 * refused when others are present at some of the files and not at all. Where all three were taken
 * away at once, nothing is left by which the others could be seen; they notice it themselves.
 */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "base/err.h"
#include "store/db.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BESIDE_CHECK_MS = 100 };

/* How often the bell is looked at by processes that inotify does not wake. */
enum { BELL_TICK_MS = 50 };

/* Which byte of PATH-lock all who have the store open lock for reading; the first two are the
 * turnstile's. */
enum { LOCK_FILE_PRESENT = 2 };

/* Where in PATH-lock the schedule of checkpoints is; the turnstile's notes are before it. */
enum { LOCK_FILE_CHECKPOINT_AT = 512 };

struct sqlite_files {
    const char *path; /* of the store; the caller's, and outlives this */
    dev_t device;     /* of the store's file */
    ino_t inode;
    /* -wal and -shm, to be looked at alone (O_PATH): closing these drops no lock of SQLite's. -1:
     * not known yet. */
    int log_fd, index_fd;
    const char *gone; /* atomic: which was deleted or replaced: "" the store, "-lock"; NULL: none */

    int64_t beside_next_ms; /* monotonic: when the companions are looked at again; in a turn only */

    int lock_fd; /* for the turnstile */
    int bell_fd, workers_fd;
    int bell_watch_fd;  /* inotify; -1 until somebody waits */
    int bell_timer_fd;  /* a timer in its place, when there is no inotify to be had; or -1 */
    uint64_t bell_salt; /* of this handle; see sqlite_files_ring */
    uint64_t bells_read[DB_BELLS]; /* what the bells said when they were last looked at */
    char *lock_path, *workers_path, *bell_path, *log_path, *index_path;
};

void sqlite_files_init(struct sqlite_files *files, const char *path);
/* Remembers which file the store is. */
int sqlite_files_know_store(struct sqlite_files *files, struct err *err);
/* Remembers which files SQLite's log and its index are, once it has them open. */
int sqlite_files_know_log(struct sqlite_files *files, struct err *err);
/* They have the mode of the store's file, which is there already; made by root, its owner too. */
int sqlite_files_open(struct sqlite_files *files, struct err *err);
/* Whether PATH-lock is there, before it is opened. */
bool sqlite_files_has_lock(const struct sqlite_files *files);
void sqlite_files_close(struct sqlite_files *files);
void sqlite_files_close_fds(struct sqlite_files *files); /* in the child of a fork */

/* 0, or TEND_EUNREACHABLE: the store is no longer the file that was opened. One stat. */
int sqlite_files_check_store(struct sqlite_files *files, struct err *err);
/* The same after a commit: the sentence says where it went. */
int sqlite_files_check_saved(struct sqlite_files *files, struct err *err);
/* The same for the index of the log, and, if it is time to look, for the store and all that is
 * beside it. In the writers' turn, before anything is written. */
int sqlite_files_check_beside(struct sqlite_files *files, struct err *err);
/* Now, and by any thread. */
int sqlite_files_look_beside(struct sqlite_files *files, struct err *err);
bool sqlite_files_gone(const struct sqlite_files *files);

/*
 * The bells. PATH-bell has 8 bytes for each; who rings writes a number there that was not there
 * before. inotify tells that somebody rang, the numbers which bells those were: who waits for
 * others sleeps on without a look at the store. The file is read, not mapped: it may be truncated.
 * What is missing of it counts as 0.
 */
void sqlite_files_ring(struct sqlite_files *files, uint64_t bells);
int sqlite_files_watch_bell(struct sqlite_files *files, struct err *err);
/* When bell_watch_fd or bell_timer_fd is readable: which bells rang since they were last looked at.
 */
uint64_t sqlite_files_heard_bells(struct sqlite_files *files, int fd);

/* Without inotify: bell_timer_fd becomes readable every BELL_TICK_MS. False: no timer either. */
bool sqlite_files_time_bell(struct sqlite_files *files);
/* The timer fires once more, at once, so that no ring is missed, and then not again. */
void sqlite_files_untime_bell(struct sqlite_files *files);

/* TEND_EBUSY: somebody else holds the worker's lock. */
int sqlite_files_alive_begin(struct sqlite_files *files, int64_t worker_id, struct err *err);
void sqlite_files_alive_end(struct sqlite_files *files, int64_t worker_id);
/* Whether a descriptor other than this one holds the worker's lock. */
bool sqlite_files_is_alive(struct sqlite_files *files, int64_t worker_id);

#endif
