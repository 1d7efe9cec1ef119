/*
 * One job while it is run, as job_run.c, step_run.c and attempt_*.c share it. It belongs to the
 * thread of its task.
 *
 * How an attempt ended is written together with the beginning of the next one, or with the end of
 * the job: one commit a step. Until then it is kept here (job_run.change).
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/heal.h"
#include "core/report.h"
#include "core/retry_context.h"
#include "core/signature.h"
#include "core/spec.h"
#include "run/capture.h"
#include "run/http.h"
#include "run/runner.h"
#include "run/workspace.h"

#include <jansson.h>

enum { STEP_EVENTS_MAX = 4 };

/* What is to be written about steps with the next call. */
struct pending_change {
    bool has_end;
    struct tend_attempt_end end;
    struct arena arena; /* of the texts in end and events */
    struct workspace_change checkpoint;
    bool has_checkpoint;
    struct tend_step_event events[STEP_EVENTS_MAX];
    size_t event_count;
};

/* The last failure of a step. */
struct failure {
    struct classification class;
    struct signature signature;
    struct heal_verdict verdict;
    char text[1600]; /* for the job's error */
    char diff_hash[GIT_ID_BYTES];
    struct workspace_change change; /* what the attempt had changed */
    bool has_change;
};

struct job_run {
    struct task *task;
    tend_runner *runner;
    struct arena arena;
    struct job_plan plan;
    const char *handler; /* the command of a kind's handler; NULL: the payload is the plan */
    struct budgets queue_budgets;
    struct redactor *own_redactor; /* NULL: the runner's will do */
    const struct redactor *redactor;
    struct classifier *rules; /* of the job; NULL: none */
    const char *folder;       /* of the job, below the runner's: what people look at */
    const char
        *lease_folder; /* of this lease, below it; an earlier owner may still clean up its own */
    bool folder_made;
    struct workspace_keeper keeper;
    struct workspace_source source;
    struct workspace workspace;
    bool has_workspace;
    struct workspace
        old; /* before the last reset; kept until a step has succeeded in the new one */
    bool has_old;
    bool keeps_workspaces; /* for people to look at, or to work in */
    bool done;             /* the job is: nothing of earlier leases is needed any more */
    struct heal heal;
    struct failure failure;               /* the last of the present step, when heal knows of any */
    const char *strategy;                 /* of the attempt that comes next */
    bool reset_due;                       /* ... it needs a fresh workspace */
    json_t *outputs;                      /* by step id */
    bool outputs_changed;                 /* since input_path was written */
    const char *input_path, *output_path; /* of TEND_INPUT and TEND_OUTPUT, once they are there */
    json_t *results;                      /* by step id, of those that gave one */
    size_t step;                          /* index of the present one, from 1 */
    int64_t *times_done;                  /* of each step: how often it has succeeded */
    int64_t begun;                        /* attempts under this lease */
    bool closed;                          /* its end is written */
    bool no_handler;                      /* its payload is no plan, and its kind nobody's here */
    const char *repo_told;                /* the repository of the plan, without a password */
    struct pending_change change;
    char last_error[1024]; /* what went wrong outside of a process, "": nothing */
    struct evidence early; /* ... before a step could be tried */
    int lack_code;         /* ... because this worker lacks something; 0: not for that */
};

/* What came of an attempt. */
enum attempt_end {
    ATTEMPT_SUCCEEDED,
    ATTEMPT_FAILED,
    ATTEMPT_LOST,      /* the lease is gone: nothing more may be written */
    ATTEMPT_CANCELLED, /* the job was: only how it ended may be told */
    ATTEMPT_STOPPED,   /* the runner stops */
    ATTEMPT_ORDERED,   /* an order ended it */
    ATTEMPT_LACKING,   /* this worker could not begin it: run->last_error and lack_code say why */
};

struct attempt {
    struct job_run *run;
    const struct step_plan *step;
    struct budgets budgets;
    int64_t attempt;           /* in the step, from 1: the failures before and this one */
    int64_t number;            /* in the job's life, as the store counts */
    const char *retry_context; /* path, or NULL on a first attempt */
    char marker[96];

    /* filled while it runs */
    enum attempt_end end;
    struct ending ending;
    int64_t exit_code, signal; /* or TEND_UNSET */
    bool may_live;             /* not even SIGKILL has ended all of its processes so far */
    struct capture capture;
    struct report report;
    struct buf answer;          /* what may become its result, not redacted yet */
    char note[HTTP_NOTE_BYTES]; /* what an HTTP call says of its end, "": it was none */
    int64_t duration_ms;
};

