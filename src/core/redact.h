/*
 * Nothing secret is stored: replaces secrets in text by "[redacted]" before it goes anywhere.
 *
 *     redact_names.c   which names are those of secrets: PGPASSWORD, apiKey, STRIPE_KEY
 *     redact_forms.c   the values of secret variables, in every form a program may print them in
 *     redact_shape.c   tokens known by their shape, one row each
 *     redact_assign.c  NAME=value, "name": "value", --name value, where the name is a secret's
 *     redact_format.c  what has a form of its own: URLs, .netrc, .pgpass, command lines, keys
 *     redact_phrase.c  sentences and commands in which a secret has its place, one row each
 *     redact_extent.c  where a value that stands alone ends
 *     redact_sequence.c  colours and links of terminals, which are passed over
 *     redact_set.c     all of these as patterns, behind filters that pass ordinary text quickly
 *     redact.c         the stream: walks the text, asks the patterns, decides each byte once
 *
 * The meaning is that of sets: a byte is left out exactly when it lies in some match, and touching
 * matches share one mark. So the result does not depend on how the text was cut into pieces, and no
 * match hides another. Sequences that style text on a terminal (colours, links) are no part of the
 * text that is looked at, and come out where they stood: a secret in colour is a secret.
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

/* Any bytes. */
struct redact_secret {
    const char *value;
    size_t bytes;
};

/* What a redactor knows besides the shapes of secrets. */
struct redact_known {
    /* Variables: those whose name does not look secret are passed over, apart from a password
     * inside a URL. */
    const struct redact_variable *variables;
    size_t variable_count;
    /* Values that are secret whatever they look like; those too short (redact_finds) are passed
     * over. */
    const struct redact_secret *secrets;
    size_t secret_count;
    /*
     * Names that are secret, and names that are not, whatever they look like: TEND_REDACT and
     * TEND_REDACT_NOT. Separated by commas or blanks; * stands for any bytes, ? for one; letters
     * of either case are alike. A name in both is secret. NULL: none.
     */
    const char *secret_names, *harmless_names;
};

/*
 * Nothing is borrowed after the call. 0; TEND_EINVAL when a name cannot be used, with the sentence;
 * or TEND_ENOMEM.
 */
int redactor_new(const struct redact_known *known, struct redactor **ret, struct err *err);
void redactor_free(struct redactor *redactor);

/* Whether a value that is named as a secret can be looked for: not one shorter than 4 bytes,
 * without the blanks around it, for that would blind the log. */
bool redact_finds(const char *value, size_t bytes);

/*
 * Whether a variable, header or member of this name holds a secret, judged by its words:
 * GITHUB_TOKEN, PGPASSWORD, apiKey do; AUTHOR, PWD, PASSWORD_FILE do not. redactor may be NULL:
 * then nobody has said which names are secret or harmless.
 */
bool redact_name_is_secret(const struct redactor *redactor, const char *name);

/*
 * The same for a variable of the worker or the plan, where the value is known as a whole and little
 * is lost when it is left out: also PASSKEY, GLOBAL_SEED, PROJECT_KEY, DB_PW.
 */
bool redact_variable_is_secret(const struct redactor *redactor, const char *name);

/*
 * Whether the value of a variable is worth looking for: not one shorter than 6 bytes, a word like
 * "false", a small number, or a path below a usual root (/usr, /home, /tmp…), for these would only
 * blind the log.
 */
bool redact_value_is_secret(const char *value);

/* Whether a JSON member of this name and value is a secret: a string, or a number as its text. */
bool redact_member_is_secret(const struct redactor *redactor, const char *name, const char *value,
                             bool is_number);

/* Runs of bytes that are left out until a byte ends them; what ends which is in redact.c. */
enum redact_run {
    REDACT_RUN_NONE,
    REDACT_RUN_WORD,    /* letters, digits, _ and - */
    REDACT_RUN_TOKEN,   /* and . ~ + / = % */
    REDACT_RUN_VALUE,   /* up to a blank, a quote or a separator */
    REDACT_RUN_BARE,    /* up to a blank */
    REDACT_RUN_REST,    /* up to the end of the line */
    REDACT_RUN_DOUBLE,  /* up to the closing ", or the end of the line */
    REDACT_RUN_SINGLE,  /* the same with ' */
    REDACT_RUN_BACK,    /* the same with ` */
    REDACT_RUN_ESCAPED, /* the same with \" */
    REDACT_RUN_TAG,     /* up to <, or the end of the line */
    REDACT_RUN_LINE,    /* up to a quote or the end of the line */
    REDACT_RUN_KEY,     /* a private key, up to its END line */
    REDACT_RUNS,
};

enum {
    REDACT_BACK_BYTES = 128, /* how far a matcher looks back */
    REDACT_PENDING = 16,
};

/* Something ahead that will be left out: from `from` to `to`, or runs that begin at from. */
struct redact_pending {
    uint64_t from, to;
    unsigned runs; /* bits by enum redact_run */
};

/* One text in the making; made by redact_init, its fields are for redact.c alone. */
struct redact_stream {
    const struct redactor *redactor;
    struct buf held;         /* what may still become a secret */
    struct buf raw;          /* text with sequences; between calls one that has not ended */
    struct buf unstyled;     /* the same without them */
    struct buf sequences;    /* those that wait for the text before them to be decided */
    size_t sequences_out;    /* how much of it is out */
    uint64_t at;             /* bytes decided so far */
    uint64_t covered_to;     /* everything before this is left out */
    uint64_t key_to;         /* where a private key ends, as far as is known */
    unsigned key_word_bytes; /* length of the word of base64 it is in */
    bool key_ending;         /* its END line has been seen */
    bool marked;             /* the last thing out was a mark */
    unsigned runs_active;    /* bits by enum redact_run */
    unsigned pending_count;
    struct redact_pending pending[REDACT_PENDING]; /* by `from` */
    unsigned char back[REDACT_BACK_BYTES];         /* what was decided last; newlines at first */
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
