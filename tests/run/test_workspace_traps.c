/* What a step leaves in its workspace must neither hold tend up nor lead it to other files. */
#include "run/workspace_box.h"

#include "base/buf.h"
#include "run/workspace_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two attempts and a checkpoint after the first: all that looks into .git. */
static void use_and_drop(struct workspace *workspace)
{
    box_sh("echo more >>'%s/a.txt'", workspace->folder);
    workspace_begin_attempt(&box_keeper, workspace);
    workspace_begin_attempt(&box_keeper, workspace);
    check_int(box_checkpoint(workspace)->file_count, ==, 1);
    workspace_begin_attempt(&box_keeper, workspace);
    workspace_begin_attempt(&box_keeper, workspace);
    box_drop(workspace);
}

/* Symptom: the worker waited for ever, and could be ended by SIGKILL alone. */
TEST_WITHIN(traps, a_fifo_in_the_place_of_a_file_of_git_holds_nobody_up, 120)
{
    static const char *const names[] = {".git/index", ".git/HEAD", ".git/info/exclude",
                                        ".git/config", ".git/objects/info/alternates"};
    box_init();
    box_repository("r");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct workspace workspace = box_workspace("r", "main");
        box_sh("cd '%s' && rm -f %s && mkfifo %s", workspace.folder, names[i], names[i]);
        use_and_drop(&workspace);
    }
    struct workspace workspace = box_workspace("r", "main");
    box_sh("mkfifo '%s/repository'", workspace.private_folder);
    use_and_drop(&workspace);
}

/* Symptom: the worker took all memory of the machine. */
TEST(traps, only_a_regular_file_of_a_given_size_is_read)
{
    struct buf text;
    struct err err;
    box_init();
    buf_init(&text);
    box_sh("echo four >small; truncate -s 2G large; ln -s small link; mkfifo fifo; mkdir folder");
    check_int(files_read("/dev/zero", FILES_LARGE_BYTES, &text, &err), ==, TEND_EIO);
    check_contains(err.text, "not a regular file");
    check_int(files_read("fifo", FILES_LARGE_BYTES, &text, &err), ==, TEND_EIO);
    check_int(files_read("folder", FILES_LARGE_BYTES, &text, &err), ==, TEND_EIO);
    check_int(files_read("large", FILES_LARGE_BYTES, &text, &err), ==, TEND_EIO);
    check_int(files_read("link", FILES_LARGE_BYTES, &text, &err), ==, TEND_EIO);
    check_int(files_copy("fifo", "copy", &err), ==, TEND_EIO);
    check_int(files_copy("large", "copy", &err), ==, TEND_EIO);
    check_int(files_copy("link", "copy", &err), ==, TEND_EIO);
    check_int((int)text.len, ==, 0);
    check_int(files_read("small", 4, &text, &err), ==, TEND_EIO);
    check_int(files_read_linked("link", 5, &text, &err), ==, 0);
    check_str(text.data, "four\n");
    buf_done(&text);
}

/* Symptom: what the user had somewhere else was overwritten. */
TEST(traps, nothing_is_written_through_a_link)
{
    struct err err;
    box_init();
    box_sh("echo mine >precious; ln -s precious one; ln -s precious two; ln -s precious three; "
           "ln -s precious three.new; ln -s precious four; mkdir five; echo x >five/x");
    check_fine(files_write("one", "1", 1, &err), &err);
    check_fine(files_write_private("two", "2", 1, &err), &err);
    check_fine(files_replace("three", "3", 1, &err), &err);
    check_fine(files_copy("one", "four", &err), &err);
    check_fine(files_write("five", "5", 1, &err), &err);
    check_str(box_out("cat precious one two three four five"), "mine\n12315");
}

TEST(traps, what_is_put_back_in_git_is_not_written_through_a_link)
{
    box_init();
    box_repository("r");
    struct workspace workspace = box_workspace("r", "main");
    workspace_begin_attempt(&box_keeper, &workspace);
    box_sh("cd '%s' && git checkout -qb one && echo 1 >a.txt && git commit -qam 1 && "
           "git checkout -q --detach main && echo 2 >a.txt && git commit -qam 2; "
           "! git merge one && cp .git/index ../../mine && rm .git/index && "
           "ln -s ../../../mine .git/index",
           workspace.folder);
    const char *before = box_out("sha256sum mine");
    workspace_begin_attempt(&box_keeper, &workspace);
    check_str(box_out("sha256sum mine"), before);
    check_int(box_status("test -L '%s/.git/index'", workspace.folder), ==, 1);
    box_drop(&workspace);
}

/* Symptom: locks of the user's repository went while its own git commands ran, and HEAD was
 * written. */
