#include "run/http_server.h"

#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VISITS_MAX = 256, URLS_MAX = 64, HEAD_MAX_BYTES = 64 * 1024 };

struct http_server {
    void (*serve)(struct visit *);
    void *context;
    _Atomic bool leaves_bodies;
    int listen_fd;
    int port;
    int end_pipe[2]; /* closed: the accepting thread ends */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_t threads[VISITS_MAX]; /* of connections; only the accepting thread adds to them */
    int connections;
    struct visit *visits[VISITS_MAX];
    int visit_count; /* under mutex */
    char *urls[URLS_MAX];
    int url_count;
};

/* --- requests --- */

static bool read_byte(int fd, char *byte)
{
    return recv(fd, byte, 1, 0) == 1;
}

/* Byte by byte, so that nothing of the body is taken. */
static bool read_head(struct visit *visit)
{
    size_t len = 0;
    visit->head = calloc(1, HEAD_MAX_BYTES);
    while (len < HEAD_MAX_BYTES - 1 && read_byte(visit->fd, &visit->head[len])) {
        len++;
        if (len >= 4 && memcmp(visit->head + len - 4, "\r\n\r\n", 4) == 0) {
            visit->head[len - 4] = '\0';
            return true;
        }
    }
    return false;
}

static bool read_body(struct visit *visit)
{
    const char *length = visit_header(visit, "Content-Length");
    size_t expected =
        length == NULL || visit->server->leaves_bodies ? 0 : (size_t)strtoull(length, NULL, 10);
    visit->body = calloc(1, expected + 1);
    while (visit->body_bytes < expected) {
        ssize_t len =
            recv(visit->fd, visit->body + visit->body_bytes, expected - visit->body_bytes, 0);
        if (len <= 0)
            return false;
        visit->body_bytes += (size_t)len;
    }
    return true;
}

static void *connection(void *arg)
{
    struct visit *visit = arg;
    struct http_server *server = visit->server;
    if (read_head(visit) && read_body(visit)) {
        pthread_mutex_lock(&server->mutex);
        visit->number = ++server->visit_count;
        server->visits[visit->number - 1] = visit;
        pthread_mutex_unlock(&server->mutex);
        server->serve(visit);
        close(visit->fd);
        return NULL;
    }
    close(visit->fd);
    free(visit->head);
    free(visit->body);
    free(visit);
    return NULL;
}

/* --- its life --- */

static void *accept_all(void *arg)
{
    struct http_server *server = arg;
    for (;;) {
        struct pollfd fds[] = {{.fd = server->listen_fd, .events = POLLIN},
                               {.fd = server->end_pipe[0], .events = POLLIN}};
        check(poll(fds, 2, -1) > 0 || errno == EINTR);
        if (fds[1].revents != 0)
            return NULL;
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        check_int(server->connections, <, VISITS_MAX);
        struct visit *visit = calloc(1, sizeof *visit);
        *visit = (struct visit){.server = server, .context = server->context, .fd = fd};
        check_int(pthread_create(&server->threads[server->connections++], NULL, connection, visit),
                  ==, 0);
    }
}

struct http_server *server_start(void (*serve)(struct visit *), void *context)
{
    struct http_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    server->serve = serve;
    server->context = context;
    pthread_mutex_init(&server->mutex, NULL);
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(server->listen_fd >= 0);
    check_int(bind(server->listen_fd, (struct sockaddr *)&address, size), ==, 0);
    check_int(listen(server->listen_fd, 64), ==, 0);
    check_int(getsockname(server->listen_fd, (struct sockaddr *)&address, &size), ==, 0);
    server->port = ntohs(address.sin_port);
    check_int(pipe(server->end_pipe), ==, 0);
    check_int(pthread_create(&server->thread, NULL, accept_all, server), ==, 0);
    return server;
}

void server_leave_bodies(struct http_server *server)
{
    server->leaves_bodies = true;
}

void server_stop(struct http_server *server)
{
    close(server->end_pipe[1]);
    pthread_join(server->thread, NULL);
    for (int i = 0; i < server->connections; i++)
        pthread_join(server->threads[i], NULL);
    for (int i = 0; i < server->visit_count; i++) {
        free(server->visits[i]->head);
        free(server->visits[i]->body);
        free(server->visits[i]);
    }
    for (int i = 0; i < server->url_count; i++)
        free(server->urls[i]);
    close(server->listen_fd);
    close(server->end_pipe[0]);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

int server_port(const struct http_server *server)
{
    return server->port;
}

const char *server_url_at(struct http_server *server, const char *host, const char *path)
{
    char *url;
    check_int(server->url_count, <, URLS_MAX);
    check(asprintf(&url, "http://%s:%d%s", host, server->port, path) > 0);
    server->urls[server->url_count++] = url;
    return url;
}

const char *server_url(struct http_server *server, const char *path)
{
    return server_url_at(server, "127.0.0.1", path);
}

/* --- what tests ask and say --- */

int server_visits(struct http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    int count = server->visit_count;
    pthread_mutex_unlock(&server->mutex);
    return count;
}

const struct visit *server_visit(struct http_server *server, int number)
{
    check_int(number, <=, server_visits(server));
    return server->visits[number - 1];
}

const char *visit_header(const struct visit *visit, const char *name)
{
    static _Thread_local char value[1024];
    size_t len = strlen(name);
    for (const char *line = strstr(visit->head, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) != 0 || line[len] != ':')
            continue;
        line += len + 1;
        line += strspn(line, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\r\n"), line);
        return value;
    }
    return NULL;
}

bool visit_send(struct visit *visit, const void *bytes, size_t len)
{
    for (size_t sent = 0; sent < len;) {
        ssize_t now = send(visit->fd, (const char *)bytes + sent, len - sent, MSG_NOSIGNAL);
        if (now < 0)
            return false;
        sent += (size_t)now;
    }
    return true;
}

bool visit_say(struct visit *visit, const char *text)
{
    return visit_send(visit, text, strlen(text));
}

bool visit_drop(struct visit *visit, size_t bytes)
{
    char block[16 * 1024];
    while (bytes > 0) {
        ssize_t len = recv(visit->fd, block, bytes < sizeof block ? bytes : sizeof block, 0);
        if (len <= 0)
            return false;
        bytes -= (size_t)len;
    }
    return true;
}

void visit_await_close(struct visit *visit)
{
    char byte;
    while (recv(visit->fd, &byte, 1, 0) > 0)
        ;
}

void visit_reset(struct visit *visit)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(visit->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

void serve_text(struct visit *visit)
{
    visit_say(visit, visit->context);
}
