/* What is sent: method, headers, body, and the settings of libcurl. See http.h. */
#include "base/buf.h"
#include "base/clock.h"
#include "core/redact.h"
#include "run/http_inner.h"

#include <string.h>
#include <strings.h>
#include <tend.h>

/* Those that are for the plan's host alone, besides the ones whose name looks secret. */
static const char *const private_headers[] = {"Authorization", "Proxy-Authorization", "Cookie",
                                              "Host"};

/* How long the body is follows from the body. */
static const char *const own_headers[] = {"Content-Length", "Transfer-Encoding"};

static bool is_one_of(const char *name, const char *const *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, table[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(name, table) is_one_of(name, table, sizeof(table) / sizeof *(table))

const char *http_plan_fault(const struct http_plan *plan)
{
    if (strcmp(plan->method, "CONNECT") == 0)
        return "CONNECT is no request for a step";
    if (strcmp(plan->method, "HEAD") == 0 && plan->body != NULL)
        return "HEAD goes without a body";
    size_t bytes = 0;
    for (size_t i = 0; i < plan->headers.count; i++) {
        const struct named_text *header = &plan->headers.items[i];
        bytes += strlen(header->name) + strlen(header->value);
        if (bytes > HTTP_HEADERS_MAX_BYTES) /* libcurl would be "out of memory" */
            return "the headers of the request are larger than 256 KiB";
        if (strpbrk(header->name, "\r\n:;") != NULL || strpbrk(header->value, "\r\n") != NULL)
            return "a header is more than one line";
        if (IS_ONE_OF(header->name, own_headers))
            return "Content-Length and Transfer-Encoding follow from the body; leave them out";
    }
    return NULL;
}

/* --- the headers --- */

static bool is_given(const struct http_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->headers.count; i++)
        if (strcasecmp(plan->headers.items[i].name, name) == 0)
            return true;
    return false;
}

static bool put(struct http_work *work, const char *name, const char *separator, const char *value)
{
    struct buf line;
    buf_init(&line);
    buf_printf(&line, "%s%s%s", name, separator, value);
    struct curl_slist *list = line.failed ? NULL : curl_slist_append(work->headers, line.data);
    buf_done(&line);
    if (list != NULL)
        work->headers = list;
    return list != NULL;
}

static bool put_given(struct http_work *work, const struct named_text *header)
{
    bool is_private = header->secret != NULL || IS_ONE_OF(header->name, private_headers) ||
                      redact_name_is_secret(work->call->redactor, header->name);
    if (is_private && !work->is_home)
        return true;
    if (!work->sends_body && strncasecmp(header->name, "Content-", 8) == 0 &&
        work->call->plan->body != NULL)
        return true;
    /* libcurl takes a header without a value for one to be left out, unless it ends with ";". */
    bool is_blank = header->value[strspn(header->value, " \t")] == '\0';
    return is_blank ? put(work, header->name, ";", "")
                    : put(work, header->name, ": ", header->value);
}

static bool put_headers(struct http_work *work)
{
    const struct http_plan *plan = work->call->plan;
    const char *key = work->call->idempotency_key;
    bool fine = true;
    for (size_t i = 0; i < plan->headers.count && fine; i++)
        fine = put_given(work, &plan->headers.items[i]);
    /* Without a value: libcurl adds none of its own, neither a form's type nor a wait for "100". */
    if (fine && !is_given(plan, "Content-Type"))
        fine = work->sends_body && plan->body_is_json
                   ? put(work, "Content-Type", ": ", "application/json")
                   : put(work, "Content-Type", ":", "");
    if (fine && !is_given(plan, "Expect"))
        fine = put(work, "Expect", ":", "");
    if (fine && key != NULL && !is_given(plan, "Idempotency-Key"))
        fine = put(work, "Idempotency-Key", ": ", key);
    return fine;
}

/* --- what libcurl tells while it works --- */

static size_t on_header(char *bytes, size_t size, size_t count, void *arg)
{
    struct http_work *work = arg;
    (void)bytes;
    work->last_byte_ms = clock_mono_ms();
    work->header_bytes += size * count;
    if (work->header_bytes <= HTTP_HEADERS_MAX_BYTES)
        return size * count;
    work->halt = HALT_LARGE;
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct http_work *work = arg;
    const struct http_call *call = work->call;
    size_t len = size * count;
    int64_t room_bytes = call->plan->max_response_bytes - work->body_bytes;
    work->last_byte_ms = clock_mono_ms();
    if (http_points_elsewhere(work)) {
        work->halt = HALT_REDIRECT;
        return CURL_WRITEFUNC_ERROR;
    }
    size_t taken = (int64_t)len > room_bytes ? (size_t)room_bytes : len;
    work->body_bytes += (int64_t)taken;
    if (taken > 0 && call->on_body != NULL && call->on_body(call->context, bytes, taken) != 0)
        work->halt = HALT_STOP;
    else if (taken < len)
        work->halt = HALT_LARGE;
    return work->halt == HALT_NOT ? len : CURL_WRITEFUNC_ERROR;
}

static int on_progress(void *arg, curl_off_t to_receive, curl_off_t received, curl_off_t to_send,
                       curl_off_t sent)
{
    struct http_work *work = arg;
    (void)to_receive, (void)received, (void)to_send;
    if (sent != work->sent_bytes)
        work->last_byte_ms = clock_mono_ms();
    work->sent_bytes = sent;
    return 0;
}

/* --- the settings --- */

struct setting {
    CURLoption option;
    long value;
};

static const struct setting settings[] = {
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_QUICK_EXIT, 1}, /* a name being looked up does not delay the end of the call */
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1}, /* there is one request, nothing to interleave */
    {CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC},
    {CURLOPT_NETRC, CURL_NETRC_IGNORED},
    {CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* our headers are not for a proxy */
    {CURLOPT_FORBID_REUSE, 1},
    {CURLOPT_TCP_KEEPALIVE, 1},
    {CURLOPT_NOPROGRESS, 0},
};

