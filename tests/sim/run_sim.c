/* See run_sim.h. */
#include "run_sim.h"

#include "support/test.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool sim_on_postgres(void)
{
    const char *store = getenv("TEND_TEST_STORE");
    return store != NULL && strcmp(store, "postgres") == 0;
}

/* The program lies in a folder beside this one. */
static const char *sim_path(void)
{
    static char path[PATH_MAX];
    char own[PATH_MAX - 16] = "";
    check_int(readlink("/proc/self/exe", own, sizeof own - 1), >, 0);
    *strrchr(own, '/') = '\0';
    snprintf(path, sizeof path, "%s/sim/sim", own);
    return path;
}

pid_t sim_start(const char *const *arguments, const char *output)
{
    const char *argv[16] = {sim_path(), "--store",
                            sim_on_postgres() ? getenv("TEND_TEST_PG_URL") : "sqlite"};
    size_t count = 3;
    check(argv[2] != NULL);
    while (*arguments != NULL)
        argv[count++] = *arguments++;
    pid_t child = fork();
    check_int(child, >=, 0);
    if (child == 0) {
        if (output != NULL && (freopen(output, "w", stdout) == NULL || dup2(1, 2) < 0))
            _exit(127);
        execv(argv[0], (char *const *)argv);
        _exit(127);
    }
    return child;
}

int sim_end_of(pid_t child)
{
    int status = 0;
    check_int(waitpid(child, &status, 0), ==, child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *sim_contents(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    check(file != NULL);
    check_int(getdelim(&text, &room, '\0', file), >, 0);
    fclose(file);
    return text;
}

void sim_check_caught(const char *sabotage)
{
    const char *const arguments[] = {"--from", "0", "--count", "300", "--sabotage", sabotage, NULL};
    int status = sim_end_of(sim_start(arguments, test_path("output")));
    char *output = sim_contents(test_path("output"));
    check_contains(output, "--seed ");
    check_contains(output, sabotage);
    check_int(status, ==, 1);
    free(output);
}
