/*
 * datagrams udp|unix:PATH|unix:@NAME: prints every datagram that comes, each with a line end
 * behind. With udp, the first line is the port. Ends when it is killed, or after two minutes.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int open_udp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (const struct sockaddr *)&address, bytes) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
        return -1;
    printf("%d\n", ntohs(address.sin_port));
    return fd;
}

static int open_unix(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if (len >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (bind(fd, (const struct sockaddr *)&address, bytes) < 0)
        return -1;
    printf("bound\n");
    return fd;
}

int main(int argc, char **argv)
{
    char packet[65536];
    const char *what = argc > 1 ? argv[1] : "";
    int fd = strncmp(what, "unix:", 5) == 0 ? open_unix(what + 5) : open_udp();
    if (fd < 0) {
        perror(what);
        return 1;
    }
    alarm(120);
    setvbuf(stdout, NULL, _IOLBF, 0);
    fflush(stdout);
    for (ssize_t bytes; (bytes = recv(fd, packet, sizeof packet, 0)) >= 0;)
        printf("%.*s\n", (int)bytes, packet);
    return 0;
}
