/* Help from the tables of command.h: for people, with --json for machines. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

struct cli;
struct command;

/* All commands. */
void help_overview(struct cli *cli);

/* One command; path is its name with that of its parent. */
void help_command(struct cli *cli, const struct command *command, const char *path);

/* What the two above print with --json. */
void help_json_overview(struct cli *cli);
void help_json_command(struct cli *cli, const struct command *command, const char *path);

/* Every command and option as scdoc source: the part of tend(1) that comes from the tables. */
void help_manual(struct cli *cli);

#endif
