/*
 * The files of the system's tz database: /usr/share/zoneinfo, or the folder TZDIR names. Reads
 * bytes; what they mean is core/zone.h's.
 */
#ifndef BASE_ZONE_FILE_H
#define BASE_ZONE_FILE_H

#include "base/buf.h"
#include "base/err.h"

/* Whether a text can be the name of a zone: "Europe/Berlin"; not a path that leads elsewhere. */
bool zone_name_ok(const char *name);

/*
 * Appends the content of a zone's file. 0, TEND_ENOTFOUND when this machine has no such zone (the
 * sentence says what is near), TEND_EINVAL (no name of a zone), TEND_EIO or TEND_ENOMEM.
 */
int zone_file_read(const char *name, struct buf *out, struct err *err);

#endif
