#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIN "/usr/lib/postgresql/15/bin/"
#define PGBOUNCER "/usr/sbin/pgbouncer"

enum { SERVERS_MAX = 4 };

static struct cluster *servers[SERVERS_MAX]; /* that are to be stopped when the test ends */

static void stop_all(void)
{
    for (size_t i = 0; i < SERVERS_MAX; i++)
        if (servers[i] != NULL && servers[i]->pid != 0)
            cluster_stop(servers[i], SIGQUIT);
}

/* Before store.h keeps anything: what is done last at the exit still finds its server. */
static void stop_at_exit(struct cluster *cluster)
{
    size_t slot = 0;
    while (slot < SERVERS_MAX && servers[slot] != NULL)
        slot++;
    if (slot == SERVERS_MAX)
        test_fail(__FILE__, __LINE__, "too many servers");
    if (slot == 0)
        atexit(stop_all);
    servers[slot] = cluster;
}

static const char *data_of(const struct cluster *cluster)
{
    return keep_text("%s/data", cluster->folder);
}

/* PostgreSQL refuses to run as root. In the child. */
static void become_postgres(void)
{
    const struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL;
    if (getuid() != 0)
        return;
    if (user == NULL || initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0) {
        fprintf(stderr, "cannot become user postgres: %s\n", strerror(errno));
        _exit(126);
    }
}

/* Starts a program with its output in the cluster's log. args end with NULL. */
static pid_t run(const struct cluster *cluster, const char *const *args)
{
    const char *log_path = keep_text("%s/log", cluster->folder);
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    become_postgres();
    prctl(PR_SET_PDEATHSIG, SIGQUIT); /* after the change of user, which clears it */
    int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    if (chdir("/") == 0)
        execv(args[0], (char *const *)args);
    _exit(127);
}

static void show_log(const struct cluster *cluster)
{
    char line[1024];
    FILE *log = fopen(keep_text("%s/log", cluster->folder), "re");
    while (log != NULL && fgets(line, sizeof line, log) != NULL)
        fputs(line, stdout);
    if (log != NULL)
        fclose(log);
    fflush(stdout);
}

/* Runs a program to its end. */
static void run_to_end(const struct cluster *cluster, const char *const *args)
{
    int status = -1;
    pid_t pid = run(cluster, args);
    check_int(pid, >, 0);
    check_int(waitpid(pid, &status, 0), ==, pid);
    if (status == 0)
        return;
    show_log(cluster);
    test_fail(__FILE__, __LINE__, "%s ended with status 0x%x; is PostgreSQL 15 installed?", args[0],
              (unsigned)status);
}

static void make_folder(struct cluster *cluster, const char *name)
{
    stop_at_exit(cluster);
    *cluster = (struct cluster){.name = name, .folder = test_path(name)};
    cluster->conninfo =
        keep_text("host=%s port=5432 user=postgres dbname=postgres", cluster->folder);
    check_int(mkdir(cluster->folder, 0755), ==, 0);
    if (getuid() != 0)
        return;
    const struct passwd *user = getpwnam("postgres");
    check(user != NULL);
    check_int(chown(cluster->folder, user->pw_uid, user->pw_gid), ==, 0);
    /* Another user must be able to get there: what is above was made for this one alone. */
    char *above = strdup(test_folder());
    check_int(chmod(dirname(above), 0711), ==, 0);
    free(above);
}

void cluster_make(struct cluster *cluster, const char *name)
{
    make_folder(cluster, name);
    const char *const args[] = {BIN "initdb",
                                "--username=postgres",
                                "--auth=trust",
                                "--encoding=UTF8",
                                "--locale=C.UTF-8",
                                "--no-sync",
                                "-D",
                                data_of(cluster),
                                NULL};
    run_to_end(cluster, args);
}

void cluster_make_standby(struct cluster *cluster, const char *name, const struct cluster *primary)
{
    make_folder(cluster, name);
    const char *const args[] = {BIN "pg_basebackup",
                                "--write-recovery-conf",
                                "--checkpoint=fast",
                                "--no-sync",
                                "-d",
                                keep_text("%s application_name=%s", primary->conninfo, name),
                                "-D",
                                data_of(cluster),
                                NULL};
    run_to_end(cluster, args);
}

