/*
 * Questions to a store that may not answer, for commands that stay.
 *
 * A thread of its own asks, so that the caller can show since when there is no answer, and a key, a
 * signal, or that nobody reads standard output any more (a pipe or socket whose other end is
 * closed) ends the command at once, whatever the call waits for. A question that is left without
 * its answer is waited for by nobody: cli->store_left says so, the process then ends without
 * closing the store, and what the question writes to must stay until then. So does one that ends
 * while the store is away, as closing could wait for it.
 */
#ifndef CLI_ASKING_H
#define CLI_ASKING_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

struct asking;
struct cli;

/* Asked in the other thread: touches the store and its argument and nothing else. */
typedef int asking_question(tend *store, void *arg);

/*
 * The store is away: told when a question has had no answer for a second, or a failure that may
 * pass, and again every second. since_ms: wall time. why: the library's sentence, "" while it
 * waits.
 */
typedef void asking_away(void *arg, int64_t since_ms, const char *why);

/* key_fd: 'q' or the end of it ends the command; -1: no keys. Signals do from here on. away NULL: a
 * line on standard error, and another when the store is back. NULL after telling why. */
struct asking *asking_new(struct cli *cli, int key_fd, asking_away *away, void *away_arg);
/* From this time on (monotonic) nothing is waited for: what waits ends with TEND_EINTERRUPTED. */
void asking_end_at(struct asking *asking, int64_t end_ms);
/* Whether that time has come, and nothing else has ended the command before. */
bool asking_is_late(const struct asking *asking);
/* To be called before what questions write to is freed: look at cli->store_left first. */
void asking_free(struct asking *asking);

/* The answer, waited for until it is there: the question's own code, or TEND_EINTERRUPTED when the
 * command is to end. */
int asking_ask(struct asking *asking, asking_question *question, void *arg);
/* The same for one that may take so long, as tend_wait. */
int asking_ask_patiently(struct asking *asking, asking_question *question, void *arg,
                         int64_t takes_ms);
/* Waits so long. 0, or TEND_EINTERRUPTED. */
int asking_pause(struct asking *asking, int64_t ms);
/* The exit status for a negative code of the above, after telling why; that a signal came is not
 * told. That the reader has gone is main's to tell, as after a write that failed. */
int asking_fail(const struct asking *asking, int code);

#endif
