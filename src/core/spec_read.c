/* See spec_read.h. */
#include "core/spec_read.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

enum { PLACE_BYTES = 200, SENTENCE_BYTES = 400 };

/* Appends the place; a chain that is too long is cut, as every sentence is. */
static size_t place_text(const struct place *place, char *out, size_t size)
{
    if (!place)
        return 0;
    size_t len = place_text(place->parent, out, size);
    if (len >= size)
        return size - 1;
    int added = place->name
                    ? snprintf(out + len, size - len, "%s%.60s", len > 0 ? "." : "", place->name)
                    : snprintf(out + len, size - len, "[%zu]", place->index);
    len += (size_t)(added > 0 ? added : 0);
    return len < size ? len : size - 1;
}

int spec_fault(struct reader *reader, const struct place *place, const char *format, ...)
{
    char where[PLACE_BYTES] = "";
    char sentence[SENTENCE_BYTES];
    va_list args;
    va_start(args, format);
    if (vsnprintf(sentence, sizeof sentence, format, args) < 0)
        sentence[0] = '\0';
    va_end(args);
    place_text(place, where, sizeof where);
    return err_set(reader->err, TEND_EINVAL, "%s%s%s", where, where[0] ? ": " : "", sentence);
}

int spec_no_memory(struct reader *reader)
{
    return err_set(reader->err, TEND_ENOMEM, "out of memory while reading what the job has to do");
}

int spec_unknown(struct reader *reader, const struct place *place, const char *const *names)
{
    char text[SUGGESTION_TEXT_BYTES];
    return spec_fault(reader, place, "there is no such member; %s",
                      suggestion_text(place->name, names, text));
}

int spec_text(struct reader *reader, const struct place *place, json_t *value, const char **ret)
{
    if (!json_is_string(value))
        return spec_fault(reader, place, "must be text in double quotes");
    const char *text =
        arena_strndup(reader->arena, json_string_value(value), json_string_length(value));
    if (!text)
        return spec_no_memory(reader);
    *ret = text;
    return 0;
}

int spec_full_text(struct reader *reader, const struct place *place, json_t *value,
                   const char **ret)
{
    if (json_is_string(value) && json_string_length(value) == 0)
        return spec_fault(reader, place, "must not be empty");
    return spec_text(reader, place, value, ret);
}

/* Text, or a number or truth value as its text: PORT: 8080 is what people write. */
static int plain_text(struct reader *reader, const struct place *place, json_t *value,
                      const char **ret)
{
    const char *text;
    if (json_is_string(value))
        return spec_text(reader, place, value, ret);
    if (json_is_integer(value))
        text = arena_printf(reader->arena, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        text = json_is_true(value) ? "true" : "false";
    else
        return spec_fault(reader, place,
                          "must be text, a whole number, true or false, or the name of a secret: "
                          "{\"env\": NAME} or {\"file\": PATH}");
    if (!text)
        return spec_no_memory(reader);
    *ret = text;
    return 0;
}

static int read_named_text(struct reader *reader, const struct place *place, json_t *value,
                           struct named_text *ret)
{
    int code = json_is_object(value) ? spec_secret(reader, place, value, &ret->secret)
                                     : plain_text(reader, place, value, &ret->value);
    if (code < 0)
        return code;
    ret->name = arena_strdup(reader->arena, place->name);
    return ret->name ? 0 : spec_no_memory(reader);
}

int spec_texts(struct reader *reader, const struct place *place, json_t *value,
               bool (*name_is_fine)(const char *name), struct named_texts *ret)
{
    if (!json_is_object(value))
        return spec_fault(reader, place, "must be an object of names and texts");
    struct named_text *items =
        arena_zalloc(reader->arena, (json_object_size(value) + 1) * sizeof *items);
    if (!items)
        return spec_no_memory(reader);
    size_t count = 0;
    const char *name;
    json_t *text;
    json_object_foreach(value, name, text)
    {
        struct place here = {.parent = place, .name = name};
        if (!name_is_fine(name))
            return spec_fault(reader, &here, "is not a name that can be used here");
        int code = read_named_text(reader, &here, text, &items[count]);
        if (code < 0)
            return code;
        count++;
    }
    *ret = (struct named_texts){.count = count, .items = items};
    return 0;
}

static bool is_variable_name(const char *name)
{
    return name[0] != '\0' && !strchr(name, '=');
}

int spec_env(struct reader *reader, const struct place *place, json_t *value,
             struct named_texts *ret)
{
    return spec_texts(reader, place, value, is_variable_name, ret);
}

int spec_budget(struct reader *reader, const struct place *place, json_t *value,
                struct budgets *budgets)
{
    char number[64];
    const char *text = number;
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
    else if (json_is_string(value))
        text = json_string_value(value);
    else
        return spec_fault(reader, place, "must be a number or a duration in double quotes");
    struct err err;
    if (budget_parse(place->name, text, budgets, &err) == 0)
        return 0;
    /* The sentence begins with the name, which is the end of the place. */
    return spec_fault(reader, place, "%s", err.text + strlen(place->name) + strlen(": "));
}

static int read_rule(struct reader *reader, const struct place *place, json_t *value,
                     struct class_rule *ret)
{
    static const char *const names[] = {"match", "class", NULL};
    if (!json_is_object(value))
        return spec_fault(reader, place, "must be an object {\"match\": …, \"class\": …}");
    const char *name;
    json_t *text;
    json_object_foreach(value, name, text)
    {
        struct place here = {.parent = place, .name = name};
        const char *class = NULL;
        bool match = strcmp(name, "match") == 0;
        if (!match && strcmp(name, "class") != 0)
            return spec_unknown(reader, &here, names);
        int code = spec_text(reader, &here, text, match ? &ret->match : &class);
        if (code < 0)
            return code;
        if (match)
            continue;
        ret->class = failure_class_parse(class);
        if (ret->class == CLASS_NONE)
            return spec_fault(reader, &here,
                              "\"%.60s\" must be transient_runtime, stuck_no_progress, "
                              "deterministic_contract, deterministic_policy or "
                              "deterministic_repo",
                              class);
    }
    if (!ret->match || ret->class == CLASS_NONE)
        return spec_fault(reader, place, "%s is missing", ret->match ? "class" : "match");
    return 0;
}

int spec_rules(struct reader *reader, const struct place *place, json_t *value,
               struct class_rules *ret)
{
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > CLASS_RULES_MAX)
        return spec_fault(reader, place, "must be a list of at most %d rules", CLASS_RULES_MAX);
    struct class_rule *items = arena_zalloc(reader->arena, (count + 1) * sizeof *items);
    if (!items)
        return spec_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        struct place here = {.parent = place, .index = i};
        int code = read_rule(reader, &here, json_array_get(value, i), &items[i]);
        if (code < 0)
            return code;
    }
    struct err err;
    struct classifier *compiled = NULL;
    int code = classifier_new_user(items, count, &compiled, &err);
    classifier_free(compiled);
    if (code == TEND_EINVAL) {
        /* "[2].match: …" goes on where the place ends. */
        char where[PLACE_BYTES] = "";
        place_text(place, where, sizeof where);
        return err_set(reader->err, code, "%s%s", where, err.text);
    }
    if (code < 0)
        return spec_no_memory(reader);
    *ret = (struct class_rules){.count = count, .items = items};
    return 0;
}
