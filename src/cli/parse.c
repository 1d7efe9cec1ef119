/*
 * See parse.h. The usual rules: options anywhere, --name value, --name=value, -n value, -nvalue,
 * letters of flags together, -- ends the options. Long names are never abbreviated: a script would
 * break when a new option makes the abbreviation ambiguous. An option that takes one value is
 * refused when it is given again with another: which one is meant is not known. The same value
 * again is harmless, as from an alias of the shell.
 */
#include "cli/parse.h"

#include "base/suggest.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An option that was given, and with what. */
struct given {
    const char *name;
    const char *value; /* NULL: none */
};

struct reader {
    struct cli *cli;
    struct given *given; /* room for as many as there are words */
    size_t given_count;
    char **words;
    int count, at;
    struct parsed *parsed;
    bool dashes; /* -- was seen: no more options */
    bool help;   /* --help was seen: nothing else matters */
};

static bool name_in(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = names; at && *at;) {
        const char *end = strchrnul(at, ' ');
        if ((size_t)(end - at) == len && memcmp(at, name, len) == 0)
            return true;
        at = *end ? end + 1 : end;
    }
    return false;
}

const struct command *command_find(const struct command *const *table, const char *name)
{
    for (; *table; table++)
        if (strcmp((*table)->name, name) == 0 || name_in((*table)->aliases, name))
            return *table;
    return NULL;
}

const char *command_near(const struct command *const *table, const char *name)
{
    struct suggestion near;
    suggestion_init(&near, name);
    for (; *table; table++)
        if (!(*table)->hidden)
            suggestion_offer(&near, (*table)->name);
    return near.best;
}

static const struct option *find_in(const struct option *table, const char *name, char letter)
{
    for (; table && table->name; table++)
        if (name ? strcmp(table->name, name) == 0 : table->letter == letter)
            return table;
    return NULL;
}

const struct option *option_find(const struct command *command, const char *name, char letter)
{
    const struct option *found = command ? find_in(command->options, name, letter) : NULL;
    if (!found && command && command->more_options)
        found = find_in(command->more_options(), name, letter);
    return found ? found : find_in(global_options, name, letter);
}

static void offer_options(struct suggestion *near, const struct option *table)
{
    for (; table && table->name; table++)
        suggestion_offer(near, table->name);
}

const char *path_colon(const struct cli *cli)
{
    return *cli->path ? ": " : "";
}

static int unknown_option(struct reader *reader, const char *word, const char *name)
{
    const struct command *command = reader->parsed->command;
    struct suggestion near;
    suggestion_init(&near, name);
    if (command) {
        offer_options(&near, command->options);
        if (command->more_options)
            offer_options(&near, command->more_options());
    }
    offer_options(&near, global_options);
    struct cli *cli = reader->cli;
    if (near.best)
        return cli_fail(cli, TEND_EINVAL, "%s%sunknown option %s; did you mean --%s?", cli->path,
                        path_colon(cli), word, near.best);
    if (!command)
        return cli_fail(cli, TEND_EINVAL,
                        "unknown option %s; options of one command come after its name (tend "
                        "COMMAND %s …), 'tend help' lists those of every command",
                        word, word);
    return cli_fail(cli, TEND_EINVAL, "%s: unknown option %s; 'tend %s --help' lists them",
                    cli->path, word, cli->path);
}

static int needs_value(struct reader *reader, const struct option *option)
{
    return cli_fail(reader->cli, TEND_EINVAL, "%s%s--%s needs a value: --%s %s", reader->cli->path,
                    path_colon(reader->cli), option->name, option->name, option->form);
}

static bool same_value(const char *one, const char *other)
{
    return one && other ? strcmp(one, other) == 0 : one == other;
}

