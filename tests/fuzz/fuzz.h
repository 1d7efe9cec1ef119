/*
 * What a fuzz target offers. The same file is built twice: by clang with libFuzzer, which looks
 * for inputs by itself (make fuzz), and with fuzz_driver.c, which runs some thousand mutations
 * of the seeds with any compiler, the same ones every time (make test).
 *
 * A target aborts when something is wrong: that is what both drivers notice.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NULL-terminated: inputs that reach far into the code. */
extern const char *const fuzz_seeds[];

/* Stays in optimised builds, unlike assert. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: must(%s)\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input as a string; free it. An input with NUL bytes ends at the first. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)data[i];
    text[size] = '\0';
    return text;
}

#endif
