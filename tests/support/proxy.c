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
    int64_t mutes; /* the same for proxy_mute */
    int64_t mutes_done;
    int64_t loses; /* an answer is to be lost: that to lose_text */
    char lose_text[64];
};

struct pair {
    int client, server;
    bool mute;
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

/* Whether the answer to this is to be lost: then nothing else is any more. */
static bool is_to_lose(struct proxy_line *line, const char *data, size_t bytes)
{
    if (__atomic_load_n(&line->loses, __ATOMIC_SEQ_CST) == 0 ||
        memmem(data, bytes, line->lose_text, strlen(line->lose_text)) == NULL)
        return false;
    __atomic_store_n(&line->loses, 0, __ATOMIC_SEQ_CST);
    return true;
}

/* Passes on a piece; false: the connection has ended. line: a client speaks. */
static bool pass_on(struct pair *pair, struct proxy_line *line)
{
    char data[PIECE_BYTES];
    int from = line != NULL ? pair->client : pair->server;
    int to = line != NULL ? pair->server : pair->client;
    int64_t *left = line != NULL ? &line->left : NULL;
    size_t most = left != NULL && *left < PIECE_BYTES ? (size_t)*left : sizeof data;
    ssize_t got = read(from, data, most);
    if (got <= 0)
        return false;
    pair->mute = line != NULL && is_to_lose(line, data, (size_t)got);
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
    pairs[(*count)++] = (struct pair){.client = client, .server = server};
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

static void mute_all(struct proxy_line *line, struct pair *pairs, size_t count)
{
    int64_t mutes = __atomic_load_n(&line->mutes, __ATOMIC_SEQ_CST);
    if (mutes == line->mutes_done)
        return;
    for (size_t i = 0; i < count; i++)
        pairs[i].mute = true;
    __atomic_store_n(&line->mutes_done, mutes, __ATOMIC_SEQ_CST);
}

static void serve(int listener, const struct proxy_plan *plan)
{
    struct pair pairs[PAIRS_MAX];
    size_t count = 0;
    int64_t *left = &plan->line->left;
    for (;;) {
        cut_all(plan->line, pairs, &count);
        mute_all(plan->line, pairs, count);
        struct pollfd fds[1 + 2 * PAIRS_MAX] = {{.fd = listener, .events = POLLIN}};
        for (size_t i = 0; i < count; i++) {
            bool mute = pairs[i].mute;
            fds[1 + 2 * i] = (struct pollfd){.fd = mute ? -1 : pairs[i].client, .events = POLLIN};
            fds[2 + 2 * i] = (struct pollfd){.fd = mute ? -1 : pairs[i].server, .events = POLLIN};
        }
        bool stalled = __atomic_load_n(left, __ATOMIC_SEQ_CST) == 0;
        poll(fds, stalled ? 0 : 1 + 2 * count, TICK_MS);
        for (size_t i = count; !stalled && i > 0; i--) {
            struct pair *pair = &pairs[i - 1];
            bool open = true;
            if (fds[2 * i - 1].revents != 0 && __atomic_load_n(left, __ATOMIC_SEQ_CST) > 0)
                open = pass_on(pair, plan->line);
            if (open && !pair->mute && fds[2 * i].revents != 0)
                open = pass_on(pair, NULL);
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
    const char *url = getenv("TEND_TEST_PG_URL");
    const char *port = url != NULL ? strstr(url, "port=") : NULL;
    check(port != NULL);
    proxy.line =
        mmap(NULL, sizeof *proxy.line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(proxy.line != MAP_FAILED);
    proxy_resume(&proxy);
    struct proxy_plan plan = {.line = proxy.line,
                              .server_port = (int)strtol(port + strlen("port="), NULL, 10)};
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

void proxy_mute(struct proxy *proxy)
{
    int64_t mutes = __atomic_add_fetch(&proxy->line->mutes, 1, __ATOMIC_SEQ_CST);
    wait_until(__atomic_load_n(&proxy->line->mutes_done, __ATOMIC_SEQ_CST) >= mutes, PATIENCE_MS);
}

void proxy_lose_answer(struct proxy *proxy, const char *text)
{
    check_int(strlen(text), <, sizeof proxy->line->lose_text);
    strcpy(proxy->line->lose_text, text);
    __atomic_store_n(&proxy->line->loses, 1, __ATOMIC_SEQ_CST);
}

bool proxy_answer_is_lost(const struct proxy *proxy)
{
    return __atomic_load_n(&proxy->line->loses, __ATOMIC_SEQ_CST) == 0;
}
