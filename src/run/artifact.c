/* See artifact.h. */
#include "run/artifact.h"

#include "base/buf.h"
#include "base/rng.h"
#include "base/timetext.h"
#include "run/workspace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

const char *artifact_patch_name(int64_t number, char out[ARTIFACT_NAME_BYTES])
{
    snprintf(out, ARTIFACT_NAME_BYTES, "patches/steps/step-%04lld.patch", (long long)number);
    return out;
}

const char *artifact_step_name(int64_t number, char out[ARTIFACT_NAME_BYTES])
{
    snprintf(out, ARTIFACT_NAME_BYTES, "state/steps/step-%04lld.json", (long long)number);
    return out;
}

const char *artifact_attempt_name(int64_t number, char out[ARTIFACT_NAME_BYTES])
{
    snprintf(out, ARTIFACT_NAME_BYTES, "state/self_heal/attempt-%04lld.json", (long long)number);
    return out;
}

/* --- one file: neither the job's folder nor one in it may be a link: a step can put one there ---
 */

/* Opens a folder below an open one, made where it is missing; -1 with errno. */
static int enter(int above, const char *name, bool durable)
{
    if (mkdirat(above, name, 0777) < 0 && errno != EEXIST)
        return -1;
    if (durable && fsync(above) < 0)
        return -1;
    return openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens the folder that the file lies in; -1 with errno. *ret_leaf is the file's own name. */
static int open_parent(const struct artifact_folder *folder, const char *name,
                       const char **ret_leaf)
{
    char part[ARTIFACT_NAME_BYTES];
    int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (const char *end; fd >= 0 && (end = strchr(name, '/')) != NULL; name = end + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(end - name), name);
        int below = enter(fd, part, folder->durable);
        int problem = errno;
        close(fd);
        fd = below;
        errno = problem;
    }
    *ret_leaf = name;
    return fd;
}

/* A new file beside the final one, nobody else's even if two write the same artifact. */
static int open_temporary(int parent, char out[ARTIFACT_NAME_BYTES])
{
    struct rng rng;
    rng_seed_random(&rng);
    for (;;) {
        snprintf(out, ARTIFACT_NAME_BYTES, ".new-%016llx", (unsigned long long)rng_u64(&rng));
        int fd = openat(parent, out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
}

/* 0 or an errno. */
static int replace_file(int parent, const char *leaf, const void *data, size_t bytes)
{
    char temporary[ARTIFACT_NAME_BYTES];
    int fd = open_temporary(parent, temporary);
    if (fd < 0)
        return errno;
    int problem = files_write_all(fd, data, bytes);
    if (problem == 0 && fsync(fd) < 0)
        problem = errno;
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    if (problem == 0 && renameat(parent, temporary, parent, leaf) < 0)
        problem = errno;
    if (problem != 0)
        unlinkat(parent, temporary, 0);
    return problem;
}

static int write_artifact(const struct artifact_folder *folder, const char *name, const void *data,
                          size_t bytes, struct err *err)
{
    char path[PATH_MAX];
    const char *leaf;
    if (folder->path == NULL)
        return files_fail(err, "writing", name, ENOENT);
    int rc = files_make_folder(folder->path, err);
    if (rc < 0)
        return rc;
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    int parent = open_parent(folder, name, &leaf);
    if (parent < 0)
        return files_fail(err, "writing", path, errno);
    int problem = replace_file(parent, leaf, data, bytes);
    if (problem == 0 && folder->durable && fsync(parent) < 0)
        problem = errno;
    close(parent);
    return problem == 0 ? 0 : files_fail(err, "writing", path, problem);
}

int artifact_write_patch(const struct artifact_folder *folder, int64_t number, const void *patch,
                         size_t bytes, struct err *err)
{
    char name[ARTIFACT_NAME_BYTES];
    return write_artifact(folder, artifact_patch_name(number, name), patch, bytes, err);
}

int artifact_write_step(const struct artifact_folder *folder, const struct artifact_step *step,
                        struct err *err)
{
    char name[ARTIFACT_NAME_BYTES];
    char time[TIME_TEXT_BYTES];
    struct buf json;
    buf_init(&json);
    buf_puts(&json, "{\"id\":");
    buf_json_string(&json, step->id, strlen(step->id));
    buf_puts(&json, ",\"index\":");
    buf_int(&json, step->index);
    buf_puts(&json, ",\"attempt\":");
    buf_int(&json, step->attempt);
    buf_puts(&json, ",\"diffHash\":");
    buf_json_string(&json, step->diff_hash, strlen(step->diff_hash));
    buf_puts(&json, ",\"changedFiles\":[");
    for (size_t i = 0; i < step->changed_file_count; i++) {
        if (i > 0)
            buf_putc(&json, ',');
        buf_json_string(&json, step->changed_files[i], strlen(step->changed_files[i]));
    }
    buf_printf(&json, "],\"timestamp\":\"%s\"}\n", time_text(step->at_ms, time));
    int rc = json.failed ? files_fail(err, "writing", artifact_step_name(step->index, name), ENOMEM)
                         : write_artifact(folder, artifact_step_name(step->index, name), json.data,
                                          json.len, err);
    buf_done(&json);
    return rc;
}

static int append(const char *data, size_t bytes, void *arg)
{
    buf_append(arg, data, bytes);
    return 0;
}

int artifact_write_attempt(const struct artifact_folder *folder, int64_t number,
                           const json_t *record, struct err *err)
{
    char name[ARTIFACT_NAME_BYTES];
    struct buf json;
    buf_init(&json);
    artifact_attempt_name(number, name);
    int rc = json_dump_callback(record, append, &json, JSON_COMPACT | JSON_ENCODE_ANY);
    buf_putc(&json, '\n');
    if (rc < 0 || json.failed)
        rc = files_fail(err, "writing", name, ENOMEM);
    else
        rc = write_artifact(folder, name, json.data, json.len, err);
    buf_done(&json);
    return rc;
}