/* --- attempt.c --- */

/* Files, capture and report of an attempt that is to begin. False: this worker lacks what it takes;
 * run->last_error and lack_code say what. */
bool attempt_prepare(struct attempt *attempt);
/* It could not be begun, or came to nothing, because this worker lacks something. */
void attempt_lacks(struct attempt *attempt, int code, const char *text);
void attempt_done(struct attempt *attempt);
/* JSON, redacted, for free(); NULL: it gave none. */
char *attempt_result(struct attempt *attempt);
/* The command in one line, redacted. */
const char *attempt_command(const struct attempt *attempt, struct arena *arena);

/* Why it must end; ATTEMPT_SUCCEEDED: it need not. */
enum attempt_end attempt_signal(struct attempt *attempt);
/* It has put something out: stream 1 or 2. */
void attempt_hear(struct attempt *attempt, int stream, const void *bytes, size_t len);
int64_t attempt_heard_at(const struct attempt *attempt); /* monotonic */
/* Progress in the report that nobody knows of yet is made known. */
void attempt_progress(struct attempt *attempt);
/* Output that has come since the last time goes to the store. */
void attempt_flush(struct attempt *attempt);
/* There is no more; the rest goes to the store. */
void attempt_end_output(struct attempt *attempt);

/* --- attempt_*.c: fill attempt->end and what follows it --- */

void attempt_run_process(struct attempt *attempt);
void attempt_run_http(struct attempt *attempt);
void attempt_run_sleep(struct attempt *attempt);

/* --- step_run.c --- */

enum step_outcome {
    STEP_SUCCEEDED,
    STEP_JUMPED, /* an order: run->step says which step begins anew */
    STEP_OVER,   /* so is the job: its end is written, or its lease is lost */
};
/* Goes on with the present step, which step_anew or job_read_past has begun. */
enum step_outcome step_run(struct job_run *run);
/* The present step begins: its budgets are full, nothing has failed. */
void step_anew(struct job_run *run);
/* Between attempts: orders are carried out. STEP_SUCCEEDED: go on. */
enum step_outcome step_boundary(struct job_run *run);

/* --- job_past.c --- */

/* False: nobody has had the job before, as it was only added and claimed; its version counts the
 * changes of its row. Tokens begin anywhere and tell nothing. */
bool job_may_have_run(const struct job_run *run);
/* The step the job has come to, as it was left. 0, TEND_ESTATE: something of an earlier attempt
 * still runs; or as the store says. */
int job_read_past(struct job_run *run);

/* --- job_end.c: how a job ends; each writes what is pending with it --- */

void job_complete(struct job_run *run);
void job_fail(struct job_run *run, enum failure_class class, bool retryable, int64_t retry_in_ms,
              const char *text);
void job_give_back(struct job_run *run, int64_t delay_ms, const char *why);
/* Held, for an order that is answered by it. Frees the order. False: it was taken back, and the job
 * goes on. */
bool job_hold(struct job_run *run, struct order *order, const char *why);

/* Writes what is pending, and begins an attempt unless begun is NULL. False: the job is over. */
bool job_write(struct job_run *run, const struct tend_attempt_begin *begun, int64_t *ret_number);

/* --- job_workspace.c --- */

/*
 * A fresh workspace with everything the steps before step_index have done. On failure
 * run->last_error says why; run->lack_code what this worker lacks, or run->early what is wrong with
 * the job. The old workspace stays on the disk.
 */
int job_workspace_make(struct job_run *run, size_t step_index);
/* A step has succeeded: the workspace before the last reset is not needed any more (SH-7). */
void job_workspace_settle(struct job_run *run);
/* The job has ended here: its workspaces go, unless they are kept for people to look at. */
void job_workspace_clean(struct job_run *run);

/* --- job_files.c --- */

/* Where the commands of the job run: its git workspace, else the folder the job names, else where
 * the worker was started. NULL: no memory. */
const char *job_base_folder(const struct job_run *run, struct arena *arena);
/* A path in the job's folder, which is made; NULL as job_write_file. */
const char *job_path(struct job_run *run, const char *name);
/* What only the steps needed goes, and the folder too when nothing else is in it. */
void job_clean_files(struct job_run *run);
/* The job cannot be run here, for a reason that is this worker's (lack.h). */
void job_lacks(struct job_run *run, int code, const char *text);
/* Writes a file there; its path, or NULL with run->last_error and lack_code. */
const char *job_write_file(struct job_run *run, const char *name, const char *text, size_t len);

#endif
