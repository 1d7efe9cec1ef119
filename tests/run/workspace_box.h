/*
 * What the tests of git and workspaces share: a home of their own, so that no configuration of the
 * machine is seen; shell lines; repositories; and two folders compared byte for byte.
 */
#ifndef TEND_TEST_WORKSPACE_BOX_H
#define TEND_TEST_WORKSPACE_BOX_H

#include "run/workspace.h"
#include "support/test.h"

#include <string.h>
#include <tend.h>

/* Call first: HOME, the configuration of git and the current folder are the test's own. */
void box_init(void);

/* A shell line in the test's folder; it must succeed. */
void box_sh(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Its exit status. */
int box_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What it prints, without the last line's end; lives until the test ends. */
const char *box_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A repository with one commit: a.txt, dir/b.txt, run.sh (executable), link. Returns its path. */
const char *box_repository(const char *name);

/* Everything below a folder: kinds, modes, links and bytes, without .git at its top. */
const char *box_content(const char *folder);

/* Everything below the folder of a repository, byte for byte: refs, index, objects, files. */
const char *box_repository_state(const char *path);

/* Calls that must succeed, with the sentence when they do not. */
#define check_fine(rc, err) test_check_fine(__FILE__, __LINE__, #rc, (rc), (err))
void test_check_fine(const char *file, int line, const char *what, int rc, const struct err *err);

extern struct workspace_keeper box_keeper;

/* A workspace of repo at ref, below the folder work. Freed by box_drop. */
struct workspace box_workspace(const char *repo, const char *ref);
void box_drop(struct workspace *workspace);

/* A checkpoint; freed when the test ends. */
struct workspace_change *box_checkpoint(struct workspace *workspace);

/* The hash of what has changed since the last checkpoint; returns how many files have. */
size_t box_diff_hash(struct workspace *workspace, char ret_hash[GIT_ID_BYTES]);

/* The changes replayed in a fresh workspace; it must then have the same tree and content. */
void box_check_replay(const char *repo, const char *ref, const struct workspace *original,
                      struct workspace_change *const *changes, size_t count);

#endif
