/* tend workspace: makes the workspace of a job again, from the store. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/disk_text.h"
#include "cli/job_work.h"
#include "cli/json_out.h"
#include "run/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const char *step, *at, *folder;
} args;

static const struct option options[] = {
    OPTION("step", 0, "STEP", OPTION_TEXT,
           "as it is before this step (default: after the last one "
           "that has succeeded)",
           &args.step),
    OPTION("at", 0, "FOLDER", OPTION_TEXT, "the folder to make (default job-ID in the current one)",
           &args.at),
    OPTION("folder", 0, "FOLDER", OPTION_TEXT,
           "of a worker whose copies of repositories are used (default: as of 'tend work')",
           &args.folder),
    OPTION_END,
};

/* The step before which the workspace is wanted, from 1. 0, or an exit status. */
static int find_step(struct cli *cli, const struct job_work *work, size_t *ret)
{
    int64_t id = work->source.job_id;
    *ret = work->done + 1;
    if (!args.step)
        return EXIT_DONE;
    const struct step_plan *step = spec_find_step(&work->plan, args.step);
    if (!step)
        return cli_fail(cli, TEND_ENOTFOUND, "job %" PRId64 " has no step \"%s\"", id, args.step);
    *ret = (size_t)(step - work->plan.steps) + 1;
    if (*ret > work->done + 1)
        return cli_fail(cli, TEND_ESTATE,
                        "job %" PRId64 " has not come to step \"%s\" yet: step \"%s\" before it "
                        "has not succeeded",
                        id, args.step, work->plan.steps[work->done].id);
    return EXIT_DONE;
}

/* NULL: nothing, or an empty folder, which the rename replaces at the end. */
static const char *what_is_there(const char *at)
{
    struct stat status;
    const char *slash = strrchr(at, '/');
    const char *name = slash ? slash + 1 : at;
    if (lstat(at, &status) < 0)
        return errno == ENOENT ? NULL : "";
    if (!S_ISDIR(status.st_mode) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return "";
    DIR *folder = opendir(at);
    bool empty = folder != NULL;
    for (struct dirent *entry; empty && (entry = readdir(folder)) != NULL;)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (folder)
        closedir(folder);
    return empty ? NULL : " and not empty";
}

/* Whether a folder, which need not be there yet, lies in the runner's: there, what no lease has is
 * removed. */
static bool is_in_run_folder(const char *folder)
{
    char path[PATH_MAX];
    char top[PATH_MAX];
    char found[PATH_MAX];
    snprintf(path, sizeof path, "%s", folder);
    while (!realpath(path, found)) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            snprintf(path, sizeof path, "%s", slash ? "/" : ".");
            continue;
        }
        *slash = '\0';
    }
    size_t len = realpath(disk_folder(args.folder), top) ? strlen(top) : 0;
    return len > 0 && strncmp(found, top, len) == 0 && (found[len] == '/' || found[len] == '\0');
}

/* Where the workspace is made first: beside its final place, so that it can be moved there. */
static int find_place(struct cli *cli, int64_t id, char at[PATH_MAX], char parent[PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "job-%" PRId64, id);
    int len = snprintf(at, PATH_MAX, "%s", args.at ? args.at : name);
    while (len > 1 && at[len - 1] == '/')
        at[--len] = '\0';
    if (len == 0 || len >= PATH_MAX - 64)
        return cli_fail(cli, TEND_EINVAL, "workspace: --at needs the name of a folder");
    const char *there = what_is_there(at);
    if (there)
        return cli_fail(cli, TEND_ECONFLICT, "%s is there already%s; give another folder with --at",
                        at, there);
    snprintf(parent, PATH_MAX, "%s", at);
    char *slash = strrchr(parent, '/');
    if (!slash)
        strcpy(parent, ".");
    else
        slash[slash == parent] = '\0';
    if (is_in_run_folder(parent))
        return cli_fail(cli, TEND_EINVAL,
                        "%s lies in the runner's folder %s, where it would be removed; give a "
                        "folder elsewhere with --at",
                        at, disk_folder(args.folder));
    return EXIT_DONE;
}

