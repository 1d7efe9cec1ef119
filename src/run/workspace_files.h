/*
 * Folders and small files of a workspace. Not a file library: only what workspaces and their
 * artifacts need, each with a sentence that names the file. Nothing here follows a symbolic link
 * out of a folder that is taken away.
 */
#ifndef RUN_WORKSPACE_FILES_H
#define RUN_WORKSPACE_FILES_H

#include "base/err.h"

#include <stddef.h>

struct buf;

/* Makes the folder and those above it; fine when it is there. */
int files_make_folder(const char *path, struct err *err);
/* The same; a folder that is made is for its owner alone. */
int files_make_private_folder(const char *path, struct err *err);

/* Removes a file, or a folder with all that is in it, read-only folders too, however deep; fine
 * when not there. What is mounted in it is not entered: then it fails, and the rest stays. */
int files_remove(const char *path, struct err *err);
/* The same in a folder that is open. 0 or an errno. */
int files_remove_at(int parent, const char *name);

/*
 * Reading. A step can put anything in the place of a file that tend reads: a FIFO, a device, a
 * link, a file without end. Only a regular file is read, and at most so many bytes of it; a larger
 * one is an error. A link is not followed.
 */
enum {
    FILES_SMALL_BYTES = 1 << 20, /* a line, a list of a few names */
    FILES_LARGE_BYTES = 1 << 30, /* an index, a list of refs, a patch */
};

/* Appends the file's bytes. TEND_ENOTFOUND, TEND_EREADONLY, TEND_EIO, TEND_ENOMEM. */
int files_read(const char *path, size_t most_bytes, struct buf *out, struct err *err);
/* The same in a folder that is open. 0 or an errno. */
int files_read_at(int folder, const char *name, size_t most_bytes, struct buf *out);

/* The same for a file of the user's, which may be a link. */
int files_read_linked(const char *path, size_t most_bytes, struct buf *out, struct err *err);

/* A small file without the end of its last line. */
int files_read_line(const char *path, struct buf *out, struct err *err);
/* The same in a folder that is open. 0 or an errno. */
int files_read_line_at(int folder, const char *name, struct buf *out);

/* 0 or an errno. */
int files_write_all(int fd, const char *data, size_t bytes);

/* Makes or replaces a file, not atomically and not durably. Whatever has the name is removed first,
 * so that nothing is written through a link. */
int files_write(const char *path, const void *data, size_t bytes, struct err *err);
/* The same in a folder that is open. 0 or an errno. */
int files_write_at(int folder, const char *name, const void *data, size_t bytes);

/* The same, for a file that only its owner may read. */
int files_write_private(const char *path, const void *data, size_t bytes, struct err *err);

/* Makes or replaces a file so that it is there whole or not at all, also after a power failure. */
int files_replace(const char *path, const void *data, size_t bytes, struct err *err);

/* Copies a file with its time: git trusts an index only as far as it is younger than its files.
 * Reads and writes as above. */
int files_copy(const char *from, const char *to, struct err *err);
/* The same between folders that are open. 0 or an errno. */
int files_copy_at(int from_folder, const char *from, int to_folder, const char *to);

/* TEND_EFULL, TEND_ENOTFOUND, TEND_ENOMEM (or no descriptor), TEND_EREADONLY (or no permission) or
 * TEND_EIO by errno, and "what path: why, what to do". */
int files_fail(struct err *err, const char *what, const char *path, int problem);

/* A copy of a path made absolute and without links; NULL with errno set. */
char *files_absolute(const char *path);

#endif
