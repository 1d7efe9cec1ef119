/* See group.h. */
#include "bench/group.h"

void group_init(struct group *group, int (*run)(void *arg, const struct group_member *first),
                void *arg)
{
    *group = (struct group){.run = run, .arg = arg};
    pthread_mutex_init(&group->mutex, NULL);
}

void group_done(struct group *group)
{
    pthread_mutex_destroy(&group->mutex);
}

/* Everything that waits, in one transaction. Under the mutex, which is given up meanwhile. */
static void lead(struct group *group)
{
    struct group_member *members = group->first;
    group->first = NULL;
    pthread_mutex_unlock(&group->mutex);
    int rc = group->run(group->arg, members);
    pthread_mutex_lock(&group->mutex);
    for (struct group_member *member = members, *next; member != NULL; member = next) {
        next = member->next;
        member->rc = rc;
        member->done = true;
        pthread_cond_signal(&member->answered);
    }
}

int group_add(struct group *group, size_t count)
{
    struct group_member mine = {.count = count};
    pthread_cond_init(&mine.answered, NULL);
    pthread_mutex_lock(&group->mutex);
    mine.next = group->first;
    group->first = &mine;
    while (!mine.done) {
        if (group->leading) {
            pthread_cond_wait(&mine.answered, &group->mutex);
            continue;
        }
        group->leading = true;
        lead(group);
        group->leading = false;
        if (group->first != NULL)
            pthread_cond_signal(&group->first->answered);
    }
    pthread_mutex_unlock(&group->mutex);
    pthread_cond_destroy(&mine.answered);
    return mine.rc;
}
