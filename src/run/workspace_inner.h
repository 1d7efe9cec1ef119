/* What the files of a workspace share among themselves; nobody else includes it. */
#ifndef RUN_WORKSPACE_INNER_H
#define RUN_WORKSPACE_INNER_H

#include "run/workspace.h"

/* Notes the problem and returns rc. */
int workspace_fail(struct workspace_keeper *keeper, enum workspace_problem problem, int rc);

/* As workspace_fail, by a code that came from files_… */
int workspace_file_fail(struct workspace_keeper *keeper, int rc);

/*
 * Runs git patiently under the keeper's limits and notes the problem when it fails. A failure that
 * is known by what git says comes back as TEND_ENOTFOUND for what is no repository, TEND_EREADONLY
 * where permission is missing.
 */
int workspace_git(struct workspace_keeper *keeper, struct git_call *call,
                  struct git_outcome *ret_outcome, struct err *err);

/* As above; git's output, which must be one line, goes to out without its end. */
int workspace_git_line(struct workspace_keeper *keeper, struct git_call *call,
                       struct git_outcome *ret_outcome, char *out, size_t size, struct err *err);

/* A call on the workspace by its own index and object store. */
struct git_call workspace_call(const struct workspace *workspace, const char *const *args);

/* Whether repo names a repository of another machine. */
bool workspace_is_remote(const char *repo);

/*
 * Brings the copy of another machine's repository up to date, makes it first when it is not there.
 * *ret_folder is the caller's to free.
 */
int workspace_mirror(struct workspace_keeper *keeper, const char *url, const char *ref,
                     char **ret_folder, struct err *err);

/* The sentence for a ref that is not there, with the one that looks most like it. */
int workspace_ref_missing(struct workspace_keeper *keeper, const char *git_folder, const char *repo,
                          const char *ref, struct err *err);

#endif
