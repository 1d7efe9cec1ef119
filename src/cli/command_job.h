/*
 * A command that becomes a job, for `tend add`, `tend schedule add` and `tend notify add`: the
 * folder in which it runs, the variables it gets and how often it is tried.
 *
 * A command runs in the folder in which it was given, as it would in the shell. Secrets are given
 * by name: the plan has {"env": NAME}, and the worker puts in the value.
 */
#ifndef CLI_COMMAND_JOB_H
#define CLI_COMMAND_JOB_H

#include "cli/command.h"
#include "core/budget.h"

#include <limits.h>

struct buf;
struct cli;

struct command_job_args {
    const char *workspace; /* NULL: not given */
    bool no_folder;
    struct text_list env, env_from;
    int64_t attempts; /* of the command within one run of the job; 0: not given */
};

/* Rows for a table of options. */
#define COMMAND_JOB_OPTIONS(args)                                                                  \
    OPTION("workspace", 0, "FOLDER", OPTION_TEXT,                                                  \
           "folder in which the job's commands run, and from which a relative repository counts "  \
           "(default: for a command after -- or such a repository the current one; else the "      \
           "worker's)",                                                                            \
           &(args).workspace),                                                                     \
        OPTION("no-folder", 0, NULL, OPTION_FLAG,                                                  \
               "a command after -- runs in the worker's folder, and a relative repository counts " \
               "from there",                                                                       \
               &(args).no_folder),                                                                 \
        OPTION("env", 0, "NAME=VALUE", OPTION_LIST,                                                \
               "a variable of the command after --; may be given again; not for secrets",          \
               &(args).env),                                                                       \
        OPTION("env-from", 0, "NAME[,NAME]", OPTION_LIST,                                          \
               "variables that the command after -- gets from its worker: only the names are "     \
               "stored; may be given again",                                                       \
               &(args).env_from),                                                                  \
        OPTION("attempts", 0, "N", OPTION_INT,                                                     \
               "at most so many tries of the command after -- within one run of the job (else as " \
               "the queue says, 3); fewer when the same unknown failure comes twice",              \
               &(args).attempts, .min = 1, .max = BUDGET_ATTEMPTS_MOST)

/* What does not fit together. 0, or an exit status after telling it. */
int command_job_check(struct cli *cli, const struct command_job_args *args, bool has_command);

/* The plan of a job that runs the command: {"exec": […], "attempts": N, "env": {…}}. 0, or an exit
 * status. */
int command_job_plan(struct cli *cli, const struct command_job_args *args, int argc, char **argv,
                     struct buf *out);

/* A hint when a command names a file by a path which is not there. folder: that of the job, or
 * NULL.
 */
void command_job_hint(struct cli *cli, const char *command, const char *folder);

/* Whether a payload (or NULL) is a plan with a repository that counts from the folder of the job.
 */
bool command_job_has_near_repo(const char *payload);

/*
 * The folder of the job, NULL: none; in room, or one of the arguments. is_local: it counts from the
 * current folder, as a command does. 0, or an exit status.
 */
int command_job_folder(struct cli *cli, const struct command_job_args *args, bool is_local,
                       char room[PATH_MAX], const char **ret);

#endif
