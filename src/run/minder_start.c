/*
 * How a minder starts the first process of a tree. See minder.h.
 *
 * The child tells its failure through a pipe that closes when it becomes the command, so that the
 * minder knows whether the command runs. vfork, because that costs the same whatever the minder's
 * size: between it and exec only system calls are made, all else is prepared before. Nothing
 * depends on the memory being shared: the thread sanitizer makes it a fork.
 */
#include "run/minder.h"
#include "run/tree_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char shell[] = "/bin/sh";
static const char usual_path[] = "/usr/local/bin:/usr/bin:/bin"; /* when env has no PATH */

enum phase { PHASE_SETUP, PHASE_FOLDER, PHASE_EXEC };

/* Why there is no command. */
struct failure {
    enum phase phase;
    int err_number;
    bool seen; /* a file of that name was there */
};

struct launch {
    const struct minder_command *command;
    const char *path; /* folders to look in; NULL: argv[0] is a path itself */
    pid_t minder;
    sigset_t mask;
    int failure_fd; /* the child's end of the pipe */
    struct failure failure;
    char candidate[PATH_MAX + 8]; /* what is being tried */
};

/* The only descriptor of the child that is no standard one; closed by exec. */
enum { FAILURE_FD = 3 };

static const char *path_of(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return usual_path;
}

/* Comes back only when it could not be done. As execvp: a file the kernel has no loader for is a
 * shell script. */
static void try_exec(struct launch *launch, const char *file)
{
    const struct minder_command *command = launch->command;
    execve(file, command->argv, command->env);
    if (errno == ENOEXEC) {
        command->shell_argv[0] = (char *)shell;
        command->shell_argv[1] = (char *)file;
        execve(shell, command->shell_argv, command->env);
        errno = ENOEXEC;
    }
}

/* The next folder of the list before the command's name. False when that is too long. */
static bool make_candidate(struct launch *launch, const char *folder, size_t folder_len)
{
    const char *name = launch->command->argv[0];
    size_t name_len = strlen(name);
    if (folder_len + name_len + 2 > sizeof launch->candidate)
        return false;
    memcpy(launch->candidate, folder, folder_len);
    if (folder_len > 0) /* an empty entry is the current folder */
        launch->candidate[folder_len++] = '/';
    memcpy(launch->candidate + folder_len, name, name_len + 1);
    return true;
}

static void search_and_exec(struct launch *launch)
{
    const char *name = launch->command->argv[0];
    int worst = ENOENT;
    if (!launch->path) {
        try_exec(launch, name);
        worst = errno;
        launch->failure.seen = worst != ENOENT || access(name, F_OK) == 0;
        errno = worst;
        return;
    }
    for (const char *folder = launch->path;; folder++) {
        size_t len = strcspn(folder, ":");
        if (make_candidate(launch, folder, len)) {
            try_exec(launch, launch->candidate);
            if (errno == EACCES || errno == ENOEXEC)
                worst = errno; /* perhaps another folder has one that can be run */
            else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
                return;
            /* ENOENT for a file that is there: its interpreter is missing. */
            if (access(launch->candidate, F_OK) == 0)
                launch->failure.seen = true;
        }
        folder += len;
        if (*folder == '\0')
            break;
    }
    errno = worst;
}

static int set_limits(const struct minder_command *command)
{
    tree_mark_set(command->spawn->mark);
    if (setrlimit(RLIMIT_NOFILE, &command->setting->open_files) < 0)
        return -1;
    for (uint32_t i = 0; i < command->spawn->limit_count; i++) {
        const struct tree_limit *limit = &command->spawn->limits[i];
        struct rlimit pair = {.rlim_cur = limit->soft, .rlim_max = limit->hard};
        if (setrlimit((__rlimit_resource_t)limit->resource, &pair) < 0)
            return -1;
    }
    return 0;
}

/* In the child. Comes back only on failure, with errno. */
static void become_command(struct launch *launch)
{
    const struct minder_command *command = launch->command;
    launch->failure.phase = PHASE_SETUP;
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return;
    if (getppid() != launch->minder) /* it was killed before the line above */
        _exit(127);
    cgroup_join(command->group);
    for (int fd = 0; fd < 3; fd++)
        if (command->fds[fd] >= 0 && dup2(command->fds[fd], fd) < 0)
            return;
    if (launch->failure_fd != FAILURE_FD) {
        if (dup3(launch->failure_fd, FAILURE_FD, O_CLOEXEC) < 0)
            return;
        launch->failure_fd = FAILURE_FD;
    }
    close_range(FAILURE_FD + 1, ~0u, 0);
    if (command->spawn->nice != 0) {
        errno = 0;
        if (nice(command->spawn->nice) == -1 && errno != 0)
            return;
    }
    launch->failure.phase = PHASE_FOLDER;
    if (*command->cwd && chdir(command->cwd) < 0)
        return;
    launch->failure.phase = PHASE_SETUP;
    if (set_limits(command) < 0 || sigprocmask(SIG_SETMASK, &launch->mask, NULL) < 0)
        return;
    launch->failure.phase = PHASE_EXEC;
    search_and_exec(launch);
}

