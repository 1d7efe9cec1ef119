#include "fault_disk.h"

#include "base/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 8 };

/* Something that has happened to a file since it was synced. */
struct change {
    struct change *next;
    bool truncates; /* to offset; otherwise a write */
    int64_t offset;
    size_t bytes;
    char data[];
};

struct file {
    char *path;
    struct buf synced;
    struct change *first, **tail;
    bool gone; /* deleted, but the folder has not been synced: it may come back */
};

static struct file files[FILES_MAX];
static size_t file_count;

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "fault_disk: %s\n", what);
    abort();
}

static struct file *find(const char *path)
{
    for (size_t i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0)
            return &files[i];
    if (file_count == FILES_MAX)
        die("too many files");
    struct file *file = &files[file_count++];
    *file = (struct file){.path = strdup(path)};
    file->tail = &file->first;
    buf_init(&file->synced);
    return file;
}

static void forget_changes(struct file *file)
{
    for (struct change *change = file->first, *next; change != NULL; change = next) {
        next = change->next;
        free(change);
    }
    file->first = NULL;
    file->tail = &file->first;
}

static void read_whole(const char *path, struct buf *out)
{
    char piece[65536];
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, piece, sizeof piece)) > 0)
        buf_append(out, piece, (size_t)got);
    if (fd >= 0)
        close(fd);
}

void disk_open(const char *path)
{
    size_t known = file_count;
    struct file *file = find(path);
    if (file_count > known)
        read_whole(path, &file->synced);
    if (file->gone) { /* made anew: that it was deleted came before */
        file->gone = false;
        forget_changes(file);
        buf_clear(&file->synced);
    }
}

static void add_change(struct file *file, bool truncates, const void *data, size_t bytes,
                       int64_t offset)
{
    struct change *change = malloc(sizeof *change + bytes);
    if (change == NULL)
        die("out of memory");
    *change = (struct change){.truncates = truncates, .offset = offset, .bytes = bytes};
    if (bytes > 0)
        memcpy(change->data, data, bytes);
    *file->tail = change;
    file->tail = &change->next;
}

void disk_write(const char *path, const void *data, size_t bytes, int64_t offset)
{
    add_change(find(path), false, data, bytes, offset);
}

void disk_truncate(const char *path, int64_t bytes)
{
    add_change(find(path), true, NULL, 0, bytes);
}

static void resize(struct buf *content, size_t bytes)
{
    while (content->len < bytes)
        buf_putc(content, '\0');
    content->len = bytes;
    content->data[bytes] = '\0';
}

static void apply(struct buf *content, const struct change *change, size_t bytes)
{
    size_t offset = (size_t)change->offset;
    if (change->truncates) {
        if (offset != content->len)
            resize(content, offset);
        return;
    }
    if (content->len < offset + bytes)
        resize(content, offset + bytes);
    memcpy(content->data + offset, change->data, bytes);
}

void disk_sync(const char *path)
{
    struct file *file = find(path);
    for (const struct change *change = file->first; change != NULL; change = change->next)
        apply(&file->synced, change, change->bytes);
    forget_changes(file);
}

static void forget_file(struct file *file)
{
    forget_changes(file);
    buf_clear(&file->synced);
}

void disk_delete(const char *path, bool durable)
{
    struct file *file = find(path);
    file->gone = true;
    if (durable)
        forget_file(file);
}

void disk_sync_folder(void)
{
    for (size_t i = 0; i < file_count; i++)
        if (files[i].gone)
            forget_file(&files[i]);
}

/* There, not there, or there in part. */
static void apply_by_dice(struct file *file, struct rng *dice)
{
    for (const struct change *change = file->first; change != NULL; change = change->next) {
        switch (rng_below(dice, 3)) {
        case 0:
            apply(&file->synced, change, change->bytes);
            break;
        case 1:
            if (!change->truncates)
                apply(&file->synced, change, rng_below(dice, change->bytes + 1));
            break;
        default:
            break;
        }
    }
}

static void write_whole(const struct file *file)
{
    int fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, file->synced.data, file->synced.len) != (ssize_t)file->synced.len)
        die("a file cannot be put back");
    close(fd);
}

void disk_lose_power(struct rng *dice)
{
    for (size_t i = 0; i < file_count; i++) {
        struct file *file = &files[i];
        bool stays_gone =
            file->gone && (file->synced.len == 0 || (dice != NULL && rng_below(dice, 2) == 0));
        if (dice != NULL)
            apply_by_dice(file, dice);
        if (stays_gone)
            unlink(file->path);
        else
            write_whole(file);
    }
}
