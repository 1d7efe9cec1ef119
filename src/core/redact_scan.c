/*
 * Inside core/redact: where something may begin. Nearly all text is passed by here without asking
 * anybody, so this is what the speed of the whole depends on: see docs/performance.md.
 *
 * The text is gone over once, in blocks of 16 bytes. There are two kinds of places: the first bytes
 * of a pattern, found by a filter, and the beginning of a long word. What a block holds is kept as
 * bits, one for each byte, and given out one after another.
 */
#include "core/redact_set.h"

enum {
    BLOCK = REDACT_LANES,
    /* How much must follow the beginning of a block: itself, the next one, and a gram. */
    BLOCK_VIEW_BYTES = 2 * BLOCK + REDACT_GRAM_BYTES,
};

/* ---- first bytes of a pattern ---- */

/*
 * The places of a block are looked at together, every second one: whether its four bytes are in the
 * filter `near`. Which tells of a beginning there, one before, or one after.
 */

/* Three places in eight bytes of text: for each that is near, a bit, or the same one for all. */
static inline unsigned near_in(const struct redactor *set, const unsigned char *text, unsigned bits)
{
    uint64_t bytes;
    memcpy(&bytes, text, sizeof bytes);
    bytes = le64toh(bytes) | UINT64_C(0x2020202020202020);
    return redact_is_near(set->near, set->near_factor, (uint32_t)bytes) |
           redact_is_near(set->near, set->near_factor, (uint32_t)(bytes >> 16)) << bits |
           redact_is_near(set->near, set->near_factor, (uint32_t)(bytes >> 32)) << 2 * bits;
}

/* The eight places of a block. bits is a constant: 1, or 0 when it is enough to know of any. */
static inline unsigned near_places(const struct redactor *set, const unsigned char *text,
                                   unsigned bits)
{
    return near_in(set, text, bits) | near_in(set, text + 6, bits) << 3 * bits |
           redact_is_near(set->near, set->near_factor, redact_gram(text + 12)) << 6 * bits |
           redact_is_near(set->near, set->near_factor, redact_gram(text + 14)) << 7 * bits;
}

/* Whether a pattern begins at i with these four bytes, and has before it what it must have. */
static inline bool is_beginning(const struct redactor *set, const unsigned char *text, size_t i)
{
    uint32_t gram = redact_gram(text + i);
    if (!redact_in_filter(set->grams, redact_slot(gram)))
        return false;
    unsigned own = redact_group(gram);
    for (uint32_t at = set->group[own]; at < set->group[own + 1]; at++) {
        const struct redact_pattern *pattern = &set->patterns[at];
        if (pattern->gram == gram &&
            (pattern->lead == 0 || i == 0 || redact_to_lower(text[i - 1]) == pattern->lead))
            return true;
    }
    for (uint32_t at = 0; at < set->group[0]; at++)
        if (((gram ^ set->patterns[at].gram) & set->patterns[at].gram_mask) == 0)
            return true;
    return false;
}

/* The beginnings in a block, as bits: the lowest is the byte before it. */
static __attribute__((noinline)) uint64_t beginnings(const struct redactor *set,
                                                     const struct redact_view *whole, size_t block)
{
    uint64_t found = 0;
    unsigned places = near_places(set, whole->text + block, 1);
    for (; places != 0; places &= places - 1) {
        unsigned place = 2 * (unsigned)__builtin_ctz(places);
        for (unsigned bit = block + place > 0 ? place : 1; bit <= place + 2; bit++)
            if (!(found >> bit & 1) && is_beginning(set, whole->text, block + bit - 1))
                found |= UINT64_C(1) << bit;
    }
    return found;
}

/* Whether a pattern begins with these bytes, fewer than a gram. The filter before it is met by
 * chance, and text that is held back for nothing is shown late. */
