/* JSON without secrets: its strings and names are redacted one by one, so that it stays JSON. */
#ifndef RUN_JSON_REDACT_H
#define RUN_JSON_REDACT_H

#include "core/redact.h"

#include <jansson.h>

/* The text of the value, for free(); NULL: no memory, or nested deeper than the store takes. */
char *json_redacted(const struct redactor *redactor, const json_t *value);

#endif
