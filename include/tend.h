/*
 * tend.h - the whole public interface of libtend.
 *
 * tend keeps work moving: durable jobs under leases, in SQLite or PostgreSQL, that recover by
 * themselves when a worker dies or hangs.
 *
 * Ownership: const arguments are borrowed for the call; what comes back through a
 * pointer-to-pointer is yours to free with the matching _free; a plain returned pointer belongs to
 * the handle it came from.
 *
 * Errors: functions return 0 or a count on success and a negative TEND_E... code otherwise;
 * tend_errmsg() then has the sentence: what failed, on what, what to do. Output parameters are
 * written only as stated.
 *
 * Threads: a handle may be used by any number of threads at once. The library never prints, exits,
 * installs signal handlers or keeps globals, but for what fork and stopping ask of a whole process.
 * Ignore SIGXFSZ where the size of files is limited (ulimit -f), or it ends the program; a write
 * that meets the limit then fails with TEND_EFULL.
 *
 * Fork: a handle belongs to the process that opened it. In a child made by fork() every call on it
 * fails with TEND_ESTATE; the only one of use is tend_close(), which frees memory there and does
 * nothing to the store. The child keeps no lock, lease or session of its parent alive: those end
 * with the parent. To work with the store, the child opens it anew. On SQLite that fails with
 * TEND_ESTATE if another thread was inside a call of this library when the process forked; exec
 * first then. posix_spawn, vfork and exec do not concern a handle.
 *
 * Secrets: the library stores texts as they are given: payloads, results, errors, reasons. A runner
 * takes secrets out of what its steps print and report before it stores it, and the command line
 * out of what it is given; see "Secrets" in docs/steps.md. A worker of your own sees to it itself.
 *
 * Times are milliseconds since 1970 in store time: the clock of the PostgreSQL server, or this
 * machine's clock on SQLite, where store time never runs backwards and never stands still: ahead of
 * a clock that was set back, it goes on a sixteenth slower until they meet. A lease or lock has
 * expired when now >= until.
 *
 * A lease does not end by a clock that jumps. On SQLite all running leases and held locks are moved
 * by the time for which the machine slept, by which its clock was set forward, or in which nobody
 * could write; due times and schedules are not. On PostgreSQL they are moved by the time by which
 * the server's clock was set forward, and begin anew when the server was restarted or another has
 * taken over; and an expired lease of a registered worker that is not known to be dead is extended
 * once, for half its length (1 s to 10 s), before it is taken: the worker can still heartbeat. A
 * crash is charged when the worker is gone or has stayed silent, never because of the clock.
 */
#ifndef TEND_H
#define TEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TEND_API __attribute__((visibility("default")))
#else
#define TEND_API
#endif

#define TEND_VERSION "0.1.0"
#define TEND_UNSET INT64_MIN /* a number not given, or not there */

/* name, value, what it means in general */
#define TEND_ERRORS(X)                                                                             \
    X(EINVAL, -1, "bad input")                                                                     \
    X(ENOMEM, -2, "out of memory or descriptors")                                                  \
    X(ENOTFOUND, -3, "not found")                                                                  \
    X(ECONFLICT, -4, "conflict with what is there")                                                \
    X(ESTATE, -5, "refused by the present state")                                                  \
    X(ELEASELOST, -6, "the lease is no longer held")                                               \
    X(EEMPTY, -7, "nothing to claim")                                                              \
    X(EBUSY, -8, "held by somebody else")                                                          \
    X(EPAUSED, -9, "paused")                                                                       \
    X(ELIMITED, -10, "a limit is reached")                                                         \
    X(EUNREACHABLE, -11, "the store is out of reach")                                              \
    X(ESCHEMA, -12, "the schema of the store does not fit")                                        \
    X(ENOTADB, -13, "not a tend store")                                                            \
    X(EREADONLY, -14, "the store cannot be written")                                               \
    X(EFULL, -15, "no space left")                                                                 \
    X(EIO, -16, "reading or writing the store failed")                                             \
    X(ECORRUPT, -17, "the store is damaged")                                                       \
    X(EINTERRUPTED, -18, "interrupted")                                                            \
    X(EINTERNAL, -19, "internal error")

enum tend_error {
    TEND_OK = 0,
#define X(name, value, text) TEND_##name = value,
    TEND_ERRORS(X)
#undef X
};

/* The general meaning of a code; never NULL. */
TEND_API const char *tend_strerror(int code);
TEND_API const char *tend_version(void);

/* --- The handle --------------------------------------------------------------------------- */

typedef struct tend tend;

struct tend_options {
    const char *name;   /* owner name where a call gives none; default "host:pid:RANDOM" */
    const char *hook;   /* the hook whose job runs the caller (TEND_HOOK): what it adds or retries
                           calls no hooks when it fails; NULL: none */
    int beside_workers; /* 1: an older schema is brought up to date although workers of an older
                           tend run on the store, which do not know the new one */
    int must_exist;     /* 1: make no store where there is none, or an empty file */
    int durability_normal; /* 1: SQLite synchronous=NORMAL; a power loss may lose the last commits
                            */
    int connections;       /* PostgreSQL: connections at most, default 8 */
    int64_t busy_ms;     /* how long a write waits: on SQLite for another process that writes, or is
                            stopped in the middle of it, and for another program that has locked
                            the file (then TEND_EBUSY), on PostgreSQL for a row lock, and 2 s more
                            for an answer; a call with a wait_ms no longer than that, or 1 s.
                            Default 30 s */
    int64_t recovery_ms; /* recovery timer inside waits, jittered; 0: no timer; TEND_UNSET: as
                            TEND_RECOVERY_INTERVAL_MS says, default 60 s */
    void (*log)(void *arg, const char *line); /* one call per line worth a log; may be NULL */
    void *log_arg;
    int64_t (*clock_ms)(void *arg); /* store time for tests; NULL: the real one */
    void *clock_arg;
    /* For tests too: the time since boot that goes with clock_ms, with or without the time the
     * machine slept. clock_ms is then the wall clock (on PostgreSQL the server's), which may jump;
     * NULL: it runs evenly. */
    int64_t (*uptime_ms)(void *arg, int with_sleep);
    /* PostgreSQL: how long opening waits for the server; 0: as busy_ms. For each connection,
     * opening or later, no longer than connect_timeout in the URL says (seconds, default 10; 0: no
     * limit of its own). */
    int64_t open_ms;
};

TEND_API void tend_options_init(struct tend_options *options);

/*
 * Open a store: "sqlite:PATH" or "postgresql://..." (all forms of such a URL that libpq knows).
 * Makes the store and brings its schema up to date where needed. *ret is set also on failure (but
 * with TEND_ENOMEM it may be NULL), so that tend_errmsg() can be asked; close it in either case.
 * options may be NULL. Fails with TEND_EINVAL, ENOTFOUND (must_exist), EUNREACHABLE, ESCHEMA (newer
 * schema), ESTATE (workers of an older tend live by its older schema), ENOTADB, EREADONLY, EFULL,
 * EIO, ECORRUPT, ENOMEM (also: no descriptors left).
 *
 * PATH is resolved here, once: symlinks and the current folder may change afterwards. A file that
 * has more than one name (hard links), or is mounted alone, is refused: EUNREACHABLE. When the
 * file is deleted or replaced while it is open, every call fails with TEND_EUNREACHABLE and nothing
 * is acknowledged any more: close the handle and open the store again. A write in the moment of the
 * change may be in the file that was open; tend_errmsg() says whether it is. Calls fail in
 * the same way, some seconds later, when a PostgreSQL schema is dropped or replaced; leases of the
 * old store fit no job of the new.
 */
TEND_API int tend_open(tend **ret, const char *url, const struct tend_options *options);

/*
 * Close. Leases held through this handle's worker registration are released, free of charge. No
 * other thread may be inside a call on the handle; threads that used it before may live on.
 */
TEND_API void tend_close(tend *t);

/* The sentence for the last failure of the calling thread on this handle; "" if there was none. */
TEND_API const char *tend_errmsg(tend *t);

/* Store time now. */
TEND_API int tend_now(tend *t, int64_t *ret_ms);

/* --- Jobs --------------------------------------------------------------------------------- */

enum tend_state {
    TEND_SCHEDULED = 0, /* due later */
    TEND_PENDING = 1,
    TEND_RUNNING = 2, /* leased */
    TEND_HELD = 3,
    TEND_DONE = 4,
    TEND_FAILED = 5,
    TEND_CANCELLED = 6
};
#define TEND_STATE_COUNT 7

