/* base/arena: memory freed all at once. */
#include "base/arena.h"
#include "unit/case.h"

#include <stdint.h>
#include <string.h>

TEST(arena, pieces_are_aligned_and_do_not_overlap)
{
    struct arena arena;
    arena_init(&arena);
    char *pieces[500];
    for (size_t i = 0; i < CASES(pieces); i++) {
        pieces[i] = arena_alloc(&arena, i);
        check((uintptr_t)pieces[i] % 16 == 0);
        memset(pieces[i], (int)(i % 251), i);
    }
    for (size_t i = 0; i < CASES(pieces); i++)
        for (size_t byte = 0; byte < i; byte++)
            check(pieces[i][byte] == (char)(i % 251));
    arena_done(&arena);
}

TEST(arena, pieces_of_no_bytes_have_addresses_of_their_own)
{
    struct arena arena;
    arena_init(&arena);
    void *first = arena_alloc(&arena, 0);
    void *second = arena_alloc(&arena, 0);
    check(first && second && first != second);
    arena_done(&arena);
}

TEST(arena, takes_pieces_larger_than_its_blocks)
{
    struct arena arena;
    arena_init(&arena);
    char *small = arena_strdup(&arena, "small");
    char *large = arena_alloc(&arena, 5 << 20);
    memset(large, 'x', 5 << 20);
    char *after = arena_strdup(&arena, "after");
    check_str(small, "small");
    check_str(after, "after");
    arena_done(&arena);
}

TEST(arena, copies_and_formats_text)
{
    struct arena arena;
    arena_init(&arena);
    check_str(arena_strndup(&arena, "abcdef", 3), "abc");
    check_str(arena_strndup(&arena, NULL, 0), "");
    check(memcmp(arena_strndup(&arena, "a\0b", 3), "a\0b", 4) == 0);
    check_str(arena_printf(&arena, "%s-%d", "job", 7), "job-7");
    char *zeros = arena_zalloc(&arena, 100);
    for (int i = 0; i < 100; i++)
        check(zeros[i] == 0);
    arena_done(&arena);
}

TEST(arena, reset_starts_over_in_the_same_first_block)
{
    struct arena arena;
    arena_init(&arena);
    arena_reset(&arena);
    void *first = arena_alloc(&arena, 10);
    for (int i = 0; i < 1000; i++)
        check(arena_alloc(&arena, 1000) != NULL);
    arena_reset(&arena);
    check(arena_alloc(&arena, 10) == first);
    arena_done(&arena);
    check_str(arena_strdup(&arena, "usable again"), "usable again");
    arena_done(&arena);
}

TEST(arena, impossible_sizes_give_null)
{
    volatile size_t huge = SIZE_MAX;
    struct arena arena;
    arena_init(&arena);
    for (size_t less = 0; less < 64; less++)
        check(arena_alloc(&arena, huge - less) == NULL);
    check(arena_strndup(&arena, "x", huge) == NULL);
    check_str(arena_strdup(&arena, "fine"), "fine");
    arena_done(&arena);
}
