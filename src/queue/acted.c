/* See acted.h. */
#include "queue/acted.h"

#include <stdio.h>
#include <stdlib.h>

static int no_memory(tend *t)
{
    return handle_fail(t, TEND_ENOMEM, "out of memory while changing jobs");
}

struct acted_box *acted_new(tend *t)
{
    struct acted_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        no_memory(t);
    return box;
}

void tend_acted_free(struct tend_acted *acted)
{
    struct acted_box *box = (struct acted_box *)acted;
    if (box == NULL)
        return;
    free(box->followers);
    free(box->refused);
    free(box);
}

int acted_reserve(tend *t, struct acted_box *box, size_t count)
{
    int64_t *followers =
        realloc(box->followers, (box->acted.follower_count + count) * sizeof *followers);
    if (followers == NULL)
        return no_memory(t);
    box->acted.followers = box->followers = followers;
    return 0;
}

int acted_reserve_refused(tend *t, struct acted_box *box, size_t count)
{
    struct tend_refused *refused =
        realloc(box->refused, (box->acted.refused_count + count + 1) * sizeof *refused);
    if (refused == NULL)
        return no_memory(t);
    box->acted.refused = box->refused = refused;
    return 0;
}

void acted_refuse(struct acted_box *box, int64_t id, int code, const char *text)
{
    struct tend_refused *refused = &box->refused[box->acted.refused_count++];
    *refused = (struct tend_refused){.id = id, .code = code};
    snprintf(refused->text, sizeof refused->text, "%.*s", (int)sizeof refused->text - 1, text);
}

int acted_give(struct acted_box *box, int rc, struct tend_acted **ret)
{
    if (rc >= 0 && ret != NULL)
        *ret = &box->acted;
    else
        tend_acted_free(&box->acted);
    return rc < 0 ? rc : 0;
}
