/* A step that only waits. */
#include "base/clock.h"
#include "run/job.h"

void attempt_run_sleep(struct attempt *attempt)
{
    struct task *task = attempt->run->task;
    int64_t until_ms = clock_mono_ms() + attempt->step->sleep_ms;
    for (;;) {
        attempt->end = attempt_signal(attempt);
        int64_t left_ms = until_ms - clock_mono_ms();
        if (attempt->end != ATTEMPT_SUCCEEDED || left_ms <= 0)
            return;
        task_sleep(task, left_ms);
    }
}
