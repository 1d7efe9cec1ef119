#include "runner_case.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t add_plan(tend *t, const char *payload)
{
    struct tend_job_spec spec = spec_for("q");
    spec.payload = payload;
    return add_spec(t, &spec);
}

static void tell(void *arg, const struct tend_runner_news *news)
{
    (void)arg;
    printf("# %s\n", news->text);
}

struct tend_runner_options runner_options(void)
{
    static const char *const queues[] = {"q"};
    struct tend_runner_options options;
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
    setenv("TEND_STEP_PAUSE_SECONDS", "0", 0); /* tests of the pause set one */
    tend_runner_options_init(&options);
    options.queues = queues;
    options.queue_count = 1;
    options.drain = 1;
    options.helper_path = keep_text("%s/tend", getenv("TEND_BUILD"));
    options.tell = tell;
    return options;
}

void run_with(tend *t, const struct tend_runner_options *options)
{
    tend_runner *runner;
    check_ok(t, tend_runner_new(&runner, t, options));
    check_ok(t, tend_runner_run(runner));
    tend_runner_free(runner);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 0);
}

void run_until_drained(tend *t)
{
    struct tend_runner_options options = runner_options();
    run_with(t, &options);
}

/* The runner when it ended well, else NULL. */
static void *run(void *arg)
{
    int rc = tend_runner_run(arg);
    if (rc != 0)
        fprintf(stderr, "the runner ended with code %d\n", rc);
    return rc == 0 ? arg : NULL;
}

struct running_runner runner_start(tend *t, const struct tend_runner_options *options)
{
    struct running_runner running;
    struct tend_runner_options defaults = runner_options();
    if (options != NULL)
        defaults = *options;
    defaults.drain = 0;
    check_ok(t, tend_runner_new(&running.runner, t, &defaults));
    check_int(pthread_create(&running.thread, NULL, run, running.runner), ==, 0);
    return running;
}

void runner_join(struct running_runner *running)
{
    void *ended_well;
    pthread_join(running->thread, &ended_well);
    check(ended_well != NULL);
    tend_runner_free(running->runner);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 0);
}

void runner_forever(struct helper *parent, void *arg)
{
    tend *t = store_open_real(arg);
    struct tend_runner_options options = runner_options();
    tend_runner *runner;
    options.drain = 0;
    options.tell = NULL;
    check_ok(t, tend_runner_new(&runner, t, &options));
    helper_say(parent, 1);
    tend_runner_run(runner);
}

const char *file_text(const char *name)
{
    char bytes[4096];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, bytes, sizeof bytes - 1);
    if (fd >= 0)
        close(fd);
    return len <= 0 ? NULL : keep_text("%.*s", (int)len, bytes);
}

int64_t file_number(const char *name)
{
    const char *text = file_text(name);
    check(text != NULL);
    return strtoll(text, NULL, 10);
}

const char *attempts_of(tend *t, int64_t id)
{
    struct tend_attempts *attempts;
    const char *text = "";
    check_ok(t, tend_attempts(t, id, &attempts));
    for (size_t i = 0; i < attempts->count; i++) {
        const struct tend_attempt *attempt = &attempts->items[i];
        text = keep_text("%s%s%lld:%s:%s:%s", text, i == 0 ? "" : " ", (long long)attempt->attempt,
                         tend_attempt_state_name(attempt->state),
                         attempt->failure_class != NULL ? attempt->failure_class : "",
                         attempt->rule != NULL ? attempt->rule : "");
    }
    tend_attempts_free(attempts);
    return text;
}

const char *summaries_of(tend *t, int64_t id)
{
    struct tend_attempts *attempts;
    const char *text = "";
    check_ok(t, tend_attempts(t, id, &attempts));
    for (size_t i = 0; i < attempts->count; i++)
        text = keep_text("%s%s\n", text,
                         attempts->items[i].summary != NULL ? attempts->items[i].summary : "");
    tend_attempts_free(attempts);
    return text;
}

const char *output_of(tend *t, int64_t id, int stream)
{
    struct tend_outputs *outputs;
    const char *text = "";
    check_ok(t, tend_output_read(t, id, 0, 0, 0, &outputs));
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->items[i].stream == stream)
            text = keep_text("%s%.*s", text, (int)outputs->items[i].text_bytes,
                             outputs->items[i].text);
    tend_outputs_free(outputs);
    return text;
}
