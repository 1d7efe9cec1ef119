/*
 * A program with a queue inside: it adds a job, takes it under a lease, shows that it is alive,
 * and completes it. Build and run:
 *
 *     cc embed.c $(pkg-config --cflags --libs tend) -o embed && ./embed [sqlite:FILE]
 */
#include <inttypes.h>
#include <stdio.h>
#include <tend.h>

/* Every failure comes with a sentence: what failed, on what, what to do. */
static int failed(tend *t, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tend_errmsg(t));
    tend_close(t);
    return 1;
}

int main(int argc, char **argv)
{
    tend *t = NULL;
    if (tend_open(&t, argc > 1 ? argv[1] : "sqlite:embed.db", NULL) < 0)
        return failed(t, "open");

    struct tend_job_spec spec;
    tend_job_spec_init(&spec);
    spec.queue = "mail";
    spec.kind = "welcome";
    spec.payload = "{\"to\": \"ann@example.org\"}";
    struct tend_added added;
    if (tend_add(t, &spec, &added) < 0)
        return failed(t, "add");
    printf("added job %" PRId64 "\n", added.id);

    /* The claim ties the job to this process: if it dies, the job is somebody else's at once. */
    struct tend_claim claim;
    tend_claim_init(&claim);
    claim.queue = "mail";
    claim.wait_ms = 1000;
    struct tend_jobs *jobs;
    if (tend_claim_jobs(t, &claim, &jobs, NULL) < 0)
        return failed(t, "claim");
    struct tend_lease lease = {jobs->items[0].id, jobs->items[0].token};
    printf("claimed job %" PRId64 " of kind %s: %s\n", lease.id, jobs->items[0].kind,
           jobs->items[0].payload);
    tend_jobs_free(jobs);

    /* Long work does this now and then; a lease that was lost is told here. */
    if (tend_heartbeat(t, &lease, 1, TEND_UNSET, NULL) < 0)
        return failed(t, "heartbeat");
    printf("still at it\n");

    const char *result = "{\"sent\": true}";
    if (tend_complete(t, &lease, 1, &result, NULL) < 0)
        return failed(t, "complete");
    printf("completed job %" PRId64 "\n", lease.id);
    tend_close(t);
    return 0;
}
