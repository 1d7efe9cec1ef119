/* Inside core/redact: which variables hold secrets, by name and by value. */
#include "core/redact_set.h"

#include <strings.h>

enum {
    WORDS_MAX = 16, /* of a name; what follows is not looked at */
    WORD_BYTES = 32,
    NUMBER_MAX_DIGITS = 7, /* a longer number may be a secret, a shorter one is a limit or a port */
};

struct words {
    char word[WORDS_MAX][WORD_BYTES];
    size_t count;
};

/* A word that ends so is enough: PGPASSWORD, GITHUB_TOKEN. */
static const char *const secret_endings[] = {
    "TOKEN",      "TOKENS",     "SECRET", "SECRETS",     "PASSWORD",   "PASSWORDS", "PASSWD",
    "PASSPHRASE", "CREDENTIAL", "APIKEY", "CREDENTIALS", "PRIVATEKEY", "ACCESSKEY", "SECRETKEY",
};

/* The word itself. */
static const char *const secret_words[] = {
    "PASS", "AUTH", "OAUTH", "CREDS", "JWT", "BEARER", "PAT",
};

/* Followed by KEY. */
static const char *const secret_keys[] = {
    "API",    "PRIVATE", "ACCESS", "SIGNING", "ENCRYPTION", "MASTER",
    "DEPLOY", "SERVICE", "AUTH",   "SSH",     "ACCOUNT",    "STORAGE",
};

/* A name that ends so tells about a secret: PASSWORD_FILE, TOKEN_TYPE, SSH_AUTH_SOCK. */
static const char *const harmless_ends[] = {
    "FILE",     "PATH",     "DIR",    "SOCK",   "SOCKET",   "HOME",   "NAME",
    "USER",     "USERNAME", "TYPE",   "HOST",   "PORT",     "URL",    "URI",
    "ENDPOINT", "EXPIRES",  "EXPIRY", "TTL",    "TIMEOUT",  "LENGTH", "LIMIT",
    "COUNT",    "ENABLED",  "MODE",   "METHOD", "PROVIDER", "REGION", "VERSION",
};

static const char *const plain_values[] = {
    "false",    "disabled", "enabled",   "default", "password", "secret",
    "optional", "required", "undefined", "unknown", "changeme",
};

static const char *const path_roots[] = {
    "/bin/", "/dev/",       "/etc/",  "/home/",  "/lib/", "/mnt/", "/nix/",
    "/opt/", "/proc/",      "/root/", "/run/",   "/srv/", "/sys/", "/tmp/",
    "/usr/", "/workspace/", "/var/",  "/Users/", "./",    "../",   "~/",
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool in_table(const char *const *table, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i], word) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *word, const char *ending)
{
    size_t len = strlen(word), ending_len = strlen(ending);
    return len >= ending_len && strcmp(word + len - ending_len, ending) == 0;
}

/* The words between _ - . and blanks, in capitals, without digits at the end (TOKEN2). */
static void split(const char *name, struct words *words)
{
    words->count = 0;
    while (*name && words->count < WORDS_MAX) {
        size_t len = strcspn(name, "_-. ");
        char *word = words->word[words->count];
        size_t kept = 0;
        for (size_t i = 0; i < len && kept < WORD_BYTES - 1; i++) {
            char byte = name[i];
            word[kept++] = byte >= 'a' && byte <= 'z' ? (char)(byte - 0x20) : byte;
        }
        while (kept > 0 && redact_is_digit(word[kept - 1]))
            kept--;
        word[kept] = '\0';
        if (kept > 0)
            words->count++;
        name += len;
        name += *name != '\0';
    }
}

static bool word_is_secret(const struct words *words, size_t i)
{
    const char *word = words->word[i];
    for (size_t j = 0; j < COUNT(secret_endings); j++) {
        if (ends_with(word, secret_endings[j]))
            return true;
    }
    if (in_table(secret_words, COUNT(secret_words), word))
        return true;
    /* PWD alone is a folder, MYSQL_PWD a password. */
    if (strcmp(word, "PWD") == 0)
        return i > 0;
    return strcmp(word, "KEY") == 0 && i > 0 &&
           in_table(secret_keys, COUNT(secret_keys), words->word[i - 1]);
}

bool redact_name_is_secret(const char *name)
{
    struct words words;
    split(name, &words);
    if (words.count == 0 ||
        in_table(harmless_ends, COUNT(harmless_ends), words.word[words.count - 1]))
        return false;
    for (size_t i = 0; i < words.count; i++) {
        if (word_is_secret(&words, i))
            return true;
    }
    return false;
}

static bool is_small_number(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits <= NUMBER_MAX_DIGITS && value[digits] == '\0';
}

static bool is_usual_path(const char *value)
{
    for (size_t i = 0; i < COUNT(path_roots); i++) {
        if (strncmp(value, path_roots[i], strlen(path_roots[i])) == 0)
            return true;
    }
    return false;
}

bool redact_value_is_secret(const char *value)
{
    if (strlen(value) < REDACT_SECRET_MIN_BYTES || is_small_number(value) || is_usual_path(value))
        return false;
    for (size_t i = 0; i < COUNT(plain_values); i++) {
        if (strcasecmp(value, plain_values[i]) == 0)
            return false;
    }
    return value[strspn(value, " \t\r\n")] != '\0';
}
