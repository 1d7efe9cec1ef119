/* run/http: what goes wrong on the way, and what ends a call from outside. SH-2, SH-5. */
#include "run/http_case.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- no connection --- */

TEST(http_trouble, a_refused_connection_is_told)
{
    struct http_case http;
    char url[80];
    struct http_server *server = server_start(serve_text, "");
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", server_port(server));
    server_stop(server);
    case_init(&http, url);
    case_run(&http);
    check_trouble(&http, HTTP_NOT_CONNECTED);
    check_int(http.answer.status, ==, 0);
    case_done(&http);
}

TEST(http_trouble, a_host_that_does_not_exist_is_told)
{
    struct http_case http;
    case_init(&http, "http://no-such-host.invalid/");
    case_run(&http);
    check_trouble(&http, HTTP_NOT_RESOLVED);
    check_contains(http.answer.note, "no-such-host.invalid");
    case_done(&http);
}

TEST(http_trouble, urls_that_cannot_be_used_are_told)
{
    static const char *const urls[] = {
        "http://",

        "ftp://127.0.0.1/", "file:///etc/passwd",   "127.0.0.1:80",
        "http://a b/",      "http://h:99999/",      "http://[::1/",
        "http://h:port/x",  "gopher://127.0.0.1/x", "",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct http_case http;
        case_init(&http, urls[i]);
        case_run(&http);
        check_trouble(&http, HTTP_BAD_URL);
        case_done(&http);
    }
}

/* A port whose queue of connections is full answers nothing at all. */
TEST(http_trouble, a_connection_that_is_not_made_in_time_is_told)
{
    enum { CLIENTS = 8 };
    struct http_case http;
    char url[80];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int clients[CLIENTS];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check_int(bind(fd, (struct sockaddr *)&address, size), ==, 0);
    check_int(listen(fd, 0), ==, 0);
    check_int(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&address, size); /* some in vain */
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    case_init(&http, url);
    http.call.connect_timeout_ms = 200;
    case_run(&http);
    check_trouble(&http, HTTP_TIMED_OUT);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close(fd);
    case_done(&http);
}

/* --- time --- */

static void serve_nothing(struct visit *visit)
{
    visit_await_close(visit);
}