TEND_API const char *tend_state_name(int state); /* "pending"...; "?" if unknown */
TEND_API int tend_state_parse(const char *name); /* a state or TEND_EINVAL */

#define TEND_PRIORITY_DEFAULT 5

/* What becomes of a submission under the key of a job that is running. */
enum tend_if_running {
    TEND_IF_RUNNING_AGAIN, /* it is remembered, and run once more when this run has ended */
    TEND_IF_RUNNING_KEEP   /* nothing is changed */
};

struct tend_job_spec {
    const char *queue;      /* default "default" */
    const char *kind;       /* default "" */
    const char *payload;    /* JSON text, kept byte for byte; default "{}" */
    size_t payload_bytes;   /* 0: strlen */
    int priority;           /* 0 (most urgent) to 9 */
    int64_t due_at_ms;      /* when it is due; TEND_UNSET: delay_ms says it */
    int64_t delay_ms;       /* due so long from now, where due_at_ms is TEND_UNSET; TEND_UNSET: 0 */
    const char *unique_key; /* one live job per queue and key; NULL: none */
    const char
        *subject; /* what the key stands for: same key and subject refresh, another conflicts */
    const char *concurrency_key; /* counts against the queue's key-concurrency */
    const char *tags;            /* JSON array of strings, or NULL */
    const char *workspace; /* folder in which a runner runs the job's commands, unless its plan
                              names a repository; NULL: the runner's own */
    const char *by;        /* who adds; NULL: the handle's name */
    int64_t max_attempts, max_crashes, backoff_ms, backoff_max_ms; /* or TEND_UNSET */
    int64_t lease_ms; /* 100 ms to 366 days, or TEND_UNSET: as the queue says, which has the same
                         range */
    enum tend_if_running if_running; /* with unique_key */
    const char *hook; /* whose job adds this one: its failure calls no hooks; NULL: as the handle's
                         options say */
};

TEND_API void tend_job_spec_init(struct tend_job_spec *spec);

struct tend_spec_fault {
    const char *member; /* of struct tend_job_spec, the one at fault: "lease_ms" */
    char text[512];     /* what tend_errmsg() would say */
};

/* The check that tend_add begins with, for those who have no store yet: 0, or TEND_EINVAL with *ret
 * (may be NULL). */
TEND_API int tend_job_spec_check(const struct tend_job_spec *spec, struct tend_spec_fault *ret);

/*
 * A unique key is taken while its job is unfinished. Who adds under it for the same subject
 * - refreshes a job that waits or is held: it takes over all of the spec, and stays held;
 * - is remembered while the job runs: the newest submission becomes a job of its own in the moment
 *   in which that one finishes, and refreshes it when it goes back to waiting. With
 *   TEND_IF_RUNNING_KEEP nothing is changed.
 */

struct tend_added {
    int64_t id;  /* of the job; on a conflict the id of the job that has the key */
    int outcome; /* TEND_OK: added; TEND_ECONFLICT: not added; or one of these */
};
#define TEND_REFRESHED 1 /* the job of this id has taken it over */
#define TEND_AGAIN 2     /* the job of this id is running: runs once more after it */
#define TEND_UNCHANGED 3 /* the job of this id is running, and nothing was changed */

/* Add one job; on disk when it returns. TEND_ECONFLICT: the key is taken, ret->id says by whom. */
TEND_API int tend_add(tend *t, const struct tend_job_spec *spec, struct tend_added *ret);

/* Add many in one transaction; outcomes per job. Bad input anywhere adds nothing. */
TEND_API int tend_add_many(tend *t, const struct tend_job_spec *specs, size_t count,
                           struct tend_added *ret);

struct tend_job {
    int64_t id;
    const char *queue, *kind, *phase, *payload; /* phase may be NULL */
    size_t payload_bytes;
    int state, priority;
    int64_t token;
    int64_t due_at_ms, created_at_ms, changed_at_ms;
    int64_t until_ms; /* running: end of the lease as stored (tend_explain: as the next writer will
                         find it); otherwise TEND_UNSET (also the next four) */
    int64_t started_at_ms, seen_at_ms, finished_at_ms;
    int64_t worker_id; /* registered worker behind the lease */
    const char *owner; /* NULL when not running (also below: NULL when there is none) */
    const char *unique_key, *subject, *concurrency_key, *tags, *workspace, *schedule;
    const char *error_class, *error_text, *result;
    const char *changed_by, *changed_what, *changed_why;
    int64_t attempts, crashes, version;
    int64_t max_attempts, max_crashes, backoff_ms, backoff_max_ms, lease_ms; /* or TEND_UNSET */
    int64_t stopped_token; /* held or cancelled while it ran: token of that lease, or TEND_UNSET */
    int64_t nominal_at_ms; /* added by a schedule: the time it was scheduled for; else TEND_UNSET */
    int followed;     /* 1: it is running, and what was submitted under its key waits for its end */
    const char *hook; /* the hook that added or retried it: its failure calls none; NULL: none */
};

struct tend_jobs {
    size_t count;
    const struct tend_job *items;
};
TEND_API void tend_jobs_free(struct tend_jobs *jobs);

/* One job; TEND_ENOTFOUND. */
TEND_API int tend_get(tend *t, int64_t id, struct tend_jobs **ret);

struct tend_filter {
    const char *queue, *kind, *tag; /* NULL: any */
    unsigned states;                /* bit per state (1u << TEND_PENDING); 0: any */
    int64_t older_than_ms;          /* unchanged for at least so long; TEND_UNSET: any */
    int64_t after_id;               /* only ids above; 0: no bound */
    size_t limit;                   /* 0: 1,000 */
    int64_t before_id;              /* only ids below; 0: no bound */
    int newest_first;               /* 1: from the largest id down; for tend_list alone */
};
TEND_API void tend_filter_init(struct tend_filter *filter);

/* Jobs in order of id, a page at a time: pass the last id of a page as after_id, or before_id where
 * the newest come first, until a page comes back empty. */
TEND_API int tend_list(tend *t, const struct tend_filter *filter, struct tend_jobs **ret);

/* --- Leases ------------------------------------------------------------------------------- */

struct tend_lease {
    int64_t id;
    int64_t token;
};

/* By default a claim registers this process as a worker, so that its death ends the lease at once.
 */
#define TEND_CLAIM_UNSTARTED                                                                       \
    1u /* leased only: neither attempt nor crash is charged before tend_start */
#define TEND_CLAIM_BY_TIME 2u /* held by its time alone: for commands that end, remote callers */

struct tend_claim {
    const char *queue; /* default "default" */
    const char *owner; /* NULL: the handle's name */
    size_t count;      /* how many at most; 0: 1 */
    int64_t ttl_ms;    /* 1 ms to 366 days; TEND_UNSET: as the job or queue says, default 60 s */
    int64_t wait_ms;   /* 0: answer at once; -1: wait for ever; a full disk is waited for, too */
    int64_t while_pid; /* > 0: the lease, and the wait for it, end with that process */
    unsigned flags;
    const char *const *not_kinds; /* jobs of these kinds are passed over; at most 1000 */
    size_t not_kind_count;
    int64_t job_id; /* > 0: this job of the queue and no other */
};
TEND_API void tend_claim_init(struct tend_claim *claim);

/* Why there was nothing to claim. */
struct tend_none {
    int code;      /* TEND_EEMPTY, TEND_EBUSY, TEND_EPAUSED or TEND_ELIMITED */
    char what[32]; /* ELIMITED: "concurrency", "key-concurrency", "rate", or "kind" (not_kinds) */
    char by[256];  /* EBUSY: holder of the lock; EPAUSED: the reason given */
    int64_t until_ms; /* when to ask again: not before, unless a job ends, and later if leases are
                         renewed; TEND_UNSET: unknown */
};

/*
 * Lease up to count jobs: most urgent first, then due time, then id. Recovers what is stale first.
 * Returns their number, or TEND_EEMPTY, EBUSY, EPAUSED, ELIMITED with *ret_none (may be NULL)
 * filled (EBUSY with code 0 in it: another process keeps the store from being written, and
 * tend_errmsg says which); TEND_EINTERRUPTED after tend_interrupt(); TEND_ESTATE when the process
 * of while_pid has ended, and nothing is leased.
 */