static bool may_become(const struct redactor *set, const unsigned char *text, size_t len)
{
    unsigned char padded[REDACT_GRAM_BYTES] = {0};
    uint32_t mask = (1u << 8 * len) - 1;
    memcpy(padded, text, len);
    uint32_t gram = redact_gram(padded);
    if (!redact_in_filter(set->prefixes, redact_prefix_slot(text, len)))
        return false;
    for (size_t i = 0; i < set->count; i++)
        if (((gram ^ set->patterns[i].gram) & mask & set->patterns[i].gram_mask) == 0)
            return true;
    return false;
}

/* The same for a place near the end. */
static bool may_begin(const struct redactor *set, const struct redact_view *whole, size_t at)
{
    size_t left = whole->len - at;
    if (left >= REDACT_GRAM_BYTES)
        return is_beginning(set, whole->text, at);
    return !whole->at_end && may_become(set, whole->text + at, left);
}

/* ---- long words ---- */

/*
 * A long word begins where REDACT_LONG_WORD_BYTES follow that belong to a word, and no letter or
 * digit stands before: at the beginning of a word, and after each _ and - in it.
 */

/* A bit for each byte of a block that belongs to a word. */
static inline unsigned words_of(const unsigned char *text)
{
    return redact_lane_bits(redact_word_lanes(redact_load(text)));
}

/*
 * Whether one may begin in the block: it goes on over the first half of the next one, and holds the
 * half before or after that.
 */
static inline bool may_be_long(unsigned here, unsigned next)
{
    const uint32_t before = 0x00FFFF00, after = 0xFFFF0000;
    uint32_t both = here | next << BLOCK;
    return ((both & before) == before) | ((both & after) == after);
}

static int byte_before(const struct redact_view *whole, size_t at)
{
    return at > 0 ? whole->text[at - 1] : whole->back[REDACT_BACK_BYTES - 1];
}

static bool is_joined(const struct redact_view *whole, size_t at)
{
    const struct redact_view here = {.text = whole->text + at, .behind = at, .back = whole->back};
    return redact_is_joined(&here, 1);
}

static inline bool holds_escape(redact_lanes bytes)
{
    return redact_lane_bits((redact_lanes)((bytes == '\\') | (bytes == '%') | (bytes == '['))) != 0;
}

/* Of the places of a block that have a letter or digit before them, those where an escape ends. */
static unsigned after_escapes(const struct redact_view *whole, size_t block, unsigned places)
{
    unsigned found = 0;
    const unsigned char *text = whole->text + block;
    const unsigned char *before =
        block >= BLOCK ? text - BLOCK : whole->back + REDACT_BACK_BYTES - BLOCK;
    if (!holds_escape(redact_load(text)) && !holds_escape(redact_load(before)))
        return 0;
    for (; places != 0; places &= places - 1) {
        unsigned at = (unsigned)__builtin_ctz(places);
        if (!is_joined(whole, block + at))
            found |= 1u << at;
    }
    return found;
}

/* Whether a word begins there that is long, or may become so. */
static bool is_long_word(const struct redact_view *whole, size_t from)
{
    size_t to = from;
    if (is_joined(whole, from))
        return false;
    while (to < whole->len && to - from < REDACT_LONG_WORD_BYTES && redact_is_word(whole->text[to]))
        to++;
    return to - from == REDACT_LONG_WORD_BYTES || (to == whole->len && to > from && !whole->at_end);
}

