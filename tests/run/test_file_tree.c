/* Walking through folders however deep they are: removing them, and how much disk they take. */
#include "run/file_tree.h"

#include "base/thread.h"
#include "run/disk_use.h"
#include "run/workspace_files.h"
#include "support/mounts.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

enum { DEPTH = 3000, DESCRIPTORS = 4, STACK_BYTES = 128 * 1024, NOBODY = 65534 };

static void enter(void)
{
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
}

static void make_file(int folder, const char *name)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0);
    check_int(write(fd, "x", 1), ==, 1);
    close(fd);
}

/* Folders in each other, each with a file and an empty folder beside. */
static void make_deep(const char *top, int depth)
{
    check_int(mkdir(top, 0700), ==, 0);
    int here = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        check_int(mkdirat(here, "d", 0700), ==, 0);
        if (i % 1000 == 0) {
            make_file(here, "file.lock");
            check_int(mkdirat(here, "empty", 0700), ==, 0);
        }
        int next = openat(here, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(next >= 0);
        close(here);
        here = next;
    }
    make_file(here, "bottom");
    close(here);
}

static void *measure_and_remove(void *arg)
{
    struct err err;
    int64_t *bytes = arg;
    *bytes = disk_use("top");
    if (files_remove("top", &err) < 0)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    return NULL;
}

/* Symptom: a step that left folders 6,000 deep crashed its worker, or used up its descriptors and
 * could never be cleaned up after. */
TEST(file_tree, SH_7_a_deep_tree_takes_little_stack_and_few_descriptors)
{
    pthread_t thread;
    int64_t bytes = 0;
    enter();
    make_deep("top", DEPTH);
    leave_descriptors(DESCRIPTORS);
    check_int(thread_start(&thread, STACK_BYTES, measure_and_remove, &bytes), ==, 0);
    pthread_join(thread, NULL);
    check(access("top", F_OK) < 0);
    check_int(bytes, >, 0);
}

/* As somebody who needs permissions: root needs none. */
static void be_nobody(void)
{
    if (geteuid() != 0)
        return;
    check_int(chown(".", NOBODY, NOBODY), ==, 0);
    check_int(seteuid(NOBODY), ==, 0);
}

TEST(file_tree, folders_that_are_closed_even_to_their_owner_are_removed)
{
    struct err err;
    enter();
    be_nobody();
    for (int mode = 0; mode <= 0700; mode += 0100) {
        make_deep("top", 3);
        check_int(chmod("top/d/d", (mode_t)mode), ==, 0);
        check_int(chmod("top/d", (mode_t)mode), ==, 0);
        check_int(disk_use("top"), >=, 0);
        if (files_remove("top", &err) < 0)
            test_fail(__FILE__, __LINE__, "mode %o: %s", (unsigned)mode, err.text);
        check(access("top", F_OK) < 0);
    }
    check_int(seteuid(getuid()), ==, 0); /* the leak checker needs it */
}

/* Symptom: removing a workspace emptied the folder that a step had mounted in it. */
TEST(file_tree, what_is_mounted_is_not_entered)
{
    static const char *const places[] = {"top/in/here", "top"};
    struct err err;
    if (!mounts_own())
        return;
    enter();
    for (size_t i = 0; i < 2; i++) {
        check_int(system("mkdir -p precious top/in/here && echo mine >precious/file"), ==, 0);
        check_int(mount("precious", places[i], NULL, MS_BIND, NULL), ==, 0);
        check_int(files_remove("top", &err), ==, TEND_EIO);
        check_contains(err.text, "removing top: something is mounted there");
        check_int(access("precious/file", F_OK), ==, 0);
        check_int(umount(places[i]), ==, 0);
        check_int(files_remove("top", &err), ==, 0);
    }
}

TEST(file_tree, links_are_removed_and_not_followed)
{
    struct err err;
    enter();
    make_deep("elsewhere", 1);
    check_int(mkdir("top", 0700), ==, 0);
    check_int(symlink("../elsewhere", "top/link"), ==, 0);
    check_int(symlink("elsewhere", "link"), ==, 0);
    check_int(disk_use("link"), <, disk_use("elsewhere"));
    check_int(files_remove("top", &err), ==, 0);
    check_int(files_remove("link", &err), ==, 0);
    check(access("top", F_OK) < 0 && access("link", F_OK) < 0);
    check_int(access("elsewhere/d/bottom", F_OK), ==, 0);
}

/* Moves the folder in which the walk is to another place. */
static int move_away(void *arg, int folder, const char *name)
{
    int *visited = arg;
    (void)folder;
    if (strcmp(name, "bottom") == 0)
        check_int(rename("top/d/d", "other/d"), ==, 0);
    (*visited)++;
    return 0;
}

/* From there ".." leads into a folder that the walk has nothing to do with. */
TEST(file_tree, a_folder_that_is_moved_meanwhile_leads_nowhere_else)
{
    int visited = 0;
    const struct file_tree tree = {.open = file_tree_open, .file = move_away, .arg = &visited};
    enter();
    make_deep("top", 4);
    make_deep("other", 0);
    check_int(file_tree_walk(AT_FDCWD, "top", &tree), ==, ESTALE);
    check_int(visited, ==, 2);
}
