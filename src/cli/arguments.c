/* See arguments.h. */
#include "cli/arguments.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/json_step.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A number of at least 1 and nothing else up to `end`, which may be NUL or a separator. */
static bool read_number(const char *text, char end, int64_t *ret, const char **ret_end)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *stop;
    errno = 0;
    long long number = strtoll(text, &stop, 10);
    if (errno || *stop != end || number < 1)
        return false;
    *ret = number;
    *ret_end = stop;
    return true;
}

int argument_id(struct cli *cli, const char *text, int64_t *ret)
{
    const char *end;
    if (read_number(text, '\0', ret, &end))
        return EXIT_DONE;
    return cli_fail(cli, TEND_EINVAL,
                    "%s: \"%s\" is not a job id; ids are whole numbers, 'tend jobs' lists them",
                    cli->path, text);
}

int argument_words(struct cli *cli, int argc, char **argv, struct buf *out)
{
    json_open(out, "exec", '[');
    for (int i = 0; i < argc; i++) {
        if (!utf8_valid(argv[i], strlen(argv[i])))
            return cli_fail(cli, TEND_EINVAL,
                            "%s: word %d of the command is not UTF-8 and cannot be kept", cli->path,
                            i + 1);
        json_text(out, NULL, argv[i]);
    }
    json_close(out, ']');
    return EXIT_DONE;
}

int argument_lease(struct cli *cli, const char *text, struct tend_lease *ret)
{
    const char *end;
    struct tend_lease lease;
    if (read_number(text, ':', &lease.id, &end) && read_number(end + 1, '\0', &lease.token, &end)) {
        *ret = lease;
        return EXIT_DONE;
    }
    return cli_fail(cli, TEND_EINVAL,
                    "%s: \"%s\" is not a lease; give ID:TOKEN as 'tend claim' prints it, like 12:3",
                    cli->path, text);
}

int argument_leases(struct cli *cli, int argc, char **argv, struct tend_lease **ret)
{
    struct tend_lease *leases = calloc((size_t)argc + 1, sizeof *leases);
    if (!leases)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    for (int i = 0; i < argc; i++) {
        int status = argument_lease(cli, argv[i], &leases[i]);
        if (status != EXIT_DONE) {
            free(leases);
            return status;
        }
    }
    *ret = leases;
    return EXIT_DONE;
}

static void print_json(struct cli *cli, const struct tend_lease *leases, const int *each,
                       size_t count, const struct tend_controls *controls)
{
    json_open(&cli->out, NULL, '{');
    json_open(&cli->out, "leases", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&cli->out, NULL, '{');
        json_int(&cli->out, "id", leases[i].id);
        json_int(&cli->out, "token", leases[i].token);
        json_bool(&cli->out, "ok", each[i] == 0);
        json_text(&cli->out, "code", each[i] == 0 ? NULL : error_name(each[i]));
        if (controls && each[i] == 0)
            json_live_control(&cli->out, "liveControl", controls, leases[i].id);
        json_close(&cli->out, '}');
    }
    json_close(&cli->out, ']');
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
}

int leases_report(struct cli *cli, int code, const struct tend_lease *leases, const int *each,
                  size_t count, const char *done)
{
    return leases_report_controls(cli, code, leases, each, count, done, NULL);
}

/* The same was asked for before, otherwise. */
static void tell_conflict(struct cli *cli, struct tend_lease lease, const char *done)
{
    struct tend_jobs *jobs;
    if (strcmp(done, "completed") == 0) {
        cli_fail(cli, TEND_ECONFLICT,
                 "%s: job %" PRId64 " is done with another result, which stays; 'tend show %" PRId64
                 "' shows it",
                 cli->path, lease.id, lease.id);
        return;
    }
    int code = tend_get(cli->store, lease.id, &jobs);
    cli_fail(cli, TEND_ECONFLICT,
             "%s: job %" PRId64 " was %s before, with other options; it is %s, and nothing was "
             "changed; 'tend show %" PRId64 "' shows it",
             cli->path, lease.id, done,
             code < 0 ? "as that has left it" : tend_state_name(jobs->items[0].state), lease.id);
    if (code >= 0)
        tend_jobs_free(jobs);
}

static void tell_lost(struct cli *cli, struct tend_lease lease)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, lease.id, &jobs);
    if (code >= 0)
        tend_jobs_free(jobs);
    if (code == TEND_ENOTFOUND)
        cli_fail(cli, TEND_ELEASELOST,
                 "%s: the lease %" PRId64 ":%" PRId64 " is not held: there is no job %" PRId64
                 ", or no longer; stop work on it",
                 cli->path, lease.id, lease.token, lease.id);
    else
        cli_fail(cli, TEND_ELEASELOST,
                 "%s: the lease %" PRId64 ":%" PRId64
                 " is no longer held; stop work on the job, 'tend show %" PRId64
                 "' tells what became of it",
                 cli->path, lease.id, lease.token, lease.id);
}

int leases_report_controls(struct cli *cli, int code, const struct tend_lease *leases,
                           const int *each, size_t count, const char *done,
                           const struct tend_controls *controls)
{
    if (code < 0 && code != TEND_ELEASELOST && code != TEND_ECONFLICT)
        return cli_fail_store(cli, code);
    size_t refused = 0;
    for (size_t i = 0; i < count; i++) {
        if (each[i] != 0)
            refused++;
        else if (!cli->json)
            buf_printf(&cli->out, "%" PRId64 " %s\n", leases[i].id, done);
    }
    if (refused < count)
        cli_did(cli, "%zu of %zu lease%s %s %s, but the answer", count - refused, count,
                plural((int64_t)count), count - refused == 1 ? "was" : "were", done);
    if (cli->json) {
        print_json(cli, leases, each, count, controls);
        return refused == 0 ? EXIT_DONE
                            : cli_fail(cli, code, "%s: %zu of %zu lease%s %s refused%s because: %s",
                                       cli->path, refused, count, plural((int64_t)count),
                                       refused == 1 ? "is" : "are",
                                       refused == 1 ? "" : ", the first", tend_errmsg(cli->store));
    }
    for (size_t i = 0; i < count; i++)
        if (each[i] == TEND_ECONFLICT)
            tell_conflict(cli, leases[i], done);
        else if (each[i] != 0)
            tell_lost(cli, leases[i]);
    return refused == 0 ? EXIT_DONE : EXIT_REFUSED;
}
