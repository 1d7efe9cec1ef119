/*
 * A small HTTP server for tests: a thread that accepts, a thread per connection, one request each.
 * It reads a request, keeps it, and lets the test say what happens next.
 */
#ifndef TEND_HTTP_SERVER_H
#define TEND_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct http_server;

/* One request. */
struct visit {
    struct http_server *server;
    void *context; /* the test's */
    int fd;
    int number; /* from 1, in the order of arrival */
    char *head; /* request line and headers, without the blank line */
    char *body;
    size_t body_bytes;
};

/* serve is called by the thread of the connection, which is closed when it returns. */
struct http_server *server_start(void (*serve)(struct visit *), void *context);
/* From now on bodies of requests are left to serve. */
void server_leave_bodies(struct http_server *server);
/* Waits for all of its threads. */
void server_stop(struct http_server *server);

int server_port(const struct http_server *server);
/* "http://HOST:PORT/path"; lives as long as the server. */
const char *server_url(struct http_server *server, const char *path);
const char *server_url_at(struct http_server *server, const char *host, const char *path);

/* How many requests have come, and each of them (from 1) as long as the server lives. */
int server_visits(struct http_server *server);
const struct visit *server_visit(struct http_server *server, int number);

/* The value of a header, in a static buffer of the thread; NULL: there is none. */
const char *visit_header(const struct visit *visit, const char *name);

/* Sends; false: the client has gone. */
bool visit_send(struct visit *visit, const void *bytes, size_t len);
bool visit_say(struct visit *visit, const char *text);
/* Reads so many bytes and forgets them; false: the client has gone. */
bool visit_drop(struct visit *visit, size_t bytes);
/* Waits until the client closes the connection. */
void visit_await_close(struct visit *visit);
/* The connection ends by a reset, not in peace. */
void visit_reset(struct visit *visit);

/* For server_start: the context is the whole answer. */
void serve_text(struct visit *visit);

#endif
