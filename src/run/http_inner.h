/* Inside run/http: a call in the making, as http.c, http_url.c, http_request.c and http_answer.c
 * share it. */
#ifndef RUN_HTTP_INNER_H
#define RUN_HTTP_INNER_H

#include "run/http.h"

#include <curl/curl.h>

/* Why a transfer was ended by us. */
enum http_halt {
    HALT_NOT,
    HALT_WALL,
    HALT_IDLE,
    HALT_STOP,     /* cancel_fd, or a callback said so */
    HALT_LARGE,    /* body or headers */
    HALT_REDIRECT, /* the body of an answer that points elsewhere is not read */
};

/* Scheme, host and port: who gets the credentials. */
struct http_origin {
    char *scheme, *host, *port; /* of curl_free */
};

struct http_work {
    const struct http_call *call;
    CURLM *multi;

    /* where to, of the present exchange */
    CURLU *url;                /* without credentials */
    char *user, *password;     /* of the plan's URL; NULL: none */
    struct http_origin origin; /* of the plan's URL */
    const char *method;
    bool sends_body; /* a redirect may turn POST into GET */
    bool is_home;    /* the present origin is the plan's */

    /* the present exchange */
    CURL *easy;
    struct curl_slist *headers;
    char error_text[CURL_ERROR_SIZE];
    enum http_halt halt;
    curl_off_t sent_bytes;

    /* the whole call */
    int64_t begun_ms, last_byte_ms, next_tick_ms; /* monotonic */
    size_t header_bytes;
    int redirects;
    int64_t body_bytes;
};

/* --- http_url.c --- */

/* The plan's URL is taken apart. CURLUE_OK, or why not. */
CURLUcode http_url_start(struct http_work *work);
void http_url_done(struct http_work *work);

enum http_turn {
    TURN_DONE,      /* url, method and is_home are those of the new place */
    TURN_BAD_PLACE, /* it is no URL that may be followed */
    TURN_DOWNGRADE, /* from https to http */
    TURN_SECRET,    /* the body is secret, and would go to another host */
    TURN_NO_MEMORY,
};
/* Goes where an answer with this status points. */
enum http_turn http_url_turn(struct http_work *work, int status, const char *location);

/* --- http_request.c --- */

/* What in the plan cannot be sent, as a sentence; NULL: nothing. */
const char *http_plan_fault(const struct http_plan *plan);

/* The handle of the next exchange, ready to be started. False: no memory. */
bool http_prepare(struct http_work *work);

/* Ends an exchange; the work can be prepared for another. */
void http_clear(struct http_work *work);

void http_work_done(struct http_work *work);

/* --- http_answer.c --- */

/* Status of the answer that is coming or has come; 0: none yet. */
int http_status(const struct http_work *work);

/* A header of it, or NULL. Valid until the exchange ends. */
const char *http_header(const struct http_work *work, const char *name);

/* Whether it sends us elsewhere, and we follow. */
bool http_points_elsewhere(const struct http_work *work);

/* What came of the last exchange, halted or ended by itself with this code. */
void http_judge(const struct http_work *work, CURLcode code, struct http_answer *ret);

/* The call ends here for a reason of its own. */
void http_fail(struct http_answer *ret, enum ending_kind kind, int number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Milliseconds from now; -1: it cannot be understood. At most a year. */
int64_t http_retry_after(const char *value, int64_t now_ms);

#endif