static void describe_exec(const struct launch *launch, struct wire_answer *fault)
{
    const char *name = launch->command->argv[0];
    int number = launch->failure.err_number;
    char *out = fault->text;
    if ((number == ENOENT || number == ENOTDIR) && !launch->failure.seen) {
        fault->fault = TREE_FAULT_NO_COMMAND;
        snprintf(out, WIRE_TEXT_BYTES, launch->path ? "no command '%s' in PATH" : "no file '%s'",
                 name);
    } else if (number == E2BIG) {
        fault->fault = TREE_FAULT_TOO_LARGE;
        snprintf(out, WIRE_TEXT_BYTES,
                 "arguments and environment of '%s' are larger than the kernel takes", name);
    } else if (number == ENOENT) {
        fault->fault = TREE_FAULT_NOT_EXECUTABLE;
        snprintf(out, WIRE_TEXT_BYTES, "cannot run '%s': the interpreter it names is not there",
                 name);
    } else if (number == ENOMEM || number == EAGAIN || number == ENFILE || number == EMFILE) {
        fault->fault = TREE_FAULT_SYSTEM;
        snprintf(out, WIRE_TEXT_BYTES, "cannot run '%s': %s", name, strerror(number));
    } else {
        fault->fault = TREE_FAULT_NOT_EXECUTABLE;
        snprintf(out, WIRE_TEXT_BYTES, "cannot run '%s': %s", name, strerror(number));
    }
}

static void describe(const struct launch *launch, struct wire_answer *fault)
{
    int number = launch->failure.err_number;
    fault->err_number = number;
    switch (launch->failure.phase) {
    case PHASE_FOLDER:
        fault->fault = TREE_FAULT_NO_FOLDER;
        snprintf(fault->text, WIRE_TEXT_BYTES, "cannot work in folder '%s': %s",
                 launch->command->cwd, strerror(number));
        break;
    case PHASE_EXEC:
        describe_exec(launch, fault);
        break;
    default:
        fault->fault = TREE_FAULT_SYSTEM;
        snprintf(fault->text, WIRE_TEXT_BYTES, "cannot start '%s': %s", launch->command->argv[0],
                 strerror(number));
    }
}

static void tell_failure(const struct launch *launch, int err_number)
{
    struct failure failure = launch->failure;
    failure.err_number = err_number;
    ssize_t ignored = write(launch->failure_fd, &failure, sizeof failure);
    (void)ignored;
}

/* The child has become the command, or has failed: the pipe is closed. False: it has failed. */
static bool hear_of_failure(int fd, struct failure *ret)
{
    struct failure failure;
    ssize_t got;
    do
        got = read(fd, &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof failure)
        return true;
    *ret = failure;
    return false;
}

/* The child; -1 with launch->failure filled: there is none, it could not become the command. */
static pid_t launch_it(struct launch *launch)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        launch->failure.err_number = errno;
        return -1;
    }
    launch->failure_fd = ends[1];
    /* Safe here as posix_spawn is: the parent is one thread, and what the child calls is system
     * calls. */
    pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
    if (child == 0) {
        become_command(launch); /* NOLINT(clang-analyzer-unix.Vfork) */
        tell_failure(launch, errno != 0 ? errno : EINVAL);
        _exit(127);
    }
    int failed = errno;
    close(ends[1]);
    if (child < 0) {
        launch->failure = (struct failure){.phase = PHASE_SETUP, .err_number = failed};
    } else if (!hear_of_failure(ends[0], &launch->failure)) {
        waitpid(child, NULL, 0);
        child = -1;
    }
    close(ends[0]);
    return child;
}

pid_t minder_start(const struct minder_command *command, struct wire_answer *ret_fault)
{
    struct launch launch = {.command = command, .minder = getpid()};
    sigemptyset(&launch.mask);
    if (!strchr(command->argv[0], '/'))
        launch.path = path_of(command->env);
    pid_t child = launch_it(&launch);
    if (child < 0)
        describe(&launch, ret_fault);
    return child;
}
