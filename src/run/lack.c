/* See lack.h. */
#include "run/lack.h"

#include "base/clock.h"
#include "base/timetext.h"
#include "run/runner.h"

#include <stdio.h>

enum {
    PAUSE_FIRST_MS = 1000,
    PAUSE_MOST_MS = 60000,
    BEHIND_MS = 1000,
    WELL_MS = 10000,
    QUIET_MS = 60000
};

/* What to do about it, to go on with after the text. */
static const char *hint(int code)
{
    switch (code) {
    case TEND_EFULL:
        return ", or give another folder with --folder";
    case TEND_EREADONLY:
    case TEND_ENOTFOUND:
        return "; see that it can be made and written to, or give another folder with --folder";
    default:
        return "; raise its limits (ulimit -n, ulimit -u), or let it run fewer jobs at once (-c)";
    }
}

static bool is_tried(const struct lack *lack, struct tend_lease lease)
{
    return lack->pause_ms > 0 && lack->tried.id == lease.id && lack->tried.token == lease.token;
}

static int64_t longer(int64_t pause_ms)
{
    if (pause_ms == 0)
        return PAUSE_FIRST_MS;
    return pause_ms * 2 < PAUSE_MOST_MS ? pause_ms * 2 : PAUSE_MOST_MS;
}

/* A try came to nothing. Whether people are to be told of it. Under the mutex. */
static bool fail_try(struct lack *lack, int64_t now_ms, int code, const char *text,
                     const char *what_to_do)
{
    bool tell = !lack->told && (lack->told_at_ms == 0 || now_ms >= lack->told_at_ms + QUIET_MS);
    lack->pause_ms = longer(lack->pause_ms);
    lack->until_ms = now_ms + lack->pause_ms;
    lack->well_ms = 0;
    lack->tries++;
    lack->code = code;
    lack->claims = false;
    lack->tried = (struct tend_lease){0};
    snprintf(lack->text, sizeof lack->text, "%s%s", text, what_to_do);
    if (tell) {
        lack->told = true;
        lack->told_at_ms = now_ms;
    }
    return tell;
}

int64_t lack_found(tend_runner *runner, struct tend_lease lease, int code, const char *text,
                   int64_t least_ms)
{
    struct lack *lack = &runner->lack;
    int64_t now_ms = clock_mono_ms();
    int64_t delay_ms = least_ms;
    char pause[DURATION_TEXT_BYTES];
    pthread_mutex_lock(&runner->mutex);
    bool first = lack->pause_ms == 0;
    bool tried = is_tried(lack, lease);
    bool tell = (first || tried) && fail_try(lack, now_ms, code, text, hint(code));
    if (tried && delay_ms < BEHIND_MS)
        delay_ms = BEHIND_MS;
    if (delay_ms > 0 && runner->back_ms < now_ms + delay_ms)
        runner->back_ms = now_ms + delay_ms;
    duration_text(lack->pause_ms, pause);
    pthread_mutex_unlock(&runner->mutex);
    if (tell)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
                    "this worker cannot run jobs now: %s%s; it gives them back, claims nothing "
                    "for %s, then tries again by itself",
                    text, hint(code), pause);
    return delay_ms;
}

void lack_claim_failed(tend_runner *runner, const char *text)
{
    struct lack *lack = &runner->lack;
    char pause[DURATION_TEXT_BYTES];
    pthread_mutex_lock(&runner->mutex);
    bool tell = fail_try(lack, clock_mono_ms(), TEND_ENOMEM, text, "");
    lack->claims = true;
    duration_text(lack->pause_ms, pause);
    pthread_mutex_unlock(&runner->mutex);
    if (tell)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
                    "this worker cannot claim jobs now: %s; it tries again in %s", text, pause);
}

void lack_over(tend_runner *runner, struct tend_lease lease, bool called)
{
    struct lack *lack = &runner->lack;
    pthread_mutex_lock(&runner->mutex);
    bool over = is_tried(lack, lease) && (!called || lack->code == TEND_ENOMEM);
    bool tell = over && lack->told;
    if (over) {
        int64_t well_ms = lack->well_ms != 0 ? lack->well_ms : clock_mono_ms() + WELL_MS;
        *lack = (struct lack){
            .pause_ms = PAUSE_FIRST_MS / 2, .well_ms = well_ms, .told_at_ms = lack->told_at_ms};
    }
    pthread_mutex_unlock(&runner->mutex);
    if (tell)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1, "this worker can run jobs again");
    if (over)
        tend_interrupt(runner->t); /* the claiming thread, which pauses */
}

void lack_eased(tend_runner *runner)
{
    struct lack *lack = &runner->lack;
    pthread_mutex_lock(&runner->mutex);
    lack->until_ms = 0; /* the end of the task wakes the claiming thread */
    lack->tries = 0;
    pthread_mutex_unlock(&runner->mutex);
}

int64_t lack_pause(tend_runner *runner)
{
    struct lack *lack = &runner->lack;
    pthread_mutex_lock(&runner->mutex);
    int64_t now_ms = lack->pause_ms == 0 ? 0 : clock_mono_ms();
    if (lack->well_ms != 0 && now_ms >= lack->well_ms)
        *lack = (struct lack){.told_at_ms = lack->told_at_ms};
    int64_t left_ms = lack->pause_ms == 0 ? 0 : lack->until_ms - now_ms;
    pthread_mutex_unlock(&runner->mutex);
    return left_ms > 0 ? left_ms : 0;
}

size_t lack_room(const struct lack *lack, size_t room)
{
    return lack->pause_ms > 0 && room > 1 ? 1 : room;
}

void lack_try(tend_runner *runner, struct tend_lease lease)
{
    struct lack *lack = &runner->lack;
    pthread_mutex_lock(&runner->mutex);
    if (lack->pause_ms > 0) {
        lack->tried = lease;
        lack->until_ms = clock_mono_ms() + lack->pause_ms;
    }
    pthread_mutex_unlock(&runner->mutex);
}

int lack_give_up(tend_runner *runner)
{
    char text[LACK_TEXT_BYTES];
    bool waits = runner->options.drain == 0 && runner->options.job_id <= 0;
    pthread_mutex_lock(&runner->mutex);
    bool over = !waits && runner->lack.tries >= LACK_TRIES_MOST && runner->task_count == 0;
    bool claims = runner->lack.claims;
    snprintf(text, sizeof text, "%s", runner->lack.text);
    pthread_mutex_unlock(&runner->mutex);
    if (!over)
        return 0;
    return claims ? handle_fail(runner->t, TEND_EIO, "this worker cannot claim jobs: %s", text)
                  : handle_fail(runner->t, TEND_EIO,
                                "this worker cannot run jobs: %s; what it claimed is given back, "
                                "and jobs are left",
                                text);
}
