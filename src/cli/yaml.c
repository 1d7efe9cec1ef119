/*
 * See yaml.h. The parser's events become a tree of nodes that know their places, and the nodes
 * become JSON.
 */
#include "cli/yaml.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <yaml.h>

enum {
    DEPTH_MOST = 64,
    NODES_MOST = 1000000, /* aliases followed */
};

enum node_kind { SCALAR, SEQUENCE, MAPPING, ALIAS };

struct node {
    enum node_kind kind;
    bool plain; /* a scalar without quotes, whose text may mean a number */
    struct yaml_place place;
    const char *text; /* of a scalar */
    size_t bytes;
    const struct node *target; /* of an alias */
    struct node *first;        /* items; of a mapping names and values in turns */
    struct node *next;         /* in what it is an item of */
    const char *anchor;        /* NULL: none */
    struct node *next_anchor;  /* older */
};

struct yaml_doc {
    struct arena arena; /* of the nodes */
    struct node *root;
    json_t *json;
};

/* --- what a plain scalar means --- */

static bool is_one_of(const char *text, size_t len, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == len && memcmp(*words, text, len) == 0)
            return true;
    return false;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* The number the text is, or NULL: it is none, or one that JSON could not write as it stands. */
static json_t *number_of(const char *text)
{
    const char *at = text + (*text == '-');
    size_t whole = digits(at);
    if (whole == 0 || (whole > 1 && *at == '0'))
        return NULL;
    at += whole;
    bool real = *at == '.' || *at == 'e' || *at == 'E';
    if (*at == '.') {
        size_t fraction = digits(at + 1);
        if (fraction == 0)
            return NULL;
        at += 1 + fraction;
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        size_t exponent = digits(at);
        if (exponent == 0)
            return NULL;
        at += exponent;
    }
    if (*at)
        return NULL;
    errno = 0;
    if (!real) {
        long long number = strtoll(text, NULL, 10);
        return errno ? NULL : json_integer(number);
    }
    double number = strtod(text, NULL);
    return errno ? NULL : json_real(number);
}

static json_t *plain_scalar(const char *text, size_t len)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    char number[64];
    if (is_one_of(text, len, nulls))
        return json_null();
    if (is_one_of(text, len, trues))
        return json_true();
    if (is_one_of(text, len, falses))
        return json_false();
    if (len < sizeof number) {
        memcpy(number, text, len);
        number[len] = '\0';
        json_t *found = strlen(number) == len ? number_of(number) : NULL;
        if (found)
            return found;
    }
    return json_stringn(text, len);
}

/* --- places --- */

/* Of the first text in it: that is what a reader looks for. */
static struct yaml_place place_of(const struct node *node)
{
    while (node->first != NULL)
        node = node->first;
    return node->place;
}

static const struct node *resolved(const struct node *node)
{
    return node->kind == ALIAS ? node->target : node;
}

static bool is_named(const struct node *name, const char *text, size_t bytes)
{
    return name->kind == SCALAR && name->bytes == bytes && memcmp(name->text, text, bytes) == 0;
}

static const struct node *item_at(const struct node *list, long index)
{
    const struct node *item = list->kind == SEQUENCE && index >= 0 ? list->first : NULL;
    while (item != NULL && index-- > 0)
        item = item->next;
    return item;
}

/* The name of the member; its value is the next. */
static const struct node *member_of(const struct node *map, const char *text, size_t bytes)
{
    const struct node *name = map->kind == MAPPING ? map->first : NULL;
    while (name != NULL && !is_named(name, text, bytes))
        name = name->next->next;
    return name;
}

struct yaml_place yaml_doc_find(const struct yaml_doc *yaml, const char *path)
{
    const struct node *node = yaml->root;
    struct yaml_place place = place_of(node);
    while (*path && node != NULL) {
        const struct node *found;
        node = resolved(node);
        if (*path == '[') {
            char *end;
            found = item_at(node, strtol(path + 1, &end, 10));
            node = found;
            path = *end ? end + 1 : end;
        } else {
            size_t len = strcspn(path, ".[");
            /* What is said of a member is said of its name and all behind it. */
            found = member_of(node, path, len);
            node = found != NULL ? found->next : NULL;
            path += len;
        }
        path += *path == '.';
        if (found != NULL)
            place = place_of(found);
    }
    return place;
}

/* --- nodes to JSON --- */

struct conversion {
    size_t nodes;
    struct yaml_place place; /* of what is wrong */
    struct err *err;
};

static json_t *convert(struct conversion *all, const struct node *node, int depth);

static json_t *refuse(struct conversion *all, const struct node *node, const char *sentence)
{
    all->place = place_of(node);
    err_set(all->err, TEND_EINVAL, "%s", sentence);
    return NULL;
}

