/*
 * Which store a command works on.
 *
 * Named: by --store, else by TEND_STORE. A URL, or the path of an SQLite file: one that begins with
 * /, ./ or ../; or one without the marks of a URL (: = @ ?) that has a / in it, has a usual ending
 * (.db, .sqlite, .sqlite3), or is that of a file that exists. Anything else is the engine's to
 * refuse, so that a mistyped URL makes no file.
 *
 * Else found, as git finds a repository: the nearest .tend/tend.db in the current folder or one
 * above it. The search ends at the root, at $HOME and at the boundary of the file system.
 *
 * Invariant: nobody works on a store that another user has put in the way. A store runs commands
 * and learns what is added. So folder, file, and what they are links to must belong to the caller
 * or to root; for root also to the user who called sudo. A store that is named is not asked for its
 * owner.
 */
#ifndef CLI_STORE_PLACE_H
#define CLI_STORE_PLACE_H

#include <limits.h>
#include <stdbool.h>

enum store_how {
    STORE_NAMED,
    STORE_FOUND,
    STORE_FOREIGN, /* found, and not the caller's: not to be opened */
    STORE_MISSING, /* there is none; the place is in the current folder */
};

struct store_place {
    enum store_how how;
    const char *url;      /* for tend_open */
    char path[PATH_MAX];  /* of the SQLite file; absolute where it lies above; "" for a server */
    char above[PATH_MAX]; /* after store_place_stay: the store that would be found, or "" */
    char run_folder[PATH_MAX]; /* see store_place_run_folder */
    char owner[64];            /* STORE_FOREIGN: whose it is */
};

/* Looked for once; the answer stays. */
const struct store_place *store_place(void);
/* From now on the place is in the current folder, unless a store is named. */
void store_place_stay(void);

/* The folder .tend in which the file of the store lies; false: it lies in another folder, or is no
 * file. */
bool store_place_own_folder(const struct store_place *place, char ret[PATH_MAX]);

/* The run folder of a store that lives in a folder .tend: the one beside it; else NULL. */
const char *store_place_run_folder(void);

#endif
