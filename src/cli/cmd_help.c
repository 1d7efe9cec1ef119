/* tend help. */
#include "cli/cli.h"
#include "cli/help.h"

#include <stdio.h>

static struct {
    bool man;
} args;

static const struct option options[] = {
    OPTION("man", 0, NULL, OPTION_FLAG, "every command as scdoc source, as in the manual page",
           &args.man),
    OPTION_END,
};

static int no_command(struct cli *cli, const struct command *const *table, const char *path,
                      const char *name)
{
    const char *blank = *path ? " " : "";
    const char *near = table ? command_near(table, name) : NULL;
    if (near)
        return cli_fail(cli, TEND_EINVAL,
                        "help: there is no command \"%s%s%s\"; did you mean %s%s%s?", path, blank,
                        name, path, blank, near);
    return cli_fail(cli, TEND_EINVAL,
                    "help: there is no command \"%s%s%s\"; 'tend help' lists them", path, blank,
                    name);
}

static int run(struct cli *cli, int argc, char **argv)
{
    if (args.man) {
        help_manual(cli);
        return EXIT_DONE;
    }
    if (argc == 0) {
        help_overview(cli);
        return EXIT_DONE;
    }
    const struct command *const *table = all_commands;
    const struct command *command = NULL;
    char path[64] = "";
    size_t len = 0;
    for (int i = 0; i < argc; i++) {
        command = table ? command_find(table, argv[i]) : NULL;
        if (!command)
            return no_command(cli, table, path, argv[i]);
        int added = snprintf(path + len, sizeof path - len, "%s%s", i ? " " : "", command->name);
        len += (size_t)added;
        table = command->subcommands;
    }
    help_command(cli, command, path);
    return EXIT_DONE;
}

const struct command cmd_help = {
    .name = "help",
    .group = "Help",
    .form = "[COMMAND]",
    .text = "explain tend or one of its commands",
    .options = options,
    .args_max = 2,
    .run = run,
};
