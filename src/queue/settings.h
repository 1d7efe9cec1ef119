/* Settings of queues: the table of what can be set, and how claims and others read them. */
#ifndef QUEUE_SETTINGS_H
#define QUEUE_SETTINGS_H

#include "queue/handle.h"
#include "store/queries.h"

/* From a row of queue_get and its kin; defaults filled in. */
void settings_read(struct queue_settings *settings, const struct queue_columns *row);
void settings_default(struct queue_settings *settings, const char *name);

/* Inside a transaction; lock: claimers of the queue stand in line (PostgreSQL). */
int settings_load(struct db_tx *tx, const char *name, bool lock, struct queue_settings *ret);

/* Nothing but priority and due time decides who is next. */
bool settings_are_plain(const struct queue_settings *settings);

/* The handle's memory of settings; a claim checks the version, so that a stale copy does no harm.
 */
bool settings_cached(tend *t, const char *name, struct queue_settings *ret);
void settings_remember(tend *t, const struct queue_settings *settings);

/* The queue's rate, which it has, as far as it was used; and back again. */
struct limit settings_limit(const struct queue_settings *settings, int64_t now_ms);
void settings_set_limit(struct queue_settings *settings, const struct limit *limit);

#endif
