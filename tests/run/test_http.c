/* run/http: requests as they arrive at the server, and answers as they come back. */
#include "run/http_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <time.h>

/* --- answers --- */

TEST(http, a_good_answer_is_its_status_and_its_body)
{
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"ok\":true}\n");
    case_init(&http, server_url(server, "/a?b=c%20d"));
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(http.body.data, "{\"ok\":true}\n");
    check_str(http.answer.note, "http 200, 12 bytes");
    check_int(http.answer.retry_after_ms, ==, -1);
    check_int(http.answer.redirects, ==, 0);
    check_contains(server_visit(server, 1)->head, "GET /a?b=c%20d HTTP/1.1\r\n");
    case_done(&http);
    server_stop(server);
}

static const char *answer_to(const char *answer, struct http_case *http)
{
    struct http_server *server = server_start(serve_text, (void *)answer);
    case_init(http, server_url(server, "/"));
    case_run(http);
    server_stop(server);
    return http->body.data;
}

TEST(http, bodies_in_chunks_and_bodies_up_to_the_end_arrive_whole)
{
    struct http_case http;
    check_str(answer_to("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Retry-After\r\n"
                        "\r\n5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nRetry-After: 9\r\n\r\n",
                        &http),
              "hello, world");
    check_succeeded(&http, 200);
    check_int(http.answer.retry_after_ms, ==, -1);
    case_done(&http);
    check_str(answer_to("HTTP/1.0 200 OK\r\n\r\nuntil the end", &http), "until the end");
    check_succeeded(&http, 200);
    case_done(&http);
    check_str(answer_to("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 Nothing\r\n\r\n", &http), "");
    check_succeeded(&http, 204);
    case_done(&http);
}

TEST(http, a_status_that_is_not_expected_is_told_with_its_number)
{
    struct http_case http;
    check_str(answer_to("HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\nwhat?", &http), "what?");
    check_ended(&http, ENDED_HTTP_STATUS, 404);
    check_str(http.answer.note, "http 404, 5 bytes");
    case_done(&http);
    answer_to("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", &http);
    check_ended(&http, ENDED_HTTP_STATUS, 500);
    case_done(&http);
}

TEST(http, the_plan_says_which_statuses_are_fine)
{
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    case_init(&http, server_url(server, "/"));
    http.expect[1] = (struct status_range){.low = 404, .high = 404};
    http.plan.expect_count = 2;
    case_run(&http);
    check_succeeded(&http, 404);
    case_expect(&http, 201, 201);
    http.plan.expect_count = 1;
    case_run(&http);
    check_ended(&http, ENDED_HTTP_STATUS, 404);
    case_done(&http);
    server_stop(server);
}

TEST(http, an_unexpected_status_decides_whatever_becomes_of_its_body)
{
    struct http_case http;
    answer_to("HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nbroken", &http);
    check_ended(&http, ENDED_HTTP_STATUS, 503);
    check_str(http.answer.note, "http 503, 6 bytes, and no more was read");
    case_done(&http);
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\n0123456789");
    case_init(&http, server_url(server, "/"));
    http.plan.max_response_bytes = 4;
    case_run(&http);
    check_ended(&http, ENDED_HTTP_STATUS, 503);
    check_str(http.body.data, "0123");
    case_done(&http);
    server_stop(server);
}

TEST(http, retry_after_is_understood_in_both_forms)
{
    /* WF-11 */
    struct http_case http;
    char date[80], text[200];
    answer_to("HTTP/1.1 429 No\r\nContent-Length: 0\r\nRetry-After: 120\r\n\r\n", &http);
    check_ended(&http, ENDED_HTTP_STATUS, 429);
    check_int(http.answer.retry_after_ms, ==, 120000);
    check_str(http.answer.note, "http 429, 0 bytes, retry after 2m");
    case_done(&http);

    time_t in_a_while = time(NULL) + 10000;
    struct tm utc;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&in_a_while, &utc));
    snprintf(text, sizeof text, "HTTP/1.1 503 No\r\nContent-Length: 0\r\nretry-after: %s\r\n\r\n",
             date);
    answer_to(text, &http);
    check_int(http.answer.retry_after_ms, <=, 10000 * 1000);
    check_int(http.answer.retry_after_ms, >, 9000 * 1000);
    case_done(&http);
}

