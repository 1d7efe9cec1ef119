/* See run_screen.h: news, and the thread that prints them. */
#include "cli/run_screen.h"

#include "base/clock.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/run_lines.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_MS = 100,  /* between two drawings */
    OUTPUT_MS = 250, /* as often as a worker hands it on */
    LOOK_MS = 1000,
};

/* --- news, from any thread --- */

static void add_news(struct run_screen *screen, const struct tend_runner_news *told)
{
    struct screen_news *news = calloc(1, sizeof *news);
    char *text = strdup(told->text ? told->text : "");
    if (!news || !text) {
        free(news);
        free(text);
        return; /* it is in the events of the job all the same */
    }
    *news = (struct screen_news){.at_ms = clock_wall_ms(), .news = *told, .text = text};
    news->news.text = text;
    pthread_mutex_lock(&screen->mutex);
    *screen->news_end = news;
    screen->news_end = &news->next;
    pthread_cond_signal(&screen->changed);
    pthread_mutex_unlock(&screen->mutex);
}

void run_screen_tell(void *arg, const struct tend_runner_news *news)
{
    add_news(arg, news);
}

static void log_as_note(void *arg, const char *line)
{
    const struct tend_runner_news note = {.kind = TEND_NEWS_NOTE,
                                          .job_id = TEND_UNSET,
                                          .number = TEND_UNSET,
                                          .state = -1,
                                          .text = line};
    add_news(arg, &note);
}

void run_screen_say(struct run_screen *screen, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_as_note(screen, text);
}

static struct screen_news *take_news(struct run_screen *screen, bool *ret_over)
{
    pthread_mutex_lock(&screen->mutex);
    struct screen_news *news = screen->news;
    screen->news = NULL;
    screen->news_end = &screen->news;
    *ret_over = screen->over;
    pthread_mutex_unlock(&screen->mutex);
    return news;
}

/* Until there are news or it is time to draw, look or show a sign of life. */
static void wait_for_news(struct run_screen *screen)
{
    int64_t wait_ms = screen->live ? FRAME_MS : screen->output ? OUTPUT_MS : LOOK_MS;
    if (screen->notifier.watchdog_ms > 0 && screen->notifier.watchdog_ms / 4 < wait_ms)
        wait_ms = screen->notifier.watchdog_ms / 4;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&screen->mutex);
    /* On a terminal a storm of news is drawn ten times a second and no more. */
    while (!screen->over && (screen->live || !screen->news))
        if (pthread_cond_timedwait(&screen->changed, &screen->mutex, &until) != 0)
            break;
    pthread_mutex_unlock(&screen->mutex);
}

/* --- what nobody tells --- */

static void tell_signals(struct run_screen *screen)
{
    if (signals_stops() > screen->stops_told) {
        screen->stops_told = signals_stops();
        sd_notify_send(&screen->notifier, "STOPPING=1");
        if (screen->stops_told == 1 && !screen->stops_at_once)
            run_screen_say(screen, "stopping; what runs is waited for, a second signal ends it");
        else
            run_screen_say(screen, "stopping at once; what runs is being ended, then given back");
    }
    if (signals_hangups() > screen->hangups_told) {
        screen->hangups_told = signals_hangups();
        run_screen_say(screen,
                       "SIGHUP: settings of queues are read for every job; nothing else to read");
    }
}

static void tell_manager(struct run_screen *screen, int64_t now_ms)
{
    const struct tend_runner_totals *totals = &screen->totals;
    char status[sizeof screen->status];
    if (screen->notifier.fd < 0)
        return;
    snprintf(status, sizeof status, "STATUS=%zu running, %lld done, %lld failed",
             screen->running_count, (long long)totals->done, (long long)totals->failed);
    if (strcmp(status, screen->status) != 0) {
        memcpy(screen->status, status, sizeof status);
        sd_notify_send(&screen->notifier, status);
    }
    if (screen->notifier.watchdog_ms > 0 &&
        now_ms - screen->watched_ms >= screen->notifier.watchdog_ms / 2) {
        screen->watched_ms = now_ms;
        sd_notify_send(&screen->notifier, "WATCHDOG=1");
    }
}

