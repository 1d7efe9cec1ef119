/*
 * PostgreSQL servers of a test's own, to be stopped, promoted and maltreated. Their data and their
 * socket are in the test's folder; they listen nowhere else. As root they run as user postgres, who
 * alone may.
 *
 * A server is a child of the test and ends with it; a struct cluster lives as long. To be made
 * before anything of store.h is used. What must succeed and does not fails the test.
 */
#ifndef TEND_CRASH_CLUSTER_H
#define TEND_CRASH_CLUSTER_H

#include "support/store.h"

struct cluster {
    const char *name;
    const char *folder;   /* data and log are in it, and the socket */
    const char *conninfo; /* for libpq */
    pid_t pid;            /* of the postmaster; 0: not running */
};

/* A new, empty cluster. */
void cluster_make(struct cluster *cluster, const char *name);
/* A copy of a running one that follows it under its own name. */
void cluster_make_standby(struct cluster *cluster, const char *name, const struct cluster *primary);

/* Starts the server and waits until it answers. */
void cluster_start(struct cluster *cluster);
/* By signal, as pg_ctl: SIGINT is fast, SIGQUIT immediate. Returns when it is gone. */
void cluster_stop(struct cluster *cluster, int signal_number);
/* Two running servers: a primary, and a standby that has every commit before it is acknowledged. */
void clusters_make_pair(struct cluster pair[2]);
/* SIGSTOP or SIGCONT for all processes of the server. */
void cluster_signal_all(const struct cluster *cluster, int signal_number);
/* A statement as superuser; the first value of its answer, "" if there is none. */
const char *cluster_ask(const struct cluster *cluster, const char *sql);

/*
 * PgBouncer in transaction mode before a running server, to which it has so many sessions; ends
 * with the test. Its clients find it in the folder of the server at this port.
 */
enum { POOLER_PORT = 6432 };
void cluster_start_pooler(const struct cluster *cluster, int sessions);

/* The stores of this test are from now on on whichever of these servers can be written. */
void clusters_are_the_store(const struct cluster *clusters, size_t count);

#endif
