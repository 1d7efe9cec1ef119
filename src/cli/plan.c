/* See plan.h. */
#include "cli/plan.h"

#include "base/arena.h"
#include "base/err.h"
#include "core/spec.h"

#include <string.h>

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
        *kind = code == SPEC_PLAN ? spec_job_kind(&plan) : "";
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
        *ret_kind = spec_job_kind(&plan);
    arena_done(&arena);
    return code < 0 ? code : 0;
}

bool plan_has_repo(const char *payload, size_t bytes)
{
    struct arena arena;
    struct job_plan plan;
    struct err err;
    arena_init(&arena);
    bool has = spec_parse(payload, bytes, &arena, &plan, &err) == SPEC_PLAN && plan.workspace_repo;
    arena_done(&arena);
    return has;
}
