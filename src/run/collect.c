/* See collect.h. */
#include "run/collect.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "core/state.h"
#include "queue/handle.h"
#include "queue/keep.h"
#include "run/disk_use.h"
#include "run/file_tree.h"
#include "run/job_folder.h"
#include "run/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEASE_NAME "lease-%lld"

enum {
    AT_ONCE = 64,         /* jobs that the store is asked about in one go */
    LOCK_LOOK_MS = 50,    /* how often somebody who waits for the lock looks */
    UNMARKED_S = 60 * 60, /* an empty folder without a marker that is older: its maker is gone */
    NAME_SIZE = 64,       /* of "job-12-1f3a" */
    TOKENS_FIRST = 4,
    FOUND_FIRST = 64,
};

int collect_init(struct collect *collect, tend *t, const char *folder)
{
    *collect = (struct collect){.t = t, .folder = folder};
    workspace_keeper_init(&collect->keeper, "");
    return keep_store_id(t, &collect->store_id);
}

int collect_lock(const char *folder, int64_t wait_ms, struct err *err)
{
    char path[PATH_MAX];
    const struct timespec pause = {.tv_nsec = LOCK_LOOK_MS * 1000000L};
    int64_t until_ms = clock_mono_ms() + wait_ms;
    snprintf(path, sizeof path, "%s/collect.lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return files_fail(err, "opening", path, errno);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (clock_mono_ms() >= until_ms) {
            close(fd);
            return err_set(err, TEND_EBUSY, "another process cleans up %s at the moment", folder);
        }
        nanosleep(&pause, NULL);
    }
    return fd;
}

/* --- counting and removing --- */

static bool is_needed(enum tend_disk_kind kind)
{
    return kind < TEND_DISK_LEFT;
}

static void count(struct collect *collect, enum tend_disk_kind kind, int64_t bytes)
{
    collect->disk.uses[kind].count++;
    collect->disk.uses[kind].bytes += bytes;
}

static void failed(struct collect *collect, const struct err *err)
{
    if (collect->disk.failed++ == 0)
        snprintf(collect->disk.problem, sizeof collect->disk.problem, "%s", err->text);
}

static int64_t measure(const struct collect *collect, int below, const char *name)
{
    return collect->measures ? disk_use_at(below, name) : 0;
}

static bool takes(const struct collect *collect, enum tend_disk_kind kind)
{
    return collect->removes && !is_needed(kind);
}

/* All that is in an open folder but the mark. 0 or an errno. */
static int remove_unmarked(int fd, const char *mark)
{
    int problem = file_tree_check_mount(fd);
    if (problem != 0)
        return problem;
    DIR *folder = file_tree_list(fd);
    if (folder == NULL)
        return errno;
    for (struct dirent *entry; problem == 0 && (entry = readdir(folder)) != NULL;)
        if (!file_tree_is_dots(entry->d_name) && strcmp(entry->d_name, mark) != 0)
            problem = files_remove_at(fd, entry->d_name);
    closedir(folder);
    return problem;
}

static int remove_marked(const char *path, const char *mark, struct err *err)
{
    int fd = job_folder_open(AT_FDCWD, path);
    int problem = fd < 0 ? errno : remove_unmarked(fd, mark);
    if (fd >= 0)
        close(fd);
    return problem == 0 || problem == ENOENT ? files_remove(path, err)
                                             : files_fail(err, "removing", path, problem);
}

void collect_take(struct collect *collect, enum tend_disk_kind kind, const char *path,
                  const char *mark)
{
    struct err err;
    int64_t bytes = measure(collect, AT_FDCWD, path);
    if (takes(collect, kind) && remove_marked(path, mark, &err) < 0)
        failed(collect, &err);
    else
        count(collect, kind, bytes);
}

/* --- one job --- */

struct found {
    char name[NAME_SIZE];
    int64_t job_id;
    enum folder_owner owner;
    int64_t *tokens; /* of its leases, the newest first; in the arena */
    size_t token_count;
    bool unreadable; /* there may be more leases than these */
};

/* The folder of a job. It is opened once, and what is in it is found from there: its name may mean
 * something else a moment later. */
struct place {
    int below;
    const char *name; /* in below */
    const char *path; /* for messages */
    int fd;           /* of the folder itself; -1: there is none, or it is a link */
};

