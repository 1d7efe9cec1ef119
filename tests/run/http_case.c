#include "run/http_case.h"

#include <stdlib.h>

static int keep_body(void *context, const void *bytes, size_t len)
{
    struct http_case *http = context;
    buf_append(&http->body, bytes, len);
    return 0;
}

static int count_tick(void *context)
{
    struct http_case *http = context;
    http->ticks++;
    return 0;
}

void case_init(struct http_case *http, const char *url)
{
    /* What the machine has set is not what is tested. */
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY",
                                          "all_proxy",  "ALL_PROXY",   NULL};
    for (size_t i = 0; proxies[i] != NULL; i++)
        unsetenv(proxies[i]);
    *http = (struct http_case){
        .plan = {.method = "GET", .url = url, .max_response_bytes = 1 << 20, .expect_count = 1},
        .expect = {{.low = 200, .high = 299}},
        .call = {.cancel_fd = -1, .on_body = keep_body, .on_tick = count_tick, .context = http},
    };
    http->plan.expect = http->expect;
    http->plan.headers.items = http->headers;
    http->call.plan = &http->plan;
    buf_init(&http->body);
}

void case_header(struct http_case *http, const char *name, const char *value)
{
    check_int(http->plan.headers.count, <, CASE_HEADERS_MAX);
    http->headers[http->plan.headers.count++] = (struct named_text){.name = name, .value = value};
}

void case_expect(struct http_case *http, int low, int high)
{
    http->expect[0] = (struct status_range){.low = low, .high = high};
}

void case_run(struct http_case *http)
{
    struct err err = {0};
    int rc = http_call(&http->call, &http->answer, &err);
    check_str(err.text, "");
    check_int(rc, ==, 0);
    check_int(http->answer.body_bytes, ==, http->body.len);
}

void case_done(struct http_case *http)
{
    buf_done(&http->body);
}
