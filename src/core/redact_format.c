/*
 * Inside core/redact: secrets that are known by what stands around them. URLs, `Bearer x`, .netrc,
 * .pgpass, the data source names of Go and Oracle, options of known commands, private keys.
 */
#include "core/redact_set.h"

enum {
    URL_AUTHORITY_MAX_BYTES = 1024,
    URL_PASSWORD_MAX_BYTES = 256,  /* of one that is not encoded */
    URL_BARE_TOKEN_MIN_BYTES = 20, /* user part of a URL that is a token, not a name */
    DSN_MAX_BYTES = 256,
    KEY_LABEL_MAX_BYTES = 48,
    KEY_AHEAD_BYTES = 256,   /* headers may stand before the first line of a key */
    KEY_WORD_MIN_BYTES = 24, /* of base64 */
    TOKEN_MIN_BYTES = 8,
    TOKEN_SURE_BYTES = 16, /* no word of a language is that long */
    BLANKS_MAX = 8,
    FIELD_MAX_BYTES = 128,
    COMMAND_MAX_BYTES = 512,
};

/* ---- what many use ---- */

static bool is_hex(int byte)
{
    int small = redact_to_lower(byte);
    return redact_is_digit(byte) || (small >= 'a' && small <= 'f');
}

/* %22, %2522, \x22, \u0022, \042: whether the byte at the distance is the last of one. */
static bool ends_number(const struct redact_view *view, size_t distance)
{
    size_t at = distance, digits = 0;
    while (digits < 6 && is_hex(redact_back(view, at))) {
        digits++;
        at++;
    }
    int first = redact_back(view, at), before = redact_back(view, at + 1);
    if (first == '%')
        return digits == 2 || (digits == 4 && redact_back(view, at - 1) == '2' &&
                               redact_back(view, at - 2) == '5');
    if (first == '\\')
        return digits == 3;
    return before == '\\' && (first == 'x' ? digits == 2 : first == 'u' && digits == 4);
}

/* ESC[32m, also where the escape is written as \033, \u001b or ^[. */
static bool ends_style(const struct redact_view *view, size_t distance)
{
    enum { STYLE_MAX_BYTES = 16 };
    int last = redact_back(view, distance);
    size_t at = distance + 1;
    if (redact_is_digit(last))
        return false;
    while (at < distance + STYLE_MAX_BYTES &&
           (redact_is_digit(redact_back(view, at)) || redact_back(view, at) == ';'))
        at++;
    return redact_back(view, at) == '[' && (at > distance + 1 || last == 'm' || last == 'K');
}

bool redact_is_joined(const struct redact_view *view, size_t distance)
{
    int last = redact_back(view, distance);
    if (!redact_is_alnum(last))
        return false;
    bool named = redact_back(view, distance + 1) == '\\' && strchr("nrtbfv0", last);
    return !named && !ends_number(view, distance) && !ends_style(view, distance);
}

enum redact_verdict redact_bytes_at(const struct redact_view *view, size_t at, const char *bytes)
{
    for (size_t i = 0; bytes[i]; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte != (unsigned char)bytes[i])
            return REDACT_NO;
    }
    return REDACT_YES;
}

enum redact_verdict redact_word_at(const struct redact_view *view, size_t at, const char *word)
{
    for (size_t i = 0; word[i]; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (redact_to_lower(byte) != (unsigned char)word[i])
            return REDACT_NO;
    }
    return REDACT_YES;
}

size_t redact_pass_blanks(const struct redact_view *view, size_t at, size_t most)
{
    size_t end = at + most;
    while (at < end && redact_is_blank(redact_peek(view, at)))
        at++;
    return at;
}

enum redact_verdict redact_token_like(const struct redact_view *view, size_t at,
                                      bool (*belongs)(int))
{
    bool mixed = false;
    for (size_t i = 0; i < TOKEN_SURE_BYTES; i++) {
        int byte = redact_peek(view, at + i);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte == REDACT_PEEK_END || !belongs(byte))
            return i >= TOKEN_MIN_BYTES && mixed ? REDACT_YES : REDACT_NO;
        mixed = mixed || redact_is_digit(byte) || (i > 0 && redact_is_upper(byte));
    }
    return REDACT_YES;
}

