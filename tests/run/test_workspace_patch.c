/* Checkpoints and their replay (SH-3, SH-7, SH-9, SH-10): every kind of change a step can make. */
#include "run/workspace_box.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS_MAX = 256 };

/* A workspace in which shell lines are steps; each ends in a checkpoint. */
struct story {
    const char *repo;
    struct workspace workspace;
    struct workspace_change *changes[STEPS_MAX];
    size_t count;
};

static void story_start(struct story *story)
{
    box_init();
    story->repo = box_repository("r");
    story->count = 0;
    story->workspace = box_workspace(story->repo, "main");
}

static struct workspace_change *step(struct story *story, const char *line)
{
    box_sh("set -e; cd '%s'; %s", story->workspace.folder, line);
    struct workspace_change *change = box_checkpoint(&story->workspace);
    story->changes[story->count++] = change;
    return change;
}

static void story_end(struct story *story)
{
    box_check_replay(story->repo, "main", &story->workspace, story->changes, story->count);
    box_drop(&story->workspace);
}

/* "M a.txt|A new": in git's order. */
static const char *listed(const struct workspace_change *change)
{
    static char text[4096];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < change->file_count; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c %s", i > 0 ? "|" : "",
                                change->files[i].status, change->files[i].path);
    return text;
}

TEST(patch, edits_additions_deletions_renames_and_modes_come_back)
{
    struct story story;
    story_start(&story);
    check_str(listed(step(&story, "echo four >>a.txt; echo n >new; mkdir -p d/e; echo d >d/e/f")),
              "M a.txt|A d/e/f|A new");
    check_str(listed(step(&story, "rm dir/b.txt; mv a.txt moved.txt")),
              "D a.txt|D dir/b.txt|A moved.txt");
    check_str(listed(step(&story, "chmod 644 run.sh; chmod 755 new")), "M new|M run.sh");
    check_str(listed(step(&story, "mv new x; mv run.sh new; mv x run.sh; chmod 755 new")),
              "M new|M run.sh");
    check_contains(story.changes[1]->patch.data, "rename from a.txt");
    story_end(&story);
}

TEST(patch, an_empty_step_has_no_patch_no_files_and_no_hash)
{
    struct story story;
    story_start(&story);
    struct workspace_change *change = step(&story, "touch a.txt; mkdir empty; echo x >debug.log");
    check_int(change->patch.len, ==, 0);
    check_int(change->file_count, ==, 0);
    check_str(change->hash, "");
    check_str(change->tree, box_out("git -C r rev-parse 'main^{tree}'"));
    box_sh("rm '%s/debug.log'", story.workspace.folder); /* ignored: not in a checkpoint */
    story_end(&story);
}

TEST(patch, binary_files_and_line_ends_come_back)
{
    struct story story;
    story_start(&story);
    step(&story, "head -c 100000 /dev/urandom >bin; printf 'a\\r\\nb\\r\\n' >crlf; "
                 "printf 'no end' >noend; : >empty; printf 'mixed\\r\\nx\\ny' >mixed");
    step(&story, "head -c 50 /dev/urandom >>bin; printf 'c\\r\\n' >>crlf; echo >>noend; "
                 "printf 'x' >empty; printf 'trailing   \\n\\t \\n' >>a.txt");
    step(&story, "printf 'a\\nb\\n' >crlf; mv bin bin2; printf '\\0' >noend; : >a.txt");
    step(&story, "rm bin2 crlf empty noend");
    story_end(&story);
}

TEST(patch, symbolic_links_come_back_also_those_that_lead_outside)
{
    struct story story;
    story_start(&story);
    step(&story, "ln -s /etc/passwd out; ln -s ../../.. up; ln -s nowhere dangling; ln -s dir d");
    step(&story, "rm link; ln -s dir/b.txt link; rm a.txt; ln -s run.sh a.txt");
    step(&story, "rm a.txt; echo file again >a.txt; rm out; mkdir out; echo x >out/x");
    step(&story, "rm d; mv dir d; ln -s d dir");
    step(&story, "rm dir; mkdir dir; mv d/b.txt dir/; rmdir d; ln -s dir d");
    check_int(box_status("test -s /etc/passwd"), ==, 0);
    story_end(&story);
}

/* Symptom: "affected file 'new/b.txt' is beyond a symbolic link" when the patch was replayed. */
TEST(patch, a_link_that_moves_makes_room_for_a_folder_of_its_name)
{
    struct story story;
    story_start(&story);
    step(&story, "ln -s dir new");
    step(&story, "mv new old; mkdir new; mv dir/b.txt new/");
    story_end(&story);
}

TEST(patch, a_file_becomes_a_folder_and_a_file_again)
{
    struct story story;
    story_start(&story);
    step(&story, "rm a.txt; mkdir a.txt; echo 1 >a.txt/one; echo 2 >a.txt/two");
    step(&story, "mkdir x; mv a.txt x/; mv x a.txt");
    step(&story, "mv a.txt/a.txt/one keep; rm -r a.txt; mv keep a.txt");
    step(&story, "mv dir/b.txt t; rmdir dir; mv t dir");
    step(&story, "mv dir t; mkdir dir; mv t dir/dir");
    story_end(&story);
}

