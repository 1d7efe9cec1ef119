#include "support/mounts.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

/* Whether a mount passes on to other namespaces what is mounted below it. */
static bool any_is_shared(void)
{
    char line[4096];
    bool shared = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL)
        return true;
    while (fgets(line, sizeof line, file) != NULL)
        shared |= strstr(line, " shared:") != NULL;
    fclose(file);
    return shared;
}

/* In a chroot the root is a plain folder, and the mount it lies on cannot be named: then there must
 * be nothing to change. */
bool mounts_private(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    if (!any_is_shared())
        return true;
    errno = EINVAL;
    return false;
}

bool mounts_own(void)
{
    return unshare(CLONE_NEWNS) == 0 && mounts_private();
}

bool mounts_proc(void)
{
    return mount("proc", "/proc", "proc", 0, NULL) == 0;
}

bool mounts_disk(const char *folder, const char *size)
{
    char options[64];
    snprintf(options, sizeof options, "size=%s", size);
    return mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}
