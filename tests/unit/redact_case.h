/* What the tests of core/redact over many texts share. The texts are data, in tests/secrets. */
#ifndef UNIT_REDACT_CASE_H
#define UNIT_REDACT_CASE_H

#include "base/arena.h"
#include "core/redact.h"
#include "unit/case.h"

#include <stdio.h>

/* For the texts of one test; it frees them. */
extern struct arena arena;

/* One that was told of no variable. */
struct redactor *plain_redactor(void);

/* A file below tests/, for reading. */
FILE *open_data(const char *name);

#endif
