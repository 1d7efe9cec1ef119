/* See arena.h. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT_BYTES = 16,
    FIRST_BLOCK_BYTES = 4096,
    LARGEST_GROWN_BLOCK_BYTES = 1 << 20, /* larger blocks only for larger pieces */
};

struct arena_block {
    struct arena_block *next;
    size_t size; /* bytes in data */
    size_t used; /* always a multiple of the alignment */
    size_t unused_padding;
    _Alignas(16) char data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){.next_bytes = FIRST_BLOCK_BYTES};
}

static void free_from(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void arena_done(struct arena *arena)
{
    free_from(arena->first);
    arena_init(arena);
}

void arena_reset(struct arena *arena)
{
    if (!arena->first)
        return;
    free_from(arena->first->next);
    arena->first->next = NULL;
    arena->first->used = 0;
    arena->current = arena->first;
    arena->next_bytes = FIRST_BLOCK_BYTES * 2;
}

static struct arena_block *add_block(struct arena *arena, size_t at_least)
{
    size_t size = arena->next_bytes > 0 ? arena->next_bytes : FIRST_BLOCK_BYTES;
    if (size < at_least)
        size = at_least;
    if (size > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    struct arena_block *block = malloc(sizeof *block + size);
    if (!block)
        return NULL;
    block->next = NULL;
    block->size = size;
    block->used = 0;

    if (arena->current)
        arena->current->next = block;
    else
        arena->first = block;
    arena->current = block;
    if (arena->next_bytes < LARGEST_GROWN_BLOCK_BYTES)
        arena->next_bytes = arena->next_bytes > 0 ? arena->next_bytes * 2 : FIRST_BLOCK_BYTES * 2;
    return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT_BYTES)
        return NULL;
    /* Pieces of size 0 take room too, so that no two pieces share an address. */
    size_t rounded = (size + (size == 0) + ALIGNMENT_BYTES - 1) & ~(size_t)(ALIGNMENT_BYTES - 1);
    struct arena_block *block = arena->current;
    if (!block || rounded > block->size - block->used) {
        block = add_block(arena, rounded);
        if (!block)
            return NULL;
    }
    void *piece = block->data + block->used;
    block->used += rounded;
    return piece;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *piece = arena_alloc(arena, size);
    if (piece)
        memset(piece, 0, size);
    return piece;
}

char *arena_strndup(struct arena *arena, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = arena_alloc(arena, len + 1);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    char *text = NULL;
    int len = vsnprintf(NULL, 0, format, args);
    if (len >= 0)
        text = arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
