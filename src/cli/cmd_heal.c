/* tend heal: find and heal everything stale, now and by hand. */
#include "cli/cli.h"
#include "cli/disk_text.h"
#include "cli/json_out.h"
#include "cli/purge.h"

#include <inttypes.h>

static struct {
    bool dry_run;
    int64_t older_than_ms;
    const char *folder;
} args = {.older_than_ms = TEND_UNSET};

static const struct option options[] = {
    OPTION("dry-run", 0, NULL, OPTION_FLAG, "say what would be healed, change nothing",
           &args.dry_run),
    OPTION(
        "older-than", 0, "DURATION", OPTION_DURATION,
        "also reclaim running jobs without a sign of life for this long, even if their lease has not expired",
        &args.older_than_ms),
    OPTION("folder", 0, "FOLDER", OPTION_TEXT,
           "of workers, from which what nothing needs is removed (default: as of 'tend work')",
           &args.folder),
    OPTION_END,
};

/*
 * What --older-than would take: all that is stale anyway, and running jobs by the time since their
 * last sign of life. Where both count different jobs of dead workers, the larger figure stands.
 */
static int count_silent(struct cli *cli, struct tend_recovery *ret)
{
    int code = tend_get_recovery_stats(cli->store, ret);
    if (code < 0)
        return code;
    int64_t now_ms = ret->recovery_timestamp_ms;
    int64_t count = 0;
    struct tend_filter filter;
    tend_filter_init(&filter);
    filter.states = 1u << TEND_RUNNING;
    for (bool last = false; !last;) {
        struct tend_jobs *jobs;
        code = tend_list(cli->store, &filter, &jobs);
        if (code < 0)
            return code;
        for (size_t i = 0; i < jobs->count; i++)
            count += now_ms - jobs->items[i].seen_at_ms >= args.older_than_ms ||
                     jobs->items[i].until_ms <= now_ms;
        last = jobs->count == 0;
        if (!last)
            filter.after_id = jobs->items[jobs->count - 1].id;
        tend_jobs_free(jobs);
    }
    count -= ret->entries_skipped;
    if (count > ret->entries_reclaimed)
        ret->entries_reclaimed = count;
    return 0;
}

static int heal(struct cli *cli, struct tend_recovery *ret)
{
    bool by_age = args.older_than_ms != TEND_UNSET;
    if (args.dry_run)
        return by_age ? count_silent(cli, ret) : tend_get_recovery_stats(cli->store, ret);
    return by_age ? tend_reclaim_stale(cli->store, args.older_than_ms, ret)
                  : tend_detect_and_recover_stale(cli->store, ret);
}

static size_t named(const struct tend_recovery *recovery)
{
    return recovery->entries_skipped < TEND_SKIPPED_NAMED ? (size_t)recovery->entries_skipped
                                                          : TEND_SKIPPED_NAMED;
}

static void put_skipped(struct buf *out, const struct tend_recovery *recovery)
{
    int64_t skipped = recovery->entries_skipped;
    if (skipped == 0)
        return;
    buf_printf(out, "%s %" PRId64 " %s whose row another session holds:",
               args.dry_run ? "would skip" : "skipped", skipped, skipped == 1 ? "job" : "jobs");
    for (size_t i = 0; i < named(recovery); i++)
        buf_printf(out, "%s %" PRId64, i == 0 ? "" : ",", recovery->skipped_ids[i]);
    if (skipped > TEND_SKIPPED_NAMED)
        buf_puts(out, ", …");
    if (*recovery->skipped_by)
        buf_printf(out, "; %" PRId64 " by %s", recovery->skipped_ids[0], recovery->skipped_by);
    buf_printf(out, "; see 'tend explain %" PRId64 "'\n", recovery->skipped_ids[0]);
}

/* "3 jobs reclaimed (1 of them quarantined), 0 locks cleaned" */
static void put_healed(struct buf *out, const struct tend_recovery *recovery)
{
    int64_t jobs = recovery->entries_reclaimed;
    int64_t locks = recovery->locks_cleaned;
    const char *would = args.dry_run ? "would be " : "";
    buf_printf(out, "%" PRId64 " %s %sreclaimed", jobs, jobs == 1 ? "job" : "jobs", would);
    if (recovery->entries_quarantined > 0)
        buf_printf(out, " (%" PRId64 " of them quarantined)", recovery->entries_quarantined);
    buf_printf(out, ", %" PRId64 " %s %scleaned\n", locks, locks == 1 ? "lock" : "locks", would);
}

