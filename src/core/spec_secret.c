/* Secrets that a plan names instead of carrying them: see struct secret_name in spec.h. */
#include "base/arena.h"
#include "base/json.h"
#include "core/spec_read.h"

#include <stdlib.h>
#include <string.h>
#include <tend.h>

/* The names of the members: as a value of its own, and inside a JSON body, where {"env": …} may
 * just as well be a part of the document. */
struct spelling {
    const char *env, *file;
};
static const struct spelling plain = {"env", "file"};
static const struct spelling inner = {"$env", "$file"};
static const char prefix_name[] = "prefix";

static bool is_variable(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return name[0] != '\0' && strchr("0123456789", name[0]) == NULL &&
           name[strspn(name, letters)] == '\0';
}

static int read_variable(struct reader *reader, const struct place *place, json_t *value,
                         struct secret_name *secret)
{
    const char *text = json_string_value(value);
    if (!text || !is_variable(text))
        return spec_fault(reader, place,
                          "must be the name of a variable of the worker, such as \"API_TOKEN\"");
    secret->place = SECRET_IN_ENV;
    return spec_text(reader, place, value, &secret->name);
}

static int read_path(struct reader *reader, const struct place *place, json_t *value,
                     struct secret_name *secret)
{
    const char *text = json_string_value(value);
    if (!text || text[0] != '/')
        return spec_fault(reader, place,
                          "must be the absolute path of a file, such as \"/run/secrets/api\"");
    secret->place = SECRET_IN_FILE;
    return spec_text(reader, place, value, &secret->name);
}

static int read_secret(struct reader *reader, const struct place *place, json_t *value,
                       const struct spelling *spelling, struct secret_name *secret)
{
    const char *const names[] = {spelling->env, spelling->file, prefix_name, NULL};
    const char *name;
    json_t *text;
    secret->prefix = "";
    json_object_foreach(value, name, text)
    {
        struct place here = {.parent = place, .name = name};
        int code;
        if (strcmp(name, prefix_name) == 0)
            code = spec_text(reader, &here, text, &secret->prefix);
        else if (strcmp(name, spelling->env) != 0 && strcmp(name, spelling->file) != 0)
            code = spec_unknown(reader, &here, names);
        else if (secret->name)
            code = spec_fault(reader, place, "%s and %s cannot be given together", spelling->env,
                              spelling->file);
        else if (strcmp(name, spelling->env) == 0)
            code = read_variable(reader, &here, text, secret);
        else
            code = read_path(reader, &here, text, secret);
        if (code < 0)
            return code;
    }
    return secret->name ? 0
                        : spec_fault(reader, place, "needs %s or %s: where the value comes from",
                                     spelling->env, spelling->file);
}

int spec_secret(struct reader *reader, const struct place *place, json_t *value,
                const struct secret_name **ret)
{
    struct secret_name *secret = arena_zalloc(reader->arena, sizeof *secret);
    if (!secret)
        return spec_no_memory(reader);
    *ret = secret;
    return read_secret(reader, place, value, &plain, secret);
}

bool spec_is_secret(json_t *value)
{
    const char *name;
    json_t *member;
    bool found = false;
    json_object_foreach(value, name, member)
    {
        bool is_prefix = strcmp(name, prefix_name) == 0;
        if (!is_prefix && strcmp(name, plain.env) != 0 && strcmp(name, plain.file) != 0)
            return false;
        if (!json_is_string(member))
            return false;
        found = found || !is_prefix;
    }
    return found;
}

static bool is_inner(json_t *value)
{
    return json_object_get(value, inner.env) || json_object_get(value, inner.file);
}

static int find_inner(struct reader *reader, const struct place *place, json_t *value, bool *found)
{
    const char *name;
    json_t *member;
    size_t i;
    int code = 0;
    if (is_inner(value)) {
        struct secret_name secret = {0};
        *found = true;
        return read_secret(reader, place, value, &inner, &secret);
    }
    json_object_foreach(value, name, member)
    {
        struct place here = {.parent = place, .name = name};
        if (code == 0)
            code = find_inner(reader, &here, member, found);
    }
    json_array_foreach(value, i, member)
    {
        struct place here = {.parent = place, .index = i};
        if (code == 0)
            code = find_inner(reader, &here, member, found);
    }
    return code;
}

int spec_inner_secrets(struct reader *reader, const struct place *place, json_t *value)
{
    bool found = false;
    if (is_inner(value))
        return spec_fault(reader, place, "for the whole body write {\"%s\": …} or {\"%s\": …}",
                          plain.env, plain.file);
    int code = find_inner(reader, place, value, &found);
    return code < 0 ? code : found;
}

/* ---- a JSON body with its secrets ---- */

struct filling {
    struct arena *arena;
    secret_lookup *lookup;
    void *context;
};

static int fill(const struct filling *filling, json_t *value, json_t **ret);

