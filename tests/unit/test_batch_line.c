/* A line of a batch for which memory is short, at every piece of it in turn: it is no bad line. */
#include "base/arena.h"
#include "cli/batch_line.h"
#include "support/test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

static size_t pieces_left; /* until there is no more memory */

static void *scarce_malloc(size_t bytes)
{
    return pieces_left == 0 || --pieces_left == 0 ? NULL : malloc(bytes);
}

static int parse_with(const char *line, size_t pieces, struct line_fault *ret_fault)
{
    struct tend_job_spec spec;
    struct arena arena;
    arena_init(&arena);
    tend_job_spec_init(&spec);
    pieces_left = pieces;
    json_set_alloc_funcs(scarce_malloc, free);
    int rc = batch_line_parse(line, strlen(line), 0, &arena, &spec, ret_fault);
    json_set_alloc_funcs(malloc, free);
    arena_done(&arena);
    return rc;
}

/* A file was rejected for a line that was right, with a sentence nobody had written. */
TEST(batch_line, a_line_for_which_memory_is_short_is_not_told_as_a_bad_one)
{
    static const char *const lines[] = {
        "{\"tags\": [\"a\", \"b\"]}",
        "{\"kind\": \"\\u0061\"}",
        "{\"payload\": {\"steps\": [{\"run\": \"make\"}]}}",
        "{\"payload\": {\"http\": {\"url\": \"http://localhost/\"}}, \"tags\": [\"a\"]}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct line_fault fault;
        size_t pieces = 1;
        int rc;
        while ((rc = parse_with(lines[i], pieces, &fault)) == TEND_ENOMEM)
            pieces++;
        if (rc == TEND_EINVAL)
            test_fail(__FILE__, __LINE__, "with %zu pieces: %s", pieces, fault.text);
        check_int(rc, ==, 0);
        check_int(pieces, >, 2);
    }
}
