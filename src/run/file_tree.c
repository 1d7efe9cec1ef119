/* See file_tree.h. */
#include "run/file_tree.h"

#include "base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, LEVELS_FIRST = 32 };

/* A folder between the top and where the walk is. */
struct level {
    dev_t device;
    ino_t inode;
    size_t names_from; /* in walk.names: the folders in it that are still to be visited */
};

struct walk {
    const struct file_tree *tree;
    int parent;       /* of the top */
    const char *name; /* of the top */
    int here;         /* the folder of the last level */
    struct level *levels;
    size_t depth, room;
    struct buf names; /* each with its NUL; the last one of a level is visited next, or now */
};

bool file_tree_is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

DIR *file_tree_list(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL && copy >= 0) {
        int problem = errno;
        close(copy);
        errno = problem;
    }
    return dir;
}

int file_tree_check_mount(int fd)
{
    struct statx status;
    struct stat here;
    struct stat above;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0 &&
        (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
        return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? EXDEV : 0;
    /* A kernel before 5.8. */
    if (fstat(fd, &here) < 0 || fstatat(fd, "..", &above, 0) < 0)
        return errno;
    return here.st_dev == above.st_dev ? 0 : EXDEV;
}

int file_tree_open(void *arg, int parent, const char *name, int *ret_fd)
{
    (void)arg;
    int fd = openat(parent, name, FOLDER_FLAGS);
    if (fd < 0)
        return errno;
    int problem = file_tree_check_mount(fd);
    if (problem != 0)
        close(fd);
    else
        *ret_fd = fd;
    return problem;
}

/* --- names --- */

/* The folder of the last level that is visited next, or now. */
static const char *last_name(const struct walk *walk)
{
    size_t at = walk->names.len - 1;
    while (at > 0 && walk->names.data[at - 1] != '\0')
        at--;
    return walk->names.data + at;
}

static void drop_last_name(struct walk *walk)
{
    walk->names.len = (size_t)(last_name(walk) - walk->names.data);
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat status;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

/* A file is visited, a folder is noted. */
static int take_entry(struct walk *walk, int fd, const struct dirent *entry)
{
    if (file_tree_is_dots(entry->d_name))
        return 0;
    if (!is_folder(fd, entry))
        return walk->tree->file(walk->tree->arg, fd, entry->d_name);
    buf_append(&walk->names, entry->d_name, strlen(entry->d_name) + 1);
    return walk->names.failed ? ENOMEM : 0;
}

static int read_folder(struct walk *walk, int fd)
{
    int problem = 0;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return errno;
    DIR *dir = fdopendir(copy);
    if (dir == NULL) {
        problem = errno;
        close(copy);
        return problem;
    }
    for (struct dirent *entry; problem == 0; problem = take_entry(walk, fd, entry)) {
        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            problem = errno;
            break;
        }
    }
    closedir(dir);
    return problem;
}

/* --- levels --- */

static bool is_at(const struct level *level, const struct stat *status)
{
    return level->device == status->st_dev && level->inode == status->st_ino;
}

/* One level deeper. Takes the descriptor. */
static int push(struct walk *walk, int fd, size_t names_from)
{
    struct stat status;
    if (walk->depth == walk->room) {
        size_t room = walk->room == 0 ? LEVELS_FIRST : walk->room * 2;
        struct level *levels = realloc(walk->levels, room * sizeof *levels);
        if (levels == NULL) {
            close(fd);
            return ENOMEM;
        }
        walk->levels = levels;
        walk->room = room;
    }
    if (fstat(fd, &status) < 0) {
        int problem = errno;
        close(fd);
        return problem;
    }
    if (walk->here >= 0)
        close(walk->here);
    walk->here = fd;
    walk->levels[walk->depth++] = (struct level){status.st_dev, status.st_ino, names_from};
    return 0;
}

/* Whether the walk would find back from the folder to the last level. It does not from one that
 * was moved, or may be read but not entered. */
static int check_way_back(const struct walk *walk, int fd)
{
    struct stat status;
    if (walk->depth == 0)
        return 0;
    if (fstatat(fd, "..", &status, 0) < 0)
        return errno;
    return is_at(&walk->levels[walk->depth - 1], &status) ? 0 : ESTALE;
}

/* --- the walk --- */

/* The folder at hand is the top, or the last name of the last level. */
static int parent_at_hand(const struct walk *walk)
{
    return walk->depth == 0 ? walk->parent : walk->here;
}

static const char *name_at_hand(const struct walk *walk)
{
    return walk->depth == 0 ? walk->name : last_name(walk);
}

/* Reads the folder at hand, and makes it the last level if there are folders in it. *ret_visited:
 * there are none. */
static int enter(struct walk *walk, bool *ret_visited)
{
    const struct file_tree *tree = walk->tree;
    int fd = -1;
    size_t names_from = walk->names.len;
    int problem = tree->open(tree->arg, parent_at_hand(walk), name_at_hand(walk), &fd);
    if (problem == 0)
        problem = read_folder(walk, fd);
    if (problem == 0 && walk->names.len > names_from)
        problem = check_way_back(walk, fd);
    *ret_visited = problem != 0 || walk->names.len == names_from;
    if (!*ret_visited)
        return push(walk, fd, names_from);
    if (fd >= 0)
        close(fd);
    walk->names.len = names_from;
    return problem == ENOENT || (tree->skips && problem != ENOMEM) ? 0 : problem;
}

/* From the last level to the one above, where it is the folder at hand. */
static int go_up(struct walk *walk)
{
    struct stat status;
    int fd = -1;
    if (walk->depth > 1 && (fd = openat(walk->here, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return errno;
    close(walk->here);
    walk->here = fd;
    walk->depth--;
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) < 0)
        return errno;
    return is_at(&walk->levels[walk->depth - 1], &status) ? 0 : ESTALE;
}

static int leave(const struct walk *walk)
{
    const struct file_tree *tree = walk->tree;
    if (tree->leave == NULL)
        return 0;
    return tree->leave(tree->arg, parent_at_hand(walk), name_at_hand(walk));
}

static int walk_through(struct walk *walk)
{
    bool visited; /* the folder at hand, with all that is in it */
    int problem = enter(walk, &visited);
    while (problem == 0) {
        if (visited && (problem = leave(walk)) == EAGAIN) {
            problem = enter(walk, &visited);
            continue;
        }
        if (problem != 0 || walk->depth == 0)
            break;
        if (visited)
            drop_last_name(walk);
        visited = walk->names.len == walk->levels[walk->depth - 1].names_from;
        problem = visited ? go_up(walk) : enter(walk, &visited);
    }
    return problem;
}

int file_tree_walk(int parent, const char *name, const struct file_tree *tree)
{
    struct walk walk = {.tree = tree, .parent = parent, .name = name, .here = -1};
    buf_init(&walk.names);
    int problem = walk_through(&walk);
    if (walk.here >= 0)
        close(walk.here);
    free(walk.levels);
    buf_done(&walk.names);
    return problem;
}
