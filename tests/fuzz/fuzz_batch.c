/* cli/batch_line: a line that is accepted gives a job whose payload is JSON cut out of that very
 * line. */
#include "base/arena.h"
#include "base/json.h"
#include "cli/batch_line.h"
#include "fuzz/fuzz.h"

#include <string.h>
#include <tend.h>

const char *const fuzz_seeds[] = {
    "{\"queue\":\"mail\",\"kind\":\"send\",\"payload\":{\"to\":\"ann\",\"n\":[1,2.5e3,null]}}",
    "{\"priority\":0,\"in\":\"5m\",\"unique\":\"k\",\"subject\":\"s\",\"tags\":[\"a\",\"b\"]}",
    "{\"at\":\"2026-01-31T10:00:00Z\",\"key\":\"c\",\"workspace\":\"w\",\"max_attempts\":5}",
    "{\"payload\":\"\\u00e4\\\"\\\\\"}",
    "{}",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct tend_job_spec spec;
    struct line_fault fault = {0};
    char *text = fuzz_text(data, size);
    arena_init(&arena);
    tend_job_spec_init(&spec);
    if (batch_line_parse(text, strlen(text), INT64_C(1769853600000), &arena, &spec, &fault) < 0) {
        must(strlen(fault.text) > 0);
    } else if (spec.payload != NULL) {
        size_t bytes = spec.payload_bytes != 0 ? spec.payload_bytes : strlen(spec.payload);
        must(json_check(spec.payload, bytes, NULL) == 0);
    }
    arena_done(&arena);
    free(text);
    return 0;
}
