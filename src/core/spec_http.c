/* The http part of a step: see struct http_plan in spec.h. */
#include "base/arena.h"
#include "core/spec_read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { METHOD_BYTES = 20, LOWEST_STATUS = 100, HIGHEST_STATUS = 599 };

static const char *const http_names[] = {
    "method", "url", "headers", "body", "expect", "max_response_bytes", "follow_redirects", NULL};

/* The characters of a token in RFC 9110. */
static bool is_token(const char *text)
{
    return text[0] != '\0' &&
           text[strspn(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

static int read_method(struct reader *reader, const struct place *place, json_t *value,
                       struct http_plan *http)
{
    const char *text = json_string_value(value);
    if (!text || text[0] == '\0' || strlen(text) > METHOD_BYTES ||
        text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] != '\0')
        return spec_fault(reader, place, "must be a method such as GET or POST");
    char *method = arena_strdup(reader->arena, text);
    if (!method)
        return spec_no_memory(reader);
    for (char *at = method; *at; at++)
        *at = (char)(*at >= 'a' ? *at - 'a' + 'A' : *at);
    http->method = method;
    return 0;
}

static bool has_blank_or_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7F)
            return true;
    return false;
}

static int read_url(struct reader *reader, const struct place *place, json_t *value,
                    struct http_plan *http)
{
    const char *text = json_string_value(value);
    size_t scheme = !text                                   ? 0
                    : strncasecmp(text, "http://", 7) == 0  ? 7
                    : strncasecmp(text, "https://", 8) == 0 ? 8
                                                            : 0;
    if (scheme == 0 || text[scheme] == '\0' || text[scheme] == '/' || has_blank_or_control(text))
        return spec_fault(reader, place,
                          "must be a URL that begins with http:// or https:// and has no blanks");
    return spec_text(reader, place, value, &http->url);
}

static int read_headers(struct reader *reader, const struct place *place, json_t *value,
                        struct http_plan *http)
{
    int code = spec_texts(reader, place, value, is_token, &http->headers);
    if (code < 0)
        return code;
    for (size_t i = 0; i < http->headers.count; i++) {
        const struct named_text *header = &http->headers.items[i];
        struct place here = {.parent = place, .name = header->name};
        struct place prefix = {.parent = &here, .name = "prefix"};
        if (header->secret && strpbrk(header->secret->prefix, "\r\n"))
            return spec_fault(reader, &prefix, "must be one line");
        if (header->value && strpbrk(header->value, "\r\n"))
            return spec_fault(reader, &here, "must be one line");
    }
    return 0;
}

static int read_body(struct reader *reader, const struct place *place, json_t *value,
                     struct http_plan *http)
{
    if (json_is_string(value)) {
        http->body_bytes = json_string_length(value);
        return spec_text(reader, place, value, &http->body);
    }
    if (spec_is_secret(value))
        return spec_secret(reader, place, value, &http->body_secret);
    int code = spec_inner_secrets(reader, place, value);
    if (code < 0)
        return code;
    http->body_names_secrets = code > 0;
    char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!dumped)
        return spec_no_memory(reader);
    http->body = arena_strdup(reader->arena, dumped);
    http->body_bytes = strlen(dumped);
    http->body_is_json = true;
    free(dumped);
    return http->body ? 0 : spec_no_memory(reader);
}

/* 204, or "2xx". */
static bool read_range(json_t *value, struct status_range *ret)
{
    const char *text = json_string_value(value);
    if (text && strlen(text) == 3 && text[0] >= '1' && text[0] <= '5' &&
        strcasecmp(text + 1, "xx") == 0) {
        int hundreds = (text[0] - '0') * 100;
        *ret = (struct status_range){.low = hundreds, .high = hundreds + 99};
        return true;
    }
    json_int_t status = json_integer_value(value);
    if (status < LOWEST_STATUS || status > HIGHEST_STATUS)
        return false;
    *ret = (struct status_range){.low = (int)status, .high = (int)status};
    return true;
}

static int read_expect(struct reader *reader, const struct place *place, json_t *value,
                       struct http_plan *http)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    struct status_range *ranges = arena_alloc(reader->arena, (count + 1) * sizeof *ranges);
    if (!ranges)
        return spec_no_memory(reader);
    if (count == 0)
        return spec_fault(reader, place, "must name at least one status");
    for (size_t i = 0; i < count; i++) {
        struct place element = {.parent = place, .index = i};
        bool list = json_is_array(value);
        if (!read_range(list ? json_array_get(value, i) : value, &ranges[i]))
            return spec_fault(reader, list ? &element : place,
                              "must be a status from 100 to 599, a hundred such as \"2xx\", or "
                              "a list of these");
    }
    http->expect = ranges;
    http->expect_count = count;
    return 0;
}

static int read_size(struct reader *reader, const struct place *place, json_t *value,
                     struct http_plan *http)
{
    json_int_t bytes = json_integer_value(value);
    if (!json_is_integer(value) || bytes < 0 || bytes > SPEC_RESPONSE_MOST_BYTES)
        return spec_fault(reader, place, "must be a whole number of bytes from 0 to %d",
                          SPEC_RESPONSE_MOST_BYTES);
    http->max_response_bytes = bytes;
    return 0;
}

static int read_follow(struct reader *reader, const struct place *place, json_t *value,
                       struct http_plan *http)
{
    if (!json_is_boolean(value))
        return spec_fault(reader, place, "must be true or false");
    http->follow_redirects = json_is_true(value);
    return 0;
}

static int read_member(struct reader *reader, const struct place *place, json_t *value,
                       struct http_plan *http)
{
    static int (*const readers[])(struct reader *, const struct place *, json_t *,
                                  struct http_plan *) = {
        read_method, read_url, read_headers, read_body, read_expect, read_size, read_follow};
    for (size_t i = 0; http_names[i]; i++)
        if (strcmp(http_names[i], place->name) == 0)
            return readers[i](reader, place, value, http);
    return spec_unknown(reader, place, http_names);
}

int spec_http(struct reader *reader, const struct place *place, json_t *value,
              struct http_plan **ret)
{
    if (!json_is_object(value))
        return spec_fault(reader, place, "must be an object {\"url\": …}");
    struct http_plan *http = arena_zalloc(reader->arena, sizeof *http);
    struct status_range *fine = arena_alloc(reader->arena, sizeof *fine);
    if (!http || !fine)
        return spec_no_memory(reader);
    *fine = (struct status_range){.low = 200, .high = 299};
    http->expect = fine;
    http->expect_count = 1;
    http->max_response_bytes = SPEC_RESPONSE_DEFAULT_BYTES;
    const char *name;
    json_t *member;
    json_object_foreach(value, name, member)
    {
        struct place here = {.parent = place, .name = name};
        int code = read_member(reader, &here, member, http);
        if (code < 0)
            return code;
    }
    if (!http->url)
        return spec_fault(reader, place, "url is missing");
    if (!http->method)
        http->method = spec_has_body(http) ? "POST" : "GET";
    *ret = http;
    return 0;
}
