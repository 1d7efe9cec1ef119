/*
 * tend demo: a worker is killed, and its work goes on. Where `make run` ends. See demo.h.
 *
 * Not a test with tricks of its own: the jobs, workers and leases are those everybody gets, in a
 * store like any other that lies in a temporary folder.
 */
#include "base/clock.h"
#include "base/timetext.h"
#include "cli/commands.h"
#include "cli/demo.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* So long without a completed job and the demo gives up; in ticks, as they stand still at ^Z. */
enum { PATIENCE_TICKS = 20000 / DEMO_TICK_MS };

struct demo {
    struct cli *cli;
    struct demo_crew crew;
    struct demo_ledger ledger;
    struct demo_screen screen;
    bool told_notice, told_takeover;
};

/* --- signals: no way out that does not pass the cleaning up --- */

static sigset_t ending_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    return set;
}

static void hold_signals(void)
{
    sigset_t set = ending_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void let_signals_through(void)
{
    sigset_t set = ending_signals();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* They only leave a mark from now on; the watching looks at it. */
static void mark_signals(tend *store)
{
    signals_interrupt(store);
    struct sigaction action;
    sigaction(SIGTERM, NULL, &action);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
}

/* --- the beginning --- */

static int open_store(struct demo *demo)
{
    struct cli *cli = demo->cli;
    char url[300];
    demo_store_url(demo->crew.folder, url, sizeof url);
    struct tend_options options;
    tend_options_init(&options);
    options.name = "demo";
    int code = tend_open(&cli->store, url, &options);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int add_jobs(struct demo *demo)
{
    struct cli *cli = demo->cli;
    struct tend_job_spec *specs = calloc(DEMO_JOBS, sizeof *specs);
    struct tend_added *added = calloc(DEMO_JOBS, sizeof *added);
    int code = TEND_ENOMEM;
    int64_t began_ms = clock_mono_ms();
    if (specs && added) {
        for (int i = 0; i < DEMO_JOBS; i++) {
            tend_job_spec_init(&specs[i]);
            specs[i].kind = "demo";
        }
        code = tend_add_many(cli->store, specs, DEMO_JOBS, added);
    }
    if (code >= 0) {
        char jobs[DEMO_NUMBER_BYTES];
        char took[DURATION_TEXT_BYTES];
        demo_ledger_init(&demo->ledger, added[0].id);
        demo_screen_say(&demo->screen, COLOR_NONE, "%s jobs added in %s, all on disk",
                        demo_number(DEMO_JOBS, jobs), span_text(clock_mono_ms() - began_ms, took));
    }
    free(specs);
    free(added);
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}

static int start_workers(struct demo *demo)
{
    int status = demo_crew_start(&demo->crew, demo->cli);
    if (status != EXIT_DONE)
        return status;
    char pids[100] = "";
    for (int i = 0; i < DEMO_WORKERS; i++) {
        size_t len = strlen(pids);
        snprintf(pids + len, sizeof pids - len, "%s%d", i ? ", " : "",
                 (int)demo->crew.members[i].pid);
    }
    demo_screen_say(&demo->screen, COLOR_NONE, "%d workers started: pids %s", DEMO_WORKERS, pids);
    return EXIT_DONE;
}

/* --- what happens on the way --- */

/* Kills a worker that has just claimed, once enough has been done to see that all of them work. */
static int kill_when_it_is_time(struct demo *demo)
{
    struct demo_ledger *ledger = &demo->ledger;
    if (ledger->victim >= 0 || ledger->done < DEMO_KILL_AT || demo_crew_running(&demo->crew) < 2)
        return 0;
    int victim = demo_ledger_fullest(ledger, &demo->crew);
    if (victim < 0)
        return 0;
    struct demo_member *member = &demo->crew.members[victim];
    int64_t now_ms;
    int code = tend_now(demo->cli->store, &now_ms);
    if (code < 0)
        return code;
    demo_crew_kill(member);
    demo_ledger_killed(ledger, victim, now_ms);
    code = demo_ledger_read(ledger, demo->cli->store);
    demo_screen_say(&demo->screen, COLOR_RED, "%s (pid %d) killed with SIGKILL, holding %d jobs",
                    member->name, (int)member->pid, demo_ledger_held(ledger, victim));
    return code;
}

/* "5 by worker 1, 3 by worker 4" */
static void takers_text(const struct demo *demo, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < DEMO_WORKERS && len < size; i++) {
        int count = demo->ledger.accounts[i].taken_over;
        if (count > 0)
            len += (size_t)snprintf(out + len, size - len, "%s%d by %s", len ? ", " : "", count,
                                    demo->crew.members[i].name);
    }
}

static void tell_takeover(struct demo *demo)
{
    const struct demo_ledger *ledger = &demo->ledger;
    char span[DURATION_TEXT_BYTES];
    if (!demo->told_notice && ledger->noticed_at_ms != TEND_UNSET) {
        demo->told_notice = true;
        demo_screen_say(
            &demo->screen, COLOR_YELLOW, "%s noticed after %s and put the %d jobs back",
            ledger->noticed_by < 0 ? "somebody" : demo->crew.members[ledger->noticed_by].name,
            span_text(ledger->noticed_at_ms - ledger->killed_at_ms, span), ledger->orphans);
    }
    if (!demo->told_takeover && ledger->orphans > 0 && ledger->taken_over == ledger->orphans) {
        char takers[120];
        takers_text(demo, takers, sizeof takers);
        demo->told_takeover = true;
        demo_screen_say(&demo->screen, COLOR_GREEN, "all taken over within %s: %s",
                        span_text(ledger->last_taken_at_ms - ledger->killed_at_ms, span), takers);
    }
}

static void tell_missing(struct demo *demo)
{
    for (struct demo_member *member; (member = demo_crew_missing(&demo->crew));) {
        int how = member->wait_status;
        demo_screen_say(&demo->screen, COLOR_RED, "%s (pid %d) is gone, by %s %d; not our doing",
                        member->name, (int)member->pid, WIFSIGNALED(how) ? "signal" : "status",
                        WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    }
}

/* Until all is done, nobody is left to do it, or a signal comes. 0, or an exit status. */
static int watch(struct demo *demo)
{
    struct cli *cli = demo->cli;
    struct demo_ledger *ledger = &demo->ledger;
    int idle_ticks = 0;
    while (ledger->done < DEMO_JOBS && idle_ticks < PATIENCE_TICKS) {
        int before = ledger->done;
        tell_missing(demo);
        bool nobody_left = demo_crew_running(&demo->crew) == 0;
        int code = demo_ledger_read(ledger, cli->store);
        if (code == 0)
            code = kill_when_it_is_time(demo);
        if (code < 0)
            return cli_fail_store(cli, code);
        tell_takeover(demo);
        int status = demo_screen_draw(&demo->screen, &demo->crew, ledger);
        if (status != EXIT_DONE || signals_seen())
            return status != EXIT_DONE ? status : signals_exit_status();
        if (nobody_left)
            break;
        idle_ticks = ledger->done > before ? 0 : idle_ticks + 1;
        nanosleep(&(struct timespec){.tv_nsec = DEMO_TICK_MS * 1000000L}, NULL);
    }
    return EXIT_DONE;
}

/* --- the end --- */

static int report(struct demo *demo)
{
    struct cli *cli = demo->cli;
    struct demo_verdict verdict = {.lost = 0};
    buf_init(&verdict.wrong);
    int status = demo_judge(cli, &demo->crew, &demo->ledger, &verdict);
    if (status == EXIT_DONE && cli->json)
        demo_report_json(cli, &demo->crew, &demo->ledger, &verdict);
    else if (status == EXIT_DONE)
        demo_report_text(cli, &demo->crew, &demo->ledger, &verdict);
    if (status == EXIT_DONE && verdict.wrong.len > 0)
        status = cli_fail_as(cli, EXIT_FAILED, TEND_EINTERNAL, "demo: %.*s",
                             (int)strcspn(verdict.wrong.data, "\n"), verdict.wrong.data);
    buf_done(&verdict.wrong);
    return status;
}

static int play(struct demo *demo)
{
    int status = add_jobs(demo);
    if (status == EXIT_DONE)
        status = start_workers(demo);
    if (status == EXIT_DONE)
        status = watch(demo);
    if (status == EXIT_DONE) {
        demo_crew_send_home(&demo->crew);
        char jobs[DEMO_NUMBER_BYTES];
        demo_screen_say(&demo->screen, COLOR_NONE, "%s jobs done",
                        demo_number(demo->ledger.done, jobs));
        status = demo_screen_draw(&demo->screen, &demo->crew, &demo->ledger);
    }
    demo_screen_done(&demo->screen);
    return status == EXIT_DONE ? report(demo) : status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (globals.store_url)
        return cli_fail(cli, TEND_EINVAL,
                        "demo: it makes a store of its own and removes it; leave --store out");
    struct demo demo = {.cli = cli};
    demo_screen_init(&demo.screen, cli);
    hold_signals();
    int status = demo_crew_init(&demo.crew, cli);
    if (status == EXIT_DONE)
        status = open_store(&demo);
    if (status == EXIT_DONE) {
        mark_signals(cli->store);
        let_signals_through();
        status = play(&demo);
        hold_signals();
        signals_interrupt(NULL);
    }
    tend_close(cli->store);
    cli->store = NULL;
    demo_crew_done(&demo.crew);
    if (signals_seen())
        cli_note(cli, "demo: interrupted; its workers and its folder are gone");
    let_signals_through();
    return status;
}

const struct command cmd_demo = {
    .name = "demo",
    .group = "Help",
    .text = "watch a worker being killed and its work taken over",
    .about =
        "In a temporary folder four workers go through 2,000 jobs, one of them is killed with "
        "SIGKILL while it holds some, and the others take these over. At the end the events of "
        "the store are read back to see that each job was completed exactly once; if not, "
        "the exit status is 1. It takes about five seconds and leaves nothing behind.",
    .examples = "tend demo\n"
                "tend demo --json | jq .takeover",
    .run = run,
};
