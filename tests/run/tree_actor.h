/* The parts of tree_actor; see tree_actor.c. */
#ifndef TESTS_RUN_TREE_ACTOR_H
#define TESTS_RUN_TREE_ACTOR_H

void actor_note_pid(const char *path);
_Noreturn void actor_linger(void);

/*
 * A worker: HELPER FOLDER [DEADLINE_MS]. Starts two steps that leave a daemon and go on, without
 * an environment and with it, and one that ignores SIGTERM; writes pids to FOLDER/{first,daemon,
 * marked,stubborn,nursery}, then to FOLDER/ready, and lingers. FOLDER is also
 * the marker.
 */
void actor_work(char **args);

#endif