/* ---- Bearer x ---- */

static enum redact_verdict match_bearer(const struct redactor *redactor,
                                        const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    (void)redactor;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = redact_pass_blanks(view, pattern->len, BLANKS_MAX);
    verdict = redact_token_like(view, at, redact_is_token);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = REDACT_RUN_TOKEN};
    return verdict;
}

/* ---- ://user:password@host ---- */

static bool in_authority(int byte)
{
    return byte > ' ' && byte != 0x7F && !strchr("/?#\"'`<>\\", byte);
}

struct authority {
    size_t colon, host; /* just after the first ':' and the last '@'; 0: there is none */
    bool has_digit;     /* before the host */
    bool is_masked;     /* the password has no letter and no digit: *** */
    int end;            /* the byte after it */
};

static enum redact_verdict read_authority(const struct redact_view *view, size_t at,
                                          struct authority *found)
{
    int byte;
    *found = (struct authority){.is_masked = true};
    for (; in_authority(byte = redact_peek(view, at)) && at < URL_AUTHORITY_MAX_BYTES; at++) {
        if (byte == ':' && found->colon == 0 && found->host == 0)
            found->colon = at + 1;
        if (byte == '@')
            found->host = at + 1;
        bool before_host = found->host == 0;
        found->has_digit = found->has_digit || (redact_is_digit(byte) && before_host);
        found->is_masked =
            found->is_masked && (found->colon == 0 || !before_host || !redact_is_alnum(byte));
    }
    found->end = byte;
    return byte == REDACT_PEEK_MORE && at < URL_AUTHORITY_MAX_BYTES ? REDACT_MORE : REDACT_YES;
}

/* The quote in front of the URL, which then ends it. */
static int opening_quote(const struct redact_view *view)
{
    enum { SCHEME_MAX_BYTES = 32 };
    size_t distance = 1;
    while (distance < SCHEME_MAX_BYTES && (redact_is_word(redact_back(view, distance)) ||
                                           strchr("+.:", redact_back(view, distance))))
        distance++;
    int byte = redact_back(view, distance);
    return redact_is_quote(byte) ? byte : '"';
}

/*
 * Passwords hold signs that belong into a URL only when they are encoded. So a host with a port
 * that is no number is none: what follows is a password, up to the last @ before a blank or a
 * quote. *ret_host moves behind that @.
 */
static enum redact_verdict find_late_host(const struct redact_view *view, size_t colon,
                                          size_t *ret_host)
{
    int byte, quote = opening_quote(view);
    size_t at = colon;
    while (redact_is_digit(redact_peek(view, at)))
        at++;
    if (at == colon ? !redact_is_alnum(redact_peek(view, at))
                    : !in_authority(redact_peek(view, at)))
        return REDACT_NO;
    for (at = colon; (byte = redact_peek(view, at)) > ' ' && byte != quote && byte != '"' &&
                     at < URL_PASSWORD_MAX_BYTES;
         at++)
        if (byte == '@' && redact_is_alnum(redact_peek(view, at + 1)))
            *ret_host = at + 1;
    return byte == REDACT_PEEK_MORE && at < URL_PASSWORD_MAX_BYTES ? REDACT_MORE
           : *ret_host > 0                                         ? REDACT_YES
                                                                   : REDACT_NO;
}

/* user:password up to the last @ of the authority; or a long user, which is a token when there is
 * no password of its own. */
