/* What steps leave behind as JSON objects, in the manner of json_out.h. */
#ifndef CLI_JSON_STEP_H
#define CLI_JSON_STEP_H

#include <stdint.h>

struct buf;
struct tend_attempt;
struct tend_attempts;
struct tend_checkpoints;
struct tend_controls;
struct tend_edit;
struct tend_keeps;
struct tend_output;
struct tend_worker;

/* "stdout", "stderr" or "note". */
const char *stream_name(int stream);

void json_attempts(struct buf *out, const char *key, const struct tend_attempts *attempts);
void json_checkpoints(struct buf *out, const char *key, const struct tend_checkpoints *checkpoints);
void json_controls(struct buf *out, const char *key, const struct tend_controls *controls);
void json_keeps(struct buf *out, const char *key, const struct tend_keeps *keeps);
/* NULL becomes null. */
void json_edit(struct buf *out, const char *key, const struct tend_edit *edit);
/* What is open for one job, oldest first in the list: whether it is to pause or to be taken over,
 * and what is to be done next (SH-12). */
void json_live_control(struct buf *out, const char *key, const struct tend_controls *controls,
                       int64_t job_id);
/* Members only. attempt: the one that wrote it, or NULL where it is not known. */
void json_output_members(struct buf *out, const struct tend_output *piece,
                         const struct tend_attempt *attempt);
void json_worker(struct buf *out, const char *key, const struct tend_worker *worker);

#endif