static CURLcode set_method(struct http_work *work)
{
    const struct http_plan *plan = work->call->plan;
    const char *method = work->method;
    if (strcmp(method, "HEAD") == 0)
        return curl_easy_setopt(work->easy, CURLOPT_NOBODY, 1L);
    /* A method that is meant to carry a body says so when the body is empty. */
    bool carries =
        strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
    CURLcode code = CURLE_OK;
    if (work->sends_body || carries) {
        curl_off_t bytes = work->sends_body ? (curl_off_t)plan->body_bytes : 0;
        code = curl_easy_setopt(work->easy, CURLOPT_POSTFIELDSIZE_LARGE, bytes);
        if (code == CURLE_OK)
            code = curl_easy_setopt(work->easy, CURLOPT_POSTFIELDS, bytes > 0 ? plan->body : "");
    }
    return code == CURLE_OK ? curl_easy_setopt(work->easy, CURLOPT_CUSTOMREQUEST, method) : code;
}

static CURLcode set_place(struct http_work *work)
{
    const struct http_call *call = work->call;
    char *text = NULL;
    if (curl_url_get(work->url, CURLUPART_URL, &text, 0) != CURLUE_OK)
        return CURLE_OUT_OF_MEMORY;
    CURLcode code = curl_easy_setopt(work->easy, CURLOPT_URL, text);
    curl_free(text);
    if (code == CURLE_OK)
        code = curl_easy_setopt(work->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (code == CURLE_OK && work->is_home && work->user != NULL)
        code = curl_easy_setopt(work->easy, CURLOPT_USERNAME, work->user);
    if (code == CURLE_OK && work->is_home && work->password != NULL)
        code = curl_easy_setopt(work->easy, CURLOPT_PASSWORD, work->password);
    if (code == CURLE_OK && call->ca_file != NULL)
        code = curl_easy_setopt(work->easy, CURLOPT_CAINFO, call->ca_file);
    if (code == CURLE_OK && call->ca_file != NULL)
        code = curl_easy_setopt(work->easy, CURLOPT_CAPATH, NULL);
    return code;
}

static CURLcode set_callbacks(struct http_work *work)
{
    CURL *easy = work->easy;
    long connect_ms = work->call->connect_timeout_ms > 0 ? (long)work->call->connect_timeout_ms
                                                         : HTTP_CONNECT_TIMEOUT_MS;
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, work->headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, work->error_text);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, work);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, work);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, work);
    return curl_easy_setopt(easy, CURLOPT_USERAGENT, "tend/" TEND_VERSION);
}

bool http_prepare(struct http_work *work)
{
    work->easy = curl_easy_init();
    if (work->easy == NULL || !put_headers(work))
        return false;
    CURLcode code = CURLE_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && code == CURLE_OK; i++)
        code = curl_easy_setopt(work->easy, settings[i].option, settings[i].value);
    if (code == CURLE_OK)
        code = set_method(work);
    if (code == CURLE_OK)
        code = set_place(work);
    if (code == CURLE_OK)
        code = set_callbacks(work);
    return code == CURLE_OK;
}

void http_clear(struct http_work *work)
{
    if (work->easy != NULL) {
        curl_multi_remove_handle(work->multi, work->easy);
        curl_easy_cleanup(work->easy);
    }
    curl_slist_free_all(work->headers);
    work->easy = NULL;
    work->headers = NULL;
    work->halt = HALT_NOT;
    work->sent_bytes = 0;
    work->error_text[0] = '\0';
}

void http_work_done(struct http_work *work)
{
    http_clear(work);
    if (work->multi != NULL)
        curl_multi_cleanup(work->multi);
    http_url_done(work);
}