TEST(http, odd_values_of_retry_after_are_bounded_or_passed_over)
{
    static const struct {
        const char *value;
        int64_t expected_ms;
    } cases[] = {
        {"0", 0},
        {"Thu, 01 Jan 1998 00:00:00 GMT", 0},
        {"99999999999999999999", INT64_C(365) * 86400 * 1000},
        {"Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(365) * 86400 * 1000},
        {"-5", -1},
        {"1.5", -1},
        {"soon", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_case http;
        char text[200];
        snprintf(text, sizeof text,
                 "HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: %s\r\n\r\n", cases[i].value);
        answer_to(text, &http);
        check_ended(&http, ENDED_HTTP_STATUS, 503);
        check_int(http.answer.retry_after_ms, ==, cases[i].expected_ms);
        case_done(&http);
    }
}

TEST(http, nothing_is_unpacked)
{
    struct http_case http;
    check_str(
        answer_to("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzzzz",
                  &http),
        "zzzz");
    check_succeeded(&http, 200);
    case_done(&http);
}

/* --- requests --- */

static const char fine[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

TEST(http, a_json_body_arrives_byte_for_byte_with_its_headers)
{
    static const char body[] = "{\"a\":\"\xc3\xa4\\u0000\",\"b\":[1,2]}";
    struct http_case http;
    struct http_server *server = server_start(serve_text, (void *)fine);
    case_init(&http, server_url(server, "/hook"));
    http.plan.method = "POST";
    http.plan.body = body;
    http.plan.body_bytes = sizeof body - 1;
    http.plan.body_is_json = true;
    http.call.idempotency_key = "tend-7-publish";
    case_header(&http, "X-One", "1; two: three");
    case_header(&http, "X-Empty", "");
    case_header(&http, "X-Blank", "  ");
    case_run(&http);
    check_succeeded(&http, 200);
    const struct visit *visit = server_visit(server, 1);
    check_contains(visit->head, "POST /hook HTTP/1.1\r\n");
    check_int(visit->body_bytes, ==, sizeof body - 1);
    check(memcmp(visit->body, body, sizeof body - 1) == 0);
    check_str(visit_header(visit, "Content-Type"), "application/json");
    check_str(visit_header(visit, "User-Agent"), "tend/" TEND_VERSION);
    check_str(visit_header(visit, "Idempotency-Key"), "tend-7-publish");
    check_str(visit_header(visit, "X-One"), "1; two: three");
    check_str(visit_header(visit, "X-Empty"), "");
    check_str(visit_header(visit, "X-Blank"), "");
    case_done(&http);
    server_stop(server);
}

TEST(http, headers_of_the_plan_come_before_those_of_tend)
{
    struct http_case http;
    struct http_server *server = server_start(serve_text, (void *)fine);
    case_init(&http, server_url(server, "/"));
    http.plan.method = "PUT";
    http.plan.body = "[]";
    http.plan.body_bytes = 2;
    http.plan.body_is_json = true;
    http.call.idempotency_key = "tend-1-a";
    case_header(&http, "content-type", "application/vnd.api+json");
    case_header(&http, "USER-AGENT", "mine");
    case_header(&http, "idempotency-key", "my own");
    case_run(&http);
    const struct visit *visit = server_visit(server, 1);
    check_contains(visit->head, "PUT / HTTP/1.1\r\n");
    check_str(visit_header(visit, "Content-Type"), "application/vnd.api+json");
    check_str(visit_header(visit, "User-Agent"), "mine");
    check_str(visit_header(visit, "Idempotency-Key"), "my own");
    check(strstr(visit->head, "tend") == NULL);
    case_done(&http);
    server_stop(server);
}

TEST(http, methods_and_bodies_go_as_the_plan_says)
{
    static const struct {
        const char *method, *body, *length;
    } cases[] = {
        {"GET", NULL, NULL},    {"GET", "asks", "4"},    {"POST", NULL, "0"},
        {"POST", "", "0"},      {"PATCH", "diff", "4"},  {"DELETE", NULL, NULL},
        {"DELETE", "why", "3"}, {"OPTIONS", NULL, NULL}, {"PURGE", NULL, NULL},
    };
    struct http_server *server = server_start(serve_text, (void *)fine);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_case http;
        char line[40];
        case_init(&http, server_url(server, "/"));
        http.plan.method = cases[i].method;
        http.plan.body = cases[i].body;
        http.plan.body_bytes = cases[i].body == NULL ? 0 : strlen(cases[i].body);
        case_run(&http);
        check_succeeded(&http, 200);
        const struct visit *visit = server_visit(server, (int)i + 1);
        snprintf(line, sizeof line, "%s / HTTP/1.1\r\n", cases[i].method);
        check(strncmp(visit->head, line, strlen(line)) == 0);
        check_str(visit->body, cases[i].body == NULL ? "" : cases[i].body);
        check_str(visit_header(visit, "Content-Length"), cases[i].length);
        check(visit_header(visit, "Content-Type") == NULL);
        case_done(&http);
    }
    server_stop(server);
}

TEST(http, head_gets_no_body_though_its_length_is_told)
{
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    case_init(&http, server_url(server, "/"));
    http.plan.method = "HEAD";
    case_run(&http);
    check_succeeded(&http, 200);
    check_contains(server_visit(server, 1)->head, "HEAD / HTTP/1.1\r\n");
    case_done(&http);
    server_stop(server);
}

TEST(http, a_large_body_arrives_whole)
{
    enum { BYTES = 5 * 1000 * 1000 };
    struct http_case http;
    struct http_server *server = server_start(serve_text, (void *)fine);
    char *body = malloc(BYTES);
    check(body != NULL);
    for (size_t i = 0; i < BYTES; i++)
        body[i] = (char)(i * 7 + i / 251);
    case_init(&http, server_url(server, "/"));
    http.plan.method = "POST";
    http.plan.body = body;
    http.plan.body_bytes = BYTES;
    case_run(&http);
    check_succeeded(&http, 200);
    check_int(server_visit(server, 1)->body_bytes, ==, BYTES);
    check(memcmp(server_visit(server, 1)->body, body, BYTES) == 0);
    check(visit_header(server_visit(server, 1), "Expect") == NULL);
    free(body);
    case_done(&http);
    server_stop(server);
}

TEST(http, credentials_in_the_url_become_a_header)
{
    struct http_case http;
    struct http_server *server = server_start(serve_text, (void *)fine);
    case_init(&http, server_url_at(server, "me:p%40ss@127.0.0.1", "/"));
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(visit_header(server_visit(server, 1), "Authorization"), "Basic bWU6cEBzcw==");
    case_done(&http);
    server_stop(server);
}

TEST(http, what_cannot_be_sent_is_refused_before_anything_is_sent)
{
    static const struct {
        const char *method, *body, *name, *value;
    } cases[] = {
        {"GET", NULL, "X-A", "a\r\nX-B: b"},
        {"GET", NULL, "X-A: b\r\nX-B", "c"},
        {"POST", "a", "content-length", "7"},
        {"POST", "a", "Transfer-Encoding", "chunked"},
        {"HEAD", "a", "X-A", "a"},
        {"CONNECT", NULL, "X-A", "a"},
    };
    struct http_server *server = server_start(serve_text, (void *)fine);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_case http;
        case_init(&http, server_url(server, "/"));
        http.plan.method = cases[i].method;
        http.plan.body = cases[i].body;
        http.plan.body_bytes = cases[i].body == NULL ? 0 : strlen(cases[i].body);
        case_header(&http, cases[i].name, cases[i].value);
        case_run(&http);
        check_ended(&http, ENDED_BAD_PLAN, 0);
        case_done(&http);
    }
    check_int(server_visits(server), ==, 0);
    server_stop(server);
}

/* --- many at once --- */

static void serve_number(struct visit *visit)
{
    char text[200];
    const char *path = strchr(visit->head, '/');
    int number = (int)strtol(path + 1, NULL, 10);
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n%08d", number);
    visit_say(visit, text);
}

static void *call_in_thread(void *arg)
{
    case_run(arg);
    return NULL;
}

TEST(http, twenty_threads_call_at_once_and_get_their_own_answers)
{
    enum { CALLS = 20, STACK_BYTES = 256 * 1024 }; /* of a runner's threads */
    static struct http_case http[CALLS];
    pthread_t threads[CALLS];
    pthread_attr_t attr;
    struct http_server *server = server_start(serve_number, NULL);
    pthread_attr_init(&attr);
    check_int(pthread_attr_setstacksize(&attr, STACK_BYTES), ==, 0);
    for (int i = 0; i < CALLS; i++) {
        char path[20];
        snprintf(path, sizeof path, "/%d", i);
        case_init(&http[i], server_url_at(server, "localhost", path));
    }
    for (int i = 0; i < CALLS; i++)
        check_int(pthread_create(&threads[i], &attr, call_in_thread, &http[i]), ==, 0);
    for (int i = 0; i < CALLS; i++) {
        pthread_join(threads[i], NULL);
        check_succeeded(&http[i], 200);
        check_int((int)strtol(http[i].body.data, NULL, 10), ==, i);
        case_done(&http[i]);
    }
    pthread_attr_destroy(&attr);
    server_stop(server);
}
