/* A queue's settings and contents in words and in JSON, for `queues` and `queue`. */
#ifndef CLI_QUEUE_TEXT_H
#define CLI_QUEUE_TEXT_H

#include <stdbool.h>

struct buf;
struct cli;
struct tend_queue;
struct tend_queue_stats;

/* What restrains the queue, in short: "paused, at most 4 at once, 20/1m"; "" when nothing does. */
void queue_limits_text(struct buf *out, const struct tend_queue *queue);

/* One line of JSON: settings, jobs per state, oldest pending. */
void queue_stats_json(struct buf *out, const struct tend_queue_stats *queue);
/* The same without the line end, as an element of a list. */
void queue_stats_object(struct buf *out, const struct tend_queue_stats *queue);

/* Whether no queue of that name has jobs or settings, as it may be misspelt; says so, and which may
 * be meant. yet: " yet" for who waits for its jobs, else "". Counts all jobs. */
bool queue_unknown_text(struct cli *cli, const char *name, const char *yet, struct buf *out);
/* A note when no queue of that name has jobs or settings, as it may be misspelt; with --json as
 * {"note": …} on standard error. */
void queue_note_unknown(struct cli *cli, const char *name);

#endif
