/*
 * Hooks: when automation gives a job up, a command runs as a job of its own.
 *
 * An ending that a hook listens for adds the hook's job in the transaction of the ending. So there
 * is one job per hook and ending: a report that is repeated moves nothing and adds nothing.
 *
 * A hook would call itself for ever if its own work called hooks. So the ending of a job calls none
 *   - if a hook has added it, or a process that runs in the job of a hook (job.hook);
 *   - if such a process has retried it, until somebody else does (job.retry_hook).
 * Such a process knows by TEND_HOOK, which a runner sets for the commands of these jobs.
 */
#ifndef QUEUE_HOOK_H
#define QUEUE_HOOK_H

#include "queue/handle.h"

/* What an ending is; an ending can be more than one. */
enum {
    HOOK_FAILED = 1,    /* the job has failed for good, also as poison */
    HOOK_POISON = 2,    /* it has lost too many workers */
    HOOK_EXHAUSTED = 4, /* its step has used up all attempts; the queue may try the job again */
};

struct hook_word {
    unsigned bit;
    const char *word;
};
/* The words of `tend notify --on`, ended by one without a word. */
extern const struct hook_word hook_words[];

/* The bits of words with commas between; 0: one of them is not known, or there is none. */
unsigned hook_read_words(const char *words);

/* As tend_hook_put checks it, without a store: 0, TEND_EINVAL or TEND_ENOMEM. */
int hook_check(const struct tend_hook *hook, struct err *err);

/* --- hook_call.c: inside the transaction --- */

/* A job has ended: the move is written. */
struct hook_ending {
    struct tend_lease lease; /* the one that has ended */
    unsigned what;           /* HOOK_… */
};

/*
 * Adds the jobs of all hooks that listen for these endings, with the same few statements for one
 * ending and for many. A hook that cannot be used, because somebody has changed its row by hand, is
 * skipped, and an event says so (hook.skipped). Whoever calls has found that there are hooks
 * (hook_any).
 */
int hook_call(struct db_tx *tx, const struct hook_ending *endings, size_t count);

#endif
