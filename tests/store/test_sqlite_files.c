/*
 * The files of an SQLite store: what may be planted beside it, by which path it is reached, and
 * what happens when they are deleted or replaced while it is open. Run once, without PostgreSQL.
 */
#include "base/clock.h"
#include "queue/handle.h"
#include "store/sqlite_files.h"
#include "support/mounts.h"
#include "support/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static const char *const companions[] = {"-lock", "-bell", "-workers"};
static const char *const databases[] = {"", "-wal", "-shm"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* In place of the C library's and named as there: the kernel has no more inotify instances to give.
 */
static bool inotify_used_up;

int inotify_init1(int flags)
{
    if (__atomic_load_n(&inotify_used_up, __ATOMIC_SEQ_CST)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_inotify_init1, flags);
}

static const char *beside(const char *suffix)
{
    return keep_text("%s%s", store_path(), suffix);
}

static struct stat status_of(const char *path)
{
    struct stat status;
    check_int(lstat(path, &status), ==, 0);
    return status;
}

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static void make_file(const char *path, const char *content, mode_t mode)
{
    FILE *file = fopen(path, "we");
    check(file != NULL);
    check(fputs(content, file) >= 0);
    fclose(file);
    check_int(chmod(path, mode), ==, 0);
}

static void check_content(const char *path, const char *expected)
{
    char content[256] = "";
    FILE *file = fopen(path, "re");
    check(file != NULL);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    check_str(content, expected);
}

static void make_store(void)
{
    tend *t = store_open("first");
    add_one(t, "q");
    store_close(t);
}

static void check_refused(const char *path, const char *file, const char *told)
{
    tend *t = NULL;
    int rc = tend_open(&t, keep_text("sqlite:%s", path), NULL);
    check_rc(t, rc, TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), file);
    check_contains(tend_errmsg(t), told);
    tend_close(t);
}

static void check_opens(void)
{
    tend *t = store_open("again");
    add_one(t, "q");
    store_close(t);
}

/* --- planted files --- */

/* root ran 'tend jobs' on the store of a user who had put a symlink in the place of the bell: the
 * file it led to belonged to the user afterwards. */
TEST(sqlite_files, a_symlink_beside_the_store_is_not_followed)
{
    const char *secret = test_path("secret");
    make_store();
    make_file(secret, "only for root", 0600);
    check_int(chmod(store_path(), 0666), ==, 0);
    if (geteuid() == 0)
        check_int(chown(store_path(), NOBODY, NOBODY), ==, 0);
    for (size_t i = 0; i < COUNT(companions); i++) {
        const char *name = beside(companions[i]);
        check_int(unlink(name), ==, 0);
        check_int(symlink(secret, name), ==, 0);
        check_refused(store_path(), name, "is a symlink");
        check_int(status_of(secret).st_uid, ==, geteuid());
        check_int(status_of(secret).st_mode & 0777, ==, 0600);
        check_content(secret, "only for root");
        check_int(unlink(name), ==, 0);
        check_opens();
    }
}

TEST(sqlite_files, a_dangling_symlink_beside_the_store_makes_nothing)
{
    const char *target = test_path("target");
    make_store();
    check_int(unlink(beside("-bell")), ==, 0);
    check_int(symlink(target, beside("-bell")), ==, 0);
    check_refused(store_path(), beside("-bell"), "remove it");
    check(!exists(target));
}

TEST(sqlite_files, a_second_name_of_another_file_is_refused)
{
    const char *other = test_path("other");
    make_store();
    make_file(other, "mine", 0600);
    check_int(chmod(store_path(), 0666), ==, 0);
    for (size_t i = 0; i < COUNT(companions); i++) {
        const char *name = beside(companions[i]);
        check_int(unlink(name), ==, 0);
        check_int(link(other, name), ==, 0);
        check_refused(store_path(), name, "hard link");
        check_int(status_of(other).st_mode & 0777, ==, 0600);
        check_content(other, "mine");
        check_int(unlink(name), ==, 0);
        check_opens();
    }
}

