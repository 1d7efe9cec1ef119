#include "fault_vfs.h"
#include "fault_disk.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In place of the C library's and named as there, for the whole program; see fault_vfs.h. */
int fdatasync(int __fildes)
{
    (void)__fildes;
    return 0;
}

int fsync(int __fd)
{
    (void)__fd;
    return 0;
}

/* Our part of an open file; the real one's follows it in memory. */
struct shim_file {
    sqlite3_file base;
    char *path;
    bool syncs_folder; /* the real one syncs the folder along with its first sync */
};

static struct {
    sqlite3_vfs *real;
    sqlite3_vfs vfs;
    pthread_mutex_t mutex;
    struct fault_plan plan;
    struct rng dice;
    unsigned calls;
} shim = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return (sqlite3_file *)((struct shim_file *)file + 1);
}

static const char *path_of(sqlite3_file *file)
{
    return ((struct shim_file *)file)->path;
}

unsigned fault_vfs_calls(void)
{
    pthread_mutex_lock(&shim.mutex);
    unsigned calls = shim.calls;
    pthread_mutex_unlock(&shim.mutex);
    return calls;
}

bool fault_vfs_struck(void)
{
    return shim.plan.at > 0 && fault_vfs_calls() >= shim.plan.at;
}

/* --- when it strikes; all of this under the mutex --- */

_Noreturn static void end_by_power(bool loses, bool by_dice)
{
    if (loses)
        disk_lose_power(by_dice ? &shim.dice : NULL);
    _exit(FAULT_POWER_STATUS); /* threads and all */
}

/* Writes a part and is gone. */
_Noreturn static void tear(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    int part = (int)rng_below(&shim.dice, (uint64_t)bytes + 1);
    if (part > 0)
        real_of(file)->pMethods->xWrite(real_of(file), data, part, offset);
    end_by_power(false, false);
}

/*
 * Counts a call that changes something. SQLITE_OK: it may go on; otherwise what to answer, which is
 * error unless space is what is wanting, and needs_space says whether it does.
 */
static int count_call(int error, bool needs_space)
{
    if (shim.plan.kind == FAULT_READ)
        return SQLITE_OK;
    shim.calls++;
    if (shim.plan.at == 0 || shim.calls < shim.plan.at)
        return SQLITE_OK;
    bool now = shim.calls == shim.plan.at;
    switch (shim.plan.kind) {
    case FAULT_ERROR:
        return now ? error : SQLITE_OK;
    case FAULT_ERRORS:
        return error;
    case FAULT_FULL:
        return !now ? SQLITE_OK : needs_space ? SQLITE_FULL : error;
    case FAULT_FULL_ON:
        return needs_space ? SQLITE_FULL : SQLITE_OK;
    case FAULT_LOSE:
        end_by_power(true, false);
    case FAULT_LOSE_SOME:
        end_by_power(true, true);
    case FAULT_TEAR: /* not a write, or it would have been torn */
        end_by_power(false, false);
    case FAULT_READ:
    case FAULT_NONE:
        break;
    }
    return SQLITE_OK;
}

/* --- a file --- */

static int shim_close(sqlite3_file *file)
{
    int rc = real_of(file)->pMethods->xClose(real_of(file));
    free(((struct shim_file *)file)->path);
    return rc;
}

static int shim_read(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset)
{
    pthread_mutex_lock(&shim.mutex);
    bool fails = shim.plan.kind == FAULT_READ && ++shim.calls == shim.plan.at;
    pthread_mutex_unlock(&shim.mutex);
    return fails ? SQLITE_IOERR_READ
                 : real_of(file)->pMethods->xRead(real_of(file), data, bytes, offset);
}

static int shim_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    pthread_mutex_lock(&shim.mutex);
    if (shim.plan.kind == FAULT_TEAR && shim.calls + 1 == shim.plan.at)
        tear(file, data, bytes, offset);
    int rc = count_call(SQLITE_IOERR_WRITE, true);
    if (rc == SQLITE_OK) {
        rc = real_of(file)->pMethods->xWrite(real_of(file), data, bytes, offset);
        disk_write(path_of(file), data, (size_t)bytes, offset);
    }
    pthread_mutex_unlock(&shim.mutex);
    return rc;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    pthread_mutex_lock(&shim.mutex);
    int rc = count_call(SQLITE_IOERR_TRUNCATE, false);
    if (rc == SQLITE_OK) {
        rc = real_of(file)->pMethods->xTruncate(real_of(file), size);
        disk_truncate(path_of(file), size);
    }
    pthread_mutex_unlock(&shim.mutex);
    return rc;
}

static int shim_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    pthread_mutex_lock(&shim.mutex);
    struct shim_file *mine = (struct shim_file *)file;
    int rc = count_call(SQLITE_IOERR_FSYNC, false);
    if (rc == SQLITE_OK)
        disk_sync(path_of(file));
    if (rc == SQLITE_OK && mine->syncs_folder)
        disk_sync_folder();
    mine->syncs_folder &= rc != SQLITE_OK;
    pthread_mutex_unlock(&shim.mutex);
    return rc;
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret);
}

static int shim_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int shim_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int shim_check_lock(sqlite3_file *file, int *ret)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret);
}

static int shim_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int shim_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int shim_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shim_shm_map(sqlite3_file *file, int region, int bytes, int extend, void volatile **ret)
{
    pthread_mutex_lock(&shim.mutex);
    int rc = extend != 0 ? count_call(SQLITE_IOERR_SHMSIZE, true) : SQLITE_OK;
    pthread_mutex_unlock(&shim.mutex);
    return rc != SQLITE_OK
               ? rc
               : real_of(file)->pMethods->xShmMap(real_of(file), region, bytes, extend, ret);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shim_shm_unmap(sqlite3_file *file, int also_delete)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), also_delete);
}

/*
 * Version 2: with shared memory, which WAL needs, without mapping the file itself, which tend never
 * asks for.
 */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_lock,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector_size,
    .xDeviceCharacteristics = shim_characteristics,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

/* --- the VFS: the real one's, but for opening and deleting --- */

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    struct shim_file *mine = (struct shim_file *)file;
    (void)vfs;
    memset(mine, 0, sizeof *mine);
    pthread_mutex_lock(&shim.mutex);
    disk_open(name != NULL ? name : "?");
    pthread_mutex_unlock(&shim.mutex);
    int rc = shim.real->xOpen(shim.real, name, real_of(file), flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    mine->path = strdup(name != NULL ? name : "?");
    mine->base.pMethods = &methods;
    mine->syncs_folder = (flags & SQLITE_OPEN_CREATE) != 0 &&
                         (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    return SQLITE_OK;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    pthread_mutex_lock(&shim.mutex);
    int rc = count_call(SQLITE_IOERR_DELETE, false);
    if (rc == SQLITE_OK) {
        rc = shim.real->xDelete(shim.real, name, 0);
        disk_delete(name, sync_folder != 0);
    }
    pthread_mutex_unlock(&shim.mutex);
    return rc;
}

void fault_vfs_install(const struct fault_plan *plan)
{
    shim.real = sqlite3_vfs_find(NULL);
    shim.plan = *plan;
    rng_seed(&shim.dice, plan->seed);
    shim.vfs = *shim.real;
    shim.vfs.zName = "fault";
    shim.vfs.pNext = NULL;
    shim.vfs.szOsFile = (int)sizeof(struct shim_file) + shim.real->szOsFile;
    shim.vfs.xOpen = shim_open;
    shim.vfs.xDelete = shim_delete;
    sqlite3_vfs_register(&shim.vfs, 1);
}
