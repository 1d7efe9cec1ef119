/*
 * Reading a plan's members: typed values, and where they stand.
 *
 * A place is a chain of names and indexes on the reader's own stack; it becomes text only when
 * something is wrong.
 */
#ifndef CORE_SPEC_READ_H
#define CORE_SPEC_READ_H

#include "core/spec.h"

#include <jansson.h>

struct place {
    const struct place *parent; /* NULL: the payload itself */
    const char *name;           /* NULL: an element of a list */
    size_t index;
};

struct reader {
    struct arena *arena;
    struct err *err;
    const char *const *more_names; /* of the job, for suggestions; NULL: none */
};

/* Sets "PLACE: sentence" and returns TEND_EINVAL. */
int spec_fault(struct reader *reader, const struct place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int spec_no_memory(struct reader *reader);

/* A member that nobody knows; names (NULL-terminated) are those that are. */
int spec_unknown(struct reader *reader, const struct place *place, const char *const *names);

/* Each copies into the arena. Texts never hold a NUL: jansson refuses it. */
int spec_text(struct reader *reader, const struct place *place, json_t *value, const char **ret);
int spec_full_text(struct reader *reader, const struct place *place, json_t *value,
                   const char **ret); /* not empty */
int spec_texts(struct reader *reader, const struct place *place, json_t *value,
               bool (*name_is_fine)(const char *name), struct named_texts *ret);
int spec_env(struct reader *reader, const struct place *place, json_t *value,
             struct named_texts *ret);
int spec_budget(struct reader *reader, const struct place *place, json_t *value,
                struct budgets *budgets);
int spec_rules(struct reader *reader, const struct place *place, json_t *value,
               struct class_rules *ret);

/* {"env": NAME} or {"file": PATH}, with a prefix where one is wanted. */
int spec_secret(struct reader *reader, const struct place *place, json_t *value,
                const struct secret_name **ret);

/* Whether a body is such an object, and not a document to be sent. */
bool spec_is_secret(json_t *value);

/*
 * Checks every {"$env": …} and {"$file": …} inside a JSON body. 1: there are some; 0: none; or
 * negative.
 */
int spec_inner_secrets(struct reader *reader, const struct place *place, json_t *value);

int spec_http(struct reader *reader, const struct place *place, json_t *value,
              struct http_plan **ret);

/* Fields of a step. */
enum spec_known { SPEC_UNKNOWN, SPEC_KNOWN };

/* Reads one member into the step. SPEC_KNOWN, SPEC_UNKNOWN when a step has no such member, or
 * negative. */
int spec_step_member(struct reader *reader, const struct place *place, json_t *value,
                     struct step_plan *step);

enum { SPEC_STEP_NAMES = 32 };

/* Names of a step's members, for suggestions; NULL-terminated. */
void spec_step_names(const char *ret_names[SPEC_STEP_NAMES]);

/* Whether the step's object does exactly one thing. */
int spec_step_check(struct reader *reader, const struct place *place, json_t *object);

#endif
