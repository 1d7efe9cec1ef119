/* run/http: answers that point elsewhere. */
#include "run/http_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A server that sends on: each path "/STATUS" points to `target`, "/loop" to itself, all else is
 * fine. */
struct signpost {
    const char *target;
};

static void serve_signpost(struct visit *visit)
{
    const struct signpost *signpost = visit->context;
    const char *path = strchr(visit->head, '/') + 1;
    char text[600];
    int status = (int)strtol(path, NULL, 10);
    if (strncmp(path, "loop", 4) == 0)
        snprintf(text, sizeof text, "HTTP/1.1 302 On\r\nLocation: /loop\r\n\r\n");
    else if (status == 0)
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere");
    else
        snprintf(text, sizeof text,
                 "HTTP/1.1 %d On\r\nLocation: %s\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\n"
                 "not there",
                 status, signpost->target);
    visit_say(visit, text);
}

TEST(http_redirect, it_is_not_followed_unless_the_plan_says_so)
{
    struct http_case http;
    struct signpost to = {"/there"};
    struct http_server *server = server_start(serve_signpost, &to);
    case_init(&http, server_url(server, "/302"));
    case_run(&http);
    check_ended(&http, ENDED_HTTP_STATUS, 302);
    check_str(http.body.data, "not there");
    buf_clear(&http.body);
    case_expect(&http, 300, 399);
    case_run(&http);
    check_succeeded(&http, 302);
    check_int(server_visits(server), ==, 2);
    case_done(&http);
    server_stop(server);
}

TEST(http_redirect, when_followed_only_the_last_answer_counts)
{
    struct http_case http;
    struct signpost to = {"/some where?x=y#part"};
    struct http_server *server = server_start(serve_signpost, &to);
    case_init(&http, server_url(server, "/302"));
    http.plan.follow_redirects = true;
    http.plan.max_response_bytes = 4;
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(http.body.data, "here");
    check_int(http.answer.redirects, ==, 1);
    check_int(http.answer.retry_after_ms, ==, -1);
    check_contains(server_visit(server, 2)->head, "GET /some%20where?x=y HTTP/1.1\r\n");
    case_done(&http);
    server_stop(server);
}

TEST(http_redirect, methods_turn_as_in_browsers)
{
    static const struct {
        int status;
        const char *method, *then;
        bool with_body;
    } cases[] = {
        {301, "POST", "GET", false},   {302, "POST", "GET", false}, {303, "POST", "GET", false},
        {303, "DELETE", "GET", false}, {307, "POST", "POST", true}, {308, "POST", "POST", true},
        {302, "PUT", "PUT", true},     {303, "PUT", "GET", false},
    };
    struct signpost to = {"/there"};
    struct http_server *server = server_start(serve_signpost, &to);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_case http;
        char path[20], line[40];
        snprintf(path, sizeof path, "/%d", cases[i].status);
        snprintf(line, sizeof line, "%s /there HTTP/1.1\r\n", cases[i].then);
        case_init(&http, server_url(server, path));
        http.plan.method = cases[i].method;
        http.plan.body = "{}";
        http.plan.body_bytes = 2;
        http.plan.body_is_json = true;
        http.plan.follow_redirects = true;
        case_header(&http, "Content-Language", "en");
        case_run(&http);
        check_succeeded(&http, 200);
        const struct visit *visit = server_visit(server, (int)i * 2 + 2);
        check_contains(visit->head, line);
        check_str(visit->body, cases[i].with_body ? "{}" : "");
        check_str(visit_header(visit, "Content-Type"),
                  cases[i].with_body ? "application/json" : NULL);
        check_str(visit_header(visit, "Content-Language"), cases[i].with_body ? "en" : NULL);
        case_done(&http);
    }
    server_stop(server);
}

TEST(http_redirect, a_loop_ends)
{
    struct http_case http;
    struct http_server *server = server_start(serve_signpost, NULL);
    case_init(&http, server_url(server, "/loop"));
    http.plan.follow_redirects = true;
    case_run(&http);
    check_trouble(&http, HTTP_REDIRECTED_TOO_OFTEN);
    check_int(server_visits(server), ==, HTTP_REDIRECTS_MAX + 1);
    check_int(http.answer.redirects, ==, HTTP_REDIRECTS_MAX);
    case_done(&http);
    server_stop(server);
}

