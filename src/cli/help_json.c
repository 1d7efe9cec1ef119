/* Help for machines: the rows of the tables of command.h as JSON. */
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/json_out.h"

#include <string.h>

static void put_option(struct buf *out, const struct option *option)
{
    const char letter[] = {option->letter, '\0'};
    json_open(out, NULL, '{');
    json_text(out, "name", option->name);
    json_text(out, "letter", option->letter ? letter : NULL);
    json_text(out, "form", option->form);
    json_text(out, "text", option->text);
    json_bool(out, "required", option->required);
    json_bool(out, "repeatable", option->type == OPTION_LIST);
    json_close(out, '}');
}

static void put_options(struct buf *out, const struct option *table)
{
    for (; table && table->name; table++)
        put_option(out, table);
}

static void put_lines(struct buf *out, const char *key, const char *lines)
{
    json_open(out, key, '[');
    for (const char *at = lines ? lines : ""; *at;) {
        char line[256];
        size_t len = strcspn(at, "\n");
        size_t kept = len < sizeof line ? len : sizeof line - 1;
        memcpy(line, at, kept);
        line[kept] = '\0';
        json_text(out, NULL, line);
        at += len + (at[len] == '\n');
    }
    json_close(out, ']');
}

static void put_commands(struct buf *out, const struct command *const *table)
{
    json_open(out, "commands", '[');
    for (; table && *table; table++) {
        if ((*table)->hidden)
            continue;
        json_open(out, NULL, '{');
        json_text(out, "name", (*table)->name);
        json_text(out, "group", (*table)->group);
        json_text(out, "text", (*table)->text);
        json_close(out, '}');
    }
    json_close(out, ']');
}

void help_json_overview(struct cli *cli)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    put_commands(out, all_commands);
    json_open(out, "options", '[');
    put_options(out, global_options);
    json_close(out, ']');
    json_close(out, '}');
    buf_putc(out, '\n');
}

void help_json_command(struct cli *cli, const struct command *command, const char *path)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_text(out, "command", path);
    json_text(out, "aliases", command->aliases);
    json_text(out, "form", command->form);
    json_text(out, "text", command->text);
    json_text(out, "about", command->about);
    put_commands(out, command->subcommands);
    json_open(out, "options", '[');
    put_options(out, command->options);
    put_options(out, command->more_options ? command->more_options() : NULL);
    put_options(out, global_options);
    json_close(out, ']');
    put_lines(out, "examples", command->examples);
    json_close(out, '}');
    buf_putc(out, '\n');
}
