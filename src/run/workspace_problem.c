/* See workspace.h: what a failure of git means for the job. */
#include "base/buf.h"
#include "run/workspace_inner.h"

#include <errno.h>
#include <string.h>
#include <tend.h>

static const struct {
    const char *name;
    struct ending ending;
    enum failure_class declared;
} problems[] = {
    [WORKSPACE_FINE] = {"fine", {ENDED_EXIT, 0}, CLASS_NONE},
    [WORKSPACE_NOT_A_REPOSITORY] = {"not_a_repository", {ENDED_NOT_A_REPOSITORY, 0}, CLASS_NONE},
    [WORKSPACE_REF_MISSING] = {"ref_missing", {ENDED_REF_MISSING, 0}, CLASS_NONE},
    [WORKSPACE_PATCH_REFUSED] = {"patch_refused", {ENDED_PATCH_REFUSED, 0}, CLASS_NONE},
    [WORKSPACE_UNTAKEABLE] = {"untakeable", {ENDED_EXIT, 1}, CLASS_DETERMINISTIC_REPO},
    [WORKSPACE_TOO_LARGE] = {"too_large", {ENDED_EXIT, 1}, CLASS_DETERMINISTIC_REPO},
    [WORKSPACE_NOT_ALLOWED] = {"not_allowed", {ENDED_NOT_STARTED, EPERM}, CLASS_NONE},
    [WORKSPACE_GIT_MISSING] = {"git_missing", {ENDED_NOT_STARTED, ENOENT}, CLASS_NONE},
    [WORKSPACE_OUT_OF_REACH] = {"out_of_reach", {ENDED_NOT_STARTED, EHOSTUNREACH}, CLASS_NONE},
    [WORKSPACE_BUSY] = {"busy", {ENDED_NOT_STARTED, EBUSY}, CLASS_NONE},
    [WORKSPACE_NO_SPACE] = {"no_space", {ENDED_NOT_STARTED, ENOSPC}, CLASS_NONE},
    [WORKSPACE_NO_MEANS] = {"no_means", {ENDED_NOT_STARTED, EAGAIN}, CLASS_NONE},
    [WORKSPACE_OWN_FOLDER] = {"own_folder", {ENDED_NOT_STARTED, EIO}, CLASS_NONE},
    [WORKSPACE_INTERRUPTED] = {"interrupted", {ENDED_INTERRUPTED, 0}, CLASS_NONE},
    [WORKSPACE_BROKEN] = {"broken", {ENDED_NOT_STARTED, EIO}, CLASS_NONE},
};

const char *workspace_problem_name(enum workspace_problem problem)
{
    return problems[problem].name;
}

void workspace_problem_evidence(enum workspace_problem problem, struct evidence *evidence)
{
    evidence->ending = problems[problem].ending;
    evidence->declared = problems[problem].declared;
}

bool workspace_problem_lacks(enum workspace_problem problem)
{
    return problem == WORKSPACE_NO_SPACE || problem == WORKSPACE_NO_MEANS ||
           problem == WORKSPACE_OWN_FOLDER;
}

const char *workspace_problem_class(enum workspace_problem problem)
{
    struct evidence evidence = {0};
    struct classification verdict;
    if (problem == WORKSPACE_FINE)
        return "";
    workspace_problem_evidence(problem, &evidence);
    classify(NULL, &evidence, &verdict);
    return failure_class_name(verdict.class);
}

void workspace_keeper_init(struct workspace_keeper *keeper, const char *cache_folder)
{
    *keeper = (struct workspace_keeper){.limits = {.cancel_fd = -1},
                                        .cache_folder = cache_folder,
                                        .patch_max_bytes = WORKSPACE_PATCH_MAX_BYTES};
}

int workspace_fail(struct workspace_keeper *keeper, enum workspace_problem problem, int rc)
{
    keeper->problem = problem;
    return rc;
}

int workspace_file_fail(struct workspace_keeper *keeper, int rc)
{
    return workspace_fail(keeper,
                          rc == TEND_EFULL       ? WORKSPACE_NO_SPACE
                          : rc == TEND_ENOMEM    ? WORKSPACE_NO_MEANS
                          : rc == TEND_EREADONLY ? WORKSPACE_OWN_FOLDER
                                                 : WORKSPACE_BROKEN,
                          rc);
}

