/* See filter.h. */
#include "cli/filter.h"

bool filter_given(const struct filter_args *args)
{
    return args->queue || args->kind || args->tag || args->states ||
           args->older_than_ms != TEND_UNSET;
}

void filter_fill(const struct filter_args *args, struct tend_filter *ret)
{
    tend_filter_init(ret);
    ret->queue = args->queue;
    ret->kind = args->kind;
    ret->tag = args->tag;
    ret->states = args->states;
    ret->older_than_ms = args->older_than_ms;
}