static void case_with_secrets(struct http_case *http, const char *url)
{
    case_init(http, url);
    http->plan.follow_redirects = true;
    http->call.idempotency_key = "tend-1-a";
    case_header(http, "authorization", "Bearer abc");
    case_header(http, "Cookie", "a=b");
    case_header(http, "X-Api-Key", "abc");
    case_header(http, "Host", "front.test");
    case_header(http, "Accept", "text/plain");
}

static void check_no_secrets(const struct visit *visit)
{
    check(visit_header(visit, "Authorization") == NULL);
    check(visit_header(visit, "Cookie") == NULL);
    check(visit_header(visit, "X-Api-Key") == NULL);
    check(strcmp(visit_header(visit, "Host"), "front.test") != 0);
    check_str(visit_header(visit, "Accept"), "text/plain");
    check_str(visit_header(visit, "Idempotency-Key"), "tend-1-a");
}

TEST(http_redirect, the_same_host_gets_the_credentials_again)
{
    struct http_case http;
    struct signpost to = {"/there"};
    struct http_server *server = server_start(serve_signpost, &to);
    case_with_secrets(&http, server_url(server, "/307"));
    case_run(&http);
    check_succeeded(&http, 200);
    const struct visit *visit = server_visit(server, 2);
    check_str(visit_header(visit, "Authorization"), "Bearer abc");
    check_str(visit_header(visit, "Cookie"), "a=b");
    check_str(visit_header(visit, "X-Api-Key"), "abc");
    check_str(visit_header(visit, "Host"), "front.test");
    case_done(&http);
    server_stop(server);
}

TEST(http_redirect, another_port_gets_no_credentials)
{
    struct http_case http;
    struct http_server *other = server_start(serve_signpost, NULL);
    struct signpost to = {server_url(other, "/there")};
    struct http_server *server = server_start(serve_signpost, &to);
    case_with_secrets(&http, server_url(server, "/307"));
    case_run(&http);
    check_succeeded(&http, 200);
    check_no_secrets(server_visit(other, 1));
    check_str(visit_header(server_visit(server, 1), "Authorization"), "Bearer abc");
    case_done(&http);
    server_stop(server);
    server_stop(other);
}

static const struct secret_name named = {.place = SECRET_IN_ENV, .name = "CREW", .prefix = ""};

/* The name of the header does not look secret: it is one because the plan names its value. */
TEST(http_redirect, another_port_gets_no_header_whose_value_the_plan_names)
{
    struct http_case http;
    struct http_server *other = server_start(serve_signpost, NULL);
    struct signpost to = {server_url(other, "/there")};
    struct http_server *server = server_start(serve_signpost, &to);
    case_init(&http, server_url(server, "/307"));
    http.plan.follow_redirects = true;
    case_header(&http, "X-Crew", "blue");
    http.headers[0].secret = &named;
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(visit_header(server_visit(server, 1), "X-Crew"), "blue");
    check(visit_header(server_visit(other, 1), "X-Crew") == NULL);
    case_done(&http);
    server_stop(server);
    server_stop(other);
}

TEST(http_redirect, another_port_gets_no_secret_body)
{
    static const int statuses[] = {307, 302};
    struct http_case http;
    struct http_server *other = server_start(serve_signpost, NULL);
    struct signpost to = {server_url(other, "/there")};
    struct http_server *server = server_start(serve_signpost, &to);
    for (int inside = 0; inside < 2; inside++)
        for (int i = 0; i < 2; i++) {
            case_init(&http, server_url(server, statuses[i] == 307 ? "/307" : "/302"));
            http.plan.follow_redirects = true;
            http.plan.method = "POST";
            http.plan.body = "{}";
            http.plan.body_bytes = 2;
            http.plan.body_secret = inside ? NULL : &named;
            http.plan.body_names_secrets = inside;
            case_run(&http);
            if (statuses[i] == 307) {
                check_trouble(&http, HTTP_BAD_URL);
                check_contains(http.answer.note, "another host, which is not sent the secret body");
            } else {
                check_succeeded(&http, 200); /* a GET, without the body */
            }
            case_done(&http);
        }
    check_int(server_visits(other), ==, 2);
    check_str(server_visit(other, 1)->body, "");
    server_stop(server);
    server_stop(other);
}

