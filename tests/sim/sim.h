/*
 * The simulation: one history of several workers over one real store, with a clock, a chance and
 * faults that all come from one seed. Single-threaded; the same seed gives the same history.
 *
 *     sim.h       what the files share; step_model.h and sim_step.h: about steps
 *     world.c     a history: actors come, act, crash and go; then all work is drained
 *     fake_db.c   a store engine around the real one, where faults strike
 *     fault.c     which fault strikes where
 *     fork.c      what the child of a fork can do
 *     sabotage.c  deliberate defects, to prove that the checks below see them
 *     op_*.c      what an actor can do, and what the answers must be
 *     model*.c    what must be in the store after each commit
 *     wipe.c      an empty store between two histories, and what only a defect does to a store
 *
 * How workers interleave without threads: at any call of the store an actor may "stall", and
 * meanwhile others act, inside that call (never while a write transaction is open, because a real
 * store would keep them waiting as well).
 *
 * Time: the world has a wall clock, which can be set, and the time since boot, with and without the
 * time the machine slept (tend_options.uptime_ms). On SQLite, where store time comes from them,
 * clocks are set, the machine sleeps, and at times nothing can be saved by anybody: a body is run,
 * and its commit fails as on a full disk. No lease may end by any of it, and nobody is charged
 * (model_clock.c). A single process that is frozen is a stall. Not simulated: a writer that is
 * stopped with the turn, as the turnstile goes by the machine's own clock (tests/store); on
 * PostgreSQL, the server's clock.
 *
 * Generations: in some histories somebody says that the store was restored, and ids and tokens jump
 * ahead; in others a store was here before, whose leases are shown to this one.
 *
 * Forks: the process of the simulation forks at any call, and the child tries the handles of all
 * actors (fork.c). That locks end with the parent needs a parent that dies:
 * tests/store/test_fork.c.
 *
 * A check that fails ends the process with the seed and the way to repeat it.
 */
#ifndef SIM_H
#define SIM_H

#include "base/rng.h"
#include "core/state.h"
#include "queue/handle.h"
#include "step_model.h"
#include "store/db_engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

enum {
    MAX_SLOTS = 7,     /* workers at a time, the one that drains in the end included */
    MAX_ACTORS = 128,  /* over a whole history */
    MAX_WORKERS = 256, /* registrations over a whole history */
    MAX_JOBS = 1024,
    MAX_ADDS = 2048,
    CALL_LEASES = 12, /* in one call */
    MAX_BELIEFS = 24, /* leases an actor thinks it holds */
    OLD_LEASES = 64,  /* remembered for those who come too late */
    MAX_DEPTH = 3,    /* of actors acting while others stall */
    ENDS_KEPT = 16,
    DEFAULT_TTL_MS = 60000,
};

/* --- queues and locks every history has --- */

enum { Q_PLAIN, Q_SERIAL, Q_LIMITED, Q_KEYED, Q_RATED, QUEUE_COUNT };
enum { LOCK_COUNT = 3, LOCK_NAMES = LOCK_COUNT + QUEUE_COUNT };
enum { SCHEDULES = 2 };

extern const char *const queue_names[QUEUE_COUNT];
extern const char *const lock_names[LOCK_NAMES]; /* free ones first, then queue:NAME */

struct queue_model {
    bool paused, serial;
    int64_t concurrency, key_concurrency; /* TEND_UNSET: no limit */
    int64_t rate_count, rate_period_ms;
    int64_t rate_level; /* of our own bucket: tokens times rate_period_ms */
    int64_t rate_at_ms;
};

/* What operators change in the course of a history; value TEND_UNSET: the limit is taken away. */
enum setting { SET_PAUSED, SET_CONCURRENCY, SET_KEY_CONCURRENCY, SET_RATE_COUNT };

/* Of a store: every lease has a larger token. The second: of one that was made in its place. */
enum { TOKEN_BASE = 1000, NEXT_TOKEN_BASE = 1000000 };

struct lock_model {
    char owner[64]; /* "": free */
    int64_t token, last_token;
    int64_t worker_id, job_id; /* or TEND_UNSET */
    int64_t job_token;         /* of the lease it was taken with */
    int64_t expires_ms;
};

/* --- jobs --- */

enum lease_end { END_NONE, END_COMPLETE, END_FAIL, END_RELEASE };

