/*
 * See suggest.h. Nearness is the number of letters to change, add, drop or swap (optimal string
 * alignment); a beginning of a word is near as well.
 */
#include "base/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 40 };

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *row = rows[2];
    for (size_t j = 0; j <= b_len; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = min_of(change, min_of(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min_of(row[j], before[j - 2] + 1);
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_len];
}

void suggestion_init(struct suggestion *suggestion, const char *wrong)
{
    *suggestion = (struct suggestion){.wrong = wrong, .distance = WORD_MAX};
}

void suggestion_offer(struct suggestion *suggestion, const char *candidate)
{
    size_t len = strlen(suggestion->wrong);
    bool begins = len >= 2 && strncmp(candidate, suggestion->wrong, len) == 0;
    size_t away = begins ? 1 : distance(suggestion->wrong, candidate);
    size_t allowed = len <= 3 ? 1 : len <= 6 ? 2 : 3;
    if (away > allowed || away >= suggestion->distance)
        return;
    suggestion->best = candidate;
    suggestion->distance = away;
}

const char *suggestion_text(const char *wrong, const char *const *names,
                            char out[SUGGESTION_TEXT_BYTES])
{
    enum { NAMES_SHOWN = 10 };
    const size_t size = SUGGESTION_TEXT_BYTES;
    struct suggestion near;
    suggestion_init(&near, wrong);
    for (size_t i = 0; names[i] != NULL; i++)
        suggestion_offer(&near, names[i]);
    if (near.best != NULL) {
        snprintf(out, size, "did you mean \"%s\"?", near.best);
        return out;
    }
    size_t len = (size_t)snprintf(out, size, "there are");
    for (size_t i = 0; i <= NAMES_SHOWN && names[i] != NULL && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s %s", i > 0 ? "," : "",
                                i < NAMES_SHOWN ? names[i] : "…");
    return out;
}
