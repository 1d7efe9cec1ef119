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
#include "core/keep.h"
#include "core/report.h"
#include "core/retry_context.h"
#include "core/signature.h"
#include "core/spec.h"
#include "run/capture.h"
#include "run/http.h"
#include "run/report_file.h"
#include "run/runner.h"
#include "run/secret.h"
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
    int64_t pause_ms; /* before the attempt that follows */
    char text[1600];  /* for the job's error */
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
    unsigned retry_classes;        /* of failures that the queue tries again (core/heal.h) */
    struct redactor *own_redactor; /* NULL: the runner's will do */
    const struct redactor *redactor;
    struct known_secret *secrets; /* that the plan names, with the values of all attempts */
    bool secrets_changed;         /* ... since own_redactor was made */
    struct classifier *rules;     /* of the job; NULL: none */
    /* Once job_make_folders has made them: */
    const char *folder;       /* of the job, below the runner's: what people look at */
    const char *lease_folder; /* of this lease, below it; an earlier owner may clean up its own */
    bool folder_made;
    int lease_fd;   /* of lease_folder: what is done in it is done by this; -1: not made */
    int lease_lock; /* held while this run uses lease_folder; -1: not */
    struct workspace_keeper keeper;
    struct workspace_source source;
    struct workspace workspace;
    bool has_workspace;
    struct workspace
        old; /* before the last reset; kept until a step has succeeded in the new one */
    bool has_old;
    bool edited;           /* the present workspace has an operator's edits for its step */
    bool keeps_workspaces; /* for an operator to work in */
    bool done;             /* the job is: nothing of earlier leases is needed any more */
    bool failed;           /* the job has, or is tried again later */
    bool unsaved;          /* what a step has done is in its workspace only, and was not saved */
    int64_t keep_workspace_ms; /* of the queue; TEND_UNSET: for ever */
    struct heal heal;
    struct failure failure;               /* the last of the present step, when heal knows of any */
    const char *strategy;                 /* of the attempt that comes next */
    bool reset_due;                       /* ... it needs a fresh workspace */
    int64_t pause_until_ms;               /* ... it does not begin before; monotonic, 0: at once */
    int64_t anew_control;                 /* ... it was asked for by this control; 0: by none */
    const char *anew_outcome;             /* ... whose answer this is, once it has begun */
    json_t *outputs;                      /* by step id */
    bool outputs_changed;                 /* since input_path was written */
    const char *input_path, *output_path; /* of TEND_INPUT and TEND_OUTPUT, once they are there */
    json_t *results;                      /* by step id, of those that gave one */
    size_t step;                          /* index of the present one, from 1 */
    int64_t *times_done;                  /* of each step: how often it has succeeded */
    int64_t begun;                        /* attempts under this lease */
    bool tried;                           /* ... one of the present step is among them */
    bool closed;                          /* its end is written */
    char
        refused[512]; /* ... could not be: why the store does not take it; "": it was not refused */
    bool no_handler;  /* its kind has no command here that can be started, and its payload is no
                         plan */
    const char *missing_folder; /* the one that it names and that is missing here, or NULL */
    const char *repo_told;      /* the repository, without a password; absolute */
    char nested_told[WORKSPACE_NESTED_BYTES]; /* repositories in its workspace, told already */
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
    ATTEMPT_UNFIT,     /* ... nor any other of its kind: run->last_error says why */
};

struct attempt {
    struct job_run *run;
    const struct step_plan *step;
    struct budgets budgets;
    int64_t attempt;           /* in the step, from 1: the failures before and this one */
    int64_t number;            /* in the job's life, as the store counts */
    const char *retry_context; /* path, or NULL on a first attempt */
    const char *retry_text;    /* what is in that file */
    char marker[96];
    struct arena secrets;         /* of the values below */
    struct named_texts env;       /* of the job, then of the step, with values */
    const struct http_plan *http; /* of an http step, with values */
    bool no_secret;               /* one of them is missing: run->last_error says which */
    bool unsaved; /* it has succeeded, but what it changed was not taken: last_error says why */

