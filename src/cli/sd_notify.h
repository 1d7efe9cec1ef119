/*
 * Telling systemd how a service is: the notify protocol (one datagram per message to the socket
 * named in NOTIFY_SOCKET) and its watchdog.
 *
 * Not libsystemd, which is a large library for twenty lines. Where no service manager asks for it
 * every call does nothing. The variables are taken out of the environment, so that nothing a worker
 * starts speaks for it.
 */
#ifndef CLI_SD_NOTIFY_H
#define CLI_SD_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sd_notifier {
    int fd; /* -1: nobody listens */
    struct sockaddr_un address;
    socklen_t address_bytes;
    int64_t watchdog_ms; /* a sign of life is wanted at least so often; 0: it is not */
};

/* Reads the environment; before any other thread runs. */
void sd_notifier_open(struct sd_notifier *notifier);
void sd_notifier_close(struct sd_notifier *notifier);

/* "READY=1", "STATUS=…", "STOPPING=1", "WATCHDOG=1"; several with line ends between. */
void sd_notify_send(const struct sd_notifier *notifier, const char *message);

#endif
