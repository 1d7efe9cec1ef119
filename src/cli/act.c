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
    int code;             /* why the first job was refused; 0: none was */
    int64_t left_count;   /* chosen by options, and left out because of their keys */
    struct buf left;      /* their ids, with commas */
    struct buf refused;   /* JSON objects, for --json */
};

static void put_id(struct buf *ids, int64_t id)
{
    buf_printf(ids, "%s%" PRId64, ids->len > 0 ? "," : "", id);
}

static void take_acted(struct tally *tally, struct tend_acted *acted)
{
    for (size_t i = 0; acted->followers && i < acted->follower_count; i++)
        put_id(&tally->followers, acted->followers[i]);
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

/* Whoever chooses by options is told how many were chosen in vain. */
static void note_left(struct cli *cli, const struct act_args *args, const struct tally *tally)
{
    bool one = tally->left_count == 1;
    if (tally->left_count > 0)
        cli_note(cli,
                 "%s: %" PRId64 " %s %s %s, because another job that has not finished %s %s: "
                 "%.*s%s",
                 cli->path, tally->left_count, one ? "job" : "jobs",
                 args->dry_run ? "would stay"
                 : one         ? "stays"
                               : "stay",
                 one ? "as it is" : "as they are", args->dry_run ? "would have" : "has",
                 one ? "its unique key" : "their unique key", NAMED_BYTES, tally->left.data,
                 tally->left.len > NAMED_BYTES ? "…" : "");
}

static void print_tally(struct cli *cli, const struct act *act, const struct act_args *args,
                        const struct tally *tally)
{
    struct buf *out = &cli->out;
    note_followers(cli, args, tally);
    note_left(cli, args, tally);
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

static void put_refused(struct tally *tally, int64_t id, int code, const char *text)
{
    json_open(&tally->refused, NULL, '{');
    json_int(&tally->refused, "id", id);
    json_text(&tally->refused, "code", error_name(code));
    json_text(&tally->refused, "message", text);
    json_close(&tally->refused, '}');
}

/* ---- by id ---- */

static void refuse(struct cli *cli, struct tally *tally, int64_t id, int code, const char *text)
{
    if (tally->code == 0)
        tally->code = code;
    if (cli->json)
        put_refused(tally, id, code, text);
    else
        cli_fail(cli, code, "%s", text);
}

static int act_on_one(struct cli *cli, const struct act *act, int64_t id, const char *why,
                      struct tally *tally)
{
    struct tend_acted *acted;
    int code = tend_act_on_one(cli->store, act->action, id, NULL, why, &acted);
    if (code == TEND_ENOTFOUND || code == TEND_ESTATE || code == TEND_ECONFLICT) {
        refuse(cli, tally, id, code, tend_errmsg(cli->store));
        return 0;
    }
    if (code >= 0)
        take_acted(tally, acted);
    return code;
}

/* What a real run would answer, as far as the present state tells. */
static int try_ids(struct cli *cli, const struct act *act, const int64_t *ids, int count,
                   struct tally *tally)
{
    struct tend_acted *acted;
    int code = tend_act_check(cli->store, act->action, ids, (size_t)count, &acted);
    if (code < 0)
        return code;
    for (size_t i = 0; i < acted->refused_count; i++) {
        const struct tend_refused *refused = &acted->refused[i];
        if (refused->code == TEND_ENOTFOUND) {
            refuse(cli, tally, refused->id, refused->code, refused->text);
            continue;
        }
        put_refused(tally, refused->id, refused->code, refused->text);
        cli_note(cli, "%s: job %" PRId64 " would be refused: %s", cli->path, refused->id,
                 refused->text);
    }
    take_acted(tally, acted);
    return 0;
}

/* Of several with one key the newest is started over, as of those that options choose: the others
 * are refused before it is their turn. NULL: nothing is against this one. */
static const struct tend_refused *find_outdone(const struct tend_acted *checked, int64_t id)
{
    for (size_t i = 0; i < checked->refused_count; i++)
        if (checked->refused[i].id == id && checked->refused[i].code == TEND_ECONFLICT)
            return &checked->refused[i];
    return NULL;
}

static int do_ids(struct cli *cli, const struct act *act, const struct act_args *args,
                  const int64_t *ids, int count, struct tally *tally)
{
    struct tend_acted *checked = NULL;
    int code = 0;
    if (act->action == TEND_REDRIVE && count > 1)
        code = tend_act_check(cli->store, act->action, ids, (size_t)count, &checked);
    for (int i = 0; code >= 0 && i < count; i++) {
        const struct tend_refused *outdone = checked ? find_outdone(checked, ids[i]) : NULL;
        if (outdone)
            refuse(cli, tally, ids[i], outdone->code, outdone->text);
        else
            code = act_on_one(cli, act, ids[i], args->why, tally);
    }
    tend_acted_free(checked);
    return code;
}

static int act_on_ids(struct cli *cli, const struct act *act, const struct act_args *args,
                      const int64_t *ids, int count, struct tally *tally)
{
    int code = args->dry_run ? try_ids(cli, act, ids, count, tally)
                             : do_ids(cli, act, args, ids, count, tally);
    if (code < 0)
        return cli_fail_store(cli, code);
    int status = exit_status_of(tally->code);
    /* Where nothing was done the refusals say it all. */
    if (cli->json || tally->changed > 0 || status == EXIT_DONE)
        print_tally(cli, act, args, tally);
    if (cli->json && status != EXIT_DONE)
        cli_fail(cli, tally->code, "%s: not all jobs could be %s; \"refused\" lists the others",
                 cli->path, act->done);
    return status;
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

static int act_on_matching(struct cli *cli, const struct act *act, const struct act_args *args,
                           struct tally *tally)
{
    struct tend_filter filter;
    filter_fill(&args->filter, &filter);
    struct tend_acted *acted;
    int code = args->dry_run
                   ? tend_act_count(cli->store, act->action, &filter, &acted)
                   : tend_act_on_all(cli->store, act->action, &filter, NULL, args->why, &acted);
    if (code < 0)
        return cli_fail_store(cli, code);
    tally->left_count = (int64_t)acted->refused_count;
    for (size_t i = 0; i < acted->refused_count; i++) {
        const struct tend_refused *refused = &acted->refused[i];
        put_id(&tally->left, refused->id);
        put_refused(tally, refused->id, refused->code, refused->text);
    }
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
            cli->path, act->all_text);
    struct tally tally = {.code = 0};
    buf_init(&tally.left);
    buf_init(&tally.refused);
    buf_init(&tally.followers);
    int64_t *ids = NULL;
    int status = many ? EXIT_DONE : read_ids(cli, argc, argv, &ids);
    if (many)
        status = act_on_matching(cli, act, args, &tally);
    else if (ids)
        status = act_on_ids(cli, act, args, ids, argc, &tally);
    free(ids);
    buf_done(&tally.left);
    buf_done(&tally.refused);
    buf_done(&tally.followers);
    return status;
}
