/* Secrets that a plan names: looked up by the worker, used, and never stored (SH-15). */
#include "runner_case.h"

#include "run/http_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nothing about it looks secret: it is one because the plan names it. */
#define VALUE "plain words, commas"
#define VALUE_LIKE "%%plain words%%"

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* How many rows of the store hold the value. */
static int64_t stored(void)
{
    return sql_int("SELECT (SELECT count(*) FROM output WHERE text LIKE '" VALUE_LIKE "')"
                   " + (SELECT count(*) FROM event WHERE why LIKE '" VALUE_LIKE
                   "' OR data LIKE '" VALUE_LIKE "')"
                   " + (SELECT count(*) FROM attempt WHERE summary LIKE '" VALUE_LIKE
                   "' OR evidence LIKE '" VALUE_LIKE "' OR warnings LIKE '" VALUE_LIKE
                   "' OR progress_text LIKE '" VALUE_LIKE "')"
                   " + (SELECT count(*) FROM checkpoint WHERE outputs LIKE '" VALUE_LIKE
                   "' OR changed_files LIKE '" VALUE_LIKE "')"
                   " + (SELECT count(*) FROM job WHERE error_text LIKE '" VALUE_LIKE
                   "' OR result LIKE '" VALUE_LIKE "' OR changed_why LIKE '" VALUE_LIKE
                   "' OR payload LIKE '" VALUE_LIKE "')");
}

static const char *write_secret(const char *name, const char *bytes, size_t len)
{
    const char *path = keep_text("%s/%s", test_folder(), name);
    FILE *file = fopen(path, "w");
    check(file != NULL);
    check_int(fwrite(bytes, 1, len, file), ==, len);
    check_int(fclose(file), ==, 0);
    return path;
}

static const char *secret_file(const char *name, const char *text)
{
    return write_secret(name, text, strlen(text));
}

TEST(secret_step, SH_15_a_header_and_a_body_come_from_the_worker)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_text, (void *)answer);
    setenv("CREW", VALUE, 1);
    int64_t id = add_plan(
        t, keep_text("{\"http\":{\"url\":\"%s\",\"headers\":{\"Authorization\":{\"env\":\"CREW\","
                     "\"prefix\":\"Bearer \"},\"X-Crew\":{\"file\":\"%s\"}},"
                     "\"body\":{\"env\":\"CREW\"}}}",
                     server_url(server, "/"), secret_file("crew", "of a file\n")));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    const struct visit *visit = server_visit(server, 1);
    check_str(visit_header(visit, "Authorization"), "Bearer " VALUE);
    check_str(visit_header(visit, "X-Crew"), "of a file");
    check_str(visit->body, VALUE);
    check(visit_header(visit, "Content-Type") == NULL);
    check_int(stored(), ==, 0);
    check_contains(job_of(t, id)->payload, "{\"env\":\"CREW\",\"prefix\":\"Bearer \"}");
    server_stop(server);
}

TEST(secret_step, a_json_body_names_secrets_inside)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_text, (void *)answer);
    setenv("CREW", VALUE, 1);
    int64_t id = add_plan(t, keep_text("{\"http\":{\"url\":\"%s\",\"body\":{\"env\":\"prod\","
                                       "\"keys\":[{\"$env\":\"CREW\"}]}}}",
                                       server_url(server, "/")));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(server_visit(server, 1)->body, "{\"env\":\"prod\",\"keys\":[\"" VALUE "\"]}");
    check_str(visit_header(server_visit(server, 1), "Content-Type"), "application/json");
    check_int(stored(), ==, 0);
    server_stop(server);
}

static void serve_echo(struct visit *visit)
{
    const char *value = visit_header(visit, "X-Crew");
    char text[200];
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n{\"you\":\"%s\"}",
             strlen(value) + 10, value);
    visit_say(visit, text);
}

TEST(secret_step, SH_15_what_a_server_answers_loses_the_secret)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_echo, NULL);
    setenv("CREW", VALUE, 1);
    int64_t id = add_plan(t, keep_text("{\"http\":{\"url\":\"%s\",\"headers\":{\"X-Crew\":"
                                       "{\"env\":\"CREW\"}}}}",
                                       server_url(server, "/")));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, "{\"you\":\"[redacted]\"}");
    check_str(output_of(t, id, 1), "{\"you\":\"[redacted]\"}");
    check_int(stored(), ==, 0);
    server_stop(server);
}

