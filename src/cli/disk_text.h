/* What runners have in their folder, in words and as JSON: for `tend doctor` and `tend heal`. */
#ifndef CLI_DISK_TEXT_H
#define CLI_DISK_TEXT_H

#include "base/buf.h"

#include <tend.h>

enum { BYTES_TEXT_BYTES = 24 };

/* "0 B", "812 B", "1.2 MiB". */
const char *bytes_text(int64_t bytes, char out[BYTES_TEXT_BYTES]);

/* The folder of runners that a command means: the one given, else the one `tend work` would use. */
const char *disk_folder(const char *given);

/* One finding for each thing worth knowing. */
void disk_report(const char *folder, const struct tend_disk *disk,
                 void (*report)(void *arg, enum tend_verdict verdict, const char *what,
                                const char *text),
                 void *arg);

/* What nothing needs: how much of it there is in all. */
struct tend_disk_use disk_unneeded(const struct tend_disk *disk);

/* "2 folders of ended attempts and 1 unused copy of a repository"; "" where there is nothing. */
void disk_put_unneeded(struct buf *out, const struct tend_disk *disk);

/* The members of an object that the caller has opened, by kind: {"count", "bytes"}. */
void disk_json(struct buf *out, const struct tend_disk *disk);

#endif