/* Notes a value; *again: the same was given before. */
static int note_given(struct reader *reader, const struct option *option, const char *value,
                      bool *again)
{
    *again = false;
    if (option->type == OPTION_FLAG || option->type == OPTION_LIST || option->type == OPTION_STATES)
        return EXIT_DONE;
    for (size_t i = 0; i < reader->given_count && !*again; i++) {
        const struct given *before = &reader->given[i];
        if (strcmp(before->name, option->name) != 0)
            continue;
        *again = same_value(before->value, value);
        if (!*again)
            return cli_fail(reader->cli, TEND_EINVAL,
                            "%s%s--%s was given twice, with different values; give it once",
                            reader->cli->path, path_colon(reader->cli), option->name);
    }
    if (!*again)
        reader->given[reader->given_count++] = (struct given){option->name, value};
    return EXIT_DONE;
}

/* value: what came with the option itself, or NULL. */
static int take_option(struct reader *reader, const struct option *option, const char *value)
{
    if (option->target == &globals.help) {
        reader->help = globals.help = true;
        return EXIT_DONE;
    }
    bool more = reader->at < reader->count;
    if (option->type == OPTION_FLAG) {
        const char *time = value ? value : more ? reader->words[reader->at] : NULL;
        if (option->timed_by && option_wait_takes(time))
            return cli_fail(reader->cli, TEND_EINVAL, "--%s of %s takes no time; give --%s %s",
                            option->name, reader->cli->path, option->timed_by, time);
        if (value)
            return cli_fail(reader->cli, TEND_EINVAL, "%s%s--%s takes no value", reader->cli->path,
                            path_colon(reader->cli), option->name);
    } else if (!value && option->type == OPTION_WAIT) {
        if (more && option_wait_takes(reader->words[reader->at]))
            value = reader->words[reader->at++];
    } else if (!value) {
        if (!more)
            return needs_value(reader, option);
        value = reader->words[reader->at++];
    }
    bool again;
    int status = note_given(reader, option, value, &again);
    return status != EXIT_DONE || again ? status : option_store(reader->cli, option, value);
}

static int take_long(struct reader *reader, char *word)
{
    char name[64];
    const char *equals = strchrnul(word + 2, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - word - 2), word + 2);
    const struct option *option = option_find(reader->parsed->command, name, 0);
    if (!option)
        return unknown_option(reader, word, name);
    return take_option(reader, option, *equals ? equals + 1 : NULL);
}

static int take_letters(struct reader *reader, char *word)
{
    for (char *at = word + 1; *at; at++) {
        const struct option *option = option_find(reader->parsed->command, NULL, *at);
        if (!option)
            return unknown_option(reader, word, "");
        bool takes_value = option->type != OPTION_FLAG;
        int status = take_option(reader, option, takes_value && at[1] ? at + 1 : NULL);
        if (status != EXIT_DONE || takes_value || reader->help)
            return status;
    }
    return EXIT_DONE;
}

static int unknown_command(struct reader *reader, const struct command *const *table,
                           const char *name)
{
    const char *near = command_near(table, name);
    const char *path = reader->cli->path;
    const char *blank = *path ? " " : "";
    if (near)
        return cli_fail(reader->cli, TEND_EINVAL,
                        "unknown command \"%s%s%s\"; did you mean %s%s%s?", path, blank, name, path,
                        blank, near);
    return cli_fail(reader->cli, TEND_EINVAL,
                    "unknown command \"%s%s%s\"; 'tend help%s%s' lists the commands", path, blank,
                    name, blank, path);
}

/* The first word is the command, the second may be its subcommand, all others are arguments. */
static int take_word(struct reader *reader, char *word)
{
    struct parsed *parsed = reader->parsed;
    const struct command *const *table = all_commands;
    if (parsed->command)
        table = parsed->command->subcommands;
    if (!table) {
        if (parsed->command->behind_dashes && !reader->dashes)
            return cli_fail(
                reader->cli, TEND_EINVAL,
                "%s: unexpected argument \"%s\"; give the command after --: tend %s -- %s",
                reader->cli->path, word, reader->cli->path, word);
        parsed->argv[parsed->argc++] = word;
        reader->cli->argc_before += !reader->dashes;
        return EXIT_DONE;
    }
    const struct command *found = command_find(table, word);
    if (!found)
        return unknown_command(reader, table, word);
    struct cli *cli = reader->cli;
    size_t len = strlen(cli->path);
    snprintf(cli->path + len, sizeof cli->path - len, "%s%s", len ? " " : "", found->name);
    cli->command = parsed->command = found;
    return EXIT_DONE;
}

