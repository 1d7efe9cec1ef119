/* What a retried step is told: SH-8. */
#include "base/err.h"
#include "base/json.h"
#include "core/retry_context.h"
#include "unit/case.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *build(const struct retry_context *context, size_t *ret_bytes)
{
    char *text = NULL;
    struct err err = {0};
    check_int(retry_context_json(context, &text, &err), ==, 0);
    check_int(json_check(text, strlen(text), NULL), ==, 0);
    check(strlen(text) > 1 && text[strlen(text) - 1] == '\n');
    json_t *object = json_loads(text, 0, NULL);
    check(object != NULL);
    if (ret_bytes)
        *ret_bytes = strlen(text);
    free(text);
    return object;
}

static const char *text_at(json_t *object, const char *outer, const char *name)
{
    json_t *from = outer ? json_object_get(object, outer) : object;
    return json_string_value(json_object_get(from, name));
}

TEST(retry_context, says_what_was_wanted_what_went_wrong_and_what_was_changed)
{
    struct classification failure = {.class = CLASS_DETERMINISTIC_POLICY,
                                     .rule = "text.auth",
                                     .line = "error: permission denied"};
    struct signature signature;
    const char *tail = "error: permission denied for pid 17\n";
    signature_make((struct ending){ENDED_EXIT, 1}, tail, strlen(tail), &signature);
    const char *const files[] = {"src/a.c", "src/b.c"};
    const char *const constraints[] = {"stay below lib/"};
    struct retry_context context = {
        .objective = "ship it",
        .step_id = "build",
        .step_title = "Build",
        .step_instructions = "make it build",
        .failure = &failure,
        .signature = &signature,
        .summary = "make failed",
        .last_command = "make -j2",
        .changed_files = files,
        .changed_count = 2,
        .diff_hash = "abc",
        .attempt = 2,
        .max_attempts = 3,
        .strategy = HEAL_HARD,
        .constraints = constraints,
        .constraint_count = 1,
    };
    json_t *object = build(&context, NULL);
    check_str(text_at(object, NULL, "objective"), "ship it");
    check_str(text_at(object, "step", "id"), "build");
    check_str(text_at(object, "step", "title"), "Build");
    check_str(text_at(object, "step", "instructions"), "make it build");
    check_str(text_at(object, "failure", "class"), "deterministic_policy");
    check_str(text_at(object, "failure", "rule"), "text.auth");
    check_str(text_at(object, "failure", "line"), "error: permission denied");
    check_str(text_at(object, "failure", "summary"), "make failed");
    check_str(text_at(object, "failure", "signature"), signature.hash);
    check_str(text_at(object, "failure", "signature_text"), signature.text);
    check_str(text_at(object, NULL, "last_command"), "make -j2");
    check_str(text_at(object, NULL, "diff_hash"), "abc");
    check_str(text_at(object, NULL, "strategy"), "hard_reset");
    check_int(json_integer_value(json_object_get(object, "attempt")), ==, 2);
    check_int(json_integer_value(json_object_get(object, "max_attempts")), ==, 3);
    json_t *changed = json_object_get(object, "changed_files");
    check_int(json_array_size(changed), ==, 2);
    check_str(json_string_value(json_array_get(changed, 1)), "src/b.c");
    json_t *rules = json_object_get(object, "constraints");
    check_int(json_array_size(rules), ==, 3);
    check_contains(json_string_value(json_array_get(rules, 0)), "Do not repeat a fix");
    check_contains(json_string_value(json_array_get(rules, 1)), "unstable");
    check_str(json_string_value(json_array_get(rules, 2)), "stay below lib/");
    json_decref(object);
}

TEST(retry_context, what_was_not_given_is_null_not_missing)
{
    struct retry_context context = {.attempt = 2, .strategy = HEAL_SOFT};
    json_t *object = build(&context, NULL);
    static const char *const nulls[] = {"objective", "last_command", "diff_hash"};
    for (size_t i = 0; i < CASES(nulls); i++)
        check_case(json_is_null(json_object_get(object, nulls[i])), nulls[i]);
    static const char *const failure_nulls[] = {"class", "rule", "summary", "line", "signature"};
    for (size_t i = 0; i < CASES(failure_nulls); i++)
        check_case(
            json_is_null(json_object_get(json_object_get(object, "failure"), failure_nulls[i])),
            failure_nulls[i]);
    check_int(json_array_size(json_object_get(object, "changed_files")), ==, 0);
    check_int(json_array_size(json_object_get(object, "constraints")), ==, 2);
    check_str(text_at(object, NULL, "strategy"), "soft_reset");
    json_decref(object);
}

TEST(retry_context, a_log_given_as_summary_is_cut_and_so_are_long_lists)
{
    static char log[100000];
    static const char *files[5000];
    memset(log, 'x', sizeof log - 1);
    for (size_t i = 0; i < CASES(files); i++)
        files[i] = log;
    struct retry_context context = {
        .summary = log, .last_command = log, .changed_files = files, .changed_count = CASES(files)};
    size_t bytes;
    json_t *object = build(&context, &bytes);
    check_int(bytes, <, 70000);
    const char *summary = text_at(object, "failure", "summary");
    check_int(strlen(summary), ==, RETRY_SUMMARY_BYTES + 3);
    check_str(summary + RETRY_SUMMARY_BYTES, "\xE2\x80\xA6");
    check_int(json_array_size(json_object_get(object, "changed_files")), ==, RETRY_FILES);
    check_int(json_integer_value(json_object_get(object, "changed_files_total")), ==, 5000);
    json_decref(object);
}

TEST(retry_context, the_users_own_words_are_not_cut)
{
    static char words[50000];
    memset(words, 'w', sizeof words - 1);
    struct retry_context context = {.objective = words, .step_instructions = words};
    json_t *object = build(&context, NULL);
    check_int(strlen(text_at(object, NULL, "objective")), ==, sizeof words - 1);
    check_int(strlen(text_at(object, "step", "instructions")), ==, sizeof words - 1);
    json_decref(object);
}

TEST(retry_context, bytes_that_are_no_text_are_replaced)
{
    const char *const files[] = {"a\xFF\xC3.c"};
    struct retry_context context = {
        .summary = "caf\xC3\xA9 \xE2\x82", .changed_files = files, .changed_count = 1};
    json_t *object = build(&context, NULL);
    check_str(text_at(object, "failure", "summary"), "caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD");
    check_str(json_string_value(json_array_get(json_object_get(object, "changed_files"), 0)),
              "a\xEF\xBF\xBD\xEF\xBF\xBD.c");
    json_decref(object);
}