    /* filled while it runs */
    enum attempt_end end;
    char stop_text[STOP_TEXT_BYTES]; /* why it was first told to stop; "": it was not */
    struct ending ending;
    int64_t exit_code, signal; /* or TEND_UNSET */
    bool may_live;             /* not even SIGKILL has ended all of its processes so far */
    struct capture capture;
    struct report report;
    struct report_file report_file; /* of a process */
    struct buf answer;              /* what may become its result, not redacted yet */
    char note[HTTP_NOTE_BYTES];     /* what an HTTP call says of its end, "": it was none */
    json_t *warnings;               /* texts, redacted; NULL: none */
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

/* Why it must end; ATTEMPT_SUCCEEDED: it need not. The first reason is kept in stop_text: an order
 * may be taken back while it stops. */
enum attempt_end attempt_signal(struct attempt *attempt);
/* It has put something out: stream 1 or 2. */
void attempt_hear(struct attempt *attempt, int stream, const void *bytes, size_t len);
int64_t attempt_heard_at(const struct attempt *attempt); /* monotonic */
/* It has given another sign of life. */
void attempt_alive(struct attempt *attempt);
/* Something is wrong with what it reports: told to people, and kept with its output and its end. */
void attempt_warn(struct attempt *attempt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
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
/* This worker cannot begin it, as run->last_error and lack_code say: the job goes back, free of
 * charge, for least_ms at least. See lack.h. STEP_OVER. */
enum step_outcome step_give_back_lacking(struct job_run *run, int64_t least_ms);

/* --- job_run.c --- */

/* This value is a secret from now on, once the redactor is renewed. False: no memory. */
bool job_know_secret(struct job_run *run, const char *value, size_t bytes);
/* Puts new secrets into run->redactor. Not while a stream uses it. 0 or TEND_ENOMEM. */
int job_renew_redactor(struct job_run *run);

/* --- job_past.c --- */

/* As sweep_may_have_run. */
bool job_may_have_run(const struct job_run *run);
/* The step the job has come to, as it was left. 0, TEND_ESTATE: something of an earlier attempt
 * still runs, or run->last_error and lack_code say why that cannot be told; or as the store says.
 */
int job_read_past(struct job_run *run);

/* --- job_end.c: how a job ends; each writes what is pending with it --- */

void job_complete(struct job_run *run);
void job_fail(struct job_run *run, enum failure_class class, bool retryable, int64_t retry_in_ms,
              const char *text);
/* The store has refused the end of the job: it fails, and nothing else is told. Else its lease
 * would run out, as that of a worker that died. */
void job_fail_plainly(struct job_run *run);
void job_give_back(struct job_run *run, int64_t delay_ms, const char *why);
/* The same for a job that this worker has no command for, or not its folder, as last_error says:
 * for half a minute, and told once for each kind and folder. */
void job_give_back_unfit(struct job_run *run);
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
/* The store knows that a step has succeeded: the workspace before the last reset is not needed any
 * more (SH-7). */
void job_workspace_settle(struct job_run *run);
/* What the present attempt has changed, without secrets; the patch is in the buffer, the rest in
 * the arena. False: nothing, or it cannot be told. */
bool job_workspace_changes(struct job_run *run, struct buf *patch, struct arena *arena,
                           struct tend_changes *ret);
/* The job has ended here: its workspaces go, unless they are kept; why. */
enum keep_why job_workspace_clean(struct job_run *run);

/* --- job_place.c --- */

/* Whether the job names a folder for its commands or its repository that cannot be entered here;
 * last_error says which, and who has added the job; missing_folder is its path. */
bool job_lacks_folder(struct job_run *run);

/* --- job_files.c --- */

/* The folder the job names, else where the worker was started. NULL: no memory. */
const char *job_named_folder(const struct job_run *run, struct arena *arena);
/* Where the commands of the job run: its git workspace, else the folder the job names, else where
 * the worker was started. NULL: no memory. */
const char *job_base_folder(const struct job_run *run, struct arena *arena);
/* Whether the path of the lease's folder still leads to it: a step can remove it, or put something
 * else in its place. */
bool job_folder_is_there(const struct job_run *run);
/* Makes the folders of the job and of its lease, also when a step has removed or replaced them.
 * False as job_write_file. */
bool job_make_folders(struct job_run *run);
/* The folder of the job, which is made; NULL: it could not be, which is no lack of this worker. */
const char *job_folder(struct job_run *run);
/* A path in the folder of the lease, which is made; NULL as job_write_file. */
const char *job_path(struct job_run *run, const char *name);
/* What only the steps needed goes, and so does what earlier leases have left. Why the workspaces of
 * this one are kept is noted. */
void job_clean_files(struct job_run *run, enum keep_why why);
/* The job cannot be run here, for a reason that is this worker's (lack.h). */
void job_lacks(struct job_run *run, int code, const char *text);
/* Writes a file there; its path, or NULL with run->last_error and lack_code. */
const char *job_write_file(struct job_run *run, const char *name, const char *text, size_t len);

#endif