static bool answers(struct cluster *cluster)
{
    int status;
    if (waitpid(cluster->pid, &status, WNOHANG) == cluster->pid) {
        show_log(cluster);
        test_fail(__FILE__, __LINE__, "the server %s does not start", cluster->name);
    }
    return PQping(cluster->conninfo) == PQPING_OK;
}

void cluster_start(struct cluster *cluster)
{
    const char *const args[] = {BIN "postgres",
                                "-D",
                                data_of(cluster),
                                "-k",
                                cluster->folder,
                                "-c",
                                "listen_addresses=",
                                "-c",
                                "max_connections=200",
                                "-c",
                                "dynamic_shared_memory_type=mmap", /* leaves nothing behind */
                                NULL};
    cluster->pid = run(cluster, args);
    check_int(cluster->pid, >, 0);
    wait_until(answers(cluster), PATIENCE_MS);
}

void cluster_stop(struct cluster *cluster, int signal_number)
{
    int status;
    check_int(kill(cluster->pid, signal_number), ==, 0);
    check_int(waitpid(cluster->pid, &status, 0), ==, cluster->pid);
    cluster->pid = 0;
}

void clusters_make_pair(struct cluster pair[2])
{
    cluster_make(&pair[0], "primary");
    cluster_start(&pair[0]);
    cluster_make_standby(&pair[1], "standby", &pair[0]);
    cluster_start(&pair[1]);
    cluster_ask(&pair[0], "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
    cluster_ask(&pair[0], "SELECT pg_reload_conf()");
    wait_until(
        strcmp(cluster_ask(&pair[0], "SELECT sync_state FROM pg_stat_replication"), "sync") == 0,
        PATIENCE_MS);
}

void cluster_signal_all(const struct cluster *cluster, int signal_number)
{
    int pid;
    kill(cluster->pid, signal_number);
    FILE *children =
        fopen(keep_text("/proc/%d/task/%d/children", (int)cluster->pid, (int)cluster->pid), "re");
    check(children != NULL);
    /* NOLINTNEXTLINE(cert-err34-c): written by the kernel */
    while (fscanf(children, "%d", &pid) == 1)
        kill(pid, signal_number);
    fclose(children);
}

static bool pooler_answers(const struct cluster *cluster, pid_t pid)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid) {
        show_log(cluster);
        test_fail(__FILE__, __LINE__, PGBOUNCER " does not start; is it installed?");
    }
    return PQping(keep_text("host=%s port=%d user=postgres dbname=postgres", cluster->folder,
                            POOLER_PORT)) == PQPING_OK;
}

void cluster_start_pooler(const struct cluster *cluster, int sessions)
{
    const char *ini = keep_text("%s/pgbouncer.ini", cluster->folder);
    FILE *file = fopen(ini, "we");
    check(file != NULL);
    fprintf(file,
            "[databases]\n* = host=%s port=5432 user=postgres\n"
            "[pgbouncer]\nunix_socket_dir = %s\nlisten_port = %d\nauth_type = any\n"
            "pool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 500\n",
            cluster->folder, cluster->folder, (int)POOLER_PORT, sessions);
    check_int(fclose(file), ==, 0);
    const char *const args[] = {PGBOUNCER, "-q", ini, NULL};
    pid_t pid = run(cluster, args);
    check_int(pid, >, 0);
    wait_until(pooler_answers(cluster, pid), PATIENCE_MS);
}

const char *cluster_ask(const struct cluster *cluster, const char *sql)
{
    PGconn *pg = PQconnectdb(cluster->conninfo);
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        test_fail(__FILE__, __LINE__, "%s on %s: %s", sql, cluster->name, PQerrorMessage(pg));
    const char *answer = keep_text("%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(pg);
    return answer;
}

void clusters_are_the_store(const struct cluster *clusters, size_t count)
{
    const char *hosts = clusters[0].folder;
    for (size_t i = 1; i < count; i++)
        hosts = keep_text("%s,%s", hosts, clusters[i].folder);
    setenv("TEND_TEST_STORE", "postgres", 1);
    setenv("TEND_TEST_PG_URL",
           keep_text("postgresql://postgres@/postgres?host=%s&port=5432%s", hosts,
                     count > 1 ? "&target_session_attrs=read-write" : ""),
           1);
}
