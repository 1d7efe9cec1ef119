/*
 * What a step says through the file TEND_OUTPUT: lines `key=value`, or JSON objects, one per line.
 *
 *     progress=40 compiling        {"progress": 40, "text": "compiling"}     0 to 100
 *     class=deterministic_policy   {"class": "deterministic_policy"}         of its failure (SH-4)
 *     retry_after=30s              {"retry_after": 30}                       a number is in seconds
 *     waiting=10m for approval     {"waiting": "10m", "text": "for approval"}  0 ends it
 *     result=text                  {"result": …}                             any JSON
 *     version=1.2                  {"version": "1.2", "files": [1, 2]}       all else is an output
 *
 * A name is a letter or _ and then letters, digits, _ . -; the last value of a name counts. What
 * cannot be understood is kept as a warning with its line and never fails a step. Values are given
 * as they came: whoever stores or shows them redacts.
 *
 * Not a reader of files: bytes come in as the file grows. Invariants: only whole lines count, and
 * the last one at report_end; memory is bounded by the limits below.
 */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "base/buf.h"
#include "base/json.h"
#include "core/classify.h"

#include <jansson.h>

struct err;

enum {
    REPORT_LINE_BYTES = 1024 * 1024,   /* a longer line is passed over */
    REPORT_OUTPUT_BYTES = 1024 * 1024, /* names and values of all outputs, as JSON */
    REPORT_OUTPUTS_MAX = 1000,
    REPORT_OUTPUT_DEPTH = JSON_DEPTH_MAX - 2, /* in the result of a job it lies two levels deeper */
    REPORT_TEXT_BYTES = 200,                  /* of progress and waiting; more is cut off */
    REPORT_WARNINGS_MAX = 20,                 /* more are only counted */
};

/* What has come since the caller last set `changed` to 0. */
enum report_change {
    REPORT_PROGRESS = 1,
    REPORT_WAITING = 2,
    REPORT_CLASS = 4,
    REPORT_RETRY_AFTER = 8,
    REPORT_OUTPUT = 16,
    REPORT_RESULT = 32,
    REPORT_WARNING = 64,
};

struct report_warning {
    size_t line; /* from 1 */
    char text[160];
};

struct report {
    json_t *outputs;      /* an object */
    json_t *result;       /* NULL: none was given */
    int progress_percent; /* -1: none was given */
    char progress_text[REPORT_TEXT_BYTES + 1];
    enum failure_class class; /* CLASS_NONE: none was given */
    int64_t retry_after_ms;   /* -1: none was given */
    int64_t waiting_ms;       /* from the moment it was read; 0: waits no more; -1: never did */
    char waiting_text[REPORT_TEXT_BYTES + 1];
    unsigned changed; /* bits of enum report_change */
    struct report_warning warnings[REPORT_WARNINGS_MAX];
    size_t warning_count; /* may be more than are kept */

    /* The parser's own. */
    struct buf line;
    size_t line_number;
    size_t output_bytes;
    bool line_too_long;
};

/* 0 or TEND_ENOMEM; report_done in either case. */
int report_init(struct report *report, struct err *err);
void report_done(struct report *report);

/* 0 or TEND_ENOMEM. */
int report_feed(struct report *report, const void *bytes, size_t len, struct err *err);

/* The file is written anew: what was taken counts, and its lines are counted from 1 again. 0 or
 * TEND_ENOMEM. */
int report_again(struct report *report, struct err *err);

/* The file is complete: a last line without its end is taken too. 0 or TEND_ENOMEM. */
int report_end(struct report *report, struct err *err);

#endif
