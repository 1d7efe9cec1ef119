/* See act.h. */
#include "cli/act.h"

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"

#include <inttypes.h>
#include <stdlib.h>

struct tally {
    int64_t changed;
    int status;         /* of the first job that was refused */
    struct buf refused; /* JSON objects, for --json */
};

static void print_tally(struct cli *cli, const struct act *act, const struct act_args *args,
                        const struct tally *tally)
{
    struct buf *out = &cli->out;
    if (!args->dry_run && tally->changed > 0)
        cli_did(cli, "%" PRId64 " %s %s, but the answer", tally->changed,
                tally->changed == 1 ? "job was" : "jobs were", act->done);
    if (cli->json) {
        json_open(out, NULL, '{');
        json_text(out, "action", cli->path);
        json_int(out, "count", tally->changed);
        json_bool(out, "dry_run", args->dry_run);
        buf_printf(out, ",\"refused\":[%s]", tally->refused.data);
        json_close(out, '}');
        buf_putc(out, '\n');
        return;
    }
    buf_printf(out, "%s%" PRId64 " %s %s\n", args->dry_run ? "would be " : "", tally->changed,
               tally->changed == 1 ? "job" : "jobs", act->done);
}

/* ---- by id ---- */

static void refuse(struct cli *cli, struct tally *tally, int64_t id, int code)
{
    int status = exit_status_of(code);
    if (tally->status == EXIT_DONE)
        tally->status = status;
    if (!cli->json) {
        cli_fail_store(cli, code);
        return;
    }
    json_open(&tally->refused, NULL, '{');
    json_int(&tally->refused, "id", id);
    json_text(&tally->refused, "code", error_name(code));
    json_text(&tally->refused, "message", tend_errmsg(cli->store));
    json_close(&tally->refused, '}');
}

/* What a real run would answer, as far as the present state tells. */
static int try_one(struct cli *cli, const struct act *act, int64_t id)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, id, &jobs);
    if (code < 0)
        return code;
    bool allowed = act->states & 1u << jobs->items[0].state;
    tend_jobs_free(jobs);
    return allowed ? 0 : TEND_ESTATE;
}

/* The key under which something is remembered that becomes a job when this one has ended; to be
 * freed with the jobs. */
static const char *remembered_key(struct cli *cli, const struct act *act, int64_t id,
                                  struct tend_jobs **ret)
{
    *ret = NULL;
    if (act->action != TEND_CANCEL || tend_get(cli->store, id, ret) < 0)
        return NULL;
    return (*ret)->items[0].followed ? (*ret)->items[0].unique_key : NULL;
}

static int act_on_one(struct cli *cli, const struct act *act, int64_t id, const char *why)
{
    struct tend_jobs *before;
    const char *key = remembered_key(cli, act, id, &before);
    int code = tend_act(cli->store, act->action, id, NULL, why);
    if (code >= 0 && key)
        cli_note(cli,
                 "%s: what was submitted under key '%s' while job %" PRId64
                 " ran is a job of its own now; 'tend jobs' lists it",
                 cli->path, key, id);
    tend_jobs_free(before);
    return code;
}

static int act_on_ids(struct cli *cli, const struct act *act, const struct act_args *args,
                      const int64_t *ids, int count, struct tally *tally)
{
    for (int i = 0; i < count; i++) {
        int code =
            args->dry_run ? try_one(cli, act, ids[i]) : act_on_one(cli, act, ids[i], args->why);
        if (code >= 0)
            tally->changed++;
        else if (code == TEND_ESTATE && args->dry_run)
            cli_note(cli, "%s: job %" PRId64 " would be refused: only %s jobs can be %s", cli->path,
                     ids[i], act->state_text, act->done);
        else if (code == TEND_ENOTFOUND || code == TEND_ESTATE)
            refuse(cli, tally, ids[i], code);
        else
            return cli_fail_store(cli, code);
    }
    /* Where nothing was done the refusals say it all. */
    if (cli->json || tally->changed > 0 || tally->status == EXIT_DONE)
        print_tally(cli, act, args, tally);
    if (cli->json && tally->status != EXIT_DONE)
        cli_fail_as(
            cli, tally->status, tally->status == EXIT_NOT_FOUND ? TEND_ENOTFOUND : TEND_ESTATE,
            "%s: not all jobs could be %s; \"refused\" lists the others", cli->path, act->done);
    return tally->status;
}

static int read_ids(struct cli *cli, int argc, char **argv, int64_t **ret)
{
    int64_t *ids = calloc((size_t)argc + 1, sizeof *ids);
    if (!ids)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    for (int i = 0; i < argc; i++) {
        int status = argument_id(cli, argv[i], &ids[i]);
        if (status != EXIT_DONE) {
            free(ids);
            return status;
        }
    }
    *ret = ids;
    return EXIT_DONE;
}

/* ---- all that match ---- */

static int count_matching(struct cli *cli, const struct act *act, struct tend_filter *filter,
                          int64_t *ret_count)
{
    unsigned meant = act->many_states ? act->many_states : act->states;
    filter->states = filter->states ? filter->states & act->states : meant;
    *ret_count = 0;
    for (bool last = filter->states == 0; !last;) {
        struct tend_jobs *jobs;
        int code = tend_list(cli->store, filter, &jobs);
        if (code < 0)
            return code;
        *ret_count += (int64_t)jobs->count;
        last = jobs->count == 0;
        if (!last)
            filter->after_id = jobs->items[jobs->count - 1].id;
        tend_jobs_free(jobs);
    }
    return 0;
}

static int act_on_matching(struct cli *cli, const struct act *act, const struct act_args *args,
                           struct tally *tally)
{
    struct tend_filter filter;
    filter_fill(&args->filter, &filter);
    int code = args->dry_run ? count_matching(cli, act, &filter, &tally->changed)
                             : tend_act_on_all(cli->store, act->action, &filter, NULL, args->why,
                                               &tally->changed);
    if (code < 0)
        return cli_fail_store(cli, code);
    print_tally(cli, act, args, tally);
    return EXIT_DONE;
}

int act_run(struct cli *cli, const struct act *act, const struct act_args *args, int argc,
            char **argv)
{
    bool many = args->all || filter_given(&args->filter);
    if (argc > 0 && many)
        return cli_fail(cli, TEND_EINVAL,
                        "%s: give either ids or options that choose jobs, not both", cli->path);
    if (argc == 0 && !many)
        return cli_fail(
            cli, TEND_EINVAL,
            "%s: which jobs? give ids, or choose by --queue, --state, --kind, --tag, --older-than; "
            "--all takes every job",
            cli->path);
    struct tally tally = {.status = EXIT_DONE};
    buf_init(&tally.refused);
    int64_t *ids = NULL;
    int status = many ? EXIT_DONE : read_ids(cli, argc, argv, &ids);
    if (many)
        status = act_on_matching(cli, act, args, &tally);
    else if (ids)
        status = act_on_ids(cli, act, args, ids, argc, &tally);
    free(ids);
    buf_done(&tally.refused);
    return status;
}