static json_t *convert_sequence(struct conversion *all, const struct node *node, int depth)
{
    json_t *list = json_array();
    for (const struct node *item = node->first; list != NULL && item != NULL; item = item->next) {
        json_t *json = convert(all, item, depth + 1);
        if (json == NULL || json_array_append_new(list, json) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *convert_member(struct conversion *all, const struct node *name, json_t *object,
                              int depth)
{
    if (name->kind != SCALAR || memchr(name->text, '\0', name->bytes) != NULL)
        return refuse(all, name, "a name must be a plain text");
    if (json_object_get(object, name->text) != NULL)
        return refuse(all, name, "this name is there twice");
    return convert(all, name->next, depth + 1);
}

static json_t *convert_mapping(struct conversion *all, const struct node *node, int depth)
{
    json_t *object = json_object();
    for (const struct node *name = node->first; object != NULL && name != NULL;
         name = name->next->next) {
        json_t *json = convert_member(all, name, object, depth);
        if (json == NULL || json_object_set_new(object, name->text, json) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* NULL with all->err set; where it is not set, memory is out. */
static json_t *convert(struct conversion *all, const struct node *node, int depth)
{
    if (depth > DEPTH_MOST || ++all->nodes > NODES_MOST)
        return refuse(all, node, "this is nested too deeply, or aliases make it too large");
    switch (node->kind) {
    case SCALAR:
        return node->plain ? plain_scalar(node->text, node->bytes)
                           : json_stringn(node->text, node->bytes);
    case SEQUENCE:
        return convert_sequence(all, node, depth);
    case MAPPING:
        return convert_mapping(all, node, depth);
    case ALIAS:
        return convert(all, node->target, depth + 1);
    }
    return NULL;
}

/* --- events to nodes --- */

struct reading {
    yaml_parser_t parser;
    const char *text;
    struct arena *arena;
    struct node *anchors; /* the newest first */
    struct yaml_place *place;
    struct err *err;
};

/* Of a byte that all before is text. */
static struct yaml_place place_of_byte(const char *text, size_t byte)
{
    struct yaml_place place = {.line = 1, .column = 1};
    for (size_t at = 0; at < byte; at++) {
        if (text[at] == '\n')
            place = (struct yaml_place){.line = place.line + 1, .column = 1};
        else
            place.column += ((unsigned char)text[at] & 0xC0) != 0x80;
    }
    return place;
}

static struct yaml_place place_at(yaml_mark_t mark)
{
    return (struct yaml_place){.line = mark.line + 1, .column = mark.column + 1};
}

static struct node *wrong(struct reading *all, yaml_mark_t mark, const char *sentence)
{
    *all->place = place_at(mark);
    err_set(all->err, TEND_EINVAL, "%s", sentence);
    return NULL;
}

/* What the parser has complained about; of what has no end, where it begins. */
static void parser_fault(struct reading *all)
{
    const yaml_parser_t *parser = &all->parser;
    const char *problem = parser->problem != NULL ? parser->problem : "it is no YAML";
    const char *context = parser->context != NULL ? parser->context : "";
    bool endless = *context && strstr(problem, "end of stream") != NULL;
    bool no_token = strstr(problem, "cannot start any token") != NULL;
    if (parser->error == YAML_MEMORY_ERROR) {
        err_set(all->err, TEND_ENOMEM, "out of memory");
        return;
    }
    *all->place = parser->error == YAML_READER_ERROR
                      ? place_of_byte(all->text, parser->problem_offset)
                      : place_at(endless ? parser->context_mark : parser->problem_mark);
    err_set(all->err, TEND_EINVAL, "%s%s%s", problem, *context && !no_token ? " " : "",
            no_token ? " (blanks indent, not tabs; a text that begins with @, ` or % needs quotes)"
                     : context);
}

static bool next_event(struct reading *all, yaml_event_t *event)
{
    if (yaml_parser_parse(&all->parser, event) == 1)
        return true;
    parser_fault(all);
    return false;
}

static struct node *new_node(struct reading *all, enum node_kind kind, const yaml_event_t *event,
                             const yaml_char_t *anchor, const yaml_char_t *tag)
{
    struct node *node = arena_zalloc(all->arena, sizeof *node);
    if (tag != NULL)
        return wrong(all, event->start_mark, "tags (!…) have no meaning here; leave it out");
    if (node == NULL)
        return NULL;
    node->kind = kind;
    node->place = place_at(event->start_mark);
    if (anchor != NULL) {
        node->anchor = arena_strdup(all->arena, (const char *)anchor);
        node->next_anchor = all->anchors;
        all->anchors = node;
    }
    return anchor != NULL && node->anchor == NULL ? NULL : node;
}

static struct node *scalar_node(struct reading *all, const yaml_event_t *event)
{
    size_t bytes = event->data.scalar.length;
    struct node *node =
        new_node(all, SCALAR, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (node == NULL)
        return NULL;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->bytes = bytes;
    node->text = arena_strndup(all->arena, (const char *)event->data.scalar.value, bytes);
    return node->text != NULL ? node : NULL;
}

static struct node *alias_node(struct reading *all, const yaml_event_t *event)
{
    const struct node *target = all->anchors;
    while (target != NULL && strcmp(target->anchor, (const char *)event->data.alias.anchor) != 0)
        target = target->next_anchor;
    if (target == NULL)
        return wrong(all, event->start_mark, "there is no anchor of this name");
    struct node *node = new_node(all, ALIAS, event, NULL, NULL);
    if (node != NULL)
        node->target = target;
    return node;
}

static struct node *read_node(struct reading *all, yaml_event_t *event, int depth);

/* The items up to the end of it. */
static struct node *read_items(struct reading *all, struct node *node, int depth)
{
    struct node **tail = &node->first;
    for (;;) {
        yaml_event_t event;
        if (!next_event(all, &event))
            return NULL;
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return node;
        }
        *tail = read_node(all, &event, depth + 1);
        yaml_event_delete(&event);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
    }
}

/* The node that begins with the event. NULL with all->err set; where it is not set, memory is out.
 */
static struct node *read_node(struct reading *all, yaml_event_t *event, int depth)
{
    struct node *node;
    if (depth > DEPTH_MOST)
        return wrong(all, event->start_mark, "this is nested too deeply");
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return alias_node(all, event);
    case YAML_SEQUENCE_START_EVENT:
        node = new_node(all, SEQUENCE, event, event->data.sequence_start.anchor,
                        event->data.sequence_start.tag);
        return node != NULL ? read_items(all, node, depth) : NULL;
    case YAML_MAPPING_START_EVENT:
        node = new_node(all, MAPPING, event, event->data.mapping_start.anchor,
                        event->data.mapping_start.tag);
        return node != NULL ? read_items(all, node, depth) : NULL;
    default:
        return scalar_node(all, event);
    }
}

/* Reads one event; its type, or YAML_NO_EVENT after a fault. */
static yaml_event_type_t skip_event(struct reading *all)
{
    yaml_event_t event;
    if (!next_event(all, &event))
        return YAML_NO_EVENT;
    yaml_event_type_t type = event.type;
    yaml_event_delete(&event);
    return type;
}

/* The one document of the stream. */
static struct node *read_document(struct reading *all)
{
    yaml_event_t event;
    if (skip_event(all) == YAML_NO_EVENT)
        return NULL;
    yaml_event_type_t type = skip_event(all);
    if (type == YAML_STREAM_END_EVENT)
        err_set(all->err, TEND_EINVAL, "there is nothing in it");
    if (type != YAML_DOCUMENT_START_EVENT || !next_event(all, &event))
        return NULL;
    struct node *root = read_node(all, &event, 0);
    yaml_event_delete(&event);
    if (root == NULL || skip_event(all) == YAML_NO_EVENT)
        return NULL;
    type = skip_event(all);
    if (type == YAML_DOCUMENT_START_EVENT)
        err_set(all->err, TEND_EINVAL, "there is a second document behind the first (---)");
    return type == YAML_STREAM_END_EVENT ? root : NULL;
}

/* --- the text --- */

/* How many bytes are text. */
static size_t text_bytes(const char *text, size_t bytes)
{
    size_t at = 0;
    for (size_t len = 1; at < bytes && len > 0; at += len)
        len = text[at] == '\0' ? 0 : utf8_sequence(text + at, bytes - at);
    return at;
}

static struct node *read_tree(struct yaml_doc *yaml, const char *text, size_t bytes,
                              struct yaml_place *ret_place, struct err *err)
{
    struct reading all = {.text = text, .arena = &yaml->arena, .place = ret_place, .err = err};
    if (yaml_parser_initialize(&all.parser) != 1)
        return NULL;
    yaml_parser_set_encoding(&all.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&all.parser, (const unsigned char *)text, bytes);
    struct node *root = read_document(&all);
    yaml_parser_delete(&all.parser);
    return root;
}

int yaml_doc_read(const char *text, size_t bytes, struct yaml_doc **ret,
                  struct yaml_place *ret_place, struct err *err)
{
    size_t valid = text_bytes(text, bytes);
    *ret_place = valid < bytes ? place_of_byte(text, valid) : (struct yaml_place){.line = 0};
    if (valid < bytes)
        return err_set(err, TEND_EINVAL, "this is not UTF-8");
    struct yaml_doc *yaml = calloc(1, sizeof *yaml);
    err_set(err, TEND_ENOMEM, "out of memory"); /* unless something else is said */
    if (yaml == NULL)
        return err->code;
    arena_init(&yaml->arena);
    yaml->root = read_tree(yaml, text, bytes, ret_place, err);
    if (yaml->root != NULL) {
        struct conversion all = {.err = err};
        yaml->json = convert(&all, yaml->root, 0);
        *ret_place = all.place;
    }
    if (yaml->json == NULL) {
        yaml_doc_free(yaml);
        return err->code;
    }
    err_clear(err);
    *ret = yaml;
    return 0;
}

void yaml_doc_free(struct yaml_doc *yaml)
{
    if (!yaml)
        return;
    json_decref(yaml->json);
    arena_done(&yaml->arena);
    free(yaml);
}

json_t *yaml_doc_json(const struct yaml_doc *yaml)
{
    return yaml->json;
}
