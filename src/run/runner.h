/*
 * The inside of a runner (tend_runner in tend.h): what its threads share.
 *
 *     runner.c      claims jobs, gives each a thread, waits for their end (the caller's thread)
 *     pulse.c       heartbeats all leases, brings controls, sees lost leases (a thread)
 *     task.c        a leased job in hand: its signals, its place in the list
 *     lack.c        what the worker lacks, and how long it claims nothing for that
 *     collector.c   removes what nothing needs from the runner's folder (a thread)
 *     job_run.c     one job: plan, workspace, step after step, its end (a thread each)
 *     step_run.c    one step: attempts until it has succeeded or is given up (the same thread)
 *     attempt_*.c   one attempt: a process tree, an HTTP call or a sleep (the same thread)
 *
 * A thread per running job, because the work of a job is a sequence: the code reads as the rules
 * do, and what many threads write at once goes to disk in one commit (group commit). Threads of
 * this kind sleep nearly always and cost a few pages each.
 *
 * Invariants: only a task's own thread writes about its job, and stops doing so when the lease is
 * lost. What more than one thread touches is guarded by runner->mutex, which nobody holds while
 * calling the store.
 */
#ifndef RUN_RUNNER_H
#define RUN_RUNNER_H

#include "base/arena.h"
#include "base/err.h"
#include "core/budget.h"
#include "core/classify.h"
#include "core/redact.h"
#include "queue/handle.h"
#include "run/bulkhead.h"
#include "run/lack.h"
#include "run/lease_watch.h"
#include "run/tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tend.h>

/* Jobs that came with one claim; they are freed when the last of them has ended. */
struct haul {
    struct tend_jobs *jobs;
    size_t users;
};

/* What an operator asks of a running job; see tend_control. */
struct order {
    struct order *next;
    int64_t id;
    char *action, *step_id, *actor, *reason; /* step_id and reason may be NULL */
    int64_t step_index;
};

struct task {
    struct task *next;
    tend_runner *runner;
    const struct tend_job *job; /* of the haul */
    struct haul *haul;
    struct tend_lease lease;
    pthread_t thread;
    int wake_fd;   /* an eventfd: something below has changed */
    int cancel_fd; /* an eventfd: readable once the task must end; orders do not set it */

    /* under runner->mutex */
    bool lost;       /* the lease is no longer held: stop, write nothing */
    bool row_locked; /* the pulse's own: another session has locked the job's row; it was told */
    int stopped; /* ... the job was cancelled or held (TEND_…): stop, tell how the attempt ended */
    char stopped_why[256]; /* "cancelled by ann: enough" */
    bool reports; /* its thread tells how the job ended, and learns from the answer what is lost */
    bool ended;   /* its thread is done and can be joined */
    struct lease_watch watch;     /* of its lease; its length never changes */
    struct order *orders;         /* oldest first */
    int64_t last_order;           /* the newest that was ever given */
    struct lease_telling telling; /* its thread's own */
    bool short_told;              /* ... that memory was short, and somebody was told */
    struct tend_running view;
    bool viewed;            /* view is filled: a step runs, or pauses */
    bool sleeps;            /* ... that has nothing to say */
    int64_t pause_until_ms; /* ... it pauses until then, monotonic; 0: it runs */
    struct bulkhead *slot;  /* what it has a slot of, or NULL */
    struct bulkhead
        *rests_of; /* ... or had one of, and gave it to others; NULL: it does not rest */
    struct bulkhead *waits_for; /* ... or waits for a slot of; NULL: for none */
    struct tree *tree;          /* what it runs, NULL: nothing; may be told to end by others */
    int64_t grace_ms;           /* ... with this grace */
    int64_t begun_mono_ms, heard_mono_ms; /* of that attempt: its start, its last output */
};

/* Kinds without a handler, and folders that are missing, that are told of; see job_give_back_unfit.
 */
enum { UNFIT_TOLD = 64 };

enum stop_level { STOP_NOT, STOP_DRAIN, STOP_NOW };

struct tend_runner {
    tend *t;
    struct tend_runner_options options; /* its pointers are copies, in arena */
    struct arena arena;
    const char *here;           /* the folder it was made in */
    uint64_t tag;               /* random: in markers, as stores count their jobs alike */
    struct budgets environment; /* what the environment says of budgets */
    struct classifier *classifier;
    struct redactor *redactor; /* of this process' own environment */
    struct tree_pool *pool;    /* under pool_mutex */
    pthread_mutex_t pool_mutex;
    struct statsd *statsd; /* while it runs; NULL: no metrics */
    struct wait_seen seen; /* of the bells of its queues */