TEST(sqlite_files, what_is_not_a_file_is_refused)
{
    make_store();
    check_int(unlink(beside("-lock")), ==, 0);
    check_int(mkfifo(beside("-lock"), 0600), ==, 0);
    check_refused(store_path(), beside("-lock"), "is not a file");
    check_int(unlink(beside("-lock")), ==, 0);
    check_int(mkdir(beside("-lock"), 0700), ==, 0);
    check_refused(store_path(), beside("-lock"), "is not a file");
}

/* Only root can give files away; anybody else sees that its own are taken. */
TEST(sqlite_files, a_file_of_a_third_user_is_refused)
{
    make_store();
    check_opens();
    if (geteuid() != 0)
        return;
    check_int(chown(store_path(), NOBODY, NOBODY), ==, 0);
    check_int(chown(beside("-workers"), NOBODY, NOBODY), ==, 0);
    check_opens(); /* the store's owner's, and root's */
    check_int(chown(beside("-workers"), 12345, NOBODY), ==, 0);
    check_refused(store_path(), beside("-workers"), "belongs neither");
}

/* A member of the group had made the companions of a shared store, and locked out its owner. */
TEST(sqlite_files, what_another_member_of_the_group_has_made_is_taken)
{
    enum { TEAM = 4321, MEMBER = 12345, STRANGERS = 54321 };
    make_store();
    if (geteuid() != 0)
        return;
    check_int(chown(store_path(), NOBODY, TEAM), ==, 0);
    check_int(chmod(store_path(), 0660), ==, 0);
    check_int(chown(beside("-workers"), MEMBER, TEAM), ==, 0);
    check_opens();
    check_int(chown(beside("-workers"), MEMBER, STRANGERS), ==, 0);
    check_refused(store_path(), beside("-workers"), "belongs neither");
    check_int(chown(beside("-workers"), MEMBER, TEAM), ==, 0);
    check_int(chmod(store_path(), 0640), ==, 0); /* no longer shared */
    check_refused(store_path(), beside("-workers"), "belongs neither");
}

TEST(sqlite_files, mode_and_owner_are_set_on_new_files_alone)
{
    make_store();
    check_int(chmod(beside("-bell"), 0640), ==, 0);
    check_int(unlink(beside("-lock")), ==, 0);
    check_int(chmod(store_path(), 0664), ==, 0);
    if (geteuid() == 0)
        check_int(chown(store_path(), NOBODY, NOBODY), ==, 0);
    check_opens();
    check_int(status_of(beside("-bell")).st_mode & 0777, ==, 0640);
    check_int(status_of(beside("-bell")).st_uid, ==, geteuid());
    check_int(status_of(beside("-lock")).st_mode & 0777, ==, 0664);
    check_int(status_of(beside("-lock")).st_uid, ==, status_of(store_path()).st_uid);
}

TEST(sqlite_files, what_sqlite_would_open_beside_the_store_is_looked_at_too)
{
    const char *other = test_path("other");
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    make_store();
    make_file(other, "mine", 0600);
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        check_int(symlink(other, beside(suffixes[i])), ==, 0);
        check_refused(store_path(), beside(suffixes[i]), "is a symlink");
        check_int(unlink(beside(suffixes[i])), ==, 0);
        check_int(link(other, beside(suffixes[i])), ==, 0);
        check_refused(store_path(), beside(suffixes[i]), "hard link");
        check_int(unlink(beside(suffixes[i])), ==, 0);
    }
    check_content(other, "mine");
    check_opens();
}

/* SQLite would have made the file the link names, readable for everybody. */
TEST(sqlite_files, no_store_is_made_through_a_symlink)
{
    const char *link = test_path("link.db");
    struct tend_options options = store_options("w");
    tend *t = NULL;
    check_int(symlink(test_path("target.db"), link), ==, 0);
    check_refused(link, link, "makes no store through a link");
    check(!exists(test_path("target.db")));
    options.must_exist = 1;
    check_rc(t, tend_open(&t, keep_text("sqlite:%s", link), &options), TEND_ENOTFOUND);
    tend_close(t);
}

