/* The nearest word to one that was mistyped. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *wrong;
    const char *best; /* NULL: nothing is near enough */
    size_t distance;
};

void suggestion_init(struct suggestion *suggestion, const char *wrong);

/* Offers a candidate; it is kept when it is nearer than all before. */
void suggestion_offer(struct suggestion *suggestion, const char *candidate);

#endif
