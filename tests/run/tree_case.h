/* What the tests of run/tree share. TEND_BUILD names the build folder. */
#ifndef TESTS_RUN_TREE_CASE_H
#define TESTS_RUN_TREE_CASE_H

#include "base/err.h"
#include "base/proc.h"
#include "run/tree.h"
#include "support/test.h"

#include <stdint.h>

enum { WAIT_MS = 40000 };

const char *helper_path(void);
const char *actor_path(void);

struct tree_pool *open_pool(void);

/* A role of the actor and its arguments; the rest as tree_spec_init, and an environment of PATH
 * alone. */
#define actor_spec(...) actor_spec_of((const char *const[]){__VA_ARGS__, NULL})
struct tree_spec actor_spec_of(const char *const *args);

struct tree *spawn(struct tree_pool *pool, const struct tree_spec *spec);

/* Waits for the next event, which must be this one. */
struct tree_event expect(struct tree *tree, enum tree_event_kind kind);

/* Started and ended; the tree is freed. */
struct tree_event run_to_end(struct tree_pool *pool, const struct tree_spec *spec);

/* The pids an actor has written to a file of the test's folder, one per line; waits for `least`. */
size_t read_pids(const char *path, int64_t *pids, size_t room, size_t least);
struct proc_id wait_for_process(const char *path);

/* Of the process's parent. */
int64_t parent_of(int64_t pid);

/* Living processes that have this argument. */
size_t count_with_argument(const char *argument);

/* The output of a command that ends; *ret_len may be NULL. */
char *read_output(struct tree_pool *pool, struct tree_spec *spec, size_t *ret_len,
                  struct tree_event *ret_event);

#define wait_until_gone(id) wait_until(proc_fate(&(id)) == PROC_DEAD, WAIT_MS)

#endif
