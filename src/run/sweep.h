/* Orphans: what dead workers of this machine have left running (RC-14). */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

/* Who is told what was found; may be called from any thread. */
struct sweep_ear {
    void (*tell)(void *arg, int64_t job_id, const char *text); /* NULL: nobody */
    void *arg;
};

/*
 * Ends the process trees of attempts of this machine whose lease is no longer held: of one job,
 * before it runs again or its folders are removed, or of all (job_id 0), when a runner starts.
 * False: something is still there.
 */
bool sweep_left_behind(tend *t, const struct sweep_ear *ear, int64_t job_id);

#endif
