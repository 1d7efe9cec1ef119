/*
 * A server that is there and does not answer, or is away for a while: no call waits for ever, and
 * the keeper is back soon. Between tend and the server is a proxy that holds answers back or hangs
 * up when it is told to.
 */
#include "support/session.h"

#include "base/clock.h"
#include "queue/handle.h"
#include "store/db_engine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BUSY_MS = 300,
    MARGIN_MS = 2000,     /* what a call gives the server beyond its busy_ms */
    MUCH_LATER_MS = 8000, /* a call that does not end by itself takes for ever */
    PAIRS = 64,
};

/* --- the proxy --- */

/* What it is told. It says 0; or, to TRIES, the longest pause between two of many, else -1. */
enum { FORWARD, SILENT, STALLED, AWAY, TRIES };

struct proxy {
    int mode;
    int listener;
    int clients[PAIRS], servers[PAIRS];
    bool silent[PAIRS]; /* the connections there were when it was told so; STALLED: new ones too */
    int pairs;
    int64_t tries, tried_at_ms, longest_ms;
};

static int listen_anywhere(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check_int(bind(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    check_int(listen(fd, 20), ==, 0);
    check_int(getsockname(fd, (struct sockaddr *)&address, &bytes), ==, 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* A part of the server's URL: "host" or "port". */
static const char *of_url(const char *name)
{
    const char *url = getenv("TEND_TEST_PG_URL");
    const char *at = url == NULL ? NULL : strstr(url, keep_text("%s=", name));
    check(at != NULL);
    at += strlen(name) + 1;
    return keep_text("%.*s", (int)strcspn(at, "&"), at);
}

static int connect_server(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.%s", of_url("host"),
             of_url("port"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check_int(connect(fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    return fd;
}

static void end_pair(struct proxy *proxy, int i)
{
    close(proxy->clients[i]);
    close(proxy->servers[i]);
    proxy->pairs--;
    proxy->clients[i] = proxy->clients[proxy->pairs];
    proxy->servers[i] = proxy->servers[proxy->pairs];
    proxy->silent[i] = proxy->silent[proxy->pairs];
}

static void let_in(struct proxy *proxy)
{
    int client = accept(proxy->listener, NULL, NULL);
    int64_t now_ms = clock_mono_ms();
    if (proxy->mode == AWAY) {
        if (proxy->tries++ > 0 && now_ms - proxy->tried_at_ms > proxy->longest_ms)
            proxy->longest_ms = now_ms - proxy->tried_at_ms;
        proxy->tried_at_ms = now_ms;
        close(client);
        return;
    }
    check_int(proxy->pairs, <, PAIRS);
    proxy->clients[proxy->pairs] = client;
    proxy->silent[proxy->pairs] = proxy->mode == STALLED;
    proxy->servers[proxy->pairs++] = connect_server();
}

static bool pass(int from, int to)
{
    char bytes[65536];
    ssize_t got = read(from, bytes, sizeof bytes);
    return got > 0 && write(to, bytes, (size_t)got) == got;
}

static void obey(struct proxy *proxy, struct helper *parent)
{
    int64_t told = helper_hear(parent);
    if (told == TRIES) {
        helper_say(parent, proxy->tries >= 20 ? proxy->longest_ms : -1);
        return;
    }
    proxy->mode = (int)told;
    for (int i = 0; i < proxy->pairs; i++)
        proxy->silent[i] = proxy->mode == SILENT || proxy->mode == STALLED;
    while (proxy->mode == AWAY && proxy->pairs > 0)
        end_pair(proxy, 0);
    helper_say(parent, 0);
}

static void stand_between(struct helper *parent, void *arg)
{
    struct proxy proxy = {.mode = FORWARD};
    int port;
    (void)arg;
    proxy.listener = listen_anywhere(&port);
    helper_say(parent, port);
    for (;;) {
        struct pollfd fds[2 + 2 * PAIRS] = {{.fd = parent->read_fd, .events = POLLIN},
                                            {.fd = proxy.listener, .events = POLLIN}};
        for (int i = 0; i < proxy.pairs; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = proxy.clients[i], .events = POLLIN};
            fds[3 + 2 * i] =
                (struct pollfd){.fd = proxy.silent[i] ? -1 : proxy.servers[i], .events = POLLIN};
        }
        int pairs = proxy.pairs;
        poll(fds, 2 + 2 * (nfds_t)pairs, -1);
        for (int i = pairs - 1; i >= 0; i--)
            if ((fds[2 + 2 * i].revents != 0 && !pass(proxy.clients[i], proxy.servers[i])) ||
                (fds[3 + 2 * i].revents != 0 && !pass(proxy.servers[i], proxy.clients[i])))
                end_pair(&proxy, i);
        if (fds[1].revents != 0)
            let_in(&proxy);
        if (fds[0].revents != 0)
            obey(&proxy, parent);
    }
}

static struct helper proxy_start(const char **ret_url)
{
    struct helper proxy = helper_start(stand_between, NULL);
    *ret_url = keep_text("postgresql://postgres@127.0.0.1:%d/postgres?tend_schema=%s",
                         (int)helper_hear(&proxy), store_schema());
    return proxy;
}

static int64_t tell(struct helper *proxy, int what)
{
    helper_say(proxy, what);
    return helper_hear(proxy);
}

static tend *open_through(const char *url, int connections)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    options.busy_ms = BUSY_MS;
    options.connections = connections;
    check_int(tend_open(&t, url, &options), ==, 0);
    return t;
}

/* --- calls --- */

static void took_its_time(long long began_ms)
{
    check_int(test_clock_ms() - began_ms, >=, BUSY_MS);
    check_int(test_clock_ms() - began_ms, <, MUCH_LATER_MS);
}

/* Symptom: with a busy_ms of 3 s a call hung for 40 s, until it was killed. */
TEST(postgres_silent, a_read_that_is_not_answered_ends_and_says_so)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    tend *t = open_through(url, 8);
    int64_t now_ms;
    check_ok(t, tend_now(t, &now_ms));
    tell(&proxy, SILENT);
    long long began_ms = test_clock_ms();
    check_rc(t, tend_now(t, &now_ms), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "has not answered for 2.3s");
    took_its_time(began_ms);
    /* Nothing is left of it. */
    tell(&proxy, FORWARD);
    check_ok(t, tend_now(t, &now_ms));
    tend_close(t);
    helper_kill(&proxy);
}

TEST(postgres_silent, a_write_that_is_not_answered_ends_and_says_that_its_outcome_is_not_known)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    tend *t = open_through(url, 8);
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    add_one(t, "q");
    tell(&proxy, SILENT);
    long long began_ms = test_clock_ms();
    check_rc(t, tend_add(t, &spec, &added), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "has not answered");
    check_contains(tend_errmsg(t), "not known");
    took_its_time(began_ms);
    tell(&proxy, FORWARD);
    add_one(t, "q");
    tend_close(t);
    helper_kill(&proxy);
}

static void *add_in_vain(void *arg)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    check_rc(arg, tend_add(arg, &spec, &added), TEND_EUNREACHABLE);
    return NULL;
}

/* Who stands in line for a connection has no less of a deadline than who has it. */
TEST(postgres_silent, waiting_for_a_free_connection_has_an_end_too)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    tend *t = open_through(url, 1);
    pthread_t thread;
    int64_t now_ms;
    tell(&proxy, SILENT);
    pthread_create(&thread, NULL, add_in_vain, t);
    wait_until(sql_int("SELECT count(*) FROM job") == 1, PATIENCE_MS);
    long long began_ms = test_clock_ms();
    check_rc(t, tend_now(t, &now_ms), TEND_EBUSY);
    check_contains(tend_errmsg(t), "all 1 connections");
    took_its_time(began_ms);
    pthread_join(thread, NULL);
    tell(&proxy, FORWARD);
    tend_close(t);
    helper_kill(&proxy);
}

/* --- callers in a hurry --- */

enum { WAIT_MS = 2000, LATEST_MS = WAIT_MS + 1000 + 700 /* the least patience; a slow machine */ };

/* A call that waits has the patience of its caller, not that of the options. */
static tend *open_patient(const char *url)
{
    tend *t;
    struct tend_options options = store_options("w");
    options.clock_ms = NULL;
    options.busy_ms = 10 * MUCH_LATER_MS;
    check_int(tend_open(&t, url, &options), ==, 0);
    return t;
}

static struct tend_claim claim_in_a_hurry(unsigned flags)
{
    struct tend_claim claim = claim_for("q");
    claim.wait_ms = WAIT_MS;
    claim.flags = flags;
    return claim;
}

static void ended_in_time(long long began_ms)
{
    check_int(test_clock_ms() - began_ms, <, LATEST_MS);
}

/* Symptom: 'tend claim --wait=15s' over a line that had stalled ended after 43 s. */
TEST(postgres_silent, CL_6_a_claim_that_is_not_answered_ends_soon_after_its_wait)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    unsigned flags[] = {TEND_CLAIM_BY_TIME, 0};
    for (int i = 0; i < 2; i++) {
        tend *t = open_patient(url);
        struct tend_claim claim = claim_in_a_hurry(flags[i]);
        struct tend_jobs *jobs = NULL;
        add_one(t, "q");
        if (i == 1)
            claim_one(t, "q"); /* registered: the keeper has a session, too */
        tell(&proxy, STALLED);
        long long began_ms = test_clock_ms();
        check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EUNREACHABLE);
        check_contains(tend_errmsg(t), "answer");
        ended_in_time(began_ms);
        tell(&proxy, FORWARD);
        tend_close(t);
    }
    helper_kill(&proxy);
}

