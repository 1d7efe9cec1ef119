/*
 * Inside core/redact: what a redactor is made of. A set of patterns, found by their first four
 * bytes or because a long word begins.
 *
 * Invariants: every pattern is at least four bytes long when it matches. A matcher is a pure
 * function of the text from its place on and of the REDACT_BACK_BYTES before it, so that it may be
 * asked again when more has come; and it decides within lookahead_bytes.
 */
#ifndef CORE_REDACT_SET_H
#define CORE_REDACT_SET_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/redact.h"

#include <endian.h>
#include <string.h>

enum {
    REDACT_GRAM_BYTES = 4,
    REDACT_SECRET_MIN_BYTES = 6,         /* of the value of a variable */
    REDACT_NAMED_MIN_BYTES = 4,          /* of a value that is said to be secret */
    REDACT_PIECE_BYTES = 256,            /* a longer secret is looked for in pieces */
    REDACT_SHAPE_LOOKAHEAD_BYTES = 1536, /* the farthest a matcher of shapes looks */
    REDACT_LONG_WORD_BYTES = 24,         /* from here on a word is asked whether it is a token */
    REDACT_NEAR_WORDS = 4096,            /* of 64 bits: one for each slot of the filter */
    REDACT_FILTER_WORDS = 1024,
    REDACT_GROUPS = 256,
    REDACT_WORD_GROUPS = 4096,
    REDACT_SHAPES_MAX = 400, /* rows of redact_shape.c */
    REDACT_WORD_FINDS = 4,   /* of one word: few rows begin alike */
};

/* The text at a place where something may begin. */
struct redact_view {
    const unsigned char *text;
    size_t len;
    bool at_end;               /* nothing comes after len */
    size_t behind;             /* bytes before text in the same memory */
    const unsigned char *back; /* REDACT_BACK_BYTES that came before those */
};

enum redact_verdict { REDACT_NO, REDACT_MORE, REDACT_YES };

/* What to leave out, relative to the place: from `from` to `to`, and the run that begins at `to`.
 */
struct redact_find {
    size_t from, to; /* equal when there is only a run */
    enum redact_run run;
    bool ends_key; /* `to` is the end of a private key, should one be open */
};

struct redact_pattern;
typedef enum redact_verdict redact_matcher(const struct redactor *redactor,
                                           const struct redact_pattern *pattern,
                                           const struct redact_view *view,
                                           struct redact_find *ret_find);

struct redact_pattern {
    uint32_t gram, gram_mask; /* folded first bytes: a quick look before the matcher is called */
    redact_matcher *matcher;
    const char *text; /* of a literal, or what a shape begins with */
    uint32_t len;
    uint32_t option;    /* as the matcher likes */
    unsigned char lead; /* the letter that must stand before it, small; 0: any byte */
};

struct redact_names;

struct redactor {
    uint64_t near[REDACT_NEAR_WORDS];       /* four bytes around a beginning: see redact_near.c */
    uint32_t near_factor;                   /* of its hash */
    struct buf near_grams;                  /* what goes into it, while it is made */
    uint64_t grams[REDACT_FILTER_WORDS];    /* first four bytes */
    uint64_t prefixes[REDACT_FILTER_WORDS]; /* first one, two and three bytes */
    uint32_t group[REDACT_GROUPS + 1];      /* where the patterns of a group begin */
    struct redact_pattern *patterns;        /* those of three bytes, then group by group */
    size_t count, room;
    uint64_t word_groups[REDACT_WORD_GROUPS / 64]; /* a bit for each of these lists that has rows */
    uint16_t word_rows[REDACT_WORD_GROUPS]; /* shapes asked at words, by their first two bytes */
    uint16_t word_next[REDACT_SHAPES_MAX];  /* the next of the same group; row + 1, 0: none */
    size_t lookahead_bytes;                 /* no matcher looks farther */
    const struct redact_names *names; /* that somebody has said are secret or not; NULL: none */
    struct arena arena;
    bool failed; /* while it is made: memory ran out */
};

