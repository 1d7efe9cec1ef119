/* See disk_text.h. */
#include "cli/disk_text.h"

#include "cli/json_out.h"
#include "cli/store_place.h"

#include <inttypes.h>
#include <stdio.h>

/* By kind: its name in JSON, and what it is called when there is one of it or several. */
static const struct {
    const char *name, *one, *many;
} kinds[TEND_DISK_KINDS] = {
    [TEND_DISK_IN_USE] = {"in_use", "folder of an attempt in use", "folders of attempts in use"},
    [TEND_DISK_KEPT] = {"kept", "workspace kept for people", "workspaces kept for people"},
    [TEND_DISK_JOBS] = {"jobs", "job with patches and records", "jobs with patches and records"},
    [TEND_DISK_MIRRORS] = {"mirrors", "copy of a repository", "copies of repositories"},
    [TEND_DISK_OTHER_STORE] = {"other_store", "folder of a job", "folders of jobs"},
    [TEND_DISK_OTHER_HOST] = {"other_host", "folder of an attempt", "folders of attempts"},
    [TEND_DISK_UNMARKED] = {"unmarked", "folder of a job", "folders of jobs"},
    [TEND_DISK_LEFT] = {"left", "folder of an ended attempt", "folders of ended attempts"},
    [TEND_DISK_GONE] = {"gone", "folder of a deleted job", "folders of deleted jobs"},
    [TEND_DISK_OLD_MIRRORS] = {"old_mirrors", "unused copy of a repository",
                               "unused copies of repositories"},
};

const char *bytes_text(int64_t bytes, char out[BYTES_TEXT_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t unit = 0;
    for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        size /= 1024;
    if (bytes < 1024)
        snprintf(out, BYTES_TEXT_BYTES, "%" PRId64 " B", bytes);
    else
        snprintf(out, BYTES_TEXT_BYTES, "%.1f %s", size, units[unit]);
    return out;
}

const char *disk_folder(const char *given)
{
    const char *beside = store_place_run_folder();
    return given ? given : beside ? beside : TEND_RUN_FOLDER;
}

struct tend_disk_use disk_unneeded(const struct tend_disk *disk)
{
    struct tend_disk_use sum = {0};
    for (int kind = TEND_DISK_LEFT; kind <= TEND_DISK_OLD_MIRRORS; kind++) {
        sum.count += disk->uses[kind].count;
        sum.bytes += disk->uses[kind].bytes;
    }
    return sum;
}

/* "1 job with patches and records" */
static void put_count(struct buf *out, enum tend_disk_kind kind, int64_t count)
{
    buf_printf(out, "%" PRId64 " %s", count, count == 1 ? kinds[kind].one : kinds[kind].many);
}

/* Those of the kinds that there are, with commas and "and"; with_bytes: each with its size. */
static void put_kinds(struct buf *out, const struct tend_disk *disk, int first, int last,
                      bool with_bytes)
{
    char size[BYTES_TEXT_BYTES];
    int left = 0;
    for (int kind = first; kind <= last; kind++)
        left += disk->uses[kind].count > 0;
    for (int kind = first; kind <= last; kind++) {
        const struct tend_disk_use *use = &disk->uses[kind];
        if (use->count == 0)
            continue;
        put_count(out, (enum tend_disk_kind)kind, use->count);
        if (with_bytes)
            buf_printf(out, " (%s)", bytes_text(use->bytes, size));
        left--;
        buf_puts(out, left > 1 ? ", " : left == 1 ? " and " : "");
    }
}

void disk_put_unneeded(struct buf *out, const struct tend_disk *disk)
{
    put_kinds(out, disk, TEND_DISK_LEFT, TEND_DISK_OLD_MIRRORS, false);
}

void disk_json(struct buf *out, const struct tend_disk *disk)
{
    for (int kind = 0; kind < TEND_DISK_KINDS; kind++) {
        json_open(out, kinds[kind].name, '{');
        json_int(out, "count", disk->uses[kind].count);
        json_int(out, "bytes", disk->uses[kind].bytes);
        json_close(out, '}');
    }
}

/* --- findings --- */

static void put_unneeded_finding(struct buf *text, const char *folder, const struct tend_disk *disk)
{
    char size[BYTES_TEXT_BYTES];
    struct tend_disk_use unneeded = disk_unneeded(disk);
    if (unneeded.count == 0) {
        buf_printf(text, "nothing is left over in %s", folder);
        return;
    }
    disk_put_unneeded(text, disk);
    buf_printf(text, " %s %s in %s that nothing needs; a worker or 'tend heal' removes %s",
               unneeded.count == 1 ? "takes" : "take", bytes_text(unneeded.bytes, size), folder,
               unneeded.count == 1 ? "it" : "them");
}

/* What is left alone, and why. */
static const struct {
    enum tend_disk_kind kind;
    const char *what, *why;
} strangers[] = {
    {TEND_DISK_OTHER_STORE, "other stores",
     "of another store, of a copy of this one, or of this one before it was restored: left alone"},
    {TEND_DISK_OTHER_HOST, "other machines",
     "of which something may still run on another machine: left to its workers"},
    {TEND_DISK_UNMARKED, "unmarked",
     "of which it is not known which store they belong to: left alone; if nothing needs them, "
     "remove them by hand"},
};

void disk_report(const char *folder, const struct tend_disk *disk,
                 void (*report)(void *arg, enum tend_verdict verdict, const char *what,
                                const char *text),
                 void *arg)
{
    struct buf text;
    if (!disk->there)
        return;
    buf_init(&text);
    put_unneeded_finding(&text, folder, disk);
    report(arg, disk_unneeded(disk).count > 0 ? TEND_NOTE : TEND_FINE, "left over", text.data);
    buf_clear(&text);
    put_kinds(&text, disk, TEND_DISK_IN_USE, TEND_DISK_MIRRORS, true);
    if (text.len > 0)
        report(arg, TEND_FINE, "files", text.data);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        char size[BYTES_TEXT_BYTES];
        const struct tend_disk_use *use = &disk->uses[strangers[i].kind];
        if (use->count == 0)
            continue;
        buf_clear(&text);
        put_count(&text, strangers[i].kind, use->count);
        buf_printf(&text, " (%s) in %s, %s", bytes_text(use->bytes, size), folder,
                   strangers[i].why);
        report(arg, TEND_NOTE, strangers[i].what, text.data);
    }
    buf_done(&text);
}
