/*
 * Repositories of every kind as the source of workspaces (SH-7, BY-10): how they keep objects, what
 * they lack, whom they belong to, and where the copies lie.
 */
#include "run/workspace_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A workspace of the repository works, its checkpoint too, and the repository stays as it is. */
static void check_source(const char *repo, const char *ref)
{
    const char *before = box_repository_state(repo);
    struct workspace workspace = box_workspace(repo, ref);
    check_str(box_out("git -C '%s' rev-parse HEAD", workspace.folder),
              box_out("git -C '%s' rev-parse '%s^{commit}'", repo, ref));
    box_sh("cd '%s' && test -z \"$(git status --porcelain)\" && git fsck --connectivity-only "
           "2>/dev/null && git log --all >/dev/null && echo x >a.txt",
           workspace.folder);
    struct workspace_change *change = box_checkpoint(&workspace);
    check_int(change->file_count, ==, 1);
    box_check_replay(repo, ref, &workspace, &change, 1);
    box_drop(&workspace);
    check_str(box_repository_state(repo), before);
}

TEST(source, ids_of_64_digits_will_do_by_folder_and_by_url)
{
    box_init();
    char url[4096];
    box_sh("git init -q --object-format=sha256 r && cd r && echo a >a.txt && git add . && "
           "git commit -qm a");
    check_source("r", "main");
    box_sh("cd r && echo b >>a.txt && git commit -qam b");
    check_source("r", "main");
    check_source("r", "main~1");
    snprintf(url, sizeof url, "file://%s", test_path("r"));
    for (int i = 0; i < 2; i++) {
        struct workspace workspace = box_workspace(url, "main");
        check_int(strlen(workspace.commit), ==, 64);
        box_sh("git -C '%s' fsck 2>/dev/null", workspace.folder);
        box_drop(&workspace);
    }
}

TEST(source, packed_loose_and_mixed_objects_are_all_taken)
{
    box_init();
    box_repository("r");
    check_source("r", "main");
    box_sh("cd r && git gc -q && echo 2 >a.txt && git commit -qam 2 && rm -rf ../cache");
    check_source("r", "main");
    box_sh("cd r && git repack -qd && echo 3 >a.txt && git commit -qam 3");
    check_source("r", "main");
    check_source("r", "main~2");
    /* Many packs, and none of them in the copy that is there. */
    box_sh("cd r && for i in 1 2 3 4; do echo $i >a.txt; git commit -qam $i; git repack -qd; done");
    check_source("r", "main");
}

TEST(source, a_repository_that_borrows_objects_itself_will_do_also_when_the_lender_goes)
{
    box_init();
    box_repository("lender");
    box_sh("git clone -q --shared lender middle && git clone -q --shared middle r && cd r && "
           "echo 2 >a.txt && git commit -qam 2");
    check_source("r", "main");
    struct workspace workspace = box_workspace("r", "main");
    box_sh("rm -rf lender middle && git -C '%s' fsck 2>/dev/null", workspace.folder);
    box_drop(&workspace);
}

TEST(source, a_commit_that_no_ref_leads_to_is_found)
{
    box_init();
    box_repository("r");
    box_sh("cd r && git checkout -q --detach && echo 2 >a.txt && git commit -qam 2");
    check_source("r", "HEAD");
    const char *lost = box_out("cd r && git commit-tree -m lost -p HEAD 'HEAD^{tree}'");
    check_source("r", lost);
    /* Not one ref. */
    box_sh("cd r && git for-each-ref --format='delete %%(refname)' | git update-ref --stdin");
    check_source("r", "HEAD");
    box_sh("rm -rf cache");
    check_source("r", "HEAD");
}

/* Symptom: the steps ran without the user's attributes, or in a history that was cut elsewhere. */
TEST(source, a_file_of_the_user_s_git_folder_that_cannot_be_read_is_an_error)
{
    static const char *const names[] = {"info/attributes", "info/exclude"};
    struct workspace_source source;
    struct err err;
    box_init();
    box_repository("r");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        box_sh("cd r/.git/info && rm -f attributes exclude && ln -s $(basename %s) $(basename %s)",
               names[i], names[i]);
        check_int(workspace_resolve(&box_keeper, "r", "main", &source, &err), <, 0);
        check_contains(err.text, names[i]);
    }
}

/* Symptom: after an amend and `git gc`, a job that had begun failed for good: no such commit. */
TEST(source, a_commit_that_the_user_has_rewritten_is_taken_from_the_copy)
{
    static const char *const rewrites[] = {
        "git commit -q --amend -m other",
        "git checkout -q --orphan fresh && git branch -qD main",
    };
    box_init();
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
        box_sh("rm -rf r cache");
        const char *repo = box_repository("r");
        const char *commit = box_out("git -C r rev-parse main");
        struct workspace before = box_workspace(repo, "main");
        box_sh("cd r && git remote add origin ../elsewhere && %s && "
               "git reflog expire --all --expire=now && git gc -q --prune=now",
               rewrites[i]);
        check_int(box_status("git -C r cat-file -e %s 2>/dev/null", commit), !=, 0);
        struct workspace after = box_workspace(repo, commit);
        check_str(box_content(after.folder), box_content(before.folder));
        check_str(box_out("git -C '%s' remote", after.folder), "origin");
        /* A copy that another one replaces gives it what the user has no longer. */
        box_sh("cd cache/*.git && touch tend-stuck");
        struct workspace third = box_workspace(repo, commit);
        check_str(box_content(third.folder), box_content(before.folder));
        check_str(box_out("ls cache | grep -c '[.]git$'"), "2");
        box_drop(&third);
        box_drop(&after);
        box_drop(&before);
    }
}

