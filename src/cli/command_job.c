/* See command_job.h. */
#include "cli/command_job.h"

#include "base/arena.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/redacted.h"
#include "core/redact.h"
#include "core/spec.h"
#include "run/job_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int command_job_check(struct cli *cli, const struct command_job_args *args, bool has_command)
{
    if (args->workspace && *args->workspace && args->no_folder)
        return cli_fail(cli, TEND_EINVAL,
                        "%s: --workspace and --no-folder exclude each other; give one", cli->path);
    if (!has_command && (args->env.count > 0 || args->env_from.count > 0))
        return cli_fail(cli, TEND_EINVAL,
                        "%s: --%s is for a command after --; a payload has its own \"env\"",
                        cli->path, args->env.count > 0 ? "env" : "env-from");
    if (!has_command && args->attempts > 0)
        return cli_fail(cli, TEND_EINVAL,
                        "%s: --attempts is for a command after --; a step of a plan has its own "
                        "\"attempts\", and --max-attempts is for the job",
                        cli->path);
    return EXIT_DONE;
}

/* --- variables --- */

/* Those that have been put, so that none is put twice. */
struct names {
    struct buf text; /* "NAME," each */
};

static int no_memory(struct cli *cli)
{
    return cli_fail(cli, TEND_ENOMEM, "out of memory");
}