TEST(patch, names_of_any_bytes_come_back)
{
    struct story story;
    story_start(&story);
    struct workspace_change *change = step(
        &story,
        "for n in 'with space' '-dash' 'quo\"te' \"ap'os\" 'back\\slash' 'gr\xC3\xBC\xC3\x9F' "
        "'*' '[a]' ':(top)x' '#hash' \"$(printf 'line\\nbreak')\" \"$(printf 'tab\\there')\" "
        "\"$(printf 'bad\\377utf8')\" ' lead' 'trail ' '/dev/null-not' ; do "
        "mkdir -p \"./$(dirname \"./$n\")\"; printf 'x\\n' >\"./$n\"; done; mkdir ./-d; echo y >./-d/-e");
    check_int(change->file_count, ==, 17);
    step(&story, "for f in ./* './ lead'; do test -d \"$f\" || echo more >>\"$f\"; done");
    step(&story, "mv ./-dash './--help'; mv './with space' \"$(printf 'new\\nname')\"; rm './*'");
    story_end(&story);
}

TEST(patch, untracked_files_are_in_ignored_ones_are_not_unless_git_was_made_to_track_them)
{
    struct story story;
    story_start(&story);
    check_str(listed(step(&story, "echo u >u.txt; echo i >i.log; echo f >forced.log; "
                                  "git add -f forced.log")),
              "A forced.log|A u.txt");
    check_str(listed(step(&story, "echo more >>forced.log; echo more >>i.log")), "M forced.log");
    check_str(listed(step(&story, "git rm -q --cached -f forced.log; echo u.txt >>.gitignore; "
                                  "echo more >>u.txt")),
              "M .gitignore|M u.txt");
    check_str(listed(step(&story, "rm forced.log u.txt i.log")), "D forced.log|D u.txt");
    story_end(&story);
}

TEST(patch, a_step_that_commits_stages_or_moves_head_has_the_same_patch)
{
    struct story story;
    story_start(&story);
    struct workspace plain = box_workspace(story.repo, "main");
    box_sh("cd '%s'; echo one >a.txt; echo n >new", plain.folder);
    const char *expected = box_checkpoint(&plain)->hash;
    check_str(step(&story, "echo one >a.txt; git commit -qam one; echo n >new; git add new")->hash,
              expected);
    check_str(
        step(&story, "git commit -qm two; git checkout -qb branch; git reset -q --soft main")->hash,
        "");
    check_str(listed(step(&story, "git reset -q --hard main; git stash list >log.txt")),
              "M a.txt|A log.txt|D new");
    step(&story, "rm -r .git; git init -q .; git add -A; git commit -qm own; echo x >x");
    box_drop(&plain);
    story_end(&story);
}

TEST(patch, the_index_of_the_step_is_left_as_it_is)
{
    struct story story;
    story_start(&story);
    box_sh("cd '%s'; echo staged >a.txt; git add a.txt; echo unstaged >a.txt; echo u >u",
           story.workspace.folder);
    const char *before = box_out("cd '%s'; git status --porcelain", story.workspace.folder);
    check_str(before, "MM a.txt\n?? u");
    step(&story, "true");
    check_str(box_out("cd '%s'; git status --porcelain", story.workspace.folder), before);
    story_end(&story);
}

TEST(patch, submodules_are_kept_as_pointers)
{
    struct story story;
    story_start(&story);
    box_repository("sub");
    step(&story, "git submodule --quiet add ../../sub inner");
    check_str(listed(story.changes[0]), "A .gitmodules|A inner");
    check_contains(story.changes[0]->patch.data, "new file mode 160000");
    check_str(listed(step(&story, "cd inner; echo x >a.txt; git commit -qam x")), "M inner");
    check_contains(story.changes[1]->patch.data, "+Subproject commit");
    check_str(listed(step(&story, "echo dirty >inner/a.txt; echo y >y")), "A y");
    check_str(listed(step(&story, "rm -rf inner; echo file >inner")), "T inner");
    check_str(listed(step(&story, "rm inner .gitmodules")), "D .gitmodules|D inner");
    story_end(&story);
}

TEST(patch, a_submodule_that_was_not_checked_out_is_no_change)
{
    struct story story;
    story_start(&story);
    box_repository("sub");
    box_sh("cd r && git submodule --quiet add ../sub inner && git commit -qm sub");
    struct workspace workspace = box_workspace(story.repo, "main");
    check_str(box_checkpoint(&workspace)->hash, "");
    box_sh("rmdir '%s/inner'", workspace.folder);
    check_str(listed(box_checkpoint(&workspace)), "D inner");
    box_drop(&workspace);
    box_drop(&story.workspace);
}

TEST(patch, a_nested_repository_without_a_commit_is_left_out)
{
    struct story story;
    story_start(&story);
    check_str(listed(step(&story, "git init -q nested; echo n >nested/n; echo x >x")), "A x");
    check_str(listed(step(&story, "cd nested; git add -A; git commit -qm n")), "A nested");
    box_sh("rm -rf '%s/nested/n'", story.workspace.folder); /* only the pointer is kept */
    step(&story, "rm -rf nested");
    story_end(&story);
}

