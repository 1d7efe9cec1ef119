#include "support/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS_MAX = 64, PIECE_BYTES = 16 * 1024, TICK_MS = 5 };

/* In shared memory. */
struct proxy_line {
    int64_t left; /* bytes of clients that may pass; 0: stalled */
    int64_t cuts; /* that were asked for */
    int64_t cuts_done;
};

struct pair {
    int client, server;
};

struct proxy_plan {
    struct proxy_line *line;
    int server_port;
};

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
}

static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check_int(fd, >=, 0);
    return fd;
}

static void write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = send(fd, data, bytes, MSG_NOSIGNAL);
        if (written <= 0)
            return; /* the other side notices when it reads */
        data += written;
        bytes -= (size_t)written;
    }
}

/* Passes on a piece; false: the connection has ended. */
static bool pass_on(int from, int to, int64_t *left)
{
    char data[PIECE_BYTES];
    size_t most = left != NULL && *left < PIECE_BYTES ? (size_t)*left : sizeof data;
    ssize_t got = read(from, data, most);
    if (got <= 0)
        return false;
    write_all(to, data, (size_t)got);
    if (left != NULL && *left != INT64_MAX)
        __atomic_sub_fetch(left, got, __ATOMIC_SEQ_CST);
    return true;
}

static void accept_one(int listener, int server_port, struct pair *pairs, size_t *count)
{
    struct sockaddr_in address = local(server_port);
    int client = accept(listener, NULL, NULL);
    int server = open_socket();
    check_int(connect(server, (struct sockaddr *)&address, sizeof address), ==, 0);
    check_int(*count, <, PAIRS_MAX);
    pairs[(*count)++] = (struct pair){client, server};
}

static void close_pair(struct pair *pair)
{
    close(pair->client);
    close(pair->server);
}

/* If it was asked for. */
static void cut_all(struct proxy_line *line, struct pair *pairs, size_t *count)
{
    int64_t cuts = __atomic_load_n(&line->cuts, __ATOMIC_SEQ_CST);
    if (cuts == line->cuts_done)
        return;
    for (size_t i = 0; i < *count; i++)
        close_pair(&pairs[i]);
    *count = 0;
    __atomic_store_n(&line->cuts_done, cuts, __ATOMIC_SEQ_CST);
}

static void serve(int listener, const struct proxy_plan *plan)
{
    struct pair pairs[PAIRS_MAX];
    size_t count = 0;
    int64_t *left = &plan->line->left;
    for (;;) {
        cut_all(plan->line, pairs, &count);
        struct pollfd fds[1 + 2 * PAIRS_MAX] = {{.fd = listener, .events = POLLIN}};
        for (size_t i = 0; i < count; i++) {
            fds[1 + 2 * i] = (struct pollfd){.fd = pairs[i].client, .events = POLLIN};
            fds[2 + 2 * i] = (struct pollfd){.fd = pairs[i].server, .events = POLLIN};
        }
        bool stalled = __atomic_load_n(left, __ATOMIC_SEQ_CST) == 0;
        poll(fds, stalled ? 0 : 1 + 2 * count, TICK_MS);
        for (size_t i = count; !stalled && i > 0; i--) {
            struct pair *pair = &pairs[i - 1];
            bool open = true;
            if (fds[2 * i - 1].revents != 0 && __atomic_load_n(left, __ATOMIC_SEQ_CST) > 0)
                open = pass_on(pair->client, pair->server, left);
            if (open && fds[2 * i].revents != 0)
                open = pass_on(pair->server, pair->client, NULL);
            if (open)
                continue;
            close_pair(pair);
            *pair = pairs[--count];
        }
        if (!stalled && fds[0].revents != 0)
            accept_one(listener, plan->server_port, pairs, &count);
    }
}

static void listen_and_serve(struct helper *parent, void *arg)
{
    struct sockaddr_in address = local(0);
    socklen_t bytes = sizeof address;
    int listener = open_socket();
    check_int(bind(listener, (struct sockaddr *)&address, sizeof address), ==, 0);
    check_int(listen(listener, PAIRS_MAX), ==, 0);
    check_int(getsockname(listener, (struct sockaddr *)&address, &bytes), ==, 0);
    helper_say(parent, ntohs(address.sin_port));
    serve(listener, arg);
}

struct proxy proxy_start(void)
{
    struct proxy proxy = {0};
    const char *port = strstr(getenv("TEND_TEST_PG_URL"), "port=");
    check(port != NULL);
    proxy.line =
        mmap(NULL, sizeof *proxy.line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(proxy.line != MAP_FAILED);
    proxy_resume(&proxy);
    struct proxy_plan plan = {.line = proxy.line, .server_port = atoi(port + strlen("port="))};
    proxy.process = helper_start(listen_and_serve, &plan);
    proxy.port = (int)helper_hear(&proxy.process);
    return proxy;
}

void proxy_stop(struct proxy *proxy)
{
    helper_kill(&proxy->process);
    munmap(proxy->line, sizeof *proxy->line);
}

const char *proxy_url(const struct proxy *proxy)
{
    return keep_text("postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable&"
                     "gssencmode=disable&tend_schema=%s",
                     proxy->port, store_schema());
}

void proxy_stall_after(struct proxy *proxy, int64_t bytes)
{
    __atomic_store_n(&proxy->line->left, bytes, __ATOMIC_SEQ_CST);
}

bool proxy_is_stalled(const struct proxy *proxy)
{
    return __atomic_load_n(&proxy->line->left, __ATOMIC_SEQ_CST) == 0;
}

void proxy_resume(struct proxy *proxy)
{
    proxy_stall_after(proxy, INT64_MAX);
}

void proxy_cut(struct proxy *proxy)
{
    int64_t cuts = __atomic_add_fetch(&proxy->line->cuts, 1, __ATOMIC_SEQ_CST);
    wait_until(__atomic_load_n(&proxy->line->cuts_done, __ATOMIC_SEQ_CST) >= cuts, PATIENCE_MS);
}
