#include "run/json_redact.h"

#include "base/arena.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static json_t *copy(const struct redactor *redactor, const json_t *value, int depth);

static json_t *copy_text(const struct redactor *redactor, const char *text)
{
    struct arena arena;
    arena_init(&arena);
    const char *clean = redact_text(redactor, &arena, text);
    json_t *string = clean == NULL ? NULL : json_string(clean);
    arena_done(&arena);
    return string;
}

static json_t *copy_object(const struct redactor *redactor, const json_t *value, int depth)
{
    json_t *object = json_object();
    for (void *at = json_object_iter((json_t *)value); at != NULL && object != NULL;
         at = json_object_iter_next((json_t *)value, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *inner = json_object_iter_value(at);
        bool secret = json_is_string(inner) && redact_name_is_secret(key);
        json_t *name = copy_text(redactor, key);
        json_t *member = secret ? json_string(REDACT_MARK) : copy(redactor, inner, depth + 1);
        if (name == NULL || member == NULL ||
            json_object_set(object, json_string_value(name), member) < 0) {
            json_decref(object);
            object = NULL;
        }
        json_decref(name);
        json_decref(member);
    }
    return object;
}

static json_t *copy_array(const struct redactor *redactor, const json_t *value, int depth)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < json_array_size(value); i++) {
        if (json_array_append_new(array, copy(redactor, json_array_get(value, i), depth + 1)) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *copy(const struct redactor *redactor, const json_t *value, int depth)
{
    if (depth >= JSON_DEPTH_MAX)
        return NULL;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return copy_object(redactor, value, depth);
    case JSON_ARRAY:
        return copy_array(redactor, value, depth);
    case JSON_STRING:
        return copy_text(redactor, json_string_value(value));
    default:
        return json_incref((json_t *)value);
    }
}

char *json_redacted(const struct redactor *redactor, const json_t *value)
{
    json_t *clean = copy(redactor, value, 0);
    char *text = clean == NULL ? NULL : json_dumps(clean, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(clean);
    return text;
}
