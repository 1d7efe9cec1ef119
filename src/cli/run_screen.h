/*
 * What a runner does, shown while it does it: a line per running step redrawn in place on a
 * terminal, with what has ended scrolling above; elsewhere a plain line, or a JSON object, per
 * event. A service manager is told as well (sd_notify.h).
 *
 * The runner works in the caller's thread and tells its news from threads of its own; a thread of
 * the screen's prints them. While the runner works the output, cli->out, is that thread's alone. A
 * reader that has gone stops the runner.
 */
#ifndef CLI_RUN_SCREEN_H
#define CLI_RUN_SCREEN_H

#include "cli/pen.h"
#include "cli/sd_notify.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

struct cli;
struct screen_news;

/* So many running steps are looked at. */
enum { SCREEN_RUNNING_MAX = 1000 };

struct run_screen {
    struct cli *cli;
    tend_runner *runner;
    struct sd_notifier notifier;
    /* Called by the screen's thread, after news and at least once a second; may be NULL. */
    void (*look)(void *arg);
    /*
     * Where nothing is drawn: prints what the attempts up to this number have put out since the
     * last time, by the same thread; a line of the screen follows. May be NULL.
     */
    void (*output)(void *arg, int64_t number, bool line_follows);
    void *look_arg;     /* of both */
    bool stops_at_once; /* by the first signal; else what runs is waited for, till the second */
    bool live;          /* redrawn in place */
    bool stamps;        /* plain lines begin with the time: nobody else adds it */

    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    struct screen_news *news, **news_end;
    bool over;

    /* the thread's own */
    struct frame frame;
    int stops_told, hangups_told;
    int64_t began_ms, looked_ms, watched_ms; /* monotonic */
    struct tend_runner_totals totals;
    struct tend_running *running; /* NULL: no memory for them */
    size_t running_count;
    char status[160]; /* as last told to the service manager */
};

void run_screen_init(struct run_screen *screen, struct cli *cli);
void run_screen_done(struct run_screen *screen);

/* For tend_runner_options, with the screen as tell_arg. News without a text is not printed, but
 * looked after. */
void run_screen_tell(void *arg, const struct tend_runner_news *news);

/* A line of the screen's own, as a note of the runner; before it starts or while it runs. */
void run_screen_say(struct run_screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs it under this screen, stopped by signals. 0, or the exit status after telling what failed.
 */
int run_screen_run(struct run_screen *screen, tend_runner *runner);

#endif
