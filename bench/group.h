/*
 * Group commit as plainly as it can be had, for the bare sides: the first thread to come collects
 * those that wait, runs them in one transaction and wakes them; more may come meanwhile and are the
 * next group.
 */
#ifndef BENCH_GROUP_H
#define BENCH_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct group_member {
    size_t count; /* jobs to be added */
    int rc;
    bool done;
    pthread_cond_t answered;
    struct group_member *next;
};

struct group {
    /* Adds the jobs of all members in one commit; called by one thread at a time. 0 or -1. */
    int (*run)(void *arg, const struct group_member *first);
    void *arg;
    pthread_mutex_t mutex; /* guards the rest */
    struct group_member *first;
    bool leading;
};

void group_init(struct group *group, int (*run)(void *arg, const struct group_member *first),
                void *arg);
void group_done(struct group *group);

/* Returns when the group with this call in it is on disk. */
int group_add(struct group *group, size_t count);

#endif
