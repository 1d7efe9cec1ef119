/*
 * Walks through all that is in a folder, however deep.
 *
 * A step can nest folders as deep as the disk allows, also deeper than a path can say. So the walk
 * uses no paths, no recursion, and three descriptors at most: it reads a folder whole, then goes
 * into the folders it has met, and comes back by "..". On each way back it makes sure that it is
 * where it came from. It never follows a symbolic link, and never enters what is mounted somewhere:
 * a step may have mounted a folder of the user's in its workspace.
 */
#ifndef RUN_FILE_TREE_H
#define RUN_FILE_TREE_H

#include <dirent.h>
#include <stdbool.h>

/* All functions return 0 or an errno, which ends the walk, and get what `arg` says. */
struct file_tree {
    /* Opens the folder `name` in the folder `parent`; ENOENT: it has gone, and is skipped. */
    int (*open)(void *arg, int parent, const char *name, int *ret_fd);
    /* What is no folder. */
    int (*file)(void *arg, int folder, const char *name);
    /* After all that is in the folder. May be NULL. EAGAIN: what is in it now is visited, too. */
    int (*leave)(void *arg, int parent, const char *name);
    bool skips; /* folders that cannot be opened or read */
    void *arg;
};

/* The folder `name` in the folder `parent`, or AT_FDCWD, and all that is in it. 0 or an errno:
 * ESTALE when somebody has moved a folder meanwhile. */
int file_tree_walk(int parent, const char *name, const struct file_tree *tree);

/* For `open`: fails with ELOOP or ENOTDIR on what is no folder, with EXDEV on what is mounted. */
int file_tree_open(void *arg, int parent, const char *name, int *ret_fd);

/* 0, or EXDEV when something is mounted at the open folder, or the errno of the look. */
int file_tree_check_mount(int fd);

/* Reads the names in a folder that is open, from the first; NULL with errno set. The descriptor
 * stays the caller's. */
DIR *file_tree_list(int fd);

/* Whether it is "." or "..". */
bool file_tree_is_dots(const char *name);

#endif
