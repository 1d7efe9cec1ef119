/*
 * The way to a StatsD server: packets by UDP to a host that is looked up by name.
 *
 * Nothing waits for the server and none that is missing is missed. A name may have no address yet,
 * and a resolver may take its time: a thread of its own looks it up, again and again until it is
 * found, and packets are dropped until then.
 */
#ifndef RUN_STATSD_H
#define RUN_STATSD_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct statsd;

enum { STATSD_AGAIN_MS = 60000 };

/* Whether a text is host:port or [v6]:port: 0 or TEND_EINVAL. Looks nothing up. */
int statsd_check(const char *host_port, struct err *err);

/*
 * host_port is of the right form. Waits a moment for the address, so that a runner that ends soon
 * has its figures sent too; afterwards it is looked up every again_ms. `say_it` gets a sentence
 * when there is none at first and when it is found then; never after statsd_close. 0 or
 * TEND_ENOMEM.
 */
int statsd_open(struct statsd **ret, const char *host_port, int64_t again_ms,
                void (*say_it)(void *arg, const char *text), void *arg, struct err *err);
void statsd_close(struct statsd *statsd); /* NULL is fine */

/* A packet, dropped when it cannot be sent at once. */
void statsd_send(struct statsd *statsd, const char *packet, size_t len);

#endif
