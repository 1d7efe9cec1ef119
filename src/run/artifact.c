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

static int sync_folder(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return files_fail(err, "opening folder", path, errno);
    int problem = fsync(fd) < 0 ? errno : 0;
    close(fd);
    return problem == 0 ? 0 : files_fail(err, "syncing folder", path, problem);
}

/* A new file beside the final one, nobody else's even if two write the same artifact. */
static int open_temporary(const char *folder, char *out, size_t size)
{
    struct rng rng;
    rng_seed_random(&rng);
    for (;;) {
        int len = snprintf(out, size, "%s/.new-%016llx", folder, (unsigned long long)rng_u64(&rng));
        if (len < 0 || (size_t)len >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
}

/* path lies in folder. */
static int replace_file(const char *folder, const char *path, const void *data, size_t bytes,
                        struct err *err)
{
    char temporary[PATH_MAX];
    int fd = open_temporary(folder, temporary, sizeof temporary);
    if (fd < 0)
        return files_fail(err, "writing", path, errno);
    int problem = files_write_all(fd, data, bytes);
    if (problem == 0 && fsync(fd) < 0)
        problem = errno;
    if (close(fd) < 0 && problem == 0)
        problem = errno;
    if (problem == 0 && rename(temporary, path) < 0)
        problem = errno;
    if (problem == 0)
        return 0;
    unlink(temporary);
    return files_fail(err, "writing", path, problem);
}

static int write_artifact(const struct artifact_folder *folder, const char *name, const void *data,
                          size_t bytes, struct err *err)
{
    char path[PATH_MAX];
    char parent[PATH_MAX];
    if (folder->path == NULL)
        return files_fail(err, "writing", name, ENOENT);
    if (snprintf(path, sizeof path, "%s/%s", folder->path, name) >= (int)sizeof path)
        return files_fail(err, "writing", name, ENAMETOOLONG);
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = '\0';
    int rc = files_make_folder(parent, err);
    if (rc == 0)
        rc = replace_file(parent, path, data, bytes, err);
    /* From the file up to the job's folder: any of them may be new. */
    for (size_t top = strlen(folder->path); rc == 0 && folder->durable;) {
        rc = sync_folder(parent, err);
        if (strlen(parent) <= top)
            break;
        *strrchr(parent, '/') = '\0';
    }
    return rc;
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
