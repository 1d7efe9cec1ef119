#include "fault_story.h"
#include "support/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { CHECKPOINT_PAGES = 12, LARGE_BYTES = 30000, TRIES = 2 };

struct story {
    const struct fault_plan *plan;
    struct diary *diary;
    tend *t;
};

/* Whether the trouble is over once it has been told of. */
static bool strikes_once(const struct story *story)
{
    return story->plan->kind == FAULT_ERROR || story->plan->kind == FAULT_FULL ||
           story->plan->kind == FAULT_READ;
}

/*
 * The judgement on an answer. A failure must be one of the disk and told in a sentence; what failed
 * once must work when it is tried again on the same handle.
 */
static bool went_well(struct story *story, int rc, const char *what, int tries)
{
    struct diary *diary = story->diary;
    test_count_check();
    if (rc >= 0 || rc == TEND_EEMPTY)
        return true;
    const char *sentence = tend_errmsg(story->t);
    if (__atomic_add_fetch(&diary->failures, 1, __ATOMIC_SEQ_CST) == 1)
        snprintf(diary->first_failure, sizeof diary->first_failure, "%s: %s", what, sentence);
    bool of_the_disk = rc == TEND_EIO || rc == TEND_EFULL || rc == TEND_EUNREACHABLE;
    if (!of_the_disk || strstr(sentence, store_path()) == NULL)
        test_fail(__FILE__, __LINE__, "%s, fault at call %u: %s (%s)", what, story->plan->at,
                  tend_strerror(rc), sentence);
    if (strikes_once(story) && tries > 1)
        test_fail(__FILE__, __LINE__, "%s, fault at call %u, fails for good: %s (%s)", what,
                  story->plan->at, tend_strerror(rc), sentence);
    return false;
}

static void add_single(struct story *story, tend *t, const char *kind, size_t payload_bytes,
                       int64_t *ret_id)
{
    static _Thread_local char payload[LARGE_BYTES];
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    memset(payload, '7', payload_bytes);
    spec.kind = kind;
    spec.payload = payload;
    spec.payload_bytes = payload_bytes;
    for (int tries = 1; tries <= TRIES; tries++) {
        if (went_well(story, tend_add(t, &spec, &added), "add", tries)) {
            *ret_id = added.id;
            return;
        }
    }
}

static void add_batch(struct story *story)
{
    struct tend_job_spec specs[STORY_BATCH];
    struct tend_added added[STORY_BATCH];
    for (size_t i = 0; i < STORY_BATCH; i++) {
        specs[i] = spec_for("q");
        specs[i].kind = "batch";
    }
    for (int tries = 1; tries <= TRIES; tries++) {
        int rc = tend_add_many(story->t, specs, STORY_BATCH, added);
        if (!went_well(story, rc, "add many", tries))
            continue;
        for (size_t i = 0; i < STORY_BATCH; i++)
            story->diary->batch[i] = added[i].id;
        return;
    }
}

struct thread {
    struct story *story;
    size_t number;
};

static void *add_in_thread(void *arg)
{
    struct thread *thread = arg;
    for (size_t i = 0; i < STORY_PER_THREAD; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, "group-%zu-%zu", thread->number, i);
        add_single(thread->story, thread->story->t, kind, 10,
                   &thread->story->diary->group[thread->number][i]);
    }
    return NULL;
}

