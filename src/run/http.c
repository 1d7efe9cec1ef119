/*
 * The course of a call: exchange after exchange, time, and what comes from outside. See http.h.
 *
 * One multi handle per call, because only it lets a thread wait for the network and for cancel_fd
 * at the same time.
 */
#include "run/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "run/http_inner.h"

#include <poll.h>
#include <pthread.h>
#include <tend.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready = CURLE_FAILED_INIT;

/* libcurl may be used by many threads after this, and by other parts of the program too. */
static void start_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void tick(struct http_work *work)
{
    const struct http_call *call = work->call;
    int64_t now_ms = clock_mono_ms();
    if (work->halt != HALT_NOT || now_ms < work->next_tick_ms)
        return;
    work->next_tick_ms = now_ms + HTTP_TICK_MS;
    if (call->on_tick != NULL && call->on_tick(call->context) != 0)
        work->halt = HALT_STOP;
}

/* Asked apart from the wait: libcurl does not tell a hang-up, and while bytes flow it never waits.
 */
static void watch_cancel(struct http_work *work)
{
    struct pollfd cancel = {.fd = work->call->cancel_fd, .events = POLLIN};
    if (cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
        work->halt = HALT_STOP;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void watch_time(struct http_work *work)
{
    const struct http_call *call = work->call;
    int64_t now_ms = clock_mono_ms();
    if (work->halt != HALT_NOT)
        return;
    if (call->wall_timeout_ms > 0 && now_ms - work->begun_ms >= call->wall_timeout_ms)
        work->halt = HALT_WALL;
    else if (call->idle_timeout_ms > 0 && now_ms - work->last_byte_ms >= call->idle_timeout_ms)
        work->halt = HALT_IDLE;
}

/* Until something must be done that no descriptor tells. */
static int wait_ms(const struct http_work *work)
{
    const struct http_call *call = work->call;
    int64_t at_ms = work->next_tick_ms;
    if (call->wall_timeout_ms > 0)
        at_ms = earlier(at_ms, work->begun_ms + call->wall_timeout_ms);
    if (call->idle_timeout_ms > 0)
        at_ms = earlier(at_ms, work->last_byte_ms + call->idle_timeout_ms);
    int64_t left_ms = at_ms - clock_mono_ms();
    return left_ms < 0 ? 0 : (int)left_ms;
}

static CURLMcode wait_for_news(struct http_work *work)
{
    struct curl_waitfd cancel = {.fd = work->call->cancel_fd, .events = CURL_WAIT_POLLIN};
    return curl_multi_poll(work->multi, &cancel, cancel.fd >= 0 ? 1 : 0, wait_ms(work), NULL);
}

/* Whether the exchange has ended by itself, and how. */
static bool has_ended(struct http_work *work, CURLcode *ret_code)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(work->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE)
            continue;
        *ret_code = message->data.result;
        return true;
    }
    return false;
}

/* One request and its answer; *ret_code counts unless we have halted it. */
static CURLMcode exchange(struct http_work *work, CURLcode *ret_code)
{
    int running;
    *ret_code = CURLE_OK;
    CURLMcode code = curl_multi_add_handle(work->multi, work->easy);
    while (code == CURLM_OK) {
        code = curl_multi_perform(work->multi, &running);
        if (code != CURLM_OK || has_ended(work, ret_code))
            break;
        watch_time(work);
        watch_cancel(work);
        tick(work);
        if (work->halt != HALT_NOT)
            break;
        code = wait_for_news(work);
    }
    return code;
}

static bool turn(struct http_work *work, struct http_answer *ret, struct err *err, int *ret_rc)
{
    *ret_rc = 0;
    if (work->redirects >= HTTP_REDIRECTS_MAX) {
        http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_REDIRECTED_TOO_OFTEN,
                  "http: the server redirects again and again; at most %d are followed",
                  HTTP_REDIRECTS_MAX);
        return false;
    }
    switch (http_url_turn(work, http_status(work), http_header(work, "Location"))) {
    case TURN_DONE:
        work->redirects++;
        return true;
    case TURN_BAD_PLACE:
        http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_BAD_URL,
                  "http: the server redirects to what is no URL of http or https");
        break;
    case TURN_DOWNGRADE:
        http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_BAD_URL,
                  "http: the server redirects from https to http, which is not followed");
        break;
    case TURN_SECRET:
        http_fail(ret, ENDED_HTTP_TRANSPORT, HTTP_BAD_URL,
                  "http: the server redirects to another host, which is not sent the secret body");
        break;
    case TURN_NO_MEMORY:
        *ret_rc = err_set(err, TEND_ENOMEM, "out of memory following a redirect");
        break;
    }
    return false;
}

static int run(struct http_work *work, struct http_answer *ret, struct err *err)
{
    CURLcode code;
    for (;;) {
        int rc;
        if (!http_prepare(work))
            return err_set(err, TEND_ENOMEM, "out of memory preparing an HTTP request");
        CURLMcode trouble = exchange(work, &code);
        if (trouble == CURLM_OUT_OF_MEMORY)
            return err_set(err, TEND_ENOMEM, "out of memory in an HTTP request");
        if (trouble != CURLM_OK)
            return err_set(err, TEND_EIO, "an HTTP request could not be made: %s",
                           curl_multi_strerror(trouble));
        ret->status = http_status(work);
        bool ended_well = work->halt == HALT_NOT && code == CURLE_OK;
        if (work->halt != HALT_REDIRECT && !(ended_well && http_points_elsewhere(work)))
            break;
        if (!turn(work, ret, err, &rc))
            return rc;
        http_clear(work);
    }
    http_judge(work, code, ret);
    return 0;
}

int http_call(const struct http_call *call, struct http_answer *ret, struct err *err)
{
    struct http_work work = {.call = call, .begun_ms = clock_mono_ms()};
    struct http_answer answer = {.end = HTTP_FAILED, .retry_after_ms = -1};
    int rc = 0;
    pthread_once(&curl_once, start_curl);
    if (curl_ready != CURLE_OK)
        return err_set(err, TEND_EIO, "libcurl could not be started: %s",
                       curl_easy_strerror(curl_ready));
    work.last_byte_ms = work.begun_ms;
    work.next_tick_ms = work.begun_ms + HTTP_TICK_MS;
    const char *fault = http_plan_fault(call->plan);
    CURLUcode url = fault != NULL ? CURLUE_OK : http_url_start(&work);
    if (fault != NULL) {
        http_fail(&answer, ENDED_BAD_PLAN, 0, "http: %s", fault);
    } else if (url == CURLUE_OUT_OF_MEMORY || (work.multi = curl_multi_init()) == NULL) {
        rc = err_set(err, TEND_ENOMEM, "out of memory preparing an HTTP request");
    } else if (url != CURLUE_OK) {
        http_fail(&answer, ENDED_HTTP_TRANSPORT, HTTP_BAD_URL, "http: the URL cannot be used: %s",
                  curl_url_strerror(url));
    } else {
        rc = run(&work, &answer, err);
    }
    answer.redirects = work.redirects;
    answer.body_bytes = work.body_bytes;
    http_work_done(&work);
    if (rc == 0)
        *ret = answer;
    return rc;
}