/* The secret in place of the object that names it. */
static int fill_secret(const struct filling *filling, json_t *value, json_t **ret)
{
    struct reader reader = {.arena = filling->arena};
    struct secret_name secret = {0};
    const char *text = NULL;
    int code = read_secret(&reader, NULL, value, &inner, &secret);
    if (code == 0)
        code = filling->lookup(filling->context, &secret, &text);
    if (code < 0)
        return code;
    *ret = json_string(text);
    return *ret ? 0 : TEND_ENOMEM;
}

static int fill_object(const struct filling *filling, json_t *value, json_t *object)
{
    const char *name;
    json_t *member, *filled;
    json_object_foreach(value, name, member)
    {
        int code = fill(filling, member, &filled);
        if (code < 0)
            return code;
        if (json_object_set_new(object, name, filled) < 0)
            return TEND_ENOMEM;
    }
    return 0;
}

static int fill_array(const struct filling *filling, json_t *value, json_t *array)
{
    size_t i;
    json_t *member, *filled;
    json_array_foreach(value, i, member)
    {
        int code = fill(filling, member, &filled);
        if (code < 0)
            return code;
        if (json_array_append_new(array, filled) < 0)
            return TEND_ENOMEM;
    }
    return 0;
}

/* A copy of the value, with secrets; *ret is the caller's on success. */
static int fill(const struct filling *filling, json_t *value, json_t **ret)
{
    if (is_inner(value))
        return fill_secret(filling, value, ret);
    if (!json_is_object(value) && !json_is_array(value)) {
        *ret = json_incref(value);
        return 0;
    }
    json_t *copy = json_is_object(value) ? json_object() : json_array();
    if (!copy)
        return TEND_ENOMEM;
    int code = json_is_object(value) ? fill_object(filling, value, copy)
                                     : fill_array(filling, value, copy);
    if (code < 0)
        json_decref(copy);
    else
        *ret = copy;
    return code;
}

int spec_fill_body(const struct http_plan *http, struct arena *arena, secret_lookup *lookup,
                   void *context, const char **ret)
{
    const struct filling filling = {.arena = arena, .lookup = lookup, .context = context};
    json_t *document = json_loadb(http->body, http->body_bytes, JSON_DECODE_ANY, NULL);
    json_t *filled = NULL;
    int code = document ? fill(&filling, document, &filled) : TEND_ENOMEM;
    char *text = code < 0 ? NULL : json_dumps(filled, JSON_COMPACT | JSON_ENCODE_ANY);
    if (code == 0)
        code = text && (*ret = arena_strdup(arena, text)) ? 0 : TEND_ENOMEM;
    free(text);
    json_decref(filled);
    json_decref(document);
    return code;
}

/* ---- all of a payload ---- */

/* The members of a payload in which a plan has its secrets. */
static bool is_secret_place(const char *name)
{
    return strcmp(name, "env") == 0 || strcmp(name, "headers") == 0 || strcmp(name, "body") == 0;
}

/* The secret that a member of such an object names; false for the prefix and what is no name.
 * Elsewhere than in a secret place, "file" may as well be the name of the data. */
static bool name_member(const char *name, json_t *member, bool in_place, struct secret_name *ret)
{
    const char *text = json_string_value(member);
    *ret = (struct secret_name){.name = text, .prefix = ""};
    if (strcmp(name, plain.env) == 0 || strcmp(name, inner.env) == 0)
        return is_variable(text);
    ret->place = SECRET_IN_FILE;
    if (strcmp(name, plain.file) == 0 && !in_place)
        return false;
    return strcmp(name, prefix_name) != 0 && text[0] == '/';
}

static bool names_secret(json_t *value)
{
    static const char *const names[] = {"env", "file", "$env", "$file", "prefix"};
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            found = found || strcmp(name, names[i]) == 0;
        if (!found || !json_is_string(member))
            return false;
    }
    return json_is_object(value);
}

static int look_up_all(json_t *value, bool in_place, secret_lookup *lookup, void *context)
{
    const char *name, *unused;
    json_t *member;
    size_t i;
    struct secret_name secret;
    bool is_name = names_secret(value);
    int code = 0;
    json_object_foreach(value, name, member)
    {
        if (code == 0 && !is_name)
            code = look_up_all(member, in_place || is_secret_place(name), lookup, context);
        else if (code == 0 && name_member(name, member, in_place, &secret))
            code = lookup(context, &secret, &unused);
    }
    json_array_foreach(value, i, member)
    {
        if (code == 0)
            code = look_up_all(member, in_place, lookup, context);
    }
    return code;
}

int spec_payload_secrets(const char *payload, size_t bytes, secret_lookup *lookup, void *context)
{
    json_error_t error;
    json_t *document = json_loadb(payload, bytes, JSON_DECODE_ANY, &error);
    if (!document)
        return json_no_memory(&error) ? TEND_ENOMEM : 0;
    int code = look_up_all(document, false, lookup, context);
    json_decref(document);
    return code;
}
