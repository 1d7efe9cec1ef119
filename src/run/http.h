/*
 * One HTTP request and its answer, made by the calling thread.
 *
 *     plan ─▶ request ─▶ headers ─┬─▶ on_body, piece by piece, up to max_response_bytes
 *                ▲                └─▶ another place, where redirects are followed
 *                └──────────────────────────┘
 *
 * What is promised:
 *  - http and https only, HTTP/1.0 and 1.1. Certificates and host names are checked, TLS 1.2 or
 *    newer.
 *  - Redirects are followed only when the plan says so: at most 5, never from https to http.
 *    Another scheme, host or port gets no credentials: not those of the URL, no Authorization,
 *    Cookie or Host, no header whose name looks secret to core/redact.h, and none whose value the
 *    plan only names. A body with a secret that the plan names is not sent there at all.
 *  - Proxies come from the environment as for the curl command (http_proxy, https_proxy, no_proxy).
 *    No netrc, no cookies, nothing is unpacked, no connection is kept.
 *  - Memory does not depend on the size of the answer.
 *  - A status that is not expected decides, whatever became of the body that came with it.
 *
 * Not a retry policy and no judge: core/classify.h says what an ending means. No state is shared
 * between calls, but for libcurl's own, which is set up by the first one.
 */
#ifndef RUN_HTTP_H
#define RUN_HTTP_H

#include "core/spec.h"

struct err;

enum {
    HTTP_REDIRECTS_MAX = 5,
    HTTP_HEADERS_MAX_BYTES = 256 * 1024, /* of all answers of a call; also of a request */
    HTTP_CONNECT_TIMEOUT_MS = 60 * 1000,
    HTTP_TICK_MS = 250,
    HTTP_NOTE_BYTES = 320,
};

/* Everything is borrowed for the call. */
struct http_call {
    const struct http_plan *plan;
    const char *idempotency_key;     /* sent unless the plan gives one; NULL: none */
    const struct redactor *redactor; /* knows which headers are secret; NULL: by their names */
    const char *ca_file;             /* PEM, instead of the system's authorities; NULL: those */
    int64_t wall_timeout_ms;         /* 0: none */
    int64_t idle_timeout_ms;         /* without a byte sent or received; 0: none */
    int64_t connect_timeout_ms;      /* 0: HTTP_CONNECT_TIMEOUT_MS */
    int cancel_fd;                   /* readable: the call ends; -1: none */
    /* Bytes of the body as they come; not 0: the call ends. NULL: nobody wants them. */
    int (*on_body)(void *context, const void *bytes, size_t len);
    /* Every HTTP_TICK_MS, also while nothing comes; not 0: the call ends. May be NULL. */
    int (*on_tick)(void *context);
    void *context;
};

enum http_end {
    HTTP_SUCCEEDED, /* an expected status and the whole body */
    HTTP_FAILED,    /* ending says how */
    HTTP_STOPPED,   /* by cancel_fd or a callback */
};

struct http_answer {
    enum http_end end;
    struct ending ending;       /* of HTTP_FAILED */
    int status;                 /* of the last answer; 0: there was none */
    int redirects;              /* that were followed */
    int64_t body_bytes;         /* that were given to on_body */
    int64_t retry_after_ms;     /* from now, as its header says; -1: it does not */
    char note[HTTP_NOTE_BYTES]; /* one line for people, with nothing of the plan's headers and
                                   body, nor of the URL's credentials */
};

/* 0 with *ret filled, whatever came of it; TEND_ENOMEM or TEND_EIO when there was no request. */
int http_call(const struct http_call *call, struct http_answer *ret, struct err *err);

#endif
