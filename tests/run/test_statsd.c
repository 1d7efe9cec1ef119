/* The way to a StatsD server (SH-14): a name that cannot be looked up stops nobody. */
#include "run/statsd.h"
#include "support/store.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* --- a resolver of our own: every name is 127.0.0.1, but not at first --- */

static _Atomic int lookups, failures_left, blocked;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    static struct sockaddr_in address;
    static struct addrinfo answer;
    (void)name;
    lookups++;
    while (blocked)
        test_pause();
    if (failures_left > 0) {
        failures_left--;
        return EAI_NONAME;
    }
    address = (struct sockaddr_in){.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)strtol(service, NULL, 10))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    answer = (struct addrinfo){.ai_family = AF_INET,
                               .ai_socktype = req->ai_socktype,
                               .ai_addr = (struct sockaddr *)&address,
                               .ai_addrlen = sizeof address};
    *pai = &answer;
    return 0;
}

void freeaddrinfo(struct addrinfo *ai)
{
    (void)ai;
}

/* --- a server --- */

static int server_open(char host_port[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    check_int(bind(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    check_int(getsockname(fd, (struct sockaddr *)&address, &len), ==, 0);
    snprintf(host_port, 64, "metrics.example:%d", ntohs(address.sin_port));
    return fd;
}

static void check_arrives(struct statsd *statsd, int fd)
{
    char packet[16] = {0};
    statsd_send(statsd, "a:1|c", 5);
    check_int(recv(fd, packet, sizeof packet - 1, 0), ==, 5);
    check_str(packet, "a:1|c");
}

static pthread_mutex_t said_mutex = PTHREAD_MUTEX_INITIALIZER;
static char said[4096];

static void hear(void *arg, const char *text)
{
    (void)arg;
    pthread_mutex_lock(&said_mutex);
    size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%s\n", text);
    pthread_mutex_unlock(&said_mutex);
}

static int lines_said(void)
{
    int lines = 0;
    pthread_mutex_lock(&said_mutex);
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    pthread_mutex_unlock(&said_mutex);
    return lines;
}

TEST(statsd, a_name_that_is_found_at_once_takes_packets_from_the_first)
{
    char name[64];
    struct statsd *statsd;
    int fd = server_open(name);
    check_int(statsd_open(&statsd, name, 1, hear, NULL, NULL), ==, 0);
    check_arrives(statsd, fd);
    check_int(lookups, ==, 1);
    statsd_close(statsd);
    check_str(said, "");
}

/* `tend work` did not start where the name of the server could not be looked up. */
TEST(statsd, a_name_that_is_not_found_is_told_once_and_looked_up_again)
{
    char name[64];
    struct statsd *statsd;
    int fd = server_open(name);
    failures_left = 5;
    check_int(statsd_open(&statsd, name, 1, hear, NULL, NULL), ==, 0);
    statsd_send(statsd, "lost:1|c", 8);
    wait_until(lines_said() == 2, PATIENCE_MS);
    check_int(lookups, ==, 6);
    check_arrives(statsd, fd);
    statsd_close(statsd);
    check_contains(said, "is not found");
    check_contains(said, "is found");
    check_contains(said, name);
}

/* Nobody waits for a resolver that does not answer, neither at the start nor at the end. */
TEST(statsd, a_resolver_that_does_not_answer_holds_nobody_up)
{
    struct statsd *statsd;
    blocked = 1;
    failures_left = 1;
    check_int(statsd_open(&statsd, "slow.example:8125", 1, hear, NULL, NULL), ==, 0);
    wait_until(lookups == 1, PATIENCE_MS);
    statsd_send(statsd, "lost:1|c", 8);
    statsd_close(statsd);
    blocked = 0;
    wait_until(failures_left == 0, PATIENCE_MS); /* its thread has gone on, and says nothing */
    check_str(said, "");
}

TEST(statsd, addresses_are_host_and_port)
{
    static const char *const good[] = {"a:1", "127.0.0.1:8125", "[::1]:8125", "::1:65535"};
    static const char *const bad[] = {"",        "a",    ":1",   "a:",   "a:0",
                                      "a:65536", "a:1x", "a:-1", "a: 1", "a:99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check_int(statsd_check(good[i], NULL), ==, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_int(statsd_check(bad[i], NULL), ==, TEND_EINVAL);
}