static struct place open_place(int below, const char *name, const char *path)
{
    return (struct place){below, name, path, job_folder_open(below, name)};
}

static void close_place(struct place *place)
{
    if (place->fd >= 0)
        close(place->fd);
}

/* Reads its names; NULL: it cannot be read. */
static DIR *list_place(const struct place *place)
{
    return place->fd < 0 ? NULL : file_tree_list(place->fd);
}

static int newest_first(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* False: no memory. */
static bool add_token(struct found *found, size_t *room, int64_t token, struct arena *arena)
{
    if (found->token_count == *room) {
        size_t more = *room == 0 ? TOKENS_FIRST : *room * 2;
        int64_t *tokens = arena_alloc(arena, more * sizeof *tokens);
        if (tokens == NULL)
            return false;
        if (*room > 0)
            memcpy(tokens, found->tokens, *room * sizeof *tokens);
        found->tokens = tokens;
        *room = more;
    }
    found->tokens[found->token_count++] = token;
    return true;
}

/* False: no memory. A folder that cannot be read to its end is marked so. */
static bool read_tokens(struct found *found, const struct place *place, struct arena *arena)
{
    size_t room = 0;
    DIR *folder = list_place(place);
    bool enough = true;
    found->unreadable = folder == NULL;
    while (enough && folder != NULL) {
        int64_t token;
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            found->unreadable = errno != 0;
            break;
        }
        if (lease_folder_parse(entry->d_name, &token))
            enough = add_token(found, &room, token, arena);
    }
    if (folder != NULL)
        closedir(folder);
    if (enough && found->token_count > 0)
        qsort(found->tokens, found->token_count, sizeof *found->tokens, newest_first);
    return enough;
}

static enum keep_fate fate_of(struct collect *collect, const struct keep_folder *known,
                              const struct keep_lease *lease, int64_t now_ms)
{
    enum keep_fate fate = keep_fate(&known->job, lease, now_ms);
    if (fate != FATE_ORPHANED)
        return fate;
    if (collect->removes && !sweep_left_behind(collect->t, &collect->ear, known->job_id))
        return FATE_IN_USE;
    return keep_fate_swept(&known->job, lease, now_ms);
}

/* What is known of a lease, from the store and from its folder. A folder that cannot be opened may
 * be one in which somebody works. */
static struct keep_lease look_at_lease(const struct place *place, const struct keep_folder *known,
                                       int64_t token)
{
    char name[NAME_SIZE];
    struct keep_lease lease = keep_lease_of(known, token);
    snprintf(name, sizeof name, LEASE_NAME, (long long)token);
    int fd = job_folder_open(place->fd, name);
    if (fd < 0) {
        lease.locked = errno != ENOENT && errno != ELOOP && errno != ENOTDIR;
        return lease;
    }
    lease.locked = lease_folder_is_locked(fd);
    if (lease.why == KEEP_NOT)
        lease.why = lease_folder_kept(fd);
    int found = workspace_find_at(fd, (char[PATH_MAX]){0});
    lease.last_workspace = found > 0;
    lease.locked = lease.locked || found < 0;
    close(fd);
    return lease;
}

/* Tells people where the workspace is of an attempt whose worker was lost. A store that cannot be
 * written is told the next time. */
static void note_lost(struct collect *collect, const struct place *place, int64_t job_id,
                      int64_t token)
{
    char name[NAME_SIZE];
    char path[PATH_MAX];
    snprintf(name, sizeof name, LEASE_NAME, (long long)token);
    int fd = job_folder_open(place->fd, name);
    if (fd >= 0 && workspace_find_at(fd, path) > 0)
        (void)keep_note_lost(collect->t, job_id, token, path);
    if (fd >= 0)
        close(fd);
}

/* A folder with workspaces, or anything else in the folder of a job. */
static int remove_entry(struct collect *collect, const struct place *place, const char *name,
                        struct err *err)
{
    int rc = 0;
    int fd = job_folder_open(place->fd, name);
    if (fd >= 0) {
        rc = workspace_remove_all_at(&collect->keeper, fd, err);
        close(fd);
    }
    int problem = rc < 0 ? 0 : files_remove_at(place->fd, name);
    if (problem == 0)
        return rc;
    char path[PATH_MAX + NAME_SIZE];
    snprintf(path, sizeof path, "%s/%s", place->path, name);
    return files_fail(err, "removing", path, problem);
}

