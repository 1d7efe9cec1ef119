/*
 * tend demo, shown to somebody who has never seen tend: real workers on a real store, one of them
 * killed, and what the events say about it afterwards.
 *
 *     cmd_demo.c      the course of it, from the folder it makes to the folder it removes
 *     demo_crew.c     the folder and the worker processes
 *     demo_worker.c   what runs in each of these processes
 *     demo_ledger.c   the events of the store, added up: the only source of every figure shown
 *     demo_screen.c   the live view, or a few plain lines where there is no terminal
 *     demo_report.c   how it ended, for people and for machines
 *
 * Invariant: however it ends, by itself, by a signal or, once its workers run, by a kill -9 of its
 * own, no process and no file stays behind (demo_crew.c says how).
 */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "cli/cli.h"
#include "cli/pen.h"

#include <sys/types.h>

enum {
    DEMO_JOBS = 2000,
    DEMO_WORKERS = 4,
    DEMO_BATCH = 8, /* jobs a worker claims at once, at most */
    DEMO_KILL_AT = DEMO_JOBS * 2 / 5,
    DEMO_TICK_MS = 40,   /* between two looks at the events */
    DEMO_LINES_MAX = 12, /* of the story; more are not kept */
};

/* --- Folder and processes (demo_crew.c) --- */

enum demo_member_state {
    MEMBER_RUNS,
    MEMBER_KILLED,  /* by the demo, as announced */
    MEMBER_MISSING, /* ended, and not by the demo */
    MEMBER_LEFT,    /* sent home when all was done */
};

struct demo_member {
    char name[24]; /* as owner in the store: "worker 1" */
    pid_t pid;     /* 0: never started */
    enum demo_member_state state;
    int wait_status; /* MEMBER_MISSING: as waitpid gave it */
};

struct demo_crew {
    char folder[256]; /* "": there is none */
    struct demo_member members[DEMO_WORKERS];
};

/* Makes the folder. 0, or an exit status after telling why. */
int demo_crew_init(struct demo_crew *crew, struct cli *cli);
/* 0, or an exit status after telling why; those that were started by then are in the crew. */
int demo_crew_start(struct demo_crew *crew, struct cli *cli);
/* Kills one for good and waits for its end. */
void demo_crew_kill(struct demo_member *member);
/* The next one found to have ended by itself since the last call, or NULL. */
struct demo_member *demo_crew_missing(struct demo_crew *crew);
size_t demo_crew_running(const struct demo_crew *crew);
/* Lets the workers sign off, and kills those that do not within a second. */
void demo_crew_send_home(struct demo_crew *crew);
/* Kills whoever still runs and removes the folder; nothing happens the second time. */
void demo_crew_done(struct demo_crew *crew);

/* What a worker had to say before it ended: the first line of its log, or "". */
void demo_crew_last_words(const struct demo_crew *crew, const struct demo_member *member, char *out,
                          size_t size);

void demo_store_url(const char *folder, char *out, size_t size);
/* Only a folder that a demo has made, and only files that a demo makes. */
void demo_remove_folder(const char *folder);

/* --- Events, added up (demo_ledger.c) --- */

struct demo_account {
    bool joined;
    int completed;
    int holds;             /* jobs under its lease at present */
    int taken_over;        /* jobs of the killed worker it went on with */
    int64_t claimed_at_ms; /* last time it claimed, or TEND_UNSET */
};

struct demo_job {
    int completed; /* times */
    bool orphaned; /* the killed worker held it */
    int taken_by;  /* worker that went on with it, or -1 */
    int64_t taken_at_ms;
};

struct demo_ledger {
    int64_t first_id;     /* of the first job; the others follow without a gap */
    int64_t last_event;   /* read up to here */
    int64_t events;       /* read so far */
    int victim;           /* worker that was killed, or -1 */
    int64_t killed_at_ms; /* store time, as all times here; TEND_UNSET: not yet */
    struct demo_account accounts[DEMO_WORKERS];
    struct demo_job jobs[DEMO_JOBS];
    int done;       /* jobs completed at least once */
    int strange;    /* ends of jobs that are neither completions nor the recovery */
    int orphans;    /* jobs that the killed worker left behind */
    int taken_over; /* ... of these, started elsewhere */
    int noticed_by; /* worker that saw the death and put the jobs back, or -1 */
    int64_t noticed_at_ms, first_taken_at_ms, last_taken_at_ms; /* or TEND_UNSET */
    int64_t began_at_ms, ended_at_ms; /* first claim, last completion; or TEND_UNSET */
};

void demo_ledger_init(struct demo_ledger *ledger, int64_t first_id);
/* From now on this worker is the one that was killed. */
void demo_ledger_killed(struct demo_ledger *ledger, int victim, int64_t at_ms);
/* Adds everything that has happened since. 0, or a TEND_E… code. */
int demo_ledger_read(struct demo_ledger *ledger, tend *store);
/* Jobs under the worker's lease; for the one that was killed: when it died. */
int demo_ledger_held(const struct demo_ledger *ledger, int worker);
/* The running worker that holds most jobs, of several the one that claimed last; -1: none does. */
int demo_ledger_fullest(const struct demo_ledger *ledger, const struct demo_crew *crew);

/* --- The view (demo_screen.c) --- */

struct demo_rate {
    int64_t at_ns[25]; /* the last second, a sample per tick */
    int done[25];
    size_t next, count;
};

struct demo_line {
    int64_t at_ms; /* since the beginning */
    enum color color;
    char text[200];
};

struct demo_screen {
    struct cli *cli;
    bool live; /* redrawn in place; else plain lines, or nothing with --json */
    struct frame frame;
    int64_t began_ns; /* the story's times count from here */
    struct demo_line lines[DEMO_LINES_MAX];
    size_t line_count;
    struct demo_rate rate;
};

void demo_screen_init(struct demo_screen *screen, struct cli *cli);
/* The next line of the story, in both ways of showing it. */
void demo_screen_say(struct demo_screen *screen, enum color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 0, or an exit status: nobody reads the output any more. */
int demo_screen_draw(struct demo_screen *screen, const struct demo_crew *crew,
                     const struct demo_ledger *ledger);
/* Gives the terminal back as it was. */
void demo_screen_done(struct demo_screen *screen);

enum { DEMO_NUMBER_BYTES = 32 };
/* "2,000" */
const char *demo_number(int64_t number, char out[DEMO_NUMBER_BYTES]);

/* --- How it ended (demo_report.c) --- */

struct demo_verdict {
    int lost;         /* jobs never completed */
    int twice;        /* jobs completed more than once */
    struct buf wrong; /* sentences, a line each; empty: all is as it should be */
};

/* Reads the events once more from the first, and judges. 0, or an exit status after telling why. */
int demo_judge(struct cli *cli, const struct demo_crew *crew, struct demo_ledger *ledger,
               struct demo_verdict *ret);
void demo_report_text(struct cli *cli, const struct demo_crew *crew,
                      const struct demo_ledger *ledger, const struct demo_verdict *verdict);
void demo_report_json(struct cli *cli, const struct demo_crew *crew,
                      const struct demo_ledger *ledger, const struct demo_verdict *verdict);

#endif
