/*
 * What a workspace costs: to find the commit and make a workspace of it, against `git worktree add`
 * for the same commit. Both sides take turns, and what was written before is on the disk before the
 * clock starts. The first workspace, which makes the copy of the repository too, is shown apart.
 */
#include "run/workspace.h"
#include "bench/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 7, QUICK_ROUNDS = 2, QUICK_PART = 50, FILE_BYTES = 2048, FOLDERS = 200 };

struct place_of_work {
    char folder[512];
    char repo[600], cache[600], below[600], worktree[600];
};

static int shell(const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return system(line) == 0 ? 0 : bench_fail("this failed: %.400s", line);
}

/* --- a repository --- */

static uint64_t next_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void begin_commit(FILE *out, size_t number)
{
    fprintf(out,
            "commit refs/heads/main\ncommitter bench <bench@example.org> %zu +0000\ndata 1\nx\n",
            1700000000 + number);
}

/* As source code: lines that other files have, too. */
static void put_source_file(FILE *out, size_t number, uint64_t *state)
{
    static const char *const words[] = {"if (", "value", ") {\n", "return ", "}\n", "int ", "; "};
    char text[FILE_BYTES + 64];
    size_t len = (size_t)snprintf(text, sizeof text, "// file %zu\n", number);
    while (len < FILE_BYTES)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", words[next_number(state) % 7]);
    fprintf(out, "M 100644 inline d%zu/f%zu.c\ndata %zu\n", number % FOLDERS, number, len);
    fwrite(text, 1, len, out);
    fputc('\n', out);
}

/* A mebibyte that nothing makes smaller. */
static void put_large_file(FILE *out, uint64_t *state)
{
    static uint64_t data[(1 << 20) / sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = next_number(state);
    fprintf(out, "M 100644 inline large\ndata %zu\n", sizeof data);
    fwrite(data, 1, sizeof data, out);
    fputc('\n', out);
}

static int write_history(struct bench *bench, FILE *out, size_t files, size_t history_mib)
{
    uint64_t state = 88172645463325252u;
    begin_commit(out, 0);
    for (size_t i = 0; i < files; i++)
        put_source_file(out, i, &state);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < history_mib; i++) {
        begin_commit(out, i + 1);
        put_large_file(out, &state);
        rc = bench_progress(bench, (double)i, 2 * (double)history_mib);
    }
    begin_commit(out, history_mib + 1);
    fputs("D large\n", out);
    return rc;
}

static int make_repository(struct bench *bench, const struct place_of_work *place, size_t files,
                           size_t history_mib)
{
    char command[1024];
    sigset_t tick;
    if (shell("git init -q '%s' && git -C '%s' symbolic-ref HEAD refs/heads/main", place->repo,
              place->repo) < 0)
        return -1;
    snprintf(command, sizeof command, "git -C '%s' -c core.compression=1 fast-import --quiet",
             place->repo);
    /* The clock of the command line would cut short what is written to the stream. */
    sigemptyset(&tick);
    sigaddset(&tick, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &tick, NULL);
    FILE *out = popen(command, "we");
    int rc = out == NULL ? bench_fail("git cannot be started")
                         : write_history(bench, out, files, history_mib);
    if (out != NULL && pclose(out) != 0)
        rc = bench_fail("git fast-import failed");
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
    return rc;
}

/* --- both sides --- */

static void settle(const struct place_of_work *place)
{
    int fd = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)syncfs(fd);
        close(fd);
    }
}

static int time_worktree(const struct place_of_work *place, double *ret_ms)
{
    settle(place);
    double began = bench_seconds();
    if (shell("git -C '%s' worktree add -q --detach '%s' main", place->repo, place->worktree) < 0)
        return -1;
    *ret_ms = (bench_seconds() - began) * 1e3;
    return shell("git -C '%s' worktree remove --force '%s'", place->repo, place->worktree);
}

static int time_workspace(const struct place_of_work *place, double *ret_ms)
{
    struct workspace_keeper keeper;
    struct workspace_source source;
    struct workspace workspace;
    struct err err = {0};
    settle(place);
    double began = bench_seconds();
    workspace_keeper_init(&keeper, place->cache);
    if (workspace_resolve(&keeper, place->repo, "main", &source, &err) < 0)
        return bench_fail("%s", err.text);
    int rc = workspace_make(&keeper, &source, place->below, &workspace, &err);
    *ret_ms = (bench_seconds() - began) * 1e3;
    workspace_source_done(&source);
    if (rc < 0)
        return bench_fail("%s", err.text);
    rc = workspace_remove(&keeper, &workspace, &err);
    workspace_done(&workspace);
    return rc < 0 ? bench_fail("%s", err.text) : 0;
}

static void add_first(struct bench *bench, const struct bench_case *self, double raw, double ours)
{
    struct bench_result result = {.name = self->name,
                                  .unit = "ms",
                                  .raw = raw,
                                  .ours = ours,
                                  .ratio = ours / raw,
                                  .goal = GOAL_NONE};
    snprintf(result.what, sizeof result.what, "the first of it, with a new copy");
    bench_add(bench, result);
}

/* The first pair warms up: git has read everything, and the copy has been made. */
static int race(struct bench *bench, const struct bench_case *self,
                const struct place_of_work *place)
{
    double raw[ROUNDS] = {0};
    double ours[ROUNDS] = {0};
    double ratios[ROUNDS] = {0};
    double first[2] = {0};
    int rounds = bench->quick ? QUICK_ROUNDS : ROUNDS;
    int rc = time_worktree(place, &first[0]);
    if (rc == 0)
        rc = time_workspace(place, &first[1]);
    for (int i = 0; rc == 0 && i < rounds; i++) {
        rc = time_worktree(place, &raw[i]);
        if (rc == 0)
            rc = time_workspace(place, &ours[i]);
        if (rc < 0)
            break;
        ratios[i] = ours[i] / raw[i];
        rc = bench_progress(bench, rounds + i + 1, 2 * rounds);
    }
    if (rc < 0)
        return rc;
    struct bench_result result = {.name = self->name,
                                  .unit = "ms",
                                  .raw = bench_median(raw, (size_t)rounds),
                                  .ours = bench_median(ours, (size_t)rounds),
                                  .ratio = bench_median(ratios, (size_t)rounds),
                                  .goal = self->target > 0 ? GOAL_RATIO_AT_MOST : GOAL_NONE,
                                  .target = self->target};
    snprintf(result.what, sizeof result.what, "%s", self->text);
    bench_add(bench, result);
    add_first(bench, self, result.raw, first[1]);
    return 0;
}

int bench_workspace(struct bench *bench, const struct bench_case *self)
{
    struct place_of_work place;
    size_t part = bench->quick ? QUICK_PART : 1;
    snprintf(place.folder, sizeof place.folder, "%s/workspaces", bench->folder);
    snprintf(place.repo, sizeof place.repo, "%s/repo", place.folder);
    snprintf(place.cache, sizeof place.cache, "%s/cache", place.folder);
    snprintf(place.below, sizeof place.below, "%s/made", place.folder);
    snprintf(place.worktree, sizeof place.worktree, "%s/worktree", place.folder);
    int rc = shell("mkdir '%s'", place.folder);
    if (rc == 0)
        rc = make_repository(bench, &place, self->rows / part, self->history_mib / part);
    if (rc == 0)
        rc = race(bench, self, &place);
    return shell("rm -rf '%s'", place.folder) < 0 ? -1 : rc;
}
