/* See redacted.h. */
#include "cli/redacted.h"

#include "base/arena.h"
#include "base/err.h"
#include "cli/cli.h"
#include "run/json_redact.h"
#include "run/runner.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct cli *cli)
{
    return cli_fail(cli, TEND_ENOMEM, "out of memory");
}

const struct redactor *redacted_by(struct cli *cli, int *ret_status)
{
    static struct redactor *made;
    struct err err;
    int code = made ? 0 : runner_redactor(NULL, NULL, &made, &err);
    *ret_status = code < 0 ? cli_fail(cli, code, "%s: %s", cli->path, err.text) : EXIT_DONE;
    return code < 0 ? NULL : made;
}

static void note(struct cli *cli, const char *option)
{
    bool is_argument = option[0] >= 'A' && option[0] <= 'Z'; /* as the help writes it */
    cli_note(cli, "%s: %s%s holds what looks like a secret: " REDACT_MARK " is stored in its place",
             cli->path, is_argument ? "" : "--", option);
}

/* *ret is for free(). */
static int redact(struct cli *cli, const char *text, char **ret)
{
    struct arena arena;
    int status;
    const struct redactor *redactor = redacted_by(cli, &status);
    if (!redactor)
        return status;
    arena_init(&arena);
    const char *clean = redact_text(redactor, &arena, text);
    *ret = clean ? strdup(clean) : NULL;
    arena_done(&arena);
    return *ret ? EXIT_DONE : no_memory(cli);
}

int redacted_finds(struct cli *cli, const char *text, bool *ret)
{
    char *clean;
    int status = redact(cli, text, &clean);
    if (status != EXIT_DONE)
        return status;
    *ret = strcmp(clean, text) != 0;
    free(clean);
    return EXIT_DONE;
}

int redacted_text(struct cli *cli, const char *option, const char *text, const char **ret)
{
    char *clean;
    int status = redact(cli, text, &clean);
    if (status != EXIT_DONE)
        return status;
    if (strcmp(clean, text) != 0)
        note(cli, option);
    *ret = clean;
    return EXIT_DONE;
}

/* The bytes stay as they were given where there is nothing to replace. */
static int redact_value(struct cli *cli, const char *option, const json_t *value,
                        struct document *document)
{
    int status;
    const struct redactor *redactor = redacted_by(cli, &status);
    if (!redactor)
        return status;
    char *given = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    char *clean = json_redacted(redactor, value);
    if (!given || !clean) {
        status = no_memory(cli);
    } else if (strcmp(given, clean) != 0) {
        note(cli, option);
        free(document->text);
        document->text = clean;
        document->bytes = strlen(clean);
        clean = NULL;
    }
    free(clean);
    free(given);
    return status;
}

int redacted_document(struct cli *cli, const char *option, struct document *document)
{
    json_error_t error;
    json_t *value = json_loadb(document->text, document->bytes, JSON_DECODE_ANY, &error);
    if (!value) /* a number of more than 64 bits? */
        value = json_loadb(document->text, document->bytes,
                           JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (!value)
        return cli_fail(cli, TEND_EINVAL, "%s: --%s: %s", cli->path, option, error.text);
    int status = redact_value(cli, option, value, document);
    json_decref(value);
    return status;
}