static void take_lease(struct collect *collect, enum tend_disk_kind kind, const struct place *place,
                       int64_t token)
{
    char name[NAME_SIZE];
    struct err err;
    snprintf(name, sizeof name, LEASE_NAME, (long long)token);
    int64_t bytes = measure(collect, place->fd, name);
    if (takes(collect, kind) && remove_entry(collect, place, name, &err) < 0)
        failed(collect, &err);
    else
        count(collect, kind, bytes);
}

static void visit_leases(struct collect *collect, const struct found *found,
                         const struct place *place, const struct keep_folder *known, int64_t now_ms)
{
    static const enum tend_disk_kind kinds[] = {[FATE_IN_USE] = TEND_DISK_IN_USE,
                                                [FATE_ELSEWHERE] = TEND_DISK_OTHER_HOST,
                                                [FATE_ORPHANED] = TEND_DISK_IN_USE,
                                                [FATE_KEPT] = TEND_DISK_KEPT,
                                                [FATE_GARBAGE] = TEND_DISK_LEFT};
    size_t failed_ones = 0;
    bool later = false; /* one that was visited before, and so a later one, has a workspace */
    for (size_t i = 0; i < found->token_count; i++) {
        struct keep_lease lease = look_at_lease(place, known, found->tokens[i]);
        bool has_workspace = lease.last_workspace;
        lease.last_workspace = has_workspace && !later;
        later |= has_workspace;
        enum keep_fate fate = fate_of(collect, known, &lease, now_ms);
        if (fate == FATE_KEPT && lease.why == KEEP_FAILED && ++failed_ones > KEEP_FAILED_MOST)
            fate = FATE_GARBAGE;
        if (fate == FATE_KEPT && !has_workspace) /* the mark alone: there is nothing for people */
            fate = FATE_GARBAGE;
        if (fate == FATE_KEPT && collect->removes && keep_is_lost(&known->job, &lease))
            note_lost(collect, place, known->job_id, lease.token);
        take_lease(collect, kinds[fate], place, found->tokens[i]);
    }
}

/* Patches and records, which stay as long as the job. */
static void count_records(struct collect *collect, const struct place *place)
{
    bool any = false;
    int64_t bytes = 0;
    DIR *folder = list_place(place);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, "patches") != 0 && strcmp(entry->d_name, "state") != 0)
            continue;
        any = true;
        bytes += measure(collect, place->fd, entry->d_name);
    }
    if (any)
        count(collect, TEND_DISK_JOBS, bytes);
    if (folder != NULL)
        closedir(folder);
}

/* --- one job that the store does not have --- */

/* The marker goes last: what a crash leaves of the folder is still known. */
static int remove_job(struct collect *collect, const struct place *place, struct err *err)
{
    int rc = 0;
    DIR *folder = list_place(place);
    for (struct dirent *entry; folder != NULL && rc >= 0 && (entry = readdir(folder)) != NULL;)
        if (!file_tree_is_dots(entry->d_name) && strcmp(entry->d_name, JOB_FOLDER_MARKER) != 0)
            rc = remove_entry(collect, place, entry->d_name, err);
    if (folder != NULL)
        closedir(folder);
    if (rc >= 0)
        job_folder_leave(place->below, place->name, collect->store_id);
    return rc;
}

/* Of all its leases together. */
static enum keep_fate fate_of_unknown(const struct found *found, const struct place *place,
                                      const struct keep_folder *known)
{
    const struct keep_lease none = {0};
    enum keep_fate fate = found->unreadable ? FATE_IN_USE : keep_fate(&known->job, &none, 0);
    for (size_t i = 0; fate == FATE_GARBAGE && i < found->token_count; i++) {
        struct keep_lease lease = look_at_lease(place, known, found->tokens[i]);
        fate = keep_fate(&known->job, &lease, 0);
    }
    return fate;
}

