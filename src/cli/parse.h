/* The command line, read by the tables of command.h. */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include "cli/command.h"

struct cli;

struct parsed {
    const struct command *command; /* NULL: none was named */
    int argc;                      /* arguments that are no options */
    char **argv;                   /* ends with NULL; freed by parsed_done */
};

/* 0, or an exit status after telling what is wrong. --help ends the reading early. */
int parse_command_line(struct cli *cli, int argc, char **argv, struct parsed *ret);
void parsed_done(struct parsed *parsed);

/* Checks a value by the option's type and stores it in its target. 0, or an exit status. */
int option_store(struct cli *cli, const struct option *option, const char *value);

/* What follows cli->path in a sentence: nothing before the command is named. */
const char *path_colon(const struct cli *cli);

/* Whether an OPTION_WAIT takes this word as its value. */
bool option_wait_takes(const char *word);

#endif
