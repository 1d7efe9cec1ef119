/*
 * What is special to SQLite: files that are no store, folders that cannot be written, the clock of
 * the machine, and locks of other programs and of stopped processes (CL-5). Run once, without
 * PostgreSQL.
 */
#include "support/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_open_fails(const char *path, int expected, const char *told)
{
    tend *t = NULL;
    int rc = tend_open(&t, keep_text("sqlite:%s", path), NULL);
    check_rc(t, rc, expected);
    check_contains(tend_errmsg(t), path);
    check_contains(tend_errmsg(t), told);
    tend_close(t);
}

static void write_file(const char *path, const char *content, size_t bytes)
{
    FILE *file = fopen(path, "we");
    check(file != NULL);
    check_int(fwrite(content, 1, bytes, file), ==, bytes);
    fclose(file);
}

static const char *read_file(const char *path)
{
    static char content[65536];
    FILE *file = fopen(path, "re");
    check(file != NULL);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return keep_text("%s", content);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* --- opening --- */

TEST(sqlite, a_file_that_is_no_database_is_refused_and_left_alone)
{
    const char *path = test_path("notes.txt");
    write_file(path, "my notes, worth keeping\n", 24);
    check_open_fails(path, TEND_ENOTADB, "not a database");
    check_str(read_file(path), "my notes, worth keeping\n");
    check(!exists(test_path("notes.txt-lock")));
    check(!exists(test_path("notes.txt-bell")));
}

TEST(sqlite, a_file_that_only_begins_like_a_database_is_refused)
{
    const char *path = test_path("tend.db");
    char page[4096];
    memset(page, 'x', sizeof page);
    memcpy(page, "SQLite format 3", 16);
    write_file(path, page, sizeof page);
    tend *t;
    int rc = tend_open(&t, store_url(), NULL);
    check(rc == TEND_ENOTADB || rc == TEND_ECORRUPT);
    check_contains(tend_errmsg(t), path);
    tend_close(t);
}

TEST(sqlite, the_database_of_another_program_is_refused_and_left_alone)
{
    sql_exec(
        "CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('http://example.org')");
    check_open_fails(store_path(), TEND_ENOTADB, "another program");
    check_str(sql_rows("SELECT name FROM sqlite_master"), "bookmark\n");
    check_int(sql_int("PRAGMA application_id"), ==, 0);
}

TEST(sqlite, an_empty_file_becomes_a_store)
{
    write_file(store_path(), "", 0);
    tend *t = store_open("w");
    add_one(t, "q");
}

TEST(sqlite, a_folder_that_is_not_there_is_told)
{
    check_open_fails(test_path("no/such/folder/tend.db"), TEND_EUNREACHABLE, "folder");
    check(!exists(test_path("no")));
}

TEST(sqlite, a_folder_or_device_in_place_of_the_file_is_refused)
{
    check_open_fails(test_folder(), TEND_ENOTADB, "not a file");
    check_open_fails("/dev/null", TEND_ENOTADB, "not a file");
}

TEST(sqlite, a_path_below_a_file_is_told)
{
    write_file(test_path("file"), "x", 1);
    check_open_fails(test_path("file/tend.db"), TEND_EUNREACHABLE, "file/tend.db");
}

/* Permissions do not bind root, so the opening is done by nobody. */
static void open_as_nobody(struct helper *parent, void *arg)
{
    tend *t = NULL;
    (void)arg;
    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
        test_fail(__FILE__, __LINE__, "cannot become nobody: %s", strerror(errno));
    helper_hear(parent);
    int rc = tend_open(&t, store_url(), NULL);
    check_rc(t, rc, TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "writable for you");
    tend_close(t);
}

TEST(sqlite, a_folder_that_cannot_be_written_is_told)
{
    char parent[4096];
    tend *t = store_open("w");
    add_one(t, "q");
    store_close(t);
    const char *before = store_snapshot();
    const char *url = store_url();
    check_contains(url, test_folder());
    snprintf(parent, sizeof parent, "%s/..", test_folder());
    struct helper nobody = helper_start(open_as_nobody, NULL);
    check_int(chmod(parent, 0755), ==, 0);
    check_int(chmod(test_folder(), 0555), ==, 0);
    for (const char *const *suffix = (const char *const[]){"", "-lock", "-bell", "-workers", NULL};
         *suffix != NULL; suffix++)
        check_int(chmod(keep_text("%s%s", store_path(), *suffix), 0444), ==, 0);
    helper_say(&nobody, 0);
    helper_join(&nobody);
    chmod(test_folder(), 0755);
    check_str(store_snapshot(), before);
}

static unsigned mode_of(const char *suffix)
{
    struct stat status;
    check_int(stat(keep_text("%s%s", store_path(), suffix), &status), ==, 0);
    return status.st_mode & 07777;
}

/* Payloads and output may hold secrets. */
TEST(sqlite, the_files_of_a_store_are_made_for_their_owner_and_follow_the_database)
{
    const char *const all[] = {"", "-wal", "-shm", "-lock", "-bell", "-workers"};
    umask(0);
    tend *t = store_open("w");
    add_one(t, "q");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_int(mode_of(all[i]), ==, 0600);
    store_close(t);
    check_int(chmod(store_path(), 0660), ==, 0);
    for (size_t i = 3; i < sizeof all / sizeof *all; i++) /* what is there stays as it is */
        check_int(unlink(keep_text("%s%s", store_path(), all[i])), ==, 0);
    umask(077);
    t = store_open("w");
    add_one(t, "q");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_int(mode_of(all[i]), ==, 0660);
}

/* Another process sees SQLite's shared lock on the file, as long as this one has it open. */
static void say_whether_locked(struct helper *parent, void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000002, .l_len = 510};
        helper_hear(parent);
        int fd = open(store_path(), O_RDWR | O_CLOEXEC);
        check_int(fcntl(fd, F_GETLK, &lock), ==, 0);
        close(fd);
        helper_say(parent, lock.l_type != F_UNLCK);
    }
}