    pthread_mutex_t mutex;
    struct bulkheads bulkheads;
    struct lack lack;
    struct task *tasks;
    size_t task_count;
    atomic_llong answered_ms; /* monotonic: when the store has last answered a claim */
    int64_t claim_lost_ms; /* the claiming thread's own, monotonic: when the outcome of a claim was
                              last not known; 0: each is */
    int64_t back_ms;       /* monotonic: until then jobs come back that could not be run here */
    struct tend_runner_totals totals;
    uint64_t unfit[UNFIT_TOLD]; /* hashes of kinds and paths, which begin with a slash */
    size_t unfit_count;
    pthread_mutex_t tell_mutex;
    _Atomic int stop;              /* enum stop_level */
    _Atomic int64_t stopped_at_ms; /* monotonic: when it was first told to; 0: it was not */
    int stop_fd; /* an eventfd, written by tend_runner_stop, which may be in a signal handler */
    pthread_t pulse_thread;
    int pulse_fd; /* an eventfd: it is to end, or to look at once */
    bool pulse_runs, pulse_ends;
    bool store_away;    /* the pulse's own: it has told so */
    int64_t away_ms;    /* ... monotonic: when */
    bool store_blocked; /* ... that nobody can write */

    _Atomic int64_t store_id; /* keep_store_id; 0: not asked yet */
    pthread_t collector_thread;
    int collector_fd; /* an eventfd: it is to end */
    bool collector_runs;
};

/* --- task.c --- */

/* A task for a job of the haul, with its thread. 0, TEND_ENOMEM or TEND_EIO. */
int task_start(tend_runner *runner, struct haul *haul, const struct tend_job *job,
               int64_t claimed_mono_ms);
/* Frees those that have ended. */
void task_reap(tend_runner *runner);

/* An eventfd as a flag: readable while it is set. */
void flag_set(int fd);
void flag_clear(int fd);

/* What it runs may go on longer, as its watch says; its thread and its tree are told. Under
 * runner->mutex. */
void task_keep(struct task *task);

/* Wakes the task's thread; under runner->mutex. */
void task_wake(struct task *task);
/* ... because it must end: it is lost, or to stop. */
void task_alarm(struct task *task);

enum task_signal {
    TASK_GO_ON,
    TASK_LOST,      /* the lease is gone */
    TASK_CANCELLED, /* ... by a cancel or a hold, and the job is nobody else's yet */
    TASK_STOP,      /* the runner stops at once */
    TASK_ORDERED,   /* there is an order that cannot wait for the end of the attempt */
};
/* The task with this lease; NULL: it has ended. token 0: whichever is the newest. Under
 * runner->mutex. */
struct task *task_find(tend_runner *runner, int64_t id, int64_t token);
/* The store says that a lease is not held: the job was cancelled or held, or has gone to another.
 */
void task_lose(tend_runner *runner, struct tend_lease lease);

/* What the thread of a task should do now. */
enum task_signal task_signal(struct task *task);

/* The next order; NULL: none. The caller frees it with order_free. */
struct order *task_next_order(struct task *task);
void order_free(struct order *order);
/* A pause waits for the end of the attempt, the others end it. */
bool order_is_urgent(const struct order *order);

/* Who ends the present attempt and why, in words: an order, or the end of this worker. */
enum { STOP_TEXT_BYTES = 512 };
const char *task_stop_text(struct task *task, char out[STOP_TEXT_BYTES]);

/*
 * Whether a call that answered rc is to be repeated: its failure passes (lease_tells_again). Pauses
 * a moment then. It is tried until the store answers, for what is to be told may be finished work;
 * a task that is to stop gives up after a while. A lost lease is noted.
 */
bool task_try_again(struct task *task, int rc);

/* Sleeps up to ms (-1: for ever), until signalled. */
void task_sleep(struct task *task, int64_t ms);

int64_t task_safe_until(struct task *task);

enum task_slot {
    SLOT_TAKEN,
    SLOT_AWAITED, /* there is none now: ask again after task_sleep */
    SLOT_NONE,    /* and so many wait for one that this task must not */
};
/* A slot for a step of this kind, in place of the one the task has. */
enum task_slot task_slot(struct task *task, const char *kind);
/* Gives the slot to others while the task pauses. False: too many rest already, and it keeps it. */
bool task_rest(struct task *task);
/* The pause is over: the task asks for a slot again. */
void task_rest_over(struct task *task);

/* --- pulse.c --- */

int pulse_start(tend_runner *runner);
void pulse_end(tend_runner *runner);
/* A new task, whose lease may be short. */
void pulse_hurry(struct task *task);
/* What was asked of a job before it was claimed: now, and not with the next beat. */
void pulse_bring_orders(struct task *task);

/* --- job_run.c: the body of a task's thread --- */

void job_run(struct task *task);

/* --- runner_new.c --- */

/* The handle says what err says. */
int runner_fail(tend_runner *runner, const struct err *err);
/* Asks the store who it is, once: the folders of jobs are marked with it. */
int runner_know_store(tend_runner *runner);

/* --- runner_redact.c --- */

struct job_plan;
struct known_secret;
/* For the variables of this process, the variables of a plan (NULL: none) and the values that it
 * names (NULL: none). 0, or as redactor_new. */
int runner_redactor(const struct job_plan *plan, const struct known_secret *secrets,
                    struct redactor **ret, struct err *err);

/* --- runner.c --- */

void runner_tell(tend_runner *runner, enum tend_news_kind kind, int64_t job_id, int state,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* TEND_NEWS_STEP: attempt `number` of the job has ended. */
void runner_tell_step(tend_runner *runner, int64_t job_id, int64_t number, int state,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
