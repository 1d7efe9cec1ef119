/*
 * The tables as scdoc source, for docs/man/tend.1.scd; a test demands that the page has them as
 * they are. See help.h.
 */
#include "cli/cli.h"
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

/* scdoc gives * and _ a meaning; here they are letters. */
static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        /* A line end alone would be a blank there. */
        if (*text == '\n')
            buf_putc(out, '\n');
        if (strchr("\\*_", *text))
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

static void put_paragraph(struct buf *out, const char *text)
{
    put_escaped(out, text);
    buf_puts(out, "\n\n");
}

static void put_option(struct buf *out, const struct option *option)
{
    if (option->letter)
        buf_printf(out, "*-%c*, ", option->letter);
    buf_printf(out, "*--%s*", option->name);
    if (option->form) {
        bool optional = option->type == OPTION_WAIT;
        buf_puts(out, optional ? "[=_" : " _");
        put_escaped(out, option->form);
        buf_puts(out, optional ? "_]" : "_");
    }
    buf_puts(out, "\n\t");
    put_paragraph(out, option->text);
}

static void put_options(struct buf *out, const struct option *table)
{
    for (; table && table->name; table++)
        put_option(out, table);
}

static void put_command(struct buf *out, const struct command *command, const char *parent)
{
    buf_printf(out, "## tend %s%s%s", parent, *parent ? " " : "", command->name);
    if (command->form) {
        buf_putc(out, ' ');
        put_escaped(out, command->form);
    }
    buf_puts(out, "\n\n");
    put_paragraph(out, command->text);
    if (command->aliases) {
        buf_puts(out, "Also called: ");
        put_paragraph(out, command->aliases);
    }
    if (command->about)
        put_paragraph(out, command->about);
    put_options(out, command->options);
    if (command->more_options)
        put_options(out, command->more_options());
    if (command->examples)
        buf_printf(out, "Examples:\n\n```\n%s\n```\n\n", command->examples);
}

void help_manual(struct cli *cli)
{
    struct buf *out = &cli->out;
    buf_puts(out, "# OPTIONS OF EVERY COMMAND\n\n");
    put_options(out, global_options);
    buf_puts(out, "# COMMANDS\n\n");
    for (const struct command *const *at = all_commands; *at; at++) {
        if ((*at)->hidden)
            continue;
        put_command(out, *at, "");
        for (const struct command *const *sub = (*at)->subcommands; sub && *sub; sub++)
            put_command(out, *sub, (*at)->name);
    }
}
