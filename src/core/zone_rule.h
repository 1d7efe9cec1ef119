/* The POSIX TZ text at the end of a time zone file: "CET-1CEST,M3.5.0,M10.5.0/3". See zone.h. */
#ifndef CORE_ZONE_RULE_H
#define CORE_ZONE_RULE_H

#include "core/zone.h"

/* False when the text is no such rule, or one whose daylight saving time says no dates. */
bool zone_rule_parse(const char *text, struct zone_rule *ret);

/* What the rule alone says of a time. */
struct zone_span zone_rule_span(const struct zone_rule *rule, int64_t at_s);

#endif
