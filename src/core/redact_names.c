/*
 * Inside core/redact: which names are those of secrets.
 *
 * A name is cut into words (DB_PASSWORD, db-password and dbPassword are DB and PASSWORD), and the
 * words are looked up in tables: one row for each word that makes a name secret, and short lists of
 * what makes it harmless again. Settings of the user come before all of them.
 */
#include "core/redact_set.h"

#include "base/err.h"

#include <tend.h>

enum {
    WORDS_MAX = 16, /* of a name; what follows is not looked at */
    WORD_BYTES = 32,
    GLOB_BYTES = 128, /* of a name in a setting */
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* ---- words ---- */

struct words {
    char word[WORDS_MAX][WORD_BYTES];
    size_t count;
};

static bool is_separator(char byte)
{
    return byte == '_' || byte == '-' || byte == '.' || byte == ' ' || byte == ':';
}

/* Whether a word begins at name[i], which is no separator: aB, and the B of AABc. */
static bool begins_word(const char *name, size_t i)
{
    if (i == 0 || is_separator(name[i - 1]))
        return true;
    if (!redact_is_upper(name[i]))
        return false;
    return redact_is_lower(name[i - 1]) ||
           (redact_is_upper(name[i - 1]) && redact_is_lower(name[i + 1]));
}

/* Digits at its end do not count: TOKEN2. */
static void end_word(struct words *words, size_t len)
{
    char *word = words->word[words->count];
    while (len > 0 && redact_is_digit(word[len - 1]))
        len--;
    word[len] = '\0';
    if (len > 0)
        words->count++;
}

/* In capitals. */
static void split(const char *name, struct words *words)
{
    size_t len = 0;
    words->count = 0;
    for (size_t i = 0; name[i] && words->count < WORDS_MAX; i++) {
        if (is_separator(name[i]))
            continue;
        if (begins_word(name, i) && i > 0) {
            end_word(words, len);
            len = 0;
        }
        if (words->count < WORDS_MAX && len < WORD_BYTES - 1)
            words->word[words->count][len++] =
                (char)(redact_is_lower(name[i]) ? name[i] - 0x20 : name[i]);
    }
    if (words->count < WORDS_MAX)
        end_word(words, len);
}

static bool is_one_of(const char *word, const char *const *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (table[i][0] == word[0] && strcmp(table[i], word) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(word, table) is_one_of(word, table, COUNT(table))

static bool ends_with(const char *word, const char *ending)
{
    size_t len = strlen(word), ending_len = strlen(ending);
    return len >= ending_len && strcmp(word + len - ending_len, ending) == 0;
}

/* ---- the tables ---- */

enum where {
    WHOLE, /* the word itself */
    ENDS,  /* or a word that ends so: PGPASSWORD */
};

struct secret_word {
    const char *word;
    size_t len;
    enum where where;
    enum redact_name_class class;
};

#define WORD(text) text, sizeof(text) - 1

static const struct secret_word secret_words[] = {
    {WORD("PASSWORD"), ENDS, REDACT_NAME_STRONG},
    {WORD("PASSWORDS"), ENDS, REDACT_NAME_STRONG},
    {WORD("PASSWD"), ENDS, REDACT_NAME_STRONG},
    {WORD("PASSPHRASE"), ENDS, REDACT_NAME_STRONG},
    {WORD("PASSCODE"), ENDS, REDACT_NAME_STRONG},
    {WORD("PASSWORT"), ENDS, REDACT_NAME_STRONG},
    {WORD("SECRET"), ENDS, REDACT_NAME_STRONG},
    {WORD("SECRETS"), ENDS, REDACT_NAME_STRONG},
    {WORD("APIKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("PRIVATEKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("ACCESSKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("SECRETKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("ACCOUNTKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("AUTHKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("MASTERKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("ENCRYPTIONKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("SIGNINGKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("LICENSEKEY"), ENDS, REDACT_NAME_STRONG},
    {WORD("MNEMONIC"), ENDS, REDACT_NAME_QUIET},
    {WORD("CONNECTIONSTRING"), ENDS, REDACT_NAME_QUIET},
    {WORD("CONNSTR"), ENDS, REDACT_NAME_QUIET},
    {WORD("AUTHORIZATION"), WHOLE, REDACT_NAME_HEADER},
    {WORD("TOKEN"), ENDS, REDACT_NAME_TOKEN},
    {WORD("TOKENS"), ENDS, REDACT_NAME_TOKENS},
    {WORD("AUTH"), ENDS, REDACT_NAME_TOKEN},
    {WORD("OAUTH"), WHOLE, REDACT_NAME_TOKEN},
    {WORD("CREDENTIAL"), ENDS, REDACT_NAME_TOKEN},
    {WORD("CREDENTIALS"), ENDS, REDACT_NAME_TOKEN},
    {WORD("CREDS"), ENDS, REDACT_NAME_TOKEN},
    {WORD("CRED"), WHOLE, REDACT_NAME_TOKEN},
    {WORD("JWT"), WHOLE, REDACT_NAME_TOKEN},
    {WORD("BEARER"), WHOLE, REDACT_NAME_TOKEN},
    {WORD("PAT"), WHOLE, REDACT_NAME_TOKEN},
    {WORD("DSN"), ENDS, REDACT_NAME_TOKEN},
    {WORD("WEBHOOK"), ENDS, REDACT_NAME_TOKEN},
    {WORD("COOKIE"), ENDS, REDACT_NAME_COOKIE},
    {WORD("COOKIES"), ENDS, REDACT_NAME_COOKIE},
    {WORD("PIN"), WHOLE, REDACT_NAME_PIN},
    {WORD("PINCODE"), WHOLE, REDACT_NAME_PIN},
    {WORD("PASS"), ENDS, REDACT_NAME_PASS},
    {WORD("PW"), WHOLE, REDACT_NAME_PASS},
    {WORD("PASSKEY"), ENDS, REDACT_NAME_KEY},
    {WORD("SSHKEY"), ENDS, REDACT_NAME_KEY},
    {WORD("HMACKEY"), ENDS, REDACT_NAME_KEY},
    {WORD("SEED"), WHOLE, REDACT_NAME_SEED},
    {WORD("SALT"), WHOLE, REDACT_NAME_SEED},
    {WORD("PEPPER"), WHOLE, REDACT_NAME_SEED},
    {WORD("PSK"), WHOLE, REDACT_NAME_KEY},
};

/* The word before KEY: whatever follows is the secret, wherever in the name the two stand. */
static const char *const strong_keys[] = {
    "API",    "APP",     "PRIVATE", "ACCESS", "SIGNING", "ENCRYPTION", "MASTER",
    "DEPLOY", "SERVICE", "AUTH",    "SSH",    "ACCOUNT", "STORAGE",    "SECRET",
    "CLIENT", "ADMIN",   "LICENSE", "SHARED", "HMAC",    "SESSION",
};

/* The word before KEY: it opens nothing. */
static const char *const harmless_keys[] = {
    "PUBLIC",    "PUB",       "PRIMARY",  "FOREIGN",   "SORT",        "PARTITION", "CACHE",
    "UNIQUE",    "ROW",       "RANGE",    "HASH",      "INDEX",       "DEDUP",     "GROUP",
    "GROUPING",  "ORDER",     "LOOKUP",   "OBJECT",    "BUCKET",      "ROUTING",   "SHARD",
    "MESSAGE",   "EVENT",     "CONFIG",   "SETTING",   "PROPERTY",    "FEATURE",   "LOCALE",
    "LABEL",     "TAG",       "HOT",      "SHORTCUT",  "ARROW",       "META",      "CTRL",
    "ALT",       "SHIFT",     "FUNCTION", "NODE",      "MAP",         "DICT",      "JSON",
    "YAML",      "COLUMN",    "TABLE",    "FIELD",     "RECORD",      "PROJECT",   "ISSUE",
    "TASK",      "JOB",       "QUEUE",    "LOCK",      "IDEMPOTENCY", "RESTORE",   "STATE",
    "STORE",     "ITEM",      "PARENT",   "ENTRY",     "TRANSLATION", "MODIFIER",  "RESOURCE",
    "DUPLICATE", "COMPOSITE", "NATURAL",  "SURROGATE", "REGISTRY",    "VERIFYING", "VERIFICATION",
    "ATTRIBUTE", "ENTITY",
};

/* After KEY: it is still the key. */
static const char *const key_ends[] = {
    "BASE", "BASE64", "B64", "VALUE", "DATA", "PEM", "HEX", "LIVE", "TEST", "PROD", "STAGING",
};

/* The word before PHRASE: the words open a wallet. */
static const char *const phrases[] = {"SEED", "RECOVERY", "BACKUP", "WALLET", "MNEMONIC"};

/* The word before PASS: a turn of a program over its data. */
static const char *const harmless_passes[] = {
    "FIRST", "SECOND", "LAST", "NEXT", "SINGLE", "MULTI", "ONE", "TWO", "RENDER", "SHADOW", "OPT",
};

/* Words that end like one of secret_words and mean something else. */
static const char *const harmless_words[] = {
    "BYPASS",   "COMPASS",   "TRESPASS", "SURPASS",   "ENCOMPASS",
    "OVERPASS", "UNDERPASS", "ONEPASS",  "MULTIPASS", "SINGLEPASS",
    "TWOPASS",  "XAUTH",     "AUTOAUTH", "LIBSECRET", "SUBTOKEN",
};

/* The word before TOKENS or SEED: they are counted, or chance. */
static const char *const harmless_counts[] = {
    "MAX",        "MIN",    "NUM",    "TOTAL",     "INPUT",   "OUTPUT",    "PROMPT",
    "COMPLETION", "CACHED", "USED",   "REMAINING", "CONTEXT", "REASONING", "SPECIAL",
    "STOP",       "N",      "RANDOM", "RNG",       "HASH",    "TEST",      "FUZZ",
    "SHUFFLE",    "GLOBAL", "TORCH",  "NUMPY",
};

/* A name that ends so tells about a secret: PASSWORD_FILE, TOKEN_TYPE, SSH_AUTH_SOCK. */
static const char *const harmless_ends[] = {
    "FILE",       "FILENAME", "PATH",     "DIR",     "FOLDER",   "SOCK",      "SOCKET",
    "HOME",       "NAME",     "NAMES",    "USER",    "USERNAME", "TYPE",      "KIND",
    "HOST",       "PORT",     "URL",      "URI",     "ENDPOINT", "EXPIRES",   "EXPIRY",
    "EXPIRATION", "TTL",      "TIMEOUT",  "LENGTH",  "LEN",      "SIZE",      "BITS",
    "BYTES",      "LIMIT",    "COUNT",    "ENABLED", "DISABLED", "REQUIRED",  "OPTIONAL",
    "MODE",       "METHOD",   "PROVIDER", "REGION",  "VERSION",  "ALGORITHM", "ALGO",
    "ALG",        "FORMAT",   "DOMAIN",   "SECURE",  "SAMESITE", "HTTPONLY",  "AGE",
    "JAR",        "CONSENT",  "POLICY",   "HEADER",  "PREFIX",   "SUFFIX",    "SCOPE",
    "SCOPES",     "ISSUER",   "AUDIENCE", "ALIAS",   "STATUS",   "STATE",     "RETRIES",
    "INTERVAL",   "DAYS",     "HOURS",    "MINUTES", "SECONDS",  "MS",        "AT",
    "RULES",      "HINT",     "PROMPT",   "FIELD",   "PARAM",    "COLUMN",    "PLUGIN",
    "MODULE",     "PROTOCOL", "REALM",    "EXISTS",  "CHECK",    "STRATEGY",  "BACKEND",
    "HANDLER",    "SERVER",   "CONFIG",   "ERROR",   "TYPES",
};

/* Of variables: letters inside a word, endings of a word, whole words. */
static const char *const variable_parts[] = {"PASS", "COOKIE", "SEED", "SALT", "CREDENTIAL"};
static const char *const variable_ends[] = {"KEY", "KEYS", "PIN", "PINS"};
static const char *const variable_words[] = {"PW", "OTP", "TOTP"};

/* ... and what is harmless all the same: words, and the word before KEY. */
static const char *const harmless_variable_words[] = {
    "BYPASS", "COMPASS", "PASSENGER", "PASSIVE", "PASSED", "PASSING", "PASSTHROUGH", "PASSTHRU",
    "MONKEY", "TURKEY",  "HOTKEY",    "HOTKEYS", "PUBKEY", "SPIN",    "PUBLICKEY",   "BASALT",
};
static const char *const harmless_variable_keys[] = {
    "PUBLIC", "PUB", "PRIMARY", "FOREIGN", "SORT", "PARTITION", "CACHE",
};

/* Whole names. */
static const char *const harmless_names[] = {"PWD", "OLDPWD", "INIT_PWD", "OLD_PWD"};

/* ---- the rules ---- */

static enum redact_name_class key_class(const struct words *words, size_t i)
{
    bool many = strcmp(words->word[i], "KEYS") == 0;
    if (i == 0 || (!many && strcmp(words->word[i], "KEY") != 0))
        return REDACT_NAME_PLAIN;
    const char *before = words->word[i - 1];
    if (many)
        return IS_ONE_OF(before, strong_keys) ? REDACT_NAME_KEY : REDACT_NAME_PLAIN;
    if (IS_ONE_OF(before, strong_keys))
        return REDACT_NAME_STRONG;
    bool last = i + 1 == words->count || IS_ONE_OF(words->word[i + 1], key_ends);
    return last && !IS_ONE_OF(before, harmless_keys) ? REDACT_NAME_KEY : REDACT_NAME_PLAIN;
}

/* PWD alone is a folder, MYSQL_PWD and DBPWD are passwords; Pwd= is either. */
static enum redact_name_class pwd_class(const struct words *words, size_t i)
{
    return ends_with(words->word[i], "PWD") ? REDACT_NAME_PWD : REDACT_NAME_PLAIN;
}

/* CONNECTION_STRING, SEED_PHRASE. */
static enum redact_name_class pair_class(const struct words *words, size_t i)
{
    const char *word = words->word[i];
    const char *next = i + 1 < words->count ? words->word[i + 1] : "";
    if ((strcmp(word, "CONNECTION") == 0 || strcmp(word, "CONN") == 0) &&
        (strcmp(next, "STRING") == 0 || strcmp(next, "STR") == 0))
        return REDACT_NAME_QUIET;
    if (strcmp(next, "PHRASE") == 0 && IS_ONE_OF(word, phrases))
        return REDACT_NAME_PHRASE;
    return REDACT_NAME_PLAIN;
}

static bool is_counted(const struct words *words, size_t i, const struct secret_word *row)
{
    bool counted = strcmp(row->word, "TOKENS") == 0 || strcmp(row->word, "SEED") == 0;
    return counted && i > 0 && IS_ONE_OF(words->word[i - 1], harmless_counts);
}

static bool is_a_turn(const struct words *words, size_t i, const struct secret_word *row)
{
    return row->class == REDACT_NAME_PASS && i > 0 &&
           IS_ONE_OF(words->word[i - 1], harmless_passes);
}

static enum redact_name_class table_class(const struct words *words, size_t i)
{
    const char *word = words->word[i];
    size_t len = strlen(word);
    enum redact_name_class found = REDACT_NAME_PLAIN;
    for (size_t j = 0; j < COUNT(secret_words); j++) {
        const struct secret_word *row = &secret_words[j];
        bool fits = row->where == WHOLE ? len == row->len : len >= row->len;
        if (!fits || memcmp(word + len - row->len, row->word, row->len) != 0)
            continue;
        if (row->class > found && !is_counted(words, i, row) && !is_a_turn(words, i, row))
            found = row->class;
    }
    return found != REDACT_NAME_PLAIN && IS_ONE_OF(word, harmless_words) ? REDACT_NAME_PLAIN
                                                                         : found;
}

static enum redact_name_class word_class(const struct words *words, size_t i)
{
    enum redact_name_class classes[] = {table_class(words, i), key_class(words, i),
                                        pwd_class(words, i), pair_class(words, i)};
    enum redact_name_class found = REDACT_NAME_PLAIN;
    for (size_t j = 0; j < COUNT(classes); j++)
        found = classes[j] > found ? classes[j] : found;
    return found;
}

/* SLACK_WEBHOOK_URL is one that ends harmlessly and is secret all the same. */
static bool ends_harmlessly(const struct words *words)
{
    const char *last = words->word[words->count - 1];
    bool webhook = words->count > 1 && ends_with(words->word[words->count - 2], "WEBHOOK") &&
                   strcmp(last, "URL") == 0;
    return !webhook && IS_ONE_OF(last, harmless_ends);
}

static enum redact_name_class built_in_class(const char *name)
{
    struct words words;
    enum redact_name_class found = REDACT_NAME_PLAIN;
    split(name, &words);
    for (size_t i = 0; i < words.count; i++) {
        enum redact_name_class class = word_class(&words, i);
        found = class > found ? class : found;
    }
    return found != REDACT_NAME_PLAIN && ends_harmlessly(&words) ? REDACT_NAME_PLAIN : found;
}

/* ---- of variables ---- */

static bool is_variable_word(const struct words *words, size_t i)
{
    const char *word = words->word[i];
    if (IS_ONE_OF(word, harmless_variable_words))
        return false;
    for (size_t j = 0; j < COUNT(variable_parts); j++)
        if (strstr(word, variable_parts[j]))
            return true;
    bool named = i > 0 && IS_ONE_OF(words->word[i - 1], harmless_variable_keys);
    for (size_t j = 0; j < COUNT(variable_ends); j++)
        if (!named && ends_with(word, variable_ends[j]))
            return true;
    return IS_ONE_OF(word, variable_words);
}

/* DOCKER_AUTH_CONFIG ends harmlessly and holds passwords. */
static bool is_auth_config(const struct words *words)
{
    size_t count = words->count;
    return count > 1 && strcmp(words->word[count - 1], "CONFIG") == 0 &&
           ends_with(words->word[count - 2], "AUTH");
}

static bool is_built_in_variable(const char *name)
{
    struct words words;
    split(name, &words);
    if (is_auth_config(&words))
        return true;
    for (size_t i = 0; i < words.count; i++)
        if (is_variable_word(&words, i))
            return !ends_harmlessly(&words);
    return false;
}

/* ---- what the user has set ---- */

struct globs {
    size_t count;
    const char **items; /* in capitals */
};

struct redact_names {
    struct globs secret, harmless;
};

static bool is_glob_byte(char byte)
{
    return redact_is_word((unsigned char)byte) || byte == '.' || byte == '*' || byte == '?';
}

static bool is_gap(char byte)
{
    return byte == ',' || byte == ' ' || byte == '\t' || byte == '\n';
}

/* Both in capitals. Linear but for one star that is tried again: the last. */
static bool glob_matches(const char *glob, const char *name)
{
    const char *star = NULL, *tried = NULL;
    while (*name) {
        if (*glob == '*') {
            star = glob++;
            tried = name;
        } else if (*glob == '?' || *glob == *name) {
            glob++;
            name++;
        } else if (star) {
            glob = star + 1;
            name = ++tried;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

static void to_capitals(const char *name, char *out, size_t size)
{
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++)
        out[i] = (char)(redact_is_lower(name[i]) ? name[i] - 0x20 : name[i]);
    out[i] = '\0';
}

static bool any_matches(const struct globs *globs, const char *name)
{
    char capitals[GLOB_BYTES];
    if (globs->count == 0)
        return false;
    to_capitals(name, capitals, sizeof capitals);
    for (size_t i = 0; i < globs->count; i++)
        if (glob_matches(globs->items[i], capitals))
            return true;
    return false;
}

static int check_glob(const char *setting, const char *glob, size_t len, struct err *err)
{
    size_t i = 0;
    while (i < len && is_glob_byte(glob[i]))
        i++;
    if (i < len)
        return err_set(err, TEND_EINVAL,
                       "%s: \"%.*s\" is not a name; give names made of letters, digits, _ - . and "
                       "the wildcards * and ?, separated by commas",
                       setting, (int)(len < 60 ? len : 60), glob);
    if (len >= GLOB_BYTES)
        return err_set(err, TEND_EINVAL, "%s: \"%.60s…\" is longer than %d bytes", setting, glob,
                       GLOB_BYTES - 1);
    if (strspn(glob, "*?") >= len)
        return err_set(err, TEND_EINVAL, "%s: \"%.*s\" would match every name; name them", setting,
                       (int)len, glob);
    return 0;
}

static int read_globs(struct redactor *set, const char *setting, const char *text,
                      struct globs *globs, struct err *err)
{
    size_t most = text ? strlen(text) / 2 + 1 : 0;
    if (most == 0)
        return 0;
    globs->items = arena_alloc(&set->arena, most * sizeof *globs->items);
    if (!globs->items)
        return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    while (*text) {
        size_t len = 0;
        while (text[len] && !is_gap(text[len]))
            len++;
        int code = len == 0 ? 0 : check_glob(setting, text, len, err);
        if (code < 0)
            return code;
        if (len > 0) {
            char *glob = arena_strndup(&set->arena, text, len);
            if (!glob)
                return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
            to_capitals(glob, glob, len + 1);
            globs->items[globs->count++] = glob;
        }
        text += len;
        text += *text != '\0';
    }
    return 0;
}

int redact_names_read(struct redactor *set, const struct redact_known *known, struct err *err)
{
    struct redact_names *names = arena_zalloc(&set->arena, sizeof *names);
    if (!names)
        return err_set(err, TEND_ENOMEM, "no memory for the list of secrets");
    set->names = names;
    int code = read_globs(set, "TEND_REDACT", known->secret_names, &names->secret, err);
    if (code == 0)
        code = read_globs(set, "TEND_REDACT_NOT", known->harmless_names, &names->harmless, err);
    return code;
}

const char *redact_names_secret(const struct redactor *set, size_t index)
{
    return index < set->names->secret.count ? set->names->secret.items[index] : NULL;
}

/* ---- the answer ---- */

enum redact_name_class redact_name_class(const struct redactor *redactor, const char *name)
{
    if (redactor && any_matches(&redactor->names->secret, name))
        return REDACT_NAME_STRONG;
    if (redactor && any_matches(&redactor->names->harmless, name))
        return REDACT_NAME_PLAIN;
    return built_in_class(name);
}

bool redact_name_is_secret(const struct redactor *redactor, const char *name)
{
    char capitals[GLOB_BYTES];
    enum redact_name_class class = redact_name_class(redactor, name);
    to_capitals(name, capitals, sizeof capitals);
    return class != REDACT_NAME_PLAIN &&
           !(class == REDACT_NAME_PWD && IS_ONE_OF(capitals, harmless_names));
}

bool redact_variable_is_secret(const struct redactor *redactor, const char *name)
{
    if (redact_name_is_secret(redactor, name))
        return true;
    bool harmless = redactor && any_matches(&redactor->names->harmless, name);
    return !harmless && is_built_in_variable(name);
}