struct job_model {
    int64_t id;
    int queue;
    enum job_state state;
    int64_t token;
    int64_t stopped_token; /* of the lease that a cancel or hold has ended; 0: none */
    int64_t events;        /* how many it has left */
    int priority;
    int64_t due_ms;
    int payload;              /* number of the add it carries */
    int unique, subject, key; /* 0: none */
    int64_t attempts, crashes, max_attempts, max_crashes, lease_ms;
    int completions;
    int followed,
        owed; /* payload submitted while it runs; to be carried out in this commit; or 0 */
    int64_t followed_due_ms;
    int steps;                                          /* of its plan */
    int newest;                                         /* attempt, in world.attempts; -1: none */
    struct checkpoint_model checkpoints[MAX_STEPS + 1]; /* 0: the baseline */

    /* While running. */
    int holder; /* actor */
    int64_t worker_id;
    bool started, with_lock;
    int64_t until_ms, seen_ms;
    int64_t lease_for_ms; /* length of the lease it runs under */

    /* Leases ended by their owners, the latest, by token % ENDS_KEPT. */
    struct {
        int64_t token;
        enum lease_end by;
    } ends[ENDS_KEPT];
};

struct add_model {
    bool submitted, keep; /* keep: changes nothing while the job is running */
    int queue, priority, unique, subject, key;
    int steps; /* 0: a payload without a list of steps, which is one step */
    int64_t delay_ms;
    int64_t max_attempts, max_crashes, lease_ms;
    int64_t acked_id; /* 0: no answer came */
    int acked_outcome;
};

/* --- actors --- */

enum op_kind {
    OP_NONE,
    OP_ADD,
    OP_CLAIM,
    OP_NEXT_WITH_LOCK,
    OP_COMPLETE_AND_CLAIM,
    OP_START,
    OP_HEARTBEAT,
    OP_PHASE,
    OP_COMPLETE,
    OP_FAIL,
    OP_RELEASE,
    OP_ACT,
    OP_ACT_ON_ALL,
    OP_RECOVER,
    OP_RECLAIM,
    OP_STATS,
    OP_LOCK_ACQUIRE,
    OP_LOCK_RELEASE,
    OP_LOCK_EXTEND,
    OP_QUEUE_SET,
    OP_SCHEDULE,
    OP_CLOSE,
    OP_STEP_NEXT,
    OP_STEP_FINISH,
    OP_STEP_TELL,
    OP_STEP_LOOK,
    OP_CONTROL,
    OP_CONTROLS_TAKE,
    OP_CONTROL_DONE,
    OP_PURGE,
    OP_RESTORE,
    OP_COUNT
};

extern const char *const op_names[OP_COUNT];

/* The call an actor is in, and what its commits did so far. */
struct op {
    enum op_kind kind;
    struct tend_lease leases[CALL_LEASES];
    size_t lease_count;
    bool accepted[CALL_LEASES];
    int first_add;
    size_t add_count;
    struct tend_claim claim; /* also for the owner and lifetime of a lock */
    int queue;
    bool with_lock;
    int64_t ttl_ms, delay_ms, threshold_ms, job_id;
    bool final;
    enum tend_action action;
    int lock;
    enum setting setting; /* of OP_QUEUE_SET */
    int64_t value;

    /* What came of it. */
    int commits;
    struct tend_lease claimed[CALL_LEASES];
    size_t claimed_count, claimed_before; /* so far; before the commit being looked at */
    int64_t reclaimed, cleaned, moved;
    bool done;  /* lock acquired, released or extended */
    int faults; /* that were put in its way */
    int stalls;
    bool fault_in_recovery; /* the last one was, with a code that must not stop a claim */
    /* As they were at its last commit, for claims: at the last that looked for jobs. */
    int64_t pending;
    struct queue_model at_commit;
    bool lock_was_held;                /* the queue's */
    bool refused_by_state;             /* OP_ACT: the table does not allow it */
    bool asks_for_lock, asks_for_jobs; /* the transaction under way does */
    bool by_time;                      /* OP_LOCK_ACQUIRE: no worker behind it */
    bool lock_is_mine; /* OP_LOCK_*: the lock was the actor's before the commit ... */
    bool lock_is_free; /* ... or could be taken */
    struct step_op step;
};

struct belief {
    struct tend_lease lease;
    int queue;
    bool started;
    struct step_belief steps;
};

struct actor {
    int number, slot;
    char name[32];
    tend *t;
    struct fake_db *fake;
    bool busy;         /* in a call */
    bool dead;         /* as by kill -9, or closed */
    bool session_lost; /* its liveness is not seen, although it lives */
    int64_t lost_at_ms;
    struct op op;
    struct belief beliefs[MAX_BELIEFS];
    size_t belief_count;
};

/* --- faults --- */

