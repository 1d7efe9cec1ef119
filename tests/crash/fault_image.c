#include "fault_image.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 16, SECTOR_BYTES = 512 };

struct change {
    int64_t offset; /* or the new size, when data is NULL */
    char *data;
    size_t bytes;
    bool doubtful; /* a sync that should have saved it has failed */
    struct change *next;
};

struct image {
    char path[512]; /* "": unused */
    char *content;  /* as of the last sync */
    size_t bytes, room;
    bool synced; /* ever; before that the file itself may be gone */
    struct change *first, **tail;
};

static struct image images[IMAGES];

static void add_change(struct image *image, struct change change)
{
    struct change *copy = malloc(sizeof *copy);
    check(copy != NULL);
    *copy = change;
    copy->next = NULL;
    *image->tail = copy;
    image->tail = &copy->next;
}

static void drop_changes(struct image *image)
{
    for (struct change *change = image->first, *next; change != NULL; change = next) {
        next = change->next;
        free(change->data);
        free(change);
    }
    image->first = NULL;
    image->tail = &image->first;
}

static void forget(struct image *image)
{
    if (image->path[0] == '\0')
        return;
    drop_changes(image);
    free(image->content);
    *image = (struct image){0};
}

struct image *image_of(const char *path)
{
    struct image *unused = NULL;
    for (size_t i = 0; i < IMAGES; i++) {
        if (strcmp(images[i].path, path) == 0)
            return &images[i];
        if (images[i].path[0] == '\0' && unused == NULL)
            unused = &images[i];
    }
    check(unused != NULL);
    *unused = (struct image){0};
    snprintf(unused->path, sizeof unused->path, "%s", path);
    unused->tail = &unused->first;
    return unused;
}

void image_forget(const char *path)
{
    for (size_t i = 0; i < IMAGES; i++)
        if (strcmp(images[i].path, path) == 0)
            forget(&images[i]);
}

void image_forget_all(void)
{
    for (size_t i = 0; i < IMAGES; i++)
        forget(&images[i]);
}

void image_write(struct image *image, const void *data, size_t bytes, int64_t offset)
{
    char *copy = malloc(bytes);
    check(copy != NULL);
    memcpy(copy, data, bytes);
    add_change(image, (struct change){.offset = offset, .data = copy, .bytes = bytes});
}

void image_truncate(struct image *image, int64_t size)
{
    add_change(image, (struct change){.offset = size});
}

void image_fail_sync(struct image *image)
{
    for (struct change *change = image->first; change != NULL; change = change->next)
        change->doubtful = true;
}

/* --- what a file becomes --- */

static void resize(struct image *image, size_t bytes)
{
    if (bytes > image->room) {
        image->room = bytes * 2;
        image->content = realloc(image->content, image->room);
        check(image->content != NULL);
    }
    if (bytes > image->bytes)
        memset(image->content + image->bytes, 0, bytes - image->bytes);
    image->bytes = bytes;
}

static void apply_range(struct image *image, const struct change *change, size_t from, size_t to)
{
    size_t end = (size_t)change->offset + to;
    if (end > image->bytes)
        resize(image, end);
    memcpy(image->content + (size_t)change->offset + from, change->data + from, to - from);
}

static void apply(struct image *image, const struct change *change)
{
    if (change->data == NULL)
        resize(image, (size_t)change->offset);
    else
        apply_range(image, change, 0, change->bytes);
}

/* Sector by sector, each or not. */
static void apply_some(struct image *image, const struct change *change, struct rng *rng)
{
    if (change->data == NULL) {
        if (rng_below(rng, 2) == 0)
            apply(image, change);
        return;
    }
    for (size_t from = 0; from < change->bytes;) {
        size_t at = (size_t)change->offset + from;
        size_t to = from + SECTOR_BYTES - at % SECTOR_BYTES;
        to = to > change->bytes ? change->bytes : to;
        if (rng_below(rng, 2) == 0)
            apply_range(image, change, from, to);
        from = to;
    }
}

void image_sync(struct image *image, struct rng *rng)
{
    for (struct change *change = image->first; change != NULL; change = change->next) {
        if (change->doubtful)
            apply_some(image, change, rng);
        else
            apply(image, change);
    }
    image->synced = true;
    drop_changes(image);
}

static void write_file(const char *folder, const struct image *image)
{
    char path[1024];
    const char *name = strrchr(image->path, '/');
    snprintf(path, sizeof path, "%s%s", folder, name != NULL ? name : image->path);
    FILE *file = fopen(path, "we");
    check(file != NULL);
    check_int(fwrite(image->content, 1, image->bytes, file), ==, image->bytes);
    check_int(fclose(file), ==, 0);
}

void image_write_all(const char *folder, enum survival survival, struct rng *rng)
{
    for (size_t i = 0; i < IMAGES; i++) {
        struct image *image = &images[i];
        if (image->path[0] == '\0')
            continue;
        bool any = survival == SURVIVES_EVERYTHING ||
                   (survival == SURVIVES_SOMETHING && rng_below(rng, 8) != 0);
        for (struct change *change = image->first; any && change != NULL; change = change->next) {
            if (survival == SURVIVES_EVERYTHING && !change->doubtful)
                apply(image, change);
            else
                apply_some(image, change, rng);
        }
        if (image->synced || any)
            write_file(folder, image);
        forget(image);
    }
}
