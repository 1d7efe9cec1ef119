/* run/http: what a server says. A first line is the plan's URL, a second where the answer points,
 * a third its Retry-After. Credentials stay at home, and no wait is longer than a year. */
#include "fuzz/fuzz.h"
#include "run/http_inner.h"

#include <string.h>
#include <strings.h>

const char *const fuzz_seeds[] = {
    "https://me:secret@example.org:8443/a?b#c\n../d\n120",
    "http://example.org\nhttps://other.example/x\nWed, 21 Oct 2026 07:28:00 GMT",
    "https://example.org/\nhttp://example.org/\n999999999999",
    "http://[::1]:80/\n//me:secret@[::1]/\nFriday",
    "http://example.org/a/b/\nHTTP://EXAMPLE.ORG:80/%2e%2e/c d\n0",
    NULL,
};

static char *next_line(char **at)
{
    char *line = *at;
    size_t len = strcspn(line, "\n");
    *at = line + len + (line[len] != '\0');
    line[len] = '\0';
    return line;
}

static void check_place(const struct http_work *work)
{
    char *part = NULL;
    must(curl_url_get(work->url, CURLUPART_USER, &part, 0) == CURLUE_NO_USER);
    must(curl_url_get(work->url, CURLUPART_PASSWORD, &part, 0) == CURLUE_NO_PASSWORD);
    must(curl_url_get(work->url, CURLUPART_SCHEME, &part, 0) == CURLUE_OK);
    bool secure = strcasecmp(part, "https") == 0;
    must(secure || strcasecmp(part, "http") == 0);
    must(secure || strcasecmp(work->origin.scheme, "https") != 0); /* never down to http */
    curl_free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *at = text;
    const struct http_plan plan = {.method = "POST", .url = next_line(&at), .body = "{}"};
    const struct http_call call = {.plan = &plan};
    struct http_work work = {.call = &call};
    const char *location = next_line(&at);
    if (http_url_start(&work) == CURLUE_OK) {
        check_place(&work);
        must(work.is_home);
        if (http_url_turn(&work, 302, location) == TURN_DONE)
            must(!work.sends_body);
        check_place(&work);
    }
    http_url_done(&work);
    int64_t wait_ms = http_retry_after(next_line(&at), INT64_C(1769853600000));
    must(wait_ms >= -1 && wait_ms <= INT64_C(366) * 24 * 3600 * 1000);
    free(text);
    return 0;
}
