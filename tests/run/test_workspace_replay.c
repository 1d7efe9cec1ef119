/* Replay at its limits (SH-7, SH-10): refused patches, size, number, and any sequence of changes.
 */
#include "base/rng.h"
#include "run/workspace_box.h"
#include "run/workspace_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(replay, a_patch_that_does_not_apply_names_its_step_and_keeps_everything)
{
    box_init();
    struct err err = {0};
    const char *repo = box_repository("r");
    struct workspace first = box_workspace(repo, "main");
    box_sh("echo x >'%s/x'", first.folder);
    struct workspace_change *fine = box_checkpoint(&first);
    box_sh("sed -i s/two/zwei/ '%s/a.txt'; echo y >'%s/y'", first.folder, first.folder);
    struct workspace_change *bad = box_checkpoint(&first);
    box_sh("cd r && echo other >a.txt && git commit -qam other");
    struct workspace second = box_workspace(repo, "main");
    const struct workspace_patch patches[] = {{"setup", fine->patch.data, fine->patch.len},
                                              {"nothing", NULL, 0},
                                              {"translate", bad->patch.data, bad->patch.len}};
    size_t failed = 99;
    check_int(workspace_replay(&box_keeper, &second, patches, 3, &failed, &err), ==,
              TEND_ECONFLICT);
    check_int(failed, ==, 2);
    check_str(workspace_problem_name(box_keeper.problem), "patch_refused");
    check_contains(err.text, "the patch of step translate does not apply");
    check_contains(err.text, "a.txt");
    check_contains(err.text, second.folder);
    check_str(box_out("cd '%s'; cat x; cat a.txt; ls", second.folder),
              "x\nother\na.txt\ndir\nlink\nrun.sh\nx");
    check_int(box_status("test -s '%s/refused.patch'", second.private_folder), ==, 0);
    check_str(box_checkpoint(&second)->hash, ""); /* the patches before it are the checkpoint */
    box_drop(&first);
    box_drop(&second);
}

TEST(replay, a_text_that_is_no_patch_is_refused)
{
    box_init();
    struct err err = {0};
    struct workspace workspace = box_workspace(box_repository("r"), "main");
    const char *const texts[] = {"garbage\n", "diff --git a/x b/x\n",
                                 "diff --git a/../out b/../out\nnew file mode 100644\n"
                                 "--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n",
                                 "diff --git a/.git/x b/.git/x\nnew file mode 100644\n"
                                 "--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+x\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct workspace_patch patch = {"bad", texts[i], strlen(texts[i])};
        check_int(workspace_replay(&box_keeper, &workspace, &patch, 1, NULL, &err), ==,
                  TEND_ECONFLICT);
        check_str(workspace_problem_name(box_keeper.problem), "patch_refused");
    }
    check_str(box_checkpoint(&workspace)->hash, "");
    check_int(box_status("test -e work/out"), ==, 1);
    box_drop(&workspace);
}

TEST_WITHIN(replay, a_big_file_comes_back_and_a_limit_is_kept, 180)
{
    box_init();
    struct err err = {0};
    const char *repo = box_repository("r");
    struct workspace workspace = box_workspace(repo, "main");
    box_sh("head -c 20971520 /dev/urandom >'%s/big'", workspace.folder);
    struct workspace_change *changes[2] = {box_checkpoint(&workspace)};
    check_int(changes[0]->patch.len, >, 20971520);
    box_sh("mv '%s/big' '%s/moved'", workspace.folder, workspace.folder);
    changes[1] = box_checkpoint(&workspace);
    check_int(changes[1]->patch.len, <, 1000);
    box_check_replay(repo, "main", &workspace, changes, 2);

    char hash[GIT_ID_BYTES];
    struct workspace_change change;
    box_keeper.patch_max_bytes = 100000;
    box_sh("head -c 200000 /dev/urandom >'%s/more'", workspace.folder);
    check_int(workspace_checkpoint(&box_keeper, &workspace, &change, &err), ==, TEND_ELIMITED);
    check_str(workspace_problem_name(box_keeper.problem), "too_large");
    check_contains(err.text, "100000 are allowed");
    check_str(workspace.tree, changes[1]->tree);
    /* Symptom: a failed attempt with large changes counted as one without any. */
    check_int(box_diff_hash(&workspace, hash), ==, 1);
    check_int(strlen(hash), ==, 40);
    box_drop(&workspace);
}

TEST_WITHIN(replay, two_hundred_steps_come_back, 180)
{
    enum { STEPS = 200 };
    box_init();
    const char *repo = box_repository("r");
    struct workspace workspace = box_workspace(repo, "main");
    struct workspace_change *changes[STEPS];
    for (int i = 0; i < STEPS; i++) {
        if (i % 5 != 0)
            box_sh("cd '%s'; echo %d >>a.txt; echo %d >f%d", workspace.folder, i, i, i % 7);
        changes[i] = box_checkpoint(&workspace);
    }
    box_check_replay(repo, "main", &workspace, changes, STEPS);
    box_drop(&workspace);
}