TEST(postgres_silent, a_claim_while_the_server_cannot_be_reached_ends_soon_after_its_wait)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    tend *t = open_patient(url);
    struct tend_claim claim = claim_in_a_hurry(TEND_CLAIM_BY_TIME);
    struct tend_jobs *jobs = NULL;
    tell(&proxy, AWAY);
    long long began_ms = test_clock_ms();
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EUNREACHABLE);
    ended_in_time(began_ms);
    tell(&proxy, FORWARD);
    tend_close(t);
    helper_kill(&proxy);
}

TEST(postgres_silent, LK_2_a_lock_that_is_not_answered_ends_soon_after_its_wait)
{
    const char *url;
    struct helper proxy = proxy_start(&url);
    tend *t = open_patient(url);
    struct tend_lock_request request;
    int64_t now_ms;
    tend_lock_request_init(&request);
    request.name = "deploy";
    request.flags = TEND_CLAIM_BY_TIME;
    request.wait_ms = WAIT_MS;
    check_ok(t, tend_now(t, &now_ms));
    tell(&proxy, STALLED);
    long long began_ms = test_clock_ms();
    check_rc(t, tend_lock_acquire(t, &request, NULL), TEND_EUNREACHABLE);
    ended_in_time(began_ms);
    tell(&proxy, FORWARD);
    tend_close(t);
    helper_kill(&proxy);
}

