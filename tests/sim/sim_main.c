/*
 * sim: runs histories.
 *
 *     sim --seed N [--verbose]                 one history, as the tests would run it
 *     sim --from A --count N [--step S]        seeds A, A+S, A+2S…; ends at the first that fails
 *     --store sqlite | URL                     sqlite: a new file in memory (the default); or a
 * schema of its own in the database of a postgresql:// URL
 *     --sabotage NAME                          with a deliberate defect
 *
 * Exit status 0: every promise was kept; 1: one was broken, with the seed and the way to see it
 * again.
 */
#include "sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct world world;
static char folder[] = "/dev/shm/tend-sim-XXXXXX";

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-lock", "-bell", "-workers"};
    char path[128];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(path, sizeof path, "%s/sim.db%s", folder, suffixes[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A crash of the library is a broken promise, too. */
static void on_crash(int number)
{
    static const char text[] = "sim: killed by a signal at seed ";
    char digits[24];
    size_t at = sizeof digits;
    uint64_t seed = world.seed;
    digits[--at] = '\n';
    do
        digits[--at] = (char)('0' + seed % 10);
    while ((seed /= 10) > 0);
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    if (written > 0)
        written = write(STDERR_FILENO, digits + at, sizeof digits - at);
    (void)written;
    if (world.clean_up != NULL)
        world.clean_up();
    signal(number, SIG_DFL);
    raise(number);
}

static enum sabotage find_sabotage(const char *name)
{
    for (int i = 0; i < SABOTAGE_COUNT; i++)
        if (strcmp(sabotage_names[i], name) == 0)
            return (enum sabotage)i;
    fprintf(stderr, "sim: no sabotage is called %s\n", name);
    exit(2);
}

static const char *make_file(void)
{
    static char url[128];
    if (access("/dev/shm", W_OK) != 0)
        snprintf(folder, sizeof folder, "/tmp/tend-sim-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        exit(2);
    }
    atexit(remove_files);
    snprintf(url, sizeof url, "sqlite:%s/sim.db", folder);
    return url;
}

/* A schema of our own; what a history writes need not survive the server. */
static const char *make_schema(const char *server)
{
    static char url[1024];
    snprintf(url, sizeof url, "%s%coptions=-csynchronous_commit%%3Doff" SCHEMA_IN_URL "sim_%d",
             server, strchr(server, '?') != NULL ? '&' : '?', (int)getpid());
    return url;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},  {"from", required_argument, NULL, 'f'},
        {"count", required_argument, NULL, 'n'}, {"step", required_argument, NULL, 't'},
        {"store", required_argument, NULL, 'u'}, {"sabotage", required_argument, NULL, 'b'},
        {"verbose", no_argument, NULL, 'v'},     {0}};
    uint64_t from = 0;
    uint64_t count = 1;
    uint64_t step = 1;
    bool verbose = false;
    enum sabotage sabotage = SABOTAGE_NONE;
    const char *store = "sqlite";
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
        case 'f':
            from = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            count = strtoull(optarg, NULL, 10);
            break;
        case 't':
            step = strtoull(optarg, NULL, 10);
            break;
        case 'u':
            store = optarg;
            break;
        case 'b':
            sabotage = find_sabotage(optarg);
            break;
        case 'v':
            verbose = true;
            break;
        default:
            return 2;
        }
    }
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    const char *url = strcmp(store, "sqlite") == 0 ? make_file() : make_schema(store);
    world_init(&world, url, verbose);
    world.clean_up = world.postgres ? NULL : remove_files;
    for (uint64_t i = 0; i < count; i++)
        world_run(&world, from + i * step, sabotage);
    world_done(&world);
    if (world.postgres)
        drop_store(url);
    printf("%llu histories\n", (unsigned long long)count);
    return 0;
}
