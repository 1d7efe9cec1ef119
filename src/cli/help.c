/* See help.h. */
#include "cli/help.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>

enum { NAME_COLUMN = 14, OPTION_COLUMN = 26, MARGIN = 80 };

static void heading(struct cli *cli, const char *title)
{
    buf_printf(&cli->out, "\n%s%s%s\n", color_on(cli, COLOR_BOLD), title,
               color_off(cli, COLOR_BOLD));
}

/* Words of text from column `indent` on, broken at blanks before MARGIN; one line end at the end.
 */
static void put_wrapped(struct buf *out, const char *text, size_t indent)
{
    size_t column = indent;
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, " \n");
        size_t width = text_width(at, len);
        if (column > indent && column + 1 + width > MARGIN) {
            buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            buf_putc(out, ' ');
            column++;
        }
        buf_append(out, at, len);
        column += width;
        at += len;
        if (*at == '\n') {
            buf_printf(out, "\n%*s", at[1] ? (int)indent : 0, "");
            column = indent;
        }
        at += strspn(at, " \n");
    }
    buf_putc(out, '\n');
}

/* A name on the left, text on the right; a long name gets a line of its own. */
static void put_entry(struct cli *cli, const char *name, const char *text, size_t indent)
{
    size_t width = text_width(name, strlen(name));
    buf_printf(&cli->out, "  %s", name);
    if (width + 4 > indent)
        buf_printf(&cli->out, "\n%*s", (int)indent, "");
    else
        buf_printf(&cli->out, "%*s", (int)(indent - width - 2), "");
    put_wrapped(&cli->out, text, indent);
}

static void put_option(struct cli *cli, const struct option *option)
{
    char name[128];
    char letter[8] = "    ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    if (option->type == OPTION_WAIT)
        snprintf(name, sizeof name, "%s--%s[=%s]", letter, option->name, option->form);
    else
        snprintf(name, sizeof name, "%s--%s%s%s", letter, option->name, option->form ? " " : "",
                 option->form ? option->form : "");
    put_entry(cli, name, option->text, OPTION_COLUMN);
}

static void put_options(struct cli *cli, const struct option *table)
{
    for (; table && table->name; table++)
        put_option(cli, table);
}

static void put_commands(struct cli *cli, const struct command *const *table, const char *group)
{
    for (; *table; table++)
        if (!(*table)->hidden && (!group || strcmp((*table)->group, group) == 0))
            put_entry(cli, (*table)->name, (*table)->text, NAME_COLUMN);
}

void help_overview(struct cli *cli)
{
    if (cli->json) {
        help_json_overview(cli);
        return;
    }
    buf_puts(&cli->out, "tend keeps work moving: durable jobs under leases that heal themselves.\n"
                        "\nusage: tend COMMAND [OPTIONS] [ARGUMENTS]\n");
    const char *last = "";
    for (const struct command *const *at = all_commands; *at; at++) {
        const char *group = (*at)->group;
        if ((*at)->hidden || strcmp(group, last) == 0)
            continue;
        heading(cli, group);
        put_commands(cli, all_commands, group);
        last = group;
    }
    heading(cli, "Options of every command");
    put_options(cli, global_options);
    buf_puts(&cli->out, "\n'tend COMMAND --help' explains a command; 'man tend' all of them.\n");
}

static void put_usage(struct cli *cli, const struct command *command, const char *path)
{
    buf_printf(&cli->out, "usage: tend %s", path);
    if (command->options || command->more_options)
        buf_puts(&cli->out, " [OPTIONS]");
    if (command->subcommands)
        buf_puts(&cli->out, " COMMAND");
    if (command->form)
        buf_printf(&cli->out, " %s", command->form);
    buf_putc(&cli->out, '\n');
}

void help_command(struct cli *cli, const struct command *command, const char *path)
{
    if (cli->json) {
        help_json_command(cli, command, path);
        return;
    }
    put_usage(cli, command, path);
    if (command->aliases)
        buf_printf(&cli->out, "also called: %s\n", command->aliases);
    buf_putc(&cli->out, '\n');
    put_wrapped(&cli->out, command->text, 0);
    if (command->about) {
        buf_putc(&cli->out, '\n');
        put_wrapped(&cli->out, command->about, 0);
    }
    if (command->subcommands) {
        heading(cli, "Commands");
        put_commands(cli, command->subcommands, NULL);
    }
    if (command->options || command->more_options) {
        heading(cli, "Options");
        put_options(cli, command->options);
        if (command->more_options)
            put_options(cli, command->more_options());
    }
    heading(cli, "Options of every command");
    put_options(cli, global_options);
    if (command->examples) {
        heading(cli, "Examples");
        for (const char *at = command->examples; *at;) {
            const char *end = strchrnul(at, '\n');
            buf_printf(&cli->out, "  %.*s\n", (int)(end - at), at);
            at = *end ? end + 1 : end;
        }
    }
}