/* What git says of itself when it cannot or must not go on. */
static const struct {
    const char *text;
    enum workspace_problem problem;
} sayings[] = {
    {"Too many open files", WORKSPACE_NO_MEANS},
    {"Cannot allocate memory", WORKSPACE_NO_MEANS},
    {"Resource temporarily unavailable", WORKSPACE_NO_MEANS},
    {"dubious ownership", WORKSPACE_NOT_ALLOWED},
    {"' not allowed", WORKSPACE_NOT_ALLOWED}, /* transport 'ext' */
    {"strange hostname", WORKSPACE_NOT_ALLOWED},
    {"strange pathname", WORKSPACE_NOT_ALLOWED},
    {"is not a git command", WORKSPACE_NOT_A_REPOSITORY}, /* of an unknown transport */
    {"' is not supported", WORKSPACE_NOT_A_REPOSITORY},   /* protocol 'x' */
    {"not a git repository", WORKSPACE_NOT_A_REPOSITORY},
    {"does not appear to be a git repository", WORKSPACE_NOT_A_REPOSITORY},
    {"epository not found",
     WORKSPACE_NOT_A_REPOSITORY}, /* what hosts answer: Repository, ERROR: … */
    {"Authentication failed", WORKSPACE_NOT_ALLOWED},
    {"could not read Username", WORKSPACE_NOT_ALLOWED},
    {"could not read Password", WORKSPACE_NOT_ALLOWED},
    {"Host key verification failed", WORKSPACE_NOT_ALLOWED},
    {"ermission denied", WORKSPACE_NOT_ALLOWED},
    {"Read-only file system", WORKSPACE_NOT_ALLOWED},
};

static enum workspace_problem judge(const struct git_outcome *outcome, int rc)
{
    if (rc == TEND_EFULL)
        return WORKSPACE_NO_SPACE;
    if (rc == TEND_EBUSY)
        return WORKSPACE_BUSY;
    if (rc == TEND_EINTERRUPTED)
        return WORKSPACE_INTERRUPTED;
    if (outcome->end == GIT_MISSING)
        return WORKSPACE_GIT_MISSING;
    if (outcome->end == GIT_UNSTARTED)
        return WORKSPACE_NO_MEANS;
    if (outcome->end != GIT_FAILED)
        return WORKSPACE_BROKEN;
    for (size_t i = 0; i < sizeof sayings / sizeof sayings[0]; i++)
        if (git_said(outcome, sayings[i].text))
            return sayings[i].problem;
    return WORKSPACE_BROKEN;
}

/* What git says of an object that should be there and is not, or is cut. */
static bool misses_object(const struct git_outcome *outcome)
{
    static const char *const texts[] = {"failed to unpack tree object",
                                        "bad object",
                                        "missing object",
                                        "unable to read sha1 file",
                                        "unable to read tree",
                                        "unable to read object",
                                        "cannot read object",
                                        "could not parse",
                                        "not a tree object",
                                        "is corrupt",
                                        "unable to unpack"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (git_said(outcome, texts[i]))
            return true;
    return false;
}

int workspace_git(struct workspace_keeper *keeper, struct git_call *call,
                  struct git_outcome *ret_outcome, struct err *err)
{
    struct git_outcome own = {0};
    struct git_outcome *outcome = ret_outcome != NULL ? ret_outcome : &own;
    call->limits = &keeper->limits;
    int rc = git_run_patiently(call, outcome, err);
    keeper->misses_object = false;
    if (rc == 0)
        return 0;
    keeper->problem = judge(outcome, rc);
    keeper->misses_object = outcome->end == GIT_FAILED && misses_object(outcome);
    if (keeper->problem == WORKSPACE_NOT_A_REPOSITORY)
        rc = TEND_ENOTFOUND;
    if (keeper->problem == WORKSPACE_NOT_ALLOWED)
        rc = TEND_EREADONLY;
    if (err != NULL)
        err->code = rc;
    return rc;
}

int workspace_git_line(struct workspace_keeper *keeper, struct git_call *call,
                       struct git_outcome *ret_outcome, char *out, size_t size, struct err *err)
{
    struct buf output;
    buf_init(&output);
    call->output = &output;
    call->output_max_bytes = 65536;
    int rc = workspace_git(keeper, call, ret_outcome, err);
    while (output.len > 0 && output.data[output.len - 1] == '\n')
        output.data[--output.len] = '\0';
    if (rc == 0 && (output.len == 0 || output.len >= size))
        rc = workspace_fail(keeper, WORKSPACE_BROKEN,
                            err_set(err, TEND_EIO, "git %s answered %zu bytes, which is no answer",
                                    call->args[0], output.len));
    if (rc == 0)
        memcpy(out, output.data, output.len + 1);
    buf_done(&output);
    call->output = NULL;
    return rc;
}

int workspace_git_text(struct workspace_keeper *keeper, struct git_call *call, struct buf *out,
                       struct err *err)
{
    call->output = out;
    call->output_max_bytes = WORKSPACE_LIST_MAX_BYTES;
    return workspace_git(keeper, call, NULL, err);
}

struct git_call workspace_call(const struct workspace *workspace, const char *const *args)
{
    return (struct git_call){.folder = workspace->folder,
                             .args = args,
                             .git_dir = workspace->private_folder,
                             .work_tree = workspace->folder,
                             .hides_system = true,
                             .index_path = workspace->index_path};
}

struct git_call workspace_step_call(const struct workspace *workspace, const char *const *args)
{
    return (struct git_call){.folder = workspace->folder,
                             .args = args,
                             .git_dir = ".git", /* in that folder */
                             .work_tree = "."};
}
