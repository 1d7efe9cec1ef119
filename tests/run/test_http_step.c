/* Steps that are HTTP calls, through a runner. */
#include "runner_case.h"

#include "run/http_server.h"

#include <stdio.h>
#include <string.h>

static int64_t add_call(tend *t, struct http_server *server, const char *members)
{
    return add_plan(t, keep_text("{\"steps\":[{\"id\":\"call\",\"http\":{\"url\":\"%s\"%s}}]}",
                                 server_url(server, "/"), members));
}

static const char *key_of(tend *t, int64_t id)
{
    return keep_text("tend-%lld-%lld-call", (long long)job_of(t, id)->created_at_ms, (long long)id);
}

TEST(http_step, the_answer_is_output_and_result)
{
    tend *t = store_open_real("w");
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{ \"n\" : 42 }\n");
    int64_t id = add_call(t, server, ",\"body\":{\"a\":1}");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(job_of(t, id)->result, "{\"n\":42}");
    check_str(output_of(t, id, 1), "{ \"n\" : 42 }\n");
    check_str(output_of(t, id, 2), "http 200, 13 bytes\n");
    const struct visit *visit = server_visit(server, 1);
    check_str(visit->body, "{\"a\":1}");
    check_str(visit_header(visit, "Idempotency-Key"), key_of(t, id));
    server_stop(server);
}

static void serve_fine_at_last(struct visit *visit)
{
    visit_say(visit, visit->number < 2 ? "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"
                                       : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TEST(http_step, SH_6_a_failure_that_passes_is_tried_again_with_the_same_key)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_fine_at_last, NULL);
    int64_t id = add_call(t, server, "");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:http.503 2:succeeded::");
    check_str(visit_header(server_visit(server, 1), "Idempotency-Key"), key_of(t, id));
    check_str(visit_header(server_visit(server, 2), "Idempotency-Key"), key_of(t, id));
    server_stop(server);
}

/* What has succeeded and is wanted once more is no repeat, and must not be answered as one. */
TEST(http_step, a_call_that_is_made_again_on_purpose_has_a_key_of_its_own)
{
    tend *t = store_open_real("w");
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    int64_t id = add_plan(t, keep_text("{\"steps\":[{\"id\":\"call\",\"http\":{\"url\":\"%s\"}},"
                                       "{\"id\":\"b\",\"run\":\"exit 64\"}]}",
                                       server_url(server, "/")));
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    for (int life = 2; life <= 3; life++) {
        struct tend_control_result result;
        check_ok(t, tend_control(t, id, "resume_from_step", "call", NULL, "me", &result));
        check_int(result.job_id, ==, id);
        run_until_drained(t);
        check_int(server_visits(server), ==, life);
        check_str(visit_header(server_visit(server, life), "Idempotency-Key"),
                  keep_text("%s-%d", key_of(t, id), life));
    }
    server_stop(server);
}

TEST(http_step, SH_4_a_status_that_stays_fails_the_job_at_once)
{
    tend *t = store_open_real("w");
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 404 No\r\nContent-Length: 8\r\n\r\nno such\n");
    int64_t id = add_call(t, server, "");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(attempts_of(t, id), "1:failed:deterministic_contract:http.404");
    check_str(output_of(t, id, 1), "no such\n");
    check_str(summaries_of(t, id), "step call, attempt 1 of 3: http 404, 8 bytes\n");
    check_int(server_visits(server), ==, 1);
    server_stop(server);
}

/* The body has no end of line, so that its last line is told late: it was taken for the reason. */
TEST(http_step, an_answer_that_is_too_large_fails_by_its_size_and_not_by_what_it_says)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(
        serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nthe first, and then many others");
    int64_t id = add_call(t, server, ",\"max_response_bytes\":10");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(attempts_of(t, id), "1:failed:deterministic_contract:http.size");
    check_str(job_of(t, id)->error_text, "step call, attempt 1 of 3: http 200: the answer is "
                                         "larger than 10 bytes (max_response_bytes)");
    server_stop(server);
}

TEST(http_step, a_redirect_that_is_not_followed_says_what_follows_it)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(
        serve_text, "HTTP/1.1 302 Go\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
    int64_t id = add_call(t, server, "");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_FAILED);
    check_str(job_of(t, id)->error_text,
              "step call, attempt 1 of 3: http 302, 0 bytes, a redirect; \"follow_redirects\": "
              "true follows it");
    server_stop(server);
}

