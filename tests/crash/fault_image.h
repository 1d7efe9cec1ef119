/*
 * What is on disk for certain, and what only may be: per file the content at its last sync and the
 * changes since. Not thread-safe; fault_vfs.c sees to that.
 */
#ifndef TEND_TEST_FAULT_IMAGE_H
#define TEND_TEST_FAULT_IMAGE_H

#include "fault_vfs.h"

#include <stddef.h>
#include <stdint.h>

struct image;

struct image *image_of(const char *path);
void image_write(struct image *image, const void *data, size_t bytes, int64_t offset);
void image_truncate(struct image *image, int64_t size);
void image_sync(struct image *image, struct rng *rng);
/* The sync has failed: whether the changes are on disk will never be known, not even after the next
 * one. */
void image_fail_sync(struct image *image);
void image_forget(const char *path);
void image_forget_all(void);
void image_write_all(const char *folder, enum survival survival, struct rng *rng);

#endif
