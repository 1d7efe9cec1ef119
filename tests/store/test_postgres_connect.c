/*
 * Making a connection: nothing is ever printed, whatever a server says meanwhile, and one that says
 * nothing is left after its time, for the next host if there is one. The servers that misbehave are
 * a few bytes of this file.
 */
#include "store/pg_db.h"
#include "support/store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHORT_MS = 300 };

/* --- servers --- */

static int listen_on(int backlog, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check_int(bind(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    check_int(listen(fd, backlog), ==, 0);
    check_int(getsockname(fd, (struct sockaddr *)&address, &bytes), ==, 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A message of a kind: its fields, each with its end, in `bytes` bytes. */
static size_t put_message(char *out, char kind, const char *fields, size_t bytes)
{
    uint32_t length = htonl((uint32_t)bytes + 4);
    out[0] = kind;
    memcpy(out + 1, &length, 4);
    memcpy(out + 5, fields, bytes);
    return bytes + 5;
}

static const char warning[] = "SWARNING\0VWARNING\0C57P02\0"
                              "Mterminating connection due to immediate shutdown command\0";
static const char fatal[] = "SFATAL\0VFATAL\0C57P01\0"
                            "Mterminating connection due to administrator command\0";

/* Lets the client in, then says its last words. */
static void die_while_connecting(struct helper *parent, void *arg)
{
    char said[1024];
    char startup[1024];
    int port;
    int fd = listen_on(5, &port);
    (void)arg;
    helper_say(parent, port);
    size_t bytes = put_message(said, 'R', "\0\0\0\0", 4);
    bytes += put_message(said + bytes, 'N', warning, sizeof warning);
    bytes += put_message(said + bytes, 'E', fatal, sizeof fatal);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (read(client, startup, sizeof startup) > 0)
            check_int(write(client, said, bytes), ==, (ssize_t)bytes);
        close(client);
    }
}

/* Lets everybody in, and that was it. */
static void welcome_and_freeze(struct helper *parent, void *arg)
{
    char said[256];
    char heard[4096];
    int port;
    int fd = listen_on(5, &port);
    (void)arg;
    helper_say(parent, port);
    size_t bytes = put_message(said, 'R', "\0\0\0\0", 4);
    bytes += put_message(said + bytes, 'S', "server_version\00015.5", 20);
    bytes += put_message(said + bytes, 'K', "\0\0\0\1\0\0\0\2", 8);
    bytes += put_message(said + bytes, 'Z', "I", 1);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (read(client, heard, sizeof heard) > 0)
            check_int(write(client, said, bytes), ==, (ssize_t)bytes);
    }
}

/* --- what is printed --- */

static void catch_stderr(void)
{
    int fd = open(test_path("stderr"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    check_int(dup2(fd, STDERR_FILENO), ==, STDERR_FILENO);
    close(fd);
}

static void nothing_was_printed(void)
{
    struct stat status;
    check_int(stat(test_path("stderr"), &status), ==, 0);
    check_int(status.st_size, ==, 0);
}

static const char *sentence_of(const char *url, int expected)
{
    tend *t;
    int rc = tend_open(&t, url, NULL);
    check_rc(t, rc, expected);
    const char *sentence = keep_text("%s", tend_errmsg(t));
    tend_close(t);
    return sentence;
}

TEST(postgres_connect, the_last_words_of_a_server_are_told_and_not_printed)
{
    struct helper server = helper_start(die_while_connecting, NULL);
    int port = (int)helper_hear(&server);
    catch_stderr();
    const char *sentence = sentence_of(
        keep_text("postgresql://ann@127.0.0.1:%d/x?sslmode=disable&gssencmode=disable", port),
        TEND_EUNREACHABLE);
    check_contains(sentence, "administrator command");
    nothing_was_printed();
    helper_kill(&server);
}

/* libpq does not use it, and says so on stderr. */
TEST(postgres_connect, a_password_file_that_others_can_read_is_left_out_and_not_printed)
{
    int fd = open(test_path("passwords"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    check_int(fchmod(fd, 0644), ==, 0);
    close(fd);
    setenv("PGPASSFILE", test_path("passwords"), 1);
    catch_stderr();
    add_one(store_open("w"), "q");
    nothing_was_printed();
}

/* --- servers that do not answer --- */

TEST(postgres_connect, a_server_that_does_not_answer_is_left_after_its_time)
{
    int port;
    listen_on(5, &port);
    long long began_ms = test_clock_ms();
    check_contains(sentence_of(keep_text("postgresql://ann@127.0.0.1:%d/x?connect_timeout=2", port),
                               TEND_EUNREACHABLE),
                   "does not answer in time");
    check_int(test_clock_ms() - began_ms, >=, 2000);
    check_int(test_clock_ms() - began_ms, <, 8000);
}

/* What docs/operate.md promises. Symptom: it said 32 s, which is how long an answer is waited for.
 */
TEST(postgres_connect, a_url_without_a_time_limit_has_one_of_ten_seconds)
{
    struct pg_url url;
    struct err err = {0};
    check_int(pg_url_parse(&url, "postgresql://ann@h/x", &err), ==, 0);
    check_str(url.values[pg_url_find(&url, "connect_timeout")], "10");
    pg_url_done(&url);
}

/* The kernel does not even take the connection: the queue of the socket is full. */
TEST(postgres_connect, an_address_that_does_not_answer_is_left_after_its_time)
{
    int port;
    listen_on(0, &port);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 4; i++)
        check_int(connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                          (struct sockaddr *)&address, sizeof address),
                  ==, -1); /* in progress, for ever */
    long long began_ms = test_clock_ms();
    check_contains(sentence_of(keep_text("postgresql://ann@127.0.0.1:%d/x?connect_timeout=2", port),
                               TEND_EUNREACHABLE),
                   "does not answer in time");
    check_int(test_clock_ms() - began_ms, >=, 2000);
    check_int(test_clock_ms() - began_ms, <, 8000);
}

TEST(postgres_connect, opening_a_store_whose_server_does_not_answer_ends_and_says_so)
{
    struct helper server = helper_start(welcome_and_freeze, NULL);
    struct tend_options options = store_options("w");
    tend *t;
    options.busy_ms = SHORT_MS;
    long long began_ms = test_clock_ms();
    int rc =
        tend_open(&t,
                  keep_text("postgresql://ann@127.0.0.1:%d/x?sslmode=disable&gssencmode=disable",
                            (int)helper_hear(&server)),
                  &options);
    check_rc(t, rc, TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "has not answered");
    check_int(test_clock_ms() - began_ms, >=, SHORT_MS);
    check_int(test_clock_ms() - began_ms, <, 8000);
    tend_close(t);
    helper_kill(&server);
}

/* connect_timeout=0 is for ever in libpq. */
TEST(postgres_connect, a_connection_without_a_time_limit_has_that_of_the_call)
{
    int port;
    tend *t;
    struct tend_options options = store_options("w");
    listen_on(5, &port);
    options.busy_ms = SHORT_MS;
    long long began_ms = test_clock_ms();
    int rc = tend_open(&t, keep_text("postgresql://ann@127.0.0.1:%d/x?connect_timeout=0", port),
                       &options);
    check_rc(t, rc, TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "does not answer in time");
    check_int(test_clock_ms() - began_ms, >=, SHORT_MS);
    check_int(test_clock_ms() - began_ms, <, 8000);
    tend_close(t);
}

/* The store's URL with another host before its own. */
static const char *url_behind(int port)
{
    const char *url = store_url();
    const char *host = strstr(url, "host=");
    const char *own_port = strstr(url, "port=");
    check(host != NULL && own_port != NULL && host < own_port);
    return keep_text("%.*shost=127.0.0.1,%.*sport=%d,%s&connect_timeout=2", (int)(host - url), url,
                     (int)(own_port - host - 5), host + 5, port, own_port + 5);
}

TEST(postgres_connect, of_several_hosts_the_next_is_tried_when_one_is_frozen_dead_or_dying)
{
    int port;
    int fd = listen_on(5, &port);
    catch_stderr();
    sentence_of(url_behind(port), 0);
    close(fd);
    sentence_of(url_behind(port), 0);
    struct helper server = helper_start(die_while_connecting, NULL);
    sentence_of(url_behind((int)helper_hear(&server)), 0);
    helper_kill(&server);
    nothing_was_printed();
}

TEST(postgres_connect, lists_that_do_not_fit_together_are_told)
{
    check_contains(sentence_of("postgresql:///x?host=a,b,c&port=1,2", TEND_EUNREACHABLE),
                   "2 port numbers");
}