static enum redact_verdict match_url(const struct redactor *redactor,
                                     const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    (void)redactor;
    struct authority found;
    size_t start = pattern->len;
    enum redact_verdict verdict = redact_bytes_at(view, 0, pattern->text);
    if (verdict == REDACT_YES)
        verdict = read_authority(view, start, &found);
    if (verdict == REDACT_YES && found.host == 0 && found.colon > start + 1 && found.end > ' ')
        verdict = find_late_host(view, found.colon, &found.host);
    if (verdict != REDACT_YES)
        return verdict;
    if (found.host == 0)
        return REDACT_NO;
    size_t user_end = found.colon == 0 ? found.host - 1 : found.colon - 1;
    bool no_password = found.colon == 0 || found.colon == found.host - 1;
    bool long_user = found.has_digit && user_end - start >= URL_BARE_TOKEN_MIN_BYTES;
    *ret_find = (struct redact_find){.from = start, .to = user_end};
    if (long_user &&
        (no_password || redact_bytes_at(view, found.colon, "x-oauth-basic@") == REDACT_YES))
        return REDACT_YES;
    if (no_password || found.is_masked)
        return REDACT_NO; /* nothing, or ** */
    *ret_find = (struct redact_find){.from = found.colon, .to = found.host - 1};
    return REDACT_YES;
}

/* ---- user:password@tcp(host) ---- */

static bool in_dsn(int byte)
{
    return byte > ' ' && !redact_is_quote(byte) && byte != 0x7F;
}

/* Whether a network of Go follows the @. */
static enum redact_verdict is_network(const struct redact_view *view, size_t at)
{
    static const char *const networks[] = {"@tcp(", "@udp(", "@unix(", "@tcp6(", "@cloudsql("};
    enum redact_verdict found = REDACT_NO;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        enum redact_verdict verdict = redact_bytes_at(view, at, networks[i]);
        found = verdict > found ? verdict : found;
    }
    if (found != REDACT_NO)
        return found;
    /* The network may be left out, but not the host. */
    enum redact_verdict verdict = redact_bytes_at(view, at, "@(");
    int host = redact_peek(view, at + 2);
    if (verdict != REDACT_YES || redact_is_alnum(host))
        return verdict;
    return host == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
}

/* The first colon of what `end` belongs to, from `start` on; end: there is none. */
static size_t first_colon(const struct redact_view *view, size_t start, size_t end)
{
    size_t from = end;
    while (from > start && end - from < DSN_MAX_BYTES && in_dsn(view->text[from - 1]))
        from--;
    const unsigned char *colon = memchr(view->text + from, ':', end - from);
    return colon ? (size_t)(colon - view->text) : end;
}

size_t redact_next_dsn(const struct redact_view *view, size_t at)
{
    const unsigned char *sign;
    for (size_t from = at;
         from < view->len && (sign = memchr(view->text + from, '@', view->len - from)) != NULL;
         from = (size_t)(sign - view->text) + 1) {
        size_t end = (size_t)(sign - view->text);
        if (is_network(view, end) == REDACT_NO)
            continue;
        size_t colon = first_colon(view, at, end);
        if (colon < end)
            return colon;
    }
    /* What has no end yet may still get one. */
    return view->at_end ? view->len : first_colon(view, at, view->len);
}

enum redact_verdict redact_match_dsn(const struct redact_view *view, struct redact_find *ret_find)
{
    int byte = 0;
    for (size_t at = 1; at <= DSN_MAX_BYTES && in_dsn(byte = redact_peek(view, at)); at++) {
        enum redact_verdict verdict = byte == '@' ? is_network(view, at) : REDACT_NO;
        if (verdict == REDACT_NO)
            continue;
        *ret_find = (struct redact_find){.from = 1, .to = at};
        return at > 1 ? verdict : REDACT_NO;
    }
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
}

static bool in_field(int byte)
{
    return byte > ' ' && byte != 0x7F;
}

/* ---- host:5432:database:user:password ---- */

/* The usual ports of the server and of poolers, and any. */
static const char *const pgpass_ports[] = {
    ":5432:",  ":5433:", ":5434:", ":5435:",  ":6432:",  ":6543:",  ":5439:",  ":26257:",
    ":25060:", ":*:",    ":5436:", ":15432:", ":54321:", ":54322:", ":55432:",
};

