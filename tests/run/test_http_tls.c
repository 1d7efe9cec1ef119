/* run/http: certificates are checked. The server is that of the openssl command, which comes with
 * ca-certificates. */
#include "run/http_case.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct tls_server {
    pid_t pid;
    int output; /* what it prints */
    char url[80];
    const char *certificate; /* a path */
};

/* A key, and a certificate for one name ("IP:127.0.0.1") that signs itself. */
static void make_certificate(const char *name)
{
    char command[800];
    snprintf(command, sizeof command,
             "cd '%s' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
             "-keyout key.pem -out cert.pem -days 2 -subj /CN=test -addext 'subjectAltName=%s' "
             ">openssl.log 2>&1",
             test_folder(), name);
    check_int(system(command), ==, 0);
}

/* It tells its port in a line "ACCEPT 127.0.0.1:4433". */
static int read_port(int fd)
{
    char text[4096];
    size_t len = 0;
    while (len < sizeof text - 1) {
        ssize_t now = read(fd, text + len, sizeof text - 1 - len);
        check(now > 0);
        len += (size_t)now;
        text[len] = '\0';
        const char *line = strstr(text, "ACCEPT 127.0.0.1:");
        if (line != NULL && strchr(line, '\n') != NULL)
            return (int)strtol(line + strlen("ACCEPT 127.0.0.1:"), NULL, 10);
    }
    return 0;
}

/* Files of the test's folder are its answers, from the status line on. */
static struct tls_server tls_start(const char *version)
{
    struct tls_server server = {.certificate = test_path("cert.pem")};
    int ends[2];
    check_int(pipe2(ends, O_CLOEXEC), ==, 0);
    server.pid = fork();
    check(server.pid >= 0);
    if (server.pid == 0) {
        int null_fd = open("/dev/null", O_RDWR);
        dup2(null_fd, 0);
        dup2(null_fd, 2);
        dup2(ends[1], 1);
        if (chdir(test_folder()) == 0)
            execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", "cert.pem",
                   "-key", "key.pem", "-HTTP", version, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    server.output = ends[0];
    snprintf(server.url, sizeof server.url, "https://127.0.0.1:%d/answer", read_port(ends[0]));
    return server;
}

static void tls_stop(struct tls_server *server)
{
    kill(server->pid, SIGKILL);
    check_int(waitpid(server->pid, NULL, 0), ==, server->pid);
    close(server->output);
}

static void put_answer(const char *text)
{
    FILE *file = fopen(test_path("answer"), "w");
    check(file != NULL);
    check(fputs(text, file) >= 0);
    check_int(fclose(file), ==, 0);
}

TEST(http_tls, a_certificate_that_nobody_vouches_for_is_refused)
{
    struct http_case http;
    make_certificate("IP:127.0.0.1");
    put_answer("HTTP/1.0 200 OK\r\n\r\nfine");
    struct tls_server server = tls_start("-no_ssl3");
    case_init(&http, server.url);
    case_run(&http);
    check_trouble(&http, HTTP_BAD_CERTIFICATE);
    check_int(http.body.len, ==, 0);
    case_done(&http);
    tls_stop(&server);
}

TEST(http_tls, a_certificate_of_a_known_authority_is_accepted)
{
    struct http_case http;
    make_certificate("IP:127.0.0.1");
    put_answer("HTTP/1.0 200 OK\r\n\r\nfine");
    struct tls_server server = tls_start("-no_ssl3");
    case_init(&http, server.url);
    http.call.ca_file = server.certificate;
    case_run(&http);
    check_succeeded(&http, 200);
    check_str(http.body.data, "fine");
    case_done(&http);
    tls_stop(&server);
}

TEST(http_tls, a_certificate_for_another_host_is_refused)
{
    struct http_case http;
    make_certificate("DNS:somewhere.test");
    put_answer("HTTP/1.0 200 OK\r\n\r\nfine");
    struct tls_server server = tls_start("-no_ssl3");
    case_init(&http, server.url);
    http.call.ca_file = server.certificate;
    case_run(&http);
    check_trouble(&http, HTTP_BAD_CERTIFICATE);
    case_done(&http);
    tls_stop(&server);
}

TEST(http_tls, an_authority_file_that_is_not_there_is_no_reason_to_trust)
{
    struct http_case http;
    make_certificate("IP:127.0.0.1");
    struct tls_server server = tls_start("-no_ssl3");
    case_init(&http, server.url);
    http.call.ca_file = test_path("no-such-file");
    case_run(&http);
    check_trouble(&http, HTTP_BAD_CERTIFICATE);
    case_done(&http);
    tls_stop(&server);
}

/* OpenSSL's own settings would refuse it too, were they not loosened here. */
static void loosen_openssl(void)
{
    FILE *file = fopen(test_path("loose.cnf"), "w");
    check(file != NULL);
    check(fputs("openssl_conf = main\n[main]\nssl_conf = ssl\n[ssl]\nsystem_default = loose\n"
                "[loose]\nMinProtocol = TLSv1\nCipherString = DEFAULT@SECLEVEL=0\n",
                file) >= 0);
    check_int(fclose(file), ==, 0);
    setenv("OPENSSL_CONF", test_path("loose.cnf"), 1);
}

TEST(http_tls, an_old_version_of_tls_is_refused)
{
    struct http_case http;
    make_certificate("IP:127.0.0.1");
    put_answer("HTTP/1.0 200 OK\r\n\r\nfine");
    loosen_openssl();
    struct tls_server server = tls_start("-tls1_1");
    case_init(&http, server.url);
    http.call.ca_file = server.certificate;
    case_run(&http);
    check_trouble(&http, HTTP_OTHER_TROUBLE);
    case_done(&http);
    tls_stop(&server);
}

TEST(http_tls, a_redirect_from_https_to_http_is_not_followed)
{
    struct http_case http;
    char answer[200];
    struct http_server *plain =
        server_start(serve_text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    make_certificate("IP:127.0.0.1");
    snprintf(answer, sizeof answer, "HTTP/1.0 302 On\r\nLocation: %s\r\n\r\n",
             server_url(plain, "/"));
    put_answer(answer);
    struct tls_server server = tls_start("-no_ssl3");
    case_init(&http, server.url);
    http.call.ca_file = server.certificate;
    http.plan.follow_redirects = true;
    case_run(&http);
    check_trouble(&http, HTTP_BAD_URL);
    check_contains(http.answer.note, "from https to http");
    check_int(server_visits(plain), ==, 0);
    case_done(&http);
    tls_stop(&server);
    server_stop(plain);
}

static void serve_answer_file(struct visit *visit)
{
    char text[200];
    snprintf(text, sizeof text, "HTTP/1.1 302 On\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
             (const char *)visit->context);
    visit_say(visit, text);
}

TEST(http_tls, a_way_through_https_does_not_lead_back_to_http)
{
    struct http_case http;
    char answer[200];
    make_certificate("IP:127.0.0.1");
    struct tls_server server = tls_start("-no_ssl3");
    struct http_server *plain = server_start(serve_answer_file, server.url);
    snprintf(answer, sizeof answer, "HTTP/1.0 302 On\r\nLocation: %s\r\n\r\n",
             server_url(plain, "/back"));
    put_answer(answer);
    case_init(&http, server_url(plain, "/"));
    http.call.ca_file = server.certificate;
    http.plan.follow_redirects = true;
    case_run(&http);
    check_trouble(&http, HTTP_BAD_URL);
    check_int(http.answer.redirects, ==, 1);
    check_int(server_visits(plain), ==, 1);
    case_done(&http);
    tls_stop(&server);
    server_stop(plain);
}
