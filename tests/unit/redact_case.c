/* See redact_case.h. */
#include "unit/redact_case.h"

#include <stdlib.h>

struct arena arena;

struct redactor *plain_redactor(void)
{
    struct redactor *redactor = NULL;
    check_int(redactor_new(&(struct redact_known){0}, &redactor, NULL), ==, 0);
    return redactor;
}

FILE *open_data(const char *name)
{
    const char *source = getenv("TEND_SOURCE");
    FILE *file = fopen(arena_printf(&arena, "%s/tests/%s", source ? source : ".", name), "r");
    if (!file)
        test_fail(__FILE__, __LINE__, "tests/%s cannot be read", name);
    return file;
}
