/* See collector.h. */
#include "run/collector.h"

#include "base/clock.h"
#include "base/thread.h"
#include "run/collect.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    INTERVALS = 10,     /* of the recovery timer, from one pass to the next */
    REST_TIMES = 9,     /* the rest after some work, in times of the work */
    REST_MOST_MS = 5000 /* ... for one job that had much to be removed */
};

/* One pass. */
struct pass {
    tend_runner *runner;
    int64_t worked_from_ms; /* monotonic: since the last rest */
};

static bool is_ended(tend_runner *runner, int64_t wait_ms)
{
    struct pollfd end = {.fd = runner->collector_fd, .events = POLLIN};
    return poll(&end, 1, (int)wait_ms) > 0;
}

static bool rest(void *arg)
{
    struct pass *pass = arg;
    int64_t worked_ms = clock_mono_ms() - pass->worked_from_ms;
    int64_t rest_ms = worked_ms * REST_TIMES < REST_MOST_MS ? worked_ms * REST_TIMES : REST_MOST_MS;
    bool ends = is_ended(pass->runner, rest_ms);
    pass->worked_from_ms = clock_mono_ms();
    return !ends;
}

static void tell_orphans(void *arg, int64_t job_id, const char *text)
{
    runner_tell(arg, TEND_NEWS_NOTE, job_id, -1, "%s", text);
}

struct sweep_ear runner_ear(tend_runner *runner)
{
    return (struct sweep_ear){.tell = tell_orphans, .arg = runner};
}

static void tell(tend_runner *runner, const struct tend_disk *disk, bool *told)
{
    int64_t removed = disk->uses[TEND_DISK_LEFT].count + disk->uses[TEND_DISK_GONE].count +
                      disk->uses[TEND_DISK_OLD_MIRRORS].count;
    if (removed > 0)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
                    "removed %" PRId64 " folder%s that nothing needs from %s", removed,
                    removed == 1 ? "" : "s", runner->options.folder);
    if (disk->failed > 0 && !*told)
        runner_tell(runner, TEND_NEWS_NOTE, TEND_UNSET, -1,
                    "what nothing needs in %s cannot be removed: %s", runner->options.folder,
                    disk->problem);
    *told = disk->failed > 0;
}

/* A store that cannot be asked, or a folder that another process cleans, is left for the next
 * time. */
static void collect_once(tend_runner *runner, bool *told)
{
    struct collect collect;
    struct pass pass = {.runner = runner, .worked_from_ms = clock_mono_ms()};
    int lock = collect_lock(runner->options.folder, 0, NULL);
    if (lock < 0)
        return;
    if (collect_init(&collect, runner->t, runner->options.folder) == 0) {
        collect.removes = collect.from_anywhere = true;
        collect.ear = runner_ear(runner);
        collect.goes_on = rest;
        collect.arg = &pass;
        (void)collect_all(&collect);
        tell(runner, &collect.disk, told);
    }
    close(lock);
}

static void *collector(void *arg)
{
    tend_runner *runner = arg;
    int64_t every_ms = runner->t->options.recovery_ms * INTERVALS;
    bool told = false;
    do
        collect_once(runner, &told);
    while (!is_ended(runner, every_ms > 0 && every_ms < INT32_MAX ? every_ms : -1));
    return NULL;
}

void collector_start(tend_runner *runner)
{
    runner->collector_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    runner->collector_runs = runner->collector_fd >= 0 &&
                             thread_start(&runner->collector_thread, 0, collector, runner) == 0;
}

void collector_end(tend_runner *runner)
{
    if (runner->collector_runs) {
        flag_set(runner->collector_fd);
        pthread_join(runner->collector_thread, NULL);
    }
    if (runner->collector_fd >= 0)
        close(runner->collector_fd);
    runner->collector_runs = false;
}
