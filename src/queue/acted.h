/* What an action has done or would do, while it is put together; see struct tend_acted. */
#ifndef QUEUE_ACTED_H
#define QUEUE_ACTED_H

#include "queue/handle.h"

struct acted_box {
    struct tend_acted acted; /* first: a pointer to it is a pointer to its box */
    int64_t *followers;
    struct tend_refused *refused;
};

/* NULL after setting the handle's sentence. */
struct acted_box *acted_new(tend *t);

/* Room for count more followers, before there is anything that must not get lost. 0 or TEND_ENOMEM.
 */
int acted_reserve(tend *t, struct acted_box *box, size_t count);
/* The same for count more that are refused. */
int acted_reserve_refused(tend *t, struct acted_box *box, size_t count);
/* There must be room. */
void acted_refuse(struct acted_box *box, int64_t id, int code, const char *text);

/* Hands the box over, or frees it where rc is a failure or ret is NULL. Returns rc, or 0. */
int acted_give(struct acted_box *box, int rc, struct tend_acted **ret);

#endif
