/*
 * Steps in the simulation: what the files share.
 *
 *     op_step.c        reports, and what the answers must be
 *     op_step_plan.c   what an actor reports next
 *     op_step_tell.c   the small things told of an attempt; what readers are shown
 *     op_control.c     operators ask, workers take and answer
 *     model_step.c     what a report must do
 *     model_tell.c     what the small things must do; commits of all calls about steps
 *     model_control.c  what a control must do
 *     model_row.c      the rows in the store against the model
 */
#ifndef SIM_STEP_H
#define SIM_STEP_H

#include "sim.h"

/* --- op_*.c --- */

/* An actor works on one of the jobs it believes to hold for a while. */
void op_step_work(struct world *world, struct actor *actor, enum op_kind kind);
/* A healthy worker does all that is left of a job and completes it. */
void op_step_through(struct world *world, struct actor *actor, struct tend_lease lease);
/*
 * Puts what the actor reports next into the belief. Diligent: every attempt succeeds. 0, or a
 * negative code when a fault was in the way while it looked how far the job has come.
 */
int op_plan_report(struct world *world, struct actor *actor, struct belief *belief,
                   enum op_kind kind, bool diligent);
/* A lease that the actor believes to hold, or a stale one of somebody else in *stale; NULL: none.
 */
struct belief *op_choose_belief(struct world *world, struct actor *actor, struct belief *stale);

/* Of this job, or of one that is chosen (NULL). */
void op_step_tell(struct world *world, struct actor *actor, struct belief *belief);
void op_controls_take(struct world *world, struct actor *actor, const struct belief *belief);
void op_control_done(struct world *world, struct actor *actor, struct belief *belief);

/* What readers are shown of a job. */
void op_step_look(struct world *world, struct actor *actor, struct job_model *job);
/* What is left behind on this machine is told, and swept. */
void op_step_sweep(struct world *world, struct actor *actor);

/* An operator asks something of this job, or of one that is chosen (NULL). */
void op_control(struct world *world, struct actor *actor, const struct job_model *job);

/* The patch of a checkpoint; returns its length. */
int64_t step_patch(char *text, size_t room, int step, int serial);

/* --- model*.c --- */

/* Before the events of a commit are played: what it must do, which is done to the model. */
void model_step_commit(struct world *world, struct actor *actor, int64_t now_ms);
/* Nothing was committed: what would have become of it. */
void model_step_no_commit(struct world *world, struct actor *actor, int64_t now_ms);
/* An event about steps or controls: the next that is expected. */
void model_step_event(struct world *world, struct actor *actor, const struct tend_event *event);
/* After the events: none is missing, and the job is where it must be. */
void model_step_over(struct world *world, struct actor *actor);

/* The rows of the jobs concerned, for the observer; and the comparison. */
int model_step_read(struct world *world, const struct op *op, struct sight *sight,
                    struct db_tx *tx);
void model_step_rows(struct world *world, const struct op *op, const struct sight *sight,
                     int64_t now_ms);
int model_read_steps(struct db_tx *tx, int64_t job_id, struct step_rows *rows);
/* op: the call that committed at now_ms, or NULL. */
void model_compare_steps(struct world *world, const struct op *op, const struct job_model *job,
                         const struct step_rows *rows, int64_t now_ms);
void model_compare_controls(struct world *world, const struct op *op, const struct job_model *job,
                            const struct db_result *rows, int64_t now_ms);

/* Whether a lease was ended by a cancel, and the job has not moved since. */
bool model_stopped(const struct job_model *job, struct tend_lease lease);

/* What becomes of a call; with apply it is done to the model, and its events are expected. */
enum verdict model_report(struct world *world, struct op *op, int64_t now_ms, bool apply);
enum verdict model_control(struct world *world, struct actor *actor, int64_t now_ms, bool apply);
enum verdict model_answer(struct world *world, const struct job_model *of, int64_t control_id,
                          const char *outcome, int64_t now_ms, bool apply);
/* The job was moved: what is open for it may have become pointless. */
void model_controls_follow(struct world *world, const struct op *op, const struct job_model *job,
                           const char *what, int64_t now_ms);
/* A done job goes on as this new one. */
void model_begin_anew(struct world *world, struct op *op, struct job_model *job);

/* What an event says about a step. */
struct step_told {
    int step, attempt; /* attempt 0: none */
    const char *failure_class, *signature, *diff_hash, *strategy;
    bool gives_up, retryable; /* the second is told with the first */
};
/* job_id 0: of the job that the commit adds. */
void model_expect_step(struct world *world, int64_t job_id, const char *what,
                       const struct step_told *told);
void model_expect_event(struct world *world, int64_t job_id, const char *what, const char *data);

struct attempt_model *model_newest(struct world *world, const struct job_model *job);
struct attempt_model *model_attempt(struct world *world, const struct job_model *job,
                                    int64_t number);
struct control_model *model_find_control(struct world *world, int64_t id);
int model_first_open(const struct job_model *job); /* the first step without a checkpoint */
/* The state of an attempt as readers are told. */
int model_told_state(const struct job_model *job, const struct attempt_model *attempt);
/* Whether a failure told by the call is the job's last. */
bool model_fails_for_good(const struct op *op, const struct job_model *job);
const char *step_name(int step); /* "step-N"; "" for 0 */

#endif
