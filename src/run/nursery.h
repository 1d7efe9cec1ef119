/*
 * The nursery: the process behind `tend __exec`, small and without threads, that forks minders.
 *
 * The worker is large and has threads; forking from here instead costs little and is safe. It keeps
 * its own copy of each minder's socket, so the worker does not see the end of a minder that was
 * killed before the nursery has killed what that minder had below it: those processes become the
 * nursery's children (it is a subreaper), and only when none is left it says GONE in the minder's
 * place and lets go of the socket.
 *
 * It ends when the worker has closed its socket (or died) and all minders are gone.
 */
#ifndef RUN_NURSERY_H
#define RUN_NURSERY_H

enum { NURSERY_NOT_STARTED_BY_WORKER = 2 };

/* The arguments behind `__exec`. The exit status of the process. */
int nursery_main(int argc, char **argv);

#endif
