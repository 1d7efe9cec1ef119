/*
 * Workers of an older tend, on a store whose schema is to become newer. They would go on without
 * what the new schema is for, so it waits until they have ended (TEND_ESTATE), unless the options
 * say otherwise. Whoever lives on an older schema is older: a newer tend does not open it as it is.
 */
#ifndef STORE_OLDER_H
#define STORE_OLDER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct older_workers {
    size_t count;
    char names[320]; /* of the first */
};

void older_add(struct older_workers *workers, const char *name, int64_t pid, const char *host);

/* 0 when there are none; else TEND_ESTATE with the sentence. where: names the store. */
int older_refuse(const struct older_workers *workers, const char *where, int version, int wanted,
                 struct err *err);

#endif
