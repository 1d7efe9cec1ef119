/*
 * The corpus of outputs in tests/corpus: real-looking endings of tools with the answer that an
 * operator would give. tests/corpus/README.md has the format and the rules.
 */
#ifndef UNIT_CORPUS_CASE_H
#define UNIT_CORPUS_CASE_H

#include "base/buf.h"

#include <stddef.h>

enum { CORPUS_WORD_BYTES = 16 };

struct corpus_case {
    char answer[CORPUS_WORD_BYTES]; /* the first word of the case */
    int exit_code;
    const char *name;
    const char *output;
    size_t output_bytes;
};

struct corpus {
    struct corpus_case *cases;
    size_t count;
    struct buf *texts; /* the files, which the cases point into */
    size_t file_count;
};

/* Reads all files of tests/corpus/PART. There may be none. The test fails when one is malformed. */
void corpus_load(struct corpus *corpus, const char *part);
void corpus_done(struct corpus *corpus);

#endif