/* Its final name; what only tend needs beside a workspace goes. */
static int move_to(struct workspace *workspace, const char *at, struct err *err)
{
    if (rename(workspace->folder, at) < 0)
        return files_fail(err, "making", at, errno);
    return files_remove(workspace->private_folder, err);
}

static int make(struct cli *cli, struct job_work *work, size_t step, bool *ret_edited,
                char commit[GIT_ID_BYTES], char at[PATH_MAX])
{
    char parent[PATH_MAX];
    struct workspace_source source;
    struct workspace workspace;
    struct err err;
    int status = find_place(cli, work->source.job_id, at, parent);
    if (status != EXIT_DONE)
        return status;
    if (job_source_find(&work->source, &source, &err) < 0)
        return job_work_fail(cli, work, &err);
    int rc = workspace_make(&work->keeper, &source, parent, &workspace, &err);
    memcpy(commit, source.commit, GIT_ID_BYTES);
    workspace_source_done(&source);
    if (rc < 0)
        return job_work_fail(cli, work, &err);
    rc = job_source_fill(&work->source, &workspace, step, ret_edited, &err);
    if (rc == 0)
        rc = workspace_own_objects(&work->keeper, &workspace, &err);
    if (rc == 0)
        rc = move_to(&workspace, at, &err);
    if (rc < 0) {
        (void)workspace_remove(&work->keeper, &workspace, NULL);
        status = job_work_fail(cli, work, &err);
    }
    workspace_done(&workspace);
    return status;
}

static void print_made(struct cli *cli, const struct job_work *work, size_t step, bool edited,
                       const char *commit, const char *folder)
{
    const char *before = step <= work->plan.step_count ? work->plan.steps[step - 1].id : NULL;
    cli_did(cli, "the workspace was made at %s, but its name", folder);
    if (!cli->json) {
        buf_printf(&cli->out, "%s\n", folder);
        return;
    }
    json_open(&cli->out, NULL, '{');
    json_int(&cli->out, "job_id", work->source.job_id);
    json_text(&cli->out, "folder", folder);
    json_text(&cli->out, "commit", commit);
    json_int(&cli->out, "checkpoints", (int64_t)step - 1);
    json_text(&cli->out, "before_step", before);
    json_bool(&cli->out, "edited", edited);
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int64_t id;
    size_t step = 0;
    bool edited = false;
    char at[PATH_MAX];
    char commit[GIT_ID_BYTES];
    struct job_work work;
    struct err err;
    const char *runner_folder = disk_folder(args.folder);
    int status = argument_id(cli, argv[0], &id);
    if (status != EXIT_DONE)
        return status;
    int rc = job_work_read(cli->store, id, runner_folder, &work, &err);
    status = rc < 0 ? cli_fail(cli, rc, "%s", err.text) : find_step(cli, &work, &step);
    if (status == EXIT_DONE)
        status = make(cli, &work, step, &edited, commit, at);
    if (status == EXIT_DONE) {
        char *folder = realpath(at, NULL);
        print_made(cli, &work, step, edited, commit, folder ? folder : at);
        free(folder);
    }
    job_work_done(&work);
    return status;
}

const struct command cmd_workspace = {
    .name = "workspace",
    .group = "Running",
    .form = "ID",
    .text = "make the workspace of a job again, anywhere",
    .about =
        "Makes a git repository at the commit the job started from, with what its steps have "
        "changed, from the store, and prints its folder. The changes are there uncommitted; what an "
        "operator has changed for the next step is among them. The folder is yours: no worker uses "
        "or removes it, it has all objects of its history, and you may move it. It needs the "
        "repository of the job, by the path or URL of its payload, and says so when that cannot be "
        "reached from this machine.",
    .examples = "cd \"$(tend workspace 12)\"\n"
                "tend workspace 12 --step test --at /tmp/before-test",
    .options = options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run,
};
