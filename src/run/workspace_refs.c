/*
 * See workspace_inner.h: which refs a repository has.
 *
 * A list has the form of a packed-refs file, so that it can be written as one: a first line, then
 * "ID NAME" by name. What belongs to one working copy of the user, and not to the repository, is
 * left out: the stash, a bisection, a rebase.
 */
#include "run/workspace_inner.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

#define FIRST_LINE "# pack-refs with: sorted \n"

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_of_a_working_copy(const char *name)
{
    return strcmp(name, "refs/stash") == 0 || starts_with(name, "refs/stash ") ||
           starts_with(name, "refs/bisect/") || starts_with(name, "refs/worktree/") ||
           starts_with(name, "refs/rewritten/");
}

/* "ID NAME TARGET"; the target is empty for most. Taken apart in place. */
static void add_line(char *line, struct buf *refs, struct buf *symbolic)
{
    char *name = strchr(line, ' ');
    char *target = name != NULL ? strchr(name + 1, ' ') : NULL;
    if (target == NULL || is_of_a_working_copy(name + 1))
        return;
    *target++ = '\0';
    buf_printf(refs, "%s\n", line);
    if (target[0] != '\0' && symbolic != NULL)
        buf_printf(symbolic, "%s %s\n", name + 1, target);
}

int workspace_refs_list(struct workspace_keeper *keeper, const char *git_folder,
                        const char *const prefixes[2], struct buf *refs, struct buf *symbolic,
                        struct err *err)
{
    struct buf lines;
    buf_init(&lines);
    struct git_call call = {
        .folder = git_folder,
        .git_dir = git_folder,
        .args = (const char *const[]){"for-each-ref", "--format=%(objectname) %(refname) %(symref)",
                                      prefixes[0], prefixes[1], NULL}};
    int rc = workspace_git_text(keeper, &call, &lines, err);
    buf_clear(refs);
    buf_puts(refs, FIRST_LINE);
    char *saved = NULL;
    for (char *line = rc == 0 ? strtok_r(lines.data, "\n", &saved) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &saved))
        add_line(line, refs, symbolic);
    buf_done(&lines);
    if (rc == 0 && (refs->failed || (symbolic != NULL && symbolic->failed)))
        rc = workspace_file_fail(keeper, err_set(err, TEND_ENOMEM, "out of memory"));
    return rc;
}

void workspace_refs_move(const struct buf *refs, const char *from, const char *to, struct buf *out)
{
    buf_clear(out);
    buf_puts(out, FIRST_LINE);
    const char *at = refs->len > 0 ? strchr(refs->data, '\n') : NULL;
    while (at != NULL && *++at != '\0') {
        const char *end = strchr(at, '\n');
        const char *name = strchr(at, ' ');
        if (end == NULL || name == NULL || name > end)
            return;
        if (starts_with(++name, from)) {
            buf_append(out, at, (size_t)(name - at));
            buf_puts(out, to);
            name += strlen(from);
            buf_append(out, name, (size_t)(end + 1 - name));
        }
        at = end;
    }
}

bool workspace_refs_have(const struct buf *refs, const char *commit)
{
    char line[GIT_ID_BYTES + 2];
    snprintf(line, sizeof line, "\n%s ", commit);
    return refs->len > 0 && strstr(refs->data, line) != NULL;
}
