/*
 * What people write on the command line and the store keeps for all to read, without secrets: the
 * values of this process's secret variables, and what is known by name or shape (core/redact.h).
 *
 * The library stores what it is given; options with .redacted in their row (fail --text, complete
 * --result, --why…) pass here first. Payloads do not: they are the work itself.
 */
#ifndef CLI_REDACTED_H
#define CLI_REDACTED_H

#include <stdbool.h>
#include <stddef.h>

struct cli;
struct document;
struct redactor;

/* Made once, for the life of the process. NULL: *ret_status is the exit status, and it was said
 * why.
 */
const struct redactor *redacted_by(struct cli *cli, int *ret_status);

/* Whether something in the text looks like a secret. 0, or an exit status. */
int redacted_finds(struct cli *cli, const char *text, bool *ret);

/* Both say in a note when something was replaced; option is the name of the option, or of an
 * argument in capitals. *ret is for free(). 0, or an exit status. */
int redacted_text(struct cli *cli, const char *option, const char *text, const char **ret);
int redacted_document(struct cli *cli, const char *option, struct document *document);

#endif
