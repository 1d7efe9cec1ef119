/* See batch_line.h. */
#include "cli/batch_line.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/timetext.h"
#include "cli/plan.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

enum field_type {
    FIELD_TEXT,
    FIELD_RAW,
    FIELD_TAGS,
    FIELD_PRIORITY,
    FIELD_INT,
    FIELD_DURATION,
    FIELD_TIME,
    FIELD_IF_RUNNING
};

/* A member of the object and where it goes. */
struct field {
    const char *name;
    enum field_type type;
    const char *member; /* of struct tend_job_spec */
    size_t offset;      /* ... and where that is */
};

#define TO(member) #member, offsetof(struct tend_job_spec, member)
static const struct field fields[] = {
    {"queue", FIELD_TEXT, TO(queue)},
    {"kind", FIELD_TEXT, TO(kind)},
    {"payload", FIELD_RAW, TO(payload)},
    {"priority", FIELD_PRIORITY, TO(priority)},
    {"in", FIELD_DURATION, TO(delay_ms)},
    {"delay_ms", FIELD_INT, TO(delay_ms)},
    {"at", FIELD_TIME, TO(due_at_ms)},
    {"due_at_ms", FIELD_INT, TO(due_at_ms)},
    {"unique", FIELD_TEXT, TO(unique_key)},
    {"unique_key", FIELD_TEXT, TO(unique_key)},
    {"subject", FIELD_TEXT, TO(subject)},
    {"if_running", FIELD_IF_RUNNING, TO(if_running)},
    {"key", FIELD_TEXT, TO(concurrency_key)},
    {"concurrency_key", FIELD_TEXT, TO(concurrency_key)},
    {"tags", FIELD_TAGS, TO(tags)},
    {"workspace", FIELD_TEXT, TO(workspace)},
    {"by", FIELD_TEXT, TO(by)},
    {"max_attempts", FIELD_INT, TO(max_attempts)},
    {"max_crashes", FIELD_INT, TO(max_crashes)},
    {"backoff", FIELD_DURATION, TO(backoff_ms)},
    {"backoff_ms", FIELD_INT, TO(backoff_ms)},
    {"backoff_max", FIELD_DURATION, TO(backoff_max_ms)},
    {"backoff_max_ms", FIELD_INT, TO(backoff_max_ms)},
    {"lease", FIELD_DURATION, TO(lease_ms)},
    {"lease_ms", FIELD_INT, TO(lease_ms)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

struct span {
    const char *at;
    size_t bytes;
};

struct line_parser {
    const char *line;
    int64_t now_ms;
    struct arena *arena;
    struct tend_job_spec *spec;
    struct line_fault *fault;
    const char *member;           /* that is being read, or NULL */
    const char *value_at[FIELDS]; /* where the line says it; NULL: it does not */
};

static int fault_at(struct line_parser *parser, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int fault_at(struct line_parser *parser, const char *at, const char *format, ...)
{
    parser->fault->column = 1;
    for (const char *byte = parser->line; byte < at; byte++)
        if (((unsigned char)*byte & 0xC0) != 0x80)
            parser->fault->column++;
    char *text = parser->fault->text;
    size_t size = sizeof parser->fault->text;
    int len = parser->member ? snprintf(text, size, "%s: ", parser->member) : 0;
    va_list args;
    va_start(args, format);
    if (vsnprintf(text + len, size - (size_t)len, format, args) < 0)
        text[len] = '\0';
    va_end(args);
    return TEND_EINVAL;
}

/* ---- walking a line that is known to be JSON ---- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* at is on the opening quote. */
static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

static const char *skip_value(const char *at)
{
    if (*at == '"')
        return skip_string(at);
    if (*at != '{' && *at != '[')
        return at + strcspn(at, ",}] \t\r\n");
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (depth > 0);
    return at;
}

/* ---- values ---- */

/* A string in quotes, decoded into the arena. */
static int read_text(struct line_parser *parser, struct span value, const char **ret)
{
    if (value.at[0] != '"')
        return fault_at(parser, value.at, "text in double quotes is expected here");
    if (!memchr(value.at, '\\', value.bytes)) {
        *ret = arena_strndup(parser->arena, value.at + 1, value.bytes - 2);
        return *ret ? 0 : TEND_ENOMEM;
    }
    json_error_t error;
    json_t *decoded = json_loadb(value.at, value.bytes, JSON_DECODE_ANY, &error);
    if (!decoded && json_no_memory(&error))
        return TEND_ENOMEM;
    if (!decoded)
        return fault_at(parser, value.at, "the text has a character that cannot be kept (\\u0000)");
    *ret = arena_strdup(parser->arena, json_string_value(decoded));
    json_decref(decoded);
    return *ret ? 0 : TEND_ENOMEM;
}

static int read_int(struct line_parser *parser, struct span value, int64_t *ret)
{
    char *end;
    errno = 0;
    long long number = strtoll(value.at, &end, 10);
    if (errno || end != value.at + value.bytes)
        return fault_at(parser, value.at, "a whole number is expected here");
    *ret = number;
    return 0;
}

/* "5m", "2026-01-31T10:00:00Z". */
static int read_time(struct line_parser *parser, struct span value, enum field_type type,
                     int64_t *ret)
{
    const char *text = NULL;
    int code = read_text(parser, value, &text);
    if (code < 0)
        return code;
    struct err err;
    code = type == FIELD_DURATION ? duration_parse(text, ret, &err)
                                  : time_parse(text, parser->now_ms, ret, &err);
    return code < 0 ? fault_at(parser, value.at, "%s", err.text) : 0;
}

static int read_priority(struct line_parser *parser, struct span value, int *ret)
{
    int64_t number = 0;
    int code = read_int(parser, value, &number);
    if (code < 0)
        return code;
    if (number < 0 || number > 9)
        return fault_at(parser, value.at, "a priority is a number from 0 to 9");
    *ret = (int)number;
    return 0;
}

static int read_if_running(struct line_parser *parser, struct span value, enum tend_if_running *ret)
{
    const char *text = "";
    int code = read_text(parser, value, &text);
    if (code < 0)
        return code;
    bool keep = strcmp(text, "keep") == 0;
    if (!keep && strcmp(text, "again") != 0)
        return fault_at(parser, value.at, "\"again\" or \"keep\" is expected here");
    *ret = keep ? TEND_IF_RUNNING_KEEP : TEND_IF_RUNNING_AGAIN;
    return 0;
}

static int read_tags(struct line_parser *parser, struct span value, const char **ret)
{
    if (value.at[0] != '[')
        return fault_at(parser, value.at, "tags are an array of texts");
    for (const char *at = skip_space(value.at + 1); *at != ']';) {
        if (*at != '"')
            return fault_at(parser, at, "a tag is text in double quotes");
        at = skip_space(skip_string(at));
        if (*at == ',')
            at = skip_space(at + 1);
    }
    *ret = arena_strndup(parser->arena, value.at, value.bytes);
    return *ret ? 0 : TEND_ENOMEM;
}

/* The member of the line that has set this one of the spec, or NULL. */
static const struct field *find_said(const struct line_parser *parser, const char *member)
{
    for (int i = 0; i < FIELDS; i++)
        if (parser->value_at[i] && strcmp(fields[i].member, member) == 0)
            return &fields[i];
    return NULL;
}

/* Two members for one thing leave open which of them counts. */
static int check_said(struct line_parser *parser, const struct field *field, struct span value)
{
    const struct field *said = find_said(parser, field->member);
    if (said == field)
        return fault_at(parser, value.at, "the line has this member twice; give it once");
    return said ? fault_at(parser, value.at, "the line says this with \"%s\" already; give one",
                           said->name)
                : 0;
}

static int read_field(struct line_parser *parser, const struct field *field, struct span value)
{
    char *target = (char *)parser->spec + field->offset;
    if (field->type != FIELD_RAW && value.bytes == 4 && memcmp(value.at, "null", 4) == 0)
        return 0; /* as if it were not there */
    int code = check_said(parser, field, value);
    if (code < 0)
        return code;
    parser->value_at[field - fields] = value.at;
    switch (field->type) {
    case FIELD_TEXT:
        return read_text(parser, value, (const char **)(void *)target);
    case FIELD_RAW:
        parser->spec->payload = arena_strndup(parser->arena, value.at, value.bytes);
        parser->spec->payload_bytes = value.bytes;
        return parser->spec->payload ? 0 : TEND_ENOMEM;
    case FIELD_TAGS:
        return read_tags(parser, value, (const char **)(void *)target);
    case FIELD_PRIORITY:
        return read_priority(parser, value, (int *)(void *)target);
    case FIELD_INT:
        return read_int(parser, value, (int64_t *)(void *)target);
    case FIELD_DURATION:
    case FIELD_TIME:
        return read_time(parser, value, field->type, (int64_t *)(void *)target);
    case FIELD_IF_RUNNING:
        return read_if_running(parser, value, &parser->spec->if_running);
    }
    return TEND_EINTERNAL;
}

static int read_member(struct line_parser *parser, struct span key, struct span value)
{
    const char *name = "";
    int code = read_text(parser, key, &name);
    if (code < 0)
        return code;
    struct suggestion near;
    suggestion_init(&near, name);
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            parser->member = fields[i].name;
            code = read_field(parser, &fields[i], value);
            parser->member = NULL;
            return code;
        }
        suggestion_offer(&near, fields[i].name);
    }
    if (near.best)
        return fault_at(parser, key.at, "unknown member \"%.60s\"; did you mean \"%s\"?", name,
                        near.best);
    return fault_at(parser, key.at, "unknown member \"%.60s\"; see tend-batch(5)", name);
}

/* ---- the line as a whole ---- */

/* Where the line says that; its beginning when the options do. */
static const char *place_of(const struct line_parser *parser, const char *member)
{
    const struct field *said = find_said(parser, member);
    return said ? parser->value_at[said - fields] : parser->line;
}

/* What a line says about its time replaces what the options say about it. */
static int settle_time(struct line_parser *parser)
{
    const struct field *in = find_said(parser, "delay_ms");
    const struct field *at = find_said(parser, "due_at_ms");
    if (in && at)
        return fault_at(parser, parser->value_at[in - fields],
                        "\"%s\" and \"%s\" exclude each other; give one", in->name, at->name);
    if (in)
        parser->spec->due_at_ms = TEND_UNSET;
    if (at)
        parser->spec->delay_ms = TEND_UNSET;
    return 0;
}

/* What only a job with a key can have. In the options it is for the lines that have one. */
static int check_key(struct line_parser *parser)
{
    if (parser->spec->unique_key)
        return 0;
    if (find_said(parser, "if_running"))
        return fault_at(parser, place_of(parser, "if_running"),
                        "\"if_running\" is about a job with a key; give \"unique\" too");
    if (find_said(parser, "subject"))
        return fault_at(parser, place_of(parser, "subject"),
                        "\"subject\" says what a key stands for; give \"unique\" too");
    return 0;
}

static int check_job(struct line_parser *parser)
{
    struct tend_job_spec *spec = parser->spec;
    struct tend_spec_fault fault;
    struct err err;
    int code;
    if ((code = settle_time(parser)) < 0 || (code = check_key(parser)) < 0)
        return code;
    code = plan_check(spec->payload, spec->payload_bytes, &spec->kind, &err);
    if (code == TEND_EINVAL)
        return fault_at(parser, place_of(parser, "payload"), "payload: %s", err.text);
    if (code < 0)
        return code;
    code = tend_job_spec_check(spec, &fault);
    return code == TEND_ENOMEM ? code
           : code < 0          ? fault_at(parser, place_of(parser, fault.member), "%s", fault.text)
                               : 0;
}

int batch_line_parse(const char *line, size_t bytes, int64_t now_ms, struct arena *arena,
                     struct tend_job_spec *spec, struct line_fault *ret_fault)
{
    struct line_parser parser = {
        .line = line, .now_ms = now_ms, .arena = arena, .spec = spec, .fault = ret_fault};
    struct json_fault fault;
    if (json_check(line, bytes, &fault) < 0)
        return fault_at(&parser, line + fault.offset, "%s", fault.reason);
    const char *at = skip_space(line);
    if (*at != '{')
        return fault_at(&parser, at, "a job is an object: {\"kind\": …}");
    for (at = skip_space(at + 1); *at != '}';) {
        const char *key_end = skip_string(at);
        struct span key = {.at = at, .bytes = (size_t)(key_end - at)};
        /* Behind the key and blanks is a colon. */
        const char *value_at = skip_space(skip_space(key_end) + 1);
        const char *value_end = skip_value(value_at);
        struct span value = {.at = value_at, .bytes = (size_t)(value_end - value_at)};
        int code = read_member(&parser, key, value);
        if (code < 0)
            return code;
        at = skip_space(value_end);
        if (*at == ',')
            at = skip_space(at + 1);
    }
    return check_job(&parser);
}
