/* base/err_table: an error of its own for each thread, and none left when the table goes. */
#include "base/err_table.h"
#include "unit/case.h"

#include <malloc.h>
#include <stdint.h>

static void *use_once(void *arg)
{
    err_set(err_table_mine(arg), -1, "mine");
    return NULL;
}

static void use_in_new_thread(struct err_table *table)
{
    pthread_t thread;
    check_int(pthread_create(&thread, NULL, use_once, table), ==, 0);
    pthread_join(thread, NULL);
}

TEST(err_table, each_thread_has_its_own)
{
    struct err_table table;
    check_int(err_table_init(&table), ==, 0);
    struct err *mine = err_table_mine(&table);
    check(mine == err_table_mine(&table));
    check_str(mine->text, "");
    use_in_new_thread(&table);
    check_str(mine->text, "");
    err_table_done(&table);
}

/* A worker has a thread for each job: its handle must not remember all there ever were. */
TEST(err_table, entries_of_threads_that_have_ended_are_freed_and_those_of_others_stay)
{
    struct err_table table;
    check_int(err_table_init(&table), ==, 0);
    struct err *mine = err_table_mine(&table);
    err_set(mine, -2, "still here");
    for (int i = 0; i < 1000; i++)
        use_in_new_thread(&table);
    check_int(table.count, <=, 128);
    check(err_table_mine(&table) == mine);
    check_str(mine->text, "still here");
    err_table_done(&table);
}

struct turns {
    pthread_barrier_t barrier;
    struct err_table table;
    int rounds;
};

static void *use_in_every_round(void *arg)
{
    struct turns *turns = arg;
    for (int i = 0; i < turns->rounds; i++) {
        pthread_barrier_wait(&turns->barrier);
        err_set(err_table_mine(&turns->table), -1, "round %d", i);
        pthread_barrier_wait(&turns->barrier);
    }
    pthread_barrier_wait(&turns->barrier);
    return NULL;
}

/* Closing a handle left an error behind for each living thread that had used it. The leak checker
 * sees one in the builds with it; the allocator's own figure grows in the others. */
TEST(err_table, what_a_living_thread_has_used_is_freed_with_the_table)
{
    struct turns turns = {.rounds = 500};
    pthread_t thread;
    pthread_barrier_init(&turns.barrier, NULL, 2);
    check_int(pthread_create(&thread, NULL, use_in_every_round, &turns), ==, 0);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < turns.rounds; i++) {
        check_int(err_table_init(&turns.table), ==, 0);
        pthread_barrier_wait(&turns.barrier);
        pthread_barrier_wait(&turns.barrier);
        check_int(turns.table.count, ==, 1);
        err_table_done(&turns.table);
    }
    check_int(mallinfo2().uordblks, <, before + (size_t)turns.rounds * sizeof(struct err) / 4);
    pthread_barrier_wait(&turns.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&turns.barrier);
}
