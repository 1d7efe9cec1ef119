/* For tests of runners with a repository of their own. */
#ifndef TEND_REPO_CASE_H
#define TEND_REPO_CASE_H

#include <stdint.h>

/* A shell line in the test's folder; it must succeed. */
void shell(const char *command);

/* A repository "repo" with one commit, and a change nobody has committed. */
void make_repository(void);

/* A plan with these steps in a workspace of it; $T is the test's folder. */
const char *with_workspace(const char *steps);

/* How many workspaces of a job are on the disk. */
int workspaces_of(int64_t id);

#endif
