#include "base/err_table.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SWEEP_FIRST = 64 };

struct err_entry {
    struct err err; /* first: a pointer to it is a pointer to its entry */
    struct err_entry *next;
    pid_t process, thread;
};

int err_table_init(struct err_table *table)
{
    *table = (struct err_table){.sweep_at = SWEEP_FIRST};
    if (pthread_key_create(&table->key, NULL) != 0)
        return -1;
    pthread_mutex_init(&table->mutex, NULL);
    return 0;
}

void err_table_after_fork(struct err_table *table)
{
    pthread_mutex_init(&table->mutex, NULL);
}

void err_table_done(struct err_table *table)
{
    pthread_key_delete(table->key);
    for (struct err_entry *entry = table->first, *next; entry != NULL; entry = next) {
        next = entry->next;
        free(entry);
    }
    pthread_mutex_destroy(&table->mutex);
}

/*
 * Whether the thread of an entry has ended. A number that another thread has got since keeps the
 * entry for longer, which does no harm. After a fork the numbers are those of the parent and say
 * nothing.
 */
static int has_ended(const struct err_entry *entry, pid_t process)
{
    return entry->process == process && tgkill(process, entry->thread, 0) < 0 && errno == ESRCH;
}

/* The mutex is held. */
static void sweep(struct err_table *table)
{
    pid_t process = getpid();
    for (struct err_entry **at = &table->first; *at != NULL;) {
        struct err_entry *entry = *at;
        if (!has_ended(entry, process)) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        table->count--;
        free(entry);
    }
    table->sweep_at = table->count * 2 > SWEEP_FIRST ? table->count * 2 : SWEEP_FIRST;
}

struct err *err_table_mine(struct err_table *table)
{
    struct err_entry *entry = pthread_getspecific(table->key);
    if (entry != NULL)
        return &entry->err;
    entry = calloc(1, sizeof *entry);
    if (entry == NULL || pthread_setspecific(table->key, entry) != 0) {
        free(entry);
        return NULL;
    }
    entry->process = getpid();
    entry->thread = gettid();
    pthread_mutex_lock(&table->mutex);
    if (table->count >= table->sweep_at)
        sweep(table);
    entry->next = table->first;
    table->first = entry;
    table->count++;
    pthread_mutex_unlock(&table->mutex);
    return &entry->err;
}
