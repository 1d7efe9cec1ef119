#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, size_t stack_bytes, void *(*body)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t old;
    int rc = pthread_attr_init(&attr);
    if (rc == 0 && stack_bytes > 0)
        rc = pthread_attr_setstacksize(&attr, stack_bytes);
    if (rc != 0)
        return rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(ret_thread, &attr, body, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}