TEND_API int tend_claim_jobs(tend *t, const struct tend_claim *claim, struct tend_jobs **ret,
                             struct tend_none *ret_none);

/* The same for one job under the processing lock "queue:NAME", which ends with the lease. */
TEND_API int tend_next_with_lock(tend *t, const struct tend_claim *claim, struct tend_jobs **ret,
                                 struct tend_none *ret_none);

/*
 * The calls below take leases and answer per lease in ret_each (count entries, may be NULL): 0 or
 * TEND_ELEASELOST. They return 0 when all went through, else the code of the first that did not;
 * those that are held are served all the same. When the call fails with another code, that is the
 * answer for each lease of which nothing is known. On PostgreSQL tend_start and tend_heartbeat may
 * answer TEND_EBUSY for a lease: for busy_ms another session has kept the row of its job locked.
 * The lease is held as before, and was not extended; the others were, without waiting for it. A
 * call repeated after a lost answer is answered as the first was. That is so for the same call
 * alone: to fail what one has released, say, is TEND_ELEASELOST, and tend_errmsg() tells how the
 * lease has ended. The same call that asks for something else than the first is TEND_ECONFLICT:
 * nothing is changed, and tend_errmsg() tells what the first has left.
 */
TEND_API int tend_start(tend *t, const struct tend_lease *leases, size_t count, int *ret_each);
/* Only looks; changes nothing. */
TEND_API int tend_check(tend *t, const struct tend_lease *leases, size_t count, int *ret_each);
/* The lease starts over: with ttl_ms (1 ms to 366 days), which is its length from then on, or with
 * the length it has (TEND_UNSET). */
TEND_API int tend_heartbeat(tend *t, const struct tend_lease *leases, size_t count, int64_t ttl_ms,
                            int *ret_each);
/* results: count JSON texts or NULL. Repeated with another result: TEND_ECONFLICT, the first stays.
 */
TEND_API int tend_complete(tend *t, const struct tend_lease *leases, size_t count,
                           const char *const *results, int *ret_each);
/* Give back, free of charge; due again delay_ms from now. Repeated with another delay or reason:
 * TEND_ECONFLICT. */
TEND_API int tend_release(tend *t, const struct tend_lease *leases, size_t count, int64_t delay_ms,
                          const char *why, int *ret_each);

/*
 * Complete and claim in one transaction, which doubles the rate of a one-by-one worker. Returns as
 * tend_claim_jobs (wait_ms applies); what became of the leases is in ret_each: 0, TEND_ELEASELOST,
 * TEND_ECONFLICT, or another code when it is not known, and the completion is to be repeated.
 */
TEND_API int tend_complete_and_claim(tend *t, const struct tend_lease *leases, size_t count,
                                     const char *const *results, int *ret_each,
                                     const struct tend_claim *claim, struct tend_jobs **ret,
                                     struct tend_none *ret_none);

struct tend_failure {
    const char *error_class; /* default "transient_runtime" */
    const char *text;
    int64_t retry_in_ms; /* TEND_UNSET: by the backoff */
    int final;           /* 1: no retry whatever budget is left */
    const char *by;
};
TEND_API void tend_failure_init(struct tend_failure *failure);

/* *ret_due_ms: when it is tried again, or TEND_UNSET when it has failed for good (may be NULL).
 * Repeated with another class, text or retry_in_ms, or as final when it was not: TEND_ECONFLICT.
 * What a repeated call leaves open contradicts nothing. */
TEND_API int tend_fail(tend *t, struct tend_lease lease, const struct tend_failure *failure,
                       int64_t *ret_due_ms);

/* Say where a running job is, in the words of its kind ("rebasing"). */
TEND_API int tend_phase(tend *t, struct tend_lease lease, const char *phase);

/* --- Steps -------------------------------------------------------------------------------- */

/*
 * What the owner of a lease reports of the steps of its job, and what operators ask of it. Every
 * call that takes a lease is fenced by its token: TEND_ELEASELOST when it is no longer held, and
 * nothing is written. A change, its events and what it means for the job are one transaction.
 *
 * After a cancel, and until the job is brought back, the owner may still add output to the attempt
 * that it stops, and tell how that ended (a change without drop_from_step and begun).
 */

enum tend_attempt_state {
    TEND_ATTEMPT_RUNNING = 0,
    TEND_ATTEMPT_SUCCEEDED = 1,
    TEND_ATTEMPT_FAILED = 2,
    TEND_ATTEMPT_STOPPED = 3, /* cancelled, held, paused, taken over, or its worker stops */
    TEND_ATTEMPT_LOST = 4     /* its worker died, or lost the lease */
};
TEND_API const char *tend_attempt_state_name(int state); /* "running"...; "?" if unknown */

#define TEND_PATCH_BYTES_MAX (256u * 1024 * 1024)

/* An attempt that begins. */
struct tend_attempt_begin {
    int64_t step_index; /* from 1 */
    const char *step_id;
    int64_t attempt;          /* from 1; one that was stopped or lost is made again */
    const char *strategy;     /* "first" (default), "soft_reset" or "hard_reset" */
    const char *marker;       /* names its process tree; no other attempt has it */
    int64_t pid, start_ticks; /* of its process; TEND_UNSET: not known yet */
};
TEND_API void tend_attempt_begin_init(struct tend_attempt_begin *begin);

/* How the running attempt has ended. */
struct tend_attempt_end {
    int64_t number;            /* as tend_step_next gave it */
    int state;                 /* succeeded, failed or stopped */
    int64_t exit_code, signal; /* or TEND_UNSET */
    const char *failure_class; /* NULL where there is none, as the others */
    const char *rule;          /* that decided the class */
    const char *evidence;      /* the line that matched */
    const char *summary, *signature, *diff_hash;
    int64_t output_bytes, output_dropped_bytes; /* or TEND_UNSET */
    int may_live; /* 1: not all of its processes could be ended; tend_attempts_left_behind tells */
    /* As metrics count it. What follows a failure: "soft_reset", "hard_reset", "failed" (no attempt
     * would help) or "exhausted"; of a success "recovered", when failures came before it. */
    const char *verdict;
    const char *timeout; /* "idle" or "wall", when time ended it */
    int no_progress;     /* 1: attempts were alike */
    int retryable;       /* of "failed" and "exhausted": 1: the queue may try the job again */
    int outside;         /* 1: the cause lies outside the workspace: network, service, rate limit */
    int64_t failures;    /* failing tests or errors that its output counts, or TEND_UNSET */
    int64_t next_in_ms;  /* the step waits so long before its next attempt, or TEND_UNSET */
    const char *warnings; /* what was wrong with what it reported: JSON array of strings, or NULL */
    /* Of one that succeeded, for the checkpoint of its step: */
    const char *changed_files; /* JSON array of strings, or NULL */
    const char *outputs;       /* JSON object, or NULL; "result" in it is what the job comes to */
    const void *patch;         /* any bytes; NULL: there is no workspace */
    size_t patch_bytes;
    int with_edits; /* 1: the patch holds the operator's edits (tend_resume_edited), which go */
};
TEND_API void tend_attempt_end_init(struct tend_attempt_end *end);

/* An event about a step that is neither begin nor end of an attempt. */
struct tend_step_event {
    const char *what; /* "task.self_heal.triggered", "task.self_heal.escalated",
                         "task.self_heal.exhausted", "task.step.warning" or
                         "task.resume.from_step" */
    int64_t step_index;
    const char *step_id;
    int64_t attempt;                                              /* or TEND_UNSET */
    const char *failure_class, *signature, *diff_hash, *strategy; /* or NULL */
    const char *why;                                              /* for people, or NULL */
    int retryable; /* of "task.self_heal.exhausted": 1: the queue may try the job again */
};

/* All parts may be left out, but not all of them. Written in the order given here. Repeated with an
 * attempt that has ended it drops and tells nothing again. */
struct tend_step_change {
    int64_t drop_from_step; /* > 0: checkpoints of this step and later ones go */
    const char *baseline_repo, *baseline_commit; /* where the workspace starts; the first told stays
                                                  */
    const struct tend_attempt_end *ended;
    const struct tend_step_event *events;
    size_t event_count;
    const struct tend_attempt_begin *begun;
};

/*
 * One attempt ends and the next begins, in one transaction. One that succeeded leaves a checkpoint.
 * One that an earlier lease left running is marked lost. *ret_number (may be NULL): the number of
 * the attempt begun, which counts over the job's whole life. A call repeated after a lost answer is
 * answered as the first (a change of events alone is written again). TEND_ESTATE: the attempt to
 * end is not running, or another one is.
 */
