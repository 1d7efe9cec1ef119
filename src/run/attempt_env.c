/* The environment of a step's process: the worker's, the job's, the step's, and what tend adds. */
#include "run/job.h"

#include "base/timetext.h"
#include "run/attempt_env.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

struct environment {
    struct arena *arena;
    const char **items;
    size_t count, room;
    bool failed;
};

static size_t name_bytes(const char *entry)
{
    return strcspn(entry, "=") + 1;
}

/* The last of a name counts. */
static void put(struct environment *env, const char *entry)
{
    if (entry == NULL) {
        env->failed = true;
        return;
    }
    size_t len = name_bytes(entry);
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], entry, len) == 0) {
            env->items[i] = entry;
            return;
        }
    }
    env->items[env->count++] = entry;
}

static void put_named(struct environment *env, const char *name, const char *value)
{
    put(env, arena_printf(env->arena, "%s=%s", name, value));
}

static void put_texts(struct environment *env, const struct named_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        put_named(env, texts->items[i].name, texts->items[i].value);
}

static void put_number(struct environment *env, const char *name, int64_t number)
{
    put(env, arena_printf(env->arena, "%s=%lld", name, (long long)number));
}

/* Where the worker is itself a step: that one's, and not always replaced below. */
static bool is_of_a_step(const char *entry)
{
    static const char *const names[] = {
        "TEND_WORKSPACE=",    "TEND_RETRY_CONTEXT=",   "TEND_SCHEDULE=",
        "TEND_NOMINAL_TIME=", "TEND_NOMINAL_TIME_MS=", "TEND_HOOK="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * Where the worker was started from a hook or an alias of git: which repository it was in. A step
 * that has a workspace works on that one, by what git itself counts as belonging to a repository.
 */
static bool names_a_repository(const char *entry)
{
    static const char *const names[] = {"GIT_DIR=",
                                        "GIT_WORK_TREE=",
                                        "GIT_COMMON_DIR=",
                                        "GIT_INDEX_FILE=",
                                        "GIT_NAMESPACE=",
                                        "GIT_OBJECT_DIRECTORY=",
                                        "GIT_PREFIX=",
                                        "GIT_ALTERNATE_OBJECT_DIRECTORIES=",
                                        "GIT_CONFIG=",
                                        "GIT_CONFIG_PARAMETERS=",
                                        "GIT_CONFIG_COUNT=",
                                        "GIT_REPLACE_REF_BASE=",
                                        "GIT_GRAFT_FILE=",
                                        "GIT_SHALLOW_FILE=",
                                        "GIT_QUARANTINE_PATH=",
                                        "GIT_INTERNAL_SUPER_PREFIX=",
                                        "GIT_IMPLICIT_WORK_TREE=",
                                        "GIT_NO_REPLACE_OBJECTS="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/*
 * Git must not find a repository of the user's above the workspace (see lease_folder_stop_git).
 * With the variable it does not even look; in a path with a colon it means nothing.
 */
static void put_ceiling(struct environment *env, const char *workspace)
{
    const char *given = getenv("GIT_CEILING_DIRECTORIES");
    int len = (int)(strrchr(workspace, '/') - workspace);
    put(env, arena_printf(env->arena, "GIT_CEILING_DIRECTORIES=%.*s%s%s", len, workspace,
                          given != NULL ? ":" : "", given != NULL ? given : ""));
}

/* What added the job, and the time it was named for: not when it was added, nor when it runs. */
static void put_schedule(struct environment *env, const struct tend_job *job)
{
    char time[TIME_TEXT_BYTES];
    if (job->schedule != NULL)
        put_named(env, "TEND_SCHEDULE", job->schedule);
    if (job->nominal_at_ms == TEND_UNSET)
        return;
    put_named(env, "TEND_NOMINAL_TIME", time_text(job->nominal_at_ms, time));
    put_number(env, "TEND_NOMINAL_TIME_MS", job->nominal_at_ms);
}

const char *const *attempt_environment(const struct attempt *attempt, struct arena *arena)
{
    const struct job_run *run = attempt->run;
    enum { OWN = 16 };
    size_t room = OWN + attempt->env.count;
    while (environ[room - OWN - attempt->env.count] != NULL)
        room++;
    struct environment env = {.arena = arena,
                              .items = arena_zalloc(arena, (room + 1) * sizeof(char *))};
    if (env.items == NULL)
        return NULL;
    for (size_t i = 0; environ[i] != NULL; i++)
        if (!is_of_a_step(environ[i]) && !(run->has_workspace && names_a_repository(environ[i])))
            env.items[env.count++] = environ[i];
    if (run->has_workspace)
        put_ceiling(&env, run->workspace.folder);
    put_texts(&env, &attempt->env);
    put_number(&env, "TEND_JOB_ID", run->task->job->id);
    put_named(&env, "TEND_QUEUE", run->task->job->queue);
    put_named(&env, "TEND_STEP_ID", attempt->step->id);
    put_number(&env, "TEND_STEP_INDEX", (int64_t)run->step);
    put_number(&env, "TEND_STEP_ATTEMPT", attempt->attempt);
    put_named(&env, "TEND_OUTPUT", attempt->run->output_path);
    put_named(&env, "TEND_INPUT", attempt->run->input_path);
    put_schedule(&env, run->task->job);
    if (run->task->job->hook != NULL) /* what it adds and retries calls no hooks (queue/hook.h) */
        put_named(&env, "TEND_HOOK", run->task->job->hook);
    const char *folder = job_base_folder(run, arena);
    if (folder != NULL && folder != run->runner->here)
        put_named(&env, "TEND_WORKSPACE", folder);
    if (attempt->retry_context != NULL)
        put_named(&env, "TEND_RETRY_CONTEXT", attempt->retry_context);
    return env.failed ? NULL : env.items;
}
