/*
 * Memory that is short for a moment: what a job has to do, and what it has done, waits for it
 * (SH-9). Jansson's allocations fail as often as the test says.
 */
#include "runner_case.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int fails; /* the next so many allocations */
static atomic_int failed;

static void *allocate(size_t bytes)
{
    int left = atomic_load(&fails);
    while (left > 0 && !atomic_compare_exchange_weak(&fails, &left, left - 1))
        continue;
    if (left > 0)
        atomic_fetch_add(&failed, 1);
    return left > 0 ? NULL : malloc(bytes);
}

static int count_of_notes;

static void note_news(void *arg, const struct tend_runner_news *news)
{
    int *when_done = arg;
    printf("# %s\n", news->text);
    if (news->kind == TEND_NEWS_STEP && *when_done > 0)
        atomic_store(&fails, *when_done);
    count_of_notes += news->kind == TEND_NEWS_NOTE && strstr(news->text, "out of memory") != NULL;
}

/* The job must be done, with its result, whatever was short at its beginning or after its step. */
static void run_short_of_memory(int at_first, int when_done)
{
    tend *t = store_open_real("w");
    struct tend_runner_options options = runner_options();
    int64_t id = add_plan(t, "{\"run\":\"echo v=1 >> $TEND_OUTPUT\"}");
    json_set_alloc_funcs(allocate, free);
    options.tell = note_news;
    options.tell_arg = &when_done;
    atomic_store(&fails, at_first);
    run_with(t, &options);
    check_int(atomic_load(&fails), ==, 0);
    check_int(atomic_load(&failed), ==, at_first + when_done);
    check_int(count_of_notes, ==, 1);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, "{\"step-1\":{\"v\":\"1\"}}");
}

/* Symptom: the plan was taken for a bad one, and the job failed for good. */
TEST(runner_memory, a_plan_is_read_when_there_is_memory_again)
{
    run_short_of_memory(5, 0);
}

/* Symptom: the job was done without its result. */
TEST(runner_memory, a_result_is_told_when_there_is_memory_again)
{
    run_short_of_memory(0, 5);
}
