/* See sd_notify.h. */
#include "cli/sd_notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path, or with @ in front a name in the kernel's own space. */
static int read_address(struct sd_notifier *notifier, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    if (len < 2 || (name[0] != '/' && name[0] != '@') || len >= sizeof notifier->address.sun_path)
        return -1;
    notifier->address.sun_family = AF_UNIX;
    memcpy(notifier->address.sun_path, name, len);
    if (name[0] == '@')
        notifier->address.sun_path[0] = '\0';
    notifier->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* In milliseconds; 0 where no watchdog waits for this process. */
static int64_t read_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && *pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    long long ms = strtoll(usec, NULL, 10) / 1000;
    return ms > 0 ? ms : 0;
}

void sd_notifier_open(struct sd_notifier *notifier)
{
    *notifier = (struct sd_notifier){.fd = -1};
    notifier->fd = read_address(notifier, getenv("NOTIFY_SOCKET"));
    if (notifier->fd >= 0)
        notifier->watchdog_ms = read_watchdog();
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void sd_notifier_close(struct sd_notifier *notifier)
{
    if (notifier->fd >= 0)
        close(notifier->fd);
    notifier->fd = -1;
}

void sd_notify_send(const struct sd_notifier *notifier, const char *message)
{
    if (notifier->fd < 0)
        return;
    /* Nobody is there to be told that nobody listens. */
    ssize_t ignored = sendto(notifier->fd, message, strlen(message), MSG_NOSIGNAL | MSG_DONTWAIT,
                             (const struct sockaddr *)&notifier->address, notifier->address_bytes);
    (void)ignored;
}
