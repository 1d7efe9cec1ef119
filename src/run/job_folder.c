/* See job_folder.h. */
#include "run/job_folder.h"

#include "base/rng.h"
#include "run/file_tree.h"
#include "run/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

#define KEPT "kept"
#define FRESH_MARKER JOB_FOLDER_MARKER "-" /* a marker that is being written */

enum { TRIES = 8, MARKER_BYTES = 32, FRESH_DIGITS = 16, JOB_NAME_BYTES = 64 };

/* --- names --- */

/* The number after the prefix; *ret_rest is what follows it. */
static bool parse_number(const char *name, const char *prefix, int64_t *ret, const char **ret_rest)
{
    size_t len = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, len) != 0 || name[len] < '1' || name[len] > '9')
        return false;
    errno = 0;
    *ret = strtoll(name + len, &end, 10);
    *ret_rest = end;
    return errno == 0;
}

bool job_folder_parse(const char *name, int64_t *ret_job_id)
{
    const char *rest;
    if (!parse_number(name, "job-", ret_job_id, &rest))
        return false;
    return rest[0] == '\0' || (rest[0] == '-' && rest[1] != '\0' &&
                               strspn(rest + 1, "0123456789abcdef") == strlen(rest + 1));
}

bool lease_folder_parse(const char *name, int64_t *ret_token)
{
    const char *rest;
    return parse_number(name, "lease-", ret_token, &rest) && rest[0] == '\0';
}

/* Of a job; store_id 0: the name it has unless another store has taken it. */
static void put_name(char out[JOB_NAME_BYTES], int64_t job_id, int64_t store_id)
{
    if (store_id == 0)
        snprintf(out, JOB_NAME_BYTES, "job-%lld", (long long)job_id);
    else
        snprintf(out, JOB_NAME_BYTES, "job-%lld-%llx", (long long)job_id, (long long)store_id);
}

static int put_path(char out[PATH_MAX], const char *folder, const char *name, struct err *err)
{
    int len = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return len < 0 || len >= PATH_MAX ? files_fail(err, "using", folder, ENAMETOOLONG) : 0;
}

/* --- markers --- */