/* --- the thread --- */

static void free_news(struct screen_news *news)
{
    while (news) {
        struct screen_news *next = news->next;
        free(news->text);
        free(news);
        news = next;
    }
}

/* What an attempt has put out stands before the line about its end. */
static void print_plain(struct run_screen *screen, const struct screen_news *news)
{
    for (; news; news = news->next) {
        int64_t number = news->news.number;
        if (screen->output)
            screen->output(screen->look_arg, number == TEND_UNSET ? INT64_MAX : number, true);
        run_lines_plain(screen, news);
    }
    if (screen->output)
        screen->output(screen->look_arg, INT64_MAX, false);
}

static void print(struct run_screen *screen, const struct screen_news *news, bool over)
{
    if (screen->live)
        run_lines_draw(screen, news, over);
    else
        print_plain(screen, news);
    /* Nobody reads any more: what nobody can see is not begun. */
    if (cli_flush(screen->cli) != EXIT_DONE && !over)
        tend_runner_stop(screen->runner, 0);
}

static void look_at_running(struct run_screen *screen)
{
    bool wanted = screen->running && (screen->live || screen->notifier.fd >= 0);
    screen->running_count =
        wanted ? tend_runner_look(screen->runner, screen->running, SCREEN_RUNNING_MAX) : 0;
}

static void *body(void *arg)
{
    struct run_screen *screen = arg;
    for (bool over = false; !over;) {
        wait_for_news(screen);
        tell_signals(screen);
        struct screen_news *news = take_news(screen, &over);
        int64_t now_ms = clock_mono_ms();
        /* It takes the runner's lock: that it comes back is the sign of life. */
        tend_runner_count(screen->runner, &screen->totals);
        look_at_running(screen);
        print(screen, news, over);
        if (screen->look && (news || now_ms - screen->looked_ms >= LOOK_MS)) {
            screen->looked_ms = now_ms;
            screen->look(screen->look_arg);
        }
        tell_manager(screen, now_ms);
        free_news(news);
    }
    return NULL;
}

void run_screen_init(struct run_screen *screen, struct cli *cli)
{
    *screen = (struct run_screen){.cli = cli, .began_ms = clock_mono_ms()};
    screen->live = terminal_can_draw(cli);
    screen->stamps = !getenv("JOURNAL_STREAM");
    screen->running = calloc(SCREEN_RUNNING_MAX, sizeof *screen->running);
    screen->news_end = &screen->news;
    pthread_mutex_init(&screen->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&screen->changed, &attr);
    pthread_condattr_destroy(&attr);
    sd_notifier_open(&screen->notifier);
}

void run_screen_done(struct run_screen *screen)
{
    sd_notifier_close(&screen->notifier);
    free_news(screen->news);
    free(screen->running);
    pthread_cond_destroy(&screen->changed);
    pthread_mutex_destroy(&screen->mutex);
}

static void end_thread(struct run_screen *screen)
{
    pthread_mutex_lock(&screen->mutex);
    screen->over = true;
    pthread_cond_signal(&screen->changed);
    pthread_mutex_unlock(&screen->mutex);
    pthread_join(screen->thread, NULL);
}

int run_screen_run(struct run_screen *screen, tend_runner *runner)
{
    struct cli *cli = screen->cli;
    screen->runner = runner;
    cli->log_arg = screen;
    cli->log = screen->live ? log_as_note : NULL;
    signals_stop_runner(runner, screen->stops_at_once);
    int failed = thread_start(&screen->thread, 0, body, screen);
    if (failed)
        return cli_fail(cli, TEND_ENOMEM, "a thread cannot be started: %s", strerror(failed));
    sd_notify_send(&screen->notifier, "READY=1");
    int code = tend_runner_run(runner);
    signals_stop_runner(NULL, false);
    end_thread(screen);
    cli->log = NULL;
    return code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
}
