/*
 * What fork() must not copy. A child of a fork shares the open file descriptions and sockets of its
 * parent: the kernel's locks and the server's sessions would live on in it after the parent has
 * been killed, and the store would stay locked and the worker alive. So in the child every
 * descriptor that stands for something is closed at once (pthread_atfork), and the handles are dead
 * there: each call fails, only closing is left.
 *
 * The list of handles and sockets is state of the library outside of all handles, as fork() is of
 * the whole process; with the gate (gate.h) and what is left of inherited SQLite connections
 * (sqlite_fork.c) the only one. A program that never forks never notices it.
 */
#ifndef STORE_FORKS_H
#define STORE_FORKS_H

#include <stdbool.h>

/* A handle in the list. Each function may be NULL. */
struct fork_link {
    void (*before)(void *arg); /* in the parent, before: to lock what the child reads */
    void (*parent)(void *arg); /* in the parent, after */
    void (*child)(void *arg);  /* in the child: one thread, and mutexes as the others left them */
    void *arg;
    bool linked;
    struct fork_link *next, *previous;
};

/* The link stays the caller's. To be removed once; not linked: nothing is done. */
void forks_add(struct fork_link *link);
void forks_remove(struct fork_link *link);

/*
 * A thread that opens or closes a store may hold mutexes that no handler knows of. In a child
 * forked meanwhile they stay locked for ever, and forks_cut_short says so.
 */
void forks_begin_change(void);
void forks_end_change(void);
bool forks_cut_short(void);

/* A socket that a child must not keep open, and one that is about to be closed. Without memory a
 * child keeps it. */
void forks_add_socket(int fd);
void forks_remove_socket(int fd);

#endif
