/*
 * A line to the test's PostgreSQL server that can be stalled: a process that passes on what clients
 * and server say to each other over TCP. Stalled, it keeps all connections open and passes on
 * nothing, as a network that has failed, while its end of the connection is alive.
 */
#ifndef TEND_TEST_PROXY_H
#define TEND_TEST_PROXY_H

#include "support/store.h"

struct proxy {
    struct helper process;
    int port;
    struct proxy_line *line; /* shared with the process */
};

struct proxy proxy_start(void);
void proxy_stop(struct proxy *proxy);

/* The store's URL through the proxy. */
const char *proxy_url(const struct proxy *proxy);

/* From here on so many bytes of clients are passed on, then nothing in either direction. */
void proxy_stall_after(struct proxy *proxy, int64_t bytes);
bool proxy_is_stalled(const struct proxy *proxy);
/* The line works again; nothing was lost. */
void proxy_resume(struct proxy *proxy);
/* The connections there are pass on nothing any more, as when a firewall has forgotten them; new
 * ones work. Returns when it is done. */
void proxy_mute(struct proxy *proxy);
/* What the next client says in a piece that holds this text reaches the server; but nothing more
 * passes through its connection, so no answer comes. */
void proxy_lose_answer(struct proxy *proxy, const char *text);
bool proxy_answer_is_lost(const struct proxy *proxy);
/* Ends all connections there are, stalled or not; what was under way is lost. Returns when it is
 * done. */
void proxy_cut(struct proxy *proxy);

#endif
