/* cli/flow_file: what is refused says why and where; what is accepted is a plan that can be added.
 */
#include "base/arena.h"
#include "base/err.h"
#include "cli/flow_file.h"
#include "core/spec.h"
#include "fuzz/fuzz.h"

#include <string.h>
#include <tend.h>

const char *const fuzz_seeds[] = {
    "flow: a\nparams: {p: 1, q: null}\nenv: {A: b}\nstages:\n - id: s\n   run: make\n",
    "stages:\n - queue: q\n   priority: 3\n   retry: {attempts: 3, backoff: 2s, max: 1m}\n   steps:\n"
    "    - run: |\n        make\n        make test\n      timeout: 5m\n    - exec: [a, 'b', \"c\\x41\"]\n",
    "{\"stages\": [{\"id\": \"x\", \"http\": {\"url\": \"http://a/\", \"expect\": [200]}}]}",
    "a: &a [1, ~, true, 1.5e3, 007]\nb: [*a, *a]\n? c\n: d\n",
    "stages: [{sleep: 5s, env: &e {K: v}}]\nenv: *e\n",
    "stages: [{run: !!str x}]\n---\nx: 1\n",
    "? a:\t:\n",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *given[] = {"p=2", "q=three"};
    const struct text_list params = {.items = given, .count = size % 3};
    struct flow_job job;
    struct err err = {0};
    char *text = fuzz_text(data, size);
    int code = flow_file_read("fuzz", text, strlen(text), &params, &job, &err);
    if (code < 0) {
        must(strlen(err.text) > 0 && err.code == code);
    } else {
        struct arena arena;
        struct job_plan plan;
        arena_init(&arena);
        must(spec_parse(job.payload, job.payload_bytes, &arena, &plan, &err) == SPEC_PLAN);
        must(job.priority >= 0 && job.priority <= 9);
        must(job.max_attempts == TEND_UNSET || job.max_attempts >= 1);
        arena_done(&arena);
    }
    flow_job_done(&job);
    free(text);
    return 0;
}
