#include "store/forks.h"

#include "store/gate.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* libpq closes a broken socket by itself, and its number may be a file of the program's then: the
 * inode, which no two sockets share, tells. */
struct known_socket {
    int fd;
    ino_t inode;
};

static struct {
    pthread_mutex_t mutex; /* guards what follows, and is held while the process forks */
    struct fork_link *first;
    struct known_socket *sockets;
    size_t socket_count, socket_space;
    int changing;   /* threads that open or close a store */
    bool cut_short; /* there were some in the process from which this one was forked */
} forks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&forks.mutex);
    for (struct fork_link *link = forks.first; link != NULL; link = link->next)
        if (link->before != NULL)
            link->before(link->arg);
}

static void after_in_parent(void)
{
    for (struct fork_link *link = forks.first; link != NULL; link = link->next)
        if (link->parent != NULL)
            link->parent(link->arg);
    pthread_mutex_unlock(&forks.mutex);
}

/* The number of the descriptor stays taken: libpq still has it, and must reach nobody by it. */
static void blind_sockets(void)
{
    int nowhere = forks.socket_count == 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < forks.socket_count; i++) {
        struct stat status;
        int fd = forks.sockets[i].fd;
        if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) ||
            status.st_ino != forks.sockets[i].inode)
            continue;
        if (nowhere < 0 || dup3(nowhere, fd, O_CLOEXEC) < 0)
            close(fd);
    }
    if (nowhere >= 0)
        close(nowhere);
    forks.socket_count = 0;
}

static void after_in_child(void)
{
    gate_after_fork();
    blind_sockets();
    forks.cut_short |= forks.changing > 0;
    forks.changing = 0;
    for (struct fork_link *link = forks.first; link != NULL; link = link->next)
        if (link->child != NULL)
            link->child(link->arg);
    pthread_mutex_unlock(&forks.mutex);
}

static void begin(void)
{
    pthread_atfork(before_fork, after_in_parent, after_in_child);
}

void forks_add(struct fork_link *link)
{
    pthread_once(&once, begin);
    pthread_mutex_lock(&forks.mutex);
    link->linked = true;
    link->previous = NULL;
    link->next = forks.first;
    if (forks.first != NULL)
        forks.first->previous = link;
    forks.first = link;
    pthread_mutex_unlock(&forks.mutex);
}

void forks_remove(struct fork_link *link)
{
    if (!link->linked)
        return;
    pthread_mutex_lock(&forks.mutex);
    if (link->previous != NULL)
        link->previous->next = link->next;
    else
        forks.first = link->next;
    if (link->next != NULL)
        link->next->previous = link->previous;
    link->linked = false;
    pthread_mutex_unlock(&forks.mutex);
}

void forks_begin_change(void)
{
    pthread_once(&once, begin);
    pthread_mutex_lock(&forks.mutex);
    forks.changing++;
    pthread_mutex_unlock(&forks.mutex);
}

void forks_end_change(void)
{
    pthread_mutex_lock(&forks.mutex);
    if (forks.changing > 0) /* none: this is the child of a fork that the thread itself made */
        forks.changing--;
    pthread_mutex_unlock(&forks.mutex);
}

bool forks_cut_short(void)
{
    pthread_mutex_lock(&forks.mutex);
    bool cut_short = forks.cut_short;
    pthread_mutex_unlock(&forks.mutex);
    return cut_short;
}

/* Under the mutex. NULL: it is not there. */
static struct known_socket *find_socket(int fd)
{
    for (size_t i = 0; i < forks.socket_count; i++)
        if (forks.sockets[i].fd == fd)
            return &forks.sockets[i];
    return NULL;
}

/* Under the mutex. NULL: out of memory. */
static struct known_socket *new_socket(void)
{
    if (forks.socket_count == forks.socket_space) {
        size_t space = forks.socket_space * 2 + 16;
        struct known_socket *more = realloc(forks.sockets, space * sizeof *more);
        if (more == NULL)
            return NULL;
        forks.sockets = more;
        forks.socket_space = space;
    }
    return &forks.sockets[forks.socket_count++];
}

void forks_add_socket(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    pthread_once(&once, begin);
    pthread_mutex_lock(&forks.mutex);
    struct known_socket *known = find_socket(fd);
    if (known == NULL)
        known = new_socket();
    if (known != NULL)
        *known = (struct known_socket){.fd = fd, .inode = status.st_ino};
    pthread_mutex_unlock(&forks.mutex);
}

void forks_remove_socket(int fd)
{
    pthread_mutex_lock(&forks.mutex);
    struct known_socket *known = find_socket(fd);
    if (known != NULL)
        *known = forks.sockets[--forks.socket_count];
    if (forks.socket_count == 0) {
        free(forks.sockets);
        forks.sockets = NULL;
        forks.socket_space = 0;
    }
    pthread_mutex_unlock(&forks.mutex);
}
