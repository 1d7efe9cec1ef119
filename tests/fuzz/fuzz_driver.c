/*
 * Runs a fuzz target without libFuzzer: over its seeds, every beginning of them, and mutations
 * drawn from a fixed seed, so that a failure comes back.
 */
#include "base/rng.h"
#include "fuzz/fuzz.h"
#include "support/test.h"

#include <string.h>

enum {
    MUTATIONS = 20000,
    INPUT_BYTES = 512,
    MOST_CHANGES = 6,
};

struct input {
    uint8_t data[INPUT_BYTES];
    size_t size;
};

/* In memory of exactly the size, so that a sanitizer sees a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    check(exact != NULL);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t seed_count(void)
{
    size_t count = 0;
    while (fuzz_seeds[count])
        count++;
    return count;
}

static void load_seed(struct input *input, struct rng *rng)
{
    const char *seed = fuzz_seeds[rng_below(rng, seed_count())];
    input->size = strlen(seed) < INPUT_BYTES ? strlen(seed) : INPUT_BYTES;
    memcpy(input->data, seed, input->size);
}

static void insert_bytes(struct input *input, size_t at, const uint8_t *bytes, size_t len)
{
    if (len > INPUT_BYTES - input->size)
        len = INPUT_BYTES - input->size;
    memmove(input->data + at + len, input->data + at, input->size - at);
    memmove(input->data + at, bytes, len);
    input->size += len;
}

static void change(struct input *input, struct rng *rng)
{
    size_t at = rng_below(rng, input->size + 1);
    size_t len = rng_below(rng, 8);
    if (len > input->size - at)
        len = input->size - at;
    uint8_t byte = (uint8_t)rng_below(rng, 256);
    uint8_t copy[8];
    struct input other;
    memcpy(copy, input->data + at, len);
    switch (rng_below(rng, 6)) {
    case 0: /* any byte */
        if (at < input->size)
            input->data[at] = byte;
        break;
    case 1: /* one bit */
        if (at < input->size)
            input->data[at] ^= (uint8_t)(1u << byte % 8);
        break;
    case 2:
        insert_bytes(input, at, &byte, 1);
        break;
    case 3: /* something from here, said twice */
        insert_bytes(input, at, copy, len);
        break;
    case 4:
        memmove(input->data + at, input->data + at + len, input->size - at - len);
        input->size -= len;
        break;
    default: /* the beginning of this one, the end of another */
        load_seed(&other, rng);
        input->size = at;
        at = rng_below(rng, other.size + 1);
        insert_bytes(input, input->size, other.data + at, other.size - at);
    }
}

TEST(fuzz, every_beginning_of_every_seed_is_survived)
{
    for (size_t i = 0; fuzz_seeds[i]; i++)
        for (size_t size = 0; size <= strlen(fuzz_seeds[i]); size++)
            run((const uint8_t *)fuzz_seeds[i], size);
}

TEST(fuzz, mutated_seeds_are_survived)
{
    struct rng rng;
    rng_seed(&rng, 2026);
    for (int i = 0; i < MUTATIONS; i++) {
        struct input input;
        load_seed(&input, &rng);
        for (uint64_t changes = 1 + rng_below(&rng, MOST_CHANGES); changes > 0; changes--)
            change(&input, &rng);
        run(input.data, input.size);
    }
}

TEST(fuzz, random_bytes_are_survived)
{
    struct rng rng;
    rng_seed(&rng, 2027);
    for (int i = 0; i < MUTATIONS / 4; i++) {
        uint8_t data[64];
        size_t size = rng_below(&rng, sizeof data + 1);
        for (size_t at = 0; at < size; at++)
            data[at] = (uint8_t)rng_u64(&rng);
        run(data, size);
    }
}