/* --- by which path --- */

static tend *open_by(const char *path)
{
    struct tend_options options = store_options("by another path");
    tend *t = NULL;
    int rc = tend_open(&t, keep_text("sqlite:%s", path), &options);
    check_rc(t, rc, 0);
    return t;
}

static const char *make_link(void)
{
    make_store();
    check_int(mkdir(test_path("elsewhere"), 0700), ==, 0);
    check_int(symlink(store_path(), test_path("elsewhere/link.db")), ==, 0);
    return test_path("elsewhere/link.db");
}

static void *wait_for_ring(void *arg)
{
    static int woken;
    woken = tend_wait(arg, PATIENCE_MS);
    return &woken;
}

/* Through the link there was another bell, and others woke up five seconds later. */
TEST(sqlite_files, who_came_by_a_link_is_woken)
{
    pthread_t thread;
    void *woken;
    tend *direct = store_open_real("direct");
    tend *linked = open_by(make_link());
    check_int(tend_wait(linked, 0), ==, 1); /* the first look is always news */
    check_int(pthread_create(&thread, NULL, wait_for_ring, linked), ==, 0);
    add_one(direct, "q");
    check_int(pthread_join(thread, &woken), ==, 0);
    check_int(*(int *)woken, ==, 1);
    for (size_t i = 0; i < COUNT(companions); i++)
        check(!exists(keep_text("%s%s", test_path("elsewhere/link.db"), companions[i])));
    tend_close(linked);
}

/* From another pid namespace only the liveness lock tells. Its job ran a second time. */
TEST(sqlite_files, a_worker_that_came_by_a_link_is_alive)
{
    const char *link = make_link();
    tend *linked = open_by(link);
    tend *direct = store_open("direct");
    struct tend_lease lease = claim_one(linked, "q");
    sql_exec("UPDATE worker SET pid_ns = 1");
    clock_advance(10 * SECOND_MS); /* no newcomer any more */
    check_int(recover_now(direct).entries_reclaimed, ==, 0);
    check_ok(linked, tend_heartbeat(linked, &lease, 1, MINUTE_MS, NULL));
    tend_close(linked);
}

/* A write could begin while another process's had not ended. */
TEST(sqlite_files, who_came_by_a_link_stands_in_the_same_line)
{
    struct tend_options options = store_options("w");
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    tend *t = NULL;
    const char *link = make_link();
    options.busy_ms = 100;
    check_ok(t, tend_open(&t, keep_text("sqlite:%s", link), &options));
    int fd = open(beside("-lock"), O_RDWR | O_CLOEXEC);
    struct flock turn = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    check_int(fcntl(fd, F_OFD_SETLK, &turn), ==, 0);
    check_rc(t, tend_add(t, &spec, &added), TEND_EBUSY);
    close(fd);
    check_rc(t, tend_add(t, &spec, &added), 0);
    tend_close(t);
}

/* Adds went to the first store, reads came from the one in the new folder. */
TEST(sqlite_files, a_relative_path_means_the_folder_at_opening)
{
    const char *const folders[] = {"here", "there"};
    tend *stores[2];
    for (size_t i = 0; i < 2; i++) {
        check_int(mkdir(test_path(folders[i]), 0700), ==, 0);
        check_int(chdir(test_path(folders[i])), ==, 0);
        stores[i] = open_by("tend.db"); /* no reader yet: they are opened when one is needed */
    }
    int64_t id = add_one(stores[0], "here");
    add_one(stores[1], "there");
    check_str(job_of(stores[0], id)->queue, "here");
    check_int(chdir("/"), ==, 0);
    check_str(job_of(stores[0], id)->queue, "here");
    check_str(job_of(stores[1], id)->queue, "there");
    tend_close(stores[0]);
    tend_close(stores[1]);
}

/* --- a second name --- */

