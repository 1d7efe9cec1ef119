/* See shell_word.h. */
#include "run/shell_word.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The length of the first word; 0: only a shell can tell what it is. */
static size_t plain_word(const char *line)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/+";
    size_t len = strspn(line, plain);
    return line[len] == '\0' || strchr(" \t\n;&|", line[len]) != NULL ? len : 0;
}

static bool is_word_of_shell(const char *word)
{
    static const char *const words[] = {
        ".",        "alias", "bg",      "break",    "builtin", "case",   "cd",     "command",
        "continue", "echo",  "eval",    "exec",     "exit",    "export", "false",  "fc",
        "fg",       "for",   "getopts", "hash",     "if",      "jobs",   "kill",   "local",
        "printf",   "pwd",   "read",    "readonly", "return",  "set",    "shift",  "source",
        "test",     "time",  "times",   "trap",     "true",    "type",   "ulimit", "umask",
        "unalias",  "unset", "until",   "wait",     "while",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool can_be_executed(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool is_in_path(const char *word)
{
    const char *folders = getenv("PATH");
    char path[PATH_MAX];
    for (size_t len; folders != NULL; folders = folders[len] == ':' ? folders + len + 1 : NULL) {
        len = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/%s", len > 0 ? (int)len : 1, len > 0 ? folders : ".",
                 word);
        if (can_be_executed(path))
            return true;
    }
    return getenv("PATH") == NULL; /* a shell has one of its own then */
}

bool shell_lacks_command(const char *line, const char *folder)
{
    char word[NAME_MAX + 1];
    char path[PATH_MAX];
    line += strspn(line, " \t\n");
    size_t len = plain_word(line);
    if (len == 0 || len >= sizeof word)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)len, line);
    if (strchr(word, '/') == NULL)
        return !is_word_of_shell(word) && !is_in_path(word);
    if (word[0] != '/' && folder == NULL)
        return false;
    int used = word[0] == '/' ? snprintf(path, sizeof path, "%s", word)
                              : snprintf(path, sizeof path, "%s/%s", folder, word);
    return used < (int)sizeof path && !can_be_executed(path);
}
