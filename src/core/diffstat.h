/*
 * Which files a patch changes, and by how many lines: patches as git writes them, file after file,
 * also one that was cut. Not a check: what is no patch has no files.
 */
#ifndef CORE_DIFFSTAT_H
#define CORE_DIFFSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diffstat_file {
    const char *path; /* in the patch, path_bytes long; bytes that git escapes stay so */
    size_t path_bytes;
    char status; /* A added, M modified, D deleted, R renamed */
    bool binary; /* lines are not counted */
    int64_t added, removed;
};

/* The next file from *at on, which is moved behind it. False: there is none. */
bool diffstat_next(const char **at, const char *end, struct diffstat_file *ret);

#endif