TEST(secret_step, SH_15_commands_have_the_values_in_their_environment_and_nowhere_else)
{
    tend *t = store_open_real("w");
    setenv("CREW", VALUE, 1);
    int64_t id = add_plan(
        t,
        keep_text("{\"env\":{\"OF_JOB\":{\"env\":\"CREW\"},\"BOTH\":{\"env\":\"CREW\"}},\"steps\":["
                  "{\"run\":\"printf %%s \\\"$OF_JOB\\\" > of_job; printf %%s \\\"$OF_STEP\\\" > "
                  "of_step; printf %%s \\\"$BOTH\\\" > both; cp $TEND_INPUT input; "
                  "echo it is $OF_JOB; echo said=$OF_JOB >> $TEND_OUTPUT; "
                  "printf %%s \\\"$OF_JOB\\\" | base64\","
                  "\"env\":{\"OF_STEP\":{\"file\":\"%s\",\"prefix\":\"<\"},\"BOTH\":\"mine\"}},"
                  "{\"exec\":[\"sh\",\"-c\",\"printf %%s \\\"$OF_JOB\\\" > exec; exit 64\"]}]}",
                  secret_file("crew", "another\r\n")));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(file_text("of_job"), VALUE);
    check_str(file_text("of_step"), "<another");
    check_str(file_text("both"), "mine");
    check_str(file_text("exec"), VALUE);
    check_contains(file_text("input"), "{\"env\":\"CREW\"}");
    check(strstr(file_text("input"), VALUE) == NULL);
    check_contains(output_of(t, id, 1), "it is [redacted]\n");
    check(strstr(output_of(t, id, 1), "cGxhaW4gd29yZHM") == NULL);
    check_int(stored(), ==, 0);
}

/* The second attempt is told what the first has printed. */
TEST(secret_step, SH_15_the_retry_context_has_no_secret)
{
    tend *t = store_open_real("w");
    setenv("CREW", VALUE, 1);
    int64_t id = add_plan(t, "{\"run\":\"test -n \\\"$TEND_RETRY_CONTEXT\\\" && cp "
                             "$TEND_RETRY_CONTEXT context && exit 0; "
                             "echo error: bad login $C; exit 75\","
                             "\"env\":{\"C\":{\"env\":\"CREW\"}}}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_contains(file_text("context"), "bad login [redacted]");
    check_int(stored(), ==, 0);
}

/* The first step printed the value of a variable that only a later one names, and it was stored. */
TEST(secret_step, SH_15_a_secret_that_a_later_step_names_is_known_from_the_first_step_on)
{
    tend *t = store_open_real("w");
    setenv("CREW", VALUE, 1);
    setenv("SHIP", "sails and oars", 1);
    setenv("PORT_OF", "north of here", 1);
    const char *file = secret_file("crew", "of a file\n");
    int64_t id = add_plan(
        t, keep_text("{\"steps\":[{\"run\":\"echo early $CREW, $SHIP, $PORT_OF; cat %s\"},"
                     "{\"run\":\"exit 64\",\"env\":{\"X\":{\"env\":\"CREW\"},"
                     "\"Y\":{\"env\":\"NOT_THERE\"}}},"
                     "{\"http\":{\"url\":\"http://127.0.0.1:1\",\"headers\":{\"X-Ship\":"
                     "{\"env\":\"SHIP\"}},\"body\":{\"a\":[{\"$env\":\"NOT_THERE\"},"
                     "{\"$env\":\"PORT_OF\"}]}}},"
                     "{\"http\":{\"url\":\"http://127.0.0.1:1\",\"body\":{\"file\":\"%s\"}}}]}",
                     file, file));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(output_of(t, id, 1), "early [redacted], [redacted], [redacted]\n[redacted]\n");
    check_contains(job_of(t, id)->error_text, "variable \"Y\" needs variable \"NOT_THERE\"");
    check_int(stored(), ==, 0);
}

/* A handler comes before a plan, and may well know what the plan names. */
TEST(secret_step, SH_15_a_handler_loses_what_the_payload_names)
{
    tend *t = store_open_real("w");
    setenv("CREW", VALUE, 1);
    const struct tend_handler handler = {.kind = "sail", .command = "echo it is $CREW"};
    struct tend_runner_options options = runner_options();
    options.handlers = &handler;
    options.handler_count = 1;
    struct tend_job_spec spec = spec_for("q");
    spec.kind = "sail";
    static const char *const payloads[] = {
        "{\"run\":\"true\",\"env\":{\"X\":{\"env\":\"CREW\"}}}",
        "{\"to\":\"x\",\"headers\":[{\"Authorization\":{\"env\":\"CREW\"}}]}", /* no plan */
    };
    for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
        spec.payload = payloads[i];
        int64_t id = add_spec(t, &spec);
        run_with(t, &options);
        check_int(state_of(t, id), ==, TEND_DONE);
        check_str(job_of(t, id)->result, "\"it is [redacted]\"");
        check_int(stored(), ==, 0);
    }
}