/* What another session keeps locked is waited for no longer either; and nothing was saved. */
TEST(postgres_silent, CL_6_a_claim_held_up_by_a_lock_of_another_session_ends_soon_after_its_wait)
{
    static const char *const locks[] = {"LOCK TABLE job", "LOCK TABLE worker", "LOCK TABLE event",
                                        "SELECT 1 FROM queue FOR UPDATE"};
    tend *t = open_patient(store_url());
    struct tend_jobs *jobs = NULL;
    set_queue(t, "q", "concurrency", "5");
    add_one(t, "q");
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        struct tend_claim claim = claim_in_a_hurry(i % 2 == 0 ? TEND_CLAIM_BY_TIME : 0);
        PGconn *pg = session_open();
        session_run(pg, "BEGIN");
        session_run(pg, locks[i]);
        long long began_ms = test_clock_ms();
        check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), TEND_EBUSY);
        check_contains(tend_errmsg(t), "lock timeout");
        ended_in_time(began_ms);
        PQfinish(pg);
    }
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 1"), ==, 1);
    struct tend_claim claim = claim_in_a_hurry(0);
    check_rc(t, tend_claim_jobs(t, &claim, &jobs, NULL), 1);
    tend_jobs_free(jobs);
    tend_close(t);
}

/* --- the keeper --- */