/* Those of a block that are worth to be asked, as bits: the lowest is the byte before it. */
static __attribute__((noinline)) uint64_t long_words(const struct redact_scan *scan)
{
    const struct redact_view *whole = scan->whole;
    const unsigned char *text = whole->text + scan->block;
    uint64_t runs = scan->here | (uint64_t)scan->next << BLOCK;
    if (scan->block + 3 * BLOCK <= whole->len)
        runs |= (uint64_t)words_of(text + 2 * BLOCK) << 2 * BLOCK;
    else
        for (size_t i = 2 * BLOCK; i < 3 * BLOCK; i++) {
            bool may_go_on =
                scan->block + i < whole->len ? redact_is_word(text[i]) : !whole->at_end;
            runs |= (uint64_t)may_go_on << i;
        }
    /* A bit where two follow, then where four do… */
    runs &= runs >> 1;
    runs &= runs >> 2;
    runs &= runs >> 4;
    runs &= runs >> 8;
    runs &= runs >> (REDACT_LONG_WORD_BYTES - 16);
    unsigned letters = scan->here & ~redact_lane_bits(redact_joints(redact_load(text)));
    bool joined = redact_is_alnum(byte_before(whole, scan->block));
    uint64_t found = 0;
    unsigned inside = letters << 1 | joined;
    unsigned starts = (unsigned)runs & UINT16_MAX;
    starts = (starts & ~inside) | after_escapes(whole, scan->block, starts & inside);
    for (; starts != 0; starts &= starts - 1) {
        unsigned at = (unsigned)__builtin_ctz(starts);
        if (redact_may_be_token(scan->set, text + at, whole->len - scan->block - at,
                                byte_before(whole, scan->block + at)))
            found |= UINT64_C(2) << at;
    }
    return found;
}

/* ---- the scan ---- */

/* What is left is too short for a block. */
static void scan_end(struct redact_scan *scan)
{
    const struct redact_view *whole = scan->whole;
    scan->ended = true;
    for (size_t at = scan->block > 0 ? scan->block - 1 : 0; at < whole->len; at++) {
        uint64_t bit = UINT64_C(1) << (at + 1 - scan->block);
        if (may_begin(scan->set, whole, at))
            scan->beginnings |= bit;
        if (at >= scan->block && is_long_word(whole, at) &&
            redact_may_be_token(scan->set, whole->text + at, whole->len - at,
                                byte_before(whole, at)))
            scan->words |= bit;
    }
}

/* What a block holds, which is something. */
static __attribute__((noinline)) bool scan_block(struct redact_scan *scan, bool is_near,
                                                 bool has_word)
{
    if (is_near)
        scan->beginnings = beginnings(scan->set, scan->whole, scan->block);
    if (has_word)
        scan->words = long_words(scan);
    return (scan->beginnings | scan->words) != 0;
}

/* Goes on to the next block that holds something. */
static void scan_blocks(struct redact_scan *scan)
{
    const struct redactor *set = scan->set;
    const unsigned char *text = scan->whole->text;
    size_t len = scan->whole->len;
    size_t block = scan->block;
    unsigned here = scan->here;
    for (; block + BLOCK_VIEW_BYTES <= len; block += BLOCK) {
        unsigned next = words_of(text + block + BLOCK);
        bool has_word = may_be_long(here, next);
        bool is_near = near_places(set, text + block, 0) != 0;
        if (__builtin_expect(has_word | is_near, 0)) {
            scan->block = block;
            scan->here = here;
            scan->next = next;
            if (scan_block(scan, is_near, has_word))
                return;
        }
        here = next;
    }
    scan->block = block;
    scan_end(scan);
}

void redact_scan_init(struct redact_scan *scan, const struct redactor *set,
                      const struct redact_view *whole)
{
    *scan = (struct redact_scan){.set = set, .whole = whole};
    if (whole->len >= BLOCK)
        scan->here = words_of(whole->text);
    scan_blocks(scan);
}

size_t redact_scan_place(const struct redact_scan *scan)
{
    uint64_t both = scan->beginnings | scan->words;
    return both == 0 ? scan->whole->len : scan->block + (size_t)__builtin_ctzll(both) - 1;
}

void redact_scan_on(struct redact_scan *scan)
{
    uint64_t both = scan->beginnings | scan->words;
    scan->beginnings &= ~(both & -both);
    scan->words &= ~(both & -both);
    if ((scan->beginnings | scan->words) != 0 || scan->ended)
        return;
    scan->here = scan->next;
    scan->block += BLOCK;
    scan_blocks(scan);
}

bool redact_scan_is_word(const struct redact_scan *scan)
{
    uint64_t both = scan->beginnings | scan->words;
    return scan->words & both & -both;
}

bool redact_scan_is_beginning(const struct redact_scan *scan)
{
    uint64_t both = scan->beginnings | scan->words;
    return scan->beginnings & both & -both;
}