TEST(http_step, SH_15_secrets_in_an_answer_are_not_stored)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(
        serve_text,
        "HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{\"password\": \"hunter2hunter2!!\"}\n");
    int64_t id = add_call(t, server, "");
    run_until_drained(t);
    check_int(state_of(t, id), ==, TEND_DONE);
    check(strstr(output_of(t, id, 1), "hunter2") == NULL);
    check(strstr(job_of(t, id)->result, "hunter2") == NULL);
    server_stop(server);
}

/* WF-11 */
TEST(http_step, the_server_says_when_the_job_is_tried_again)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(
        serve_text, "HTTP/1.1 429 No\r\nRetry-After: 5000\r\nContent-Length: 0\r\n\r\n");
    int64_t id = add_call(t, server, "");
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    int64_t now_ms;
    check_ok(t, tend_now(t, &now_ms));
    check_int(job_of(t, id)->due_at_ms, <=, now_ms + 5000 * 1000);
    check_int(job_of(t, id)->due_at_ms, >, now_ms + 4000 * 1000);
    server_stop(server);
}

static void check_403(const char *header, const char *attempts)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(
        serve_text, keep_text("HTTP/1.1 403 No\r\n%sContent-Length: 0\r\n\r\n", header));
    int64_t id = add_plan(
        t, keep_text("{\"http\":{\"url\":\"%s\"},\"attempts\":1}", server_url(server, "/")));
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED || state_of(t, id) == TEND_FAILED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(attempts_of(t, id), attempts);
    server_stop(server);
}

TEST(http_step, a_403_without_a_limit_is_a_matter_of_policy)
{
    check_403("X-RateLimit-Remaining: 10\r\n", "1:failed:deterministic_policy:http.403");
}

TEST(http_step, a_403_with_retry_after_passes)
{
    check_403("Retry-After: 60\r\n", "1:failed:transient_runtime:http.403");
}

TEST(http_step, a_403_with_no_requests_left_passes)
{
    check_403("X-RateLimit-Remaining: 0\r\n", "1:failed:transient_runtime:http.403");
}

static void serve_nothing(struct visit *visit)
{
    visit_await_close(visit);
}

TEST(http_step, SH_2_a_server_that_is_silent_runs_into_the_idle_timeout)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_nothing, NULL);
    int64_t id = add_plan(t, keep_text("{\"http\":{\"url\":\"%s\"},\"idle_timeout\":\"300ms\","
                                       "\"attempts\":1}",
                                       server_url(server, "/")));
    struct running_runner running = runner_start(t, NULL);
    wait_until(state_of(t, id) == TEND_SCHEDULED, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(attempts_of(t, id), "1:failed:transient_runtime:timeout.idle");
    server_stop(server);
}

/* LS-6 */
TEST(http_step, LS_6_a_stop_at_once_ends_the_call)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_nothing, NULL);
    int64_t id = add_call(t, server, "");
    struct running_runner running = runner_start(t, NULL);
    wait_until(server_visits(server) == 1, PATIENCE_MS);
    tend_runner_stop(running.runner, 1);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_PENDING);
    check_int(job_of(t, id)->attempts, ==, 0);
    check_contains(attempts_of(t, id), "1:stopped");
    server_stop(server); /* it has seen the connection closed */
}

/* RC-11, SH-12 */
TEST(http_step, RC_11_a_cancelled_job_ends_the_call)
{
    tend *t = store_open_real("w");
    struct http_server *server = server_start(serve_nothing, NULL);
    int64_t id = add_call(t, server, "");
    struct running_runner running = runner_start(t, NULL);
    wait_until(server_visits(server) == 1, PATIENCE_MS);
    check_ok(t, tend_act(t, TEND_CANCEL, id, "me", "enough"));
    server_stop(server); /* waits until it has seen the connection closed */
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_int(state_of(t, id), ==, TEND_CANCELLED);
}

static void serve_at_second(struct visit *visit)
{
    if (visit->number == 1)
        visit_await_close(visit);
    else
        visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TEST(http_step, SH_12_retry_step_calls_anew)
{
    tend *t = store_open_real("w");
    struct tend_control_result result;
    struct http_server *server = server_start(serve_at_second, NULL);
    int64_t id = add_call(t, server, "");
    struct running_runner running = runner_start(t, NULL);
    wait_until(server_visits(server) == 1, PATIENCE_MS);
    check_ok(t, tend_control(t, id, "retry_step", NULL, "hangs", "me", &result));
    wait_until(state_of(t, id) == TEND_DONE, PATIENCE_MS);
    tend_runner_stop(running.runner, 0);
    runner_join(&running);
    check_str(attempts_of(t, id), "1:stopped:: 1:succeeded::");
    server_stop(server);
}
