/* See act.h. */
#include "cli/act.h"

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/queue_text.h"

#include <inttypes.h>
#include <stdlib.h>

struct tally {
    int64_t changed;
    int64_t follower_count;
    struct buf followers; /* ids of jobs, with commas; not in a dry run */
    int status;           /* of the first job that was refused */
    struct buf refused;   /* JSON objects, for --json */
};

static void take_acted(struct tally *tally, struct tend_acted *acted)
{
    for (size_t i = 0; i < acted->follower_count; i++)
        buf_printf(&tally->followers, "%s%" PRId64, tally->followers.len > 0 ? "," : "",
                   acted->followers[i]);
    tally->follower_count += (int64_t)acted->follower_count;
    tally->changed += acted->count;
    tend_acted_free(acted);
}

enum { NAMED_BYTES = 1000 }; /* of ids in a note; --json has them all */

/* Whoever ends a run need not know that the same work was submitted again meanwhile. */
static void note_followers(struct cli *cli, const struct act_args *args, const struct tally *tally)
{
    int64_t count = tally->follower_count;
    const char *job = count == 1 ? "a job" : "jobs";
    if (count > 0 && args->dry_run)
        cli_note(cli, "%s: %" PRId64 " %s for the end of a run would become %s", cli->path, count,
                 count == 1 ? "submission that waits" : "submissions that wait", job);
    else if (count > 0)
        cli_note(cli, "%s: %" PRId64 " %s that waited for the end of a run %s %s now: %.*s%s",
                 cli->path, count, count == 1 ? "submission" : "submissions",
                 count == 1 ? "is" : "are", job, NAMED_BYTES, tally->followers.data,
                 tally->followers.len > NAMED_BYTES ? "…" : "");
}

static void print_tally(struct cli *cli, const struct act *act, const struct act_args *args,
                        const struct tally *tally)
{
    struct buf *out = &cli->out;
    note_followers(cli, args, tally);
    if (!args->dry_run && tally->changed > 0)
        cli_did(cli, "%" PRId64 " %s %s, but the answer", tally->changed,
                tally->changed == 1 ? "job was" : "jobs were", act->done);
    if (cli->json) {
        json_open(out, NULL, '{');
        json_text(out, "action", cli->path);
        json_int(out, "count", tally->changed);
        json_bool(out, "dry_run", args->dry_run);
        json_int(out, "follower_count", tally->follower_count);
        buf_printf(out, ",\"followers\":[%s]", tally->followers.data);
        buf_printf(out, ",\"refused\":[%s]", tally->refused.data);
        json_close(out, '}');
        buf_putc(out, '\n');
        return;
    }
    buf_printf(out, "%" PRId64 " %s %s%s\n", tally->changed, tally->changed == 1 ? "job" : "jobs",
               args->dry_run ? "would be " : "", act->done);
}

/* A job that a real run would change. */
static void count_job(const struct act *act, const struct tend_job *job, struct tally *tally)
{
    tally->changed++;
    tally->follower_count += act->action == TEND_CANCEL && job->followed;
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
static int try_one(struct cli *cli, const struct act *act, int64_t id, struct tally *tally)
{
    struct tend_jobs *jobs;
    int code = tend_get(cli->store, id, &jobs);
    if (code < 0)
        return code;
    bool allowed = act->states & 1u << jobs->items[0].state;
    if (allowed)
        count_job(act, &jobs->items[0], tally);
    tend_jobs_free(jobs);
    return allowed ? 0 : TEND_ESTATE;
}

static int act_on_one(struct cli *cli, const struct act *act, int64_t id, const char *why,
                      struct tally *tally)
{
    struct tend_acted *acted;
    int code = tend_act_on_one(cli->store, act->action, id, NULL, why, &acted);
    if (code >= 0)
        take_acted(tally, acted);
    return code;
}

static int act_on_ids(struct cli *cli, const struct act *act, const struct act_args *args,
                      const int64_t *ids, int count, struct tally *tally)
{
    for (int i = 0; i < count; i++) {
        int code = args->dry_run ? try_one(cli, act, ids[i], tally)
                                 : act_on_one(cli, act, ids[i], args->why, tally);
        if (code >= 0)
            continue;
        if (code == TEND_ESTATE && args->dry_run)
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
                          struct tally *tally)
{
    unsigned meant = act->many_states ? act->many_states : act->states;
    filter->states = filter->states ? filter->states & act->states : meant;
    for (bool last = filter->states == 0; !last;) {
        struct tend_jobs *jobs;
        int code = tend_list(cli->store, filter, &jobs);
        if (code < 0)
            return code;
        for (size_t i = 0; i < jobs->count; i++)
            count_job(act, &jobs->items[i], tally);
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
    struct tend_acted *acted = NULL;
    int code = args->dry_run
                   ? count_matching(cli, act, &filter, tally)
                   : tend_act_on_all(cli->store, act->action, &filter, NULL, args->why, &acted);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (acted)
        take_acted(tally, acted);
    if (tally->changed == 0 && filter.queue)
        queue_note_unknown(cli, filter.queue);
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
            "--all takes all %s jobs",
            cli->path, act->many_text ? act->many_text : act->state_text);
    struct tally tally = {.status = EXIT_DONE};
    buf_init(&tally.refused);
    buf_init(&tally.followers);
    int64_t *ids = NULL;
    int status = many ? EXIT_DONE : read_ids(cli, argc, argv, &ids);
    if (many)
        status = act_on_matching(cli, act, args, &tally);
    else if (ids)
        status = act_on_ids(cli, act, args, ids, argc, &tally);
    free(ids);
    buf_done(&tally.refused);
    buf_done(&tally.followers);
    return status;
}
