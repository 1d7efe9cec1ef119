/*
 * Checkpoints are of the bytes on the disk (SH-9, SH-10): what a step has left is what a replay
 * brings back, whatever attributes and settings would make of it.
 */
#include "run/workspace_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Files that git converts on their way, in every manner it has. */
static const char *converting_repository(void)
{
    box_sh("set -e; git init -q r; cd r; "
           "printf '*.txt eol=crlf\\n*.auto text=auto\\n*.id ident\\n*.rot filter=rot\\n"
           "*.u16 text working-tree-encoding=UTF-16LE\\n[attr]dos text eol=crlf\\n*.bat dos\\n' "
           ">.gitattributes; git config filter.rot.clean 'tr a-z n-za-m'; "
           "git config filter.rot.smudge 'tr a-z n-za-m'; "
           "printf 'one\\ntwo\\n' >a.txt; printf 'one\\ntwo\\n' >b.bat; printf 'x\\ny\\n' >c.auto; "
           "printf '$Id$\\nx\\n' >d.id; echo secret >e.rot; "
           "printf 'u\\0\\n\\0' >f.u16; printf 'plain\\n' >plain; ln -s a.txt link.txt; "
           "git add -A; git commit -qm start");
    return test_path("r");
}

static const char *bytes_of(const struct workspace *workspace, const char *name)
{
    return box_out("od -An -c '%s/%s' | tr -d ' \\n'", workspace->folder, name);
}

struct bytes_story {
    struct workspace workspace;
    struct workspace_change *changes[16];
    size_t count;
};

static struct workspace_change *step(struct bytes_story *story, const char *line)
{
    box_sh("set -e; cd '%s'; %s", story->workspace.folder, line);
    struct workspace_change *change = box_checkpoint(&story->workspace);
    story->changes[story->count++] = change;
    return change;
}

static void story_end(struct bytes_story *story)
{
    box_check_replay("r", "main", &story->workspace, story->changes, story->count);
    box_drop(&story->workspace);
}

TEST(bytes, a_fresh_workspace_has_no_change_also_when_its_files_were_converted)
{
    box_init();
    converting_repository();
    struct bytes_story story = {.workspace = box_workspace("r", "main")};
    check_str(bytes_of(&story.workspace, "a.txt"), "one\\r\\ntwo\\r\\n");
    check_str(bytes_of(&story.workspace, "b.bat"), "one\\r\\ntwo\\r\\n");
    check_str(bytes_of(&story.workspace, "c.auto"), "x\\ny\\n");
    check_contains(bytes_of(&story.workspace, "d.id"), "$Id:");
    check_str(bytes_of(&story.workspace, "e.rot"), "secret\\n");
    check_str(bytes_of(&story.workspace, "f.u16"), "u\\0\\n\\0");
    check_str(box_out("git -C '%s' status --porcelain", story.workspace.folder), "");
    check_str(step(&story, "true")->hash, "");
    check_str(step(&story, "sleep 0; touch *; cat a.txt >x; cat x >a.txt; rm x")->hash, "");
    story_end(&story);
}

/* Symptom: after a hard reset files had other line ends than the steps had left. */
TEST(bytes, SH_10_line_ends_idents_encodings_and_filtered_files_come_back_as_they_were)
{
    box_init();
    converting_repository();
    box_sh("cd r && git config core.autocrlf true && git config core.eol crlf");
    struct bytes_story story = {.workspace = box_workspace("r", "main")};
    check_int(step(&story, "printf 'lf\\n' >>a.txt")->file_count, ==, 1); /* mixed */
    step(&story,
         "printf 'a\\nb\\r\\nc\\n' >new.txt; printf 'a\\nb\\n' >lf.txt; "
         "printf 'a\\r\\nb\\n' >mixed.auto; printf 'a\\r\\n' >crlf.auto; printf 'a\\r' >cr");
    step(&story, "printf '$Id: mine $\\n' >d.id; printf '$Id$\\n' >new.id; echo abc >new.rot; "
                 "echo more >>e.rot; printf 'v\\0\\r\\0\\n\\0' >>f.u16; printf 'odd' >broken.u16");
    step(&story, "sed -i 's/\\r//' a.txt b.bat; rm plain; mv c.auto moved.auto; chmod 755 d.id");
    check_str(bytes_of(&story.workspace, "a.txt"), "one\\ntwo\\nlf\\n");
    check_str(bytes_of(&story.workspace, "mixed.auto"), "a\\r\\nb\\n");
    story_end(&story);
}

TEST(bytes, settings_of_the_user_alone_change_no_byte)
{
    static const char *const settings[] = {"core.autocrlf true", "core.autocrlf input",
                                           "core.eol crlf", "core.safecrlf true"};
    box_init();
    box_repository("r");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        box_sh("git -C r config %s; git config --global %s", settings[i], settings[i]);
        struct bytes_story story = {.workspace = box_workspace("r", "main")};
        check_str(bytes_of(&story.workspace, "a.txt"), "one\\ntwo\\nthree\\n");
        step(&story,
             "printf 'a\\r\\nb\\n' >mixed; printf 'a\\r\\n' >crlf; sed -i 's/$/\\r/' a.txt");
        /* The step's own git converts as the user wants it, and the bytes are kept. */
        step(
            &story,
            "git add -A 2>/dev/null || true; git commit -qm x 2>/dev/null || true; rm a.txt; git checkout -q -- a.txt");
        story_end(&story);
    }
}

