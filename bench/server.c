/*
 * A PostgreSQL server for the length of a benchmark: durable as a real one, reachable over a socket in its own
 * folder alone, and gone when the benchmark has ended, however it ended (PDEATHSIG).
 */
#include "bench/bench.h"
#include "bench/postgres.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The newest that is installed the Debian way. */
static int find_programs(char *out, size_t size)
{
    glob_t found;
    int rc = -1;
    if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) == 0 && found.gl_pathc > 0) {
        snprintf(out, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
        *strrchr(out, '/') = '\0';
        rc = 0;
    }
    globfree(&found);
    return rc;
}

/* PostgreSQL refuses to run as root; then it is the user postgres. */
static const struct passwd *server_user(void)
{
    return geteuid() == 0 ? getpwnam("postgres") : NULL;
}

/* In the child: becomes the program, with its output in the log. Does not return. */
static void become(const char *folder, char **argv)
{
    const struct passwd *user = server_user();
    char log[300];
    snprintf(log, sizeof log, "%s/log", folder);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (user != NULL && (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
                         setuid(user->pw_uid) != 0))
        _exit(126);
    /* A change of user takes the setting above away. */
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
    }
    setpgid(0, 0); /* ^C is for the benchmark, which then ends the server */
    execv(argv[0], argv);
    _exit(127);
}

static pid_t start(const char *folder, char **argv)
{
    pid_t pid = fork();
    if (pid == 0)
        become(folder, argv);
    return pid;
}

static int make_cluster(const struct bench_server *server, const char *programs)
{
    char program[300];
    char data[300];
    snprintf(program, sizeof program, "%s/initdb", programs);
    snprintf(data, sizeof data, "--pgdata=%s/data", server->folder);
    char *argv[] = {program,           data,
                    "--username=bench", "--auth=trust",
                    "--encoding=UTF8",  "--locale=C.UTF-8",
                    "--no-sync",        NULL};
    int status = 0;
    pid_t pid = start(server->folder, argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        ; /* a signal came */
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return bench_fail("initdb has failed; see %s/log", server->folder);
}

static int wait_until_ready(struct bench_server *server)
{
    for (int tries = 0; tries < 400; tries++) {
        if (PQping(server->url) == PQPING_OK)
            return 0;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            break;
        }
        usleep(25000);
    }
    return bench_fail("the PostgreSQL server does not start; see %s/log", server->folder);
}

int bench_server_start(struct bench_server *server, const char *folder)
{
    char programs[256];
    char program[300];
    char data[300];
    const struct passwd *user = server_user();
    *server = (struct bench_server){0};
    if (find_programs(programs, sizeof programs) < 0 || (geteuid() == 0 && user == NULL))
        return 1;
    snprintf(server->folder, sizeof server->folder, "%s/postgres", folder);
    if (mkdir(server->folder, 0700) != 0 ||
        (user != NULL && chown(server->folder, user->pw_uid, user->pw_gid) != 0) ||
        (user != NULL && chmod(folder, 0755) != 0))
        return bench_fail("%s cannot be made", server->folder);
    if (make_cluster(server, programs) < 0)
        return -1;
    snprintf(program, sizeof program, "%s/postgres", programs);
    snprintf(data, sizeof data, "%s/data", server->folder);
    snprintf(server->url, sizeof server->url, "postgresql://bench@/postgres?host=%s",
             server->folder);
    char *argv[] = {program, "-D", data, "-k", server->folder, "-c", "listen_addresses=", NULL};
    server->pid = start(server->folder, argv);
    if (server->pid < 0)
        return bench_fail("the PostgreSQL server cannot be started");
    return wait_until_ready(server);
}

void bench_server_stop(struct bench_server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGQUIT); /* at once: nothing in there is worth keeping */
        while (waitpid(server->pid, NULL, 0) < 0 && server->pid != 0)
            if (kill(server->pid, 0) != 0)
                break;
    }
    if (server->folder[0] != '\0')
        bench_remove_folder(server->folder);
    *server = (struct bench_server){0};
}