static void visit_unknown(struct collect *collect, const struct found *found,
                          const struct place *place, const struct keep_folder *known)
{
    struct err err;
    enum keep_fate fate = fate_of_unknown(found, place, known);
    enum tend_disk_kind kind = fate == FATE_GARBAGE  ? TEND_DISK_GONE
                               : fate == FATE_IN_USE ? TEND_DISK_IN_USE
                                                     : TEND_DISK_OTHER_STORE;
    int64_t bytes = measure(collect, place->below, place->name);
    if (takes(collect, kind) && remove_job(collect, place, &err) < 0)
        failed(collect, &err);
    else
        count(collect, kind, bytes);
}

static void visit_job(struct collect *collect, const struct found *found, const struct place *place,
                      const struct keep_folder *known, int64_t now_ms)
{
    if (!known->job.known) {
        visit_unknown(collect, found, place, known);
        return;
    }
    visit_leases(collect, found, place, known, now_ms);
    count_records(collect, place);
    if (collect->removes && known->job.state != JOB_RUNNING)
        job_folder_leave(place->below, place->name, collect->store_id);
}

int collect_job(struct collect *collect, const char *path, int64_t job_id)
{
    struct found found = {.job_id = job_id};
    struct keep_folder known = {.job_id = job_id};
    struct arena arena;
    int64_t now_ms;
    struct place place = open_place(AT_FDCWD, path, path);
    if (job_folder_owner(place.fd, collect->store_id) != OWNER_THIS) {
        close_place(&place);
        return 0;
    }
    arena_init(&arena);
    int rc = read_tokens(&found, &place, &arena) ? 0 : TEND_ENOMEM;
    if (rc == 0)
        rc = keep_look(collect->t, &arena, &known, 1, &now_ms);
    if (rc == 0)
        visit_job(collect, &found, &place, &known, now_ms);
    arena_done(&arena);
    close_place(&place);
    return rc;
}

/* --- all of them --- */

struct names {
    struct found *items;
    size_t count, room;
};

static bool add_name(struct names *names, const char *name, int64_t job_id)
{
    if (names->count == names->room) {
        size_t room = names->room == 0 ? FOUND_FIRST : names->room * 2;
        struct found *items = realloc(names->items, room * sizeof *items);
        if (items == NULL)
            return false;
        names->items = items;
        names->room = room;
    }
    names->items[names->count] = (struct found){.job_id = job_id};
    snprintf(names->items[names->count++].name, NAME_SIZE, "%.*s", NAME_SIZE - 1, name);
    return true;
}

/* NULL: the folder is not there, or *ret_rc is an error. */
static DIR *open_runner_folder(struct collect *collect, int *ret_rc)
{
    DIR *folder = opendir(collect->folder);
    collect->disk.there = folder != NULL;
    *ret_rc =
        folder != NULL || errno == ENOENT || errno == ENOTDIR
            ? 0
            : handle_fail(collect->t, TEND_EIO, "reading %s: %s", collect->folder, strerror(errno));
    return folder;
}

static int list_jobs(struct collect *collect, DIR *folder, struct names *names)
{
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(folder)) != NULL;) {
        int64_t job_id;
        if (strlen(entry->d_name) < NAME_SIZE && job_folder_parse(entry->d_name, &job_id) &&
            !add_name(names, entry->d_name, job_id))
            rc = handle_fail(collect->t, TEND_ENOMEM, "out of memory while looking for folders");
    }
    return rc;
}

/* Of those that are not this store's, only an empty one goes that nobody will use any more. */
static void visit_stranger(struct collect *collect, enum folder_owner owner,
                           const struct place *place)
{
    struct stat status;
    count(collect, owner == OWNER_OTHER ? TEND_DISK_OTHER_STORE : TEND_DISK_UNMARKED,
          measure(collect, place->below, place->name));
    if (collect->removes && owner == OWNER_NONE && place->fd >= 0 &&
        fstat(place->fd, &status) == 0 && time(NULL) - status.st_mtime > UNMARKED_S)
        unlinkat(place->below, place->name, AT_REMOVEDIR); /* fails unless it is empty */
}

/* Whose it is, and what leases it has. False: no memory. */
static bool look_at_job(struct collect *collect, int below, struct found *job, struct arena *arena)
{
    struct place place = open_place(below, job->name, job->name);
    job->owner = job_folder_owner(place.fd, collect->store_id);
    bool enough = job->owner != OWNER_THIS || read_tokens(job, &place, arena);
    close_place(&place);
    return enough;
}