TEST(bytes, attributes_that_a_step_adds_change_no_byte)
{
    box_init();
    box_repository("r");
    struct bytes_story story = {.workspace = box_workspace("r", "main")};
    step(&story, "printf '*.txt eol=crlf\\n* ident\\n' >.gitattributes; printf 'a\\nb\\n' >n.txt");
    step(&story, "printf 'c\\r\\n' >>n.txt; rm dir/b.txt; git add -A; git commit -qm x; "
                 "git checkout -q -- .");
    step(&story, "rm .gitattributes");
    story_end(&story);
}

TEST(bytes, attributes_beside_the_repository_count_too)
{
    box_init();
    box_repository("r");
    box_sh("echo 'a.txt eol=crlf' >r/.git/info/attributes; mkdir -p .config/git; "
           "echo 'b.txt eol=crlf' >.config/git/attributes");
    struct bytes_story story = {.workspace = box_workspace("r", "main")};
    check_str(bytes_of(&story.workspace, "a.txt"), "one\\r\\ntwo\\r\\nthree\\r\\n");
    check_str(bytes_of(&story.workspace, "dir/b.txt"), "b\\r\\n");
    check_str(step(&story, "touch a.txt dir/b.txt")->hash, "");
    step(&story, "printf 'lf\\n' >>a.txt");
    story_end(&story);
}

/* --- patches of earlier versions --- */

/* As git makes it of what would be committed; that is what earlier versions kept. */
static const char *earlier_patch(const char *line)
{
    box_sh("set -e; rm -rf old; git clone -q r old; cd old; git config filter.rot.clean cat; %s; "
           "git add -A",
           line);
    return box_out("cd old && git diff --cached --binary --full-index && echo .");
}

static int replay(const char *text, const char *ref, struct err *err)
{
    struct workspace workspace = box_workspace("r", ref);
    struct workspace_patch patch = {"old", text, strlen(text) - 1}; /* without the dot */
    size_t failed = 9;
    int rc = workspace_replay(&box_keeper, &workspace, &patch, 1, &failed, err);
    check_int(failed, ==, rc < 0 ? 0 : 9);
    check_str(box_checkpoint(&workspace)->hash, "");
    box_drop(&workspace);
    return rc;
}

TEST(bytes, a_patch_of_an_earlier_version_applies_unless_conversions_are_at_work)
{
    struct err err = {0};
    box_init();
    box_repository("r");
    check_fine(replay(earlier_patch("echo x >>a.txt; echo about .gitattributes >n"), "main", &err),
               &err);
    check_int(replay(earlier_patch("echo '* eol=crlf' >dir/.gitattributes"), "main", &err), ==,
              TEND_ECONFLICT);
    check_contains(err.text, "the patch of step old is of an earlier version");
    check_str(workspace_problem_name(box_keeper.problem), "fine"); /* of the checkpoint after it */
    box_sh("rm -rf r cache");
    converting_repository();
    check_int(replay(earlier_patch("printf 'x\\n' >new.txt"), "main", &err), ==, TEND_ECONFLICT);
    check_contains(err.text, "the patch of step old is of an earlier version");
}

/* --- cost --- */

/* The commands that git was started with, one per line. */
static const char *commands_of_a_workspace(void)
{
    box_sh("mkdir -p bin && printf '#!/bin/sh\\necho \"$@\" >>\"%s\"\\nexec \"%s\" \"$@\"\\n' "
           ">bin/git && chmod +x bin/git && rm -f log",
           test_path("log"), box_out("command -v git"));
    char before[4096];
    char with[8192];
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    snprintf(with, sizeof with, "%s:%s", test_path("bin"), before);
    setenv("PATH", with, 1);
    struct workspace workspace = box_workspace("r", "main");
    setenv("PATH", before, 1);
    box_drop(&workspace);
    return box_out("cat log");
}

TEST(bytes, no_file_is_hashed_where_attributes_convert_nothing)
{
    box_init();
    box_repository("r");
    box_sh("cd r && printf '* text=auto\\n*.png binary\\n*.sh text eol=lf\\n' >.gitattributes && "
           "git add -A && git commit -qm attributes");
    const char *commands = commands_of_a_workspace();
    check_contains(commands, "read-tree");
    check(strstr(commands, "update-index") == NULL);
    check(strstr(commands, "check-attr") == NULL);
    check(strstr(commands, "write-tree") == NULL);
    box_sh("rm -rf r cache");
    converting_repository();
    check_contains(commands_of_a_workspace(), "update-index");
}

/* Symptom: "git diff-tree failed: Out of memory, malloc failed", tried again and again. */
TEST_WITHIN(bytes, SH_4_a_file_too_large_for_git_is_final_and_is_named, 300)
{
    box_init();
    struct err err = {0};
    struct workspace_change change;
    box_repository("r");
    struct workspace workspace = box_workspace("r", "main");
    box_keeper.limits.timeout_ms = 0; /* to hash it takes its time */
    box_sh("truncate -s 2200M '%s/big.bin'; echo x >'%s/small'", workspace.folder,
           workspace.folder);
    check_int(workspace_checkpoint(&box_keeper, &workspace, &change, &err), ==, TEND_ELIMITED);
    check_str(workspace_problem_class(box_keeper.problem), "deterministic_repo");
    check_contains(err.text, "file big.bin has 2306867200 bytes");
    /* For people it is named, and does not hide the others. */
    check_fine(workspace_diff_briefly(&box_keeper, &workspace, 100000, &change, &err), &err);
    check_int(change.file_count, ==, 2);
    check_contains(change.patch.data, "Binary files /dev/null and b/big.bin differ");
    check_contains(change.patch.data, "+x");
    workspace_change_done(&change);
    box_sh("rm '%s/big.bin'", workspace.folder);
    check_int(box_checkpoint(&workspace)->file_count, ==, 1);
    box_drop(&workspace);
}