/* What nothing needs goes. When it cannot, that is said: the store is healed all the same. */
static void clean(struct cli *cli, struct tend_disk *ret)
{
    const char *folder = disk_folder(args.folder);
    *ret = (struct tend_disk){0};
    int code = args.dry_run ? tend_disk_look(cli->store, folder, ret)
                            : tend_disk_clean(cli->store, folder, ret);
    if (code < 0)
        cli_note(cli, "heal: %s is left as it is: %s", folder, tend_errmsg(cli->store));
    else if (ret->failed > 0)
        cli_note(cli, "heal: not all of %s could be removed: %s", folder, ret->problem);
}

static void put_cleaned(struct buf *out, const struct tend_disk *disk)
{
    char size[BYTES_TEXT_BYTES];
    struct tend_disk_use unneeded = disk_unneeded(disk);
    if (unneeded.count == 0)
        return;
    disk_put_unneeded(out, disk);
    buf_printf(out, " %s, %s\n", args.dry_run ? "would be removed" : "removed",
               bytes_text(unneeded.bytes, size));
}

static void put_cleaned_json(struct buf *out, const struct tend_disk *disk)
{
    json_open(out, "removed", '{');
    json_int(out, "attempt_folders", disk->uses[TEND_DISK_LEFT].count);
    json_int(out, "job_folders", disk->uses[TEND_DISK_GONE].count);
    json_int(out, "mirrors", disk->uses[TEND_DISK_OLD_MIRRORS].count);
    json_int(out, "bytes", disk_unneeded(disk).bytes);
    json_int(out, "failed", disk->failed);
    json_close(out, '}');
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_recovery recovery;
    struct tend_purged purged;
    struct tend_disk disk;
    int code = heal(cli, &recovery);
    if (code >= 0)
        code =
            args.dry_run ? tend_purge_count(cli->store, &purged) : tend_purge(cli->store, &purged);
    if (code < 0)
        return cli_fail_store(cli, code);
    clean(cli, &disk);
    if (args.dry_run)
        recovery.recovery_timestamp_ms = cli_now_ms(cli); /* not that of leases */
    else
        cli_did(cli, "the store was healed, but the answer");
    struct buf *out = &cli->out;
    if (cli->json) {
        json_open(out, NULL, '{');
        json_int(out, "locks_cleaned", recovery.locks_cleaned);
        json_int(out, "entries_reclaimed", recovery.entries_reclaimed);
        json_int_or_null(out, "entries_quarantined", recovery.entries_quarantined);
        json_int(out, "recovery_timestamp", recovery.recovery_timestamp_ms);
        json_int(out, "entries_skipped", recovery.entries_skipped);
        json_open(out, "skipped", '[');
        for (size_t i = 0; i < named(&recovery); i++)
            json_int(out, NULL, recovery.skipped_ids[i]);
        json_close(out, ']');
        json_text(out, "skipped_by", *recovery.skipped_by ? recovery.skipped_by : NULL);
        put_cleaned_json(out, &disk);
        json_close(out, '}');
        buf_putc(out, '\n');
        return EXIT_DONE;
    }
    int64_t jobs = recovery.entries_reclaimed;
    int64_t locks = recovery.locks_cleaned;
    if (jobs == 0 && locks == 0 && recovery.entries_skipped == 0)
        buf_puts(out, "nothing is stale\n");
    else if (jobs > 0 || locks > 0)
        put_healed(out, &recovery);
    put_skipped(out, &recovery);
    if (purged.jobs > 0 || purged.events > 0)
        purge_print(out, &purged, args.dry_run);
    put_cleaned(out, &disk);
    return EXIT_DONE;
}

const struct command cmd_heal = {
    .name = "heal",
    .aliases = "recover",
    .group = "Operation",
    .text = "reclaim jobs and clean locks whose owner is gone",
    .about =
        "This happens by itself with every claim, at the start of a worker and on a timer; the command is "
        "for when none of them runs. Jobs go back to pending, and one that has lost too many workers is quarantined: it "
        "fails with class \"poison\". Both count as reclaimed, those quarantined are also counted apart (not by --dry-run), "
        "and each is named on standard error. Nothing that shows signs of life is touched. Jobs and events that need not "
        "be kept any longer are deleted as well, as 'tend purge' does, and what workers have left in their folder and nothing "
        "needs is removed: workspaces of attempts that have ended, folders of deleted jobs, copies of repositories that "
        "were not used for 30 days. "
        "On PostgreSQL a job whose row another session has locked is skipped and named.",
    .examples = "tend heal --dry-run\n"
                "tend heal --older-than 10m --json",
    .options = options,
    .store = STORE_EXISTING,
    .run = run,
};
