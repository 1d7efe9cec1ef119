#include "store/holder.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/proc.h"
#include "base/timetext.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct holder_note holder_self(void)
{
    struct proc_id self;
    if (proc_self(&self) < 0)
        return (struct holder_note){0};
    return (struct holder_note){
        .pid = self.pid, .start_ticks = self.start_ticks, .pid_ns = self.pid_ns};
}

/* --- what /proc says of a process's descriptors --- */

enum holds { HOLDS, HOLDS_NOT, HOLDS_UNKNOWN };

/* What is looked for. */
struct search {
    struct stat file;
    int64_t byte;
    const char *lack; /* what to do so that this process can look (err_lack); NULL: it can */
};

/* After a call that has failed. */
static void note_lack(struct search *search)
{
    if (search->lack == NULL)
        search->lack = err_lack(errno);
}

/* Whether fdinfo shows a write lock on the byte: "lock:\t1: OFDLCK ADVISORY WRITE -1 08:01:7 0 0".
 */
static bool shows_lock(struct search *search, const char *path)
{
    char line[256];
    char range[48];
    bool shown = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        note_lack(search);
        return false;
    }
    snprintf(range, sizeof range, " %lld %lld\n", (long long)search->byte, (long long)search->byte);
    while (!shown && fgets(line, sizeof line, file) != NULL) {
        size_t len = strlen(line);
        size_t end = strlen(range);
        shown = strncmp(line, "lock:", 5) == 0 && strstr(line, "WRITE") != NULL && len > end &&
                strcmp(line + len - end, range) == 0;
    }
    fclose(file);
    return shown;
}

static enum holds holds(struct search *search, int64_t pid)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%lld/fd", (long long)pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        note_lack(search);
        return errno == ENOENT ? HOLDS_NOT : HOLDS_UNKNOWN;
    }
    enum holds answer = HOLDS_NOT;
    for (struct dirent *entry; answer != HOLDS && (entry = readdir(folder)) != NULL;) {
        struct stat status;
        snprintf(path, sizeof path, "/proc/%lld/fd/%s", (long long)pid, entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) || stat(path, &status) != 0 ||
            status.st_dev != search->file.st_dev || status.st_ino != search->file.st_ino)
            continue;
        snprintf(path, sizeof path, "/proc/%lld/fdinfo/%s", (long long)pid, entry->d_name);
        if (access(path, R_OK) != 0)
            answer = HOLDS_UNKNOWN;
        else if (shows_lock(search, path))
            answer = HOLDS;
    }
    closedir(folder);
    return answer;
}

/* The process that /proc shows to hold the byte; 0: none that can be seen. */
static int64_t search_all(struct search *search)
{
    int64_t pid = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL) {
        note_lack(search);
        return 0;
    }
    for (struct dirent *entry; pid == 0 && (entry = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]) &&
            holds(search, strtoll(entry->d_name, NULL, 10)) == HOLDS)
            pid = strtoll(entry->d_name, NULL, 10);
    closedir(folder);
    return pid;
}

/* --- the sentence --- */

/* since_ms: 0 when it is not known how long. */
static void describe(struct holder *holder, const struct proc_stat *stat, const char *where,
                     int64_t since_ms)
{
    long long pid = (long long)holder->pid;
    const char *seems = holder->found ? "" : "seems to be the writer and ";
    char span[DURATION_TEXT_BYTES];
    char time[DURATION_TEXT_BYTES + 8] = "";
    const char *is = "is";
    int64_t now_ms = clock_boot_ms();
    if (since_ms > 0 && since_ms <= now_ms) {
        snprintf(time, sizeof time, " for %s", span_text(now_ms - since_ms, span));
        is = "has been";
    }
    holder->stopped = proc_is_stopped(stat);
    if (stat->state == 't')
        snprintf(holder->text, sizeof holder->text,
                 "process %lld (%s) %s%s stopped by a debugger %s%s; let the "
                 "debugger continue it, or end it with kill -KILL %lld",
                 pid, stat->command, seems, is, where, time, pid);
    else if (holder->stopped)
        snprintf(holder->text, sizeof holder->text,
                 "process %lld (%s) %s%s stopped %s%s; continue it with "
                 "kill -CONT %lld or end it with kill -KILL %lld",
                 pid, stat->command, seems, is, where, time, pid, pid);
    else if (pid == getpid())
        snprintf(holder->text, sizeof holder->text,
                 "another handle of this process %shas been writing%s", seems, time);
    else
        snprintf(holder->text, sizeof holder->text, "process %lld (%s) %shas been writing%s%s", pid,
                 stat->command, seems, time, stat->state == 'D' ? " and waits for the disk" : "");
}

static void describe_unseen(struct holder *holder, const struct holder_note *noted,
                            const char *where, bool foreign, const char *lack)
{
    if (lack != NULL)
        snprintf(holder->text, sizeof holder->text,
                 "a process is %s; this one has no descriptors or memory to find out which: %s",
                 where, lack);
    else if (foreign)
        snprintf(
            holder->text, sizeof holder->text,
            "a process of another container (%lld there) seems to be %s; see there whether it is "
            "stopped",
            (long long)noted->pid, where);
    else
        snprintf(
            holder->text, sizeof holder->text,
            "a process that cannot be seen from here is %s; see as root which processes have the "
            "store open (fuser) and whether one is stopped",
            where);
}

void holder_find(int fd, int64_t byte, const char *where, const struct holder_note *noted,
                 struct holder *ret)
{
    struct search search = {.byte = byte};
    struct proc_stat stat;
    uint64_t pid_ns;
    bool foreign = noted->pid > 0 && proc_pid_ns(&pid_ns) == 0 && noted->pid_ns != pid_ns;
    bool there = noted->pid > 0 && !foreign && proc_stat(noted->pid, &stat) == 0 &&
                 proc_same_start(stat.start_ticks, noted->start_ticks);
    enum holds noted_holds = HOLDS_NOT;
    *ret = (struct holder){0};
    if (fstat(fd, &search.file) == 0) {
        if (there)
            noted_holds = holds(&search, noted->pid);
        ret->pid = noted_holds == HOLDS ? noted->pid : search_all(&search);
        ret->found = ret->pid != 0;
    }
    if (ret->pid == 0 && noted_holds == HOLDS_UNKNOWN)
        ret->pid = noted->pid;
    if (ret->pid != 0 && proc_stat(ret->pid, &stat) == 0) {
        describe(ret, &stat, where, ret->pid == noted->pid && there ? noted->since_ms : 0);
        return;
    }
    ret->pid = 0;
    ret->found = false;
    describe_unseen(ret, noted, where, foreign, search.lack);
}