static void note_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    char *findings = arg;
    size_t used = strlen(findings);
    snprintf(findings + used, 4096 - used, "%d %s: %s\n", (int)verdict, what, text);
}

/* ret_wrong: as tend_doctor returns it. */
static const char *look_over(tend *t, int *ret_wrong)
{
    static char findings[4096];
    findings[0] = '\0';
    *ret_wrong = tend_doctor(t, note_finding, findings);
    return findings;
}

/* Each name had a log of its own: jobs that had been acknowledged were gone, the file damaged. */
TEST(sqlite_files, BY_2_a_store_with_a_second_name_is_not_opened_by_any)
{
    const char *second = test_path("second.db");
    make_store();
    check_int(link(store_path(), second), ==, 0);
    check_refused(second, second, "hard link");
    check_refused(store_path(), store_path(), "hard link");
    check(!exists(keep_text("%s-lock", second)));
    check(!exists(keep_text("%s-wal", second)));
    check_int(unlink(second), ==, 0);
    check_opens();
}

/* As 'cp -l' makes it, for a backup that is none. */
TEST(sqlite_files, a_second_name_does_not_stop_who_has_the_store_open)
{
    struct tend_stats *stats;
    int wrong;
    tend *t = store_open("w");
    add_one(t, "q");
    check_contains(look_over(t, &wrong), "0 name: ");
    check_int(wrong, ==, 0);
    check_int(link(store_path(), test_path("second.db")), ==, 0);
    add_one(t, "q");
    claim_one(t, "q");
    check_ok(t, tend_stats(t, &stats)); /* by a connection that is opened now */
    tend_stats_free(stats);
    check_contains(look_over(t, &wrong), "2 name: ");
    check_int(wrong, ==, 1);
    store_close(t);
    check_refused(store_path(), store_path(), "hard link");
}

/* The file alone was mounted into a container. Who may not mount sees that a folder is enough. */
TEST(sqlite_files, BY_2_a_store_that_is_mounted_as_a_single_file_is_not_opened)
{
    const char *folder = test_path("folder");
    const char *file = test_path("alone.db");
    make_store();
    if (mounts_own()) {
        make_file(file, "", 0600);
        check_int(mount(store_path(), file, NULL, MS_BIND, NULL), ==, 0);
        check_refused(file, file, "mount its folder");
        check(!exists(keep_text("%s-lock", file)));
        check_int(mkdir(folder, 0700), ==, 0);
        check_int(mount(test_folder(), folder, NULL, MS_BIND, NULL), ==, 0);
        tend_close(open_by(test_path("folder/tend.db")));
    }
    check_opens(); /* in its own folder */
}

/* --- deleted or replaced while open --- */

static void check_gone(tend *t, const char *file)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    struct tend_stats *stats;
    for (int i = 0; i < 2; i++) {
        check_rc(t, tend_add(t, &spec, &added), TEND_EUNREACHABLE);
        check_contains(tend_errmsg(t), file);
        check_contains(tend_errmsg(t), "deleted or replaced");
        if (i > 0) /* the first may have been saved, into the file that was open */
            check_contains(tend_errmsg(t), "nothing was saved");
        check_rc(t, tend_stats(t, &stats), TEND_EUNREACHABLE);
    }
}

/* BY-2. Adds were acknowledged, into a file that nobody could find any more. */
TEST(sqlite_files, a_store_deleted_while_open_acknowledges_nothing)
{
    tend *t = store_open("w");
    add_one(t, "q");
    for (size_t i = 0; i < COUNT(databases); i++)
        check_int(unlink(beside(databases[i])), ==, 0);
    check_gone(t, store_path());
    tend *again = store_open("again");
    add_one(again, "other");
    check_gone(t, store_path());
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
    store_close(t); /* and takes nothing of the new one with it */
    add_one(again, "other");
    check_int(sql_int("SELECT count(*) FROM job"), ==, 2);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}

