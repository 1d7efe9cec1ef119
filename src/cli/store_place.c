/* See store_place.h. */
#include "cli/store_place.h"

#include "cli/cli.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char default_path[] = ".tend/tend.db";
static const char scheme[] = "sqlite:";

static struct store_place place;
static char url[PATH_MAX + sizeof scheme];
static bool known;

/* --- a store that is named --- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Not what is left of a URL, "//me:secret@host/x", nor of a string of KEYWORD=VALUE, "/tmp
 * password=secret": as a path it would be repeated in messages. */
static bool begins_as_path(const char *text)
{
    if (begins_with(text, "//") || (strchr(text, ' ') && strchr(text, '=')))
        return false;
    return begins_with(text, "/") || begins_with(text, "./") || begins_with(text, "../");
}

static bool is_path(const char *text)
{
    struct stat info;
    if (begins_as_path(text))
        return true;
    if (text[strcspn(text, ":=@?")] != '\0')
        return false;
    return strchr(text, '/') || ends_with(text, ".db") || ends_with(text, ".sqlite") ||
           ends_with(text, ".sqlite3") || (stat(text, &info) == 0 && S_ISREG(info.st_mode));
}

/* What is too long is the engine's to refuse. */
static void place_at(enum store_how how, const char *path)
{
    place.how = how;
    snprintf(place.path, sizeof place.path, "%s", path);
    snprintf(url, sizeof url, "%s%s", scheme, place.path);
    place.url = url;
}

static void place_named(const char *text)
{
    if (is_path(text) && strlen(text) < sizeof place.path) {
        place_at(STORE_NAMED, text);
        return;
    }
    place.how = STORE_NAMED;
    place.url = text;
    if (begins_with(text, scheme))
        snprintf(place.path, sizeof place.path, "%s", text + strlen(scheme));
}

/* --- a store that is found --- */

static bool is_trusted(uid_t owner)
{
    uid_t caller = geteuid();
    const char *sudo = getenv("SUDO_UID");
    if (owner == caller || owner == 0)
        return true;
    char *end = NULL;
    return caller == 0 && sudo && *sudo && strtoull(sudo, &end, 10) == owner && *end == '\0';
}

/* Of the file and, where it is a link, of what that leads to. *ret_owner: whose it is otherwise. */
static bool has_trusted_owner(const char *path, uid_t *ret_owner)
{
    struct stat info;
    if (lstat(path, &info) == 0 && !is_trusted(*ret_owner = info.st_uid))
        return false;
    return stat(path, &info) != 0 || is_trusted(*ret_owner = info.st_uid);
}

static void name_owner(uid_t owner)
{
    const struct passwd *user = getpwuid(owner);
    if (user)
        snprintf(place.owner, sizeof place.owner, "%s", user->pw_name);
    else
        snprintf(place.owner, sizeof place.owner, "%lu", (unsigned long)owner);
}

/* Whether there is a store in this folder ("": the current one); then it is the place. */
static bool look_in(const char *folder)
{
    char tend_folder[PATH_MAX];
    char path[PATH_MAX];
    struct stat info;
    uid_t owner;
    const char *slash = *folder && strcmp(folder, "/") != 0 ? "/" : "";
    if (snprintf(path, sizeof path, "%s%s%s", folder, slash, default_path) >= (int)sizeof path)
        return false;
    snprintf(tend_folder, sizeof tend_folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    /* A link that leads nowhere is a store, too: nobody makes one through it. What cannot be looked
     * at is the caller's business in the current folder alone. */
    bool missing = lstat(path, &info) != 0 && (*folder || errno == ENOENT || errno == ENOTDIR);
    bool trusted = has_trusted_owner(tend_folder, &owner) && has_trusted_owner(path, &owner);
    /* Nor is a store made in a folder of another user. */
    if (missing && (trusted || *folder))
        return false;
    place_at(trusted ? STORE_FOUND : STORE_FOREIGN, path);
    if (!trusted)
        name_owner(owner);
    return true;
}

/* By what it is and not by its name: HOME may be a link, or end with a slash. */
static bool is_home(const struct stat *folder)
{
    const char *home = getenv("HOME");
    struct stat info;
    return home && *home == '/' && stat(home, &info) == 0 && info.st_dev == folder->st_dev &&
           info.st_ino == folder->st_ino;
}

/* In the folders above the current one. */
static bool look_above(void)
{
    char folder[PATH_MAX];
    struct stat here;
    if (!getcwd(folder, sizeof folder) || folder[0] != '/' || stat(folder, &here) != 0)
        return false;
    while (strcmp(folder, "/") != 0 && !is_home(&here)) {
        dev_t device = here.st_dev;
        char *slash = strrchr(folder, '/');
        slash[slash == folder] = '\0'; /* "/" stays */
        if (stat(folder, &here) != 0 || here.st_dev != device)
            return false;
        if (look_in(folder))
            return true;
    }
    return false;
}

const struct store_place *store_place(void)
{
    if (known)
        return &place;
    known = true;
    const char *named = getenv("TEND_STORE");
    if (globals.store_url)
        place_named(globals.store_url);
    else if (named && *named)
        place_named(named);
    else if (!look_in("") && !look_above())
        place_at(STORE_MISSING, default_path);
    return &place;
}

void store_place_stay(void)
{
    const struct store_place *found = store_place();
    if (found->how == STORE_NAMED || strcmp(found->path, default_path) == 0)
        return;
    memcpy(place.above, place.path, sizeof place.above);
    place_at(STORE_MISSING, default_path);
}

static const char own_folder[] = "/.tend";

bool store_place_own_folder(const struct store_place *of, char ret[PATH_MAX])
{
    const char *slash = strrchr(of->path, '/');
    snprintf(ret, PATH_MAX, "%.*s", slash ? (int)(slash - of->path) : 0, of->path);
    return strcmp(ret, own_folder + 1) == 0 || ends_with(ret, own_folder);
}

const char *store_place_run_folder(void)
{
    char path[PATH_MAX];
    if (!*store_place()->path || !realpath(place.path, path))
        return NULL;
    *strrchr(path, '/') = '\0';
    int len = snprintf(place.run_folder, sizeof place.run_folder, "%s/run", path);
    return ends_with(path, own_folder) && len < (int)sizeof place.run_folder ? place.run_folder
                                                                             : NULL;
}