/* It may have become another one since it was looked at. */
static void visit_again(struct collect *collect, int below, const struct found *job,
                        const struct keep_folder *known, int64_t now_ms)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", collect->folder, job->name);
    struct place place = open_place(below, job->name, path);
    enum folder_owner owner = job_folder_owner(place.fd, collect->store_id);
    if (job->owner == OWNER_THIS && owner == OWNER_THIS)
        visit_job(collect, job, &place, known, now_ms);
    else if (job->owner != OWNER_THIS)
        visit_stranger(collect, job->owner, &place);
    close_place(&place);
}

/* Up to AT_ONCE of them: first all names, then the store, then what to do. */
static int visit_jobs(struct collect *collect, int below, struct found *jobs, size_t count_of_jobs,
                      bool *ret_more)
{
    struct keep_folder known[AT_ONCE];
    struct arena arena;
    int64_t now_ms;
    int rc = 0;
    arena_init(&arena);
    for (size_t i = 0; rc == 0 && i < count_of_jobs; i++) {
        known[i] = (struct keep_folder){.job_id = jobs[i].job_id};
        if (!look_at_job(collect, below, &jobs[i], &arena))
            rc = handle_fail(collect->t, TEND_ENOMEM, "out of memory while looking for folders");
    }
    if (rc == 0)
        rc = keep_look(collect->t, &arena, known, count_of_jobs, &now_ms);
    for (size_t i = 0; rc == 0 && *ret_more && i < count_of_jobs; i++) {
        visit_again(collect, below, &jobs[i], &known[i], now_ms);
        *ret_more = collect->goes_on == NULL || collect->goes_on(collect->arg);
    }
    arena_done(&arena);
    return rc;
}

/* Turns the list so that any of its items is the first. */
static void begin_anywhere(struct names *names)
{
    struct rng rng;
    if (names->count < 2)
        return;
    rng_seed_random(&rng);
    size_t first = (size_t)rng_below(&rng, names->count);
    struct found *turned = malloc(names->count * sizeof *turned);
    if (turned == NULL)
        return;
    memcpy(turned, names->items + first, (names->count - first) * sizeof *turned);
    memcpy(turned + names->count - first, names->items, first * sizeof *turned);
    free(names->items);
    names->items = turned;
}

int collect_all(struct collect *collect)
{
    struct names names = {0};
    bool more = true;
    int rc;
    DIR *folder = open_runner_folder(collect, &rc);
    if (folder == NULL)
        return rc;
    rc = list_jobs(collect, folder, &names);
    if (rc == 0 && collect->from_anywhere)
        begin_anywhere(&names);
    for (size_t i = 0; rc == 0 && more && i < names.count; i += AT_ONCE)
        rc = visit_jobs(collect, dirfd(folder), names.items + i,
                        names.count - i < AT_ONCE ? names.count - i : AT_ONCE, &more);
    free(names.items);
    closedir(folder);
    if (rc == 0 && more)
        collect_mirrors(collect);
    return rc;
}

/* --- for users of the library --- */

static int use(tend *t, const char *folder, bool removes, struct tend_disk *ret)
{
    struct collect collect;
    int rc = collect_init(&collect, t, folder != NULL ? folder : TEND_RUN_FOLDER);
    collect.measures = true;
    collect.removes = removes;
    if (rc == 0)
        rc = collect_all(&collect);
    if (rc == 0)
        *ret = collect.disk;
    return rc;
}

int tend_disk_look(tend *t, const char *folder, struct tend_disk *ret)
{
    return use(t, folder, false, ret);
}

int tend_disk_clean(tend *t, const char *folder, struct tend_disk *ret)
{
    struct err err;
    struct stat status;
    const char *path = folder != NULL ? folder : TEND_RUN_FOLDER;
    if (stat(path, &status) < 0 && errno == ENOENT)
        return use(t, path, false, ret);
    int lock = collect_lock(path, 0, &err);
    if (lock < 0)
        return handle_fail(t, lock, "%s", err.text);
    int rc = use(t, path, true, ret);
    close(lock);
    return rc;
}
