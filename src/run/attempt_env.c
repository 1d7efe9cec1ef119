/* The environment of a step's process: the worker's, the job's, the step's, and what tend adds. */
#include "run/job.h"

#include "base/timetext.h"
#include "run/attempt_env.h"

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
    static const char *const names[] = {"TEND_WORKSPACE=", "TEND_RETRY_CONTEXT=", "TEND_SCHEDULE=",
                                        "TEND_NOMINAL_TIME=", "TEND_NOMINAL_TIME_MS="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
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
    enum { OWN = 15 };
    size_t room = OWN + run->plan.env.count + attempt->step->env.count;
    while (environ[room - OWN - run->plan.env.count - attempt->step->env.count] != NULL)
        room++;
    struct environment env = {.arena = arena,
                              .items = arena_zalloc(arena, (room + 1) * sizeof(char *))};
    if (env.items == NULL)
        return NULL;
    for (size_t i = 0; environ[i] != NULL; i++)
        if (!is_of_a_step(environ[i]))
            env.items[env.count++] = environ[i];
    put_texts(&env, &run->plan.env);
    put_texts(&env, &attempt->step->env);
    put_number(&env, "TEND_JOB_ID", run->task->job->id);
    put_named(&env, "TEND_QUEUE", run->task->job->queue);
    put_named(&env, "TEND_STEP_ID", attempt->step->id);
    put_number(&env, "TEND_STEP_INDEX", (int64_t)run->step);
    put_number(&env, "TEND_STEP_ATTEMPT", attempt->attempt);
    put_named(&env, "TEND_OUTPUT", attempt->run->output_path);
    put_named(&env, "TEND_INPUT", attempt->run->input_path);
    put_schedule(&env, run->task->job);
    const char *folder = job_base_folder(run, arena);
    if (folder != NULL && folder != run->runner->here)
        put_named(&env, "TEND_WORKSPACE", folder);
    if (attempt->retry_context != NULL)
        put_named(&env, "TEND_RETRY_CONTEXT", attempt->retry_context);
    return env.failed ? NULL : env.items;
}
