/* What the tests of time zones share: the zones of this machine, and files of our own making. */
#ifndef UNIT_ZONE_CASE_H
#define UNIT_ZONE_CASE_H

#include "base/buf.h"
#include "core/zone.h"
#include "unit/case.h"

/* A zone of the system's database; lives until the test ends. */
const struct zone *system_zone(const char *name);

/* What the C library says of the same zone, the other opinion: the offset at a time. */
void other_use_zone(const char *name);
int32_t other_offset(int64_t at_s);

/* A file: version '\0' (only changes, four bytes each), or '2' and later with a footer. */
struct made_change {
    int64_t at_s;
    int32_t offset_s;
};
void zone_make(struct buf *out, char version, int32_t first_offset_s,
               const struct made_change *changes, size_t count, const char *footer);

/* ... parsed; must be fine. */
const struct zone *zone_made(char version, int32_t first_offset_s,
                             const struct made_change *changes, size_t count, const char *footer);

#endif
