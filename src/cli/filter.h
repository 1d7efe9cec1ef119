/* The options that choose jobs: the same for `jobs` and for what acts on many at once. */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include "cli/command.h"

#include <tend.h>

struct filter_args {
    const char *queue, *kind, *tag;
    unsigned states;
    int64_t older_than_ms;
};

#define FILTER_ARGS_INIT                                                                           \
    {                                                                                              \
        .older_than_ms = TEND_UNSET                                                                \
    }

/* Rows for a table of options. */
#define FILTER_OPTIONS(args)                                                                       \
    OPTION("queue", 'q', "QUEUE", OPTION_TEXT, "only jobs of this queue", &(args).queue),          \
        OPTION("state", 's', "STATE[,STATE]", OPTION_STATES,                                       \
               "only jobs in these states: scheduled, pending, running, held, done, failed, "      \
               "cancelled",                                                                        \
               &(args).states, .choices = STATE_CHOICES),                                          \
        OPTION("kind", 'k', "KIND", OPTION_TEXT, "only jobs of this kind", &(args).kind),          \
        OPTION("tag", 't', "TAG", OPTION_TEXT, "only jobs with this tag", &(args).tag),            \
        OPTION("older-than", 0, "DURATION", OPTION_DURATION, "only jobs unchanged for this long",  \
               &(args).older_than_ms)
#define STATE_CHOICES "scheduled|pending|running|held|done|failed|cancelled"

/* Whether any of the options was given. */
bool filter_given(const struct filter_args *args);

void filter_fill(const struct filter_args *args, struct tend_filter *ret);

#endif
