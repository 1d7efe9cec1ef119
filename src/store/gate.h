/*
 * The gate: every thread of the process passes it on the way to a turnstile. A program that is
 * about to be stopped (Ctrl-Z) closes it first, so that the process is never stopped with the turn
 * in its hands, where it would keep the writers of all processes waiting.
 *
 * One for the process, as stopping is: this is state of the library outside of all handles, and
 * with the list of handles in forks.c the only one.
 */
#ifndef STORE_GATE_H
#define STORE_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* Waits while the gate is closed. */
void gate_enter(void);
/* The thread that entered has got the turn. False: the gate was closed meanwhile, and the turn is
 * to be given back; the thread is still counted as one that waits. */
bool gate_hold(void);
/* It has given it back (held), or has not got it. */
void gate_leave(bool held);

/*
 * Nobody enters any more. Returns when nobody has the turn nor waits for it; those who still wait
 * after wait_ms are left in line, and give the turn back when they get it.
 */
void gate_close(int64_t wait_ms);
void gate_open(void);

/* In the child of a fork: the other threads are not there. */
void gate_after_fork(void);

#endif
