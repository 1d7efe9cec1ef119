/* tend bench: tend against the bare database. The measurements are in bench/; here is what is
 * shown. */
#include "bench/bench.h"
#include "cli/cli.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    struct text_list only;
    const char *side;
    bool quick, list;
} args;

static const struct option options[] = {
    OPTION("only", 0, "NAME", OPTION_LIST, "only", &args.only),
    OPTION("side", 0, "S", OPTION_TEXT, "side", &args.side),
    OPTION("quick", 0, NULL, OPTION_FLAG, "quick", &args.quick),
    OPTION_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char folder[256];
    snprintf(folder, sizeof folder, "%s/tend-bench.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    struct bench b = {.folder = folder, .quick = args.quick, .only_side = args.side};
    for (const struct bench_case *c = bench_sqlite; c->name; c++) {
        bool run = args.only.count == 0;
        for (size_t i = 0; i < args.only.count; i++)
            run |= fnmatch(args.only.items[i], c->name, 0) == 0;
        if (!run)
            continue;
        bench_clear_folder(folder);
        if (c->run(&b, c) < 0) {
            fprintf(stderr, "%s\n", bench_failure());
            break;
        }
        struct bench_result *r = &b.results.items[b.results.count - 1];
        printf("%-24s raw %9.0f ours %9.0f ratio %.3f (%.2f) %s\n", c->name, r->raw, r->ours,
               r->ratio, r->target, bench_met(r) ? "met" : "NOT MET");
        fflush(stdout);
    }
    bench_clear_folder(folder);
    rmdir(folder);
    (void)cli;
    return 0;
}

const struct command cmd_bench = {
    .name = "bench",
    .group = "Store",
    .text = "bench",
    .options = options,
    .run = run,
};

static int run_child(struct cli *cli, int argc, char **argv)
{
    (void)cli;
    (void)argc;
    (void)argv;
    return 1;
}
const struct command cmd_bench_child = {
    .name = "__bench-child", .hidden = true, .raw = true, .run = run_child, .args_max = ARGS_ANY};
