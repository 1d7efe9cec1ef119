/* What steps have left behind, for `tend show`: attempts, checkpoints, controls. */
#ifndef CLI_SHOW_STEPS_H
#define CLI_SHOW_STEPS_H

#include <stdint.h>
#include <tend.h>

struct cli;

struct job_steps {
    struct tend_attempts *attempts;
    struct tend_checkpoints *checkpoints;
    struct tend_controls *controls;
    struct tend_keeps *keeps;
    struct tend_edit *edit; /* or NULL */
};

/* 0, or an exit status; job_steps_done in either case. */
int job_steps_read(struct cli *cli, int64_t job_id, struct job_steps *ret);
void job_steps_done(struct job_steps *steps);

/* Tables with titles; nothing where there is nothing. 0, or an exit status. */
int job_steps_print(struct cli *cli, const struct job_steps *steps, int64_t now_ms);
/* Members of an object that the caller has opened. */
void job_steps_json(struct cli *cli, const struct job_steps *steps);

#endif