TEST(http_trouble, a_server_that_never_answers_runs_into_the_idle_timeout)
{
    struct http_case http;
    struct http_server *server = server_start(serve_nothing, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.idle_timeout_ms = 300;
    http.call.wall_timeout_ms = 3600 * 1000;
    long long begun_ms = test_clock_ms();
    case_run(&http);
    check_ended(&http, ENDED_IDLE_TIMEOUT, 0);
    check_int(test_clock_ms() - begun_ms, >=, 299);
    check_str(http.answer.note, "http: not a byte for 300ms");
    case_done(&http);
    server_stop(server); /* it has seen the connection closed */
}

TEST(http_trouble, a_server_that_never_answers_runs_into_the_wall_timeout)
{
    struct http_case http;
    struct http_server *server = server_start(serve_nothing, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.wall_timeout_ms = 700;
    long long begun_ms = test_clock_ms();
    case_run(&http);
    check_ended(&http, ENDED_WALL_TIMEOUT, 0);
    check_int(test_clock_ms() - begun_ms, >=, 699);
    /* It was asked for housekeeping while nothing came. */
    check_int(http.ticks, >=, 1);
    case_done(&http);
    server_stop(server);
}

static void serve_drops(struct visit *visit)
{
    visit_say(visit, "HTTP/1.0 200 OK\r\n\r\n");
    while (visit_say(visit, "x"))
        usleep(2000);
}

TEST(http_trouble, an_answer_that_never_ends_runs_into_the_wall_timeout_not_the_idle_one)
{
    struct http_case http;
    struct http_server *server = server_start(serve_drops, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.wall_timeout_ms = 500;
    http.call.idle_timeout_ms = 400;
    case_run(&http);
    check_ended(&http, ENDED_WALL_TIMEOUT, 0);
    check_int(http.answer.status, ==, 200);
    check_int(http.body.len, >, 0);
    case_done(&http);
    server_stop(server);
}

static void serve_half_and_wait(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
    visit_await_close(visit);
}

TEST(http_trouble, an_answer_that_stops_in_the_middle_runs_into_the_idle_timeout)
{
    struct http_case http;
    struct http_server *server = server_start(serve_half_and_wait, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.idle_timeout_ms = 300;
    case_run(&http);
    check_ended(&http, ENDED_IDLE_TIMEOUT, 0);
    check_str(http.body.data, "01234");
    case_done(&http);
    server_stop(server);
}

enum { SLOW_TICKS = 10, SLOW_PIECE = 1 << 20, SLOW_BODY = 32 << 20 };

/* A piece for each tick of the client, so that sending takes longer than the idle timeout; the
 * rest, which is more than the kernel can keep in between, at once. */
static void take_slowly(struct visit *visit)
{
    const struct http_case *http = visit->context;
    for (int i = 0; i < SLOW_TICKS; i++) {
        wait_until(atomic_load(&http->ticks) > i, 60000);
        check(visit_drop(visit, SLOW_PIECE));
    }
    check(visit_drop(visit, SLOW_BODY - SLOW_TICKS * SLOW_PIECE));
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

TEST(http_trouble, a_request_that_takes_long_to_send_is_not_idle)
{
    struct http_case http;
    struct http_server *server = server_start(take_slowly, &http);
    char *body = calloc(1, SLOW_BODY);
    check(body != NULL);
    server_leave_bodies(server);
    case_init(&http, server_url(server, "/"));
    http.plan.method = "POST";
    http.plan.body = body;
    http.plan.body_bytes = SLOW_BODY;
    http.call.idle_timeout_ms = (SLOW_TICKS - 2) * HTTP_TICK_MS;
    case_run(&http);
    check_succeeded(&http, 200);
    free(body);
    case_done(&http);
    server_stop(server);
}

/* --- answers that are none --- */

TEST(http_trouble, an_answer_that_breaks_off_is_told)
{
    static const char *const answers[] = {
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_case http;
        struct http_server *server = server_start(serve_text, (void *)answers[i]);
        case_init(&http, server_url(server, "/"));
        case_run(&http);
        check_trouble(&http, HTTP_BROKEN_OFF);
        case_done(&http);
        server_stop(server);
    }
}

static void serve_reset(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
    visit_reset(visit);
}

TEST(http_trouble, a_connection_that_is_reset_is_told)
{
    struct http_case http;
    struct http_server *server = server_start(serve_reset, NULL);
    case_init(&http, server_url(server, "/"));
    case_run(&http);
    check_trouble(&http, HTTP_BROKEN_OFF);
    case_done(&http);
    server_stop(server);
}

TEST(http_trouble, what_is_no_http_is_told)
{
    static const char *const answers[] = {"hello\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz"
                                          "\r\nhello\r\n"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_case http;
        struct http_server *server = server_start(serve_text, (void *)answers[i]);
        case_init(&http, server_url(server, "/"));
        case_run(&http);
        check_int(http.answer.end, ==, HTTP_FAILED);
        check_int(http.answer.ending.kind, ==, ENDED_HTTP_TRANSPORT);
        check(http.answer.ending.number == HTTP_OTHER_TROUBLE ||
              http.answer.ending.number == HTTP_BROKEN_OFF);
        case_done(&http);
        server_stop(server);
    }
}

/* --- size --- */

static int drop_body(void *context, const void *bytes, size_t len)
{
    struct http_case *http = context;
    (void)bytes;
    http->body.len += len; /* only counted */
    return 0;
}

static void serve_without_end(struct visit *visit)
{
    static const char block[64 * 1024];
    visit_say(visit, "HTTP/1.0 200 OK\r\n\r\n");
    while (visit_send(visit, block, sizeof block))
        ;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

TEST(http_trouble, an_answer_that_is_too_large_ends_the_call_and_costs_no_memory)
{
    enum { LIMIT = 200 * 1000 * 1000 };
    struct http_case http;
    struct http_server *server = server_start(serve_without_end, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.on_body = drop_body;
    http.plan.max_response_bytes = LIMIT;
    long before_kib = peak_kib();
    case_run(&http);
    check_trouble(&http, HTTP_ANSWER_TOO_LARGE);
    check_contains(http.answer.note, "200000000 bytes (max_response_bytes)");
    check_int(http.answer.body_bytes, ==, LIMIT);
    check_int(peak_kib() - before_kib, <, LIMIT / 1024 / 4);
    http.body.len = 0;
    case_done(&http);
    server_stop(server); /* it has seen the connection closed */
}

TEST(http_trouble, the_limit_itself_is_allowed)
{
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    case_init(&http, server_url(server, "/"));
    http.plan.max_response_bytes = 10;
    case_run(&http);
    check_succeeded(&http, 200);
    buf_clear(&http.body);
    http.plan.max_response_bytes = 9;
    case_run(&http);
    check_trouble(&http, HTTP_ANSWER_TOO_LARGE);
    check_str(http.body.data, "012345678");
    buf_clear(&http.body);
    http.plan.max_response_bytes = 0;
    case_run(&http);
    check_trouble(&http, HTTP_ANSWER_TOO_LARGE);
    check_int(http.body.len, ==, 0);
    case_done(&http);
    server_stop(server);
}

static void serve_headers(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; visit_say(visit, "X-Again: and again and again and again\r\n"); i++)
        ;
}

TEST(http_trouble, headers_without_end_are_bounded)
{
    struct http_case http;
    struct http_server *server = server_start(serve_headers, NULL);
    case_init(&http, server_url(server, "/"));
    case_run(&http);
    check_trouble(&http, HTTP_ANSWER_TOO_LARGE);
    case_done(&http);
    server_stop(server);
}

static void serve_long_line(struct visit *visit)
{
    visit_say(visit, "HTTP/1.1 200 OK\r\nX-Long: ");
    while (visit_say(visit, "and again and again and again and again and again and again"))
        ;
}

TEST(http_trouble, a_header_line_without_end_is_bounded)
{
    struct http_case http;
    struct http_server *server = server_start(serve_long_line, NULL);
    case_init(&http, server_url(server, "/"));
    case_run(&http);
    check_trouble(&http, HTTP_ANSWER_TOO_LARGE); /* it was told as "Out of memory" */
    check_str(http.answer.note, "http: a header of the answer is longer than 100 KiB");
    case_done(&http);
    server_stop(server);
}

/* It was told as "Out of memory", and tried again. */
TEST(http_trouble, headers_that_cannot_be_sent_are_told)
{
    static char value[2000000];
    struct named_text header = {.name = "X-Long", .value = value};
    struct http_case http;
    struct http_server *server =
        server_start(serve_text, (void *)"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    memset(value, 'x', sizeof value - 1);
    case_init(&http, server_url(server, "/"));
    http.plan.headers = (struct named_texts){.count = 1, .items = &header};
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_FAILED);
    check_int(http.answer.ending.kind, ==, ENDED_BAD_PLAN);
    check_str(http.answer.note, "http: the headers of the request are larger than 256 KiB");
    value[20000] = '\0';
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_SUCCEEDED);
    case_done(&http);
    server_stop(server);
}

/* --- ended from outside --- */

static void serve_and_ring(struct visit *visit)
{
    uint64_t one = 1;
    check_int(write(*(int *)visit->context, &one, sizeof one), ==, sizeof one);
    visit_await_close(visit);
}

TEST(http_trouble, cancel_fd_ends_the_call_while_it_waits)
{
    struct http_case http;
    int cancel_fd = eventfd(0, EFD_CLOEXEC);
    struct http_server *server = server_start(serve_and_ring, &cancel_fd);
    case_init(&http, server_url(server, "/"));
    http.call.cancel_fd = cancel_fd;
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_STOPPED);
    case_done(&http);
    server_stop(server); /* it has seen the connection closed */
    close(cancel_fd);
}

static void ring_and_serve_drops(struct visit *visit)
{
    uint64_t one = 1;
    check_int(write(*(int *)visit->context, &one, sizeof one), ==, sizeof one);
    serve_without_end(visit);
}

TEST(http_trouble, cancel_fd_ends_the_call_while_bytes_flow)
{
    struct http_case http;
    int cancel_fd = eventfd(0, EFD_CLOEXEC);
    struct http_server *server = server_start(ring_and_serve_drops, &cancel_fd);
    case_init(&http, server_url(server, "/"));
    http.call.on_body = drop_body;
    http.call.cancel_fd = cancel_fd;
    http.plan.max_response_bytes = INT64_MAX;
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_STOPPED);
    http.body.len = 0;
    case_done(&http);
    server_stop(server);
    close(cancel_fd);
}

TEST(http_trouble, cancel_fd_that_hangs_up_ends_the_call_too)
{
    struct http_case http;
    int ends[2];
    struct http_server *server = server_start(serve_nothing, NULL);
    check_int(pipe(ends), ==, 0);
    close(ends[1]);
    case_init(&http, server_url(server, "/"));
    http.call.cancel_fd = ends[0];
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_STOPPED);
    case_done(&http);
    server_stop(server);
    close(ends[0]);
}

static int stop_now(void *context)
{
    (void)context;
    return 1;
}

TEST(http_trouble, a_tick_can_stop_the_call)
{
    struct http_case http;
    struct http_server *server = server_start(serve_nothing, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.on_tick = stop_now;
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_STOPPED);
    case_done(&http);
    server_stop(server);
}

static int stop_at_body(void *context, const void *bytes, size_t len)
{
    struct http_case *http = context;
    buf_append(&http->body, bytes, len);
    return 1;
}

TEST(http_trouble, whoever_takes_the_body_can_stop_the_call)
{
    struct http_case http;
    struct http_server *server = server_start(serve_half_and_wait, NULL);
    case_init(&http, server_url(server, "/"));
    http.call.on_body = stop_at_body;
    case_run(&http);
    check_int(http.answer.end, ==, HTTP_STOPPED);
    check_str(http.body.data, "01234");
    case_done(&http);
    server_stop(server);
}

/* --- proxies --- */

TEST(http_trouble, a_proxy_comes_from_the_environment_and_its_refusal_is_told)
{
    struct http_case http;
    struct http_server *server = server_start(
        serve_text, "HTTP/1.1 407 Proxy wants to know you\r\nContent-Length: 0\r\n\r\n");
    case_init(&http, "https://far-away.invalid/secret");
    setenv("https_proxy", server_url(server, ""), 1);
    case_header(&http, "Authorization", "Bearer abc");
    case_run(&http);
    check_ended(&http, ENDED_HTTP_STATUS, 407);
    /* The proxy learns where to, and nothing else. */
    const struct visit *visit = server_visit(server, 1);
    check_contains(visit->head, "CONNECT far-away.invalid:443 HTTP/1.1\r\n");
    check(visit_header(visit, "Authorization") == NULL);
    case_done(&http);
    server_stop(server);
}
