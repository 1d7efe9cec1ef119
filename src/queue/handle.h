/* The handle behind every public call, and what the files of this folder share. */
#ifndef QUEUE_HANDLE_H
#define QUEUE_HANDLE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/err_table.h"
#include "base/rng.h"
#include "core/limit.h"
#include "store/db.h"
#include "store/forks.h"

#include <pthread.h>
#include <tend.h>

enum {
    NAME_BYTES = 256,
    SETTINGS_CACHED = 16,
    PRIORITIES = 10,
    PASSED_KEPT = 8,
    BELLS_KEPT = 1024
};

/* A place in the order of claims: behind the job that has these. */
struct claim_position {
    int64_t priority, due_at, id;
};
#define CLAIM_START ((struct claim_position){.priority = -1})

/* See queue/passed.h. */
struct passed {
    char queue[NAME_BYTES];
    uint64_t kinds; /* which are passed over; 0: this is empty */
    bool keyed;     /* ... and jobs with a key, where the queue has a limit on those */
    struct {
        int64_t due_at, id;
    } ends[PRIORITIES];          /* nothing else was seen up to here */
    struct claim_position again; /* how far the second look has come */
    int64_t again_ms;            /* store time: when it goes on */
    char key[NAME_BYTES];        /* the last one looked at, where there are too many; "": all */
};

/* Settings of a queue as a claim needs them. */
struct queue_settings {
    struct tend_queue queue;
    int64_t rate_level, rate_at;       /* the bucket of core/limit.h; TEND_UNSET: full */
    char rate_slots[LIMIT_TEXT_BYTES]; /* ... of a strict rate; "": nothing was taken */
};

/* Where retention continues: see queue/retain.c. */
struct retain_place {
    char queue[NAME_BYTES]; /* from this one on, by name; "": from the first */
    size_t rule;            /* ... and of it, from this one of its rules on */
    bool more;              /* a rule before it found more than there was room for */
    int64_t event_id;       /* of the events, from the one after this */
};

/* What somebody who waits again and again was told of last. */
struct wait_seen {
    uint64_t bell;
    bool waited; /* before the first time everything is news */
};

/* What recovers along with something else; each pauses for itself when it fails: see
 * queue/recover.h. */
enum recovery_kind { RECOVER_DEAD, RECOVER_ALARMS, RECOVER_SCHEDULES, RECOVERY_KINDS };

struct tend {
    struct db *db; /* NULL when opening failed */
    struct fork_link link;
    struct tend_options options;
    char name[NAME_BYTES];   /* owner where a call gives none */
    char hook[NAME_BYTES];   /* what options.hook points to */
    struct err_table errors; /* one per thread */
    struct err open_error;   /* also the last resort when memory is out */

    pthread_mutex_t mutex; /* guards what follows; nobody holds it while waiting for the store */
    char host[128];        /* this machine and its boot, for attempts; "": not asked yet */
    char boot_id[PROC_BOOT_BYTES];
    int64_t worker_id;         /* 0: not registered */
    int64_t registration;      /* of that worker, or of one that may be half registered; 0: none */
    bool registering;          /* a thread does so; the mutex is free meanwhile */
    pthread_cond_t registered; /* ... and is through, whatever came of it */
    int64_t *buried; /* earlier ids of it, under which it was taken for dead; leases may be left */
    size_t buried_count;
    struct rng rng;
    struct queue_settings cached[SETTINGS_CACHED]; /* by name; checked by version in each claim */
    size_t cached_next;                            /* which is replaced next */
    struct passed passed[PASSED_KEPT];
    size_t passed_next;
    int64_t alarms_next_ms;   /* monotonic: when a claim looks for alarms again */
    int64_t workers_next_ms;  /* ... for dead workers */
    int64_t recovery_next_ms; /* ... when the recovery timer of a waiting thread fires */
    /* ... when a kind of recovery that has failed is tried again; 0: it works; atomic */
    int64_t recovery_again_ms[RECOVERY_KINDS];
    int newer_schema; /* of the store, made while this handle was open; 0: it is not newer; atomic
                       */
    int64_t schedules_tried_ms; /* store time: schedules due up to then have failed; atomic */
    int64_t purge_next_ms;      /* monotonic: for retention */
    int64_t count_next_ms;      /* ... for counting events (event_totals.h) */
    struct retain_place purge_place;
    struct wait_seen seen;     /* tend_wait */
    int64_t alarm_told_ms;     /* ... the last time by the clock it told of */
    int64_t again_told_ms;     /* ... and that something failed can be tried again (monotonic) */
    uint64_t settings_changes; /* how often a queue was found with other settings than in cached */
    struct {
        int64_t job_id;
        uint64_t bell;
        int64_t quiet_until_ms;    /* monotonic; 0: claimed under a limit or lock */
        uint64_t settings_changes; /* ... as above at that time */
    } bells[BELLS_KEPT];           /* of the jobs claimed last; see queue/bell.h */
};

/* The calling thread's error on this handle; never NULL. */
struct err *handle_err(tend *t);

/* Sets the sentence and returns code. */
int handle_fail(tend *t, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

void handle_log(tend *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

double handle_random(tend *t);

/* who or the handle's name. */
const char *handle_owner(const tend *t, const char *who);

/* 0, or TEND_EINVAL with a sentence: what is the word for the thing named ("queue", "owner"). */
int handle_check_name(tend *t, const char *what, const char *name);

/* The same for those that have no handle yet, or none at all. */
int name_check(const char *what, const char *name, struct err *err);

/*
 * How long a lease or a lock lasts without a sign of life. A job and a queue give LEASE_LEAST_MS at
 * least; whoever claims, heartbeats or locks may ask for less, down to 1 ms, for that one lease.
 */
#define LEASE_LEAST_MS INT64_C(100)
#define LEASE_MOST_MS (INT64_C(366) * 24 * 3600 * 1000)

/* Any other stretch of time: no sum with the time of day leaves its range. */
#define SPAN_MOST_MS (INT64_C(36600) * 24 * 3600 * 1000)

/* 0, or TEND_EINVAL with a sentence that begins with what ("the lease") and names the range. */
int handle_check_time(tend *t, const char *what, int64_t ms, int64_t low_ms, int64_t high_ms);

/*
 * Text of people and programs (an error, a reason) as the store takes it: bytes that are no UTF-8
 * become U+FFFD, so that no output of a dying tool keeps its failure from being told. NULL stays
 * NULL.
 */
const char *handle_clean_text(struct arena *arena, const char *text);

/* db_write and db_read with an arena of their own that ends with the call. */
int handle_write(tend *t, db_body *body, void *arg);
int handle_write_within(tend *t, int64_t wait_ms, db_body *body,
                        void *arg); /* -1: as handle_write */
int handle_read(tend *t, db_body *body, void *arg);
int handle_read_within(tend *t, int64_t wait_ms, db_body *body, void *arg);
/* tend_now in the same way. */
int handle_now(tend *t, int64_t wait_ms, int64_t *ret_ms);

#endif