/* Symptom: the result of a handler that reads the file its payload names was "[redacted]". */
TEST(secret_step, a_file_that_is_the_data_of_a_payload_is_no_secret)
{
    tend *t = store_open_real("w");
    const struct tend_handler handler = {.kind = "sail", .command = "cat crew.csv"};
    struct tend_runner_options options = runner_options();
    options.handlers = &handler;
    options.handler_count = 1;
    struct tend_job_spec spec = spec_for("q");
    spec.kind = "sail";
    check_int(system("echo seventeen sailors > crew.csv"), ==, 0);
    spec.payload = keep_text("{\"file\":\"%s/crew.csv\"}", test_folder());
    int64_t id = add_spec(t, &spec);
    run_with(t, &options);
    check_str(job_of(t, id)->result, "\"seventeen sailors\"");
}

/* In every way that a step can speak, and in the job of the hook that is told how it ended. */
TEST(secret_step, SH_15_nothing_that_a_step_reports_has_the_secret)
{
    tend *t = store_open_real("w");
    setenv("CREW", VALUE, 1);
    const struct tend_hook hook = {.name = "ops", .on = "failed", .payload = "{\"run\":\"true\"}"};
    check_ok(t, tend_hook_put(t, &hook, NULL));
    int64_t id = add_plan(
        t,
        "{\"env\":{\"C\":{\"env\":\"CREW\"}},\"steps\":[{\"run\":\"{ echo progress=40 at $C;"
        " echo class=$C; echo said=$C; printf '{\\\"result\\\": {\\\"%s\\\": \\\"%s\\\"}}' \\\"$C\\\""
        " \\\"$C\\\"; echo; } >> $TEND_OUTPUT\"},"
        "{\"run\":\"echo error: fatal: $C >&2; exit 64\"}]}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(job_of(t, id)->error_text, "fatal: [redacted]");
    check_int(sql_int("SELECT count(*) FROM job WHERE hook = 'ops'"), ==, 1);
    check_int(sql_int("SELECT count(*) FROM job WHERE payload LIKE '%%fatal: [redacted]%%'"), ==,
              1);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE warnings IS NOT NULL"), ==, 1);
    check_int(sql_int("SELECT count(*) FROM attempt WHERE progress_text = 'at [redacted]'"), ==, 1);
    check_int(sql_int("SELECT count(*) FROM checkpoint WHERE outputs LIKE '%%[redacted]%%'"), ==,
              1);
    check_int(stored(), ==, 0);
}

/* Tokens are rotated: each attempt reads its own, and none of them is stored. */
TEST(secret_step, SH_15_a_file_that_changes_is_read_by_every_attempt)
{
    tend *t = store_open_real("w");
    const char *path = secret_file("crew", "first value");
    int64_t id = add_plan(
        t, keep_text("{\"run\":\"echo $C; test \\\"$C\\\" = 'second value' && echo was first value "
                     "&& exit 0; printf 'second value' > %s; exit 75\","
                     "\"env\":{\"C\":{\"file\":\"%s\"}}}",
                     path, path));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(output_of(t, id, 1), "[redacted]\n[redacted]\nwas [redacted]\n");
}

TEST(secret_step, SH_4_a_secret_that_is_missing_fails_the_job_and_is_named)
{
    tend *t = store_open_real("w");
    char large[64 * 1024 + 2];
    memset(large, 'x', sizeof large);
    unsetenv("NOT_THERE");
    setenv("EMPTY", "", 1);
    setenv("TWO_LINES", "one\ntwo", 1);
    check_int(mkdir(keep_text("%s/folder", test_folder()), 0700), ==, 0);
    const struct {
        const char *source, *sentence;
    } cases[] = {
        {"{\"env\":\"NOT_THERE\"}",
         "needs variable \"NOT_THERE\", which is not set in the environment of the worker"},
        {"{\"env\":\"EMPTY\"}", "needs variable \"EMPTY\", which is empty"},
        {"{\"env\":\"TWO_LINES\"}", "which has a line break, and a header is one line"},
        {"{\"file\":\"/nowhere/at/all\"}", "needs file \"/nowhere/at/all\", which does not exist"},
        {keep_text("{\"file\":\"%s/folder\"}", test_folder()), "which is not a regular file"},
        {"{\"file\":\"/dev/zero\"}", "which is not a regular file"},
        {keep_text("{\"file\":\"%s\"}", secret_file("empty", "\n")), "which is empty"},
        {keep_text("{\"file\":\"%s\"}", write_secret("zero", "a\0b", 3)),
         "which holds a zero byte"},
        {keep_text("{\"file\":\"%s\"}", write_secret("large", large, sizeof large - 1)),
         "which is larger than 64 KiB"},
    };
    struct http_server *server = server_start(serve_text, (void *)answer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t id =
            add_plan(t, keep_text("{\"http\":{\"url\":\"%s\",\"headers\":{\"X-Crew\":%s}}}",
                                  server_url(server, "/"), cases[i].source));
        run_until_drained(t);
        check_int(state_of(t, id), ==, TEND_FAILED);
        check_str(attempts_of(t, id), "1:failed:deterministic_policy:secret");
        check_contains(job_of(t, id)->error_text, cases[i].sentence);
        check_contains(job_of(t, id)->error_text, "header \"X-Crew\"");
    }
    check_int(server_visits(server), ==, 0);
    server_stop(server);
}

TEST(secret_step, a_command_whose_secret_is_missing_is_not_started)
{
    tend *t = store_open_real("w");
    unsetenv("NOT_THERE");
    int64_t id =
        add_plan(t, "{\"run\":\"touch begun\",\"env\":{\"CREW\":{\"env\":\"NOT_THERE\"}}}");
    int64_t body = add_plan(t, "{\"http\":{\"url\":\"http://127.0.0.1:1\",\"body\":{\"env\":"
                               "\"NOT_THERE\"}}}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_contains(job_of(t, id)->error_text, "variable \"CREW\" needs variable \"NOT_THERE\"");
    check(access("begun", F_OK) < 0);
    check_contains(job_of(t, body)->error_text, "the body needs variable \"NOT_THERE\"");
    /* Symptom: variable "NOT_THERE" needs variable "NOT_THERE", which is not set. */
    int64_t same =
        add_plan(t, "{\"run\":\"touch begun\",\"env\":{\"NOT_THERE\":{\"env\":\"NOT_THERE\"}}}");
    run_until_drained(t);
    check_contains(
        job_of(t, same)->error_text,
        "variable \"NOT_THERE\" (--env-from) is not set in the environment of the worker");
}

/* The largest file that is allowed, with the newline that does not count for the value. */
TEST(secret_step, a_file_of_64_KiB_is_read)
{
    tend *t = store_open_real("w");
    char large[64 * 1024];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + i * 7 % 26);
    large[sizeof large - 1] = '\n';
    struct http_server *server = server_start(serve_text, (void *)answer);
    int64_t id =
        add_plan(t, keep_text("{\"http\":{\"url\":\"%s\",\"body\":{\"file\":\"%s\"}}}",
                              server_url(server, "/"), write_secret("large", large, sizeof large)));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(server_visit(server, 1)->body_bytes, ==, sizeof large - 1);
    server_stop(server);
}

