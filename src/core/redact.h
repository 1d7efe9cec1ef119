/*
 * Nothing secret is stored: replaces secrets in text by "[redacted]" before it goes anywhere.
 *
 * What is found: the values of secret-looking variables (as they are, base64 at any alignment,
 * URL-encoded, JSON-escaped), tokens known by their shape (GitHub, GitLab, AWS, Slack, sk-…, JWT…),
 * `Bearer …`, `Authorization: …`, the password in a URL, `password=…` and its like, private keys
 * in PEM. The meaning is that of sets: a byte is left out exactly when it lies in some match, and
 * touching matches share one mark. So the result does not depend on how the text was cut into
 * pieces, and no match hides another.
 *
 * Not a guarantee against a program that means to leak: a secret printed backwards is not seen.
 * Invariants: a redactor never changes after it was made and may be shared by threads; a stream
 * holds back only what may still become a secret, in bounded memory, however long a token or a key
 * gets. No I/O, no clock, no globals.
 */
#ifndef CORE_REDACT_H
#define CORE_REDACT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct redactor;

#define REDACT_MARK "[redacted]"

struct redact_variable {
    const char *name;
    const char *value;
};

/*
 * A redactor for these variables; those whose name does not look secret are passed over, apart
 * from a password inside a URL. Nothing is borrowed after the call. 0 or TEND_ENOMEM.
 */
int redactor_new(const struct redact_variable *variables, size_t count, struct redactor **ret,
                 struct err *err);
void redactor_free(struct redactor *redactor);

/*
 * Whether a variable of this name holds a secret, judged by its words: GITHUB_TOKEN, PGPASSWORD,
 * apiKey do, AUTHOR, TOKENIZERS_PARALLELISM, PWD, PASSWORD_FILE do not.
 */
bool redact_name_is_secret(const char *name);

/*
 * Whether the value is worth looking for: not one shorter than 6 bytes, a word like "false", a
 * small number, or a path below a usual root (/usr, /home, /tmp…), for these would only blind the
 * log.
 */
bool redact_value_is_secret(const char *value);

/* Runs of bytes that are left out until a byte ends them; what ends which is in redact.c. */
enum redact_run {
    REDACT_RUN_NONE,
    REDACT_RUN_WORD,    /* letters, digits, _ and - */
    REDACT_RUN_TOKEN,   /* and . ~ + / = */
    REDACT_RUN_VALUE,   /* up to a blank, a quote or a separator */
    REDACT_RUN_DOUBLE,  /* up to the closing ", or the end of the line */
    REDACT_RUN_SINGLE,  /* the same with ' */
    REDACT_RUN_BACK,    /* the same with ` */
    REDACT_RUN_ESCAPED, /* the same with \" */
    REDACT_RUN_KEY,     /* a private key, up to its END line */
    REDACT_RUNS,
};

/* One text in the making; made by redact_init, its fields are for redact.c alone. */
struct redact_stream {
    const struct redactor *redactor;
    struct buf held;                  /* what may still become a secret */
    uint64_t at;                      /* bytes decided so far */
    uint64_t covered_to;              /* everything before this is left out */
    uint64_t span_from, span_to;      /* a piece ahead that will be left out */
    uint64_t key_to;                  /* where a private key ends, as far as is known */
    unsigned key_word_bytes;          /* length of the word of base64 it is in */
    bool key_ending;                  /* its END line has been seen */
    uint64_t run_from[REDACT_RUNS];   /* where a run that is ahead begins */
    unsigned runs_active, runs_ahead; /* bits by enum redact_run */
    unsigned char before;             /* the byte before `at`, a newline at first */
    bool marked;                      /* the last thing out was a mark */
};

/* The redactor is borrowed until redact_done. */
void redact_init(struct redact_stream *stream, const struct redactor *redactor);
void redact_done(struct redact_stream *stream);

/* Appends to out what is known to be clean; out->failed tells that memory ran out. */
void redact_feed(struct redact_stream *stream, const void *bytes, size_t len, struct buf *out);

/* Appends the rest; the stream can then be used for another text. */
void redact_end(struct redact_stream *stream, struct buf *out);

/* A whole text at once; in the arena, or the text itself when it is clean. NULL: no memory. */
const char *redact_text(const struct redactor *redactor, struct arena *arena, const char *text);

#endif
