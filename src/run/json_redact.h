/*
 * JSON without secrets: its strings, names and numbers are redacted one by one, so that it stays
 * JSON. What lies below a member with a secret's name, at any depth, is judged by that name:
 * {"token": {"value": "x1y2z3"}}. A number that is a secret becomes the string "[redacted]".
 */
#ifndef RUN_JSON_REDACT_H
#define RUN_JSON_REDACT_H

#include "core/redact.h"

#include <jansson.h>

/* The text of the value, for free(); NULL: no memory, or nested deeper than the store takes. */
char *json_redacted(const struct redactor *redactor, const json_t *value);

enum { RESULT_BYTES = 1 << 20 };

/*
 * What a command has printed, as a result: JSON as it is, anything else as a string in which bytes
 * that are no UTF-8 become U+FFFD. Blanks and newlines at its end do not count. 0 with *ret for
 * free(), NULL: it has printed nothing; TEND_EINVAL: more than RESULT_BYTES; TEND_ENOMEM.
 */
int result_of_output(const struct redactor *redactor, const struct buf *output, char **ret);

#endif
