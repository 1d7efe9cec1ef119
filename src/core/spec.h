/*
 * What a job has to do, read from its payload.
 *
 * A payload is a plan when it is a JSON object with a member steps, run, exec, http or sleep; any
 * other payload is data for a handler and none of our business. Long form and short form:
 *
 *     {"objective": "ship it", "workspace": {"repo": ".", "ref": "main"},
 *      "env": {"CI": "1"}, "step_timeout_seconds": 600,
 *      "steps": [{"id": "build", "run": "make -j2", "timeout": "15m"},
 *                {"exec": ["make", "test"], "cwd": "lib", "attempts": 5},
 *                {"http": {"method": "POST", "url": "https://…", "body": {"ok": true}}},
 *                {"sleep": "5s"}],
 *      "classify": [{"match": "quota of \\d+", "class": "deterministic_policy"}]}
 *     {"run": "make", "timeout": "15m"}
 *
 * In a plan nothing is guessed: unknown members, wrong types, doubled members and values out of
 * range are refused with their place ("steps[3].timeout: …"). So is an empty list of steps.
 *
 * Not the doing, and no look at files: whether repo or command exist is seen when they are used.
 * Everything in a plan lives in the caller's arena.
 */
#ifndef CORE_SPEC_H
#define CORE_SPEC_H

#include "core/budget.h"
#include "core/classify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

enum step_kind { STEP_RUN, STEP_EXEC, STEP_HTTP, STEP_SLEEP };

enum secret_place { SECRET_IN_ENV, SECRET_IN_FILE };

/*
 * A value that the plan only names. The worker looks it up just before each attempt, and it is
 * never stored:
 *
 *     {"env": "API_TOKEN", "prefix": "Bearer "}     a variable of the worker
 *     {"file": "/run/secrets/api"}                  a file on the worker's machine
 */
struct secret_name {
    enum secret_place place;
    const char *name;   /* of the variable, or an absolute path */
    const char *prefix; /* is put before the value; "" for none */
};

/* A variable or a header. */
struct named_text {
    const char *name;
    const char *value;                /* NULL: look it up */
    const struct secret_name *secret; /* where the value comes from; NULL: from the plan itself */
};

struct named_texts {
    size_t count;
    struct named_text *items;
};

struct class_rules {
    size_t count;
    struct class_rule *items; /* compile with classifier_new_user; known to be good */
};

/* Statuses low to high are fine. */
struct status_range {
    int low, high;
};

struct http_plan {
    const char *method; /* in capital letters; GET, or POST where there is a body */
    const char *url;    /* http:// or https:// */
    struct named_texts headers;
    const char *body;                      /* NULL: none, or look it up */
    size_t body_bytes;                     /* without the NUL behind it */
    bool body_is_json;                     /* it was given as JSON: say so unless a header does */
    const struct secret_name *body_secret; /* the whole body; NULL: it is none */
    bool body_names_secrets;     /* it is JSON with {"$env": …} or {"$file": …} inside */
    struct status_range *expect; /* never empty; 200 to 299 where nothing is said */
    size_t expect_count;
    int64_t max_response_bytes;
    bool follow_redirects;
};

struct step_plan {
    const char *id;           /* unique in the job; "step-N", N from 1, where none is given */
    const char *title;        /* NULL: none */
    const char *instructions; /* NULL: none */
    enum step_kind kind;
    const char *run;         /* STEP_RUN: a line for the shell */
    const char *const *argv; /* STEP_EXEC: NULL-terminated */
    size_t argc;
    struct http_plan *http;   /* STEP_HTTP */
    int64_t sleep_ms;         /* STEP_SLEEP */
    struct named_texts env;   /* on top of the job's */
    const char *cwd;          /* below the workspace; NULL: its root */
    struct budgets budgets;   /* what the step itself says */
    struct class_rules rules; /* heard before the job's */
};

struct job_plan {
    const char *objective;      /* NULL: none */
    const char *workspace_repo; /* path or URL; NULL: no workspace */
    const char *workspace_ref;  /* NULL: as the repository says */
    struct named_texts env;
    struct budgets budgets; /* what the job says, for all steps */
    struct class_rules rules;
    const char *retry_classes; /* as retry_classes_parse reads it; NULL: as the queue says */
    struct step_plan *steps;
    size_t step_count;
};

enum { SPEC_NONE = 0, SPEC_PLAN = 1 };

enum {
    STEP_ID_BYTES = 128,
    SPEC_RESPONSE_DEFAULT_BYTES = 1 << 20,
    SPEC_RESPONSE_MOST_BYTES = 1 << 30,
};

/* "run", "exec", "http", "sleep". */
const char *step_kind_name(enum step_kind kind);

/*
 * SPEC_PLAN with *ret filled; SPEC_NONE when the payload is no plan; TEND_EINVAL with the place in
 * the sentence; TEND_ENOMEM. payload may be NULL with bytes 0: no plan.
 */
int spec_parse(const char *payload, size_t bytes, struct arena *arena, struct job_plan *ret,
               struct err *err);

/*
 * The same for what must be a plan, whatever it looks like: a mistyped "run" is an unknown member
 * then, and not data. SPEC_PLAN or negative. more_names (NULL-terminated) are members that belong
 * beside those of a plan and were taken out of it: they are suggested, too.
 */
int spec_parse_plan(const char *payload, size_t bytes, const char *const *more_names,
                    struct arena *arena, struct job_plan *ret, struct err *err);

/* Whether this step has a body, be it one that must be looked up. */
static inline bool spec_has_body(const struct http_plan *http)
{
    return http->body != NULL || http->body_secret != NULL;
}

/* Gives the value of a secret with its prefix: valid UTF-8, in the context's keeping. 0 or
 * negative. */
typedef int secret_lookup(void *context, const struct secret_name *secret, const char **ret);

/*
 * The JSON body of a plan with body_names_secrets, with its secrets in place. 0 with *ret in the
 * arena; what lookup returned when that was negative; TEND_ENOMEM.
 */
int spec_fill_body(const struct http_plan *http, struct arena *arena, secret_lookup *lookup,
                   void *context, const char **ret);

/*
 * Calls lookup for every secret that a payload names, plan or not: each object, at any depth, that
 * has only "env", "file", "$env", "$file" and "prefix", all of them strings. 0; what lookup
 * returned when that was negative; TEND_ENOMEM. A payload that is no JSON names none.
 */
int spec_payload_secrets(const char *payload, size_t bytes, secret_lookup *lookup, void *context);

/* A member that looks as if it had been meant to make a plan: {"command": "make"}, {"Run": "make"}.
 */
struct spec_slip {
    char member[32];
    const char *meant; /* "run"…; static */
    bool certain;      /* only the case of its letters is wrong */
};

/* Of a payload that is no plan: whether it has such a member. */
bool spec_find_slip(const char *payload, size_t bytes, struct spec_slip *ret);

/* The kind of a job with this plan, by its first step: "shell" (run, exec), "http" or "sleep". */
const char *spec_job_kind(const struct job_plan *plan);

/* The step of this id, or NULL. */
const struct step_plan *spec_find_step(const struct job_plan *plan, const char *id);

#endif