/* Patches as a step that counts would leave them. */
TEST_WITHIN(replay, ten_thousand_steps_come_back_and_one_among_them_that_is_refused_is_found, 300)
{
    enum { COUNT = 10000, BAD = 900, SOME = 1000, PATCH_BYTES = 100 };
    box_init();
    struct err err = {0};
    const char *repo = box_repository("r");
    box_sh("cd r && echo 0 >counter && git add counter && git commit -qm counter");
    char(*texts)[PATCH_BYTES] = calloc(COUNT, sizeof *texts);
    struct workspace_patch *patches = calloc(COUNT, sizeof *patches);
    check(texts != NULL && patches != NULL);
    for (int i = 0; i < COUNT; i++) {
        int len = snprintf(texts[i], PATCH_BYTES,
                           "diff --git a/counter b/counter\n--- a/counter\n+++ b/counter\n"
                           "@@ -1 +1 @@\n-%d\n+%d\n",
                           i, i + 1);
        patches[i] = (struct workspace_patch){"count", texts[i], (size_t)len};
    }
    struct workspace workspace = box_workspace(repo, "main");
    check_fine(workspace_replay(&box_keeper, &workspace, patches, COUNT, NULL, &err), &err);
    check_str(box_out("cat '%s/counter'", workspace.folder), "10000");
    box_drop(&workspace);

    patches[BAD] = (struct workspace_patch){"bad", texts[BAD + 1], strlen(texts[BAD + 1])};
    patches[BAD - 1].bytes = 0;
    patches[BAD - 2].bytes = 0;
    size_t failed = 0;
    workspace = box_workspace(repo, "main");
    check_int(workspace_replay(&box_keeper, &workspace, patches, SOME, &failed, &err), ==,
              TEND_ECONFLICT);
    check_int(failed, ==, BAD);
    check_contains(err.text, "the patch of step bad does not apply");
    check_str(box_out("cat '%s/counter'", workspace.folder), "898");
    box_drop(&workspace);
    free(patches);
    free(texts);
}

/* --- any sequence of changes --- */

static const char *const names[] = {
    "a.txt",      "run.sh",      "link",       "dir",     "dir/b.txt",
    "dir/c",      "dir/c/d",     "new",        "new/one", "new/one/two",
    "with space", "line\nbreak", "\"quoted\"", "-dash",   "gr\xC3\xBC\xC3\x9F",
    "bad\xFF"};
enum { NAMES = sizeof names / sizeof names[0], STEPS = 6, OPERATIONS = 8 };

static const char *any_path(struct rng *rng, const struct workspace *workspace)
{
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", workspace->folder,
             names[rng_below(rng, NAMES)]);
    return path[turn];
}

/* Text with and without line ends, CRLF, NULs; often like what was there before. */
static void write_something(struct rng *rng, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | (rng_below(rng, 2) ? O_TRUNC : O_APPEND),
                  0644);
    static const char *const pieces[] = {"one\n", "two\r\n", "three", "\n",
                                         "x y\n", " \t\n",   "",      "\\"};
    if (fd < 0)
        return;
    for (uint64_t n = rng_below(rng, 40); n > 0; n--) {
        const char *piece = pieces[rng_below(rng, 8)];
        check_int(write(fd, piece, strlen(piece)), >=, 0);
    }
    for (uint64_t n = rng_below(rng, 4) == 0 ? rng_below(rng, 3000) : 0; n > 0; n--) {
        char byte = (char)rng_below(rng, 256);
        check_int(write(fd, &byte, 1), ==, 1);
    }
    close(fd);
}

static void operate(struct rng *rng, const struct workspace *workspace)
{
    const char *path = any_path(rng, workspace);
    const char *other = any_path(rng, workspace);
    struct stat status;
    switch (rng_below(rng, 10)) {
    case 0:
        check_int(files_remove(path, NULL), <=, 0);
        break;
    case 1:
        (void)rename(path, other);
        break;
    case 2:
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
            check_int(chmod(path, rng_below(rng, 2) ? 0755 : 0644), ==, 0);
        break;
    case 3:
        (void)files_remove(path, NULL);
        if (symlink(rng_below(rng, 2) ? "dir" : "/nowhere/outside", path) < 0)
            write_something(rng, other);
        break;
    case 4:
        (void)files_remove(path, NULL);
        (void)mkdir(path, 0755);
        break;
    case 5:
        if (rng_below(rng, 3) == 0)
            (void)box_status("cd '%s' && git add -A . && git commit -qm some 2>&1",
                             workspace->folder);
        break;
    default:
        write_something(rng, path);
    }
}

static void check_history(uint64_t seed)
{
    struct rng rng;
    struct workspace_change *changes[STEPS];
    rng_seed(&rng, seed);
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    struct workspace workspace = box_workspace("r", "main");
    for (int i = 0; i < STEPS; i++) {
        for (int n = 0; n < OPERATIONS; n++)
            operate(&rng, &workspace);
        changes[i] = box_checkpoint(&workspace);
    }
    box_check_replay("r", "main", &workspace, changes, STEPS);
    box_drop(&workspace);
}

TEST_WITHIN(replay, any_sequence_of_changes_comes_back_byte_for_byte, 300)
{
    box_init();
    box_repository("r");
    const char *count = getenv("TEND_TEST_HISTORIES");
    const char *first = getenv("TEND_TEST_SEED");
    uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : 1;
    for (uint64_t left = count != NULL ? strtoull(count, NULL, 10) : 25; left > 0; left--)
        check_history(seed++);
}
