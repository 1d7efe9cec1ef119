/*
 * fork() at any call of a history. The child is a process of its own, in which every handle of the
 * simulation is dead: each refuses a call, and closing them does nothing to the store, as the model
 * sees at the next commit. Where nobody was in a transaction, the child opens the store anew.
 */
#include "fake_db.h"

#include <sys/wait.h>
#include <unistd.h>

/* How the child ends. */
enum { CHILD_FINE, CHILD_WRITES, CHILD_READS, CHILD_CANNOT_OPEN };

static const char *const found[] = {
    [CHILD_WRITES] = "can write through a handle of its parent",
    [CHILD_READS] = "can read through a handle of its parent",
    [CHILD_CANNOT_OPEN] = "cannot open the store",
};

static int do_nothing(struct db_tx *tx, void *arg)
{
    (void)tx;
    (void)arg;
    return 0;
}

static int use_handle(struct db *real)
{
    struct arena arena = {0};
    struct err err;
    if (db_write(real, &arena, do_nothing, NULL, &err) != TEND_ESTATE)
        return CHILD_WRITES;
    if (db_read(real, &arena, do_nothing, NULL, &err) != TEND_ESTATE)
        return CHILD_READS;
    db_close(real);
    return CHILD_FINE;
}

static int use_handles(struct world *world)
{
    int worst = CHILD_FINE;
    for (int i = 0; i < world->actor_count; i++)
        if (world->actors[i].t != NULL && worst == CHILD_FINE)
            worst = use_handle(world->actors[i].fake->real);
    return worst;
}

static int open_anew(struct world *world)
{
    struct db *db = NULL;
    struct err err;
    if (world_open_store(world, &db, &err) < 0)
        return CHILD_CANNOT_OPEN;
    db_close(db);
    return CHILD_FINE;
}

static int act(struct world *world, bool between_calls)
{
    int end = use_handles(world);
    return end == CHILD_FINE && between_calls ? open_anew(world) : end;
}

void fault_fork(struct world *world, struct actor *actor, bool between_calls)
{
    int status = 0;
    say(world, "    fault: %s forks", actor->name);
    pid_t pid = world->sabotage == SABOTAGE_FORK_UNNOTICED ? _Fork() : fork();
    if (pid == 0)
        _exit(act(world, between_calls && world->depth == 0));
    expect(world, pid > 0 && waitpid(pid, &status, 0) == pid, "fork() fails");
    expect(world, WIFEXITED(status), "the child of a fork is ended by signal %d", WTERMSIG(status));
    expect(world, WEXITSTATUS(status) == CHILD_FINE, "the child of a fork %s",
           found[WEXITSTATUS(status) % (CHILD_CANNOT_OPEN + 1)]);
}