int job_folder_open(int below, const char *name)
{
    return openat(below, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The store a marker names; 0: there is none, or it is empty. */
static int64_t read_marker(int folder)
{
    char text[MARKER_BYTES];
    int fd = openat(folder, JOB_FOLDER_MARKER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (len <= 0 || text[len - 1] != '\n')
        return 0;
    text[len] = '\0';
    return strtoll(text, NULL, 10);
}

/* The marker is whole from its first moment on. 0 or an errno: EEXIST when there is one already and
 * it is not to be replaced, ENOENT when the folder is removed meanwhile. */
static int put_marker(int folder, int64_t store_id, bool replaces)
{
    struct rng rng;
    char text[MARKER_BYTES];
    char fresh[MARKER_BYTES];
    int len = snprintf(text, sizeof text, "%lld\n", (long long)store_id);
    rng_seed_random(&rng);
    snprintf(fresh, sizeof fresh, FRESH_MARKER "%016llx", (unsigned long long)rng_u64(&rng));
    int fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int problem = files_write_all(fd, text, (size_t)len);
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    if (problem == 0 && !replaces && linkat(folder, fresh, folder, JOB_FOLDER_MARKER, 0) < 0)
        problem = errno;
    /* EPERM: a file system without links, where the last of two at once has the folder. */
    if ((problem == 0 && replaces) || problem == EPERM || problem == EOPNOTSUPP)
        problem = renameat(folder, fresh, folder, JOB_FOLDER_MARKER) < 0 ? errno : 0;
    unlinkat(folder, fresh, 0);
    return problem;
}

enum folder_owner job_folder_owner(int folder, int64_t store_id)
{
    int64_t owner = folder < 0 ? 0 : read_marker(folder);
    return owner == 0 ? OWNER_NONE : owner == store_id ? OWNER_THIS : OWNER_OTHER;
}

static bool is_fresh_marker(const char *name)
{
    size_t start = strlen(FRESH_MARKER);
    return strncmp(name, FRESH_MARKER, start) == 0 &&
           strspn(name + start, "0123456789abcdef") == FRESH_DIGITS &&
           name[start + FRESH_DIGITS] == '\0';
}

/* A marker without a word: of an earlier version that was killed, or what a power failure has left.
 */
static bool has_blank_marker(int folder)
{
    static const char blank[MARKER_BYTES];
    char text[MARKER_BYTES] = "";
    struct stat status;
    int fd = openat(folder, JOB_FOLDER_MARKER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_blank = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                    status.st_size < MARKER_BYTES && read(fd, text, sizeof text) >= 0 &&
                    memcmp(text, blank, sizeof text) == 0;
    if (fd >= 0)
        close(fd);
    return is_blank;
}

/* What runners put in the folder of a job beside its marker. */
static bool is_of_runners(const char *name)
{
    int64_t token;
    return lease_folder_parse(name, &token) || strcmp(name, "patches") == 0 ||
           strcmp(name, "state") == 0;
}

/*
 * Whether a folder without a marker can be taken: nothing is in it but markers that are being
 * written. With a blank marker it may also hold what runners put there. Anything else is somebody's
 * who knows nothing of tend. 0 or an errno.
 */
static int look_whether_free(int fd, bool *ret)
{
    bool blank = has_blank_marker(fd);
    DIR *folder = file_tree_list(fd);
    if (folder == NULL)
        return errno;
    *ret = true;
    for (struct dirent *entry; *ret && (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        *ret = file_tree_is_dots(name) || is_fresh_marker(name) ||
               (blank && (strcmp(name, JOB_FOLDER_MARKER) == 0 || is_of_runners(name)));
    }
    closedir(folder);
    return 0;
}

/* Writes the marker of a folder that has none and is free. 0 or an errno. */
static int mark(int folder, int64_t store_id, enum folder_owner *ret)
{
    *ret = job_folder_owner(folder, store_id);
    if (*ret != OWNER_NONE)
        return 0;
    bool is_free = false;
    int problem = look_whether_free(folder, &is_free);
    if (problem != 0)
        return problem;
    if (!is_free) {
        *ret = job_folder_owner(folder, store_id); /* it may have been marked meanwhile */
        *ret = *ret == OWNER_NONE ? OWNER_OTHER : *ret;
        return 0;
    }
    problem = put_marker(folder, store_id, false);
    *ret = problem == EEXIST ? job_folder_owner(folder, store_id) : OWNER_NONE;
    if (*ret != OWNER_NONE)
        return 0;
    if (problem == EEXIST)
        problem = put_marker(folder, store_id, true);
    if (problem == 0)
        *ret = OWNER_THIS;
    return problem;
}

/* Whose the folder is afterwards; OWNER_NONE: it could not be made, *ret_problem is an errno. A
 * link is somebody else's, wherever it leads, and so is a folder with files but no marker. */
static enum folder_owner take_folder(const char *path, int64_t store_id, int *ret_problem)
{
    enum folder_owner owner = OWNER_NONE;
    *ret_problem = ENOENT;
    /* Somebody may remove an empty folder under our hands. */
    for (int i = 0; i < TRIES && *ret_problem == ENOENT; i++) {
        int fd = mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : job_folder_open(AT_FDCWD, path);
        *ret_problem = fd < 0 ? errno : mark(fd, store_id, &owner);
        if (fd >= 0)
            close(fd);
    }
    return *ret_problem == ELOOP || *ret_problem == ENOTDIR ? OWNER_OTHER : owner;
}

/* --- making --- */

int job_folder_make(const char *below, int64_t job_id, int64_t store_id, char out[PATH_MAX],
                    struct err *err)
{
    char name[JOB_NAME_BYTES];
    int problem;
    put_name(name, job_id, 0);
    int rc = put_path(out, below, name, err);
    if (rc < 0)
        return rc;
    enum folder_owner owner = take_folder(out, store_id, &problem);
    if (owner == OWNER_OTHER) {
        put_name(name, job_id, store_id);
        if ((rc = put_path(out, below, name, err)) < 0)
            return rc;
        owner = take_folder(out, store_id, &problem);
    }
    if (owner == OWNER_OTHER)
        return err_set(err, TEND_EIO, "%s is no folder of this store; move it away", out);
    return owner == OWNER_THIS ? 0 : files_fail(err, "making folder", out, problem);
}

/* 0 or an errno: ENOENT when somebody else has removed one of them meanwhile. */
static int make_lease(const char *job_path, const char *name, int *ret_fd)
{
    int job = job_folder_open(AT_FDCWD, job_path);
    if (job < 0)
        return errno;
    *ret_fd = mkdirat(job, name, 0700) == 0 || errno == EEXIST ? job_folder_open(job, name) : -1;
    int problem = *ret_fd < 0 ? errno : 0;
    if (problem == ELOOP || problem == ENOTDIR) {
        problem = files_remove_at(job, name);
        problem = problem == 0 ? ENOENT : problem;
    }
    close(job);
    return problem;
}

int lease_folder_make(const char *below, int64_t job_id, int64_t token, int64_t store_id,
                      char out_job[PATH_MAX], char out_lease[PATH_MAX], struct err *err)
{
    char name[64];
    snprintf(name, sizeof name, "lease-%lld", (long long)token);
    int fd = -1;
    int problem = ENOENT;
    for (int i = 0; i < TRIES && problem == ENOENT; i++) {
        int rc = job_folder_make(below, job_id, store_id, out_job, err);
        if (rc < 0 || (rc = put_path(out_lease, out_job, name, err)) < 0)
            return rc;
        problem = make_lease(out_job, name, &fd);
    }
    return problem == 0 ? fd : files_fail(err, "making folder", out_lease, problem);
}

int lease_folder_find(const char *below, int64_t job_id, int64_t token, int64_t store_id)
{
    char path[PATH_MAX];
    char name[JOB_NAME_BYTES];
    int lease = -1;
    for (int own = 0; lease < 0 && own <= 1; own++) {
        put_name(name, job_id, own ? store_id : 0);
        int job = put_path(path, below, name, NULL) < 0 ? -1 : job_folder_open(AT_FDCWD, path);
        snprintf(name, sizeof name, "lease-%lld", (long long)token);
        if (job_folder_owner(job, store_id) == OWNER_THIS)
            lease = job_folder_open(job, name);
        if (job >= 0)
            close(job);
    }
    return lease;
}

/* --- leaving --- */

static bool has_only_marker(int fd)
{
    DIR *folder = file_tree_list(fd);
    bool only = folder != NULL;
    for (struct dirent *entry; only && (entry = readdir(folder)) != NULL;)
        only = file_tree_is_dots(entry->d_name) || strcmp(entry->d_name, JOB_FOLDER_MARKER) == 0 ||
               is_fresh_marker(entry->d_name);
    if (folder != NULL)
        closedir(folder);
    return only;
}

/* Whoever is about to put one of them in its place begins again (take_folder). */
static void remove_markers(int fd)
{
    DIR *folder = file_tree_list(fd);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (is_fresh_marker(entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    unlinkat(fd, JOB_FOLDER_MARKER, 0);
}

/*
 * For a moment the folder has no marker. Whoever takes it in this moment marks it, and then it is
 * theirs. Only one who had taken it before, and makes the folder of a lease just now, can find the
 * marker of another store afterwards. That store must have a job of the same number that begins in
 * the same moment, and even it leaves the lease's folder alone while the lease is locked.
 */
void job_folder_leave(int below, const char *name, int64_t store_id)
{
    int fd = job_folder_open(below, name);
    if (fd < 0)
        return;
    if (job_folder_owner(fd, store_id) != OWNER_OTHER && has_only_marker(fd)) {
        remove_markers(fd);
        /* Else somebody has begun to use it in this moment. */
        if (unlinkat(below, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            (void)put_marker(fd, store_id, false);
    }
    close(fd);
}

/* --- who works there --- */

/* "what path/name: why". */
static int fail_in(struct err *err, const char *what, const char *path, const char *name,
                   int problem)
{
    char full[PATH_MAX + 16];
    snprintf(full, sizeof full, "%s/%s", path, name);
    return files_fail(err, what, full, problem);
}

int lease_folder_lock(int folder, const char *path, struct err *err)
{
    int fd = openat(folder, LEASE_FOLDER_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail_in(err, "opening", path, LEASE_FOLDER_LOCK, errno);
    /* Shared: nobody but a collector wants it alone, and that one only looks. */
    if (flock(fd, LOCK_SH) < 0) {
        int rc = fail_in(err, "locking", path, LEASE_FOLDER_LOCK, errno);
        close(fd);
        return rc;
    }
    return fd;
}

bool lease_folder_is_locked(int folder)
{
    int fd = openat(folder, LEASE_FOLDER_LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno != ENOENT && errno != ELOOP && errno != EISDIR;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) < 0;
    close(fd);
    return locked;
}

int lease_folder_stop_git(int folder, const char *path, struct err *err)
{
    static const char text[] = "gitdir: no-repository-here\n";
    int problem = files_write_at(folder, LEASE_FOLDER_GIT, text, sizeof text - 1);
    return problem == 0 ? 0 : fail_in(err, "writing", path, LEASE_FOLDER_GIT, problem);
}

/* --- what is kept --- */

enum keep_why lease_folder_kept(int folder)
{
    char text[MARKER_BYTES];
    int fd = openat(folder, KEPT, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return KEEP_NOT;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len > 0 ? len : 0] = '\0';
    /* An earlier version wrote none: then it was for people. */
    return len == 0 ? KEEP_TAKEN_OVER : keep_why_parse(text);
}

int lease_folder_keep(int folder, const char *path, enum keep_why why, struct err *err)
{
    char text[MARKER_BYTES];
    int len = snprintf(text, sizeof text, "%s\n", keep_why_name(why));
    int problem = files_write_at(folder, KEPT, text, (size_t)len);
    return problem == 0 ? 0 : fail_in(err, "writing", path, KEPT, problem);
}

void lease_folder_release(int folder)
{
    (void)files_remove_at(folder, KEPT);
}
