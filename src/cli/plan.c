/* See plan.h. */
#include "cli/plan.h"

#include "base/arena.h"
#include "core/spec.h"

#include <stdbool.h>
#include <string.h>

static const char *kind_of(const struct job_plan *plan)
{
    switch (plan->steps[0].kind) {
    case STEP_HTTP:
        return "http";
    case STEP_SLEEP:
        return "sleep";
    case STEP_RUN:
    case STEP_EXEC:
        break;
    }
    return "shell";
}

static bool is_ours(const char *kind)
{
    return strcmp(kind, "shell") == 0 || strcmp(kind, "http") == 0 || strcmp(kind, "sleep") == 0;
}

int plan_check(const char *payload, size_t bytes, const char **kind, struct err *err)
{
    bool none = !*kind || !**kind;
    if (!none && !is_ours(*kind))
        return 0;
    struct arena arena;
    struct job_plan plan;
    arena_init(&arena);
    int code = spec_parse(payload, bytes, &arena, &plan, err);
    if (code >= 0 && none)
        *kind = code == SPEC_PLAN ? kind_of(&plan) : "";
    arena_done(&arena);
    return code < 0 ? code : 0;
}

int plan_kind(const char *payload, size_t bytes, const char *const *more_names,
              const char **ret_kind, struct err *err)
{
    struct arena arena;
    struct job_plan plan;
    arena_init(&arena);
    int code = spec_parse_plan(payload, bytes, more_names, &arena, &plan, err);
    if (code >= 0)
        *ret_kind = kind_of(&plan);
    arena_done(&arena);
    return code < 0 ? code : 0;
}
