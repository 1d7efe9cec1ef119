/*
 * JSON as it is written: members are appended to a buffer, commas come by themselves.
 *
 * Not a tree. A number, a name and a text each have one call; absent values are null, so that a
 * document always has the same shape. Times are integers in milliseconds and their names end in
 * _ms.
 */
#ifndef CLI_JSON_OUT_H
#define CLI_JSON_OUT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct tend_event;
struct tend_job;
struct tend_lock;
struct tend_queue;

/* With a key inside an object; key NULL inside an array and at the top. */
void json_open(struct buf *out, const char *key, char bracket);
void json_close(struct buf *out, char bracket);

void json_int(struct buf *out, const char *key, int64_t number);
/* TEND_UNSET becomes null. */
void json_int_or_null(struct buf *out, const char *key, int64_t number);
void json_bool(struct buf *out, const char *key, bool value);
/* NULL becomes null. */
void json_text(struct buf *out, const char *key, const char *text);
/* Text that is JSON already, put in as it is; NULL becomes null. */
void json_raw(struct buf *out, const char *key, const char *json, size_t bytes);

/* JSON text indented by two blanks a level, each line behind `margin`; content is not touched. */
void json_pretty(struct buf *out, const char *json, size_t bytes, const char *margin);

/* Whole objects, as `tend jobs`, `events`, `lock` and `queues` print them. */
/* The word for what became of a job that was added. */
const char *json_outcome(int outcome);

void json_job(struct buf *out, const char *key, const struct tend_job *job, bool with_lease);
void json_event(struct buf *out, const char *key, const struct tend_event *event);
/* pid: of the process it is tied to, or TEND_UNSET; dead: that one has ended. */
void json_lock(struct buf *out, const char *key, const struct tend_lock *lock, int64_t pid,
               bool dead);
/* Members only: the caller has opened the object. */
void json_queue_members(struct buf *out, const struct tend_queue *queue);

#endif
