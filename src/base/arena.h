/*
 * Memory that is freed all at once: results of a query live here as long as the caller wants.
 *
 * Not a general allocator: single pieces are never freed, nothing is locked. Invariants: every
 * piece is 16-aligned and stays where it is until arena_reset or arena_done.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *first;   /* survives arena_reset */
    struct arena_block *current; /* where the next piece is cut from */
    size_t next_bytes;           /* size of the block to be allocated next; doubles */
};

void arena_init(struct arena *arena);

/* Frees everything; the arena is empty and usable again afterwards. */
void arena_done(struct arena *arena);

/* Forgets everything; keeps the first block, so that a loop does not allocate in each round. */
void arena_reset(struct arena *arena);

/* NULL when memory has run out. The content is not cleared. A size of 0 gives a valid pointer. */
void *arena_alloc(struct arena *arena, size_t size);

/* As arena_alloc, filled with zero bytes. */
void *arena_zalloc(struct arena *arena, size_t size);

/* Copies len bytes and adds a NUL; the bytes may contain NULs. */
char *arena_strndup(struct arena *arena, const char *text, size_t len);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
