/*
 * Is this text one JSON document? Asked of every payload that comes in.
 *
 * Not a parser: it builds nothing and allocates nothing; payloads are kept byte for byte, so
 * checking is all there is to do. Strict RFC 8259, and two things beyond its grammar: the bytes
 * must be UTF-8, and an escaped surrogate (\ud83d) must have its partner, for no reader could turn
 * a lone one into text. Duplicate keys and numbers of any size are accepted.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { JSON_DEPTH_MAX = 512 };

/* Where and why a document is refused. */
struct json_fault {
    size_t offset; /* bytes before the fault */
    size_t line;   /* from 1 */
    size_t column; /* from 1, in characters */
    const char *reason;
};

/* 0, or TEND_EINVAL and the fault filled in. ret_fault may be NULL. */
int json_check(const char *text, size_t len, struct json_fault *ret_fault);

/* Whether Jansson gave up loading a text because memory ran out, and not because of the text,
 * which is one that json_check takes: of a string for which there is no memory, Jansson says that
 * it is no JSON. */
bool json_no_memory(const json_error_t *error);

#endif