/* Letters of either case look the same; other bytes may fall together, which matchers sort out. */
static inline uint32_t redact_gram(const void *bytes)
{
    uint32_t gram;
    memcpy(&gram, bytes, REDACT_GRAM_BYTES);
    return le32toh(gram) | 0x20202020u;
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

enum { REDACT_NEAR_SHIFT = 14 }; /* leaves a bit for each slot of the filter `near` */

static inline unsigned redact_is_near(const uint64_t *near, uint32_t factor, uint32_t gram)
{
    return redact_in_filter(near, (gram * factor) >> REDACT_NEAR_SHIFT);
}

/* The slot of one to three bytes in the filter of prefixes. */
static inline unsigned redact_prefix_slot(const unsigned char *bytes, size_t len)
{
    unsigned char padded[REDACT_GRAM_BYTES] = {0};
    for (size_t i = 0; i < len; i++)
        padded[i] = bytes[i];
    return redact_slot(redact_gram(padded) + (uint32_t)len);
}

/* ---- bytes ---- */

static inline bool redact_is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool redact_is_upper(int byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static inline bool redact_is_lower(int byte)
{
    return byte >= 'a' && byte <= 'z';
}

static inline bool redact_is_alnum(int byte)
{
    return redact_is_digit(byte) || redact_is_upper(byte) || redact_is_lower(byte);
}

static inline int redact_to_lower(int byte)
{
    return redact_is_upper(byte) ? byte + 0x20 : byte;
}

static inline bool redact_is_blank(int byte)
{
    return byte == ' ' || byte == '\t';
}

static inline bool redact_is_line_end(int byte)
{
    return byte == '\n' || byte == '\r';
}

static inline bool redact_is_quote(int byte)
{
    return byte == '"' || byte == '\'' || byte == '`';
}

/* Letters, digits, _ and -: what most tokens are made of. Asked for so many bytes that it is a
 * table of bits. */
static inline bool redact_is_word(int byte)
{
    static const uint64_t words[4] = {
        UINT64_C(0x03FF200000000000), /* - 0-9 */
        UINT64_C(0x07FFFFFE87FFFFFE), /* A-Z _ a-z */
    };
    return byte >= 0 && words[byte >> 6] >> (byte & 63) & 1;
}

/* What may follow "Bearer" (token68 of RFC 7235, and dots), also percent-encoded. */
static inline bool redact_is_token(int byte)
{
    return redact_is_word(byte) || byte == '.' || byte == '~' || byte == '+' || byte == '/' ||
           byte == '=' || byte == '%';
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

/* ---- looking ---- */

/* The next byte, or one of these. */
enum { REDACT_PEEK_END = -1, REDACT_PEEK_MORE = -2 };

static inline int redact_peek(const struct redact_view *view, size_t at)
{
    if (at < view->len)
        return view->text[at];
    return view->at_end ? REDACT_PEEK_END : REDACT_PEEK_MORE;
}

/* The byte before the place (1), the one before that (2)… up to REDACT_BACK_BYTES. */
static inline int redact_back(const struct redact_view *view, size_t distance)
{
    if (distance <= view->behind)
        return *(view->text - distance);
    return view->back[REDACT_BACK_BYTES - (distance - view->behind)];
}

/*
 * Whether the place is inside a word: a letter or digit stands before it, at this distance, that
 * is not the end of an escape: \n, %22, \x22, \u0022, ESC[32m.
 */
bool redact_is_joined(const struct redact_view *view, size_t distance);

/* text at `at` is this word of small letters, in any case. */
enum redact_verdict redact_word_at(const struct redact_view *view, size_t at, const char *word);

/* The bytes are there as they stand. */
enum redact_verdict redact_bytes_at(const struct redact_view *view, size_t at, const char *bytes);

/* The first place from `at` on, at most `most` bytes farther, that is no blank. */
size_t redact_pass_blanks(const struct redact_view *view, size_t at, size_t most);

/*
 * Whether the value at `at`, made of bytes that belong says so, is a token rather than a word of
 * some language: at least 8 bytes, and long or with digits or capitals inside.
 */
enum redact_verdict redact_token_like(const struct redact_view *view, size_t at,
                                      bool (*belongs)(int));

/*
 * Leaves out the value at `at`, which goes on to the next blank or the quote that encloses it (0:
 * none), whatever bytes it is made of: redact_extent.c. A bracket or a comma that only closes what
 * the value stands in stays.
 */
enum redact_verdict redact_cover_bare(const struct redact_view *view, size_t at, int quote,
                                      struct redact_find *ret_find);

/* The same for the value at `at` after a quote with backslashes before it: it ends at the next
 * quote with so many, for more of them stand before a quote in the value. */
enum redact_verdict redact_cover_escaped(const struct redact_view *view, size_t at,
                                         struct redact_find *ret_find);

/* ---- many bytes at once ---- */

enum { REDACT_LANES = 16 };
typedef unsigned char redact_lanes __attribute__((vector_size(REDACT_LANES)));

static inline redact_lanes redact_load(const unsigned char *text)
{
    redact_lanes bytes;
    memcpy(&bytes, text, sizeof bytes);
    return bytes;
}

/* All bits of each byte that is _ or -, and of each that belongs to a word. */
static inline redact_lanes redact_joints(redact_lanes bytes)
{
    return (redact_lanes)((bytes == '_') | (bytes == '-'));
}

static inline redact_lanes redact_word_lanes(redact_lanes bytes)
{
    redact_lanes letters = (redact_lanes)((bytes | 0x20) - 'a' < 26);
    redact_lanes digits = (redact_lanes)(bytes - '0' < 10);
    return letters | digits | redact_joints(bytes);
}

/* A bit for each lane, the first the lowest. */
static inline unsigned redact_lane_bits(redact_lanes lanes)
{
#ifdef __SSE2__
    return (unsigned)__builtin_ia32_pmovmskb128(
        (char __attribute__((vector_size(REDACT_LANES))))lanes);
#else
    uint64_t halves[2];
    memcpy(halves, &lanes, sizeof halves);
    const uint64_t one_each = UINT64_C(0x8040201008040201), sum = UINT64_C(0x0101010101010101);
    return (unsigned)((le64toh(halves[0]) & one_each) * sum >> 56) |
           (unsigned)((le64toh(halves[1]) & one_each) * sum >> 56) << 8;
#endif
}

/* ---- making ---- */

/* The bytes that can stand beside a pattern's text; NULL: any. The filters need to know them for
 * texts of three or four bytes. */
struct redact_neighbours {
    bool (*before)(int);
    bool is_before; /* only the byte before counts, and another pattern of the text has told it */
    bool (*after)(int);
};

/* Adds a pattern; its text must stay. neighbours may be NULL. */
void redact_set_add(struct redactor *set, struct redact_pattern pattern,
                    const struct redact_neighbours *neighbours);

/* redact_near.c: the filter that nearly all text is passed by with. */
void redact_near_add(struct redactor *set, const unsigned char *bytes);
void redact_near_finish(struct redactor *set);

/* A copy of the text that lives as long as the set; NULL, and set->failed, without memory. */
const char *redact_set_keep(struct redactor *set, const char *text, size_t len);

/* redact_forms.c: adds the value in all forms it may be printed in. */
void redact_add_value(struct redactor *set, const char *value, size_t len);

/* redact_shape.c: adds tokens known by shape. */
void redact_add_shapes(struct redactor *set);

/*
 * Asks the shapes that are found where a long word begins: a word that goes on for
 * REDACT_LONG_WORD_BYTES, with no letter or digit before. How many finds; *ret_decided is false
 * when more text is needed, and there may be finds all the same.
 */
size_t redact_ask_word(const struct redactor *set, const struct redact_view *word,
                       struct redact_find finds[REDACT_WORD_FINDS], bool *ret_decided);

/* Whether that is worth to be done: false when no row can fit. The text goes on for len bytes. */
bool redact_may_be_token(const struct redactor *set, const unsigned char *text, size_t len,
                         int before);

/* redact_assign.c: adds `password=…`, `Authorization: …`. */
void redact_add_assignments(struct redactor *set);

/* redact_phrase.c: adds sentences and commands in which a secret has its place. */
void redact_add_phrases(struct redactor *set);

/* redact_format.c: adds URLs, command lines, private keys and the like. */
void redact_add_formats(struct redactor *set);

/*
 * `user:password@tcp(host)` of Go, whose beginning is only known by its end. Where the next one may
 * begin, from `at` on: the colon. len: there is none.
 */
size_t redact_next_dsn(const struct redact_view *view, size_t at);
enum redact_verdict redact_match_dsn(const struct redact_view *view, struct redact_find *ret_find);

/* ---- places where something may begin: redact_scan.c ---- */

struct redact_scan {
    const struct redactor *set;
    const struct redact_view *whole;
    size_t block;               /* where the present one begins */
    uint64_t beginnings, words; /* in it, not given out yet; the lowest bit is the byte before it */
    unsigned here, next;        /* the bytes of this block and the next one that are of words */
    bool ended;                 /* the block goes to the end of the text */
};

/* The view is borrowed. */
void redact_scan_init(struct redact_scan *scan, const struct redactor *set,
                      const struct redact_view *whole);

/* The present place; the length of the text when there is no more. And what is there: the first
 * bytes of a pattern, the beginning of a word that is long or may become so. */
size_t redact_scan_place(const struct redact_scan *scan);
bool redact_scan_is_beginning(const struct redact_scan *scan);
bool redact_scan_is_word(const struct redact_scan *scan);

/* Goes on to the next place. */
void redact_scan_on(struct redact_scan *scan);

/* ---- sequences that style text on a terminal: redact_sequence.c ---- */

enum { REDACT_ESCAPE = 0x1B, REDACT_SEQUENCE_MAX_BYTES = 2048, REDACT_SEQUENCE_MORE = -1 };

/*
 * The length of the sequence at text, which begins with REDACT_ESCAPE: a colour, an erased line, a
 * character set, a link or title. 0: none of these is there; or REDACT_SEQUENCE_MORE.
 * *ret_holds_text: it has a text of its own, which may be secret.
 */
int redact_sequence_bytes(const unsigned char *text, size_t len, bool at_end, bool *ret_holds_text);

/* ---- names: redact_names.c ---- */

/* What a name says of its value. The weaker it is, the more a value must look like a secret. */
enum redact_name_class {
    REDACT_NAME_PLAIN,
    REDACT_NAME_QUIET,  /* secret as a variable; text is left alone: its value may be a sentence */
    REDACT_NAME_SEED,   /* seed, salt: mostly numbers that are none */
    REDACT_NAME_KEY,    /* some key */
    REDACT_NAME_PASS,   /* pass: often the counterpart of fail */
    REDACT_NAME_PIN,    /* digits */
    REDACT_NAME_PWD,    /* a password, or a folder */
    REDACT_NAME_COOKIE, /* name=value; name=value… */
    REDACT_NAME_PHRASE, /* the words of a wallet */
    REDACT_NAME_TOKENS, /* tokens: often they are counted */
    REDACT_NAME_TOKEN,  /* token, auth: common words */
    REDACT_NAME_HEADER, /* authorization: a scheme may stand before the secret */
    REDACT_NAME_STRONG, /* password, secret, api_key: whatever follows */
    REDACT_NAME_COLUMN, /* any of these, but the value is only the next column of a table */
};

enum redact_name_class redact_name_class(const struct redactor *redactor, const char *name);

/* Reads the settings into set->names. 0, TEND_EINVAL or TEND_ENOMEM. */
int redact_names_read(struct redactor *set, const struct redact_known *known, struct err *err);

/* The names that were said to be secret, by index from 0; NULL after the last. */
const char *redact_names_secret(const struct redactor *set, size_t index);

/* ---- values: redact_value.c ---- */

enum { REDACT_SAMPLE_BYTES = 40 };

/* The beginning of a value. */
struct redact_sample {
    char text[REDACT_SAMPLE_BYTES + 1];
    size_t len;
    bool cut;      /* the value goes on */
    bool plain;    /* not in quotes: it may be code */
    bool sentence; /* it follows "name: ", and may be the first word of a sentence */
    bool code;     /* it follows "name = ", and more code follows */
    bool setting;  /* it follows "NAME=" */
    bool stated;   /* the same, "name=" that begins its line, a string of JSON: it is no code */
    bool spaced;   /* it follows "name = ", or "name: " and a comma or a bracket comes after it */
    int next;      /* the byte after it, when it is not cut */
};

/* Whether a value in text is a secret, for a name of this class. */
bool redact_sample_is_secret(enum redact_name_class class, const struct redact_sample *sample);

#endif