TEST(sqlite_files, a_store_that_was_replaced_is_not_read)
{
    struct tend_jobs *jobs;
    tend *other = open_by(test_path("other.db"));
    add_one(other, "other");
    tend_close(other);
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    check_int(unlink(beside("-wal")), ==, 0);
    check_int(unlink(beside("-shm")), ==, 0);
    check_int(rename(test_path("other.db"), store_path()), ==, 0);
    check_rc(t, tend_get(t, id, &jobs), TEND_EUNREACHABLE);
    check_gone(t, store_path());
    store_close(t);
    check_str(sql_rows("SELECT queue FROM job"), "other\n");
}

static bool add_fails(tend *t)
{
    struct tend_job_spec spec = spec_for("q");
    struct tend_added added;
    return tend_add(t, &spec, &added) == TEND_EUNREACHABLE;
}

/* The answer was "nothing was saved", and when the file had its name back, the job was there. */
TEST(sqlite_files, whether_a_write_to_a_renamed_store_was_saved_is_told_truly)
{
    const char *aside = test_path("aside.db");
    for (int wait_ms = 0; wait_ms <= 2 * BESIDE_CHECK_MS; wait_ms += BESIDE_CHECK_MS) {
        tend *t = store_open("w");
        add_one(t, "q");
        int64_t until_ms = clock_mono_ms() + wait_ms;
        int64_t before = sql_int("SELECT count(*) FROM job");
        check_int(rename(store_path(), aside), ==, 0);
        wait_until(clock_mono_ms() >= until_ms, PATIENCE_MS);
        check(add_fails(t));
        bool denied = strstr(tend_errmsg(t), "nothing was saved") != NULL;
        check_contains(tend_errmsg(t), denied ? "nothing was saved" : "this write is in the file");
        check_int(rename(aside, store_path()), ==, 0);
        store_close(t);
        check_int(sql_int("SELECT count(*) FROM job"), ==, before + !denied);
        check(wait_ms < 2 * BESIDE_CHECK_MS || denied); /* it is looked before, too */
    }
}

static void *count_failing_adds(void *arg)
{
    static int failed;
    for (int i = 0; i < 20; i++)
        __atomic_add_fetch(&failed, add_fails(arg), __ATOMIC_SEQ_CST);
    return &failed;
}

TEST(sqlite_files, every_body_of_a_group_is_told_that_the_store_is_gone)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    void *failed = NULL;
    tend *t = store_open("w");
    add_one(t, "q");
    check_int(rename(store_path(), test_path("moved.db")), ==, 0);
    for (size_t i = 0; i < THREADS; i++)
        check_int(pthread_create(&threads[i], NULL, count_failing_adds, t), ==, 0);
    for (size_t i = 0; i < THREADS; i++)
        check_int(pthread_join(threads[i], &failed), ==, 0);
    check_int(*(int *)failed, ==, THREADS * 20);
}

/* Two processes would not have waited for each other any more. */
TEST(sqlite_files, a_companion_deleted_while_open_ends_the_handle)
{
    for (size_t i = 0; i < COUNT(companions); i++) {
        tend *t = store_open("w");
        add_one(t, "q");
        check_int(unlink(beside(companions[i])), ==, 0);
        wait_until(add_fails(t), PATIENCE_MS);
        check_gone(t, beside(companions[i]));
        int64_t before = sql_int("SELECT count(*) FROM job");
        check(add_fails(t));
        check_int(sql_int("SELECT count(*) FROM job"), ==, before);
        store_close(t);
        check_opens();
    }
}

/* An open process went on with the deleted log: what it acknowledged was lost, or lay over what
 * others had acknowledged. */
TEST(sqlite_files, BY_2_nothing_is_acknowledged_into_a_deleted_log_or_beside_its_index)
{
    static const char *const of_sqlite[] = {"-wal", "-shm"};
    for (size_t i = 0; i < COUNT(of_sqlite); i++) {
        tend *t = store_open("w");
        add_one(t, "q");
        check_int(unlink(beside(of_sqlite[i])), ==, 0);
        wait_until(add_fails(t), PATIENCE_MS);
        check_gone(t, beside(of_sqlite[i]));
        store_close(t);
        check_opens();
        check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
    }
}

