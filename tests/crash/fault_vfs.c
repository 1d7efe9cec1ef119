/* See fault_vfs.h. The images of files are in fault_image.c. */
#include "fault_vfs.h"

#include "fault_image.h"
#include "support/test.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

struct fault_file {
    sqlite3_file base;
    struct image *image; /* NULL for files that are not the database's: temporary ones */
    sqlite3_file real[]; /* of the wrapped layer */
};

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    pthread_mutex_t mutex; /* guards what follows, and the images */
    enum fault_kind kind;
    long at, calls;
    bool struck, power_off, full;
    struct rng rng;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct fault_file *)file)->real;
}

/* --- striking --- */

enum verdict { GO_ON, FAIL, FAIL_AFTER_A_PART };

/* Counts a call and decides about it. Under the mutex. */
static enum verdict judge(bool writes)
{
    state.calls++;
    if (state.power_off || (state.full && writes))
        return FAIL;
    if (state.kind == FAULT_NOTHING || state.calls != state.at)
        return GO_ON;
    state.struck = true;
    switch (state.kind) {
    case FAULT_DISK_FULL:
        state.full = true;
        return writes ? FAIL : GO_ON;
    case FAULT_POWER_OFF:
        state.power_off = true;
        return FAIL;
    case FAULT_TORN:
        state.power_off = true;
        return writes ? FAIL_AFTER_A_PART : FAIL;
    default:
        return FAIL;
    }
}

/* --- files --- */

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int bytes, sqlite3_int64 offset)
{
    if (__atomic_load_n(&state.power_off, __ATOMIC_RELAXED))
        return SQLITE_IOERR_READ;
    return real_of(file)->pMethods->xRead(real_of(file), data, bytes, offset);
}

static int write_part(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    struct image *image = ((struct fault_file *)file)->image;
    if (bytes > 0 && image != NULL)
        image_write(image, data, (size_t)bytes, offset);
    return bytes > 0 ? real_of(file)->pMethods->xWrite(real_of(file), data, bytes, offset)
                     : SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
    pthread_mutex_lock(&state.mutex);
    enum verdict verdict = judge(true);
    int rc = SQLITE_OK;
    if (verdict == GO_ON) {
        rc = write_part(file, data, bytes, offset);
    } else {
        rc = state.full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        if (verdict == FAIL_AFTER_A_PART)
            write_part(file, data, (int)rng_below(&state.rng, (uint64_t)bytes), offset);
    }
    pthread_mutex_unlock(&state.mutex);
    return rc;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct image *image = ((struct fault_file *)file)->image;
    int rc = SQLITE_IOERR_TRUNCATE;
    pthread_mutex_lock(&state.mutex);
    if (judge(false) == GO_ON) {
        if (image != NULL)
            image_truncate(image, size);
        rc = real_of(file)->pMethods->xTruncate(real_of(file), size);
    }
    pthread_mutex_unlock(&state.mutex);
    return rc;
}

static int file_sync(sqlite3_file *file, int flags)
{
    struct image *image = ((struct fault_file *)file)->image;
    int rc = SQLITE_OK;
    (void)flags;
    pthread_mutex_lock(&state.mutex);
    if (judge(false) != GO_ON)
        rc = SQLITE_IOERR_FSYNC;
    if (image != NULL && rc == SQLITE_OK)
        image_sync(image, &state.rng);
    if (image != NULL && rc != SQLITE_OK && !state.power_off)
        image_fail_sync(image);
    pthread_mutex_unlock(&state.mutex);
    return rc;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_lock(sqlite3_file *file, int *held)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **ret)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, ret);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int delete_it)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), delete_it);
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2, /* no memory-mapped reading: it would go past us */
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* --- the layer --- */

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    struct fault_file *ours = (struct fault_file *)file;
    (void)vfs;
    file->pMethods = NULL;
    if (__atomic_load_n(&state.power_off, __ATOMIC_RELAXED))
        return SQLITE_CANTOPEN;
    int rc = state.real->xOpen(state.real, name, ours->real, flags, ret_flags);
    if (rc != SQLITE_OK)
        return rc;
    pthread_mutex_lock(&state.mutex);
    ours->image = name == NULL || (flags & SQLITE_OPEN_DELETEONCLOSE) != 0 ? NULL : image_of(name);
    pthread_mutex_unlock(&state.mutex);
    file->pMethods = &file_methods;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    int rc = SQLITE_IOERR_DELETE;
    (void)vfs;
    pthread_mutex_lock(&state.mutex);
    if (judge(false) == GO_ON) {
        image_forget(name);
        rc = state.real->xDelete(state.real, name, sync_folder);
    }
    pthread_mutex_unlock(&state.mutex);
    return rc;
}

void fault_vfs_install(void)
{
    if (state.real == NULL) {
        state.real = sqlite3_vfs_find("unix");
        check(state.real != NULL);
        state.vfs =
            *state.real; /* what is not replaced does not look at the vfs it is called with */
        state.vfs.zName = "fault";
        state.vfs.szOsFile = (int)sizeof(struct fault_file) + state.real->szOsFile;
        state.vfs.xOpen = vfs_open;
        state.vfs.xDelete = vfs_delete;
    }
    state.kind = FAULT_NOTHING;
    state.calls = 0;
    state.struck = state.power_off = state.full = false;
    image_forget_all();
    check_int(sqlite3_vfs_register(&state.vfs, 1), ==, SQLITE_OK);
}

void fault_vfs_remove(void)
{
    check_int(sqlite3_vfs_register(state.real, 1), ==, SQLITE_OK);
}

void fault_vfs_plan(enum fault_kind kind, long at, const struct rng *rng)
{
    state.kind = kind;
    state.at = at;
    state.rng = *rng;
}

void fault_vfs_heal(void)
{
    pthread_mutex_lock(&state.mutex);
    state.kind = FAULT_NOTHING;
    state.full = false;
    pthread_mutex_unlock(&state.mutex);
}

long fault_vfs_calls(void)
{
    return state.calls;
}

bool fault_vfs_struck(void)
{
    return state.struck;
}

void fault_vfs_survivors(const char *folder, enum survival survival)
{
    pthread_mutex_lock(&state.mutex);
    image_write_all(folder, survival, &state.rng);
    pthread_mutex_unlock(&state.mutex);
}