/* Only who is registered holds a liveness lock. */
static void enter_worker(int64_t id)
{
    sql_exec(
        "INSERT INTO worker (id, name, host, boot_id, pid, pid_ns, start_ticks, session, since, "
        "registration) VALUES (%lld, 'w', 'h', 'b', 1, 1, 1, 1, 1, %lld)",
        (long long)id, (long long)id);
}

static bool is_alive(struct db *db, int64_t worker_id)
{
    struct err err;
    bool alive = false;
    check_int(db_alive_check(db, &worker_id, 1, -1, &alive, &err), ==, 0);
    return alive;
}

static struct db *db_through(const char *url, int64_t busy_ms)
{
    struct db *db;
    struct err err;
    struct db_options options = {.connections = 2, .busy_ms = busy_ms};
    check_int(db_open(&db, url, &options, &err), ==, 0);
    return db;
}

/* Symptom: the keeper waited for its answer for ever, and closing the handle for the keeper. */
TEST(postgres_silent, a_keeper_that_gets_no_answer_gives_its_session_up_and_takes_another)
{
    const char *url;
    struct err err;
    struct helper proxy = proxy_start(&url);
    struct db *db = db_through(url, BUSY_MS);
    struct db *other = db_through(store_url(), 10000);
    enter_worker(41);
    enter_worker(42);
    check_int(db_alive_begin(db, 41, -1, &err), ==, 0);
    tell(&proxy, SILENT);
    long long began_ms = test_clock_ms();
    check_int(db_alive_begin(db, 42, -1, &err), <, 0); /* makes the keeper ask */
    took_its_time(began_ms);
    wait_until(db_alive_begin(db, 42, -1, &err) == 0, PATIENCE_MS);
    wait_until(is_alive(other, 41) && is_alive(other, 42), PATIENCE_MS);
    tell(&proxy, SILENT);
    began_ms = test_clock_ms();
    db_close(db);
    check_int(test_clock_ms() - began_ms, <, MUCH_LATER_MS);
    db_close(other);
    helper_kill(&proxy);
}

/*
 * Symptom: the pauses between tries grew to three seconds, longer than the grace of two, so that a
 * worker could be buried although its server had been back for long.
 */
TEST(postgres_silent,
     RC_13_a_server_that_was_away_for_long_is_looked_for_again_well_within_the_grace)
{
    const char *url;
    struct err err;
    struct helper proxy = proxy_start(&url);
    struct db *db = db_through(url, 10000);
    struct db *other = db_through(store_url(), 10000);
    int64_t longest_ms;
    enter_worker(41);
    check_int(db_alive_begin(db, 41, -1, &err), ==, 0);
    tell(&proxy, AWAY);
    wait_until((longest_ms = tell(&proxy, TRIES)) >= 0, 2 * PATIENCE_MS);
    check_int(longest_ms, <, db_alive_grace_ms(db) * 3 / 4);
    tell(&proxy, FORWARD);
    wait_until(is_alive(other, 41), db_alive_grace_ms(db));
    db_close(db);
    db_close(other);
    helper_kill(&proxy);
}