TEND_API int tend_step_next(tend *t, struct tend_lease lease, const struct tend_step_change *change,
                            int64_t *ret_number);

/* What was changed in a workspace since the last checkpoint. */
struct tend_changes {
    const void *patch; /* for git apply; any bytes */
    size_t patch_bytes;
    const char *changed_files; /* JSON array of strings, or NULL */
    int64_t dropped_bytes;     /* cut from the end of the patch */
};
#define TEND_KEPT_PATCH_BYTES_MAX (1024u * 1024)

enum tend_step_how {
    TEND_STEPS_COMPLETE, /* as tend_complete */
    TEND_STEPS_FAIL,     /* as tend_fail */
    TEND_STEPS_RELEASE,  /* as tend_release */
    TEND_STEPS_HOLD      /* the job is held, free of charge, until it is resumed */
};

struct tend_step_close {
    enum tend_step_how how;
    const char *result;                 /* complete: JSON, or NULL */
    const struct tend_failure *failure; /* fail */
    int64_t delay_ms;                   /* release: due again so long from now */
    const char *why;                    /* release and hold */
    int64_t control_id;                 /* > 0: the control that is answered by this */
    const char *outcome;                /* ... how */
    /* Kept for people with the newest attempt under this lease; see tend_keeps. */
    const char *workspace;              /* fail and hold: folder on this machine, or NULL */
    const struct tend_changes *changes; /* fail: what the attempt has changed, at most
                                           TEND_KEPT_PATCH_BYTES_MAX; or NULL */
};

/*
 * The last attempt ends and the job with it, in one transaction; change may be NULL, and begins
 * nothing. *ret_due_ms (may be NULL): of a failure, when it is tried again, or TEND_UNSET when it
 * has failed for good.
 */
TEND_API int tend_step_finish(tend *t, struct tend_lease lease,
                              const struct tend_step_change *change,
                              const struct tend_step_close *close, int64_t *ret_due_ms);

/* The process of a running attempt is known. Nothing is written when it runs no more. */
TEND_API int tend_attempt_started(tend *t, struct tend_lease lease, int64_t number, int64_t pid,
                                  int64_t start_ticks);
/* Live progress, without an event: 0 to 100 or TEND_UNSET, text or NULL. */
TEND_API int tend_progress(tend *t, struct tend_lease lease, int64_t number, int64_t percent,
                           const char *text);

struct tend_attempt {
    int64_t job_id, number;
    int64_t step_index, attempt;
    const char *step_id, *strategy;
    int64_t token, worker_id; /* of the lease it ran under; or TEND_UNSET, as all numbers below */
    const char *host, *boot_id, *marker;
    int64_t pid, start_ticks;
    int state; /* an attempt whose lease has ended is told as lost, or stopped where the job was */
    int64_t started_at_ms, ended_at_ms;
    int64_t exit_code, signal;
    const char *failure_class, *rule, *evidence, *summary, *signature, *diff_hash; /* or NULL */
    int64_t progress_percent;
    const char *progress_text; /* or NULL */
    int64_t output_bytes, output_dropped_bytes;
    const char *verdict, *timeout; /* or NULL */
    int no_progress;
    int64_t retryable;    /* 1: it gave the job up and the queue may try that again; 0: may not */
    int outside;          /* 1: the cause of its failure lies outside the workspace */
    int64_t failures;     /* failing tests or errors that its output counts */
    int64_t next_at_ms;   /* until when the step waits before its next attempt */
    const char *warnings; /* JSON array of strings, or NULL */
    int earlier_life; /* 1: the job was retried or redriven since, and its steps' budgets are full
                       */
};
struct tend_attempts {
    size_t count;
    const struct tend_attempt *items;
};
TEND_API void tend_attempts_free(struct tend_attempts *attempts);

/* All attempts of a job, in order; none is no error. */
TEND_API int tend_attempts(tend *t, int64_t job_id, struct tend_attempts **ret);
/* Those that run now, of all jobs; limit 0: 1,000. */
TEND_API int tend_attempts_running(tend *t, size_t limit, struct tend_attempts **ret);
/* Those that have ended in running jobs whose step waits until next_at_ms before its next attempt;
 * limit 0: 1,000. */
TEND_API int tend_attempts_waiting(tend *t, size_t limit, struct tend_attempts **ret);
/*
 * Attempts that ran on this host and boot and whose lease is no longer held: something of their
 * process trees may be left. Told again until tend_attempt_swept. Of one job, or of all (0), by job
 * and number; after (may be NULL): those behind it; limit 0: 1,000.
 */
TEND_API int tend_attempts_left_behind(tend *t, int64_t job_id, const struct tend_attempt *after,
                                       size_t limit, struct tend_attempts **ret);
TEND_API int tend_attempt_swept(tend *t, int64_t job_id, int64_t number);

/*
 * What attempts came to, of all jobs there ever were: what succeeded or failed is counted, what was
 * stopped or lost is not. Outcomes: "succeeded" (the first attempt), "recovered" (a later one),
 * "retried", "failed" (not worth another attempt), "exhausted".
 */
struct tend_step_total {
    const char *failure_class; /* of the failure it is about, or "" */
    const char *strategy;      /* that followed it, or "none"; of a success: its own */
    const char *outcome;
    int64_t count, duration_ms; /* attempts, and the time they took together */
    int64_t idle_timeouts, wall_timeouts;
    int64_t no_progress; /* that were alike, as often as the step's limit says */
};
struct tend_step_totals {
    size_t count;
    const struct tend_step_total *items;
};
TEND_API int tend_step_totals(tend *t, struct tend_step_totals **ret);
TEND_API void tend_step_totals_free(struct tend_step_totals *totals);

struct tend_checkpoint {
    int64_t step_index; /* 0: the baseline, which has repo and commit */
    const char *step_id;
    int64_t number; /* the attempt that made it; 0: copied from another job */
    int64_t at_ms;
    const char *diff_hash, *changed_files, *outputs; /* or NULL */
    const char *repo, *commit;                       /* or NULL */
    int64_t patch_bytes;                             /* TEND_UNSET: there is none */
};
struct tend_checkpoints {
    size_t count;
    const struct tend_checkpoint *items;
};
TEND_API void tend_checkpoints_free(struct tend_checkpoints *checkpoints);
/* All checkpoints of a job by step; none is no error. */
TEND_API int tend_checkpoints(tend *t, int64_t job_id, struct tend_checkpoints **ret);

struct tend_patch {
    const void *data; /* NULL: the step left none */
    size_t bytes;
};
TEND_API void tend_patch_free(struct tend_patch *patch);
/* TEND_ENOTFOUND when the step has no checkpoint. */
TEND_API int tend_checkpoint_patch(tend *t, int64_t job_id, int64_t step_index,
                                   struct tend_patch **ret);

/*
 * What is kept of an attempt for people: what it had changed when it gave its job up, for the last
 * few of them, and its workspace, which its worker's machine keeps for a while (the queue setting
 * keep-workspace), or while a job that was taken over is held.
 */
struct tend_keep {
    int64_t number, step_index;
    const char *step_id;
    int state;             /* of the attempt */
    int64_t ended_at_ms;   /* or TEND_UNSET */
    const char *host;      /* where it ran */
    const char *workspace; /* a folder there; NULL: none was kept */
    int there;             /* 1: the folder should still be there */
    int64_t until_ms;      /* ... until then; TEND_UNSET: for ever, or while the job is held */
    int64_t patch_bytes;   /* TEND_UNSET: no patch is kept; also dropped_bytes */
    int64_t dropped_bytes;
    const char *changed_files; /* JSON array of strings, or NULL */
};
struct tend_keeps {
    size_t count;
    const struct tend_keep *items;
};
TEND_API void tend_keeps_free(struct tend_keeps *keeps);
/* Those of a job by number; none is no error. */
TEND_API int tend_keeps(tend *t, int64_t job_id, struct tend_keeps **ret);
/* The kept patch of an attempt; secrets were taken out of it. TEND_ENOTFOUND: none is kept. */
TEND_API int tend_keep_patch(tend *t, int64_t job_id, int64_t number, struct tend_patch **ret);

