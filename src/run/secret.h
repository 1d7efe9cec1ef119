/*
 * Secrets that a plan names (struct secret_name in core/spec.h): their values, read from where they
 * are, and the list of those that a redactor must know.
 *
 * A step may print a secret that only a later step names. So the list has all values of a plan
 * before its first step begins.
 */
#ifndef RUN_SECRET_H
#define RUN_SECRET_H

#include "base/arena.h"
#include "core/spec.h"

enum { SECRET_FILE_BYTES = 64 * 1024, SECRET_WHY_BYTES = 128 };

/*
 * The value, without its prefix, with a NUL after it; in the arena. 0; TEND_EINVAL: it cannot be
 * had, and why goes on "variable X, which …"; TEND_ENOMEM: this process lacks memory or
 * descriptors, and why says so.
 */
int secret_read(const struct secret_name *secret, struct arena *arena, const char **ret,
                size_t *ret_bytes, char why[SECRET_WHY_BYTES]);

struct known_secret {
    struct known_secret *next;
    const char *value; /* any bytes */
    size_t bytes;
};

/* 1: it is in the list now; 0: it was already; TEND_ENOMEM. */
int secret_know(struct known_secret **list, struct arena *arena, const char *value, size_t bytes);

/* Puts in the list what the plan names and can be had here. 0 or TEND_ENOMEM. */
int secrets_of_plan(const struct job_plan *plan, struct arena *arena, struct known_secret **list);

/* The same for a payload, which need not be a plan; see spec_payload_secrets in core/spec.h. */
int secrets_of_payload(const char *payload, size_t bytes, struct arena *arena,
                       struct known_secret **list);

#endif