enum fault {
    FAULT_NONE,
    FAULT_FAIL,   /* the call fails and nothing happens */
    FAULT_CRASH,  /* the actor ends here, as by kill -9 */
    FAULT_STALL,  /* others act, the clock runs on, then the call goes on */
    FAULT_JUMP,   /* the wall clock is set, and no time passes */
    FAULT_SLEEP,  /* the machine sleeps: wall clock and time since boot go on, nobody lives */
    FAULT_FREEZE, /* nothing can be saved for a while, by anybody */
    FAULT_LOST,   /* the transaction commits, the answer gets lost */
    FAULT_AGAIN,  /* the body is run, undone, and run again */
    FAULT_FORK,   /* the process has a child for a moment */
};

enum point { BEFORE_WRITE, IN_WRITE, AFTER_WRITE, BEFORE_READ, IN_READ };

enum profile {
    PROFILE_CALM,
    PROFILE_CRASH,
    PROFILE_STALL,
    PROFILE_LOST_ANSWER,
    PROFILE_FAILURES,
    PROFILE_CLOCK_JUMP,
    PROFILE_RECOVERERS,
    PROFILE_SAME_NAMES,
    PROFILE_SESSIONS, /* liveness as on PostgreSQL: a session can be lost and come back */
    PROFILE_ALL,
    PROFILE_COUNT
};

extern const char *const profile_names[PROFILE_COUNT];

/* Chances in 10,000 at each point. */
struct fault_rates {
    int crash, stall, lost, fail, fail_inside, jump, sleep, freeze, again, session, fork;
};

enum sabotage {
    SABOTAGE_NONE,
    SABOTAGE_UNFENCED_COMPLETE,
    SABOTAGE_UNFENCED_RELEASE,
    SABOTAGE_TOKEN_KEPT,
    SABOTAGE_CRASH_UNCOUNTED,
    SABOTAGE_COMMIT_FORGOTTEN,
    SABOTAGE_HEARTBEAT_FORGOTTEN,
    SABOTAGE_HASTY_RECOVERY,
    SABOTAGE_LOCK_STOLEN,
    SABOTAGE_RELEASE_CHARGED,
    SABOTAGE_LIMIT_IGNORED,
    SABOTAGE_BELL_SILENT,
    SABOTAGE_UNFENCED_STEP,
    SABOTAGE_UNFENCED_OUTPUT,
    SABOTAGE_CHECKPOINT_FORGOTTEN,
    SABOTAGE_STEP_REPEATED,
    SABOTAGE_LOSS_UNTOLD,
    SABOTAGE_CONTROL_FORGOTTEN,
    SABOTAGE_CONTROL_KEPT,
    SABOTAGE_PURGE_LEAVES,
    SABOTAGE_SUBMISSION_FORGOTTEN,
    SABOTAGE_LEASES_NOT_MOVED,
    SABOTAGE_FREEZE_FORGOTTEN,
    SABOTAGE_GENERATION_KEPT,
    SABOTAGE_MADE_ALIKE,
    SABOTAGE_FORK_UNNOTICED,
    SABOTAGE_COUNT
};

extern const char *const sabotage_names[SABOTAGE_COUNT];

/* --- the world --- */

/* The clocks when a transaction began, and store time in it. */
struct clock_mark {
    int64_t wall_ms, awake_ms, slept_ms, store_ms;
};

struct world {
    uint64_t seed;
    enum profile profile;
    enum sabotage sabotage;
    bool verbose, postgres;
    struct rng rng;
    int64_t clock_ms, start_ms; /* the wall clock */
    int64_t awake_ms, slept_ms; /* since boot; they run evenly */
    int64_t latest_ms;          /* that store time can be */
    bool set_back;              /* the clock was, in this history */
    int64_t highest_ms;         /* no time was ever later in this process; the next history starts
                                   behind it */
    int64_t steps, calls;
    int depth;
    bool quiet; /* no faults */
    struct fault_rates rates;
    int weights[OP_COUNT];
    int64_t grace_ms;
    bool same_names;
    bool frozen; /* nothing can be saved */
    uint64_t rings[DB_BELLS];

    struct actor actors[MAX_ACTORS];
    int actor_count;
    int slots[MAX_SLOTS]; /* actor numbers; -1: empty */
    int slot_count;

