/* See retry_context.h. */
#include "core/retry_context.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

static const char replacement[] = "\xEF\xBF\xBD";
static const char ellipsis[] = "\xE2\x80\xA6";

static const char *const standing_constraints[] = {
    "Do not repeat a fix that was already tried and changed nothing; do something else.",
    "If the tests or their surroundings look unstable, find out why before changing the product.",
};

/* At most `most` bytes of text as a JSON string, cut with …; null for NULL. Bytes that are no UTF-8
 * become U+FFFD. NULL when memory is out. */
static json_t *text_value(const char *text, size_t most)
{
    if (!text)
        return json_null();
    struct buf clean;
    buf_init(&clean);
    size_t len = strlen(text);
    size_t at = 0;
    while (at < len) {
        size_t sequence = utf8_sequence(text + at, len - at);
        if (clean.len + (sequence > 0 ? sequence : sizeof replacement - 1) > most)
            break;
        if (sequence > 0)
            buf_append(&clean, text + at, sequence);
        else
            buf_puts(&clean, replacement);
        at += sequence > 0 ? sequence : 1;
    }
    if (at < len)
        buf_puts(&clean, ellipsis);
    json_t *value = clean.failed ? NULL : json_stringn(clean.data, clean.len);
    buf_done(&clean);
    return value;
}

/* The user's own words go through whole. */
static json_t *whole_text(const char *text)
{
    return text_value(text, SIZE_MAX);
}

static json_t *text_list(const char *const *texts, size_t count, size_t most)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, text_value(texts[i], most));
    return list;
}

static json_t *failure_object(const struct retry_context *context)
{
    const struct classification *failure = context->failure;
    const struct signature *signature = context->signature;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "class",
                     text_value(failure ? failure_class_name(failure->class) : NULL, SIZE_MAX),
                     "rule", text_value(failure ? failure->rule : NULL, RULE_ID_BYTES), "summary",
                     text_value(context->summary, RETRY_SUMMARY_BYTES), "line",
                     text_value(failure ? failure->line : NULL, RULE_LINE_BYTES), "signature",
                     text_value(signature ? signature->hash : NULL, SIZE_MAX), "signature_text",
                     text_value(signature ? signature->text : NULL, SIGNATURE_TEXT_BYTES));
}

static json_t *constraint_list(const struct retry_context *context)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof standing_constraints / sizeof *standing_constraints; i++)
        json_array_append_new(list, json_string(standing_constraints[i]));
    for (size_t i = 0; i < context->constraint_count; i++)
        json_array_append_new(list, whole_text(context->constraints[i]));
    return list;
}

int retry_context_json(const struct retry_context *context, char **ret_json, struct err *err)
{
    size_t files = context->changed_count < RETRY_FILES ? context->changed_count : RETRY_FILES;
    json_t *object = json_pack(
        "{s:o, s:{s:o, s:o, s:o}, s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:o, s:o}", "objective",
        whole_text(context->objective), "step", "id", whole_text(context->step_id), "title",
        whole_text(context->step_title), "instructions", whole_text(context->step_instructions),
        "attempt", (json_int_t)context->attempt, "max_attempts", (json_int_t)context->max_attempts,
        "strategy", heal_strategy_name(context->strategy), "failure", failure_object(context),
        "last_command", text_value(context->last_command, RETRY_COMMAND_BYTES), "changed_files",
        text_list(context->changed_files, files, RETRY_PATH_BYTES), "changed_files_total",
        (json_int_t)context->changed_count, "diff_hash", whole_text(context->diff_hash),
        "constraints", constraint_list(context));
    char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    struct buf file; /* a text file ends with a newline */
    json_decref(object);
    buf_init(&file);
    if (text)
        buf_printf(&file, "%s\n", text);
    free(text);
    text = text ? buf_take(&file) : NULL;
    if (!text)
        return err_set(err, TEND_ENOMEM, "out of memory while writing down what to try next");
    *ret_json = text;
    return 0;
}