/* What an operator has changed before a step, for the next workspace of that step. */
struct tend_edit {
    int64_t step_index;
    int64_t at_ms;
    const char *by;
    struct tend_changes changes;
};
TEND_API void tend_edit_free(struct tend_edit *edit);
/* TEND_ENOTFOUND: the job has none. */
TEND_API int tend_edit_get(tend *t, int64_t job_id, struct tend_edit **ret);

/* A piece of what an attempt wrote. */
struct tend_output {
    int64_t number; /* of the attempt; not read by tend_output_append, as it is given there */
    int64_t seq;    /* grows within the attempt */
    int64_t at_ms;  /* TEND_UNSET: now */
    int stream;     /* 1 stdout, 2 stderr, 0 a note of the worker */
    int64_t dropped_bytes; /* left out before this piece */
    const char *text;      /* UTF-8; what is not becomes U+FFFD */
    size_t text_bytes;
};
struct tend_outputs {
    size_t count;
    const struct tend_output *items;
};
/*
 * Add pieces, all in one transaction. A piece that is there already stays as it is. Wakes nobody:
 * who follows a job's output asks again once or twice a second.
 */
TEND_API int tend_output_append(tend *t, struct tend_lease lease, int64_t number,
                                const struct tend_output *pieces, size_t count);
/*
 * Pieces from from_seq on and before to_seq are left out after all, so that what is kept of an
 * endless output stays bounded; bytes are added to dropped_bytes of piece to_seq, once.
 */
TEND_API int tend_output_discard(tend *t, struct tend_lease lease, int64_t number, int64_t from_seq,
                                 int64_t to_seq, int64_t bytes);
/* Pieces behind (after_number, after_seq), in order; 0, 0: from the first. limit 0: 1,000. */
TEND_API int tend_output_read(tend *t, int64_t job_id, int64_t after_number, int64_t after_seq,
                              size_t limit, struct tend_outputs **ret);
TEND_API void tend_outputs_free(struct tend_outputs *outputs);

/* What an operator asks of a job. */
struct tend_control {
    int64_t id, job_id;
    const char *action;  /* "pause", "resume", "takeover", "retry_step", "hard_reset_step",
                            "resume_from_step" or "cancel" */
    int64_t step_index;  /* of step_id, or TEND_UNSET */
    const char *step_id; /* NULL where none was named, as reason and outcome */
    const char *reason, *actor;
    int64_t at_ms, taken_at_ms, done_at_ms; /* or TEND_UNSET: not delivered, still open */
    const char *outcome;
};
struct tend_controls {
    size_t count;
    const struct tend_control *items;
};
TEND_API void tend_controls_free(struct tend_controls *controls);

struct tend_control_result {
    int64_t control_id;
    int64_t job_id;   /* the job that goes on: a new one when a done job is resumed from a step */
    int state;        /* ... and its state */
    int open;         /* 1: a worker has yet to carry it out */
    int has_step;     /* open, of a running job: 1: its owner has begun a step under its lease, as
                         workers do; 0: it may be one that does not act on controls */
    int64_t follower; /* "cancel": the job that a remembered submission has become; 0: none */
};

/*
 * Ask something of a job, by the name of the action; step_id and reason may be NULL. Carried out at
 * once where no worker is needed, otherwise left open for the job's owner. Cancel always wins.
 * TEND_EINVAL: no such action, or a step must be named; TEND_ENOTFOUND: no such job or step;
 * TEND_ESTATE: not possible as the job stands; TEND_ECONFLICT: another live job has its unique key.
 */
TEND_API int tend_control(tend *t, int64_t job_id, const char *action, const char *step_id,
                          const char *reason, const char *by, struct tend_control_result *ret);

/*
 * Resumes a held job with what an operator has changed in its workspace: the changes since the last
 * checkpoint, which are made again before the next attempt of the step the job has come to, on
 * whatever machine, and become part of that step's checkpoint. They replace earlier ones; an empty
 * patch removes these. They are dropped when the job goes back to an earlier step. version is that
 * of the job before the changes were looked for. TEND_ESTATE: the job is not held, or has changed
 * since, so that the edits may belong to another step. reason, by and ret may be NULL.
 */
TEND_API int tend_resume_edited(tend *t, int64_t job_id, int64_t version,
                                const struct tend_changes *edits, const char *reason,
                                const char *by, struct tend_control_result *ret);

/*
 * What is open for jobs leased here, marked as taken. Told again until it is done: by
 * tend_control_done, by tend_step_finish, or with the job ("the job ended before it"). A lease that
 * is lost has none; what is open then is told to whoever leases the job next.
 */
TEND_API int tend_controls_take(tend *t, const struct tend_lease *leases, size_t count,
                                struct tend_controls **ret);
TEND_API int tend_control_done(tend *t, struct tend_lease lease, int64_t control_id,
                               const char *outcome);
/* All that was asked of a job, oldest first. */
TEND_API int tend_controls(tend *t, int64_t job_id, struct tend_controls **ret);

/* --- Operators ---------------------------------------------------------------------------- */

enum tend_action { TEND_HOLD, TEND_RESUME, TEND_CANCEL, TEND_REDRIVE };

/* TEND_ENOTFOUND, or TEND_ESTATE when the job's state does not allow it. A lease is taken away. A
 * cancelled job that is redriven before it is due keeps its due time. */
TEND_API int tend_act(tend *t, enum tend_action action, int64_t id, const char *by,
                      const char *why);

/* A job that an action did not change. */
struct tend_refused {
    int64_t id;
    int code;       /* TEND_ECONFLICT (of its unique key), TEND_ESTATE, TEND_ENOTFOUND */
    char text[256]; /* why, in a sentence */
};

/* What an action has done. */
struct tend_acted {
    int64_t count; /* jobs that it changed */
    /* Submissions that were remembered under the keys of running jobs (TEND_IF_RUNNING_AGAIN) and
     * have become jobs of their own, as those were cancelled: their ids. */
    size_t follower_count;
    const int64_t *followers; /* NULL when it was only asked what would happen */
    /* Jobs that were chosen and not changed, as another job has their unique keys. */
    size_t refused_count;
    const struct tend_refused *refused;
};
TEND_API void tend_acted_free(struct tend_acted *acted);

/* As tend_act, and tells what it did; ret may be NULL. */
TEND_API int tend_act_on_one(tend *t, enum tend_action action, int64_t id, const char *by,
                             const char *why, struct tend_acted **ret);

/*
 * The same for all that match and whose state allows it; ret may be NULL. TEND_REDRIVE takes failed
 * jobs, and cancelled ones only where filter->states names them. One unfinished job can have a
 * unique key: where one has it already, those that match stay as they are; else only the newest
 * submission of those that match is started over. ret->refused has the others.
 */
TEND_API int tend_act_on_all(tend *t, enum tend_action action, const struct tend_filter *filter,
                             const char *by, const char *why, struct tend_acted **ret);

/* What the call above would tell now; changes nothing. */
TEND_API int tend_act_count(tend *t, enum tend_action action, const struct tend_filter *filter,
                            struct tend_acted **ret);
/* What the action would tell of these jobs now, all that it would refuse among them; changes
 * nothing. Of several with one unique key only the newest would be started over. */
TEND_API int tend_act_check(tend *t, enum tend_action action, const int64_t *ids, size_t count,
                            struct tend_acted **ret);

struct tend_explanation {
    int state;
    int waiting;      /* 1: not running and not finished */
    char reason[32];  /* empty-handed word for machines: "ready", "due_later", "leased", "paused",
                         "lock",  "concurrency", "key_concurrency", "rate", "held", "finished",
                         "behind", "worker_dead", "worker_silent", "worker_stopped", "warned",
                         "no_handler" (the worker that was offered it last cannot run it) */
    char text[1024];  /* why it is not running, or what it is doing, in a sentence */
    char hint[256];   /* what can be done; "" if nothing need be */
    char by[256];     /* who holds what it waits for */
    int64_t until_ms; /* until when, or TEND_UNSET */
    int64_t ahead;    /* jobs before it in its queue that are pending or due */
    char given_back[256]; /* of a job that waits: why its last owner gave it back, or "" */
    /* Of a running job: what its step does, as its worker has reported it. Between two attempts:
     * the step, the attempt that failed and its last line. */
    char step_id[132];           /* "": no step runs or waits */
    int64_t step_index, attempt; /* or TEND_UNSET, as the next two */
    int64_t attempt_ms;          /* since it began; once the lease has ended, so has the step */
    int64_t percent;             /* its progress */
    char progress[128];          /* ... in words, or "" */
    char line[256];              /* the last line it has printed, or "" */
    int64_t next_at_ms;          /* when the next attempt of the step begins, or TEND_UNSET */
    int no_worker;               /* 1: it could run, and no living worker is there */
};
/* A scheduled job whose due time has come is explained as a pending one: state says
 * TEND_SCHEDULED, reason what keeps it waiting. */
