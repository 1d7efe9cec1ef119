/* tend's side of the comparison, through nothing but the public interface. */
#include "bench/side.h"

static void ours_close(void *store)
{
    tend_close(store);
}

static int ours_open(void **ret_store, const struct place *place, size_t sessions)
{
    struct tend_options options;
    char url[PLACE_URL_BYTES];
    tend *t;
    if (place_url(place, url) < 0)
        return -1;
    tend_options_init(&options);
    options.name = SIDE_OWNER;
    options.connections = (int)sessions;
    int rc = tend_open(&t, url, &options);
    if (rc == TEND_ENOMEM)
        return bench_fail("out of memory");
    *ret_store = t;
    return rc < 0 ? bench_fail("tend: %s", tend_errmsg(t)) : 0;
}

static int ours_session_open(void *store, void **ret_session)
{
    *ret_session = store; /* a handle is for any number of threads */
    return 0;
}

static void ours_session_close(void *session)
{
    (void)session;
}

static int ours_add(void *session, size_t count)
{
    struct tend_job_spec specs[SIDE_BATCH_MAX];
    struct tend_added added[SIDE_BATCH_MAX];
    for (size_t i = 0; i < count; i++) {
        tend_job_spec_init(&specs[i]);
        specs[i].queue = SIDE_QUEUE;
        specs[i].kind = SIDE_KIND;
        specs[i].payload = SIDE_PAYLOAD;
    }
    if (tend_add_many(session, specs, count, added) < 0)
        return bench_fail("tend, adding: %s", tend_errmsg(session));
    return 0;
}

/* What a claim answered, as a number of leases. */
static int take(tend *t, int rc, struct tend_jobs *jobs, struct tend_lease *ret)
{
    size_t bytes = 0;
    if (rc == TEND_EEMPTY)
        return 0;
    if (rc < 0)
        return bench_fail("tend, claiming: %s", tend_errmsg(t));
    for (size_t i = 0; i < jobs->count; i++) {
        ret[i] = (struct tend_lease){.id = jobs->items[i].id, .token = jobs->items[i].token};
        bytes += jobs->items[i].payload_bytes; /* a worker would look at it */
    }
    tend_jobs_free(jobs);
    return bytes == 0 ? bench_fail("tend, claiming: jobs without a payload") : rc;
}

static void want(struct tend_claim *claim, size_t count)
{
    tend_claim_init(claim);
    claim->queue = SIDE_QUEUE;
    claim->count = count;
}

static int ours_claim(void *session, size_t count, struct tend_lease *ret)
{
    struct tend_claim claim;
    struct tend_jobs *jobs = NULL;
    want(&claim, count);
    int rc = tend_claim_jobs(session, &claim, &jobs, NULL);
    return take(session, rc, jobs, ret);
}

static int ours_complete(void *session, const struct tend_lease *leases, size_t count)
{
    if (tend_complete(session, leases, count, NULL, NULL) < 0)
        return bench_fail("tend, completing: %s", tend_errmsg(session));
    return 0;
}

static int ours_turn(void *session, const struct tend_lease *leases, size_t done, size_t count,
                     struct tend_lease *ret)
{
    struct tend_claim claim;
    struct tend_jobs *jobs = NULL;
    int each[SIDE_BATCH_MAX];
    want(&claim, count);
    int rc = tend_complete_and_claim(session, leases, done, NULL, each, &claim, &jobs, NULL);
    for (size_t i = 0; i < done; i++)
        if (each[i] < 0)
            return bench_fail("tend, completing: lease %lld:%lld was lost", (long long)leases[i].id,
                              (long long)leases[i].token);
    return take(session, rc, jobs, ret);
}

const struct side side_tend = {
    .name = "tend",
    .open = ours_open,
    .close = ours_close,
    .session_open = ours_session_open,
    .session_close = ours_session_close,
    .add = ours_add,
    .claim = ours_claim,
    .complete = ours_complete,
    .turn = ours_turn,
};
