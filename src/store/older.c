#include "store/older.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

enum { NAMED_MOST = 3, NAME_MOST = 60, HOST_MOST = 30 };

void older_add(struct older_workers *workers, const char *name, int64_t pid, const char *host)
{
    size_t used = strlen(workers->names);
    if (workers->count++ < NAMED_MOST)
        snprintf(workers->names + used, sizeof workers->names - used, "%s%.*s (pid %lld on %.*s)",
                 used > 0 ? ", " : "", (int)utf8_floor(name, strlen(name), NAME_MOST), name,
                 (long long)pid, (int)utf8_floor(host, strlen(host), HOST_MOST), host);
}

int older_refuse(const struct older_workers *workers, const char *where, int version, int wanted,
                 struct err *err)
{
    char more[32] = "";
    if (workers->count == 0)
        return 0;
    if (workers->count > NAMED_MOST)
        snprintf(more, sizeof more, " and %zu more", workers->count - NAMED_MOST);
    return err_set(
        err, TEND_ESTATE,
        "%.80s has schema %d, this tend needs %d, and workers of an older tend run on it: "
        "%s%s; stop them and run 'tend migrate'",
        where, version, wanted, workers->names, more);
}
