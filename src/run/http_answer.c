/* What came back: status, Retry-After, and what a failure was. See http.h. */
#include "base/clock.h"
#include "base/timetext.h"
#include "run/http_inner.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int64_t longest_retry_after_ms = INT64_C(365) * 24 * 3600 * 1000;

int http_status(const struct http_work *work)
{
    enum { FIRST_FINAL = 200 }; /* below: there is more to come */
    long status = 0;
    curl_easy_getinfo(work->easy, CURLINFO_RESPONSE_CODE, &status);
    return status >= FIRST_FINAL ? (int)status : 0;
}

const char *http_header(const struct http_work *work, const char *name)
{
    struct curl_header *header;
    CURLHcode code = curl_easy_header(work->easy, name, 0, CURLH_HEADER, -1, &header);
    return code == CURLHE_OK ? header->value : NULL;
}

static bool names_another_place(const struct http_work *work)
{
    int status = http_status(work);
    bool moves = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    const char *location = moves ? http_header(work, "Location") : NULL;
    return location != NULL && location[0] != '\0';
}

bool http_points_elsewhere(const struct http_work *work)
{
    return work->call->plan->follow_redirects && names_another_place(work);
}

int64_t http_retry_after(const char *value, int64_t now_ms)
{
    enum { DIGITS_MAX = 9 };
    int64_t wait_ms = 0;
    size_t digits = strspn(value, "0123456789");
    if (digits > 0 && value[digits] == '\0') {
        if (digits > DIGITS_MAX)
            return longest_retry_after_ms;
        for (size_t i = 0; i < digits; i++)
            wait_ms = wait_ms * 10 + (value[i] - '0');
        wait_ms *= 1000;
    } else {
        /* A date of HTTP begins with its weekday; curl_getdate takes much more for a date. */
        int64_t at_s = isalpha((unsigned char)value[0]) ? curl_getdate(value, NULL) : -1;
        if (at_s < 0)
            return -1;
        wait_ms = at_s * 1000 - now_ms;
    }
    if (wait_ms > longest_retry_after_ms)
        return longest_retry_after_ms;
    return wait_ms < 0 ? 0 : wait_ms;
}

struct trouble {
    CURLcode code;
    enum http_trouble trouble;
};

/* What is missing is HTTP_OTHER_TROUBLE. */
static const struct trouble troubles[] = {
    {CURLE_COULDNT_RESOLVE_HOST, HTTP_NOT_RESOLVED},
    {CURLE_COULDNT_RESOLVE_PROXY, HTTP_NOT_RESOLVED},
    {CURLE_COULDNT_CONNECT, HTTP_NOT_CONNECTED},
    {CURLE_OPERATION_TIMEDOUT, HTTP_TIMED_OUT},
    {CURLE_GOT_NOTHING, HTTP_BROKEN_OFF},
    {CURLE_PARTIAL_FILE, HTTP_BROKEN_OFF},
    {CURLE_SEND_ERROR, HTTP_BROKEN_OFF},
    {CURLE_RECV_ERROR, HTTP_BROKEN_OFF},
    {CURLE_PEER_FAILED_VERIFICATION, HTTP_BAD_CERTIFICATE},
    {CURLE_SSL_CACERT_BADFILE, HTTP_BAD_CERTIFICATE},
    {CURLE_SSL_ISSUER_ERROR, HTTP_BAD_CERTIFICATE},
    {CURLE_SSL_INVALIDCERTSTATUS, HTTP_BAD_CERTIFICATE},
    {CURLE_URL_MALFORMAT, HTTP_BAD_URL},
};

static enum http_trouble trouble_of(CURLcode code)
{
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        if (troubles[i].code == code)
            return troubles[i].trouble;
    return HTTP_OTHER_TROUBLE;
}

void http_fail(struct http_answer *ret, enum ending_kind kind, int number, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret->note, sizeof ret->note, format, args);
    va_end(args);
    ret->end = HTTP_FAILED;
    ret->ending = (struct ending){.kind = kind, .number = number};
}

static bool is_expected(const struct http_plan *plan, int status)
{
    for (size_t i = 0; i < plan->expect_count; i++)
        if (status >= plan->expect[i].low && status <= plan->expect[i].high)
            return true;
    return false;
}