TEST(sqlite_files, BY_2_what_others_acknowledge_beside_a_new_index_stays)
{
    int go[2];
    char byte;
    int status;
    make_store();
    check_int(pipe(go), ==, 0);
    pid_t other = fork(); /* before SQLite has the store open here */
    if (other == 0) {
        if (read(go[0], &byte, 1) == 1)
            add_one(store_open("other"), "q");
        _exit(0);
    }
    tend *t = store_open("w");
    add_one(t, "q");
    check_int(unlink(beside("-shm")), ==, 0);
    check_int(write(go[1], "", 1), ==, 1);
    check_int(waitpid(other, &status, 0), ==, other);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check(add_fails(t));
    store_close(t);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 3); /* one from make_store */
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}

/* Only a file without any name was noticed: after 'mv' there were two lines of writers. */
TEST(sqlite_files, a_companion_renamed_or_replaced_while_open_ends_the_handle)
{
    for (size_t i = 0; i < COUNT(companions) * 2; i++) {
        const char *name = beside(companions[i / 2]);
        tend *t = store_open("w");
        add_one(t, "q");
        check_int(rename(name, test_path("moved")), ==, 0);
        if (i % 2 == 1)
            make_file(name, "", 0600);
        wait_until(add_fails(t), PATIENCE_MS);
        check_gone(t, name);
        store_close(t);
        check_opens();
    }
}

/* Its lock was looked for in a file that it had never opened, and its job ran a second time. */
TEST(sqlite_files, nobody_is_buried_by_a_lock_file_that_is_out_of_place)
{
    struct tend_recovery recovery;
    tend *other = store_open("other");
    add_one(other, "q");
    claim_one(store_open("living"), "q");
    check_int(rename(beside("-workers"), test_path("moved")), ==, 0);
    /* Its lock is in another file. */
    sql_exec("UPDATE worker SET id = 1000, pid_ns = 1");
    sql_exec("UPDATE job SET worker_id = 1000");
    clock_advance(10 * SECOND_MS);
    check_rc(other, tend_detect_and_recover_stale(other, &recovery), TEND_EUNREACHABLE);
    check_contains(tend_errmsg(other), beside("-workers"));
    check_rc(other, tend_doctor(other, NULL, NULL), TEND_EUNREACHABLE);
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
    check_int(sql_int("SELECT count(*) FROM job WHERE state = 2"), ==, 1);
}

/* Who came after the rename had files of its own: two lines of writers, and workers that the others
 * took for dead. */
TEST(sqlite_files, who_would_get_other_companions_than_those_who_are_there_is_refused)
{
    for (size_t i = 0; i < COUNT(companions) * 2; i++) {
        const char *name = beside(companions[i / 2]);
        tend *refused;
        tend *t = store_open("w");
        check_int(rename(name, test_path("moved")), ==, 0);
        if (i % 2 == 1)
            make_file(name, "", 0600);
        check_int(tend_open(&refused, store_url(), NULL), ==, TEND_EUNREACHABLE);
        check_contains(tend_errmsg(refused), name);
        check_contains(tend_errmsg(refused), "give the file its name back");
        tend_close(refused);
        check(i % 2 == 1 || access(name, F_OK) != 0); /* nothing was made */
        check_int(rename(test_path("moved"), name), ==, 0);
        add_one(t, "q");
        check_opens();
        check_int(rename(name, test_path("moved")), ==, 0);
        store_close(t);
        check_opens(); /* alone, it may have new ones */
    }
}

/* The new store's worker 1 could not register while the old store's worker 1 lived. */
TEST(sqlite_files, a_store_made_anew_beside_old_companions_has_room_for_workers)
{
    tend *old = store_open("old");
    add_one(old, "q");
    claim_one(old, "q");
    store_sql_close();
    for (size_t i = 0; i < COUNT(databases); i++)
        check_int(unlink(beside(databases[i])), ==, 0);
    tend *new = store_open("new");
    add_one(new, "q");
    claim_one(new, "q");
    check_int(recover_now(new).entries_reclaimed, ==, 0);
}

