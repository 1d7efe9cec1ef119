/* See flow_params.h. */
#include "cli/flow_params.h"

#include "base/err.h"
#include "base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

enum { NAME_BYTES = 64, VARIABLE_BYTES = NAME_BYTES + 16, PATH_BYTES = NAME_BYTES + 16 };

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len >= NAME_BYTES || isdigit((unsigned char)name[0]) || name[0] == '-')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '-')
            return false;
    return true;
}

/* TEND_PARAM_NAME */
static const char *variable_of(const char *name, char out[VARIABLE_BYTES])
{
    char *at = stpcpy(out, "TEND_PARAM_");
    for (; *name; name++)
        *at++ = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    *at = '\0';
    return out;
}

/* The value behind the last "NAME=" among those given; NULL: there is none. */
static const char *given_value(const struct text_list *given, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = given->count; i-- > 0;)
        if (strncmp(given->items[i], name, len) == 0 && given->items[i][len] == '=')
            return given->items[i] + len + 1;
    return NULL;
}

/* What is given must be wanted: a slip is not passed over. */
static int check_given(struct flow_reader *reader, json_t *params, const struct text_list *given)
{
    for (size_t i = 0; i < given->count; i++) {
        const char *text = given->items[i];
        const char *equals = strchr(text, '=');
        char name[NAME_BYTES] = "";
        if (!equals || (size_t)(equals - text) >= sizeof name)
            return err_set(reader->err, TEND_EINVAL,
                           "--param: \"%.80s\" is not of the form NAME=VALUE", text);
        memcpy(name, text, (size_t)(equals - text));
        if (json_object_get(params, name))
            continue;
        struct suggestion near;
        const char *known;
        json_t *value;
        suggestion_init(&near, name);
        json_object_foreach(params, known, value)
        {
            suggestion_offer(&near, known);
        }
        return err_set(reader->err, TEND_EINVAL, "--param: %s has no parameter \"%s\"; %s%s%s",
                       reader->name, name, near.best ? "did you mean " : "",
                       near.best ? near.best : "\"params\" in the file lists them",
                       near.best ? "?" : "");
    }
    return 0;
}

/* Its value in the file as text: a number or a truth value is written as it stands. */
static json_t *text_of(json_t *value)
{
    char number[64];
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(number, sizeof number, "%s", json_is_true(value) ? "true" : "false");
    else
        return json_is_string(value) ? json_incref(value) : NULL;
    return json_string(number);
}

static int add_param(struct flow_reader *reader, json_t *env, const char *name, json_t *standard,
                     const char *given)
{
    char path[PATH_BYTES];
    char variable[VARIABLE_BYTES];
    snprintf(path, sizeof path, "params.%.*s", NAME_BYTES, name);
    if (!is_name(name))
        return flow_fault(reader, path,
                          "a parameter's name is made of letters, digits, _ and -, up to %d",
                          NAME_BYTES - 1);
    if (!given && json_is_null(standard))
        return flow_fault(reader, path, "it has no value; give it with --param %s=VALUE", name);
    json_t *text = given ? json_string(given) : text_of(standard);
    if (!text && given)
        return err_set(reader->err, TEND_EINVAL, "--param: the value of %s is not UTF-8", name);
    if (!text)
        return flow_fault(reader, path, "must be text, a number, true, false or null");
    variable_of(name, variable);
    if (json_object_get(env, variable)) {
        json_decref(text);
        return flow_fault(reader, path, "another parameter becomes the variable %s too", variable);
    }
    return json_object_set_new(env, variable, text) == 0
               ? 0
               : err_set(reader->err, TEND_ENOMEM, "out of memory");
}

static int add_params(struct flow_reader *reader, json_t *env, json_t *params,
                      const struct text_list *given)
{
    const char *name;
    json_t *value;
    if (params && !json_is_object(params))
        return flow_fault(reader, "params", "must be a list of names and values, NAME: VALUE");
    int code = check_given(reader, params, given);
    if (code < 0)
        return code;
    json_object_foreach(params, name, value)
    {
        code = add_param(reader, env, name, value, given_value(given, name));
        if (code < 0)
            return code;
    }
    return 0;
}

static int add_environment(struct flow_reader *reader, json_t *env, json_t *more, const char *path)
{
    if (!more)
        return 0;
    if (!json_is_object(more))
        return flow_fault(reader, path, "must be a list of names and values, NAME: VALUE");
    return json_object_update(env, more) == 0 ? 0
                                              : err_set(reader->err, TEND_ENOMEM, "out of memory");
}

int flow_params_apply(struct flow_reader *reader, json_t *flow, json_t *stage,
                      const struct text_list *given)
{
    json_t *env = json_object();
    if (!env)
        return err_set(reader->err, TEND_ENOMEM, "out of memory");
    int code = add_params(reader, env, json_object_get(flow, "params"), given);
    if (code == 0)
        code = add_environment(reader, env, json_object_get(flow, "env"), "env");
    if (code == 0)
        code = add_environment(reader, env, json_object_get(stage, "env"), "stages[0].env");
    if (code == 0 && json_object_size(env) > 0 && json_object_set(stage, "env", env) < 0)
        code = err_set(reader->err, TEND_ENOMEM, "out of memory");
    json_decref(env);
    return code;
}
