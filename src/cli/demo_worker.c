/*
 * tend __demo-worker FOLDER NAME PARENT: one of the workers of tend demo.
 *
 * A small worker such as anybody could write on tend.h: the main thread claims a few jobs, pretends
 * to work on each, completes them and claims the next in one transaction. A second thread waits in
 * tend_wait and does nothing else: that is enough to see another worker die while this one is busy,
 * and to put its jobs back.
 */
#include "cli/commands.h"
#include "cli/demo.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 300 }; /* at most this late is the end of the shift noticed */

struct watch {
    tend *store;
    atomic_bool over;
};

static void *watch_others(void *arg)
{
    struct watch *watch = arg;
    while (!atomic_load(&watch->over) && tend_wait(watch->store, WAIT_MS) >= 0)
        continue;
    return NULL;
}

/* Some jobs take longer than others: 3 to 11 ms. */
static void pretend_to_work(int64_t job_id)
{
    nanosleep(&(struct timespec){.tv_nsec = (3 + job_id * 7919 % 9) * 1000000L}, NULL);
}

static size_t work_on(const struct tend_jobs *jobs, struct tend_lease leases[DEMO_BATCH])
{
    for (size_t i = 0; i < jobs->count; i++) {
        pretend_to_work(jobs->items[i].id);
        leases[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
    }
    return jobs->count;
}

/* Until it is told to stop. 0, or a TEND_E… code. */
static int work(tend *store)
{
    struct tend_lease leases[DEMO_BATCH];
    size_t count = 0;
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.wait_ms = WAIT_MS;
    for (size_t round = 0; !signals_seen(); round++) {
        /* Not always the same, so that what one leaves behind is not just what another takes. */
        claim.count = DEMO_BATCH - round % (DEMO_BATCH / 2);
        struct tend_jobs *jobs;
        int code = tend_complete_and_claim(store, leases, count, NULL, NULL, &claim, &jobs, NULL);
        count = 0;
        if (code > 0) {
            count = work_on(jobs, leases);
            tend_jobs_free(jobs);
        } else if (code != TEND_EEMPTY && code != TEND_EINTERRUPTED) {
            return code;
        }
    }
    return tend_complete(store, leases, count, NULL, NULL);
}

static int work_and_watch(struct cli *cli)
{
    struct watch watch = {.store = cli->store};
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_others, &watch) != 0)
        return cli_fail(cli, TEND_ENOMEM, "cannot start a thread");
    int code = work(cli->store);
    int status = code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
    atomic_store(&watch.over, true);
    tend_interrupt(cli->store);
    pthread_join(thread, NULL);
    return status;
}

static int open_store(struct cli *cli, const char *folder, const char *name)
{
    char url[300];
    demo_store_url(folder, url, sizeof url);
    struct tend_options options;
    tend_options_init(&options);
    options.name = name;
    options.must_exist = 1;
    int code = tend_open(&cli->store, url, &options);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

/* The keys ^C and ^\ and the end of the terminal reach the demo too, and it sends us home. */
static void leave_keys_to_the_demo(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    const char *folder = argv[0];
    pid_t parent = (pid_t)strtol(argv[2], NULL, 10);
    leave_keys_to_the_demo();
    int status = open_store(cli, folder, argv[1]);
    if (status == EXIT_DONE) {
        signals_interrupt(cli->store);
        leave_keys_to_the_demo();
        /* Only now, as before it would end us at once. Who was orphaned by then is told below. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            status = work_and_watch(cli);
        /* Nothing is to stop what follows: without the demo it is on us to clean up. */
        signals_interrupt(NULL);
        leave_keys_to_the_demo();
        signal(SIGTERM, SIG_IGN);
    }
    tend_close(cli->store);
    cli->store = NULL;
    if (getppid() != parent)
        demo_remove_folder(folder);
    return status;
}

const struct command cmd_demo_worker = {
    .name = "__demo-worker",
    .form = "FOLDER NAME PARENT",
    .text = "a worker of 'tend demo'",
    .args_min = 3,
    .args_max = 3,
    .hidden = true,
    .run = run,
};
