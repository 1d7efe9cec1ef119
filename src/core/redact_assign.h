/*
 * Inside core/redact: a name in the text, and the way from it to its value. For redact_assign.c.
 */
#ifndef CORE_REDACT_ASSIGN_H
#define CORE_REDACT_ASSIGN_H

#include "core/redact_set.h"

enum { REDACT_NAME_BACK_BYTES = 64, REDACT_NAME_ON_BYTES = 40 };

struct redact_name {
    char text[REDACT_NAME_BACK_BYTES + REDACT_NAME_ON_BYTES + 1];
    int before;  /* the byte before it */
    size_t back; /* how many bytes of it are before the place */
    size_t end;  /* where it ends */
    bool column; /* a table or weak sign joins it to the value, which must look made by chance */
};

static inline bool redact_is_name_byte(int byte)
{
    return redact_is_word(byte) || byte == '.';
}

/* The value that follows the name, which ends at `end`, in any of the ways; *at moves to it. */
enum redact_verdict redact_find_value(const struct redact_view *view, size_t end,
                                      struct redact_name *name, size_t *at,
                                      enum redact_run *ret_run);

/* = : := => += and blanks; not == or ::, which are code, nor a URL's ://. *at moves behind it. */
enum redact_verdict redact_pass_equals(const struct redact_view *view, size_t *at);

/* The first place from `at` on that is no blank and no line end. */
size_t redact_pass_white(const struct redact_view *view, size_t at);

#endif
