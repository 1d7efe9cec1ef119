/* One call of run/http as tests make it: a plan with its usual values, and what came of it. */
#ifndef TEND_HTTP_CASE_H
#define TEND_HTTP_CASE_H

#include "base/buf.h"
#include "base/err.h"
#include "run/http.h"
#include "run/http_server.h"
#include "support/test.h"

#include <stdatomic.h>

enum { CASE_HEADERS_MAX = 8, CASE_RANGES_MAX = 4 };

struct http_case {
    struct http_plan plan;
    struct named_text headers[CASE_HEADERS_MAX];
    struct status_range expect[CASE_RANGES_MAX];
    struct http_call call;
    struct http_answer answer;
    struct buf body; /* as far as it came */
    _Atomic int ticks;
};

/* GET, 200 to 299 expected, a MiB, no limits of time. The case is kept where it is. */
void case_init(struct http_case *http, const char *url);
void case_header(struct http_case *http, const char *name, const char *value);
void case_expect(struct http_case *http, int low, int high);
/* Makes the call. */
void case_run(struct http_case *http);
void case_done(struct http_case *http);

#define check_succeeded(http, status_)                                                             \
    do {                                                                                           \
        check_str((http)->answer.end == HTTP_SUCCEEDED ? "" : (http)->answer.note, "");            \
        check_int((http)->answer.status, ==, (status_));                                           \
    } while (0)

#define check_ended(http, kind_, number_)                                                          \
    do {                                                                                           \
        check_int((http)->answer.end, ==, HTTP_FAILED);                                            \
        check_int((http)->answer.ending.kind, ==, (kind_));                                        \
        check_int((http)->answer.ending.number, ==, (number_));                                    \
        check((http)->answer.note[0] != '\0');                                                     \
    } while (0)

#define check_trouble(http, trouble) check_ended(http, ENDED_HTTP_TRANSPORT, trouble)

#endif
