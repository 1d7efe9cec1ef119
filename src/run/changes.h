/* What was changed in a workspace, as the store keeps it for people. */
#ifndef RUN_CHANGES_H
#define RUN_CHANGES_H

#include "core/redact.h"
#include "run/workspace.h"

#include <tend.h>

enum {
    CHANGES_MARGIN_BYTES = 64 * 1024, /* looked at behind a cut, for a secret that lies across it */
    CHANGES_READ_BYTES = TEND_KEPT_PATCH_BYTES_MAX + CHANGES_MARGIN_BYTES,
};

/* The names of the changed files as a JSON array, in the arena; the first of them where they are
 * very many. redactor may be NULL. NULL: no memory. */
const char *changes_files(const struct workspace_change *change, const struct redactor *redactor,
                          struct arena *arena);

/*
 * The patch without secrets, cut behind a line so that it has at most most_bytes; the number of
 * bytes that are left out goes to *ret_dropped. out->failed: no memory.
 */
void changes_redact(const struct buf *patch, const struct redactor *redactor, size_t most_bytes,
                    struct buf *out, int64_t *ret_dropped);

#endif
