/* See tree_wire.h. */
#include "run/tree_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control { /* aligned for its header */
    struct cmsghdr head;
    char bytes[CMSG_SPACE(WIRE_FDS * sizeof(int))];
};

int wire_send(int socket, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
              const int *fds, size_t fd_count)
{
    struct iovec parts[2] = {{(void *)head, head_bytes}, {(void *)body, body_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = body ? 2 : 1};
    union control control;
    if (fd_count > WIRE_FDS)
        return -EINVAL;
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static size_t take_fds(struct msghdr *message, int *fds)
{
    size_t count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(at), count * sizeof(int));
    }
    return count;
}

ssize_t wire_receive(int socket, void *packet, size_t size, int *ret_fds, size_t *ret_fd_count)
{
    struct iovec part = {packet, size};
    union control control;
    struct msghdr message;
    ssize_t got;
    do {
        message = (struct msghdr){
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = ret_fds ? &control : NULL,
            .msg_controllen = ret_fds ? sizeof control : 0,
        };
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        /* A reset is told once, before the packets that came ahead of it and the end. */
    } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    if (got < 0)
        return -errno;
    if (ret_fds)
        *ret_fd_count = take_fds(&message, ret_fds);
    if ((message.msg_flags & MSG_TRUNC) || (ret_fds && message.msg_flags & MSG_CTRUNC)) {
        if (ret_fds)
            wire_close_all(ret_fds, *ret_fd_count);
        return -EMSGSIZE;
    }
    return got;
}

void wire_close_all(const int *fds, size_t fd_count)
{
    for (size_t i = 0; i < fd_count; i++)
        close(fds[i]);
}
