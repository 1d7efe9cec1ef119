/* core/spec: what is refused says why; what is accepted keeps every promise of spec.h. */
#include "base/arena.h"
#include "base/err.h"
#include "core/spec.h"
#include "fuzz/fuzz.h"

#include <string.h>
#include <tend.h>

const char *const fuzz_seeds[] = {
    "{\"run\":\"make\",\"timeout\":\"15m\",\"attempts\":3,\"env\":{\"A\":\"1\",\"B\":2}}",
    "{\"exec\":[\"make\",\"-j2\"],\"cwd\":\"a/../b\",\"id\":\"x:1\",\"step_timeout_seconds\":0.5}",
    "{\"http\":{\"method\":\"post\",\"url\":\"http://a/\",\"headers\":{\"X\":\"y\"},"
    "\"body\":{\"a\":[1]},\"expect\":[200,\"3xx\"],\"max_response_bytes\":9,"
    "\"follow_redirects\":true}}",
    "{\"steps\":[{\"id\":\"a\",\"run\":\"x\"},{\"sleep\":\"5s\"}],\"objective\":\"o\","
    "\"workspace\":{\"repo\":\".\",\"ref\":\"main\"},\"job_self_heal_max_resets\":2}",
    "{\"run\":\"x\",\"classify\":[{\"match\":\"a+(b|c)$\",\"class\":\"deterministic_policy\"}]}",
    "{\"run\":\"x\",\"env\":{\"A\":{\"env\":\"B\"},\"C\":{\"file\":\"/d\",\"prefix\":\"p\"}}}",
    "{\"http\":{\"url\":\"http://a\",\"headers\":{\"A\":{\"env\":\"B\"}},\"body\":{\"env\":\"C\"}}}",
    "{\"http\":{\"url\":\"http://a\",\"body\":{\"a\":[{\"$env\":\"B\"},{\"$file\":\"/c\"}]}}}",
    "{\"steps\":[]}",
    "{\"to\":\"ann\",\"list\":[{\"run\":1}]}",
    NULL,
};

static void look_at_texts(const struct named_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        const struct named_text *text = &texts->items[i];
        must(text->name && (text->value == NULL) == (text->secret != NULL));
        must(!text->secret ||
             (text->secret->name && text->secret->name[0] && text->secret->prefix));
    }
}

static int give_value(void *context, const struct secret_name *secret, const char **ret)
{
    (void)context;
    must(secret->name[0] != '\0');
    *ret = "value";
    return 0;
}

static void look_at_http(struct arena *arena, const struct http_plan *http)
{
    must(http->url && http->method && http->expect_count > 0);
    must(!http->body || strlen(http->body) == http->body_bytes);
    must(!http->body || !http->body_secret);
    look_at_texts(&http->headers);
    const char *body;
    if (http->body_names_secrets)
        must(spec_fill_body(http, arena, give_value, NULL, &body) == 0 && strstr(body, "value"));
}

static void look_at_step(struct arena *arena, const struct job_plan *plan,
                         const struct step_plan *step)
{
    must(step->id && strlen(step->id) >= 1 && strlen(step->id) <= STEP_ID_BYTES);
    must(spec_find_step(plan, step->id) == step);
    must((step->kind == STEP_RUN) == (step->run != NULL));
    must((step->kind == STEP_EXEC) == (step->argc > 0));
    must((step->kind == STEP_HTTP) == (step->http != NULL));
    must(step->sleep_ms >= 0);
    must(!step->cwd || step->cwd[0] != '/');
    if (step->argc > 0)
        must(step->argv[step->argc] == NULL && step->argv[0][0] != '\0');
    look_at_texts(&step->env);
    if (step->http)
        look_at_http(arena, step->http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct job_plan plan;
    struct err err = {0};
    arena_init(&arena);
    int code = spec_parse((const char *)data, size, &arena, &plan, &err);
    if (code < 0)
        must(strlen(err.text) > 0 && err.code == code);
    if (code == SPEC_PLAN) {
        must(plan.step_count > 0);
        struct classifier *rules = NULL;
        must(classifier_new_user(plan.rules.items, plan.rules.count, &rules, NULL) == 0);
        classifier_free(rules);
        for (size_t i = 0; i < plan.step_count; i++)
            look_at_step(&arena, &plan, &plan.steps[i]);
        struct budgets merged = budget_merge(NULL, &plan.budgets, NULL, NULL);
        must(merged.step_max_attempts >= 1 && merged.step_timeout_ms >= 0);
    }
    arena_done(&arena);
    return 0;
}