/* "http 503, 12 bytes, retry after 30s" */
static void note_answer(const struct http_work *work, bool whole, struct http_answer *ret)
{
    char pause[DURATION_TEXT_BYTES];
    bool pauses = ret->retry_after_ms >= 0;
    /* Only where redirects are off: else we would be there. */
    bool elsewhere = !work->call->plan->follow_redirects && names_another_place(work);
    snprintf(ret->note, sizeof ret->note, "http %d, %lld bytes%s%s%s%s", ret->status,
             (long long)work->body_bytes, whole ? "" : ", and no more was read",
             pauses ? ", retry after " : "",
             pauses ? duration_text(ret->retry_after_ms, pause) : "",
             elsewhere ? ", a redirect; \"follow_redirects\": true follows it" : "");
}

static void judge_halt(const struct http_work *work, struct http_answer *ret)
{
    const struct http_call *call = work->call;
    char limit[DURATION_TEXT_BYTES];
    switch (work->halt) {
    case HALT_WALL:
        http_fail(ret, ENDED_WALL_TIMEOUT, 0, "http: no whole answer within %s",
                  duration_text(call->wall_timeout_ms, limit));
        break;
    case HALT_IDLE:
        http_fail(ret, ENDED_IDLE_TIMEOUT, 0, "http: not a byte for %s",
                  duration_text(call->idle_timeout_ms, limit));
        break;
    case HALT_LARGE:
        if (work->header_bytes > HTTP_HEADERS_MAX_BYTES)
            http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_ANSWER_TOO_LARGE,
                      "http: the headers of the answer are larger than %d bytes",
                      HTTP_HEADERS_MAX_BYTES);
        else
            http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_ANSWER_TOO_LARGE,
                      "http %d: the answer is larger than %lld bytes (max_response_bytes)",
                      ret->status, (long long)call->plan->max_response_bytes);
        break;
    case HALT_NOT:
    case HALT_STOP:
    case HALT_REDIRECT:
        break;
    }
}

/* A proxy that does not let us through has a status of its own. */
static int proxy_status(const struct http_work *work)
{
    long status = 0;
    curl_easy_getinfo(work->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    return status >= 300 ? (int)status : 0;
}

/* What libcurl lacks memory for after that is a line of the answer that it does not want to keep.
 */
static bool has_sent(const struct http_work *work)
{
    long bytes = 0;
    curl_easy_getinfo(work->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

static void judge_trouble(const struct http_work *work, CURLcode code, struct http_answer *ret)
{
    const char *text = work->error_text[0] != '\0' ? work->error_text : curl_easy_strerror(code);
    int proxy = proxy_status(work);
    if (code == CURLE_OUT_OF_MEMORY && has_sent(work))
        http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_ANSWER_TOO_LARGE,
                  "http: a header of the answer is longer than 100 KiB");
    else if (proxy > 0)
        http_fail(ret, ENDED_HTTP_STATUS, proxy, "http %d, from the proxy: %s", proxy, text);
    else
        http_fail(ret, ENDED_HTTP_TRANSPORT, (int)trouble_of(code), "http: %s", text);
}

/* 403 is also how some servers tell that a limit for requests is reached. */
static bool is_limited(const struct http_work *work, const struct http_answer *answer)
{
    const char *left = http_header(work, "X-RateLimit-Remaining");
    return answer->status == 403 &&
           (answer->retry_after_ms >= 0 || (left != NULL && strcmp(left, "0") == 0));
}

void http_judge(const struct http_work *work, CURLcode code, struct http_answer *ret)
{
    bool whole = work->halt == HALT_NOT && code == CURLE_OK;
    const char *retry_after = http_header(work, "Retry-After");
    ret->status = http_status(work);
    if (retry_after != NULL)
        ret->retry_after_ms = http_retry_after(retry_after, clock_wall_ms());
    note_answer(work, whole, ret);
    if (work->halt == HALT_STOP) {
        ret->end = HTTP_STOPPED;
        snprintf(ret->note, sizeof ret->note, "http: the call was stopped");
    } else if (ret->status != 0 && !is_expected(work->call->plan, ret->status)) {
        ret->end = HTTP_FAILED;
        ret->ending =
            (struct ending){.kind = is_limited(work, ret) ? ENDED_HTTP_LIMITED : ENDED_HTTP_STATUS,
                            .number = ret->status};
    } else if (work->halt != HALT_NOT) {
        judge_halt(work, ret);
    } else if (whole) {
        ret->end = HTTP_SUCCEEDED;
    } else {
        judge_trouble(work, code, ret);
    }
}
