#include "store/byte_lock.h"

#include <fcntl.h>
#include <stdio.h>

static int call(int fd, int command, struct flock *lock, int64_t byte, short type)
{
    *lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, command, lock);
}

int byte_lock_set(int fd, int64_t byte, short type)
{
    struct flock lock;
    return call(fd, F_OFD_SETLK, &lock, byte, type);
}

int byte_lock_wait(int fd, int64_t byte, short type)
{
    struct flock lock;
    return call(fd, F_OFD_SETLKW, &lock, byte, type);
}

int byte_lock_ask(int fd, int64_t byte, short type)
{
    struct flock lock;
    return call(fd, F_OFD_GETLK, &lock, byte, type) != 0 ? -1 : lock.l_type != F_UNLCK;
}