TEND_API int tend_explain(tend *t, int64_t id, struct tend_explanation *ret);

/* --- Locks -------------------------------------------------------------------------------- */

#define TEND_LOCK_TTL_MS 300000

struct tend_lock {
    char name[256];
    char owner[256];
    int64_t token; /* fencing: only grows */
    int64_t acquired_at_ms, expires_at_ms;
    int64_t worker_id; /* or TEND_UNSET */
    int64_t job_id;    /* the job it was taken with, or TEND_UNSET */
    int expired;
};

struct tend_lock_request {
    const char *name;
    const char *owner; /* NULL: the handle's name */
    int64_t ttl_ms;    /* 1 ms to 366 days; default TEND_LOCK_TTL_MS */
    int64_t while_pid; /* > 0: the lock, and the wait for it, end with that process */
    int64_t wait_ms;   /* 0: answer at once; -1: wait for ever */
    unsigned flags;    /* TEND_CLAIM_BY_TIME */
    int64_t token;     /* > 0: refresh the lock that has this token, and take no other: one that
                          owner has taken anew is held by somebody else then */
};
TEND_API void tend_lock_request_init(struct tend_lock_request *request);

/*
 * 0: acquired, or refreshed by its holder; TEND_EBUSY: *ret says who holds it until when, or has
 * token 0: another process keeps the store from being written, and tend_errmsg says which;
 * TEND_ESTATE: the process of while_pid has ended, nothing is held for it; TEND_ELEASELOST: the
 * lock with the token of the request is no longer held, nothing was taken. The holder is known by
 * its name and its worker: two processes that call themselves the same do not share a lock, unless
 * both hold it by time alone.
 */
TEND_API int tend_lock_acquire(tend *t, const struct tend_lock_request *request,
                               struct tend_lock *ret);
/* 1: released; 0: not held by owner, nothing changed; or its time was over, and it is gone. */
TEND_API int tend_lock_release(tend *t, const char *name, const char *owner);
/* The same for the lock with this token alone: one that was taken anew under the name stays. */
TEND_API int tend_lock_release_token(tend *t, const char *name, const char *owner, int64_t token);
/* 1: *ret filled, also when expired; 0: nobody holds it. */
TEND_API int tend_lock_get(tend *t, const char *name, struct tend_lock *ret);
/* 1: expires extra_ms from now; 0: refused, expired or not held by owner. */
TEND_API int tend_lock_extend(tend *t, const char *name, const char *owner, int64_t extra_ms);
TEND_API int tend_lock_extend_token(tend *t, const char *name, const char *owner, int64_t token,
                                    int64_t extra_ms);
/* 1 exactly when somebody is entered as holder and the time is over. */
TEND_API int tend_is_lock_stale(tend *t, const char *name);

struct tend_locks {
    size_t count;
    const struct tend_lock *items;
};
TEND_API int tend_lock_list(tend *t, struct tend_locks **ret);
TEND_API void tend_locks_free(struct tend_locks *locks);

/* --- Recovery ----------------------------------------------------------------------------- */

#define TEND_SKIPPED_NAMED 8

struct tend_recovery {
    int64_t locks_cleaned;
    int64_t entries_reclaimed;
    /* Store time; in tend_get_recovery_stats less what counts against no lease (0: PostgreSQL's
     * server was restarted, and all leases begin anew). */
    int64_t recovery_timestamp_ms;
    /* PostgreSQL: jobs that are stale but were left alone, because another session is writing their
     * rows, or was cut off while it did. They are taken back when that session has ended. */
    int64_t entries_skipped;
    int64_t skipped_ids[TEND_SKIPPED_NAMED]; /* the first of them */
    char skipped_by[128];                    /* who holds the first, in words; "" if not known */
    /* Of entries_reclaimed: those that have lost too many workers and have failed now, with class
     * "poison". TEND_UNSET in tend_get_recovery_stats, which does not foretell it. */
    int64_t entries_quarantined;
};

/* Find and heal everything stale: expired leases and locks, and those of dead workers. */
TEND_API int tend_detect_and_recover_stale(tend *t, struct tend_recovery *ret);
/* The figures the call above would have now, with what it would have to skip; changes nothing. */
TEND_API int tend_get_recovery_stats(tend *t, struct tend_recovery *ret);
/* By hand: leases without a sign of life for threshold_ms, whatever their time says. Returns 0. */
TEND_API int tend_reclaim_stale(tend *t, int64_t threshold_ms, struct tend_recovery *ret);

/* --- Queues ------------------------------------------------------------------------------- */

struct tend_queue {
    char name[256];
    int exists; /* 1: has settings of its own */
    int paused, serial;
    char paused_why[256];
    int64_t concurrency, key_concurrency; /* TEND_UNSET: no limit */
    int64_t rate_count, rate_period_ms;   /* TEND_UNSET: no limit */
    int64_t lease_ms, max_attempts, max_crashes, backoff_ms, backoff_max_ms; /* in force */
    int64_t keep_done_ms, keep_failed_ms; /* TEND_UNSET: for ever */
    int64_t version;
    /* Budgets of steps; TEND_UNSET: the queue says nothing. A timeout of 0 is none. */
    int64_t step_max_attempts, step_timeout_ms, step_idle_timeout_ms, step_no_progress_limit;
    int64_t job_self_heal_max_resets, step_grace_ms;
    int64_t step_pause_ms, step_pause_max_ms;
    char retry_classes[192];   /* in force: failure classes the queue tries again, or "none" */
    int64_t keep_workspace_ms; /* in force: of a failed job; TEND_UNSET: for ever */
    /*
     * 0: the rate is a bucket of rate_count tokens that is refilled evenly, so that a window of one
     * period can see up to twice rate_count after a rest. 1: no window of one period sees more than
     * rate_count, for up to 5 % less over a long time.
     */
    int rate_strict;
};

struct tend_setting {
    const char *name;  /* one of tend_setting_table(): "paused", "why", "serial", "concurrency",
                          "rate", ... */
    const char *value; /* as on the command line; "default" takes a setting back */
};

/* One row of the table of queue settings, for help and completion. */
struct tend_setting_info {
    const char *name, *value_form, *text;
};
TEND_API const struct tend_setting_info *tend_setting_table(size_t *ret_count);

/* TEND_EINVAL names the setting and its range; nothing is changed then. */
TEND_API int tend_queue_set(tend *t, const char *name, const struct tend_setting *settings,
                            size_t count, const char *by);
/* A queue without settings answers with the defaults. */
TEND_API int tend_queue_get(tend *t, const char *name, struct tend_queue *ret);

/* What a queue has that cannot be claimed, for whoever was told that it is empty. Cheap. */
struct tend_outlook {
    int64_t due_ms;  /* of its first scheduled job, or TEND_UNSET */
    int64_t running; /* jobs */
    int held;        /* 1: some are */
    int known;       /* 0: nothing was seen of a queue of this name, neither jobs nor settings */
};
TEND_API int tend_queue_outlook(tend *t, const char *name, struct tend_outlook *ret);

struct tend_queue_stats {
    struct tend_queue settings;
    /* Per state. A scheduled job whose due time has come counts as pending, although it stays
     * scheduled (tend_list) until somebody asks for jobs. */
    int64_t jobs[TEND_STATE_COUNT];
    int64_t oldest_pending_ms; /* due time of the first of the pending jobs, or TEND_UNSET */
};
struct tend_stats {
    size_t count;
    const struct tend_queue_stats *items; /* per queue, by name */
    int64_t workers, locks, schedules;
    int64_t events; /* that are kept, counted by their numbers: one that a failed call has used up
                       counts as well */
    int64_t now_ms;
};
TEND_API int tend_stats(tend *t, struct tend_stats **ret);
TEND_API void tend_stats_free(struct tend_stats *stats);

/* --- Workers ------------------------------------------------------------------------------ */

