/*
 * What kind of failure was that? Evidence in, class out (SH-4, SH-5).
 *
 * Evidence is heard in this order, and the first that knows something decides:
 *   1. what the step itself declared                                      "declared"
 *   2. how it ended: time, memory, signal, start, HTTP, repository        "timeout.wall",
 * "signal.9" and the exit codes of sysexits.h and the shell                     "exit.75"
 *   3. the user's text rules, of the step, then of the job                "user.step.1", "user.2"
 *   4. what the output says: the line that is most like an error and nearest to the end, by the
 *      rules of classify_table.c; a red test suite; see classify_text.c    "text.auth",
 * "text.tests"
 *   5. nothing: transient, once per signature and diff                    "unknown"
 * Then core/heal.h looks at the attempts together: those that were alike    "no_progress"
 * Exit codes that mean anything (1, 2, 70, 128, 255 …) leave the decision to the text.
 *
 * Not a judge of progress: core/heal.h says what follows. Pure: a classifier does not change after
 * it was made, so that threads may share it.
 */
#ifndef CORE_CLASSIFY_H
#define CORE_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum failure_class {
    CLASS_NONE, /* no failure, or nothing declared */
    CLASS_TRANSIENT_RUNTIME,
    CLASS_STUCK_NO_PROGRESS,
    CLASS_DETERMINISTIC_CONTRACT,
    CLASS_DETERMINISTIC_POLICY,
    CLASS_DETERMINISTIC_REPO,
    CLASS_COUNT,
};

/* "transient_runtime" …; "" for CLASS_NONE. */
const char *failure_class_name(enum failure_class class);

/* CLASS_NONE when there is no such class. */
enum failure_class failure_class_parse(const char *name);

/* Whether another attempt may help: the first two classes. */
bool failure_class_retryable(enum failure_class class);

enum ending_kind {
    ENDED_EXIT,          /* number: exit code */
    ENDED_SIGNAL,        /* number: signal */
    ENDED_WALL_TIMEOUT,  /* took longer than it may */
    ENDED_IDLE_TIMEOUT,  /* was silent for longer than it may */
    ENDED_OUT_OF_MEMORY, /* killed by the kernel for want of memory */
    ENDED_NOT_STARTED,   /* number: errno */
    ENDED_INTERRUPTED,   /* stopped from outside: the worker ends, the lease was lost */
    ENDED_HTTP_STATUS,   /* number: a status that was not expected */
    ENDED_HTTP_LIMITED,  /* … and the answer has Retry-After, or says that no requests are left */
    ENDED_HTTP_TRANSPORT,   /* number: enum http_trouble */
    ENDED_PATCH_REFUSED,    /* a checkpoint's patch does not apply */
    ENDED_NOT_A_REPOSITORY, /* the workspace's repo */
    ENDED_REF_MISSING,      /* the workspace's ref */
    ENDED_BAD_PLAN,         /* the payload or what the step reported cannot be understood */
    ENDED_NO_SECRET,        /* the worker does not have a secret that the plan names */
};

enum http_trouble {
    HTTP_NOT_RESOLVED,
    HTTP_NOT_CONNECTED,
    HTTP_TIMED_OUT,
    HTTP_BROKEN_OFF, /* in the middle of sending or receiving */
    HTTP_BAD_CERTIFICATE,
    HTTP_BAD_URL,
    HTTP_ANSWER_TOO_LARGE,
    HTTP_REDIRECTED_TOO_OFTEN,
    HTTP_OTHER_TROUBLE,
};

struct ending {
    enum ending_kind kind;
    int number;
};

enum { ENDING_TEXT_BYTES = 64 };

/* "exit 75", "signal 9", "http 503", "not started: ENOENT" … */
const char *ending_text(struct ending ending, char out[ENDING_TEXT_BYTES]);

/* Whether a shell says by its exit code that it could not start its command. */
bool ending_is_no_command(struct ending ending);

/* A text rule: a line that matches gives the failure this class. */
struct class_rule {
    const char *match; /* PCRE2, UTF-8 */
    enum failure_class class;
};

enum { CLASS_RULES_MAX = 50, CLASS_MATCH_BYTES = 1000 };

/* Text rules, compiled. */
struct classifier;

/* The rules that are built in. Made once per worker. 0 or TEND_ENOMEM; free in either case. */
int classifier_new(struct classifier **ret, struct err *err);

/* Rules of a user. 0, TEND_ENOMEM, or TEND_EINVAL with a sentence "[N].match: …" (N from 0) that
 * says where in the expression the fault is. */
int classifier_new_user(const struct class_rule *rules, size_t count, struct classifier **ret,
                        struct err *err);
void classifier_free(struct classifier *classifier);

struct evidence {
    enum failure_class declared; /* by the step; CLASS_NONE when it declared nothing */
    struct ending ending;
    const char *tail; /* the end of its output, redacted; may hold anything, may be NULL */
    size_t tail_bytes;
    const struct classifier *step_rules; /* NULL: none */
    const struct classifier *job_rules;  /* NULL: none */
    int unknown_before; /* earlier failures of this step, decided by "unknown", of the same
                           signature and diff */
};

enum { RULE_ID_BYTES = 40, RULE_LINE_BYTES = 240 };

struct classification {
    enum failure_class class; /* never CLASS_NONE */
    bool retryable;
    bool unknown;                   /* nothing knew it: counts for unknown_before */
    bool outside;                   /* the cause lies outside the workspace: network, service, rate
                                       limit; a fresh workspace cannot help */
    char rule[RULE_ID_BYTES];       /* what decided */
    const char *meaning;            /* the rule in words; static */
    char line[RULE_LINE_BYTES + 1]; /* the line that matched, "" where no text was asked */
};

/* The attempts were alike: whatever each of them was, together they are stuck. Where the cause
 * lies (outside) stays as it was. */
void classify_no_progress(struct classification *class);

/* builtin may be NULL: then there are no built-in text rules. */
void classify(const struct classifier *builtin, const struct evidence *evidence,
              struct classification *ret);

/* Whether one of the last lines has the word "Killed", with which shells, make and compilers tell
 * that a process of theirs got SIGKILL. */
bool output_says_killed(const char *tail, size_t tail_bytes);

#endif
