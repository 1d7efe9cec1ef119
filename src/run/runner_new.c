/* A runner is made: its options are checked and copied, what all its jobs share is prepared. */
#include "run/runner.h"

#include "base/rng.h"
#include "queue/handle.h"
#include "queue/keep.h"
#include "run/job.h"
#include "run/statsd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_MOST = 10000, LIMITED_KINDS_MOST = BULKHEADS_MAX / 2 };

/* --- options --- */

static int check_options(tend *t, const struct tend_runner_options *options)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < options->queue_count; i++)
        rc = handle_check_name(t, "queue", options->queues[i]);
    for (size_t i = 0; rc == 0 && i < options->handler_count; i++)
        rc = handle_check_name(t, "kind", options->handlers[i].kind);
    for (size_t i = 0; rc == 0 && i < options->limit_count; i++) {
        rc = handle_check_name(t, "kind", options->limits[i].kind);
        if (rc == 0 && (options->limits[i].limit < 1 || options->limits[i].limit > LIMIT_MOST))
            rc = handle_fail(
                t, TEND_EINVAL, "a limit of %lld for kind %s is not possible; give 1 to %d",
                (long long)options->limits[i].limit, options->limits[i].kind, LIMIT_MOST);
    }
    if (rc == 0 && options->limit_count > LIMITED_KINDS_MOST)
        rc = handle_fail(t, TEND_EINVAL, "%zu kinds are too many to set limits for; give up to %d",
                         options->limit_count, LIMITED_KINDS_MOST);
    if (rc == 0 && options->limit_others != TEND_UNSET &&
        (options->limit_others < 1 || options->limit_others > LIMIT_MOST))
        rc = handle_fail(t, TEND_EINVAL, "%lld jobs at once are not possible; give 1 to %d",
                         (long long)options->limit_others, LIMIT_MOST);
    if (rc == 0)
        rc =
            handle_check_time(t, "the time to wait on stopping", options->stop_ms, 0, SPAN_MOST_MS);
    return rc;
}

static const char **copy_texts(struct arena *arena, const char *const *texts, size_t count)
{
    const char **copies = arena_zalloc(arena, (count + 1) * sizeof *copies);
    for (size_t i = 0; copies != NULL && i < count; i++)
        if ((copies[i] = arena_strdup(arena, texts[i])) == NULL)
            return NULL;
    return copies;
}

static bool copy_options(tend_runner *runner, const struct tend_runner_options *given)
{
    static const char *const default_queues[] = {"default"};
    struct arena *arena = &runner->arena;
    struct tend_runner_options *options = &runner->options;
    *options = *given;
    if (given->queue_count == 0)
        options->queue_count = 1;
    options->queues = copy_texts(arena, given->queue_count == 0 ? default_queues : given->queues,
                                 options->queue_count);
    struct tend_handler *handlers =
        arena_zalloc(arena, (given->handler_count + 1) * sizeof *handlers);
    for (size_t i = 0; handlers != NULL && i < given->handler_count; i++)
        handlers[i] =
            (struct tend_handler){.kind = arena_strdup(arena, given->handlers[i].kind),
                                  .command = arena_strdup(arena, given->handlers[i].command)};
    options->handlers = handlers;
    options->limits = NULL; /* the bulkheads have them */
    options->helper_path =
        given->helper_path == NULL ? NULL : arena_strdup(arena, given->helper_path);
    options->statsd = given->statsd == NULL ? NULL : arena_strdup(arena, given->statsd);
    return options->queues != NULL && handlers != NULL;
}

/* Absolute, for steps run in folders of their own. */
static int make_folder(tend_runner *runner, const char *given)
{
    char here[4096];
    if (given == NULL)
        given = TEND_RUN_FOLDER;
    if (getcwd(here, sizeof here) == NULL)
        return handle_fail(runner->t, TEND_EIO, "the current folder cannot be told: %s",
                           strerror(errno));
    runner->here = arena_strdup(&runner->arena, here);
    char *path = given[0] == '/' ? arena_strdup(&runner->arena, given)
                                 : arena_printf(&runner->arena, "%s/%s", here, given);
    if (path == NULL || runner->here == NULL)
        return handle_fail(runner->t, TEND_ENOMEM, "out of memory");
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        static const char ours[] = "/.tend"; /* holds the store too: for its owner alone */
        *at = '\0';
        bool private = at - path >= (ptrdiff_t)strlen(ours) && strcmp(at - strlen(ours), ours) == 0;
        mkdir(path, private ? 0700 : 0777);
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return handle_fail(runner->t, errno == ENOSPC ? TEND_EFULL : TEND_EREADONLY,
                           "folder %s for the work cannot be made: %s; give another with --folder",
                           path, strerror(errno));
    runner->options.folder = path;
    return 0;
}

/* --- the runner --- */

int runner_fail(tend_runner *runner, const struct err *err)
{
    return handle_fail(runner->t, err->code, "%s", err->text);
}

int runner_know_store(tend_runner *runner)
{
    int64_t store_id = 0;
    if (runner->store_id != 0)
        return 0;
    int rc = keep_store_id(runner->t, &store_id);
    runner->store_id = store_id;
    return rc;
}

static void init_locks(tend_runner *runner)
{
    pthread_mutex_init(&runner->mutex, NULL);
    pthread_mutex_init(&runner->pool_mutex, NULL);
    pthread_mutex_init(&runner->tell_mutex, NULL);
}

int tend_runner_new(tend_runner **ret, tend *t, const struct tend_runner_options *options)
{
    struct err err;
    tend_runner *runner = calloc(1, sizeof *runner);
    *ret = runner;
    if (runner == NULL)
        return TEND_ENOMEM;
    struct rng rng;
    runner->t = t;
    rng_seed_random(&rng);
    runner->tag = rng_u64(&rng);
    arena_init(&runner->arena);
    init_locks(runner);
    runner->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    runner->pulse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = check_options(t, options);
    if (rc < 0)
        return rc;
    bulkheads_init(&runner->bulkheads, options->limits, options->limit_count,
                   options->limit_others);
    if (runner->stop_fd < 0 || runner->pulse_fd < 0 || !copy_options(runner, options))
        return handle_fail(t, TEND_ENOMEM,
                           "no memory or descriptors for a worker; raise its limits (ulimit -n)");
    if ((rc = make_folder(runner, options->folder)) < 0)
        return rc;
    if (budget_from_environment(environ, &runner->environment, &err) < 0 ||
        classifier_new(&runner->classifier, &err) < 0 ||
        runner_redactor(NULL, NULL, &runner->redactor, &err) < 0 ||
        (options->statsd != NULL && statsd_check(options->statsd, &err) < 0))
        return runner_fail(runner, &err);
    return 0;
}

void tend_runner_free(tend_runner *runner)
{
    if (runner == NULL)
        return;
    db_hurry(runner->t->db, 0);
    if (runner->stop_fd >= 0)
        close(runner->stop_fd);
    if (runner->pulse_fd >= 0)
        close(runner->pulse_fd);
    classifier_free(runner->classifier);
    redactor_free(runner->redactor);
    pthread_mutex_destroy(&runner->tell_mutex);
    pthread_mutex_destroy(&runner->pool_mutex);
    pthread_mutex_destroy(&runner->mutex);
    arena_done(&runner->arena);
    free(runner);
}
