/* What a purge has deleted, in words, for the commands that do it. */
#ifndef CLI_PURGE_H
#define CLI_PURGE_H

#include "base/buf.h"

#include <stdbool.h>
#include <tend.h>

/* "2 jobs and 31 events deleted", or with dry_run "would be deleted"; a line. */
void purge_print(struct buf *out, const struct tend_purged *purged, bool dry_run);

#endif