TEST(source, the_limits_of_a_shallow_repository_follow_the_user_s)
{
    box_init();
    box_repository("r");
    box_sh("cd r && for i in 1 2 3 4 5; do echo $i >a.txt; git commit -qam $i; done; cd .. && "
           "git clone -q --depth 2 'file://%s' shallow",
           test_path("r"));
    check_source("shallow", "main");
    struct workspace workspace = box_workspace("shallow", "main");
    check_str(box_out("git -C '%s' rev-list --count HEAD", workspace.folder), "2");
    box_drop(&workspace);
    box_sh("cd shallow && echo 6 >a.txt && git commit -qam 6");
    check_source("shallow", "main");
    box_sh("cd shallow && git fetch -q --deepen 1");
    workspace = box_workspace("shallow", "main");
    check_str(box_out("git -C '%s' rev-list --count HEAD", workspace.folder), "4");
    box_drop(&workspace);
    box_sh("cd shallow && git fetch -q --unshallow");
    workspace = box_workspace("shallow", "main");
    check_str(box_out("git -C '%s' rev-list --count HEAD", workspace.folder), "7");
    box_sh("git -C '%s' fsck 2>/dev/null", workspace.folder);
    box_drop(&workspace);
}

/* What it lacks is fetched from where the user would get it, and not into his repository. */
TEST(source, what_a_partial_clone_lacks_is_fetched_once_and_not_into_the_user_s_repository)
{
    box_init();
    box_repository("r");
    box_sh(
        "cd r && echo 2 >a.txt && git commit -qam 2 && git config uploadpack.allowFilter true && "
        "git config uploadpack.allowAnySHA1InWant true && cd .. && "
        "git clone -q --no-checkout --filter=blob:none 'file://%s' partial",
        test_path("r"));
    const char *before = box_repository_state("partial");
    struct workspace workspace = box_workspace("partial", "main~1");
    check_str(box_out("cat '%s/a.txt'", workspace.folder), "one\ntwo\nthree");
    check_str(box_repository_state("partial"), before);
    /* The second one needs no other machine. */
    box_sh("mv r away");
    struct workspace second = box_workspace("partial", "main~1");
    check_str(box_out("cat '%s/a.txt'", second.folder), "one\ntwo\nthree");
    box_sh("echo x >'%s/a.txt'", second.folder);
    struct workspace_change *change = box_checkpoint(&second);
    box_check_replay("partial", "main~1", &second, &change, 1);
    box_sh("mv away r && cd '%s' && git checkout -q main && test \"$(cat a.txt)\" = 2",
           workspace.folder);
    box_sh("cd partial && git read-tree HEAD && git checkout -q -- . && echo 3 >a.txt && "
           "git commit -qam 3");
    before = box_repository_state("partial");
    struct workspace third = box_workspace("partial", "main");
    check_str(box_out("cat '%s/a.txt'", third.folder), "3");
    check_str(box_repository_state("partial"), before);
    box_drop(&workspace);
    box_drop(&second);
    box_drop(&third);
}

TEST(source, a_broken_ref_of_the_user_is_not_in_the_way)
{
    box_init();
    box_repository("r");
    box_sh("cd r && echo 0123456789012345678901234567890123456789 >.git/refs/heads/broken && "
           "echo garbage >.git/refs/heads/garbage && "
           "git symbolic-ref refs/heads/dangling refs/heads/nowhere");
    for (int i = 0; i < 2; i++) {
        struct workspace workspace = box_workspace("r", "main");
        check_str(
            box_out("git -C '%s' branch --format='%%(refname)' --list main", workspace.folder),
            "refs/heads/main");
        box_drop(&workspace);
        box_sh("cd r && echo %d >a.txt && git commit -qam %d", i, i);
    }
}

TEST(source, a_submodule_and_a_repository_with_its_git_folder_elsewhere_will_do)
{
    box_init();
    box_repository("sub");
    box_repository("r");
    box_sh("cd r && git submodule --quiet add ../sub inner && git commit -qm sub && cd .. && "
           "git init -q --separate-git-dir=elsewhere apart && cd apart && echo a >a.txt && "
           "git add . && git commit -qm a");
    check_source("r/inner", "main");
    check_source("apart", "main");
    struct workspace workspace = box_workspace("r", "main");
    box_sh("cd '%s' && git submodule --quiet update --init && test -e inner/a.txt",
           workspace.folder);
    check_str(box_checkpoint(&workspace)->hash, "");
    box_drop(&workspace);
}

