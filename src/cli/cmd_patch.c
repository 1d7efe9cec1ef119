/* tend patch: what the steps of a job have changed, from the store. */
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "core/diffstat.h"

#include <inttypes.h>
#include <string.h>

static struct {
    const char *step;
    bool failed, stat;
} args;

static const struct option options[] = {
    OPTION("step", 0, "STEP", OPTION_TEXT, "only what this step changed, by its id", &args.step),
    OPTION("failed", 0, NULL, OPTION_FLAG,
           "what the last attempt that gave the job up had changed, without secrets", &args.failed),
    OPTION("stat", 0, NULL, OPTION_FLAG, "only the changed files, with the number of lines",
           &args.stat),
    OPTION_END,
};

/* One patch, as checkpoints and kept attempts have it. */
struct piece {
    int64_t step_index, number;
    const char *step_id, *changed_files;
    int64_t dropped_bytes;
};

/* --- printing --- */

static void put_stat(struct cli *cli, const struct piece *piece, const struct tend_patch *patch)
{
    struct diffstat_file file;
    const char *at = patch->data;
    const char *end = at + patch->bytes;
    struct buf *out = &cli->out;
    int64_t count = 0;
    buf_printf(out, "step %s:\n", piece->step_id);
    for (; at && diffstat_next(&at, end, &file); count++) {
        buf_printf(out, "  %c ", file.status);
        if (file.binary)
            buf_puts(out, "binary ");
        else
            buf_printf(out, "+%" PRId64 " -%" PRId64 " ", file.added, file.removed);
        buf_printf(out, "%.*s\n", (int)file.path_bytes, file.path);
    }
    if (count == 0)
        buf_puts(out, "  nothing\n");
}

static void put_base64(struct buf *out, const unsigned char *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        unsigned group = (unsigned)data[i] << 16;
        group |= i + 1 < bytes ? (unsigned)data[i + 1] << 8 : 0;
        group |= i + 2 < bytes ? data[i + 2] : 0;
        buf_putc(out, digits[group >> 18]);
        buf_putc(out, digits[group >> 12 & 63]);
        buf_putc(out, i + 1 < bytes ? digits[group >> 6 & 63] : '=');
        buf_putc(out, i + 2 < bytes ? digits[group & 63] : '=');
    }
}

/* A patch can have any bytes; JSON cannot. */
static void put_patch_json(struct buf *out, const struct tend_patch *patch)
{
    bool text = utf8_valid(patch->data, patch->bytes) &&
                (patch->bytes == 0 || memchr(patch->data, '\0', patch->bytes) == NULL);
    struct buf value;
    buf_init(&value);
    if (text)
        buf_json_string(&value, patch->data, patch->bytes);
    else {
        buf_putc(&value, '"');
        put_base64(&value, patch->data, patch->bytes);
        buf_putc(&value, '"');
    }
    json_text(out, "encoding", text ? "utf-8" : "base64");
    json_raw(out, "patch", value.data, value.len);
    out->failed |= value.failed;
    buf_done(&value);
}

static void put_stat_json(struct buf *out, const struct tend_patch *patch)
{
    struct diffstat_file file;
    const char *at = patch->data;
    const char *end = at + patch->bytes;
    json_open(out, "files", '[');
    while (at && diffstat_next(&at, end, &file)) {
        struct buf path;
        const char status[] = {file.status, '\0'};
        buf_init(&path);
        buf_append(&path, file.path, file.path_bytes);
        json_open(out, NULL, '{');
        json_text(out, "path", path.data);
        json_text(out, "status", status);
        json_int_or_null(out, "added", file.binary ? TEND_UNSET : file.added);
        json_int_or_null(out, "removed", file.binary ? TEND_UNSET : file.removed);
        json_close(out, '}');
        buf_done(&path);
    }
    json_close(out, ']');
}

static void put_json(struct cli *cli, const struct piece *piece, const struct tend_patch *patch)
{
    struct buf *out = &cli->out;
    json_open(out, NULL, '{');
    json_int(out, "step_index", piece->step_index);
    json_text(out, "step_id", piece->step_id);
    json_int_or_null(out, "number", piece->number > 0 ? piece->number : TEND_UNSET);
    json_int(out, "bytes", (int64_t)patch->bytes);
    json_int(out, "dropped_bytes", piece->dropped_bytes);
    json_raw(out, "changed_files", piece->changed_files,
             piece->changed_files ? strlen(piece->changed_files) : 0);
    if (args.stat)
        put_stat_json(out, patch);
    else
        put_patch_json(out, patch);
    json_close(out, '}');
}

/* Called with the first patch and not before: an error must leave standard output empty. */
static void open_document(struct cli *cli, int64_t id)
{
    if (!cli->json)
        return;
    json_open(&cli->out, NULL, '{');
    json_int(&cli->out, "job_id", id);
    json_open(&cli->out, "patches", '[');
}

static void close_document(struct cli *cli)
{
    if (!cli->json)
        return;
    json_close(&cli->out, ']');
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
}

/* 0, or an exit status. */
static int put(struct cli *cli, const struct piece *piece, const struct tend_patch *patch)
{
    if (cli->json)
        put_json(cli, piece, patch);
    else if (args.stat)
        put_stat(cli, piece, patch);
    else
        buf_append(&cli->out, patch->data, patch->bytes);
    if (piece->dropped_bytes > 0)
        cli_note(cli, "patch: the last %" PRId64 " bytes were too much to be kept",
                 piece->dropped_bytes);
    return cli_flush_if_large(cli);
}

/* --- what was checkpointed --- */

