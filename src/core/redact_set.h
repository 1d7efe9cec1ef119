/*
 * Inside core/redact: what a redactor is made of. A set of patterns, found by a hash of their first
 * four bytes, behind a filter over the same hash that passes over ordinary text quickly.
 *
 * Invariants: every pattern is at least four bytes long when it matches, and its first four bytes
 * (three, for some) are in the filter, letters in either case. A matcher is a pure function of the
 * text from its place on and the byte before, so that it may be asked again when more has come.
 */
#ifndef CORE_REDACT_SET_H
#define CORE_REDACT_SET_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/redact.h"

#include <string.h>

enum {
    REDACT_GRAM_BYTES = 4,
    REDACT_SECRET_MIN_BYTES = 6,
    REDACT_PIECE_BYTES = 256,            /* a longer secret is looked for in pieces */
    REDACT_SHAPE_LOOKAHEAD_BYTES = 1536, /* the farthest a matcher of shapes looks */
    REDACT_FILTER_WORDS = 1024,          /* of 64 bits: one for each slot */
    REDACT_GROUPS = 256,
};

/* The text at a place where something may begin. */
struct redact_view {
    const unsigned char *text;
    size_t len;
    unsigned char before;
    bool at_end; /* nothing comes after len */
};

enum redact_verdict { REDACT_NO, REDACT_MORE, REDACT_YES };

/* What to leave out, relative to the place: from `from` to `to`, and the run that begins at from.
 */
struct redact_find {
    size_t from, to; /* equal when there is only a run */
    enum redact_run run;
    bool ends_key; /* `to` is the end of a private key, should one be open */
};

struct redact_pattern;
typedef enum redact_verdict redact_matcher(const struct redact_pattern *pattern,
                                           const struct redact_view *view,
                                           struct redact_find *ret_find);

struct redact_pattern {
    uint32_t gram, gram_mask; /* folded first bytes: a quick look before the matcher is called */
    redact_matcher *matcher;
    const char *text; /* of a literal, or what a shape begins with */
    uint32_t len;
    uint32_t option; /* as the matcher likes */
};

struct redactor {
    uint64_t near[REDACT_FILTER_WORDS];     /* four bytes around a beginning: see redact_set.c */
    uint64_t grams[REDACT_FILTER_WORDS];    /* first four bytes */
    uint64_t prefixes[REDACT_FILTER_WORDS]; /* first one, two and three bytes */
    uint32_t group[REDACT_GROUPS + 1];      /* where the patterns of a group begin */
    struct redact_pattern *patterns;        /* those of three bytes, then group by group */
    size_t count, room;
    size_t lookahead_bytes; /* no matcher looks farther */
    struct arena arena;
    bool failed; /* while it is made: memory ran out */
};

/* Letters of either case look the same; other bytes may fall together, which matchers sort out. */
static inline uint32_t redact_gram(const void *bytes)
{
    uint32_t gram;
    memcpy(&gram, bytes, REDACT_GRAM_BYTES);
    return gram | 0x20202020u;
}

static inline unsigned redact_slot(uint32_t gram)
{
    return (gram * 0x9E3779B1u) >> 16;
}

static inline unsigned redact_group(uint32_t gram)
{
    return redact_slot(gram) >> 8;
}

static inline unsigned redact_in_filter(const uint64_t *words, unsigned slot)
{
    return (unsigned)(words[slot >> 6] >> (slot & 63)) & 1;
}

/* The slot of one to three bytes in the filter of prefixes. */
static inline unsigned redact_prefix_slot(const unsigned char *bytes, size_t len)
{
    unsigned char padded[REDACT_GRAM_BYTES] = {0};
    for (size_t i = 0; i < len; i++)
        padded[i] = bytes[i];
    return redact_slot(redact_gram(padded) + (uint32_t)len);
}

static inline bool redact_is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool redact_is_upper(int byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static inline bool redact_is_alnum(int byte)
{
    return redact_is_digit(byte) || redact_is_upper(byte) || (byte >= 'a' && byte <= 'z');
}

/* Letters, digits, _ and -: what most tokens are made of. */
static inline bool redact_is_word(int byte)
{
    return redact_is_alnum(byte) || byte == '_' || byte == '-';
}

/* What may follow "Bearer" (token68 of RFC 7235, and dots). */
static inline bool redact_is_token(int byte)
{
    return redact_is_word(byte) || byte == '.' || byte == '~' || byte == '+' || byte == '/' ||
           byte == '=';
}

/* What an unquoted value is made of. Brackets belong to it, so that a mark is left as it is. */
static inline bool redact_is_value(int byte)
{
    switch (byte) {
    case '"':
    case '\'':
    case '`':
    case ',':
    case ';':
    case '&':
    case '<':
    case '>':
    case '(':
    case ')':
    case '{':
    case '}':
    case '|':
    case 0x7F:
        return false;
    default:
        return byte > ' ';
    }
}

/* The next byte, or one of these. */
enum { REDACT_PEEK_END = -1, REDACT_PEEK_MORE = -2 };

static inline int redact_peek(const struct redact_view *view, size_t at)
{
    if (at < view->len)
        return view->text[at];
    return view->at_end ? REDACT_PEEK_END : REDACT_PEEK_MORE;
}

/* Adds a pattern; its text must stay. follows: what can come after a text of three or four bytes.
 */
void redact_set_add(struct redactor *set, struct redact_pattern pattern, bool (*follows)(int));

/* redact_forms.c: adds the value in all forms it may be printed in. */
void redact_add_value(struct redactor *set, const char *value, size_t len);

/* redact_shape.c: adds tokens known by shape, URLs and private keys. */
void redact_add_shapes(struct redactor *set);

/* redact_assign.c: adds `password=…`, `Authorization: …`. */
void redact_add_assignments(struct redactor *set);

/* text at `at` is this word of small letters, in any case. */
enum redact_verdict redact_word_at(const struct redact_view *view, size_t at, const char *word);

/*
 * Whether the value at `at`, made of bytes that belong says so, is a token rather than a word of
 * some language: at least 8 bytes, and long or with digits or capitals inside.
 */
enum redact_verdict redact_token_like(const struct redact_view *view, size_t at,
                                      bool (*belongs)(int));

#endif