    /* What the store must hold. */
    struct job_model jobs[MAX_JOBS];
    size_t job_count;
    struct add_model adds[MAX_ADDS];
    int add_count;
    struct queue_model queues[QUEUE_COUNT];
    struct lock_model locks[LOCK_NAMES];
    int worker_actors[MAX_WORKERS]; /* by worker id: actor, or -1 */
    bool worker_over[MAX_WORKERS];  /* it has left, or was taken for dead */
    int64_t last_event_id, last_event_ms;
    struct clock_mark mark; /* of the last commit that changed something */
    bool mark_known;        /* there was one */
    bool failing;           /* ... a commit could not be saved */
    int64_t failing_since_ms;
    int64_t scheduled_runs[SCHEDULES], schedule_first_ms; /* 0: there are none */
    struct attempt_model attempts[MAX_ATTEMPTS];
    int attempt_count;
    struct control_model controls[MAX_CONTROLS];
    int control_count;
    int serial;                                   /* the last one given out */
    struct expected_event expected[MAX_EXPECTED]; /* of the commit under examination */
    int expected_count, expected_seen;
    struct tend_lease old_leases[OLD_LEASES];
    size_t old_lease_count;
    struct tend_lease inherited[OLD_LEASES]; /* of the store that was here before this one */
    size_t inherited_count;
    int64_t token_base;

    /* The real store. */
    const char *url;
    void (*clean_up)(void); /* before the process ends early; or NULL */
    struct db *observer;
    struct db *idle[MAX_ACTORS];
    size_t idle_count;
};

extern const int64_t schedule_period_ms;
extern const char
    *const schedule_names[SCHEDULES]; /* due together: one may fail without the other */

void world_init(struct world *world, const char *url, bool verbose);
void world_done(struct world *world);
/* One history from beginning to end. */
void world_run(struct world *world, uint64_t seed, enum sabotage sabotage);

/* One operation of an idle actor. */
void world_step(struct world *world);
/* Another connection to the store, as actors have it. */
int world_open_store(struct world *world, struct db **ret, struct err *err);
void world_spawn(struct world *world, int slot);
void world_crash(struct world *world, struct actor *actor);
/* A tidy end by tend_close(). */
void world_close(struct world *world, struct actor *actor);
/* Frees the handle of an actor that has died. */
void world_bury(struct world *world, struct actor *actor);

/* drain.c: a healthy worker finishes everything, whatever the others left behind. */
void world_drain(struct world *world);
/* Everything old is deleted, and nothing that hung on it is left. */
void world_purge(struct world *world);

/* Time passes, and everybody lives through it. */
void world_live(struct world *world, int64_t ms);

/* Chance. */
bool chance(struct world *world, int in_10000);
int64_t between(struct world *world, int64_t low, int64_t high); /* both included */

/* A line of the history. */
void say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A broken promise: ends the process. */
_Noreturn void sim_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define expect(world, condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            sim_fail((world), __VA_ARGS__);                                                        \
    } while (0)

/* --- fake_db.c, fault.c, sabotage.c --- */

struct fake_db;

struct fake_db *fake_db_new(struct world *world, struct actor *actor, struct db *real);

void fault_choose_rates(struct world *world);
enum fault fault_choose(struct world *world, enum point point);
int fault_code(struct world *world);
void fault_stall(struct world *world, struct actor *actor);
void fault_jump(struct world *world, struct actor *actor);
void fault_sleep(struct world *world, struct actor *actor);
/* Others act meanwhile, and none of them can save anything; then all can again. */
void fault_freeze(struct world *world, struct actor *actor);
/* fork.c. between_calls: no transaction of this actor is open. */
void fault_fork(struct world *world, struct actor *actor, bool between_calls);
const char *fault_name(enum fault fault);

/* The parameters with the defect of this history, in place. */
void sabotage_params(struct world *world, enum db_query query, struct db_value *params,
                     size_t width, size_t count);
bool sabotage_forgets(struct world *world, enum db_query query);
bool sabotage_forgets_commit(struct world *world);
/* What a commit did, or one that could not be saved left behind, is changed. */
void sabotage_commit(struct world *world);
void sabotage_not_saved(struct world *world);
void sabotage_result(struct world *world, const struct actor *actor, enum db_query query,
                     struct db_result *result, struct arena *arena);

/* --- op_*.c --- */

/* Runs one random operation of this kind; nothing when there is no occasion for it. */
void op_run(struct world *world, struct actor *actor, enum op_kind kind);

void op_add(struct world *world, struct actor *actor);
void op_claim(struct world *world, struct actor *actor, enum op_kind kind);
void op_leases(struct world *world, struct actor *actor, enum op_kind kind);
void op_complete_and_claim(struct world *world, struct actor *actor);
void op_act(struct world *world, struct actor *actor);
void op_act_on_all(struct world *world, struct actor *actor, enum tend_action action, int queue,
                   unsigned states);
