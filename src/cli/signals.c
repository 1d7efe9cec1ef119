/* Signals of the command line; the library installs none. See cli.h. */
#include "cli/cli.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

static _Atomic(tend *) waiting_store;
static volatile sig_atomic_t seen;

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

static void handle(int number, void (*handler)(int))
{
    /* No SA_RESTART: a blocking call is to come back. */
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void signals_start(void)
{
    handle(SIGALRM, on_tick);
    /* A reader that has gone is noticed by EPIPE, so that a claim can give its jobs back. */
    handle(SIGPIPE, SIG_IGN);
    struct itimerval second = {.it_interval = {.tv_sec = 1}, .it_value = {.tv_sec = 1}};
    setitimer(ITIMER_REAL, &second, NULL);
}

void signals_interrupt(tend *store)
{
    atomic_store(&waiting_store, store);
    handle(SIGINT, store ? on_stop : SIG_DFL);
    handle(SIGTERM, store ? on_stop : SIG_DFL);
}

int signals_seen(void)
{
    return seen;
}

int signals_exit_status(void)
{
    return EXIT_SIGNAL + (seen ? seen : SIGINT);
}