/* A field up to the next colon, in which one may be escaped. */
static enum redact_verdict pass_pgpass_field(const struct redact_view *view, size_t *at)
{
    size_t start = *at;
    int byte;
    while (in_field(byte = redact_peek(view, *at)) && byte != ':' && !redact_is_quote(byte) &&
           *at - start < FIELD_MAX_BYTES)
        *at += byte == '\\' ? 2 : 1;
    if (byte == REDACT_PEEK_MORE && *at - start < FIELD_MAX_BYTES)
        return REDACT_MORE;
    return byte == ':' && *at > start ? REDACT_YES : REDACT_NO;
}

static bool ends_host(int byte)
{
    return redact_is_alnum(byte) || byte == '*';
}

static enum redact_verdict match_pgpass(const struct redactor *redactor,
                                        const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    (void)redactor;
    if (!ends_host(redact_back(view, 1)))
        return REDACT_NO;
    size_t at = pattern->len;
    enum redact_verdict verdict = redact_bytes_at(view, 0, pattern->text);
    for (int field = 0; field < 2 && verdict == REDACT_YES; field++) { /* database, user */
        verdict = pass_pgpass_field(view, &at);
        at++;
    }
    if (verdict != REDACT_YES)
        return verdict;
    int byte = redact_peek(view, at);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = REDACT_RUN_REST};
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : in_field(byte) ? REDACT_YES : REDACT_NO;
}

/* ---- jdbc:oracle:thin:user/password@host, sqlplus user/password@host ---- */

static enum redact_verdict match_oracle(const struct redactor *redactor,
                                        const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    (void)redactor;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t slash = 0, at = pattern->len;
    int byte;
    while (in_dsn(byte = redact_peek(view, at)) && byte != '@' && at < DSN_MAX_BYTES) {
        if (byte == '/' && slash == 0)
            slash = at + 1;
        at++;
    }
    if (byte == REDACT_PEEK_MORE && at < DSN_MAX_BYTES)
        return REDACT_MORE;
    if (byte != '@' || slash == 0 || slash == at)
        return REDACT_NO;
    *ret_find = (struct redact_find){.from = slash, .to = at};
    return REDACT_YES;
}

/* ---- options of commands ---- */

enum option_form {
    JOINED = 1,   /* -pSECRET */
    APART = 2,    /* -p SECRET */
    OF_USER = 4,  /* user:SECRET */
    PERCENT = 8,  /* user%SECRET */
    BUNDLED = 16, /* the last of several letters: -su user:SECRET */
    FAMILY = 32,  /* and all commands that begin so: mysqldump */
    COMMA = 64,   /* user,SECRET */
};

struct command {
    const char *name;
    const char *option; /* without the dash that each has */
    unsigned form;
};

