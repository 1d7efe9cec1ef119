/* See actor.h: the beginning and end of an actor, and what the roles share. */
#include "actor.h"
#include "ledger.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { OUT_OF_REACH_MS = 60000, EXIT_BAD_ANSWER = 3 };

static volatile sig_atomic_t stopping;
static _Thread_local int64_t call_since_ms; /* no call has begun before */
static tend *handle_to_wake;

static void stop(int signal_number)
{
    (void)signal_number;
    stopping = 1;
    if (handle_to_wake != NULL)
        tend_interrupt(handle_to_wake);
}

bool actor_stops(void)
{
    return stopping != 0;
}

int actor_ledger(const struct actor *actor, const char *name)
{
    int fd = ledger_open(actor->folder, name);
    if (fd < 0) {
        fprintf(stderr, "no ledger %s in %s\n", name, actor->folder);
        _exit(EXIT_BAD_ANSWER);
    }
    return fd;
}

void actor_note(int ledger, int64_t id, int64_t token)
{
    const struct ledger_entry entry = {.id = id, .token = token, .pid = getpid()};
    if (ledger_write(ledger, &entry, 1) != 0) {
        perror("ledger");
        _exit(EXIT_BAD_ANSWER);
    }
}

void actor_pause_us(int64_t us)
{
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&pause, NULL);
    call_since_ms = clock_mono_ms();
}

static void check_time(const struct actor *actor, const char *what, int64_t now_ms)
{
    int64_t took_ms = call_since_ms > 0 ? now_ms - call_since_ms : 0;
    call_since_ms = now_ms;
    if (actor->busy_ms == 0 || took_ms <= ACTOR_LONGEST_MS(actor->busy_ms))
        return;
    fprintf(stderr, "pid %d, %s: took %lld ms\n", (int)getpid(), what, (long long)took_ms);
    _exit(EXIT_BAD_ANSWER);
}

bool actor_tries_again(struct actor *actor, int code, const char *what)
{
    static _Thread_local int64_t lost_since_ms;
    int64_t now_ms = clock_mono_ms();
    check_time(actor, what, now_ms);
    if (code >= 0) {
        lost_since_ms = 0;
        return false;
    }
    if (code == TEND_EBUSY && actor->busy_ms > 0)
        code = TEND_EUNREACHABLE;
    if (lost_since_ms == 0)
        lost_since_ms = now_ms;
    if (code != TEND_EUNREACHABLE || now_ms - lost_since_ms > OUT_OF_REACH_MS) {
        fprintf(stderr, "pid %d, %s: %s (%s)\n", (int)getpid(), what, tend_strerror(code),
                tend_errmsg(actor->t));
        _exit(EXIT_BAD_ANSWER);
    }
    actor_pause_us(20000);
    return true;
}

static void open_store(struct actor *actor)
{
    struct tend_options options;
    char name[32];
    tend_options_init(&options);
    snprintf(name, sizeof name, "actor %lld", (long long)actor->number);
    options.name = name;
    if (actor->busy_ms > 0)
        options.busy_ms = actor->busy_ms;
    for (;;) {
        int rc = tend_open(&actor->t, actor->url, &options);
        if (!actor_tries_again(actor, rc, "opening the store"))
            break;
        tend_close(actor->t);
    }
    handle_to_wake = actor->t;
}

static const struct {
    const char *name;
    void (*act)(struct actor *actor);
} roles[] = {
    {"worker", actor_work},     {"holder", actor_hold},   {"adder", actor_add},
    {"follower", actor_follow}, {"hammer", actor_hammer},
};

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    struct actor actor = {0};
    size_t role = 0;
    while (role < sizeof roles / sizeof *roles && argc == 5 &&
           strcmp(argv[1], roles[role].name) != 0)
        role++;
    if (argc != 5 || role == sizeof roles / sizeof *roles) {
        fprintf(stderr,
                "usage: crash_actor worker|holder|adder|follower|hammer URL FOLDER NUMBER\n");
        return 2;
    }
    sigset_t none;
    sigemptyset(&none);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_SETMASK, &none, NULL); /* whoever started us may have kept SIGTERM back */
    actor.url = argv[2];
    actor.folder = argv[3];
    actor.number = strtoll(argv[4], NULL, 10);
    const char *busy = getenv("CRASH_BUSY_MS");
    actor.busy_ms = busy != NULL ? strtoll(busy, NULL, 10) : 0;
    rng_seed_random(&actor.rng);
    open_store(&actor);
    roles[role].act(&actor);
    handle_to_wake = NULL;
    tend_close(actor.t);
    return 0;
}
