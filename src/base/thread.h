/* Threads of the library. They take no signals: these belong to the program. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* stack_bytes 0: as the system gives it. 0 or an errno. */
int thread_start(pthread_t *ret_thread, size_t stack_bytes, void *(*body)(void *), void *arg);

#endif
