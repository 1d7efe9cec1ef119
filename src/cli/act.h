/* What an operator does to jobs, by id or to all that match: the body of cancel, retry, hold,
 * resume. */
#ifndef CLI_ACT_H
#define CLI_ACT_H

#include "cli/filter.h"

struct cli;

struct act_args {
    struct filter_args filter;
    bool all, dry_run;
    const char *why;
};

#define ACT_ARGS_INIT                                                                              \
    {                                                                                              \
        .filter = FILTER_ARGS_INIT                                                                 \
    }

/* Rows for a table of options. */
#define ACT_OPTIONS(args, all_text)                                                                \
    OPTION("why", 0, "TEXT", OPTION_TEXT, "the reason, kept with the event", &(args).why,          \
           .redacted = true),                                                                      \
        FILTER_OPTIONS((args).filter),                                                             \
        OPTION("all", 0, NULL, OPTION_FLAG, (all_text), &(args).all),                              \
        OPTION("dry-run", 0, NULL, OPTION_FLAG, "count the jobs, change nothing", &(args).dry_run)

/* One action as the commands describe it. */
struct act {
    enum tend_action action;
    const char *done;     /* "cancelled" */
    const char *all_text; /* which jobs --all takes: "unfinished" */
};

/* Gives the exit status. */
int act_run(struct cli *cli, const struct act *act, const struct act_args *args, int argc,
            char **argv);

#endif