/* Symptom: the redactor knew the value up to its first zero byte, and the rest was stored. */
TEST(secret_step, SH_15_a_body_with_a_zero_byte_is_a_secret_as_a_whole)
{
    static const char bytes[] = "first\0" VALUE;
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_text, (void *)answer);
    const char *path = write_secret("bytes", bytes, sizeof bytes - 1);
    int64_t id =
        add_plan(t, keep_text("{\"steps\":[{\"run\":\"cat %s; echo; echo told\"},{\"http\":"
                              "{\"url\":\"%s\",\"body\":{\"file\":\"%s\"}}}]}",
                              path, server_url(server, "/"), path));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_int(server_visit(server, 1)->body_bytes, ==, sizeof bytes - 1);
    check_contains(output_of(t, id, 1), "[redacted]\ntold");
    check_int(stored(), ==, 0);
    server_stop(server);
}

/* Symptom: a value that was too short to be looked for was stored, although the plan names it. */
TEST(secret_step, SH_15_a_secret_that_is_too_short_to_be_kept_out_is_refused)
{
    tend *t = store_open_real("w");
    setenv("PIN", " 123 ", 1);
    int64_t id = add_plan(t, "{\"env\":{\"PIN\":{\"env\":\"PIN\"}},\"run\":\"touch begun\"}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check(access("begun", F_OK) < 0);
    check_contains(job_of(t, id)->error_text,
                   "variable \"PIN\" (--env-from) is shorter than 4 bytes: a secret that short "
                   "cannot be kept out of the output");
}