static void add_in_threads(struct story *story)
{
    pthread_t threads[STORY_THREADS];
    struct thread args[STORY_THREADS];
    for (size_t i = 0; i < STORY_THREADS; i++) {
        args[i] = (struct thread){.story = story, .number = i};
        check_int(pthread_create(&threads[i], NULL, add_in_thread, &args[i]), ==, 0);
    }
    for (size_t i = 0; i < STORY_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static size_t claim_some(struct story *story, struct tend_lease *leases)
{
    struct tend_claim claim = claim_for("q");
    claim.count = STORY_CLAIMED;
    for (int tries = 1; tries <= TRIES; tries++) {
        struct tend_jobs *jobs;
        int rc = tend_claim_jobs(story->t, &claim, &jobs, NULL);
        if (!went_well(story, rc, "claim", tries) || rc <= 0)
            continue;
        size_t count = jobs->count;
        for (size_t i = 0; i < count; i++)
            leases[i] = lease_of(&jobs->items[i]);
        tend_jobs_free(jobs);
        return count;
    }
    return 0;
}

static void complete_one(struct story *story, struct tend_lease lease, int64_t *ret_id)
{
    for (int tries = 1; tries <= TRIES; tries++) {
        int rc = tend_complete(story->t, &lease, 1, NULL, NULL);
        if (!went_well(story, rc, "complete", tries))
            continue;
        *ret_id = lease.id;
        return;
    }
}

/* Claims five: two are completed, the others kept alive, failed and released. */
static void work_some(struct story *story)
{
    struct tend_lease leases[STORY_CLAIMED];
    struct tend_failure failure;
    size_t count = claim_some(story, leases);
    if (count < STORY_CLAIMED)
        return;
    tend_failure_init(&failure);
    failure.retry_in_ms = 0;
    for (int tries = 1; tries <= TRIES; tries++)
        if (went_well(story, tend_heartbeat(story->t, leases, count, 60000, NULL), "heartbeat",
                      tries))
            break;
    complete_one(story, leases[0], &story->diary->completed[0]);
    for (int tries = 1; tries <= TRIES; tries++)
        if (went_well(story, tend_fail(story->t, leases[1], &failure, NULL), "fail", tries))
            break;
    for (int tries = 1; tries <= TRIES; tries++)
        if (went_well(story, tend_release(story->t, &leases[2], 1, 0, "enough", NULL), "release",
                      tries))
            break;
    complete_one(story, leases[3], &story->diary->completed[3]);
}

/* A named lock and a queue's settings, and a look at everything. */
static void do_the_rest(struct story *story)
{
    const struct tend_setting settings[] = {{"concurrency", "100"}};
    struct tend_lock_request request;
    struct tend_stats *stats;
    tend_lock_request_init(&request);
    request.name = "l";
    for (int tries = 1; tries <= TRIES; tries++)
        if (went_well(story, tend_lock_acquire(story->t, &request, NULL), "lock", tries))
            break;
    for (int tries = 1; tries <= TRIES; tries++)
        if (went_well(story, tend_queue_set(story->t, "q", settings, 1, "me"), "queue set", tries))
            break;
    for (int tries = 1; tries <= TRIES; tries++) {
        if (went_well(story, tend_stats(story->t, &stats), "stats", tries)) {
            tend_stats_free(stats);
            break;
        }
    }
}

/*
 * Every connection of this process checkpoints early, so that a short story has many checkpoints in
 * it.
 */
static int checkpoint_early(sqlite3 *sqlite, const char **message, const void *api)
{
    (void)message;
    (void)api;
    return sqlite3_wal_autocheckpoint(sqlite, CHECKPOINT_PAGES);
}

static bool open_store(struct story *story, const char *url)
{
    for (int tries = 1; tries <= TRIES; tries++) {
        int rc = tend_open(&story->t, url, NULL);
        if (went_well(story, rc, "open", tries))
            return true;
        tend_close(story->t);
    }
    return false;
}

void story_tell(const char *url, const struct fault_plan *plan, struct diary *diary)
{
    struct story story = {.plan = plan, .diary = diary};
    fault_vfs_install(plan);
    sqlite3_auto_extension((void (*)(void))checkpoint_early);
    if (open_store(&story, url)) {
        for (size_t i = 0; i < STORY_SINGLES; i++) {
            char kind[32];
            snprintf(kind, sizeof kind, "single-%zu", i);
            add_single(&story, story.t, kind, i + 1 < STORY_SINGLES ? 1 : LARGE_BYTES,
                       &diary->singles[i]);
        }
        add_batch(&story);
        work_some(&story);
        add_in_threads(&story);
        do_the_rest(&story);
        tend_close(story.t);
    }
    diary->calls = fault_vfs_calls();
}
