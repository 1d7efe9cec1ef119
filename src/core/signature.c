/* See signature.h. */
#include "core/signature.h"

#include "base/text.h"
#include "core/signature_count.h"
#include "core/signature_lines.h"
#include "core/signature_mask.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SALIENT_LINES = 24, /* lines that look like errors */
    ERROR_LINES = 100,  /* the last ones, where they are looked for */
    PLAIN_LINES = 2,    /* where there are none */
    SHOWN_LINES = 4,    /* for people */
};

static const char separator[] = " | ";

enum { WHOLE_BYTES = ENDING_TEXT_BYTES + SALIENT_LINES * (MASKED_BYTES + sizeof separator) };

/* Part of a line that says that something went wrong, in any case. */
static const char *const error_words[] = {
    "error",    "fail",      "fatal",       "exception",    "panic",   "traceback",  "cannot",
    "can't",    "could not", "couldn't",    "unable to",    "denied",  "refused",    "rejected",
    "invalid",  "not found", "no such",     "undefined",    "missing", "timed out",  "timeout",
    "abort",    "assert",    "conflict",    "segmentation", "killed",  "unexpected", "forbidden",
    "expected", "mismatch",  "not allowed", "not ok",
};

/* FNV-1a, and the finish of MurmurHash3, so that every bit depends on every byte. */
uint64_t signature_hash(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    hash = (hash ^ hash >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    hash = (hash ^ hash >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return hash ^ hash >> 33;
}

static bool looks_like_error(const char *line)
{
    for (size_t i = 0; i < sizeof error_words / sizeof *error_words; i++)
        if (strcasestr(line, error_words[i]))
            return true;
    return false;
}

/* Whether other jobs of make still ran when one failed is chance. */
static bool is_chance(const char *line)
{
    return strstr(line, "Waiting for unfinished jobs") != NULL;
}

/* Masked lines, the last one first, no two alike. */
struct salient {
    size_t count;
    char lines[SALIENT_LINES][MASKED_BYTES + 1];
};

static void add_line(struct salient *salient, const char *plain, size_t len, size_t most)
{
    if (salient->count >= most)
        return;
    char *line = salient->lines[salient->count];
    mask_line(plain, len, line);
    /* How often something was said before giving up is chance. */
    for (size_t i = 0; i < salient->count; i++)
        if (strcmp(salient->lines[i], line) == 0)
            return;
    salient->count++;
}

/* Where the clock struck or memory ran out is chance: only errors count then. */
static bool ended_anywhere(struct ending ending)
{
    return ending.kind == ENDED_WALL_TIMEOUT || ending.kind == ENDED_OUT_OF_MEMORY ||
           ending.kind == ENDED_INTERRUPTED;
}

static void find_salient(struct ending ending, const char *tail, size_t tail_bytes,
                         struct salient *ret)
{
    struct tail_line lines[TAIL_LINES];
    char plain[LINE_BYTES + 1];
    size_t count = tail_lines(tail, tail_bytes, lines);
    ret->count = 0;
    for (size_t i = 0; i < count && i < ERROR_LINES; i++) {
        size_t len = tail_line_plain(lines[i], plain);
        if (looks_like_error(plain) && !is_chance(plain))
            add_line(ret, plain, len, SALIENT_LINES);
    }
    if (ret->count > 0 || ended_anywhere(ending))
        return;
    for (size_t i = 0; i < count && ret->count < PLAIN_LINES; i++) {
        size_t len = tail_line_plain(lines[i], plain);
        if (len > 0)
            add_line(ret, plain, len, PLAIN_LINES);
    }
}

/* Errors of parallel jobs come in any order, so the lines count as a set. */
static int compare_lines(const void *one, const void *other)
{
    return strcmp(one, other);
}

/* "exit 1: one | two". Returns its length. */
static size_t join_lines(char out[WHOLE_BYTES], const char *how, const struct salient *salient,
                         size_t count, bool backwards)
{
    size_t len = (size_t)snprintf(out, WHOLE_BYTES, "%s", how);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(out + len, WHOLE_BYTES - len, "%s%s", i == 0 ? ": " : separator,
                                salient->lines[backwards ? count - 1 - i : i]);
    return len;
}

static void hash_lines(const char *how, struct salient *salient, struct signature *ret)
{
    char whole[WHOLE_BYTES];
    qsort(salient->lines, salient->count, sizeof *salient->lines, compare_lines);
    size_t len = join_lines(whole, how, salient, salient->count, false);
    snprintf(ret->hash, sizeof ret->hash, "%016llx",
             (unsigned long long)signature_hash(whole, len));
}

/* The last lines, in their order. */
static void show_lines(const char *how, const struct salient *salient, struct signature *ret)
{
    char text[WHOLE_BYTES];
    size_t shown = salient->count < SHOWN_LINES ? salient->count : SHOWN_LINES;
    size_t len = join_lines(text, how, salient, shown, true);
    memcpy(ret->text, text, utf8_floor(text, len, SIGNATURE_TEXT_BYTES));
}

void signature_make(struct ending ending, const char *tail, size_t tail_bytes,
                    struct signature *ret)
{
    struct salient salient;
    char how[ENDING_TEXT_BYTES];
    struct signature made = {.failures = signature_count(tail, tail_bytes)};
    find_salient(ending, tail, tail_bytes, &salient);
    ending_text(ending, how);
    show_lines(how, &salient, &made);
    hash_lines(how, &salient, &made);
    *ret = made;
}
