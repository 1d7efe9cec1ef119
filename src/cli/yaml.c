/* See yaml.h. */
#include "cli/yaml.h"

#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <libfyaml.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

enum {
    DEPTH_MOST = 64,
    NODES_MOST = 1000000, /* aliases followed */
};

struct yaml {
    struct fy_diag *diag;
    struct fy_parser *parser;
    struct fy_document *document;
    json_t *json;
    char said[128]; /* the first error that was said and not collected */
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

static struct yaml_place place_of(struct fy_node *node)
{
    for (int depth = 0; node && depth < DEPTH_MOST; depth++) {
        void *at = NULL;
        if (fy_node_is_sequence(node)) {
            node = fy_node_sequence_iterate(node, &at);
        } else if (fy_node_is_mapping(node)) {
            struct fy_node_pair *pair = fy_node_mapping_iterate(node, &at);
            node = pair ? fy_node_pair_key(pair) : NULL;
        } else {
            struct fy_token *token = fy_node_get_scalar_token(node);
            const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
            if (!mark)
                break;
            return (struct yaml_place){.line = (size_t)mark->line + 1,
                                       .column = (size_t)mark->column + 1};
        }
    }
    return (struct yaml_place){.line = 0};
}

static struct fy_node *resolved(struct fy_node *node)
{
    return node && fy_node_is_alias(node) ? fy_node_resolve_alias(node) : node;
}

struct yaml_place yaml_find(const struct yaml *yaml, const char *path)
{
    struct fy_node *node = fy_document_root(yaml->document);
    struct yaml_place place = place_of(node);
    while (*path && (node = resolved(node))) {
        struct yaml_place here;
        if (*path == '[') {
            char *end;
            long index = strtol(path + 1, &end, 10);
            node =
                fy_node_is_sequence(node) ? fy_node_sequence_get_by_index(node, (int)index) : NULL;
            here = place_of(node);
            path = *end ? end + 1 : end;
        } else {
            size_t len = strcspn(path, ".[");
            struct fy_node_pair *pair = fy_node_is_mapping(node)
                                            ? fy_node_mapping_lookup_pair_by_string(node, path, len)
                                            : NULL;
            /* What is said of a member is said of its name and all behind it. */
            here = place_of(pair ? fy_node_pair_key(pair) : NULL);
            node = pair ? fy_node_pair_value(pair) : NULL;
            path += len;
        }
        path += *path == '.';
        if (here.line > 0)
            place = here;
    }
    return place;
}

/* --- the tree --- */

struct conversion {
    size_t nodes;
    struct yaml_place place; /* of what is wrong */
    struct err *err;
};

static json_t *convert(struct conversion *all, struct fy_node *node, int depth);

static json_t *refuse(struct conversion *all, struct fy_node *node, const char *sentence)
{
    all->place = place_of(node);
    err_set(all->err, TEND_EINVAL, "%s", sentence);
    return NULL;
}

static json_t *convert_scalar(struct conversion *all, struct fy_node *node)
{
    size_t len = 0;
    const char *text = node ? fy_node_get_scalar(node, &len) : "";
    bool plain = !node || fy_node_get_style(node) == FYNS_PLAIN;
    json_t *json = plain ? plain_scalar(text ? text : "", text ? len : 0)
                         : json_stringn(text ? text : "", text ? len : 0);
    return json ? json : refuse(all, node, "this text is not UTF-8");
}

static json_t *convert_sequence(struct conversion *all, struct fy_node *node, int depth)
{
    json_t *list = json_array();
    struct fy_node *item;
    for (void *at = NULL; list && (item = fy_node_sequence_iterate(node, &at));) {
        json_t *json = convert(all, item, depth + 1);
        if (!json || json_array_append_new(list, json) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *convert_mapping(struct conversion *all, struct fy_node *node, int depth)
{
    json_t *object = json_object();
    struct fy_node_pair *pair;
    for (void *at = NULL; object && (pair = fy_node_mapping_iterate(node, &at));) {
        struct fy_node *key = fy_node_pair_key(pair);
        const char *name = key && fy_node_is_scalar(key) ? fy_node_get_scalar0(key) : NULL;
        json_t *json = name ? convert(all, fy_node_pair_value(pair), depth + 1)
                            : refuse(all, node, "a name must be a plain text");
        if (!json || json_object_set_new(object, name, json) < 0) {
            if (json && !all->place.line)
                refuse(all, key, "this name is not UTF-8");
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* NULL with all->err set; where it is not set, memory is out. A missing node is a null. */
static json_t *convert(struct conversion *all, struct fy_node *node, int depth)
{
    if (depth > DEPTH_MOST || ++all->nodes > NODES_MOST)
        return refuse(all, node, "this is nested too deeply, or aliases make it too large");
    if (node && fy_node_get_tag(node, NULL))
        return refuse(all, node, "tags (!…) have no meaning here; leave it out");
    if (node && fy_node_is_alias(node)) {
        struct fy_node *target = fy_node_resolve_alias(node);
        return target ? convert(all, target, depth + 1)
                      : refuse(all, node, "there is no anchor of this name");
    }
    if (node && fy_node_is_sequence(node))
        return convert_sequence(all, node, depth);
    if (node && fy_node_is_mapping(node))
        return convert_mapping(all, node, depth);
    return convert_scalar(all, node);
}

/* --- the text --- */

/*
 * Looked at before the parser does, for which bytes that are no text can be an endless loop
 * (0.7.12, in a directive). False: *ret_place is the first that is wrong.
 */
static bool is_text(const char *text, size_t bytes, struct yaml_place *ret_place)
{
    struct yaml_place place = {.line = 1, .column = 1};
    for (size_t at = 0; at < bytes;) {
        size_t len = utf8_sequence(text + at, bytes - at);
        if (len == 0 || text[at] == '\0') {
            *ret_place = place;
            return false;
        }
        place.column++;
        if (text[at] == '\n')
            place = (struct yaml_place){.line = place.line + 1, .column = 1};
        at += len;
    }
    return true;
}

/* The first thing the parser has complained about. */
static int parser_fault(struct yaml *yaml, struct yaml_place *ret_place, struct err *err)
{
    void *at = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(yaml->diag, &at);
    if (!error)
        return err_set(err, TEND_EINVAL, "it is no YAML: %s",
                       yaml->said[0] ? yaml->said : "it cannot be read");
    *ret_place = (struct yaml_place){.line = error->line > 0 ? (size_t)error->line : 1,
                                     .column = error->column > 0 ? (size_t)error->column : 1};
    return err_set(err, TEND_EINVAL, "%s", error->msg);
}

/* Some errors are only said, as "[ERR]: …"; the first is kept. */
static void keep_said(struct fy_diag *diag, void *arg, const char *text, size_t bytes)
{
    struct yaml *yaml = arg;
    static const char mark[] = "[ERR]: ";
    size_t skip = strlen(mark);
    (void)diag;
    if (!yaml->said[0] && bytes > skip && memcmp(text, mark, skip) == 0)
        snprintf(yaml->said, sizeof yaml->said, "%.*s", (int)strcspn(text + skip, "\n"),
                 text + skip);
}

static bool open_parser(struct yaml *yaml, const char *text, size_t bytes)
{
    struct fy_diag_cfg diag_options;
    fy_diag_cfg_default(&diag_options);
    diag_options.fp = NULL;
    diag_options.output_fn = keep_said;
    diag_options.user = yaml;
    yaml->diag = fy_diag_create(&diag_options);
    if (!yaml->diag)
        return false;
    fy_diag_set_collect_errors(yaml->diag, true);
    const struct fy_parse_cfg options = {.flags = FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_2 |
                                                  FYPCF_JSON_NONE | FYPCF_SLOPPY_FLOW_INDENTATION,
                                         .diag = yaml->diag};
    yaml->parser = fy_parser_create(&options);
    return yaml->parser && fy_parser_set_string(yaml->parser, text, bytes) == 0;
}

static int read_document(struct yaml *yaml, struct yaml_place *ret_place, struct err *err)
{
    yaml->document = fy_parse_load_document(yaml->parser);
    if (!yaml->document && fy_diag_got_error(yaml->diag))
        return parser_fault(yaml, ret_place, err);
    if (!yaml->document)
        return err_set(err, TEND_EINVAL, "there is nothing in it");
    struct fy_document *second = fy_parse_load_document(yaml->parser);
    bool more = second != NULL;
    if (second)
        fy_parse_document_destroy(yaml->parser, second);
    if (fy_diag_got_error(yaml->diag))
        return parser_fault(yaml, ret_place, err);
    if (more)
        return err_set(err, TEND_EINVAL, "there is a second document behind the first (---)");
    struct conversion all = {.err = err};
    err_set(err, TEND_ENOMEM, "out of memory");
    yaml->json = convert(&all, fy_document_root(yaml->document), 0);
    *ret_place = all.place;
    return yaml->json ? 0 : err->code;
}

static int read_text(const char *text, size_t bytes, struct yaml **ret,
                     struct yaml_place *ret_place, struct err *err)
{
    struct yaml *yaml = calloc(1, sizeof *yaml);
    int code = yaml && open_parser(yaml, text, bytes) ? read_document(yaml, ret_place, err)
                                                      : err_set(err, TEND_ENOMEM, "out of memory");
    if (code < 0)
        yaml_free(yaml);
    else
        *ret = yaml;
    return code;
}

/* In the child: to crash without a trace, and not to stay. */
static void be_expendable(void)
{
    enum { READ_S = 30 };
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    const struct rlimit none = {0};
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    alarm(READ_S);
}

/*
 * The parser (libfyaml 0.7) does not survive every text that is no YAML, "? a:<tab>:" for one. So a
 * process of its own reads it first; what that one has survived is read here.
 */
static int try_apart(const char *text, size_t bytes, struct err *err)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct yaml *yaml = NULL;
        struct yaml_place place;
        be_expendable();
        if (read_text(text, bytes, &yaml, &place, err) == 0)
            yaml_free(yaml);
        _exit(0);
    }
    if (child < 0)
        return err_set(err, TEND_ENOMEM, "a process cannot be started: %s", strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, TEND_EINVAL,
                         "it is no YAML, and its parser cannot say where; look for tabs, and for "
                         "lines that begin with \"? \"");
}

int yaml_read(const char *text, size_t bytes, struct yaml **ret, struct yaml_place *ret_place,
              struct err *err)
{
    *ret_place = (struct yaml_place){.line = 0};
    if (!is_text(text, bytes, ret_place))
        return err_set(err, TEND_EINVAL, "this is not UTF-8");
    int code = try_apart(text, bytes, err);
    return code < 0 ? code : read_text(text, bytes, ret, ret_place, err);
}

void yaml_free(struct yaml *yaml)
{
    if (!yaml)
        return;
    json_decref(yaml->json);
    if (yaml->document)
        fy_parse_document_destroy(yaml->parser, yaml->document);
    fy_parser_destroy(yaml->parser);
    fy_diag_destroy(yaml->diag);
    free(yaml);
}

json_t *yaml_json(const struct yaml *yaml)
{
    return yaml->json;
}
