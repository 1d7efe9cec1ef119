/* See disk_use.h. */
#include "run/disk_use.h"

#include "run/file_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 512 }; /* of st_blocks */

static int add_file(void *arg, int folder, const char *name)
{
    int64_t *bytes = arg;
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_nlink == 1)
        *bytes += (int64_t)status.st_blocks * BLOCK_BYTES;
    return 0;
}

static int add_folder(void *arg, int parent, const char *name, int *ret_fd)
{
    int64_t *bytes = arg;
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes += (int64_t)status.st_blocks * BLOCK_BYTES;
    return file_tree_open(NULL, parent, name, ret_fd);
}

int64_t disk_use_at(int parent, const char *name)
{
    int64_t bytes = 0;
    struct stat status;
    const struct file_tree tree = {
        .open = add_folder, .file = add_file, .skips = true, .arg = &bytes};
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode))
        add_file(&bytes, parent, name);
    else
        (void)file_tree_walk(parent, name, &tree);
    return bytes;
}

int64_t disk_use(const char *path)
{
    return disk_use_at(AT_FDCWD, path);
}