void op_recover(struct world *world, struct actor *actor, enum op_kind kind);
void op_lock(struct world *world, struct actor *actor, enum op_kind kind);
void op_queue_set(struct world *world, struct actor *actor);
void op_restore(struct world *world, struct actor *actor);
void op_change_queue(struct world *world, struct actor *actor, int queue, enum setting setting,
                     int64_t value);

struct op *op_begin(struct world *world, struct actor *actor, enum op_kind kind);
/* False when there is no answer: the actor has died, or a fault was in the way. */
bool op_end(struct world *world, struct actor *actor, int rc);

void op_fill_claim(struct world *world, struct op *op, int queue);
/* What a claim brought; frees jobs. */
void op_take_jobs(struct world *world, struct actor *actor, int rc, struct tend_jobs *jobs);
void op_check_none(struct world *world, struct actor *actor, int rc, const struct tend_none *none);
void op_check_leases(struct world *world, struct actor *actor, const int *each);
void op_choose_leases(struct world *world, struct actor *actor, size_t most);
bool op_is_claim(const struct op *op);
void op_drop_belief(struct actor *actor, struct tend_lease lease);
/* The same call, made before by the same owner, whose answer got lost. */
bool op_is_replay(struct world *world, enum lease_end end, struct tend_lease lease);
/* Of a call that failed a job: the time of the next attempt as the caller was told. */
void op_check_due(struct world *world, const struct op *op, int64_t due_ms);

/* --- model*.c --- */

/* What the observer sees after a commit. */
struct sight {
    struct tend_event *events;
    size_t event_count;
    struct tend_job *rows; /* of the jobs concerned */
    size_t row_count;
    struct step_rows *steps; /* of the same jobs; NULL: not looked at */
    struct db_result locks;
};

/* What the store has about the steps of a job. */
struct step_rows {
    struct db_result attempts, checkpoints, output, controls;
};

/* Looks at what a commit of this actor did and compares it with what it may have done. */
void model_commit(struct world *world, struct actor *actor, int64_t now_ms);
/* Nothing may have changed. */
void model_no_commit(struct world *world, struct actor *actor, int64_t now_ms);

/* What is submitted under the key of a running job, and what comes of it (model_submission.c). */
void model_submitted(struct world *world, const struct op *op, struct job_model *job,
                     int64_t now_ms);
void model_run_over(struct job_model *job);
struct job_model *model_owes(struct world *world, int payload);
void model_nothing_owed(struct world *world);

/* Time: what a commit, or one that could not be saved, says of it (model_clock.c). */
void model_clock(struct world *world, const struct actor *actor, const struct sight *sight);
void model_not_saved(struct world *world, const struct actor *actor, int rc);

void model_events(struct world *world, struct actor *actor, const struct sight *sight,
                  int64_t now_ms);
void model_rows(struct world *world, const struct sight *sight);
void model_locks(struct world *world, struct actor *actor, const struct sight *sight,
                 int64_t now_ms);
void model_claims(struct world *world, struct actor *actor, int64_t now_ms);
void model_rate_settle(struct queue_model *queue, int64_t now_ms);
void model_rate_change(struct queue_model *queue, int64_t count, int64_t now_ms);

struct job_model *model_job(struct world *world, int64_t id);
/* The number in {"n":NUMBER}. */
int model_payload(const struct tend_job *row);
bool model_holds(struct world *world, struct tend_lease lease);
/* How its owner has ended the lease; END_NONE: it has not. */
enum lease_end model_ended_by(const struct job_model *job, int64_t token);
/* CL-4: more urgent, due earlier, added earlier. */
bool model_comes_before(const struct job_model *one, const struct job_model *other);
int64_t model_pending(struct world *world, int queue);
int64_t model_running(struct world *world, int queue, int key); /* key -1: any */
/* Whether the worker may be taken for dead at now_ms. */
bool model_may_bury(struct world *world, int64_t worker_id, int64_t now_ms);
int queue_number(const char *name);
int lock_number(const char *name);

/* The history is over: what must hold then. */
void model_finished(struct world *world);

/* --- wipe.c --- */

/* Comes last in the URL of a PostgreSQL store. */
#define SCHEMA_IN_URL "&tend_schema="

void wipe_store(const char *url, int64_t token_base);
/* As if the clock step among the events after last_event_id had moved no lease; SQLite only. */
void undo_step(const char *url, int64_t last_event_id);
/* As if nothing were known of the clocks at the last commit; SQLite only. */
void wipe_clock(const char *url);
/* Rows about steps whose job is gone. */
int64_t count_orphans(const char *url);
/* For good; PostgreSQL only. */
void drop_store(const char *url);

#endif