struct tend_worker {
    int64_t id;
    const char *name, *host;
    int64_t pid;
    int64_t since_ms, lost_at_ms; /* lost_at_ms: its sign of life was missed since, or TEND_UNSET */
    int64_t leases, locks;
    int alive;   /* as far as can be told from here: 1, 0, or -1 unknown */
    int stopped; /* 1: its process is stopped (a signal, a debugger), as far as seen from here */
};
struct tend_workers {
    size_t count;
    const struct tend_worker *items;
};
TEND_API int tend_worker_list(tend *t, struct tend_workers **ret);
TEND_API void tend_workers_free(struct tend_workers *workers);

/* --- Schedules ---------------------------------------------------------------------------- */

struct tend_schedule {
    const char *name;
    const char *cron; /* five fields, @daily..., or "@every 90s" */
    const char *queue, *kind, *payload;
    int priority;
    const char *catch_up; /* runs missed while nobody was there: "none", "one" (default) or "all" */
    int paused;           /* 1: adds no jobs. 0 resumes nothing: see tend_schedule_put */
    int64_t last_at_ms; /* the time of the last run that was added, or TEND_UNSET; what was skipped
                           is no run. Not read by tend_schedule_put, as next_at_ms */
    int64_t next_at_ms; /* or TEND_UNSET: never again */
    /*
     * "Europe/Berlin": whose clocks the fields go by; NULL: UTC. Times that the clock skips are run
     * when the gap ends, times that come twice when they come first; schedules whose hour field
     * begins with * go by the time that passes. "@every" knows no zone.
     */
    const char *timezone;
    /*
     * What happens when a run comes and an earlier one has not finished: "queue" (default: it is
     * added), "skip" (it is not, with an event schedule.skipped), or "replace" (those that have not
     * finished are cancelled). With the last two, catch-up "all" is the same as "one".
     */
    const char *overlap;
    const char *workspace;  /* folder in which a runner runs the commands of its jobs, or NULL */
    const char *next_local; /* next_at_ms on those clocks, "2026-03-29T03:15:00+02:00"; or NULL; not
                               read by tend_schedule_put */
};
struct tend_schedules {
    size_t count;
    const struct tend_schedule *items;
};
TEND_API void tend_schedule_init(struct tend_schedule *schedule);
/*
 * Make or replace. Runs that are due by then are added first, as the schedule was, many of them in
 * several transactions: when the call fails, some may have been added, the others are still due,
 * and the schedule is as it was. A schedule that is paused stays paused and adds nothing; if its
 * times stay the same, it keeps the runs that it has missed, else they are dropped.
 */
TEND_API int tend_schedule_put(tend *t, const struct tend_schedule *schedule, const char *by);
/*
 * Pause: from now on no job is added, not even for a run that is due already; jobs that have been
 * added stay as they are. Resume: the runs missed meanwhile are caught up on as `catch_up` says,
 * with the next claim. Both do nothing when it is so already. TEND_ENOTFOUND.
 */
TEND_API int tend_schedule_pause(tend *t, const char *name, const char *by);
TEND_API int tend_schedule_resume(tend *t, const char *name, const char *by);
TEND_API int tend_schedule_remove(tend *t, const char *name, const char *by); /* TEND_ENOTFOUND */
TEND_API int tend_schedule_list(tend *t, struct tend_schedules **ret);
TEND_API void tend_schedules_free(struct tend_schedules *schedules);

/* --- Hooks -------------------------------------------------------------------------------- */

/*
 * When automation gives a job up, a hook adds a job of its own that runs a command, in the same
 * transaction: one for each hook and ending. That job's plan is the hook's, with what has happened
 * in its environment (TEND_NOTIFY_ON, TEND_NOTIFY_JOB...) and, as JSON, in its member "notify". A
 * job that a hook has added calls no hooks.
 */
struct tend_hook {
    const char *name;
    const char *on; /* with commas between: "failed" (for good, also as poison), "poison" (it has
                       lost too many workers), "exhausted" (a step has used up all attempts; the
                       queue may try the job again) */
    const char *for_queue; /* only jobs of this queue; NULL: of any */
    const char *queue;     /* where its jobs are added; NULL: for_queue, or "default" */
    const char *payload;   /* the plan of its jobs: JSON, as {"exec": ["mail", "-s", ...]} */
    const char *workspace; /* folder in which a runner runs the commands of its jobs, or NULL */
    int64_t at_ms;         /* when it was set, and by whom; not read by tend_hook_put */
    const char *by;
};
struct tend_hooks {
    size_t count;
    const struct tend_hook *items;
};
/* Make or replace. TEND_EINVAL: a word that is not known, or a payload that is no plan. */
TEND_API int tend_hook_put(tend *t, const struct tend_hook *hook, const char *by);
TEND_API int tend_hook_remove(tend *t, const char *name, const char *by); /* TEND_ENOTFOUND */
TEND_API int tend_hook_list(tend *t, struct tend_hooks **ret);            /* by name */
TEND_API void tend_hooks_free(struct tend_hooks *hooks);

/* --- Events ------------------------------------------------------------------------------- */

struct tend_event {
    int64_t id, at_ms;
    int64_t job_id; /* or TEND_UNSET (also token) */
    int64_t token;
    int from_state, to_state; /* or -1 */
    const char *queue;        /* may be NULL, as may owner, why and data */
    const char *who, *what;   /* "job.claimed", "worker.died", "queue.set"... */
    const char *owner;        /* who held the lease before the change */
    const char *why, *data;
};
struct tend_events {
    size_t count;
    const struct tend_event *items;
};
/* Events with an id above after_id in order, a page at a time; complete: none is ever inserted
 * before. */
TEND_API int tend_events_since(tend *t, int64_t after_id, size_t limit, struct tend_events **ret);
/* The whole history of one job, oldest first, as far as it is kept; also when the job was deleted,
 * which takes longer: all events since are read. */
TEND_API int tend_job_events(tend *t, int64_t job_id, struct tend_events **ret);
TEND_API void tend_events_free(struct tend_events *events);
/* How many events of a name there ever were; those that have been deleted stay counted. */
struct tend_event_total {
    const char *queue; /* "" where it is about none */
    const char *what;  /* "job.added", "job.claimed"... */
    int64_t count;
};
struct tend_event_totals {
    size_t count;
    const struct tend_event_total *items; /* by queue and name */
};
TEND_API int tend_event_totals(tend *t, struct tend_event_totals **ret);
TEND_API void tend_event_totals_free(struct tend_event_totals *totals);
/* Id of the newest event, 0 if none. */
TEND_API int tend_last_event(tend *t, int64_t *ret_id);
/* The number after which the last count events come, for tend_events_since: numbers have gaps. */
TEND_API int tend_events_tail(tend *t, int64_t count, int64_t *ret_after_id);

/* --- Waiting ------------------------------------------------------------------------------ */

/*
 * Sleep until there may be work that was not there before, a worker of this machine died (its work
 * is then recovered), or timeout_ms (-1: for ever) has passed. 1: news since the previous call on
 * this handle (the first call answers 1 at once: look first); 0: time is over; TEND_EINTERRUPTED
 * after tend_interrupt().
 */
TEND_API int tend_wait(tend *t, int64_t timeout_ms);

/* A job that is waited for. */
struct tend_watch {
    int64_t id;
    int64_t version; /* of the job as last seen; 0: not seen yet */
    int state;       /* ... and its state; -1: there was no such job. Not read where version is 0 */
};
/*
 * Sleep until one of these jobs is no longer as last seen, or timeout_ms (-1: for ever) has passed;
 * all entries are then as the jobs are now. How many have changed; 0: time is over;
 * TEND_EINTERRUPTED after tend_interrupt(). An entry that was not seen yet is a change, so the
 * first call answers at once: look at the states, and call again until they are the ones you wait
 * for. A job that was deleted is a change, too. Wakes at once for most changes; that a job has been
 * claimed, or that one has ended within a second after its claim, may be told up to a second late,
 * and sooner where the job has changed just before.
 */
TEND_API int tend_wait_jobs(tend *t, struct tend_watch *jobs, size_t count, int64_t timeout_ms);

/* Wake every thread that waits in a claim, tend_wait or tend_wait_jobs on this handle. Safe in a
 * signal handler. */
TEND_API void tend_interrupt(tend *t);

/* --- Running ------------------------------------------------------------------------------ */

/*
 * A runner works off queues: it claims jobs, runs their steps as processes or HTTP calls, keeps the
 * leases alive, heals what fails, and leaves nothing leased and nothing running behind. It is a
 * client of the calls above; `tend work` and `tend run` are clients of it.
 *
 * A job of a kind with a handler is run by the handler's command, which gets the payload on
 * standard input; what it prints, or reports through TEND_OUTPUT, is the result. Any other job must
 * have a plan for a payload ({"run": ...}, {"steps": [...]}; see docs/steps.md). A job whose
 * handler names a command that is not there is released for half a minute, free of charge.
 */
