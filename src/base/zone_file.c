#include "base/zone_file.h"

#include "base/arena.h"
#include "base/suggest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum {
    NAME_BYTES_MAX = 100,
    PATH_BYTES = 4096,
    FILE_BYTES_MAX = 256 * 1024, /* the largest of the database is below 4 KiB */
    DEPTH_MAX = 3,               /* America/Argentina/Buenos_Aires */
};

static const char *folder(void)
{
    const char *tzdir = getenv("TZDIR");
    return tzdir != NULL && *tzdir != '\0' ? tzdir : "/usr/share/zoneinfo";
}

static bool is_letter(char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '+' || byte == '-';
}

bool zone_name_ok(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > NAME_BYTES_MAX)
        return false;
    /* No part is empty, and none begins with a dot. */
    for (size_t i = 0; i < len; i++)
        if (!is_letter(name[i]) &&
            (i == 0 || name[i - 1] == '/' || i + 1 == len || (name[i] != '/' && name[i] != '.')))
            return false;
    return true;
}

/* --- what is near --- */

/* Offers all zones below a folder; prefix is "" or ends with a slash. */
static void offer_folder(struct suggestion *near, struct arena *arena, const char *prefix,
                         int depth)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder(), prefix);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *name = arena_printf(arena, "%s%s", prefix, entry->d_name);
        char *below = arena_printf(arena, "%s%s/", prefix, entry->d_name);
        if (name == NULL || below == NULL || !zone_name_ok(name) || strchr(name, '.') != NULL ||
            strcmp(name, "posix") == 0 || strcmp(name, "right") == 0)
            continue;
        if (entry->d_type == DT_DIR && depth < DEPTH_MAX)
            offer_folder(near, arena, below, depth + 1);
        else if (entry->d_type != DT_DIR)
            suggestion_offer(near, name);
    }
    if (dir != NULL)
        closedir(dir);
}

static int no_such_zone(const char *name, struct err *err)
{
    struct suggestion near;
    struct arena arena;
    arena_init(&arena);
    suggestion_init(&near, name);
    offer_folder(&near, &arena, "", 1);
    int rc = near.best != NULL
                 ? err_set(err, TEND_ENOTFOUND,
                           "'%s' is not a time zone of this machine (%s); did you mean %s?", name,
                           folder(), near.best)
                 : err_set(err, TEND_ENOTFOUND, "'%s' is not a time zone of this machine (%s)%s",
                           name, folder(),
                           access(folder(), R_OK) == 0 ? "; names are like Europe/Berlin"
                                                       : ", which has none: install tzdata");
    arena_done(&arena);
    return rc;
}

/* --- reading --- */

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
    char piece[8192];
    size_t total = 0;
    ssize_t got;
    while ((got = read(fd, piece, sizeof piece)) > 0 && total <= FILE_BYTES_MAX) {
        buf_append(out, piece, (size_t)got);
        total += (size_t)got;
    }
    if (got < 0)
        return err_set(err, TEND_EIO, "%s cannot be read: %s", path, strerrordesc_np(errno));
    if (total > FILE_BYTES_MAX)
        return err_set(err, TEND_EIO, "%s is too large for a time zone", path);
    return out->failed ? err_set(err, TEND_ENOMEM, "out of memory") : 0;
}

int zone_file_read(const char *name, struct buf *out, struct err *err)
{
    char path[PATH_BYTES];
    struct stat status;
    if (!zone_name_ok(name))
        return err_set(err, TEND_EINVAL,
                       "'%.120s' is not the name of a time zone; names are like Europe/Berlin",
                       name);
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        return err_set(err, TEND_EIO, "%s cannot be opened: %s", path, strerrordesc_np(errno));
    bool is_file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    int rc = is_file ? read_all(fd, path, out, err) : no_such_zone(name, err);
    if (fd >= 0)
        close(fd);
    return rc;
}