TEST(source, an_empty_commit_gives_an_empty_workspace)
{
    box_init();
    box_sh("git init -q r && cd r && git commit -q --allow-empty -m empty");
    struct workspace workspace = box_workspace("r", "main");
    box_sh("echo x >'%s/x'", workspace.folder);
    struct workspace_change *change = box_checkpoint(&workspace);
    check_int(change->file_count, ==, 1);
    box_check_replay("r", "main", &workspace, &change, 1);
    box_drop(&workspace);
}

TEST(source, transports_that_the_user_forbids_do_not_forbid_a_folder)
{
    box_init();
    box_repository("r");
    box_sh(
        "git config --global protocol.allow never; git config --global protocol.file.allow never; "
        "git config --global transfer.fsckObjects true");
    setenv("GIT_ALLOW_PROTOCOL", "https", 1);
    struct workspace workspace = box_workspace("r", "main");
    box_drop(&workspace);
    box_sh("cd r && echo 2 >a.txt && git commit -qam 2");
    workspace = box_workspace("r", "main");
    check_str(box_out("cat '%s/a.txt'", workspace.folder), "2");
    box_drop(&workspace);
}

/* Symptom: filters that are set for the whole machine, as Git LFS sets its own with --system, were
 * not applied: files that belong to them were pointers. URLs that it rewrites were not found. */
TEST(source, the_configuration_of_the_machine_counts_for_checkouts_and_fetches)
{
    box_init();
    box_repository("r");
    box_sh("cd r && echo '*.big filter=big' >.gitattributes && echo pointer >x.big && "
           "git add . && git commit -qm big");
    box_sh("git config -f system filter.big.smudge 'sed s/pointer/content/'; "
           "git config -f system filter.big.clean 'sed s/content/pointer/'; "
           "git config -f system \"url.file://$PWD/.insteadOf\" short:");
    unsetenv("GIT_CONFIG_NOSYSTEM");
    setenv("GIT_CONFIG_SYSTEM", test_path("system"), 1);
    for (int by_url = 0; by_url < 2; by_url++) {
        struct workspace workspace = box_workspace(by_url ? "short:r" : "r", "main");
        check_str(box_out("cat '%s/x.big'", workspace.folder), "content");
        box_sh("echo more >>'%s/x.big'", workspace.folder);
        struct workspace_change *change = box_checkpoint(&workspace);
        box_check_replay("r", workspace.commit, &workspace, &change, 1);
        box_drop(&workspace);
    }
}

/* Symptom: another attempt was made, and again, at what git never allows. */
TEST(source, SH_4_a_forbidden_transport_is_final)
{
    box_init();
    static const struct {
        const char *repo, *problem, *class, *text;
    } cases[] = {
        {"ext::sh -c true", "not_allowed", "deterministic_policy", "transport 'ext' not allowed"},
        {"fd::7", "not_allowed", "deterministic_policy", "transport 'fd' not allowed"},
        {"file:///nowhere", "not_allowed", "deterministic_policy", "transport 'file' not allowed"},
        {"ssh://-oProxyCommand=x/y", "not_allowed", "deterministic_policy", "strange hostname"},
        {"foo://example.org/x", "not_a_repository", "deterministic_repo", "not a git command"},
    };
    box_sh("git config --global protocol.file.allow never");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct workspace_source source;
        check_int(workspace_resolve(&box_keeper, cases[i].repo, "main", &source, &err), <, 0);
        check_str(workspace_problem_name(box_keeper.problem), cases[i].problem);
        check_str(workspace_problem_class(box_keeper.problem), cases[i].class);
        check_contains(err.text, cases[i].text);
    }
}

TEST(source, a_repository_of_somebody_else_is_refused_until_it_is_trusted)
{
    box_init();
    struct err err = {0};
    struct workspace_source source;
    box_repository("r");
    if (geteuid() != 0)
        return; /* nobody else can own a folder of ours */
    box_sh("chown -R 65534 r");
    check_int(workspace_resolve(&box_keeper, "r", "main", &source, &err), ==, TEND_EREADONLY);
    check_str(workspace_problem_class(box_keeper.problem), "deterministic_policy");
    check_contains(err.text, "safe.directory");
    box_sh("git config --global safe.directory '%s'", test_path("r"));
    check_source("r", "main");
    box_sh("cd r && echo 2 >a.txt && git commit -qam 2");
    check_source("r", "main");
}

/* Where hard links are not possible the objects are copied. */
TEST(source, a_copy_may_lie_on_another_disk)
{
    box_init();
    struct stat here;
    struct stat there;
    char folder[] = "/dev/shm/tend-test-XXXXXX";
    box_repository("r");
    box_sh("cd r && git gc -q && echo 2 >a.txt && git commit -qam 2");
    if (stat("/dev/shm", &there) < 0 || stat(".", &here) < 0 || here.st_dev == there.st_dev ||
        mkdtemp(folder) == NULL)
        return; /* there is no other disk */
    box_keeper.cache_folder = folder;
    check_source("r", "main");
    box_sh(
        "test -z \"$(find '%s' -name 'tmp_*')\" && test \"$(find '%s' -name '*.pack' | wc -l)\" = 1",
        folder, folder);
    box_sh("rm -rf '%s'", folder);
}