/* Without it, the last one that closes elsewhere would take the log away under our feet. */
TEST(sqlite, a_second_handle_leaves_the_locks_of_the_first_alone)
{
    struct helper other = helper_start(say_whether_locked, NULL);
    tend *first = store_open("first");
    add_one(first, "q");
    helper_say(&other, 0);
    check_int(helper_hear(&other), ==, 1);
    store_open("second");
    helper_say(&other, 0);
    check_int(helper_hear(&other), ==, 1);
    helper_join(&other);
}

TEST(sqlite, a_file_system_that_cannot_be_written_is_told)
{
    tend *t = NULL;
    int rc = tend_open(&t, "sqlite:/sys/kernel/tend.db", NULL);
    check_rc(t, rc, TEND_EUNREACHABLE);
    check_contains(tend_errmsg(t), "/sys/kernel/tend.db");
    tend_close(t);
}

TEST(sqlite, a_damaged_store_is_told_as_damaged)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_jobs *jobs;
    add_number(t, "q", 2000);
    store_close(t);
    store_sql_close();
    struct stat status;
    check_int(stat(store_path(), &status), ==, 0);
    int fd = open(store_path(), O_WRONLY | O_CLOEXEC);
    char garbage[4096];
    memset(garbage, 0xa5, sizeof garbage);
    for (off_t at = 4096; at + 4096 <= status.st_size; at += 4096)
        check_int(pwrite(fd, garbage, sizeof garbage, at), ==, sizeof garbage);
    close(fd);
    int rc = tend_open(&t, store_url(), NULL);
    tend_filter_init(&filter);
    if (rc == 0)
        rc = tend_list(t, &filter, &jobs);
    check_rc(t, rc, TEND_ECORRUPT);
    check_contains(tend_errmsg(t), "damaged");
    check_contains(tend_errmsg(t), "doctor");
    tend_close(t);
}

/* The sentence named a query of ours: "job_list: … is damaged". */
TEST(sqlite, a_sentence_says_in_words_what_was_being_done)
{
    tend *t = store_open("w");
    struct tend_filter filter;
    struct tend_jobs *jobs;
    add_one(t, "q");
    sql_exec("ALTER TABLE job RENAME COLUMN payload TO burden");
    tend_filter_init(&filter);
    check_rc(t, tend_list(t, &filter, &jobs), TEND_EINTERNAL);
    check_int(strncmp(tend_errmsg(t), "reading jobs: ", 14), ==, 0);
}

TEST(sqlite, must_exist_leaves_no_file_behind)
{
    struct tend_options options = store_options("w");
    tend *t = NULL;
    options.must_exist = 1;
    check_rc(t, tend_open(&t, store_url(), &options), TEND_ENOTFOUND);
    tend_close(t);
    check(!exists(store_path()));
    check(!exists(test_path("tend.db-lock")));
}

static void open_and_add(struct helper *parent, void *arg)
{
    (void)arg;
    helper_hear(parent);
    tend *t = store_open_real("one of many");
    add_one(t, "q");
    store_close(t);
}

