/*
 * tend __complete WORD…: what may stand in place of the last word, for the scripts of
 * cmd_completion.c. A line each: candidate, tab, what it is; the line ":files" asks for file names.
 */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/store_place.h"

#include <string.h>

static void offer(struct cli *cli, const char *dashes, const char *name, size_t len,
                  const char *text)
{
    buf_printf(&cli->out, "%s%.*s\t%s\n", dashes, (int)len, name, text);
}

static void offer_commands(struct cli *cli, const struct command *const *table)
{
    for (; *table; table++)
        if (!(*table)->hidden)
            offer(cli, "", (*table)->name, strlen((*table)->name), (*table)->text);
}

static void offer_options(struct cli *cli, const struct option *table)
{
    for (; table && table->name; table++)
        offer(cli, "--", table->name, strlen(table->name), table->text);
}

static void offer_choices(struct cli *cli, const char *choices, const char *text)
{
    while (choices && *choices) {
        size_t len = strcspn(choices, "|");
        offer(cli, "", choices, len, text);
        choices += len + (choices[len] == '|');
    }
}

/* Names of queues, where there is a store to ask; silence otherwise. */
static void offer_queues(struct cli *cli)
{
    struct tend_options options;
    tend_options_init(&options);
    options.must_exist = 1;
    struct tend_stats *stats;
    if (store_place()->how != STORE_FOREIGN &&
        tend_open(&cli->store, store_place()->url, &options) == 0 &&
        tend_stats(cli->store, &stats) == 0) {
        for (size_t i = 0; i < stats->count; i++) {
            const char *name = stats->items[i].settings.name;
            offer(cli, "", name, strlen(name), "queue");
        }
        tend_stats_free(stats);
    }
}

static void offer_values(struct cli *cli, const struct option *option)
{
    if (option->choices)
        offer_choices(cli, option->choices, option->text);
    else if (option->form && strcmp(option->form, "QUEUE") == 0)
        offer_queues(cli);
    else if (option->type == OPTION_JSON || (option->form && strstr(option->form, "FILE")))
        buf_puts(&cli->out, ":files\n");
}

/* The option the word names when its value is the word behind it; NULL otherwise. */
static const struct option *option_awaiting(const struct command *command, const char *word)
{
    const struct option *option = NULL;
    if (strncmp(word, "--", 2) == 0 && !strchr(word, '='))
        option = option_find(command, word + 2, 0);
    else if (word[0] == '-' && word[1] && word[1] != '-' && !word[2])
        option = option_find(command, NULL, word[1]);
    bool takes = option && option->type != OPTION_FLAG && option->type != OPTION_WAIT;
    return takes ? option : NULL;
}

static int run(struct cli *cli, int argc, char **argv)
{
    const struct command *command = NULL;
    const struct command *const *table = all_commands;
    const struct option *awaiting = NULL;
    int arguments = 0; /* before the last word */
    for (int i = 0; i < argc - 1; i++) {
        if (awaiting) {
            if (awaiting->target == &globals.store_url)
                globals.store_url = argv[i];
            awaiting = NULL;
        } else if (argv[i][0] == '-') {
            awaiting = option_awaiting(command, argv[i]);
        } else if (table) {
            command = command_find(table, argv[i]);
            table = command ? command->subcommands : NULL;
        } else {
            arguments++;
        }
    }
    if (awaiting) {
        offer_values(cli, awaiting);
    } else if (argc > 0 && argv[argc - 1][0] == '-') {
        offer_options(cli, command ? command->options : NULL);
        offer_options(cli, command && command->more_options ? command->more_options() : NULL);
        offer_options(cli, global_options);
    } else if (table) {
        offer_commands(cli, table);
    } else if (command && command->choices) {
        offer_choices(cli, arguments == command->args_max - 1 ? command->choices : NULL,
                      command->text);
    } else if (command && command->form && strcmp(command->form, "FILE") == 0) {
        buf_puts(&cli->out, ":files\n");
    } else if (command && command->form && strchr(command->form, '|')) {
        offer_choices(cli, command->form, command->text);
    } else if (command && strcmp(command->name, "help") == 0) {
        offer_commands(cli, all_commands);
    }
    return EXIT_DONE;
}

const struct command cmd_complete_words = {
    .name = "__complete",
    .text = "candidates for the last word",
    .args_max = ARGS_ANY,
    .hidden = true,
    .raw = true,
    .run = run,
};