static const struct command commands[] = {
    {"mysql", "p", JOINED | FAMILY},
    {"mariadb", "p", JOINED | FAMILY},
    {"sshpass", "p", JOINED | APART},
    {"redis-cli", "a", APART},
    {"mongo", "p", APART | FAMILY},
    {"sqlcmd", "P", JOINED | APART},
    {"ldapsearch", "w", APART},
    {"ldapmodify", "w", APART},
    {"ldapadd", "w", APART},
    {"docker login", "p", APART},
    {"podman login", "p", APART},
    {"helm registry login", "p", APART},
    {"az login", "p", APART},
    {"smbclient", "U", PERCENT | APART},
    {"curl", "u", OF_USER | JOINED | APART | BUNDLED},
    {"curl", "U", OF_USER | JOINED | APART | BUNDLED},
    {"curl", "-user", OF_USER | APART},
    {"curl", "-proxy-user", OF_USER | APART},
    {"curl", "-cookie", APART},
    {"curl", "b", APART},
    {"unzip", "P", APART},
    {"keytool", "storepass", APART},
    {"keytool", "keypass", APART},
    {"jarsigner", "storepass", APART},
    {"jarsigner", "keypass", APART},
    {"7z a", "p", JOINED},
    {"7z x", "p", JOINED},
    {"7z e", "p", JOINED},
    {"7za a", "p", JOINED},
    {"7za x", "p", JOINED},
    {"ipmitool", "P", APART},
    {"mosquitto_", "P", APART | FAMILY},
    {"cqlsh", "p", APART},
    {"snowsql", "p", APART},
    {"bcp", "P", APART},
    {"rabbitmqadmin", "p", APART},
    {"oc login", "p", APART},
    {"cf login", "p", APART},
    {"twine", "p", APART},
    {"lftp", "u", COMMA | APART},
    {"cypher-shell", "p", APART},
    {"useradd", "p", APART},
    {"usermod", "p", APART},
    {"gh secret set", "-body", APART},
    {"gh secret set", "b", APART},
    {"doctl auth init", "t", APART},
    {"openssl enc", "k", APART},
    {"netlify", "-auth", APART},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

/* Arguments may stand in a list of strings as well. */
static bool is_gap(int byte)
{
    return redact_is_blank(byte) || redact_is_quote(byte) || byte == ',' || byte == '=';
}

static bool ends_command(int byte)
{
    return byte < 0 || redact_is_line_end(byte) || byte == ';' || byte == '|' || byte == ')';
}

/* The argument at `at`, after its dash, is this option. *ret_value: where its value begins. */
static bool is_option(const struct redact_view *view, const struct command *command, size_t at,
                      size_t *ret_value)
{
    while (command->form & BUNDLED && redact_is_alnum(redact_peek(view, at)) &&
           redact_is_alnum(redact_peek(view, at + 1)) &&
           redact_peek(view, at) != command->option[0])
        at++;
    if (redact_bytes_at(view, at, command->option) != REDACT_YES)
        return false;
    at += strlen(command->option);
    size_t value = at;
    while (is_gap(redact_peek(view, value)) && value - at < BLANKS_MAX)
        value++;
    *ret_value = value;
    bool joined = value == at || (value == at + 1 && redact_is_quote(redact_peek(view, at)) &&
                                  !redact_is_quote(redact_peek(view, value)));
    return joined ? command->form & JOINED : command->form & APART;
}

/* Where in the value the secret begins; 0: it has none. */
static size_t secret_of(const struct redact_view *view, const struct command *command, size_t at)
{
    char mark = command->form & OF_USER   ? ':'
                : command->form & PERCENT ? '%'
                : command->form & COMMA   ? ','
                                          : '\0';
    int byte = redact_peek(view, at);
    if (mark == '\0')
        return byte == '-' || byte == '$' || byte == '<' ? 0 : at;
    for (; (redact_is_value(byte = redact_peek(view, at)) && byte != '$') || byte == mark; at++)
        if (byte == mark && redact_peek(view, at + 1) != '/')
            return redact_peek(view, at + 1) == '$' ? 0 : at + 1;
    return 0;
}

/* The secret in the argument at `at` goes on to the quote that the argument began with, or to a
 * blank. The line may end before it: a password can hold what ends a command. */
static enum redact_verdict cover_argument(const struct redact_view *view, size_t at, size_t secret,
                                          struct redact_find *ret_find)
{
    *ret_find = (struct redact_find){.from = secret, .to = secret, .run = REDACT_RUN_DOUBLE};
    switch (redact_peek(view, at - 1)) {
    case '"':
        return REDACT_YES;
    case '\'':
        ret_find->run = REDACT_RUN_SINGLE;
        return REDACT_YES;
    default:
        return redact_cover_bare(view, secret, 0, ret_find);
    }
}

/* The first such option of a whole command, from `at` on. */
static enum redact_verdict find_option(const struct redact_view *view,
                                       const struct redact_view *line,
                                       const struct command *command, size_t at,
                                       struct redact_find *ret_find)
{
    for (; at < line->len; at++) {
        size_t value;
        if (redact_peek(line, at) != '-' || !is_gap(redact_peek(line, at - 1)) ||
            !is_option(line, command, at + 1, &value))
            continue;
        size_t secret = secret_of(line, command, value);
        if (secret == 0 || !redact_is_value(redact_peek(line, secret)))
            continue;
        bool joined = !is_gap(redact_peek(line, value - 1));
        return cover_argument(view, joined ? at : value, secret, ret_find);
    }
    return REDACT_NO;
}

/* The command as far as it is looked at. */
static enum redact_verdict take_command(const struct redact_view *view, struct redact_view *line)
{
    size_t end = 0;
    int byte = 0;
    while (end < COMMAND_MAX_BYTES && !ends_command(byte = redact_peek(view, end)))
        end++;
    *line = *view;
    line->len = end;
    line->at_end = true;
    return byte == REDACT_PEEK_MORE && end < COMMAND_MAX_BYTES ? REDACT_MORE : REDACT_YES;
}

/* The name of the command, a gap, and somewhere on its line the option. */
static enum redact_verdict match_command(const struct redactor *redactor,
                                         const struct redact_pattern *pattern,
                                         const struct redact_view *view,
                                         struct redact_find *ret_find)
{
    const struct command *command = &commands[pattern->option];
    (void)redactor;
    int before = redact_back(view, 1);
    if (redact_is_joined(view, 1) || before == '_' || before == '-' || before == '.')
        return REDACT_NO;
    struct redact_view line;
    size_t at = strlen(command->name);
    enum redact_verdict verdict = redact_bytes_at(view, 0, command->name);
    if (verdict != REDACT_YES)
        return verdict;
    while (command->form & FAMILY && at < FIELD_MAX_BYTES && redact_is_word(redact_peek(view, at)))
        at++;
    int after = redact_peek(view, at);
    if (after == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (!is_gap(after) || after == '=')
        return REDACT_NO;
    verdict = take_command(view, &line);
    if (verdict != REDACT_YES)
        return verdict;
    for (size_t row = pattern->option;
         row < COMMANDS && strcmp(commands[row].name, command->name) == 0; row++) {
        verdict = find_option(view, &line, &commands[row], at + 1, ret_find);
        if (verdict != REDACT_NO)
            return verdict;
    }
    return REDACT_NO;
}

/* ---- private keys ---- */

/* A key follows, not only the mention of one: somewhere near is a long word of base64. */
static enum redact_verdict is_key_ahead(const struct redact_view *view, size_t at)
{
    size_t word = 0, end = at + KEY_AHEAD_BYTES;
    for (; at < end && word < KEY_WORD_MIN_BYTES; at++) {
        int byte = redact_peek(view, at);
        if (byte < 0)
            return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
        word = redact_is_alnum(byte) || byte == '+' || byte == '/' || byte == '=' ? word + 1 : 0;
    }
    return word == KEY_WORD_MIN_BYTES ? REDACT_YES : REDACT_NO;
}

/*
 * -----BEGIN RSA PRIVATE KEY----- or the END of it, PGP's "PRIVATE KEY BLOCK" and the four dashes
 * of SSH2 included. Looked for from its last two dashes on, for a filter on dashes alone would stop
 * at every ruled line.
 */
static enum redact_verdict match_key(const struct redactor *redactor,
                                     const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    static const char private_key[] = "PRIVATE KEY";
    (void)redactor;
    if (redact_back(view, 1) != '-')
        return REDACT_NO;
    enum redact_verdict verdict = redact_bytes_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    size_t end = at + KEY_LABEL_MAX_BYTES;
    bool is_private = false;
    int byte;
    while (redact_is_upper(byte = redact_peek(view, at)) || redact_is_digit(byte) || byte == ' ') {
        if (at++ == end)
            return REDACT_NO;
        is_private = is_private ||
                     (at >= sizeof private_key && memcmp(view->text + at - (sizeof private_key - 1),
                                                         private_key, sizeof private_key - 1) == 0);
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    verdict = redact_bytes_at(view, at, "----");
    if (verdict != REDACT_YES || !is_private)
        return is_private ? verdict : REDACT_NO;
    int last = redact_peek(view, at + 4);
    if (last == REDACT_PEEK_MORE)
        return REDACT_MORE;
    *ret_find = (struct redact_find){.to = at + (last == '-' ? 5 : 4)};
    if (pattern->option)
        ret_find->ends_key = true;
    else
        ret_find->run = REDACT_RUN_KEY;
    return pattern->option ? REDACT_YES : is_key_ahead(view, ret_find->to);
}

/* The private part of a key of PuTTY: Private-Lines: 14, lines of base64, Private-MAC: hex. */
static enum redact_verdict match_putty(const struct redactor *redactor,
                                       const struct redact_pattern *pattern,
                                       const struct redact_view *view, struct redact_find *ret_find)
{
    (void)redactor;
    enum redact_verdict verdict = redact_bytes_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    int byte;
    while (redact_is_alnum(byte = redact_peek(view, at)) && at < FIELD_MAX_BYTES)
        at++;
    if (byte == REDACT_PEEK_MORE && at < FIELD_MAX_BYTES)
        return REDACT_MORE;
    *ret_find = (struct redact_find){.from = at, .to = at, .ends_key = pattern->option};
    if (pattern->option)
        return REDACT_YES;
    /* The first of the lines, not only the mention of them. */
    at += byte == '\r';
    if (redact_peek(view, at) != '\n')
        return redact_peek(view, at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    for (size_t end = ++at + TOKEN_SURE_BYTES; at < end; at++)
        if (!redact_is_token(byte = redact_peek(view, at)))
            return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    ret_find->run = REDACT_RUN_KEY;
    return REDACT_YES;
}

/* ---- making ---- */

static bool any_printable(int byte)
{
    return byte > ' ' && byte != '/';
}

static void add(struct redactor *set, const char *text, redact_matcher *matcher, uint32_t option,
                const struct redact_neighbours *neighbours)
{
    redact_set_add(
        set,
        (struct redact_pattern){
            .matcher = matcher, .text = text, .len = (uint32_t)strlen(text), .option = option},
        neighbours);
}

void redact_add_formats(struct redactor *set)
{
    const struct redact_neighbours of_url = {.after = any_printable};
    const struct redact_neighbours of_command = {.after = is_gap};
    add(set, "bearer ", match_bearer, 0, NULL);
    add(set, "://", match_url, 0, &of_url);
    add(set, "oracle:thin:", match_oracle, 0, NULL);
    add(set, "oracle:oci:", match_oracle, 0, NULL);
    add(set, "sqlplus ", match_oracle, 0, NULL);
    add(set, "sqlplus -s ", match_oracle, 0, NULL);
    add(set, "sqlplus -l ", match_oracle, 0, NULL);
    add(set, "--BEGIN ", match_key, 0, NULL);
    add(set, "--END ", match_key, 1, NULL);
    add(set, "-- BEGIN ", match_key, 0, NULL);
    add(set, "-- END ", match_key, 1, NULL);
    add(set, "Private-Lines: ", match_putty, 0, NULL);
    add(set, "Private-MAC: ", match_putty, 1, NULL);
    const struct redact_neighbours of_pgpass = {.before = ends_host, .after = in_field};
    for (size_t i = 0; i < sizeof pgpass_ports / sizeof *pgpass_ports; i++)
        add(set, pgpass_ports[i], match_pgpass, 0, &of_pgpass);
    /* The rows of one command stand together, and its pattern asks them all. */
    for (uint32_t i = 0; i < COMMANDS; i++)
        if (i == 0 || strcmp(commands[i].name, commands[i - 1].name) != 0)
            add(set, commands[i].name, match_command, i, &of_command);
}