TEST(sqlite, many_processes_may_make_the_store_at_once)
{
    enum { PROCESSES = 8 };
    struct helper processes[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        processes[i] = helper_start(open_and_add, NULL);
    for (int i = 0; i < PROCESSES; i++)
        helper_say(&processes[i], 0);
    for (int i = 0; i < PROCESSES; i++)
        helper_join(&processes[i]);
    check_int(sql_int("SELECT count(*) FROM job"), ==, PROCESSES);
    check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}

/* --- the doctor --- */

struct findings {
    int fine, notes, wrong;
    char text[4096];
};

static void note_finding(void *arg, enum tend_verdict verdict, const char *what, const char *text)
{
    struct findings *findings = arg;
    findings->fine += verdict == TEND_FINE;
    findings->notes += verdict == TEND_NOTE;
    findings->wrong += verdict == TEND_WRONG;
    size_t used = strlen(findings->text);
    snprintf(findings->text + used, sizeof findings->text - used, "%s: %s\n", what, text);
}

/* BY-2: synchronous=FULL unless asked otherwise. */
TEST(sqlite, the_doctor_finds_a_healthy_store_fine_and_says_how_durable_it_is)
{
    tend *t = store_open("w");
    struct findings findings = {0};
    add_number(t, "q", 10);
    check_rc(t, tend_doctor(t, note_finding, &findings), 0);
    check_int(findings.wrong, ==, 0);
    check_int(findings.notes, ==, 0);
    check_contains(findings.text, "durability: full");
    check_contains(findings.text, "journal: WAL");
    check_contains(findings.text, "write lock: in force");
    struct tend_options options = store_options("w");
    options.durability_normal = 1;
    t = store_open_with(&options);
    findings = (struct findings){0};
    check_rc(t, tend_doctor(t, note_finding, &findings), 0);
    check_int(findings.notes, ==, 1);
    check_contains(findings.text, "durability: normal");
}

TEST(sqlite, the_doctor_notes_what_is_stale)
{
    tend *t = store_open("w");
    struct findings findings = {0};
    add_one(t, "q");
    claim_one(t, "q");
    clock_advance(HOUR_MS);
    check_rc(t, tend_doctor(t, note_finding, &findings), 0);
    check_int(findings.notes, ==, 1);
    check_contains(findings.text, "1 job and 0 locks are stale");
}

/* --- the clock of the machine --- */

static int64_t now_of(tend *t)
{
    int64_t now_ms = -1;
    check_ok(t, tend_now(t, &now_ms));
    return now_ms;
}

TEST(sqlite, store_time_never_runs_backwards)
{
    tend *t = store_open("w");
    add_one(t, "q");
    clock_advance(10 * SECOND_MS);
    struct tend_lease lease = claim_one(t, "q");
    int64_t until_ms = job_of(t, lease.id)->until_ms;
    int64_t before_ms = now_of(t);
    clock_advance(-HOUR_MS);
    check_int(now_of(t), >=, before_ms);
    check_ok(t, tend_heartbeat(t, &lease, 1, MINUTE_MS, NULL));
    check_int(job_of(t, lease.id)->until_ms, >=, until_ms);
    int64_t later = add_one(t, "q");
    check_int(job_of(t, later)->created_at_ms, >=, before_ms);
    clock_advance(HOUR_MS + 5);
    check_int(now_of(t), ==, before_ms + 5);
}

/* A read or a heartbeat leaves no event behind from which the time could be known. */
TEST(sqlite, store_time_never_runs_backwards_for_one_who_only_looks)
{
    tend *t = store_open("w");
    add_one(t, "q");
    struct tend_lease lease = claim_one(t, "q");
    clock_advance(10 * SECOND_MS);
    int64_t seen_ms = now_of(t);
    clock_advance(-5 * SECOND_MS);
    check_int(now_of(t), >=, seen_ms);
    clock_advance(20 * SECOND_MS);
    check_ok(t, tend_heartbeat(t, &lease, 1, MINUTE_MS, NULL));
    seen_ms = job_of(t, lease.id)->seen_at_ms;
    clock_advance(-20 * SECOND_MS);
    check_int(now_of(t), >=, seen_ms);
}

TEST(sqlite, a_new_process_does_not_see_time_before_the_newest_event)
{
    tend *t = store_open("w");
    clock_advance(DAY_MS);
    add_one(t, "q");
    int64_t before_ms = now_of(t);
    store_close(t);
    clock_advance(-DAY_MS);
    t = store_open("v");
    check_int(now_of(t), >=, before_ms);
    struct tend_lease lease = claim_one(t, "q");
    check_int(job_of(t, lease.id)->until_ms, >=, before_ms + MINUTE_MS);
    /* And a lease does not end because the clock was set back. */
    check_int(recover_now(t).entries_reclaimed, ==, 0);
}

/* --- others who lock: CL-5 --- */

static void *add_in_thread(void *t)
{
    add_one(t, "q");
    return NULL;
}

/* In the middle of a write; what happens when it is stopped there is in test_turnstile.c. */
static void keep_write_lock(struct helper *parent, void *arg)
{
    (void)arg;
    int fd = open(test_path("tend.db-lock"), O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    check_int(fcntl(fd, F_OFD_SETLKW, &lock), ==, 0);
    helper_say(parent, 0);
    helper_hear(parent);
}

/* The kernel drops the lock of a dead writer: nobody waits for it. */
TEST(sqlite, a_write_behind_a_killed_process_goes_on)
{
    tend *t = store_open_real("w");
    pthread_t thread;
    struct helper holder = helper_start(keep_write_lock, NULL);
    helper_hear(&holder);
    check_int(pthread_create(&thread, NULL, add_in_thread, t), ==, 0);
    helper_kill(&holder);
    pthread_join(thread, NULL);
    check_int(sql_int("SELECT count(*) FROM job"), ==, 1);
}

/* A worker that ran before the machine was booted is gone, whatever its pid is used for now. */
TEST(sqlite, RC_13_a_worker_of_an_earlier_boot_is_dead)
{
    tend *t = store_open("w");
    int64_t id = add_one(t, "q");
    claim_one(t, "q");
    sql_exec("UPDATE worker SET boot_id = 'another', id = id + 1000"); /* whose lock nobody holds */
    sql_exec("UPDATE job SET worker_id = worker_id + 1000");
    check_int(recover_now(t).entries_reclaimed, ==, 1);
    check_int(state_of(t, id), ==, TEND_PENDING);
}

/* --- a fork while other threads open and close --- */

/* Not with the address sanitizer, whose own memory is not fit for a fork beside other threads. */
#if !defined(__SANITIZE_ADDRESS__)
static bool enough;

static void *open_and_close(void *url)
{
    struct tend_options options = store_options("opener");
    while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST)) {
        tend *t = NULL;
        check_rc(t, tend_open(&t, url, &options), 0);
        tend_close(t);
    }
    return NULL;
}

