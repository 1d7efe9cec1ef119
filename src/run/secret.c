/* See secret.h. */
#include "run/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

/* ---- one value ---- */

static int say(char why[SECRET_WHY_BYTES], int code, const char *text)
{
    snprintf(why, SECRET_WHY_BYTES, "%s", text);
    return code;
}

static int no_memory(char why[SECRET_WHY_BYTES])
{
    return say(why, TEND_ENOMEM, "out of memory for the secrets of a step");
}

static int read_variable(const struct secret_name *secret, struct arena *arena, const char **ret,
                         size_t *ret_bytes, char why[SECRET_WHY_BYTES])
{
    const char *value = getenv(secret->name);
    if (value == NULL)
        return say(why, TEND_EINVAL, "is not set in the environment of the worker");
    if (value[0] == '\0')
        return say(why, TEND_EINVAL, "is empty in the environment of the worker");
    *ret_bytes = strlen(value);
    *ret = arena_strdup(arena, value);
    return *ret == NULL ? no_memory(why) : 0;
}

static int fail_file(int problem, char why[SECRET_WHY_BYTES])
{
    if (problem == EMFILE || problem == ENFILE || problem == ENOMEM)
        return say(why, TEND_ENOMEM, "no descriptors or memory to read a secret's file");
    if (problem == ENOENT)
        return say(why, TEND_EINVAL, "does not exist");
    snprintf(why, SECRET_WHY_BYTES, "cannot be read: %s", strerror(problem));
    return TEND_EINVAL;
}

/* As many bytes as there are, up to one more than allowed; -1 with errno. */
static ssize_t read_bytes(int fd, char *bytes)
{
    size_t len = 0;
    ssize_t got;
    while (len <= SECRET_FILE_BYTES &&
           (got = read(fd, bytes + len, SECRET_FILE_BYTES + 1 - len)) != 0) {
        if (got < 0 && errno != EINTR)
            return -1;
        len += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)len;
}

/* One newline at its end belongs to the editor that wrote it. */
static size_t without_newline(const char *bytes, size_t len)
{
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (len > 0 && bytes[len - 1] == '\r')
        len--;
    return len;
}

static int take_file(int fd, struct arena *arena, const char **ret, size_t *ret_bytes,
                     char why[SECRET_WHY_BYTES])
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return fail_file(errno, why);
    if (!S_ISREG(status.st_mode))
        return say(why, TEND_EINVAL, "is not a regular file");
    char *bytes = arena_alloc(arena, SECRET_FILE_BYTES + 2);
    if (bytes == NULL)
        return no_memory(why);
    ssize_t len = read_bytes(fd, bytes);
    if (len < 0)
        return fail_file(errno, why);
    if (len > SECRET_FILE_BYTES)
        return say(why, TEND_EINVAL, "is larger than 64 KiB");
    *ret_bytes = without_newline(bytes, (size_t)len);
    bytes[*ret_bytes] = '\0';
    *ret = bytes;
    return *ret_bytes == 0 ? say(why, TEND_EINVAL, "is empty") : 0;
}

/* Links are followed: that is how secrets are mounted in containers. */
static int read_file(const struct secret_name *secret, struct arena *arena, const char **ret,
                     size_t *ret_bytes, char why[SECRET_WHY_BYTES])
{
    int fd = open(secret->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_file(errno, why);
    int rc = take_file(fd, arena, ret, ret_bytes, why);
    close(fd);
    return rc;
}

int secret_read(const struct secret_name *secret, struct arena *arena, const char **ret,
                size_t *ret_bytes, char why[SECRET_WHY_BYTES])
{
    return secret->place == SECRET_IN_ENV ? read_variable(secret, arena, ret, ret_bytes, why)
                                          : read_file(secret, arena, ret, ret_bytes, why);
}

/* ---- all of a plan ---- */

int secret_know(struct known_secret **list, struct arena *arena, const char *value, size_t bytes)
{
    for (const struct known_secret *known = *list; known != NULL; known = known->next)
        if (known->bytes == bytes && memcmp(known->value, value, bytes) == 0)
            return 0;
    struct known_secret *fresh = arena_alloc(arena, sizeof *fresh);
    char *copy = arena_strndup(arena, value, bytes);
    if (fresh == NULL || copy == NULL)
        return TEND_ENOMEM;
    *fresh = (struct known_secret){.next = *list, .value = copy, .bytes = bytes};
    *list = fresh;
    return 1;
}

/* Where values go. */
struct gathering {
    struct arena scratch; /* for the bodies of a plan */
    struct arena *arena;
    struct known_secret **list;
};

/* One that is missing is the failure of the step that needs it, not of this. */
static int gather(void *context, const struct secret_name *secret, const char **ret)
{
    struct gathering *gathering = context;
    struct arena scratch; /* of this one: a payload may name many files */
    const char *value;
    size_t bytes;
    char why[SECRET_WHY_BYTES];
    *ret = "";
    arena_init(&scratch);
    int rc = secret_read(secret, &scratch, &value, &bytes, why);
    if (rc == 0)
        rc = secret_know(gathering->list, gathering->arena, value, bytes);
    arena_done(&scratch);
    return rc == TEND_ENOMEM ? rc : 0;
}

static int gather_texts(struct gathering *gathering, const struct named_texts *texts)
{
    const char *unused;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < texts->count; i++)
        if (texts->items[i].secret != NULL)
            rc = gather(gathering, texts->items[i].secret, &unused);
    return rc;
}

static int gather_http(struct gathering *gathering, const struct http_plan *http)
{
    const char *unused;
    int rc = gather_texts(gathering, &http->headers);
    if (rc == 0 && http->body_secret != NULL)
        rc = gather(gathering, http->body_secret, &unused);
    if (rc == 0 && http->body_names_secrets)
        rc = spec_fill_body(http, &gathering->scratch, gather, gathering, &unused);
    return rc;
}

int secrets_of_plan(const struct job_plan *plan, struct arena *arena, struct known_secret **list)
{
    struct gathering gathering = {.arena = arena, .list = list};
    arena_init(&gathering.scratch);
    int rc = gather_texts(&gathering, &plan->env);
    for (size_t i = 0; rc == 0 && i < plan->step_count; i++) {
        rc = gather_texts(&gathering, &plan->steps[i].env);
        if (rc == 0 && plan->steps[i].http != NULL)
            rc = gather_http(&gathering, plan->steps[i].http);
    }
    arena_done(&gathering.scratch);
    return rc;
}

int secrets_of_payload(const char *payload, size_t bytes, struct arena *arena,
                       struct known_secret **list)
{
    struct gathering gathering = {.arena = arena, .list = list};
    return spec_payload_secrets(payload, bytes, gather, &gathering);
}
