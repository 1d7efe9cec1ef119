/* Signals of the command line; the library installs none. See cli.h. */
#include "base/thread.h"
#include "cli/cli.h"
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

static _Atomic(tend *) waiting_store;
static _Atomic(tend_runner *) stopped_runner;
/* Read by other threads too; lock-free, as a handler needs it. */
static _Atomic int seen, stops, hangups;
static _Atomic int forward_fd = -1; /* signals_forward */
static int caught[2] = {-1, -1};    /* signals_catch */
static bool held;                   /* signals_hold */
static _Atomic bool waits;          /* for what runs, at the first stop */

static void on_tick(int number)
{
    (void)number;
}

static void on_stop(int number)
{
    seen = number;
    tend *store = atomic_load(&waiting_store);
    if (store)
        tend_interrupt(store);
}

static void on_stop_runner(int number)
{
    seen = number;
    stops++;
    tend_runner *runner = atomic_load(&stopped_runner);
    if (runner)
        tend_runner_stop(runner, stops > 1 || !waits);
}

static void on_forward(int number)
{
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t ignored = write(forward_fd, &byte, 1);
    (void)ignored;
    errno = saved;
}

static void on_caught(int number)
{
    seen = number;
    on_forward(number);
}

static void on_hangup(int number)
{
    (void)number;
    hangups++;
}

/* --- Ctrl-Z --- */

static sem_t suspensions;

static void on_suspend(int number)
{
    (void)number;
    int saved = errno;
    sem_post(&suspensions);
    errno = saved;
}

/* No SA_RESTART in handle() below; this one is to go unnoticed by what it interrupts. */
static void handle_suspend(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTSTP, &action, NULL);
}

/*
 * The process must not stop with the store's write lock in its hands, so it is not the signal that
 * stops it, but this thread, once nobody in the process writes. It does so by the same signal, as
 * the shell expects it. Signals that came meanwhile are one.
 */
static void *suspend(void *unused)
{
    sigset_t suspend_only;
    sigemptyset(&suspend_only);
    sigaddset(&suspend_only, SIGTSTP);
    for (;;) {
        while (sem_wait(&suspensions) != 0)
            ;
        db_pause_process();
        while (sem_trywait(&suspensions) == 0)
            ;
        handle_suspend(SIG_DFL);
        pthread_sigmask(SIG_UNBLOCK, &suspend_only, NULL);
        pthread_kill(pthread_self(), SIGTSTP); /* goes on from here when it is continued */
        pthread_sigmask(SIG_BLOCK, &suspend_only, NULL);
        handle_suspend(on_suspend);
        db_resume_process();
    }
    return unused;
}

void signals_suspend_safely(void)
{
    struct sigaction before;
    pthread_t thread;
    if (sigaction(SIGTSTP, NULL, &before) != 0 || before.sa_handler != SIG_DFL ||
        sem_init(&suspensions, 0, 0) != 0 || thread_start(&thread, 0, suspend, NULL) != 0)
        return;
    pthread_detach(thread);
    handle_suspend(on_suspend);
}

/* Whoever has started this program may have left it blocked: then it would never be heard. */
static void unblock(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void handle(int number, void (*handler)(int))
{
    /* No SA_RESTART: a blocking call is to come back. */
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    if (handler != SIG_DFL)
        unblock(number);
}

void signals_start(void)
{
    handle(SIGALRM, on_tick);
    /* A reader that has gone is noticed by EPIPE, so that a claim can give its jobs back. */
    handle(SIGPIPE, SIG_IGN);
    /* A file that may not grow (ulimit -f) is noticed by EFBIG. Steps and git get the default
     * action back. */
    handle(SIGXFSZ, SIG_IGN);
    /* Who is started with it ignored does not hear how its children end. */
    handle(SIGCHLD, SIG_DFL);
    struct itimerval second = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}};
    setitimer(ITIMER_REAL, &second, NULL);
}

void signals_hold(void)
{
    held = true;
    handle(SIGINT, SIG_IGN);
    handle(SIGTERM, SIG_IGN);
    handle(SIGHUP, SIG_IGN);
}

void signals_interrupt(tend *store)
{
    if (held)
        return;
    atomic_store(&waiting_store, store);
    handle(SIGINT, store ? on_stop : SIG_DFL);
    handle(SIGTERM, store ? on_stop : SIG_DFL);
}

void signals_stop_runner(tend_runner *runner, bool at_once)
{
    waits = !at_once;
    atomic_store(&stopped_runner, runner);
    handle(SIGINT, runner ? on_stop_runner : SIG_DFL);
    handle(SIGTERM, runner ? on_stop_runner : SIG_DFL);
    handle(SIGHUP, runner ? on_hangup : SIG_DFL);
}

void signals_forward(int fd)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    forward_fd = fd;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        handle(numbers[i], on_forward);
}

static const int ends[] = {SIGHUP, SIGINT, SIGTERM};

/* As nohup and some shells leave them for what runs in the background. */
static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_caught, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    if (pipe2(caught, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    forward_fd = caught[1];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!is_ignored(ends[i])) {
            sigaction(ends[i], &action, NULL);
            unblock(ends[i]);
        }
    return caught[0];
}

void signals_release(void)
{
    if (caught[0] < 0)
        return;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!is_ignored(ends[i]))
            handle(ends[i], SIG_DFL);
    forward_fd = -1;
    close(caught[0]);
    close(caught[1]);
    caught[0] = caught[1] = -1;
}

int signals_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    sigset_t stops_blocked;
    sigset_t before;
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = timeout_ms % 1000 * 1000000L};
    sigemptyset(&stops_blocked);
    sigaddset(&stops_blocked, SIGINT);
    sigaddset(&stops_blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops_blocked, &before);
    int ready = seen ? 0 : ppoll(fds, count, &timeout, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready;
}

int signals_stops(void)
{
    return stops;
}

int signals_hangups(void)
{
    return hangups;
}

int signals_seen(void)
{
    return seen;
}

int signals_exit_status(void)
{
    return EXIT_SIGNAL + (seen ? seen : SIGINT);
}