static int take_words(struct reader *reader)
{
    int status = EXIT_DONE;
    while (status == EXIT_DONE && reader->at < reader->count && !reader->help) {
        char *word = reader->words[reader->at++];
        const struct command *command = reader->parsed->command;
        bool raw = command && command->raw;
        if (reader->dashes || raw || word[0] != '-' || word[1] == '\0')
            status = take_word(reader, word);
        else if (strcmp(word, "--") == 0)
            reader->dashes = true;
        else
            status = word[1] == '-' ? take_long(reader, word) : take_letters(reader, word);
    }
    return status;
}

/* Nothing after --: a variable was empty, or a command forgotten. */
static int check_dashes(struct reader *reader)
{
    const struct command *command = reader->parsed->command;
    if ((!command->behind_dashes && !command->then_command) || !reader->dashes ||
        reader->parsed->argc > reader->cli->argc_before)
        return EXIT_DONE;
    return cli_fail(reader->cli, TEND_EINVAL,
                    "%s: a command is missing after --; leave out the -- if none is meant",
                    reader->cli->path);
}

static int check_required(struct reader *reader)
{
    const struct option *option = reader->parsed->command->options;
    for (; option && option->name; option++) {
        if (option->required && !*(const char **)option->target)
            return cli_fail(reader->cli, TEND_EINVAL,
                            "%s: --%s %s is missing; see 'tend %s --help'", reader->cli->path,
                            option->name, option->form, reader->cli->path);
    }
    return EXIT_DONE;
}

static int check_arguments(struct reader *reader)
{
    const struct command *command = reader->parsed->command;
    struct cli *cli = reader->cli;
    int given = command->then_command ? cli->argc_before : reader->parsed->argc;
    if (command->subcommands)
        return cli_fail(cli, TEND_EINVAL,
                        "%s: say what to do with it; 'tend help %s' lists the ways", cli->path,
                        cli->path);
    if (given < command->args_min)
        return cli_fail(cli, TEND_EINVAL, "%s: an argument is missing; usage: tend %s %s",
                        cli->path, cli->path, command->form ? command->form : "");
    if (command->args_max != ARGS_ANY && given > command->args_max)
        return cli_fail(cli, TEND_EINVAL, "%s: unexpected argument \"%s\"; see 'tend %s --help'",
                        cli->path, reader->parsed->argv[command->args_max], cli->path);
    int status = check_dashes(reader);
    return status == EXIT_DONE ? check_required(reader) : status;
}

/* Errors are told in the form asked for, also those found before --json is reached. */
static void look_for_json(struct cli *cli, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            cli->json = true;
}

int parse_command_line(struct cli *cli, int argc, char **argv, struct parsed *ret)
{
    *ret = (struct parsed){.argv = calloc((size_t)argc + 1, sizeof *ret->argv)};
    if (!ret->argv)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    look_for_json(cli, argc, argv);
    struct reader reader = {.cli = cli, .words = argv, .count = argc, .at = 1, .parsed = ret};
    reader.given = calloc((size_t)argc + 1, sizeof *reader.given);
    if (!reader.given)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    int status = take_words(&reader);
    free(reader.given);
    if (status != EXIT_DONE || reader.help || globals.version || !ret->command)
        return status;
    cli->json = globals.json;
    return check_arguments(&reader);
}

void parsed_done(struct parsed *parsed)
{
    free(parsed->argv);
}
