/*
 * Where an SQLite store is. The path is resolved once, when the store is opened: absolute, without
 * symlinks. Everything that belongs to the store is found by this path from then on: SQLite's
 * connections, also those opened later, its log and index, and tend's own files (sqlite_files.h).
 * So it does not matter by which symlink a process came to the store, nor where it goes afterwards.
 *
 * A hard link, or a mount of the file alone, is a second path that cannot be resolved: by it a
 * process would have a log and locks of its own, and acknowledged writes would be lost. So a file
 * with a second name is not opened as a store. One that is open already when it gets a second name
 * stays open: whoever comes by that name is the one who is refused.
 *
 * tend may run as root on the store of a user, who can put anything into its folder. Hence nothing
 * is made through a symlink, and what is beside the store must be plain files.
 */
#ifndef STORE_SQLITE_PATH_H
#define STORE_SQLITE_PATH_H

#include "base/err.h"

#include <stdbool.h>

/*
 * The resolved path of the store; free it. The file is there then, made if need be and readable and
 * writable for its owner alone. must_exist: TEND_ENOTFOUND instead of making it.
 */
int sqlite_path_find(const char *given, bool must_exist, char **ret_path, struct err *err);

/* TEND_EUNREACHABLE when the store may be reached by another name, too. Opens nothing: to close a
 * descriptor of the file would drop SQLite's locks. */
int sqlite_path_check_names(const char *path, struct err *err);

/* The sentence for a file of a store that cannot be made or opened; its code. did: "opened". */
int sqlite_path_fail(const char *name, const char *did, int failed, struct err *err);

/* The sentence for a file that tend leaves alone. why: "is a symlink". */
int sqlite_path_refuse(const char *name, const char *why, struct err *err);

#endif