TEST(patch, what_git_cannot_take_is_named)
{
    struct story story;
    struct err err = {0};
    struct workspace_change change;
    story_start(&story);
    box_sh("cd '%s'; rm a.txt; mkfifo a.txt; echo x >x", story.workspace.folder);
    check_int(workspace_checkpoint(&box_keeper, &story.workspace, &change, &err), <, 0);
    check_str(workspace_problem_name(box_keeper.problem), "untakeable");
    check_contains(err.text, "git add failed");
    check_contains(err.text, "a.txt");
    check_str(story.workspace.tree, box_out("git -C r rev-parse 'main^{tree}'"));
    check_str(listed(step(&story, "rm a.txt; mkfifo untracked")), "D a.txt|A x");
    box_sh("rm '%s/untracked'", story.workspace.folder);
    story_end(&story);
}

TEST(patch, attributes_and_settings_of_the_user_do_not_change_the_patch)
{
    struct story story;
    story_start(&story);
    struct workspace_change *plain =
        step(&story, "echo four >>a.txt; echo ein; mv run.sh r2; printf 'x \\n' >ws");
    struct workspace other = box_workspace(story.repo, "main");
    box_sh(
        "for s in diff.noprefix=true diff.mnemonicPrefix=true diff.renames=copies diff.context=0 "
        "diff.algorithm=patience color.ui=always core.autocrlf=true core.quotePath=false "
        "diff.external=false apply.whitespace=fix core.fileMode=false core.abbrev=4 "
        "diff.submodule=log diff.suppressBlankEmpty=true core.safecrlf=true core.eol=crlf "
        "diff.ignoreSubmodules=all core.sparseCheckout=true index.sparse=true "
        "core.splitIndex=true; do git -C r config ${s%%%%=*} ${s#*=}; done");
    setenv("GIT_DIR", "/nowhere", 1);
    setenv("GIT_INDEX_FILE", "/nowhere", 1);
    setenv("GIT_EXTERNAL_DIFF", "false", 1);
    setenv("GIT_DIFF_OPTS", "-u0", 1);
    box_sh("cd '%s'; echo four >>a.txt; echo ein; mv run.sh r2; printf 'x \\n' >ws", other.folder);
    struct workspace_change *same = box_checkpoint(&other);
    check_str(same->hash, plain->hash);
    check_str(same->patch.data, plain->patch.data);
    box_check_replay(story.repo, "main", &other, &same, 1);
    box_drop(&other);
    story_end(&story);
}

/* SH-3: two failed attempts that did the same are seen as such, and none becomes a checkpoint. */
TEST(patch, SH_3_a_look_at_the_difference_takes_no_checkpoint)
{
    struct story story;
    struct err err = {0};
    struct workspace_change change;
    char first[GIT_ID_BYTES];
    char second[GIT_ID_BYTES];
    story_start(&story);
    box_diff_hash(&story.workspace, first);
    check_str(first, "");
    box_sh("echo x >'%s/a.txt'", story.workspace.folder);
    box_diff_hash(&story.workspace, first);
    check_int(strlen(first), ==, 40);
    box_diff_hash(&story.workspace, second);
    check_str(second, first);
    box_sh("echo y >'%s/a.txt'", story.workspace.folder);
    box_diff_hash(&story.workspace, second);
    check(strcmp(first, second) != 0);
    box_sh("echo x >'%s/a.txt'; touch '%s/seen'", story.workspace.folder, story.workspace.folder);
    check_fine(workspace_diff(&box_keeper, &story.workspace, &change, &err), &err);
    check_str(listed(&change), "M a.txt|A seen");
    workspace_change_done(&change);
    check_str(story.workspace.tree, box_out("git -C r rev-parse 'main^{tree}'"));
    /* What was looked at once is not thereby tracked. */
    check_str(listed(step(&story, "echo seen >>.gitignore")), "M .gitignore|M a.txt");
    check_str(story.changes[0]->hash,
              box_out("git hash-object --stdin <<'END'\n%sEND", story.changes[0]->patch.data));
    box_sh("rm '%s/seen'", story.workspace.folder);
    story_end(&story);
}

/* A file at the end of a path that is longer than PATH_MAX. */
static void make_deep(const char *top)
{
    char name[200] = "";
    memset(name, 'd', sizeof name - 1);
    int here = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 30; i++) {
        check_int(mkdirat(here, name, 0700), ==, 0);
        int next = openat(here, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(here);
        here = next;
    }
    close(openat(here, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(here);
}

/* Symptom: git warns, ends well, and the checkpoint lacked the file. */
TEST(patch, folders_too_deep_for_git_are_an_error_and_go_with_the_workspace)
{
    struct story story;
    struct err err = {0};
    struct workspace_change change;
    story_start(&story);
    make_deep(story.workspace.folder);
    check_int(workspace_checkpoint(&box_keeper, &story.workspace, &change, &err), <, 0);
    check_str(workspace_problem_name(box_keeper.problem), "untakeable");
    check_contains(err.text, "git cannot take folders so deep");
    box_drop(&story.workspace);
}
