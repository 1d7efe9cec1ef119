/*
 * What the tests of run/tree start: processes that behave as badly as steps do, and a worker that
 * can be killed. usage: tree_actor ROLE [ARGUMENT…]
 *
 * Those that wait do so for two minutes at most, so that nothing stays when a test fails.
 */
#include "run/tree_actor.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAFETY_S = 120, COMETS_MOST = 64 };

void actor_note_pid(const char *path)
{
    char line[32];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int len = snprintf(line, sizeof line, "%d\n", (int)getpid());
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        _exit(3);
    close(fd);
}

void actor_linger(void)
{
    alarm(SAFETY_S);
    for (;;)
        pause();
}

/* Until something is written in it. */
static void wait_for_file(const char *path)
{
    struct stat status;
    alarm(SAFETY_S);
    while (stat(path, &status) != 0 || status.st_size == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void linger(char **args)
{
    actor_note_pid(args[0]);
    actor_linger();
}

/* Ends itself by a signal, or with a status. */
static void end(char **args)
{
    int number = (int)strtol(args[1], NULL, 10);
    if (strcmp(args[0], "signal") == 0)
        kill(getpid(), number);
    exit(number);
}

static void become_lingerer(char *path, char **env)
{
    char *argv[] = {"tree_actor", "linger", path, NULL};
    execve("/proc/self/exe", argv, env);
    _exit(3);
}

static char *no_environment[] = {NULL};

/* Two forks and a session of its own. */
static void daemonize(char **args, char **env)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            become_lingerer(args[0], env);
        _exit(0);
    }
    wait_for_file(args[0]);
    if (args[1])
        actor_linger();
    exit(0);
}

/* Nothing ties it to the step but its history. */
static void leave_daemon(char **args)
{
    daemonize(args, no_environment);
}

static void leave_marked_daemon(char **args)
{
    daemonize(args, environ);
}

/* A child that keeps its place: same group, no environment. */
static void leave_child(char **args)
{
    if (fork() == 0)
        become_lingerer(args[0], no_environment);
    actor_linger();
}

static void ignore_term(char **args)
{
    signal(SIGTERM, SIG_IGN);
    linger(args);
}

static void close_pipes(char **args)
{
    close_range(0, 2, 0);
    actor_note_pid(args[0]);
    wait_for_file(args[1]);
    exit(5);
}

static void write_for_ever(char **args)
{
    (void)args;
    static const char line[] = "and on and on and on and on\n";
    alarm(SAFETY_S);
    while (write(STDOUT_FILENO, line, sizeof line - 1) > 0)
        continue;
    exit(4);
}

/* A process that is never the same one for long, in ever new groups, and deaf. */
_Noreturn static void fly(time_t until)
{
    for (;;) {
        if (fork() > 0 || time(NULL) > until)
            _exit(0);
        setsid();
    }
}

static void start_comets(char **args)
{
    int count = (int)strtol(args[1], NULL, 10);
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < count && i < COMETS_MOST; i++)
        if (fork() == 0)
            fly(time(NULL) + SAFETY_S);
    actor_note_pid(args[0]);
    if (args[2])
        exit(0);
    actor_linger();
}

/* Grows to a number of processes below each other and beside each other; each forks anew whatever
 * of its children was killed. */
static void grow(char **args)
{
    int depth = (int)strtol(args[1], NULL, 10);
    alarm(SAFETY_S);
    signal(SIGTERM, SIG_IGN);
    actor_note_pid(args[0]);
    for (;;) {
        int children = 0;
        while (depth > 0 && children < 2) {
            if (fork() == 0) {
                depth--;
                children = 0;
                alarm(SAFETY_S);
                actor_note_pid(args[0]);
                continue;
            }
            children++;
        }
        if (depth == 0)
            actor_linger();
        wait(NULL);
    }
}

static void show_words(char **words)
{
    for (; *words; words++)
        fwrite(*words, 1, strlen(*words) + 1, stdout);
}

static void show_command(char **args)
{
    show_words(args);
    printf("--");
    putchar('\0');
    show_words(environ);
    exit(0);
}

static void show_state(char **args)
{
    (void)args;
    char folder[4096];
    struct rlimit core;
    sigset_t mask;
    int ignored = 0, death_signal = 0;
    struct sigaction action;
    getrlimit(RLIMIT_CORE, &core);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 32; number++)
        ignored += sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    int blocked = 0;
    for (int number = 1; number < 32; number++)
        blocked += sigismember(&mask, number) == 1;
    prctl(PR_GET_PDEATHSIG, &death_signal);
    printf("cwd=%s nice=%d core=%lld ignored=%d blocked=%d leads_group=%d death=%d\n",
           getcwd(folder, sizeof folder), getpriority(PRIO_PROCESS, 0), (long long)core.rlim_max,
           ignored, blocked, getpgrp() == getpid(), death_signal);
    fflush(stdout);
    exit(0);
}

static const struct {
    const char *name;
    int args; /* at least */
    void (*act)(char **args);
} roles[] = {
    {"end", 2, end},
    {"linger", 1, linger},
    {"daemon", 1, leave_daemon},
    {"marked-daemon", 1, leave_marked_daemon},
    {"child", 1, leave_child},
    {"stubborn", 1, ignore_term},
    {"closed", 2, close_pipes},
    {"writer", 0, write_for_ever},
    {"comets", 2, start_comets},
    {"grow", 2, grow},
    {"command", 0, show_command},
    {"state", 0, show_state},
    {"worker", 2, actor_work},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[1], roles[i].name) == 0 && argc - 2 >= roles[i].args)
            roles[i].act(argv + 2);
    fprintf(stderr, "tree_actor: no such role, or too few arguments\n");
    return 2;
}
