/*
 * Steps in the simulation: what the model keeps of attempts, checkpoints, output and controls, and
 * what an actor tells and believes of them. Included by sim.h.
 *
 * Everything an actor tells has a serial, by which the texts it left are known again.
 */
#ifndef SIM_STEP_MODEL_H
#define SIM_STEP_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

enum {
    MAX_STEPS = 4,
    MAX_ATTEMPTS = 4096, /* over a whole history */
    MAX_CONTROLS = 2048,
    MAX_PIECES = 6, /* of the output of an attempt */
    MAX_NOTES = 2,  /* events in a report */
    MAX_EXPECTED = 8,
    STEP_TEXT = 32,
    LEAVES_PROCESSES = 7, /* one report in so many says that not all processes could be ended */
};

/* --- what the store must hold --- */

struct attempt_model {
    int64_t job_id, number, token;
    int before; /* the attempt before of the same job in world.attempts; -1: none */
    int step, attempt, serial;
    int state; /* as stored: one whose lease ended without a word still says running */
    const char *strategy;
    bool may_live;
    int64_t pid, percent;   /* or TEND_UNSET */
    int pieces[MAX_PIECES]; /* serial of the piece with seq index + 1; 0: there is none */
};

struct checkpoint_model {
    int serial;     /* 0: there is none */
    int64_t number; /* 0: copied, or the baseline */
};

enum control_kind {
    ASK_PAUSE,
    ASK_RESUME,
    ASK_TAKEOVER,
    ASK_RETRY_STEP,
    ASK_HARD_RESET_STEP,
    ASK_RESUME_FROM_STEP,
    ASK_CANCEL,
    ASK_COUNT
};

extern const char *const control_kinds[ASK_COUNT];

struct control_model {
    int64_t id, job_id; /* id 0: not seen in the store yet */
    enum control_kind kind;
    int step; /* 0: none was named */
    char actor[STEP_TEXT];
    int64_t at_ms, taken_ms, done_ms; /* or TEND_UNSET */
    char outcome[48];
};

/* An event about steps that the commit under examination must have left. */
struct expected_event {
    int64_t job_id; /* 0: of the job that this commit added */
    char what[40];
    char data[320];
};

/* --- what an actor tells --- */

/* What tend_step_next and tend_step_finish are given. */
struct step_report {
    struct tend_lease lease;
    int serial;
    int drop_from;      /* 0: nothing is dropped */
    bool baseline;      /* tells where the workspace starts */
    int64_t end_number; /* 0: no attempt ends */
    int end_state;
    const char *notes[MAX_NOTES];
    int note_count, note_step;
    int begin_step; /* 0: none begins */
    int begin_attempt;
    const char *strategy;
    int next; /* the step to be begun after this; 0: not known */

    bool closes; /* tend_step_finish */
    enum tend_step_how how;
    bool final;
    int64_t delay_ms;
    int64_t control_id; /* 0: none is answered */
};

/* What an actor thinks of the steps of a job it thinks it holds. */
struct step_belief {
    int64_t number;  /* of the attempt it runs; 0: none */
    int64_t ended;   /* the last one it has ended; 0: none */
    int step, tries; /* begun last under this lease */
    int next;        /* to be begun; 0: it has to look */
    bool unanswered; /* the answer to `report` got lost: it is told again before anything else */
    struct step_report report;
    int64_t order; /* a control to be carried out; 0: none */
    enum control_kind order_kind;
    int order_step;
};

/* What becomes of a report or request, as things stand in its transaction. */
enum verdict {
    VERDICT_NONE, /* the store was not reached */
    VERDICT_DONE,
    VERDICT_TOLD_BEFORE,
    VERDICT_LOST,     /* TEND_ELEASELOST */
    VERDICT_REFUSED,  /* TEND_ESTATE */
    VERDICT_NOWHERE,  /* TEND_ENOTFOUND */
    VERDICT_CONFLICT, /* TEND_ECONFLICT */
};

/* The small things told of an attempt. */
enum tell { TELL_PROGRESS, TELL_PROCESS, TELL_OUTPUT, TELL_COUNT };

/* The part of an operation (struct op in sim.h) that is about steps. */
struct step_op {
    struct step_report report; /* tend_step_next, tend_step_finish */
    enum tell tell;
    int64_t number; /* of the attempt that is told of */
    int serial, first_seq, piece_count;
    enum control_kind kind; /* that is asked for */
    int step;
    int64_t control_id; /* that is answered */
    char outcome[STEP_TEXT];

    /* What must come of it, by the model. */
    enum verdict verdict;
    int64_t begun;   /* number of the attempt that began */
    int control;     /* asked for, in world.controls */
    bool open;       /* it is left to a worker */
    bool anew;       /* a done job goes on ... */
    int64_t new_job; /* ... as this one */
    int moves;       /* of jobs */
    int becomes;     /* the state the job is in afterwards; -1: not said */
};

#endif
