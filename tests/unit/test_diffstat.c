/* Which files a patch changes, as `tend patch --stat` tells. */
#include "core/diffstat.h"

#include "support/store.h"

#include <string.h>

/* "M a.c +1 -2|A b.bin binary" */
static const char *stat_of(const char *patch, size_t bytes)
{
    struct diffstat_file file;
    const char *at = patch;
    const char *text = "";
    while (diffstat_next(&at, patch + bytes, &file)) {
        const char *one =
            file.binary ? "binary"
                        : keep_text("+%lld -%lld", (long long)file.added, (long long)file.removed);
        text = keep_text("%s%s%c %.*s %s", text, text[0] == '\0' ? "" : "|", file.status,
                         (int)file.path_bytes, file.path, one);
    }
    return text;
}

static const char patch[] = "diff --git a/dir/a.c b/dir/a.c\n"
                            "index 111..222 100644\n"
                            "--- a/dir/a.c\n+++ b/dir/a.c\n"
                            "@@ -1,3 +1,3 @@ int main\n one\n--- two\n+++ three\n four\n"
                            "@@ -10 +10,2 @@\n-x\n+y\n+z\n\\ No newline at end of file\n"
                            "diff --git a/new b/new\nnew file mode 100644\n"
                            "index 000..333\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"
                            "diff --git a/gone b/gone\ndeleted file mode 100644\n"
                            "index 444..000\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
                            "diff --git a/empty b/empty\nnew file mode 100755\nindex 000..e69\n"
                            "diff --git a/x.bin b/x.bin\nindex 1..2 100644\nGIT binary patch\n"
                            "literal 3\nKcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"
                            "diff --git a/old name b/new name\nsimilarity index 100%\n"
                            "rename from old name\nrename to new name\n"
                            "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nindex 1..2 100644\n"
                            "--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n";

TEST(diffstat, every_kind_of_change_is_told)
{
    check_str(stat_of(patch, sizeof patch - 1),
              "M dir/a.c +3 -2|A new +1 -0|D gone +0 -1|A empty +0 -0|M x.bin binary|"
              "R new name +0 -0|M \\303\\244 +1 -1");
}

TEST(diffstat, a_patch_that_was_cut_is_read_as_far_as_it_goes)
{
    for (size_t bytes = 0; bytes < sizeof patch; bytes++)
        check(stat_of(keep_text("%.*s", (int)bytes, patch), bytes) != NULL);
    check_str(stat_of(patch, strlen("diff --git a/dir/a.c b/dir/a.c\n")), "M dir/a.c +0 -0");
}

TEST(diffstat, what_is_no_patch_has_no_files)
{
    check_str(stat_of("", 0), "");
    check_str(stat_of("hello\nworld", 11), "");
    check_str(stat_of("diff --git ", 11), "M  +0 -0");
}