static int no_checkpoint(struct cli *cli, int64_t id, const struct tend_checkpoints *checkpoints)
{
    struct buf steps;
    buf_init(&steps);
    for (size_t i = 0; i < checkpoints->count; i++)
        if (checkpoints->items[i].step_index > 0)
            buf_printf(&steps, "%s%s", steps.len > 0 ? ", " : "", checkpoints->items[i].step_id);
    int status =
        steps.len == 0 ? cli_fail(cli, TEND_ENOTFOUND,
                                  "job %" PRId64 " has no patches: no step of it has succeeded", id)
        : args.step
            ? cli_fail(cli, TEND_ENOTFOUND,
                       "step \"%s\" of job %" PRId64 " has left no patch; those with a checkpoint "
                       "are: %s",
                       args.step, id, steps.data)
            : cli_fail(cli, TEND_ENOTFOUND,
                       "job %" PRId64 " has no patches: it has no git workspace", id);
    buf_done(&steps);
    return status;
}

static int print_checkpoint(struct cli *cli, int64_t id, const struct tend_checkpoint *checkpoint,
                            bool first)
{
    struct tend_patch *patch;
    const struct piece piece = {.step_index = checkpoint->step_index,
                                .number = checkpoint->number,
                                .step_id = checkpoint->step_id,
                                .changed_files = checkpoint->changed_files};
    int code = tend_checkpoint_patch(cli->store, id, checkpoint->step_index, &patch);
    if (code < 0)
        return cli_fail_store(cli, code);
    if (first)
        open_document(cli, id);
    int status = put(cli, &piece, patch);
    tend_patch_free(patch);
    return status;
}

static int print_checkpoints(struct cli *cli, int64_t id)
{
    struct tend_checkpoints *checkpoints;
    int status = EXIT_DONE;
    size_t printed = 0;
    int code = tend_checkpoints(cli->store, id, &checkpoints);
    if (code < 0)
        return cli_fail_store(cli, code);
    for (size_t i = 0; status == EXIT_DONE && i < checkpoints->count; i++) {
        const struct tend_checkpoint *checkpoint = &checkpoints->items[i];
        if (checkpoint->step_index == 0 || checkpoint->patch_bytes == TEND_UNSET ||
            (args.step && strcmp(args.step, checkpoint->step_id) != 0))
            continue;
        status = print_checkpoint(cli, id, checkpoint, printed == 0);
        printed++;
    }
    if (status == EXIT_DONE && printed == 0)
        status = no_checkpoint(cli, id, checkpoints);
    tend_checkpoints_free(checkpoints);
    return status;
}

/* --- what was kept of a failure --- */

static int print_kept(struct cli *cli, int64_t id, const struct tend_keep *keep)
{
    struct tend_patch *patch;
    const struct piece piece = {.step_index = keep->step_index,
                                .number = keep->number,
                                .step_id = keep->step_id,
                                .changed_files = keep->changed_files,
                                .dropped_bytes = keep->dropped_bytes};
    int code = tend_keep_patch(cli->store, id, keep->number, &patch);
    if (code < 0)
        return cli_fail_store(cli, code);
    open_document(cli, id);
    int status = put(cli, &piece, patch);
    tend_patch_free(patch);
    return status;
}

static int print_failed(struct cli *cli, int64_t id)
{
    struct tend_keeps *keeps;
    const struct tend_keep *newest = NULL;
    const char *folder = NULL; /* of an attempt whose worker was lost, and nobody took its patch */
    int code = tend_keeps(cli->store, id, &keeps);
    if (code < 0)
        return cli_fail_store(cli, code);
    for (size_t i = 0; i < keeps->count; i++) {
        const struct tend_keep *keep = &keeps->items[i];
        if (args.step && strcmp(args.step, keep->step_id) != 0)
            continue;
        if (keep->patch_bytes != TEND_UNSET)
            newest = keep;
        else if (keep->workspace && keep->there)
            folder = keep->workspace;
    }
    int status = newest   ? print_kept(cli, id, newest)
                 : folder ? cli_fail(cli, TEND_ENOTFOUND,
                                     "job %" PRId64 " has no patch of a failed attempt, but its "
                                     "workspace is in %s",
                                     id, folder)
                          : cli_fail(cli, TEND_ENOTFOUND,
                                     "job %" PRId64 " has no patch of a failed attempt%s%s: it has "
                                     "not failed, has changed nothing, or has no git workspace",
                                     id, args.step ? " of step " : "", args.step ? args.step : "");
    tend_keeps_free(keeps);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int64_t id;
    struct tend_jobs *job;
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    int code = tend_get(cli->store, id, &job);
    if (code < 0)
        return cli_fail_store(cli, code);
    tend_jobs_free(job);
    status = args.failed ? print_failed(cli, id) : print_checkpoints(cli, id);
    if (status == EXIT_DONE)
        close_document(cli);
    return status;
}

const struct command cmd_patch = {
    .name = "patch",
    .group = "Running",
    .form = "ID",
    .text = "what the steps of a job have changed in its workspace",
    .about =
        "Prints the patches of the steps that have succeeded, in their order, from the store: "
        "'git apply' brings them into a repository at the commit the job started from. With "
        "--failed it prints what the attempt that gave the job up had changed: that is for people, "
        "as secrets were taken out, files that are no text are only named, and the first MiB is "
        "kept. With --json one document "
        "{\"job_id\", \"patches\": [{\"step_index\", \"step_id\", \"number\", \"bytes\", "
        "\"dropped_bytes\", \"changed_files\", \"encoding\", \"patch\"}]}; encoding is base64 for "
        "patches that are not UTF-8; with --stat \"files\" stand in place of both.",
    .examples = "tend patch 12 | git apply\n"
                "tend patch 12 --step build --stat\n"
                "tend patch 12 --failed",
    .options = options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run,
};