/* 0: it was opened, or refused with the sentence. SIGALRM ends one that hangs. */
static int open_or_be_refused(const char *url)
{
    struct tend_options options = store_options("child");
    tend *t = NULL;
    alarm(10);
    int rc = tend_open(&t, url, &options);
    bool told = rc == TEND_ESTATE && strstr(tend_errmsg(t), "forked while") != NULL;
    tend_close(t);
    return rc == 0 || told ? 0 : 1;
}

static int status_of_child(const char *url)
{
    int status;
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        _exit(open_or_be_refused(url));
    check_int(waitpid(pid, &status, 0), ==, pid);
    return status;
}

/* The child waited for ever for a mutex of a thread that it did not have. */
TEST_WITHIN(sqlite, a_child_answers_although_other_threads_were_opening_the_store, 120)
{
    enum { THREADS = 3, CHILDREN = 200 };
    pthread_t threads[THREADS];
    store_close(store_open("first"));
    char *url = (char *)keep_text("sqlite:%s", store_path());
    for (size_t i = 0; i < THREADS; i++)
        check_int(pthread_create(&threads[i], NULL, open_and_close, url), ==, 0);
    for (int i = 0; i < CHILDREN; i++)
        check_int(status_of_child(url), ==, 0);
    __atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < THREADS; i++)
        check_int(pthread_join(threads[i], NULL), ==, 0);
}

static void *list_again_and_again(void *arg)
{
    tend *t = arg;
    struct tend_filter filter = {0};
    while (!__atomic_load_n(&enough, __ATOMIC_SEQ_CST)) {
        struct tend_jobs *jobs;
        check_rc(t, tend_list(t, &filter, &jobs), 0);
        tend_jobs_free(jobs);
    }
    return NULL;
}

/* The same with the mutex of SQLite's memory, which connections to other files share. */
TEST_WITHIN(sqlite, a_child_opens_another_store_or_is_refused_although_a_thread_was_reading, 120)
{
    enum { CHILDREN = 200 };
    pthread_t thread;
    tend *t = store_open("reader");
    add_number(t, "q", 50);
    const char *url = keep_text("sqlite:%s.other", store_path());
    check_int(pthread_create(&thread, NULL, list_again_and_again, t), ==, 0);
    for (int i = 0; i < CHILDREN; i++)
        check_int(status_of_child(url), ==, 0);
    __atomic_store_n(&enough, true, __ATOMIC_SEQ_CST);
    check_int(pthread_join(thread, NULL), ==, 0);
}
#endif
