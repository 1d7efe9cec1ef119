/*
 * What a worker lacks: room on its disk, a folder it may write to, descriptors, memory, processes,
 * its helpers. A step that cannot be begun for that is no failure of the job.
 *
 *               a step cannot be begun                     the pause is over
 *     well ─────────────────────────────▶ pausing ──────────────────────────────▶ trying
 *      ▲                                  ▲  claims nothing              claims one │ ▲ │
 *      │                                  └──────────── cannot be begun ────────────┘ └─┘ started:
 *      └──────────────────────────── nothing was lacking for 10 s ─────────────────────┘  the next
 *
 *   - Nothing is charged: no attempt of the step, none of the job. The job is released at once,
 * with the reason in its event.
 *   - A claim that fails because this worker has no descriptors or memory for it is a try as well.
 *   - A worker that cannot begin anything is done with each job at once. It must not claim, or it
 *     takes the work of those that can: it pauses for 1 s, doubling to 60 s. What it lacks may be
 * what it needs to wait for news: then it looks twice a second whether it can.
 *   - After a pause it tries with one job, and with the next when the process of that has started:
 *     a worker with descriptors for eight jobs of twelve comes to run eight. Only the job that is
 *     tried tells whether the worker is well; what was claimed before says nothing about now. A job
 *     of another kind (sleep; http, unless descriptors were missing) tells nothing: the next is
 *     tried when it has ended.
 *   - A job that comes to its end here frees descriptors, processes, room: the pause is over then.
 *   - A job that was tried is released for a second: then it is due after those that wait, and the
 *     next try is made with another. A job that alone has trouble here (a foreign file in its
 *     folder) delays the others and does not stop them.
 *   - A workspace that finds no room may be larger than any disk here: its job is released for
 *     LACK_WORKSPACE_MS at least.
 *   - People are told once, and once when the first process has started again. What comes and goes
 *     is told once a minute.
 *   - A worker that is to drain, or to run one job, gives up after LACK_TRIES_MOST tries in a row.
 *
 * What the job names itself (command, arguments, repository, ref) is its own: where that is
 * missing, the job fails; its folder may be there on another machine (job_folder.c). The command of
 * a handler is this worker's, for one kind alone: the worker goes on with others
 * (job_give_back_unfit). What fails after the command has started is the attempt's failure, too;
 * but where no descriptor is left to read its report, nothing can be said: that is waited for, and
 * only when somebody ends the wait is it run again.
 */
#ifndef RUN_LACK_H
#define RUN_LACK_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

enum { LACK_TRIES_MOST = 4, LACK_TEXT_BYTES = 512, LACK_WORKSPACE_MS = 15000 };

/* Of a runner, under its mutex; zero: it lacks nothing. */
struct lack {
    int64_t pause_ms; /* the last; 0: well */
    int64_t until_ms; /* monotonic: nothing is claimed before */
    int64_t well_ms;  /* monotonic: when it will be well if nothing is lacking; 0: unknown */
    int64_t tries;    /* in a row that could not be begun */
    int code;         /* what it lacks */
    bool claims;      /* ... already for a claim: nobody knows whether there are jobs */
    struct tend_lease tried;
    int64_t told_at_ms; /* monotonic: when people were last told; 0: never */
    bool told;          /* ... of the present one */
    char text[LACK_TEXT_BYTES];
};

/* The job of this lease cannot be begun: code and text say why. How long it is to be released for,
 * at least least_ms. */
int64_t lack_found(tend_runner *runner, struct tend_lease lease, int code, const char *text,
                   int64_t least_ms);
/* A claim failed for want of descriptors or memory; text says so and what to do. */
void lack_claim_failed(tend_runner *runner, const char *text);
/* A process of this job has started; called: an HTTP call was answered, which needs memory and
 * descriptors alone. */
void lack_over(tend_runner *runner, struct tend_lease lease, bool called);
/* A job has come to its end, or is stopped; not for what the worker lacks. */
void lack_eased(tend_runner *runner);

/* For how long nothing is to be claimed; 0: claim. */
int64_t lack_pause(tend_runner *runner);
/* How many jobs to claim of so many that have a place. Under the mutex. */
size_t lack_room(const struct lack *lack, size_t room);
/* A claim brought this job. Before its thread is started. */
void lack_try(tend_runner *runner, struct tend_lease lease);

/* 0; or TEND_EIO with the sentence: a runner that is not to wait for ever cannot run anything. */
int lack_give_up(tend_runner *runner);

#endif