static bool is_name(const char *text, size_t len)
{
    if (len == 0 || (text[0] >= '0' && text[0] <= '9'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!(text[i] == '_' || (text[i] >= '0' && text[i] <= '9') ||
              (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z')))
            return false;
    return true;
}

/* A name of len bytes, which belongs to the caller; NULL after telling what is wrong with it. */
static char *take_name(struct cli *cli, struct names *names, const char *text, size_t len,
                       int *ret_status)
{
    char *name = strndup(text, len);
    struct buf wanted;
    buf_init(&wanted);
    buf_printf(&wanted, ",%s,", name ? name : "");
    if (!name || wanted.failed)
        *ret_status = no_memory(cli);
    else if (!is_name(text, len))
        *ret_status =
            cli_fail(cli, TEND_EINVAL, "%s: \"%s\" is not the name of a variable", cli->path, name);
    else if (names->text.data && strstr(names->text.data, wanted.data))
        *ret_status = cli_fail(cli, TEND_EINVAL, "%s: the variable %s is given twice; give it once",
                               cli->path, name);
    if (*ret_status == EXIT_DONE)
        buf_puts(&names->text, wanted.data);
    buf_done(&wanted);
    if (*ret_status == EXIT_DONE)
        return name;
    free(name);
    return NULL;
}

static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

/* Secret by its name or by what it looks like. text: NAME=VALUE. */
static int check_harmless(struct cli *cli, const char *name, const char *text, const char *value)
{
    int status;
    const struct redactor *redactor = redacted_by(cli, &status);
    bool secret = redactor && redact_member_is_secret(redactor, name, value, is_number(value));
    if (redactor && !secret)
        status = redacted_finds(cli, text, &secret);
    if (status == EXIT_DONE && secret)
        status = cli_fail(cli, TEND_EINVAL,
                          "%s: --env %s=… looks like a secret, which would be stored for all to "
                          "read; set %s where the worker runs, and give --env-from %s",
                          cli->path, name, name, name);
    return status;
}

static int put_variable(struct cli *cli, struct names *names, const char *text, struct buf *out)
{
    const char *equals = strchr(text, '=');
    int status = EXIT_DONE;
    if (!equals)
        return cli_fail(cli, TEND_EINVAL,
                        "%s: --env: \"%s\" is not of the form NAME=VALUE; --env-from %s takes it "
                        "from the worker's environment",
                        cli->path, text, text);
    char *name = take_name(cli, names, text, (size_t)(equals - text), &status);
    if (!name)
        return status;
    status = check_harmless(cli, name, text, equals + 1);
    if (status == EXIT_DONE && !utf8_valid(equals + 1, strlen(equals + 1)))
        status = cli_fail(cli, TEND_EINVAL,
                          "%s: the value of the variable %s is not UTF-8 and cannot be kept",
                          cli->path, name);
    if (status == EXIT_DONE)
        json_text(out, name, equals + 1);
    free(name);
    return status;
}

/* {"NAME": {"env": "NAME"}} for each of a list with commas. */
static int put_names(struct cli *cli, struct names *names, const char *list, struct buf *out)
{
    int status = EXIT_DONE;
    for (const char *at = list; status == EXIT_DONE; at++) {
        size_t len = strcspn(at, ",");
        char *name = take_name(cli, names, at, len, &status);
        if (name) {
            json_open(out, name, '{');
            json_text(out, "env", name);
            json_close(out, '}');
        }
        free(name);
        at += len;
        if (*at == '\0')
            break;
    }
    return status;
}

static int put_env(struct cli *cli, const struct command_job_args *args, struct buf *out)
{
    struct names names;
    int status = EXIT_DONE;
    buf_init(&names.text);
    json_open(out, "env", '{');
    for (size_t i = 0; i < args->env.count && status == EXIT_DONE; i++)
        status = put_variable(cli, &names, args->env.items[i], out);
    for (size_t i = 0; i < args->env_from.count && status == EXIT_DONE; i++)
        status = put_names(cli, &names, args->env_from.items[i], out);
    json_close(out, '}');
    if (status == EXIT_DONE && names.text.failed)
        status = no_memory(cli);
    buf_done(&names.text);
    return status;
}

/* A command is stored as it is given: what looks like a secret in it is worth a word. */
static int warn_of_secrets(struct cli *cli, int argc, char **argv)
{
    struct buf line;
    bool secret = false;
    buf_init(&line);
    for (int i = 0; i < argc; i++)
        buf_printf(&line, "%s%s", i > 0 ? " " : "", argv[i]);
    int status = line.failed ? no_memory(cli) : redacted_finds(cli, line.data, &secret);
    if (secret)
        cli_note(cli,
                 "%s: the command holds what looks like a secret, and is stored as it is, for all "
                 "to read; --env-from NAME gives it the variable NAME of its worker",
                 cli->path);
    buf_done(&line);
    return status;
}

int command_job_plan(struct cli *cli, const struct command_job_args *args, int argc, char **argv,
                     struct buf *out)
{
    int status = warn_of_secrets(cli, argc, argv);
    if (status != EXIT_DONE)
        return status;
    json_open(out, NULL, '{');
    status = argument_words(cli, argc, argv, out);
    if (args->attempts > 0)
        json_int(out, "attempts", args->attempts);
    if (status == EXIT_DONE && args->env.count + args->env_from.count > 0)
        status = put_env(cli, args, out);
    json_close(out, '}');
    return status == EXIT_DONE && out->failed ? no_memory(cli) : status;
}

/* A folder that is not here may be where the worker is: then nothing is known of its files. */
void command_job_hint(struct cli *cli, const char *command, const char *folder)
{
    struct buf path;
    bool absolute = command[0] == '/';
    if (!strchr(command, '/') || (!absolute && (!folder || access(folder, F_OK) != 0)))
        return;
    buf_init(&path);
    buf_printf(&path, "%s%s%s", absolute ? "" : folder, absolute ? "" : "/", command);
    if (!path.failed && access(path.data, F_OK) != 0 && errno == ENOENT)
        cli_note(cli,
                 "hint: there is no file %s%s%s now; the job fails unless it is there when it runs",
                 command, absolute ? "" : " in ", absolute ? "" : folder);
    buf_done(&path);
}

/* --- folder --- */

bool command_job_has_near_repo(const char *payload)
{
    struct arena arena;
    struct job_plan plan;
    struct err err;
    arena_init(&arena);
    bool near = payload && spec_parse(payload, strlen(payload), &arena, &plan, &err) == SPEC_PLAN &&
                plan.workspace_repo && job_source_is_relative(plan.workspace_repo);
    arena_done(&arena);
    return near;
}

int command_job_folder(struct cli *cli, const struct command_job_args *args, bool is_local,
                       char room[PATH_MAX], const char **ret)
{
    *ret = NULL;
    /* A folder that is here is meant from here, wherever the worker is. */
    if (args->workspace && *args->workspace)
        *ret = realpath(args->workspace, room) ? room : args->workspace;
    if (args->workspace || args->no_folder || !is_local)
        return EXIT_DONE;
    if (!getcwd(room, PATH_MAX) || room[0] != '/')
        return cli_fail(cli, TEND_EINVAL,
                        "%s: the current folder, which the job needs, cannot be told: "
                        "%s; give --workspace FOLDER or --no-folder",
                        cli->path, strerror(errno));
    *ret = room;
    return EXIT_DONE;
}
