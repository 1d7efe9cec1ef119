/* See diffstat.h. */
#include "core/diffstat.h"

#include <string.h>

struct line {
    const char *text;
    size_t len; /* without its end */
};

/* False: there is no more. */
static bool next_line(const char **at, const char *end, struct line *ret)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *ret = (struct line){.text = *at, .len = (size_t)((stop != NULL ? stop : end) - *at)};
    *at = stop != NULL ? stop + 1 : end;
    return true;
}

static bool starts_with(const struct line *line, const char *start)
{
    size_t len = strlen(start);
    return line->len >= len && memcmp(line->text, start, len) == 0;
}

static void set_path(struct diffstat_file *file, const char *path, size_t len)
{
    file->path = path;
    file->path_bytes = len;
}

/* "diff --git a/NAME b/NAME": both are the same, unless the file was renamed, which a later line
 * says. */
static void read_header(const struct line *line, struct diffstat_file *file)
{
    static const char start[] = "diff --git ";
    size_t left = line->len - (sizeof start - 1);
    *file = (struct diffstat_file){.status = 'M'};
    if (left >= 5)
        set_path(file, line->text + line->len - (left - 5) / 2, (left - 5) / 2);
}

/* "a/NAME" or "b/NAME" without its first two bytes; also in quotes. */
static void read_side(const struct line *line, size_t from, struct diffstat_file *file)
{
    const char *text = line->text + from;
    size_t len = line->len - from;
    if (len > 0 && text[len - 1] == '\t') /* behind a name with blanks */
        len--;
    if (len == 9 && memcmp(text, "/dev/null", len) == 0)
        return;
    if (len > 4 && text[0] == '"')
        set_path(file, text + 3, len - 4);
    else if (len > 2)
        set_path(file, text + 2, len - 2);
}

static int64_t read_number(const char *at, const char *end)
{
    int64_t number = 0;
    for (; at < end && *at >= '0' && *at <= '9' && number < INT32_MAX; at++)
        number = number * 10 + (*at - '0');
    return number;
}

/* "@@ -1,2 +3 @@": how many lines of each side follow. */
static bool read_hunk(const struct line *line, int64_t *ret_old, int64_t *ret_new)
{
    int64_t *counts[] = {ret_old, ret_new};
    const char *at = line->text + 3;
    const char *end = line->text + line->len;
    if (!starts_with(line, "@@ -"))
        return false;
    for (size_t i = 0; i < 2; i++) {
        *counts[i] = 1;
        while (at < end && *at != ',' && *at != ' ')
            at++;
        if (at < end && *at == ',')
            *counts[i] = read_number(at + 1, end);
        while (at < end && *at != ' ')
            at++;
        at += at < end;
    }
    return true;
}

static void count_lines(const char **at, const char *end, int64_t old_lines, int64_t new_lines,
                        struct diffstat_file *file)
{
    struct line line;
    while ((old_lines > 0 || new_lines > 0) && next_line(at, end, &line)) {
        char first = line.len > 0 ? line.text[0] : ' ';
        file->added += first == '+';
        file->removed += first == '-';
        old_lines -= first == '-' || first == ' ';
        new_lines -= first == '+' || first == ' ';
    }
}

static void read_extended(const struct line *line, struct diffstat_file *file)
{
    if (starts_with(line, "new file mode "))
        file->status = 'A';
    else if (starts_with(line, "deleted file mode "))
        file->status = 'D';
    else if (starts_with(line, "rename to ")) {
        file->status = 'R';
        set_path(file, line->text + 10, line->len - 10);
    } else if (starts_with(line, "--- ") || starts_with(line, "+++ "))
        read_side(line, 4, file);
    else if (starts_with(line, "GIT binary patch") || starts_with(line, "Binary files "))
        file->binary = true;
}

bool diffstat_next(const char **at, const char *end, struct diffstat_file *ret)
{
    struct line line;
    do
        if (!next_line(at, end, &line))
            return false;
    while (!starts_with(&line, "diff --git "));
    read_header(&line, ret);
    for (const char *before = *at; next_line(at, end, &line); before = *at) {
        int64_t old_lines;
        int64_t new_lines;
        if (starts_with(&line, "diff --git ")) {
            *at = before;
            break;
        }
        if (read_hunk(&line, &old_lines, &new_lines))
            count_lines(at, end, old_lines, new_lines, ret);
        else
            read_extended(&line, ret);
    }
    return true;
}
