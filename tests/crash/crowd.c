#include "crowd.h"
#include "ledger.h"
#include "support/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int64_t crash_ms(unsigned percent)
{
    const char *given = getenv("TEND_CRASH_SECONDS");
    long seconds = given != NULL ? strtol(given, NULL, 10) : 60;
    return (seconds > 0 ? seconds : 60) * 10 * (int64_t)percent;
}

void crowd_init(struct crowd *crowd, const char *url)
{
    *crowd = (struct crowd){.url = url};
    rng_seed_random(&crowd->rng);
    crowd->killed = ledger_open(test_folder(), "killed");
    check_int(crowd->killed, >=, 0);
}

/* What the actors have said on stderr, all of them: nothing, for the library never prints. */
static const char *complaints(void)
{
    char line[1000];
    const char *text = "";
    FILE *file = fopen(test_path("stderr"), "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && strlen(text) < 4000)
        text = keep_text("%s%s", text, line);
    if (file != NULL)
        fclose(file);
    return text;
}

/* --- places --- */

static void stay_for_ever(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(0, ~0U, 0); /* it must not share the locks of this process */
    for (;;)
        pause();
}

/* The first process of a namespace keeps it; those that are started there are children of this
 * one. */
int crowd_make_place(void)
{
    fflush(stdout);
    pid_t first = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (first == 0)
        stay_for_ever();
    if (first < 0) {
        printf("# no pid namespace can be made (%s): all are in one\n", strerror(errno));
        return -1;
    }
    int fd = open(keep_text("/proc/%d/ns/pid", (int)first), O_RDONLY | O_CLOEXEC);
    check_int(fd, >=, 0);
    return fd;
}

/* As fork; the child is in the namespace of place_fd. */
static pid_t fork_at(int place_fd)
{
    if (place_fd < 0)
        return fork();
    int home_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    check_int(setns(place_fd, CLONE_NEWPID), ==, 0); /* from now on children are made there */
    pid_t pid = fork();
    if (pid != 0) {
        check_int(setns(home_fd, CLONE_NEWPID), ==, 0);
        close(home_fd);
        return pid;
    }
    /* With a /proc of that namespace, as containers have. */
    if (!mounts_own() || !mounts_proc()) {
        fprintf(stderr, "no /proc can be mounted: %s\n", strerror(errno));
        _exit(2);
    }
    return 0;
}

/* --- members --- */

/* In the child. What this process holds in the kernel must not be shared, hence exec. */
static void become_actor(const struct crowd_member *member, const char *program, const char *folder,
                         const char *stderr_path)
{
    char number[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(stderr_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    dup2(fd, STDERR_FILENO);
    snprintf(number, sizeof number, "%lld", (long long)member->number);
    execl(program, "crash_actor", member->role, member->url, folder, number, (char *)NULL);
    fprintf(stderr, "%s: %s; TEND_BUILD must name the build folder\n", program, strerror(errno));
    _exit(2);
}

static void start(struct crowd *crowd, struct crowd_member *member)
{
    const char *program = keep_text("%s/tests/crash/crash_actor", getenv("TEND_BUILD"));
    const char *folder = test_folder();
    const char *stderr_path = test_path("stderr");
    sigset_t until_ready; /* it lets SIGTERM in when it knows what to do about it */
    sigset_t old;
    sigemptyset(&until_ready);
    sigaddset(&until_ready, SIGTERM);
    *member = (struct crowd_member){.role = member->role,
                                    .url = member->url,
                                    .place_fd = member->place_fd,
                                    .number = ++crowd->started};
    fflush(stdout);
    sigprocmask(SIG_BLOCK, &until_ready, &old);
    member->pid = fork_at(member->place_fd);
    if (member->pid < 0)
        test_fail(__FILE__, __LINE__, "no fork: %s", strerror(errno));
    if (member->pid == 0)
        become_actor(member, program, folder, stderr_path);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

void crowd_add_at(struct crowd *crowd, int place_fd, const char *role, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (crowd->count == CROWD_MAX)
            test_fail(__FILE__, __LINE__, "too large a crowd");
        struct crowd_member *member = &crowd->members[crowd->count++];
        *member = (struct crowd_member){.role = role, .url = crowd->url, .place_fd = place_fd};
        start(crowd, member);
    }
}

void crowd_add(struct crowd *crowd, const char *role, size_t count)
{
    crowd_add_at(crowd, -1, role, count);
}

/* Whether the end of a member is one that was brought about. */
static void judge_end(const struct crowd_member *member, int status)
{
    bool fine = member->killed
                    ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                    : member->told_to_leave && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    test_count_check();
    if (!fine)
        test_fail(__FILE__, __LINE__, "a %s (pid %d) ended by itself, status 0x%x: %s",
                  member->role, (int)member->pid, (unsigned)status, complaints());
}

static void let_go_on(struct crowd_member *member)
{
    if (member->stopped_until_ms != 0)
        kill(member->pid, SIGCONT);
    member->stopped_until_ms = 0;
}

static bool has_ended(struct crowd_member *member)
{
    int status;
    pid_t ended = waitpid(member->pid, &status, WNOHANG);
    if (ended == member->pid)
        judge_end(member, status);
    return ended == member->pid;
}

static unsigned stopped_count(const struct crowd *crowd)
{
    unsigned count = 0;
    for (size_t i = 0; i < crowd->count; i++)
        count += crowd->members[i].stopped_until_ms != 0;
    return count;
}

/* Most stops are short, so that there are many. */
static int64_t stop_length_ms(struct crowd *crowd, const struct crowd_fate *fate)
{
    uint64_t longest =
        rng_below(&crowd->rng, 4) == 0 ? (uint64_t)fate->stop_ms : (uint64_t)fate->stop_ms / 6;
    return 1 + (int64_t)rng_below(&crowd->rng, longest);
}

static void strike(struct crowd *crowd, const struct crowd_fate *fate)
{
    struct crowd_member *member = &crowd->members[rng_below(&crowd->rng, crowd->count)];
    unsigned dice = (unsigned)rng_below(&crowd->rng, 100);
    if (member->told_to_leave || member->killed || strcmp(member->role, "follower") == 0)
        return;
    if (dice < fate->stop_share) {
        if (member->stopped_until_ms != 0 || stopped_count(crowd) >= fate->stopped_max)
            return;
        kill(member->pid, SIGSTOP);
        member->stopped_until_ms = test_clock_ms() + stop_length_ms(crowd, fate);
        crowd->stops++;
    } else if (dice < fate->stop_share + fate->leave_share) {
        kill(member->pid, SIGTERM);
        member->told_to_leave = true;
        crowd->leaves++;
    } else {
        const struct ledger_entry entry = {.id = member->number, .pid = member->pid};
        check_int(ledger_write(crowd->killed, &entry, 1), ==, 0);
        kill(member->pid, SIGKILL);
        member->killed = true;
        member->stopped_until_ms = 0;
        crowd->kills++;
    }
}

void crowd_step(struct crowd *crowd, const struct crowd_fate *fate)
{
    for (size_t i = 0; i < crowd->count; i++) {
        struct crowd_member *member = &crowd->members[i];
        if (member->stopped_until_ms != 0 && test_clock_ms() >= member->stopped_until_ms)
            let_go_on(member);
        if (has_ended(member))
            start(crowd, member);
    }
    if (fate->every_ms > 0 && rng_below(&crowd->rng, (uint64_t)fate->every_ms) == 0)
        strike(crowd, fate);
    test_pause();
}

void crowd_live(struct crowd *crowd, const struct crowd_fate *fate, int64_t ms)
{
    long long end_ms = test_clock_ms() + ms;
    while (test_clock_ms() < end_ms)
        crowd_step(crowd, fate);
}

void crowd_wake(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++)
        let_go_on(&crowd->members[i]);
}

void crowd_leave(struct crowd *crowd, const char *role)
{
    size_t kept = 0;
    crowd_wake(crowd);
    for (size_t i = 0; i < crowd->count; i++) {
        struct crowd_member *member = &crowd->members[i];
        if ((role == NULL || strcmp(member->role, role) == 0) && !member->killed) {
            kill(member->pid, SIGTERM);
            member->told_to_leave = true;
        }
    }
    for (size_t i = 0; i < crowd->count; i++) {
        struct crowd_member *member = &crowd->members[i];
        if (role != NULL && strcmp(member->role, role) != 0) {
            crowd->members[kept++] = *member;
            continue;
        }
        wait_until(has_ended(member), 2 * PATIENCE_MS);
    }
    crowd->count = kept;
    check_str(complaints(), "");
}
