/* Folders of jobs: whose they are, and how much disk they take. */
#include "run/job_folder.h"

#include "run/disk_use.h"
#include "support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tend.h>
#include <unistd.h>

static void enter(void)
{
    if (chdir(test_folder()) < 0)
        test_fail(__FILE__, __LINE__, "the folder of the test cannot be entered");
}

static enum folder_owner owner_of(const char *path, int64_t store_id)
{
    int fd = job_folder_open(AT_FDCWD, path);
    enum folder_owner owner = job_folder_owner(fd, store_id);
    if (fd >= 0)
        close(fd);
    return owner;
}

static enum keep_why kept_of(const char *path)
{
    int fd = job_folder_open(AT_FDCWD, path);
    check(fd >= 0);
    enum keep_why why = lease_folder_kept(fd);
    close(fd);
    return why;
}

TEST(job_folder, names_are_read_exactly)
{
    int64_t id = 0;
    check(job_folder_parse("job-12", &id));
    check_int(id, ==, 12);
    check(job_folder_parse("job-7-1f3a", &id));
    check_int(id, ==, 7);
    check(lease_folder_parse("lease-1099511627776", &id));
    check_int(id, ==, 1099511627776);
    static const char *const wrong[] = {"job-",
                                        "job-0",
                                        "job-012",
                                        "job-12x",
                                        "job-12-",
                                        "job-12-X",
                                        "jobs-12",
                                        "job--12",
                                        "job- 1",
                                        "job-12-a/b",
                                        "lease-5",
                                        "cache",
                                        "job-99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check(!job_folder_parse(wrong[i], &id));
    check(!lease_folder_parse("lease-5-a", &id));
    check(!lease_folder_parse("lease-", &id));
}

TEST(job_folder, a_folder_belongs_to_the_store_that_made_it)
{
    char first[PATH_MAX];
    char second[PATH_MAX];
    struct err err;
    enter();
    check_int(job_folder_make(".", 12, 100, first, &err), ==, 0);
    check_str(first, "./job-12");
    check_int(owner_of(first, 100), ==, OWNER_THIS);
    check_int(owner_of(first, 101), ==, OWNER_OTHER);
    check_int(job_folder_make(".", 12, 100, second, &err), ==, 0);
    check_str(second, first);
    /* A job of another store with the same number gets a folder of its own. */
    check_int(job_folder_make(".", 12, 255, second, &err), ==, 0);
    check_str(second, "./job-12-ff");
    check_int(owner_of(second, 255), ==, OWNER_THIS);
}

TEST(job_folder, a_folder_without_a_marker_is_nobodys_until_a_job_uses_it)
{
    char path[PATH_MAX];
    struct err err;
    enter();
    check_int(mkdir("job-3", 0700), ==, 0);
    check_int(owner_of("job-3", 100), ==, OWNER_NONE);
    /* Its maker was killed before it had written the marker. */
    int fd = open("job-3/store", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0);
    close(fd);
    check_int(owner_of("job-3", 100), ==, OWNER_NONE);
    check_int(job_folder_make(".", 3, 100, path, &err), ==, 0);
    check_int(owner_of("job-3", 100), ==, OWNER_THIS);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Symptom: a folder job-3 of the user's was marked, used, and removed with the job. */
TEST(job_folder, a_folder_with_files_but_no_marker_is_the_user_s)
{
    static const char *const names[] = {"data", "patches", "lease-5", "store-mine", "store"};
    char path[PATH_MAX];
    struct err err;
    enter();
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        char folder[32];
        char file[64];
        char other[64];
        snprintf(folder, sizeof folder, "job-%d", i + 1);
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        snprintf(other, sizeof other, "./%s-64", folder);
        check_int(mkdir(folder, 0700), ==, 0);
        put_file(file, "precious\n");
        for (int again = 0; again < 2; again++) {
            check_int(job_folder_make(".", i + 1, 100, path, &err), ==, 0);
            check_str(path, other);
            check_int(owner_of(folder, 100), ==, OWNER_NONE);
        }
        check(access(file, F_OK) == 0);
    }
    /* Nor is the other name taken from the user. */
    put_file("job-9", "precious\n");
    check_int(mkdir("job-9-64", 0700), ==, 0);
    put_file("job-9-64/data", "precious\n");
    check_int(job_folder_make(".", 9, 100, path, &err), ==, TEND_EIO);
    check_contains(err.text, "job-9-64 is no folder of this store; move it away");
}

/* What a power failure has made of the marker. */
TEST(job_folder, a_folder_of_runners_with_a_blank_marker_is_used_on)
{
    char path[PATH_MAX];
    struct err err;
    enter();
    check_int(mkdir("job-3", 0700), ==, 0);
    check_int(mkdir("job-3/lease-5", 0700), ==, 0);
    check_int(mkdir("job-3/state", 0700), ==, 0);
    put_file("job-3/store", "");
    check_int(truncate("job-3/store", 5), ==, 0);
    check_int(job_folder_make(".", 3, 100, path, &err), ==, 0);
    check_str(path, "./job-3");
    check_int(owner_of("job-3", 100), ==, OWNER_THIS);
}

/* What a worker that was killed while it marked the folder has left is no use of the folder. */
TEST(job_folder, it_goes_with_a_marker_that_was_never_put_in_its_place)
{
    char job[PATH_MAX];
    struct err err;
    enter();
    check_int(job_folder_make(".", 12, 100, job, &err), ==, 0);
    int fd = open("job-12/store-0123456789abcdef", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    check(fd >= 0);
    close(fd);
    job_folder_leave(AT_FDCWD, job, 100);
    check(access(job, F_OK) < 0);
}

enum { STORES = 4, ROUNDS = 200 };

static void *take_many(void *arg)
{
    int64_t store_id = *(const int64_t *)arg;
    int64_t wrong = 0;
    for (int i = 1; i <= ROUNDS; i++) {
        char path[PATH_MAX];
        struct err err;
        wrong += job_folder_make(".", i, store_id, path, &err) < 0 ||
                 owner_of(path, store_id) != OWNER_THIS;
    }
    *(int64_t *)arg = wrong;
    return NULL;
}

/* Symptom: a store that looked before the marker was written took the folder of another one. */
TEST(job_folder, stores_that_make_a_folder_at_once_never_share_it)
{
    pthread_t threads[STORES];
    int64_t stores[STORES];
    enter();
    for (int i = 0; i < STORES; i++) {
        stores[i] = 100 + i;
        check_int(pthread_create(&threads[i], NULL, take_many, &stores[i]), ==, 0);
    }
    for (int i = 0; i < STORES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < STORES; i++)
        check_int(stores[i], ==, 0);
    for (int i = 1; i <= ROUNDS; i++) { /* one has the plain name, all others one of their own */
        int own = 0;
        for (int store = 100; store < 100 + STORES; store++) {
            char path[64];
            snprintf(path, sizeof path, "job-%d-%x", i, (unsigned)store);
            own += access(path, F_OK) == 0;
        }
        check_int(own, ==, STORES - 1);
    }
}

TEST(job_folder, it_goes_when_only_its_marker_is_left)
{
    char job[PATH_MAX];
    char lease[PATH_MAX];
    struct err err;
    enter();
    int fd = lease_folder_make(".", 12, 5, 100, job, lease, &err);
    check(fd >= 0);
    close(fd);
    check_str(lease, "./job-12/lease-5");
    job_folder_leave(AT_FDCWD, job, 100);
    check_int(owner_of(job, 100), ==, OWNER_THIS);
    check_int(rmdir(lease), ==, 0);
    job_folder_leave(AT_FDCWD, job, 100);
    check(access(job, F_OK) < 0);
}

/* Symptom: a link in the runner's folder led to the folder of another job, which was then used and
 * cleaned up as if it were this one's. */
TEST(job_folder, a_link_is_nobodys_folder_wherever_it_leads)
{
    char path[PATH_MAX];
    struct err err;
    enter();
    check_int(job_folder_make(".", 1, 100, path, &err), ==, 0);
    check_int(symlink("job-1", "job-77"), ==, 0);
    check_int(owner_of("job-77", 100), ==, OWNER_NONE);
    check_int(job_folder_make(".", 77, 100, path, &err), ==, 0);
    check_str(path, "./job-77-64");
    job_folder_leave(AT_FDCWD, "job-77", 100);
    check_int(owner_of("job-1", 100), ==, OWNER_THIS);
}

TEST(job_folder, a_lease_is_locked_while_its_runner_has_it)
{
    struct err err;
    enter();
    check_int(mkdir("lease-5", 0700), ==, 0);
    int folder = job_folder_open(AT_FDCWD, "lease-5");
    check(!lease_folder_is_locked(folder));
    int lock = lease_folder_lock(folder, "lease-5", &err);
    check(lock >= 0);
    check(lease_folder_is_locked(folder));
    close(lock);
    check(!lease_folder_is_locked(folder));
    close(folder);
}

TEST(job_folder, what_is_kept_says_why)
{
    struct err err;
    enter();
    check_int(mkdir("lease-5", 0700), ==, 0);
    check_int(kept_of("lease-5"), ==, KEEP_NOT);
    int folder = job_folder_open(AT_FDCWD, "lease-5");
    for (int why = KEEP_FAILED; why <= KEEP_RESET; why++) {
        check_int(lease_folder_keep(folder, "lease-5", (enum keep_why)why, &err), ==, 0);
        check_int(kept_of("lease-5"), ==, why);
    }
    check_int(system("rm -r lease-5"), ==, 0);
    check(lease_folder_keep(folder, "lease-5", KEEP_FAILED, &err) < 0);
    check_contains(err.text, "lease-5/kept");
    close(folder);
}

TEST(disk_use, counts_what_would_be_free_again)
{
    enum { LARGE = 1 << 20 };
    char *bytes = calloc(1, LARGE);
    enter();
    check_int(mkdir("a", 0700), ==, 0);
    check_int(mkdir("a/b", 0700), ==, 0);
    FILE *file = fopen("a/b/file", "we");
    check(file != NULL && fwrite(bytes, 1, LARGE, file) == LARGE && fclose(file) == 0);
    check_int(disk_use("a"), >=, LARGE);
    check_int(link("a/b/file", "elsewhere"), ==, 0);
    check_int(symlink("elsewhere", "a/b/link"), ==, 0);
    check_int(disk_use("a"), <, LARGE);
    check_int(disk_use("not there"), ==, 0);
    free(bytes);
}