TEST(traps, a_git_folder_that_leads_to_the_user_s_repository_is_left_alone)
{
    static const char *const lines[] = {
        "rm -rf .git; ln -s ../../r/.git .git",
        "rm -rf .git; echo 'gitdir: ../../r/.git' >.git",
        "echo ../../../r/.git >.git/commondir",
        "rm -rf .git/refs; ln -s ../../../r/.git/refs .git/refs",
    };
    box_init();
    box_repository("r");
    box_sh("cd r && git branch topic && mkdir -p .git/objects/info && "
           "echo /nowhere/objects >.git/objects/info/alternates");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct workspace workspace = box_workspace("r", "main");
        workspace_begin_attempt(&box_keeper, &workspace);
        box_sh("set -e; cd '%s'; %s; cd ../../r; git branch -f new-%zu; touch .git/index.lock "
               ".git/refs/heads/topic.lock .git/MERGE_MSG",
               workspace.folder, lines[i], i);
        const char *before = box_repository_state("r");
        workspace_begin_attempt(&box_keeper, &workspace);
        check_str(box_repository_state("r"), before);
        box_drop(&workspace);
        check_str(box_repository_state("r"), before);
        box_sh("rm r/.git/index.lock r/.git/refs/heads/topic.lock r/.git/MERGE_MSG");
    }
}

/* Symptom: the branches of the user's repository were put back to where the step had begun, and its
 * files became part of a checkpoint. */
TEST(traps, a_workspace_whose_place_a_link_has_taken_is_left_alone)
{
    struct workspace_change change;
    struct err err = {0};
    box_init();
    box_repository("r");
    box_sh("git clone -q --shared r user && cd user && git checkout -qb mine");
    struct workspace workspace = box_workspace("r", "main");
    workspace_begin_attempt(&box_keeper, &workspace);
    box_sh("mv '%s' moved && ln -s \"$PWD/user\" '%s' && cd user && echo 2 >a.txt && "
           "git commit -qam 2 && git branch new && touch .git/index.lock",
           workspace.folder, workspace.folder);
    const char *before = box_repository_state("user");
    check(!workspace_is_there(&workspace));
    check_int(workspace_checkpoint(&box_keeper, &workspace, &change, &err), ==, TEND_EIO);
    check_contains(err.text, "is not the workspace any more: a step has moved or replaced it");
    check_str(workspace_problem_class(box_keeper.problem), "deterministic_repo");
    check_int(workspace_diff_hash(&box_keeper, &workspace, &change, &err), ==, TEND_EIO);
    workspace_begin_attempt(&box_keeper, &workspace);
    check_str(box_repository_state("user"), before);
    /* The next attempt cannot run there either. */
    check_int(box_status("test -L '%s'", workspace.folder), ==, 1);
    box_drop(&workspace);
    check_str(box_repository_state("user"), before);
}

/* The same with the repository itself in its place, and with refs that lead to it. */
TEST(traps, a_repository_that_tend_has_not_made_is_not_put_back)
{
    static const char *const lines[] = {
        "mv \"$w\" moved-1 && cp -a user \"$w\"",
        "cd \"$w/.git\" && rm -rf refs/heads && ln -s \"$OLDPWD/user/.git/refs/heads\" refs/heads",
        "cd \"$w/.git\" && rm -rf logs && ln -s \"$OLDPWD/user/.git/logs\" logs",
    };
    box_init();
    box_repository("r");
    box_sh("git clone -q --shared r user");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct workspace workspace = box_workspace("r", "main");
        workspace_begin_attempt(&box_keeper, &workspace);
        box_sh("w='%s'; %s", workspace.folder, lines[i]);
        box_sh("cd '%s' && git checkout -qb new-%zu && git commit -q --allow-empty -m 2",
               workspace.folder, i);
        const char *user = box_repository_state("user");
        const char *refs = box_out("git -C '%s' for-each-ref", workspace.folder);
        workspace_begin_attempt(&box_keeper, &workspace);
        check_str(box_repository_state("user"), user);
        check_str(box_out("git -C '%s' for-each-ref", workspace.folder), refs);
        box_drop(&workspace);
    }
}

/* Symptom: the files of a step that had removed tend's folder beside its workspace stayed for ever.
 */
TEST(traps, a_workspace_without_its_private_folder_is_removed_with_the_others)
{
    struct err err;
    box_init();
    box_repository("r");
    struct workspace one = box_workspace("r", "main");
    struct workspace other = box_workspace("r", "main");
    box_sh("rm -rf '%s'; mkdir work/keep", one.private_folder);
    check_int(workspace_remove_all(&box_keeper, "work", &err), ==, 2);
    check_str(box_out("ls -A work"), "keep");
    workspace_done(&one);
    workspace_done(&other);
}
