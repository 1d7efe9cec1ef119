/*
 * What every command works with: the store, the output, and the ways to fail.
 *
 * Not for the library's insides: the command line is a client of tend.h and base. Invariants: a
 * failure is told in one sentence on standard error; with --json as one object; a run function
 * returns an exit status and never exits by itself.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/buf.h"
#include "cli/command.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tend.h>

enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,       /* what was asked for failed */
    EXIT_USAGE = 2,        /* usage or bad input */
    EXIT_NOT_FOUND = 3,    /* no such job, schedule, store */
    EXIT_REFUSED = 4,      /* by the present state: conflict, lease lost, lock held */
    EXIT_NOTHING = 5,      /* nothing there: empty, busy, paused; the answer says which */
    EXIT_UNREACHABLE = 69, /* the store is out of reach, blocked, or its disk is full: try again */
    EXIT_SIGNAL = 128,     /* plus the number of the signal that ended a wait */
};

struct cli {
    const struct command *command; /* the one that runs */
    char path[64];                 /* its name with that of its parent: "lock acquire" */
    int argc_before;               /* arguments before --, all where there is none */
    const char *who;               /* name of the handle and its worker; NULL: user@host */
    int64_t room_ms;               /* so long a full disk is waited for to open the store */
    tend *store;                   /* open when the command's row asks for it, else NULL */
    bool beside_workers;           /* migrate --beside-workers */
    bool store_damaged;            /* ... and could not be opened: see STORE_EXAMINED */
    bool store_left;               /* a thread still waits for its answer: it cannot be closed */
    bool json;
    bool color;
    size_t width;   /* columns of the terminal; 0: no terminal, no limit */
    struct buf out; /* standard output not yet written */
    int out_errno;  /* why writing it failed, 0 if it has not */
    char did[256];  /* see cli_did */
    /* Takes what the library logs, from any of its threads; NULL: it goes to standard error. */
    void (*_Atomic log)(void *arg, const char *line);
    void *log_arg;
};

/* Values of the global options. */
struct globals {
    const char *store_url;  /* NULL: not given */
    const char *durability; /* "full" or "normal" */
    bool json, no_color, help, version;
};
extern struct globals globals;

/* The one place that turns a TEND_E… code into an exit status. */
int exit_status_of(int code);

/* "ELEASELOST" for TEND_ELEASELOST; "E?" for what is no code. */
const char *error_name(int code);

/*
 * Tells what failed and returns the exit status for code. The sentence goes on standard error as
 * "tend: …", with --json as {"error":{"code","message","exit"}}.
 */
int cli_fail(struct cli *cli, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with an exit status of the caller's choice. */
int cli_fail_as(struct cli *cli, int status, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same; members are more of the error object for --json: "\"id\":12". */
int cli_fail_more(struct cli *cli, int status, int code, const char *members, const char *format,
                  ...) __attribute__((format(printf, 5, 6)));
/* The same with the library's own sentence for its last failure. */
int cli_fail_store(struct cli *cli, int code);

/* A remark on standard error that is no failure; nothing with --json. */
void cli_note(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes to standard error at once. */
void cli_write_error(const struct buf *text);

/* Opens the store of the global options into cli->store. 0, or an exit status after telling why. */
int cli_open_store(struct cli *cli, enum store_need need);

/* The store that was chosen: see store_place.h. */
const char *cli_store_url(void);

/* Writes cli->out. 0, or an exit status; the failure is told once, at the end, by main. */
int cli_flush(struct cli *cli);
/*
 * The same for the answer of a command that has done something. From here on no signal changes the
 * exit status: whoever has read the answer must not take the command for failed, and drop what it
 * was given. While nobody reads, signals end the program as before.
 */
int cli_answer(struct cli *cli);
/* Writes cli->out when it has grown large; for commands that print many rows. */
int cli_flush_if_large(struct cli *cli);

/*
 * What the command has done, to be said when its output cannot be written: "job 12 was added, but
 * its id", which "could not be written to standard output". The last call counts.
 */
void cli_did(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Store time, or the machine's where the store does not answer. */
int64_t cli_now_ms(struct cli *cli);

/* --- Signals (signals.c) --- */

/* Ticks every second, so that a blocking call inside the library gets to look at its deadline. */
void signals_start(void);
/* From now on SIGTSTP (Ctrl-Z) stops the program only while it does not write to the store. */
void signals_suspend_safely(void);
/* SIGINT, SIGTERM and SIGHUP are ignored until the program ends. */
void signals_hold(void);
/* From now on SIGINT and SIGTERM wake the waits on this store; NULL: they end the program again. */
void signals_interrupt(tend *store);
/*
 * From now on SIGINT and SIGTERM stop this runner, a second one at once, with at_once the first one
 * already, and SIGHUP is counted; NULL: they end the program again.
 */
void signals_stop_runner(tend_runner *runner, bool at_once);
/* From now on HUP, INT, QUIT, TERM, USR1 and USR2 are written to this descriptor, a byte each, for
 * somebody who passes them on. */
void signals_forward(int fd);
/* A descriptor that is readable once SIGINT, SIGTERM or SIGHUP has come; the second of a kind ends
 * the program. -1: there is none, and so does the first. */
int signals_catch(void);
/* All of them end the program again. */
void signals_release(void);
/* How many signals to stop have come, and how many hangups. */
int signals_stops(void);
int signals_hangups(void);
/* As poll(); a signal that came just before ends it too. */
int signals_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
/* The signal that has come since, 0 if none. */
int signals_seen(void);
/* For commands that wait: exit status after TEND_EINTERRUPTED. */
int signals_exit_status(void);

#endif
