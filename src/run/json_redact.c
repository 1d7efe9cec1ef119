#include "run/json_redact.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <tend.h>

/* secret_name: the nearest member above whose name is that of a secret; NULL: none. */
static json_t *copy(const struct redactor *redactor, const char *secret_name, const json_t *value,
                    int depth);

static json_t *clean_text(const struct redactor *redactor, const char *text)
{
    struct arena arena;
    arena_init(&arena);
    const char *clean = redact_text(redactor, &arena, text);
    json_t *string = clean == NULL ? NULL : json_string(clean);
    arena_done(&arena);
    return string;
}

static json_t *copy_text(const struct redactor *redactor, const char *secret_name, const char *text)
{
    if (secret_name != NULL && redact_member_is_secret(redactor, secret_name, text, false))
        return json_string(REDACT_MARK);
    return clean_text(redactor, text);
}

/* A number as it is, or the mark as a string where it is a secret or its text holds one. */
static json_t *copy_number(const struct redactor *redactor, const char *secret_name,
                           const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    json_t *clean = text == NULL ? NULL : clean_text(redactor, text);
    bool same =
        clean != NULL && strcmp(json_string_value(clean), text) == 0 &&
        !(secret_name != NULL && redact_member_is_secret(redactor, secret_name, text, true));
    free(text);
    if (clean == NULL)
        return NULL;
    json_decref(clean);
    return same ? json_incref((json_t *)value) : json_string(REDACT_MARK);
}

static json_t *copy_object(const struct redactor *redactor, const char *secret_name,
                           const json_t *value, int depth)
{
    json_t *object = json_object();
    for (void *at = json_object_iter((json_t *)value); at != NULL && object != NULL;
         at = json_object_iter_next((json_t *)value, at)) {
        const char *key = json_object_iter_key(at);
        json_t *name = clean_text(redactor, key);
        json_t *member = copy(redactor, redact_name_is_secret(redactor, key) ? key : secret_name,
                              json_object_iter_value(at), depth + 1);
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

static json_t *copy_array(const struct redactor *redactor, const char *secret_name,
                          const json_t *value, int depth)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < json_array_size(value); i++) {
        json_t *item = copy(redactor, secret_name, json_array_get(value, i), depth + 1);
        if (json_array_append_new(array, item) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *copy(const struct redactor *redactor, const char *secret_name, const json_t *value,
                    int depth)
{
    if (depth > JSON_DEPTH_MAX)
        return NULL;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return copy_object(redactor, secret_name, value, depth);
    case JSON_ARRAY:
        return copy_array(redactor, secret_name, value, depth);
    case JSON_STRING:
        return copy_text(redactor, secret_name, json_string_value(value));
    case JSON_INTEGER:
    case JSON_REAL:
        return copy_number(redactor, secret_name, value);
    default:
        return json_incref((json_t *)value);
    }
}

char *json_redacted(const struct redactor *redactor, const json_t *value)
{
    json_t *clean = copy(redactor, NULL, value, 0);
    char *text = clean == NULL ? NULL : json_dumps(clean, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(clean);
    return text;
}

/* JSON as it is, anything else as a string; NULL: no memory. */
static json_t *value_of(const char *text, size_t len)
{
    struct buf clean;
    json_t *value =
        json_check(text, len, NULL) == 0 ? json_loadb(text, len, JSON_DECODE_ANY, NULL) : NULL;
    if (value != NULL)
        return value;
    buf_init(&clean);
    utf8_clean(&clean, text, len, true);
    value = clean.failed ? NULL : json_stringn(clean.data, clean.len);
    buf_done(&clean);
    return value;
}

int result_of_output(const struct redactor *redactor, const struct buf *output, char **ret)
{
    const char *text = output->data;
    size_t len = output->len;
    *ret = NULL;
    if (output->failed)
        return TEND_ENOMEM;
    if (len > RESULT_BYTES)
        return TEND_EINVAL;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    if (len == 0)
        return 0;
    json_t *value = value_of(text, len);
    *ret = value == NULL ? NULL : json_redacted(redactor, value);
    json_decref(value);
    return *ret == NULL ? TEND_ENOMEM : 0;
}
