/* Shared by test.c (inside a test) and test_main.c (around it). Tests include test.h only. */
#ifndef TEND_TEST_RUNNER_H
#define TEND_TEST_RUNNER_H

#include "support/test.h"

/* Written by the test's processes, read by the runner. In shared memory. */
struct test_outcome {
    unsigned checks;   /* how many checks were made, in all processes of the test */
    bool returned;     /* the test's function came to its end */
    char skipped[120]; /* why the test could not be made here; "": it was */
};

extern struct test_outcome *test_outcome;
extern char test_folder_path[]; /* made only when the test asks for it */

struct test_case *test_first(void);

#endif
