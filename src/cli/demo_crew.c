/*
 * The folder of a demo and its worker processes. See demo.h.
 *
 * How nothing stays behind: the demo ends its workers and removes the folder on every way out that
 * it lives to see. Where it does not (kill -9), the kernel sends each worker a SIGTERM
 * (PR_SET_PDEATHSIG), and a worker without its parent removes the folder before it ends. All of
 * them may do so at once; the last one finds whatever the others have left.
 */
#include "base/clock.h"
#include "cli/demo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 1000, LOOK_MS = 5 };

static const char folder_prefix[] = "tend-demo.";
static const char store_file[] = "demo.db"; /* the engine adds files that begin so */
static const char log_prefix[] = "worker-";

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* --- the folder --- */

int demo_crew_init(struct demo_crew *crew, struct cli *cli)
{
    *crew = (struct demo_crew){.folder = ""};
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent)
        parent = "/tmp";
    char folder[sizeof crew->folder];
    int len = snprintf(folder, sizeof folder, "%s/%sXXXXXX", parent, folder_prefix);
    if (len < 0 || (size_t)len >= sizeof folder)
        errno = ENAMETOOLONG;
    else if (mkdtemp(folder))
        strcpy(crew->folder, folder);
    if (!*crew->folder)
        return cli_fail(cli, errno == ENOSPC ? TEND_EFULL : TEND_EREADONLY,
                        "demo: cannot make a folder in %s: %s; TMPDIR can name another place",
                        parent, strerror(errno));
    for (int i = 0; i < DEMO_WORKERS; i++)
        snprintf(crew->members[i].name, sizeof crew->members[i].name, "worker %d", i + 1);
    return EXIT_DONE;
}

void demo_store_url(const char *folder, char *out, size_t size)
{
    snprintf(out, size, "sqlite:%s/%s", folder, store_file);
}

void demo_remove_folder(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    DIR *open_folder = slash && begins_with(slash + 1, folder_prefix) ? opendir(folder) : NULL;
    if (!open_folder)
        return;
    for (struct dirent *entry; (entry = readdir(open_folder));)
        if (begins_with(entry->d_name, store_file) || begins_with(entry->d_name, log_prefix))
            unlinkat(dirfd(open_folder), entry->d_name, 0);
    closedir(open_folder);
    rmdir(folder);
}

/* --- what a worker writes on standard error --- */

static void log_path(const struct demo_crew *crew, const struct demo_member *member, char *out,
                     size_t size)
{
    snprintf(out, size, "%s/%s%td.log", crew->folder, log_prefix, member - crew->members + 1);
}

void demo_crew_last_words(const struct demo_crew *crew, const struct demo_member *member, char *out,
                          size_t size)
{
    char path[sizeof crew->folder + 32];
    log_path(crew, member, path, sizeof path);
    FILE *log = fopen(path, "re");
    out[0] = '\0';
    if (!log)
        return;
    if (!fgets(out, (int)size, log))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    fclose(log);
}

/* --- the processes --- */

/* tend itself once more, as `tend __demo-worker FOLDER NAME PARENT`. 0, or an errno. */
static int spawn(const struct demo_crew *crew, struct demo_member *member)
{
    char log[sizeof crew->folder + 32];
    char parent[16];
    log_path(crew, member, log, sizeof log);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char *argv[] = {"tend", "__demo-worker", (char *)crew->folder, member->name, parent, NULL};
    posix_spawn_file_actions_t files;
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log,
                                                  O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (!failed)
        failed = posix_spawn(&member->pid, "/proc/self/exe", &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

int demo_crew_start(struct demo_crew *crew, struct cli *cli)
{
    for (int i = 0; i < DEMO_WORKERS; i++) {
        int failed = spawn(crew, &crew->members[i]);
        if (failed) {
            crew->members[i].pid = 0;
            return cli_fail(cli, TEND_EIO, "demo: cannot start a worker: %s", strerror(failed));
        }
    }
    return EXIT_DONE;
}

static bool runs(const struct demo_member *member)
{
    return member->pid > 0 && member->state == MEMBER_RUNS;
}

/* Whether it has ended; then it is in the given state. */
static bool reap(struct demo_member *member, int how, enum demo_member_state state)
{
    pid_t ended;
    do
        ended = waitpid(member->pid, &member->wait_status, how);
    while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return false;
    member->state = state;
    return true;
}

void demo_crew_kill(struct demo_member *member)
{
    kill(member->pid, SIGKILL);
    reap(member, 0, MEMBER_KILLED);
}

struct demo_member *demo_crew_missing(struct demo_crew *crew)
{
    for (int i = 0; i < DEMO_WORKERS; i++)
        if (runs(&crew->members[i]) && reap(&crew->members[i], WNOHANG, MEMBER_MISSING))
            return &crew->members[i];
    return NULL;
}

size_t demo_crew_running(const struct demo_crew *crew)
{
    size_t count = 0;
    for (int i = 0; i < DEMO_WORKERS; i++)
        count += runs(&crew->members[i]);
    return count;
}

void demo_crew_send_home(struct demo_crew *crew)
{
    for (int i = 0; i < DEMO_WORKERS; i++)
        if (runs(&crew->members[i]))
            kill(crew->members[i].pid, SIGTERM);
    int64_t deadline_ms = clock_mono_ms() + GRACE_MS;
    while (demo_crew_running(crew) > 0 && clock_mono_ms() < deadline_ms) {
        for (int i = 0; i < DEMO_WORKERS; i++)
            if (runs(&crew->members[i]))
                reap(&crew->members[i], WNOHANG, MEMBER_LEFT);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    }
    for (int i = 0; i < DEMO_WORKERS; i++)
        if (runs(&crew->members[i]))
            demo_crew_kill(&crew->members[i]);
}

void demo_crew_done(struct demo_crew *crew)
{
    for (int i = 0; i < DEMO_WORKERS; i++)
        if (runs(&crew->members[i]))
            demo_crew_kill(&crew->members[i]);
    if (*crew->folder)
        demo_remove_folder(crew->folder);
    crew->folder[0] = '\0';
}
