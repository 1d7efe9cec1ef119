/* Where a request goes, and who gets credentials: the plan's URL and redirects. See http.h. */
#include "run/http_inner.h"

#include <string.h>
#include <strings.h>

static CURLUcode get(CURLU *url, CURLUPart part, unsigned flags, CURLUcode missing, char **ret)
{
    CURLUcode code = curl_url_get(url, part, ret, flags);
    return code == missing ? CURLUE_OK : code;
}

static CURLUcode read_origin(CURLU *url, struct http_origin *origin)
{
    CURLUcode code = curl_url_get(url, CURLUPART_SCHEME, &origin->scheme, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_HOST, &origin->host, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(url, CURLUPART_PORT, &origin->port, CURLU_DEFAULT_PORT);
    if (code == CURLUE_OK && strcasecmp(origin->scheme, "http") != 0 &&
        strcasecmp(origin->scheme, "https") != 0)
        code = CURLUE_UNSUPPORTED_SCHEME;
    return code;
}

static void origin_done(struct http_origin *origin)
{
    curl_free(origin->scheme);
    curl_free(origin->host);
    curl_free(origin->port);
}

static bool is_same(const struct http_origin *one, const struct http_origin *other)
{
    return strcasecmp(one->scheme, other->scheme) == 0 && strcasecmp(one->host, other->host) == 0 &&
           strcmp(one->port, other->port) == 0;
}

static CURLUcode drop_credentials(CURLU *url)
{
    static const CURLUPart parts[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS};
    CURLUcode code = CURLUE_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && code == CURLUE_OK; i++)
        code = curl_url_set(url, parts[i], NULL, 0);
    return code;
}

CURLUcode http_url_start(struct http_work *work)
{
    const struct http_plan *plan = work->call->plan;
    work->method = plan->method;
    work->sends_body = plan->body != NULL;
    work->is_home = true;
    work->url = curl_url();
    if (work->url == NULL)
        return CURLUE_OUT_OF_MEMORY;
    CURLUcode code = curl_url_set(work->url, CURLUPART_URL, plan->url, 0);
    if (code == CURLUE_OK)
        code = get(work->url, CURLUPART_USER, CURLU_URLDECODE, CURLUE_NO_USER, &work->user);
    if (code == CURLUE_OK)
        code = get(work->url, CURLUPART_PASSWORD, CURLU_URLDECODE, CURLUE_NO_PASSWORD,
                   &work->password);
    if (code == CURLUE_OK)
        code = drop_credentials(work->url);
    return code == CURLUE_OK ? read_origin(work->url, &work->origin) : code;
}

/* As browsers do: what was posted is not posted again where the answer is to be fetched. */
static void turn_method(struct http_work *work, int status)
{
    bool posted = strcmp(work->method, "POST") == 0;
    bool fetches = status == 303 || ((status == 301 || status == 302) && posted);
    if (!fetches || strcmp(work->method, "HEAD") == 0)
        return;
    work->method = "GET";
    work->sends_body = false;
}

static bool has_secret_body(const struct http_plan *plan)
{
    return plan->body_secret != NULL || plan->body_names_secrets;
}

enum http_turn http_url_turn(struct http_work *work, int status, const char *location)
{
    struct http_origin from = {0}, to = {0};
    enum http_turn turn = TURN_BAD_PLACE;
    CURLU *next = curl_url_dup(work->url);
    CURLUcode code = next == NULL ? CURLUE_OUT_OF_MEMORY : read_origin(next, &from);
    if (code == CURLUE_OK)
        code = curl_url_set(next, CURLUPART_URL, location, CURLU_URLENCODE);
    if (code == CURLUE_OK)
        code = drop_credentials(next);
    if (code == CURLUE_OK)
        code = read_origin(next, &to);
    if (code == CURLUE_OUT_OF_MEMORY)
        turn = TURN_NO_MEMORY;
    else if (code == CURLUE_OK)
        turn = strcasecmp(from.scheme, "https") == 0 && strcasecmp(to.scheme, "https") != 0
                   ? TURN_DOWNGRADE
                   : TURN_DONE;
    if (turn == TURN_DONE) {
        work->is_home = is_same(&work->origin, &to);
        turn_method(work, status);
        if (!work->is_home && work->sends_body && has_secret_body(work->call->plan))
            turn = TURN_SECRET;
        CURLU *old = work->url;
        work->url = next;
        next = old;
    }
    origin_done(&from);
    origin_done(&to);
    curl_url_cleanup(next);
    return turn;
}

void http_url_done(struct http_work *work)
{
    curl_url_cleanup(work->url);
    curl_free(work->user);
    curl_free(work->password);
    origin_done(&work->origin);
}