/* Takes the liveness lock of a worker; closed, the descriptor lets it go. */
static int hold_byte(int64_t worker_id)
{
    int fd = open(beside("-workers"), O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = worker_id, .l_len = 1};
    check_int(fcntl(fd, F_OFD_SETLK, &lock), ==, 0);
    return fd;
}

/* Each try was rolled back and the next got the same id, for as long as the lock was held. */
TEST(sqlite_files, a_liveness_lock_held_by_a_stranger_is_passed_over)
{
    tend *t = store_open("w");
    add_one(t, "q");
    int64_t next = sql_int("SELECT seq + 1 FROM sqlite_sequence WHERE name = 'worker'");
    int fd = hold_byte(next);
    claim_one(t, "q");
    check_int(sql_int("SELECT count(*) FROM worker"), ==, 1);
    check_int(sql_int("SELECT id FROM worker"), >, next);
    close(fd);
}

/* --- without inotify --- */

static const char *findings_of(tend *t)
{
    int wrong;
    const char *findings = look_over(t, &wrong);
    check_rc(t, wrong, 0);
    return findings;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) {
        count++;
        text += strlen(part);
    }
    return count;
}

static void check_woken(tend *sleeper, tend *waker)
{
    pthread_t thread;
    void *woken;
    check_int(pthread_create(&thread, NULL, wait_for_ring, sleeper), ==, 0);
    add_one(waker, "q");
    check_int(pthread_join(thread, &woken), ==, 0);
    check_int(*(int *)woken, ==, 1);
}

/* Whoever waited slept for five seconds, and nobody was told why. */
TEST(sqlite_files, without_inotify_a_waiter_looks_often_and_says_so_once)
{
    tend *sleeper = store_open_real("sleeper");
    tend *waker = store_open_real("waker");
    inotify_used_up = true;
    check_int(tend_wait(sleeper, 0), ==, 1);
    check_woken(sleeper, waker);
    while (tend_wait(sleeper, 200) == 1)
        continue; /* what the last look had not seen yet */
    check_woken(sleeper, waker);
    check_int(count_of(store_log(), "max_user_instances"), ==, 1);
    check_contains(findings_of(waker), "1 bell: ");
    check_contains(findings_of(waker), "max_user_instances");

    inotify_used_up = false;
    check_contains(findings_of(sleeper), "0 bell: ");
    while (tend_wait(sleeper, 200) == 1)
        continue;
    check_woken(sleeper, waker);
}

/* As it is read, not mapped; and a version before this wrote 8 bytes at its beginning. */
TEST(sqlite_files, a_bell_file_of_another_length_wakes_whoever_waits)
{
    tend *sleeper = store_open_real("sleeper");
    tend *waker = store_open_real("waker");
    static const off_t lengths[] = {0, 8, 100, 511, 4096};
    check_int(tend_wait(sleeper, 0), ==, 1);
    check_woken(sleeper, waker);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        check_int(truncate(beside("-bell"), lengths[i]), ==, 0);
        while (tend_wait(sleeper, 0) == 1)
            continue;
        check_woken(sleeper, waker);
    }
}

TEST(sqlite_files, without_inotify_a_bell_is_heard_by_its_own_waiters_too)
{
    tend *sleeper = store_open_real("sleeper");
    tend *waker = store_open_real("waker");
    uint64_t bell = db_bell_of("q");
    inotify_used_up = true;
    check_int(tend_wait(sleeper, 0), ==, 1);
    uint64_t seen = db_bell(sleeper->db, bell);
    uint64_t seen_others = db_bell(sleeper->db, ~bell);
    add_one(waker, "q");
    wait_until(db_bell(sleeper->db, bell) != seen, PATIENCE_MS);
    check_int(db_bell(sleeper->db, ~bell), ==, seen_others);
}
