/* See plan.h. */
#include "cli/plan.h"

#include "base/arena.h"
#include "core/spec.h"

static const char *kind_of(const struct job_plan *plan)
{
    if (plan->step_count == 0)
        return "";
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

int plan_kind(const char *payload, size_t bytes, const char **ret_kind, struct err *err)
{
    struct arena arena;
    struct job_plan plan;
    arena_init(&arena);
    int code = spec_parse(payload, bytes, &arena, &plan, err);
    if (code >= 0)
        *ret_kind = code == SPEC_PLAN ? kind_of(&plan) : "";
    arena_done(&arena);
    return code < 0 ? code : 0;
}
