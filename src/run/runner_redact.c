/* What a worker and a job know to be secret. */
#include "run/job.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Variables in the making. */
struct variables {
    struct arena arena;
    struct redact_variable *items;
    size_t count;
    struct redact_secret *secrets;
    size_t secret_count;
    bool failed;
};

static void add_variable(struct variables *variables, const char *name, const char *value)
{
    if (name == NULL)
        variables->failed = true;
    else
        variables->items[variables->count++] =
            (struct redact_variable){.name = name, .value = value};
}

/* Those that the plan gives itself; what it names is known once it has been looked up. */
static void add_texts(struct variables *variables, const struct named_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        if (texts->items[i].value != NULL)
            add_variable(variables, texts->items[i].name, texts->items[i].value);
}

static void add_environment(struct variables *variables)
{
    for (size_t i = 0; environ[i] != NULL; i++) {
        const char *equals = strchr(environ[i], '=');
        if (equals != NULL)
            add_variable(
                variables,
                arena_strndup(&variables->arena, environ[i], (size_t)(equals - environ[i])),
                equals + 1);
    }
}

static void add_plan(struct variables *variables, const struct job_plan *plan)
{
    add_texts(variables, &plan->env);
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct step_plan *step = &plan->steps[i];
        add_texts(variables, &step->env);
        if (step->http != NULL)
            add_texts(variables, &step->http->headers);
    }
}

static void add_secrets(struct variables *variables, const struct known_secret *secrets)
{
    for (; secrets != NULL; secrets = secrets->next)
        variables->secrets[variables->secret_count++] =
            (struct redact_secret){.value = secrets->value, .bytes = secrets->bytes};
}

static bool make_room(struct variables *variables, const struct job_plan *plan,
                      const struct known_secret *secrets)
{
    size_t count = 1 + plan->env.count, secret_count = 1;
    for (size_t i = 0; environ[i] != NULL; i++)
        count++;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct step_plan *step = &plan->steps[i];
        count += step->env.count + (step->http == NULL ? 0 : step->http->headers.count);
    }
    for (; secrets != NULL; secrets = secrets->next)
        secret_count++;
    variables->items = arena_alloc(&variables->arena, count * sizeof *variables->items);
    variables->secrets = arena_alloc(&variables->arena, secret_count * sizeof *variables->secrets);
    return variables->items != NULL && variables->secrets != NULL;
}

int runner_redactor(const struct job_plan *plan, const struct known_secret *secrets,
                    struct redactor **ret, struct err *err)
{
    static const struct job_plan no_plan = {0};
    struct variables variables = {0};
    arena_init(&variables.arena);
    if (plan == NULL)
        plan = &no_plan;
    if (make_room(&variables, plan, secrets)) {
        add_environment(&variables);
        add_plan(&variables, plan);
        add_secrets(&variables, secrets);
    } else {
        variables.failed = true;
    }
    const struct redact_known known = {
        .variables = variables.items,
        .variable_count = variables.count,
        .secrets = variables.secrets,
        .secret_count = variables.secret_count,
        .secret_names = getenv("TEND_REDACT"),
        .harmless_names = getenv("TEND_REDACT_NOT"),
    };
    int rc = variables.failed ? err_set(err, TEND_ENOMEM, "out of memory")
                              : redactor_new(&known, ret, err);
    arena_done(&variables.arena);
    return rc;
}