/* The context is a list of places, one for each visit; NULL: here. */
static void serve_in_turn(struct visit *visit)
{
    const char *const *places = visit->context;
    const char *place = places[visit->number - 1];
    char text[200];
    snprintf(text, sizeof text, "HTTP/1.1 %d On\r\n%s%s\r\nContent-Length: 0\r\n\r\n",
             place == NULL ? 200 : 307,
             place == NULL ? "X-Here: yes" : "Location: ", place == NULL ? "" : place);
    visit_say(visit, text);
}

TEST(http_redirect, another_host_gets_no_credentials_and_home_gets_them_again)
{
    /* 127.0.0.1 → localhost → 127.0.0.1: two names of one server. */
    struct http_case http;
    const char *places[3] = {NULL};
    struct http_server *server = server_start(serve_in_turn, places);
    places[0] = server_url_at(server, "localhost", "/there");
    places[1] = server_url_at(server, "them:pw@127.0.0.1", "/home");
    case_with_secrets(&http, server_url(server, "/"));
    case_run(&http);
    check_succeeded(&http, 200);
    check_int(http.answer.redirects, ==, 2);
    check_no_secrets(server_visit(server, 2));
    check_str(visit_header(server_visit(server, 3), "Authorization"), "Bearer abc");
    case_done(&http);
    server_stop(server);
}

TEST(http_redirect, credentials_of_the_url_stay_at_home_and_those_of_a_server_are_not_used)
{
    struct http_case http;
    struct signpost to = {NULL};
    struct http_server *other = server_start(serve_signpost, NULL);
    struct http_server *server = server_start(serve_signpost, &to);
    case_init(&http, server_url_at(server, "me:pw@127.0.0.1", "/302"));
    http.plan.follow_redirects = true;
    to.target = server_url_at(other, "them:pw@127.0.0.1", "/there");
    case_run(&http);
    check_succeeded(&http, 200);
    check(visit_header(server_visit(other, 1), "Authorization") == NULL);
    to.target = server_url(server, "/there");
    buf_clear(&http.body);
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(visit_header(server_visit(server, 3), "Authorization"), "Basic bWU6cHc=");
    case_done(&http);
    server_stop(server);
    server_stop(other);
}

TEST(http_redirect, only_places_of_http_are_followed)
{
    static const char *const targets[] = {"file:///etc/passwd",   "ftp://127.0.0.1/x", "mailto:me",
                                          "gopher://127.0.0.1/x", "http://a:b:c/",     "http://[/"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct http_case http;
        struct signpost to = {targets[i]};
        struct http_server *server = server_start(serve_signpost, &to);
        case_init(&http, server_url(server, "/302"));
        http.plan.follow_redirects = true;
        case_run(&http);
        check_trouble(&http, HTTP_BAD_URL);
        check_int(http.answer.status, ==, 302);
        case_done(&http);
        server_stop(server);
    }
}

TEST(http_redirect, one_that_points_nowhere_is_a_status_like_others)
{
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 302 On\r\nContent-Length: 0\r\n\r\n");
    case_init(&http, server_url(server, "/"));
    http.plan.follow_redirects = true;
    case_run(&http);
    check_ended(&http, ENDED_HTTP_STATUS, 302);
    case_done(&http);
    server_stop(server);
}

static void serve_slow_turns(struct visit *visit)
{
    usleep(20 * 1000);
    visit_say(visit,
              "HTTP/1.1 302 On\r\nLocation: /\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    visit_await_close(visit);
}

TEST(http_redirect, the_body_of_a_redirect_is_not_waited_for)
{
    struct http_case http;
    struct http_server *server = server_start(serve_slow_turns, NULL);
    case_init(&http, server_url(server, "/"));
    http.plan.follow_redirects = true;
    case_run(&http);
    check_trouble(&http, HTTP_REDIRECTED_TOO_OFTEN);
    case_done(&http);
    server_stop(server);
}

TEST(http_redirect, the_wall_timeout_is_for_all_of_them_together)
{
    struct http_case http;
    struct http_server *server = server_start(serve_slow_turns, NULL);
    case_init(&http, server_url(server, "/"));
    http.plan.follow_redirects = true;
    http.call.wall_timeout_ms = 50; /* each takes 20 */
    case_run(&http);
    check_ended(&http, ENDED_WALL_TIMEOUT, 0);
    case_done(&http);
    server_stop(server);
}
