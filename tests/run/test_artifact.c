/* SH-9: the files of a job's folder, whole or not there. */
#include "base/buf.h"
#include "run/artifact.h"
#include "run/workspace_files.h"
#include "support/mounts.h"
#include "support/test.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tend.h>
#include <unistd.h>

static struct artifact_folder job(void)
{
    return (struct artifact_folder){.path = test_path("job"), .durable = true};
}

static json_t *load(const char *name)
{
    json_error_t error;
    json_t *json = json_load_file(test_path(name), 0, &error);
    check(json != NULL);
    return json;
}

static int files_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    check(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

TEST(artifact, SH_9_names_have_four_digits_and_grow)
{
    char name[ARTIFACT_NAME_BYTES];
    check_str(artifact_patch_name(1, name), "patches/steps/step-0001.patch");
    check_str(artifact_step_name(42, name), "state/steps/step-0042.json");
    check_str(artifact_attempt_name(9999, name), "state/self_heal/attempt-9999.json");
    check_str(artifact_patch_name(10000, name), "patches/steps/step-10000.patch");
    check_str(artifact_attempt_name(INT64_MAX, name),
              "state/self_heal/attempt-9223372036854775807.json");
}

TEST(artifact, SH_9_a_checkpoint_is_a_patch_and_its_description)
{
    struct artifact_folder folder = job();
    struct err err = {0};
    static const char patch[] = "diff\0with a NUL\n";
    const char *files[] = {"a.txt", "new\nline \"q\"", "bad\xFF"};
    struct artifact_step step = {.id = "compile \xC3\xBC",
                                 .index = 1,
                                 .attempt = 2,
                                 .diff_hash = "abc",
                                 .changed_files = files,
                                 .changed_file_count = 3,
                                 .at_ms = 1767225600123};
    check_int(artifact_write_patch(&folder, 1, patch, sizeof patch, &err), ==, 0);
    check_int(artifact_write_step(&folder, &step, &err), ==, 0);

    struct buf read;
    buf_init(&read);
    check_int(
        files_read(test_path("job/patches/steps/step-0001.patch"), FILES_SMALL_BYTES, &read, &err),
        ==, 0);
    check_int(read.len, ==, sizeof patch);
    check(memcmp(read.data, patch, sizeof patch) == 0);
    buf_done(&read);

    json_t *json = load("job/state/steps/step-0001.json");
    check_int(json_object_size(json), ==, 6);
    check_str(json_string_value(json_object_get(json, "id")), "compile \xC3\xBC");
    check_int(json_integer_value(json_object_get(json, "index")), ==, 1);
    check_int(json_integer_value(json_object_get(json, "attempt")), ==, 2);
    check_str(json_string_value(json_object_get(json, "diffHash")), "abc");
    check_str(json_string_value(json_object_get(json, "timestamp")), "2026-01-01T00:00:00.123Z");
    json_t *changed = json_object_get(json, "changedFiles");
    check_int(json_array_size(changed), ==, 3);
    check_str(json_string_value(json_array_get(changed, 1)), "new\nline \"q\"");
    check_str(json_string_value(json_array_get(changed, 2)), "bad\xEF\xBF\xBD");
    json_decref(json);
    struct stat status;
    check_int(stat(test_path("job/state/steps/step-0001.json"), &status), ==, 0);
    mode_t mask = umask(0);
    check_int(status.st_mode & 0777, ==, 0666 & ~mask);
}

TEST(artifact, SH_9_an_attempt_is_written_as_given_and_replaces_the_one_before)
{
    struct artifact_folder folder = {.path = test_path("job")};
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        json_t *record = json_pack("{s:i, s:s}", "attempt", i, "class", "transient_runtime");
        check_int(artifact_write_attempt(&folder, 3, record, &err), ==, 0);
        json_t *read = load("job/state/self_heal/attempt-0003.json");
        check(json_equal(record, read));
        json_decref(read);
        json_decref(record);
    }
    check_int(files_in(test_path("job/state/self_heal")), ==, 1);
}

/* A small file system of the test's own, where this process may mount one. */
static bool mount_small_disk(const char *path)
{
    return mkdir(path, 0755) == 0 && mounts_own() && mounts_disk(path, "64k");
}