typedef struct tend_runner tend_runner;

struct tend_handler {
    const char *kind;
    const char *command; /* for sh -c */
};

/* How many steps of a kind run at once: "shell" (run and exec), "http", "sleep", or a handler's. */
struct tend_kind_limit {
    const char *kind;
    int64_t limit;
};

enum tend_news_kind { TEND_NEWS_JOB_BEGINS, TEND_NEWS_STEP, TEND_NEWS_JOB_ENDS, TEND_NEWS_NOTE };

struct tend_runner_news {
    enum tend_news_kind kind;
    int64_t job_id;   /* or TEND_UNSET, as all numbers here */
    int64_t number;   /* of the attempt that has ended */
    int state;        /* of the job or attempt that has ended; -1: none has */
    const char *text; /* one line for people */
};

struct tend_runner_options {
    const char *const *queues; /* NULL: "default" */
    size_t queue_count;
    const struct tend_handler *handlers;
    size_t handler_count;
    const struct tend_kind_limit *limits;
    size_t limit_count;
    int64_t limit_others; /* of kinds not named there; TEND_UNSET: shell 5, http 10, others 5 */
    int64_t job_id;       /* > 0: only this job, which is in one of the queues */
    int drain;            /* 1: return when nothing is left to claim and all has ended */
    int64_t stop_ms;      /* how long running jobs are waited for after a stop; default 30 s */
    const char *folder;   /* for workspaces and files of attempts; NULL: .tend/run below the current
                             folder */
    const char *helper_path; /* the tend binary; NULL: this program is tend */
    const char *statsd;      /* host:port for metrics; NULL: none are sent. A name that is not found
                                is looked up again while the runner works */
    /* Called by the runner's threads, one at a time; may be NULL. */
    void (*tell)(void *arg, const struct tend_runner_news *news);
    void *tell_arg;
};
TEND_API void tend_runner_options_init(struct tend_runner_options *options);

/* *ret is set also on failure (unless TEND_ENOMEM); free it in either case. The handle has the
 * sentence; it is the runner's until that is freed, and nobody else may wait on it. Budgets are
 * read from the environment (TEND_STEP_TIMEOUT_SECONDS...). */
TEND_API int tend_runner_new(tend_runner **ret, tend *t, const struct tend_runner_options *options);

/*
 * Work until stopped or drained. 0, or why it could not go on. A store that is out of reach, busy,
 * full or read-only, and memory that is short, are waited for; but TEND_EREADONLY when the store
 * could not be written from the first. A runner that lacks disk, permission, descriptors, memory or
 * processes gives its jobs back, free of charge, and claims less until it has them; one that is to
 * drain, or to run one job, gives up after some seconds: TEND_EIO.
 */
TEND_API int tend_runner_run(tend_runner *runner);

/*
 * Claims end; a job that is between two attempts of a step is released, due when its pause is over.
 * What runs, with the steps after it, is waited for up to stop_ms, then stopped and released, free
 * of charge. at_once: without waiting. Any thread may call it, and any signal handler. A server
 * that does not answer, and whoever keeps an SQLite store from being written, is waited for no
 * longer than that: from here on until tend_runner_free, no call on the handle waits for it longer
 * than stop_ms, and longer than a second or so once what runs must end.
 */
TEND_API void tend_runner_stop(tend_runner *runner, int at_once);
TEND_API void tend_runner_free(tend_runner *runner);

/* What a step does at the moment. */
struct tend_running {
    int64_t job_id, number, step_index, step_count, attempt;
    char queue[64], step_id[132], title[96]; /* cut where they are longer */
    int64_t running_ms, silent_ms;
    int64_t pause_ms; /* > 0: it pauses, and this attempt begins so long from now; number is 0 */
    int64_t percent;  /* or TEND_UNSET */
    char text[128];   /* its progress in words, or "" */
    char line[256];   /* the last line it has printed */
};
/* Those of all steps that run now or pause between attempts, up to max; how many. */
TEND_API size_t tend_runner_look(tend_runner *runner, struct tend_running *ret, size_t max);

/* Jobs that have ended here. */
struct tend_runner_totals {
    int64_t done, failed, retried, given_back, held;
    int64_t unfit; /* of those given back: for want of a handler whose command can be started, or of
                      the job's folder */
};
TEND_API void tend_runner_count(tend_runner *runner, struct tend_runner_totals *ret);

/* --- Care --------------------------------------------------------------------------------- */

enum tend_verdict { TEND_FINE, TEND_NOTE, TEND_WRONG };
/* Look the store over; report is called once per finding. Returns the number of TEND_WRONG
 * findings. What cannot be read, because the store is damaged or a right is missing, is one. */
TEND_API int tend_doctor(tend *t,
                         void (*report)(void *arg, enum tend_verdict verdict, const char *what,
                                        const char *text),
                         void *arg);

/* Version of the schema in the store, and the one this library makes. */
TEND_API int tend_schema(tend *t, int *ret_store, int *ret_library);
/* 1: migration *ret_version of the schema was changed after it had run on this store; 0: none was.
 */
TEND_API int tend_schema_changed(tend *t, int *ret_version);

struct tend_purged {
    int64_t jobs, events;
};

/*
 * Delete the finished jobs whose retention is over, and events older than 30 days; *ret: how many
 * (may be NULL). Whoever waits in a claim or in tend_wait does so every ten minutes, and so does
 * every runner.
 */
TEND_API int tend_purge(tend *t, struct tend_purged *ret);
/* The figures the call above would have now; changes nothing. */
TEND_API int tend_purge_count(tend *t, struct tend_purged *ret);

/* The folder of a runner that was given none, below the current folder. */
#define TEND_RUN_FOLDER ".tend/run"

/* What is in the folder of runners. What belongs to several stores or machines may be in one. */
enum tend_disk_kind {
    TEND_DISK_IN_USE,      /* folders of leases that are held, or of which processes may run here */
    TEND_DISK_KEPT,        /* workspaces that are kept for people; see tend_keeps */
    TEND_DISK_JOBS,        /* patches and records of jobs that the store has */
    TEND_DISK_MIRRORS,     /* copies of repositories */
    TEND_DISK_OTHER_STORE, /* folders of jobs of another store, of a copy, or before a restore */
    TEND_DISK_OTHER_HOST,  /* folders of leases of which processes may run on another machine */
    TEND_DISK_UNMARKED,    /* folders of jobs of which it is not known which store they belong to */
    /* What nothing needs: */
    TEND_DISK_LEFT,       /* folders of leases that have ended */
    TEND_DISK_GONE,       /* folders of jobs that were deleted from the store */
    TEND_DISK_OLD_MIRRORS /* copies of repositories that were not used for 30 days */
};
#define TEND_DISK_KINDS 10

struct tend_disk_use {
    int64_t count, bytes; /* files that have another name elsewhere do not count */
};
struct tend_disk {
    int there; /* 0: there is no such folder, and all else is 0 */
    struct tend_disk_use uses[TEND_DISK_KINDS];
    int64_t failed;    /* how many that nothing needs could not be removed; not counted in uses */
    char problem[512]; /* why the first could not; "" */
};
/* folder may be NULL: TEND_RUN_FOLDER. Changes nothing. */
TEND_API int tend_disk_look(tend *t, const char *folder, struct tend_disk *ret);
/*
 * Removes what nothing needs, as every runner does for its folder when it starts and then every ten
 * minutes. Processes that dead workers left of it on this machine are ended before. *ret: what was
 * there, and so what was removed. TEND_EBUSY: another process does so at the moment.
 */
TEND_API int tend_disk_clean(tend *t, const char *folder, struct tend_disk *ret);

struct tend_generation {
    int64_t first_id;   /* ids go on here */
    int64_t token_base; /* every lease and lock from now on has a larger token */
};
/*
 * To be called once after the store was restored from a backup, before anybody works with it: ids
 * and tokens that were given out after the backup was made are not given out again, also not those
 * given out after an earlier restore of it, unless the clock was set back since. by and ret may be
 * NULL.
 */
TEND_API int tend_after_restore(tend *t, const char *by, struct tend_generation *ret);

#ifdef __cplusplus
}
#endif
#endif
