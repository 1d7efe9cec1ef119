/* Starting `sim` (sim_main.c) from a test. */
#ifndef SIM_RUN_SIM_H
#define SIM_RUN_SIM_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether TEND_TEST_STORE says so. */
bool sim_on_postgres(void);

/* Output goes to the test's, or to the file where one is named. Arguments end with NULL. */
pid_t sim_start(const char *const *arguments, const char *output);

/* Its exit status; 128 and the signal when it was killed. */
int sim_end_of(pid_t child);

/* A whole file, to be freed. */
char *sim_contents(const char *path);

/* A deliberate defect between library and store must be seen, and the message must say how to
 * repeat it. */
void sim_check_caught(const char *sabotage);

#endif