TEST(artifact, no_space_left_is_said_and_the_old_file_stays)
{
    struct artifact_folder folder = job();
    struct err err = {0};
    static char large[100000];
    bool mounted = mount_small_disk(folder.path);
    check_int(artifact_write_patch(&folder, 1, "old", 3, &err), ==, 0);
    if (!mounted) {
        /* A file that may not grow is much the same from here. */
        struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
        signal(SIGXFSZ, SIG_IGN);
        check_int(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    }
    check_int(artifact_write_patch(&folder, 1, large, sizeof large, &err), ==,
              mounted ? TEND_EFULL : TEND_EIO);
    check_contains(err.text, "step-0001.patch");
    if (mounted)
        check_contains(err.text, "no space left on the disk; free some and try again");
    check_int(files_in(test_path("job/patches/steps")), ==, 1);
    struct buf read;
    buf_init(&read);
    check_int(
        files_read(test_path("job/patches/steps/step-0001.patch"), FILES_SMALL_BYTES, &read, &err),
        ==, 0);
    check_str(read.data, "old");
    buf_done(&read);
}

TEST(artifact, a_file_where_a_folder_should_be_is_named)
{
    struct artifact_folder folder = job();
    struct err err = {0};
    check_int(files_write(test_path("job"), "", 0, &err), ==, 0);
    check_int(artifact_write_patch(&folder, 1, "x", 1, &err), ==, TEND_EIO);
    check_contains(err.text, "job");
    check_contains(err.text, "Not a directory");
}

/* Symptom: a step put a link in the place of a folder, and its records went where the link leads.
 */
TEST(artifact, a_link_in_the_place_of_a_folder_is_not_followed)
{
    struct artifact_folder folder = job();
    struct err err = {0};
    check_int(mkdir(test_path("job"), 0700), ==, 0);
    check_int(mkdir(test_path("elsewhere"), 0700), ==, 0);
    check_int(symlink(test_path("elsewhere"), test_path("job/patches")), ==, 0);
    check_int(artifact_write_patch(&folder, 1, "x", 1, &err), <, 0);
    check_contains(err.text, "job/patches/steps/step-0001.patch");
    check_int(files_in(test_path("elsewhere")), ==, 0);
}

/* A reader, and whoever looks after a crash, sees one whole version or the other. */
TEST(artifact, nobody_ever_sees_half_a_file)
{
    enum { BYTES = 300000, WRITES_SEEN = 200 };
    struct artifact_folder folder = job();
    struct err err = {0};
    static char text[BYTES];
    folder.durable = false;
    memset(text, 'a', BYTES);
    check_int(artifact_write_patch(&folder, 1, text, BYTES, &err), ==, 0);
    pid_t writer = fork();
    if (writer == 0)
        for (char letter = 'a';; letter = letter == 'z' ? 'a' : (char)(letter + 1)) {
            memset(text, letter, BYTES);
            if (artifact_write_patch(&folder, 1, text, BYTES, NULL) < 0)
                _exit(1);
        }
    struct buf read;
    buf_init(&read);
    char last = 0;
    for (int seen = 0; seen < WRITES_SEEN;) {
        buf_clear(&read);
        check_int(files_read(test_path("job/patches/steps/step-0001.patch"), FILES_SMALL_BYTES,
                             &read, &err),
                  ==, 0);
        check_int(read.len, ==, BYTES);
        check_int(read.data[0], ==, read.data[BYTES - 1]);
        seen += read.data[0] != last;
        last = read.data[0];
    }
    kill(writer, SIGKILL);
    check_int(waitpid(writer, NULL, 0), ==, writer);
    buf_clear(&read);
    check_int(
        files_read(test_path("job/patches/steps/step-0001.patch"), FILES_SMALL_BYTES, &read, &err),
        ==, 0);
    check_int(read.len, ==, BYTES);
    buf_done(&read);
}

/* The same for the folder of the job itself. */
TEST(artifact, a_link_in_the_place_of_the_jobs_folder_is_not_followed)
{
    struct artifact_folder folder = job();
    struct err err = {0};
    check_int(mkdir(test_path("elsewhere"), 0700), ==, 0);
    check_int(symlink(test_path("elsewhere"), test_path("job")), ==, 0);
    check_int(artifact_write_patch(&folder, 1, "x", 1, &err), <, 0);
    check_int(files_in(test_path("elsewhere")), ==, 0);
}
