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

/* `did you mean "run"?`, or where nothing is near `there are run, exec, http, …`: the first of the
 * names are those that matter. NULL ends them. */
enum { SUGGESTION_TEXT_BYTES = 300 };
const char *suggestion_text(const char *wrong, const char *const *names,
                            char out[SUGGESTION_TEXT_BYTES]);

#endif
