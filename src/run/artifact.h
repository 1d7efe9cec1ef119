/*
 * The files of a job's folder that people and other programs read (SH-9):
 *
 *     patches/steps/step-0001.patch        what the step changed, for git apply
 *     state/steps/step-0001.json           its checkpoint
 *     state/self_heal/attempt-0001.json    one attempt, as the caller describes it
 *
 * Copies: what must not be lost is in the store, and nothing is ever read back from here. Hence a
 * file is written whole (temporary name, fsync, rename), so that no reader ever sees half of one
 * under its name, but the folder is forced to the disk only where the caller asks for it: after a
 * power loss a file may be missing, never broken. Nothing is redacted here; what comes in must be
 * fit to be read.
 */
#ifndef RUN_ARTIFACT_H
#define RUN_ARTIFACT_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers have four digits at least: step-0001, step-12345. */
enum { ARTIFACT_NAME_BYTES = 64 };

/* "patches/steps/step-0001.patch", "state/steps/…", "state/self_heal/…": below the job's folder. */
const char *artifact_patch_name(int64_t number, char out[ARTIFACT_NAME_BYTES]);
const char *artifact_step_name(int64_t number, char out[ARTIFACT_NAME_BYTES]);
const char *artifact_attempt_name(int64_t number, char out[ARTIFACT_NAME_BYTES]);

struct artifact_folder {
    const char *path; /* of the job; NULL: it could not be made */
    bool durable;     /* force folders to the disk as well */
};

struct artifact_step {
    const char *id;
    int64_t index;   /* from 1; also the number of the file */
    int64_t attempt; /* that succeeded */
    const char *diff_hash;
    const char *const *changed_files; /* bytes that are not UTF-8 become U+FFFD */
    size_t changed_file_count;
    int64_t at_ms;
};

/* All return 0, TEND_EFULL, TEND_ENOMEM or TEND_EIO, and replace a file that is there. */
int artifact_write_patch(const struct artifact_folder *folder, int64_t number, const void *patch,
                         size_t bytes, struct err *err);
int artifact_write_step(const struct artifact_folder *folder, const struct artifact_step *step,
                        struct err *err);
int artifact_write_attempt(const struct artifact_folder *folder, int64_t number,
                           const json_t *record, struct err *err);

#endif
