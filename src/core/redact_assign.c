/*
 * Inside core/redact: NAME=value in all the ways it is written. The name stays, the value goes.
 *
 *     DB_PASSWORD=x    "apiKey": "x"    conf['secret'] = 'x'    --token x    <password>x</password>
 *     {"name": "DB_PASSWORD", "value": "x"}                     Authorization: Bearer x
 *
 * A name is found by letters in the middle of its secret word, or, where the word is short, by its
 * last letters and what follows. Then the whole name is read, backwards and on, and redact_names.c
 * says what it is.
 */
#include "core/redact_set.h"

#include <strings.h>

enum {
    INNER_BYTES = 5,
    END_BYTES = 3,
    NAME_BACK_BYTES = 64,
    NAME_ON_BYTES = 40,
    BLANKS_BEFORE_MAX = 40, /* settings are often aligned */
    BLANKS_AFTER_MAX = 32,
    PAIR_BLANKS_MAX = 40,
    BACKSLASHES_MAX = 7, /* escaped three times */
    TAG_PREFIX_BYTES = 24,
    TAG_MAX_BYTES = 160,
};

/* Of password, passwd, passphrase, passcode, secret, token, credential, cookie, authorization,
 * pepper. */
static const char *const inner_letters[] = {
    "sswor", "asswd", "phras", "sscod", "ecret", "token",
    "edent", "ookie", "rizat", "pass_", "-pass", "epper",
};

/* Words of three letters, and what may follow: a separator, or more of the name. */
static const char *const short_words[] = {"key", "eys", "pwd", "_pw", "dsn",
                                          "jwt", "pin", "pat", "psk"};
static const char after_short[] = "=: \"'`]>\\\t\r\n,_-+<0123456789";
static const char after_name[] = "=: \"'`]>\\\t\r\n,+<";

/* Words of four letters; they are common, so that only what joins name and value may follow. */
static const char *const common_words[] = {"pass", "auth", "seed", "salt", "cred", "reds"};

static const char *const schemes[] = {
    "basic ",     "bearer ",   "token ",     "digest ",
    "negotiate ", "ntlm ",     "apikey ",    "api-key ",
    "key ",       "ssws ",     "bot ",       "oauth ",
    "sso-key ",   "splunk ",   "hawk ",      "aws4-hmac-sha256 ",
    "genie ",     "geniekey ", "sharedkey ",
};

static bool is_name_byte(int byte)
{
    return redact_is_word(byte) || byte == '.';
}

/* What stands before the letters of a short word; what is no text is not looked for. */
static bool is_text(int byte)
{
    return (byte >= ' ' && byte < 0x7F) || byte == '\t' || redact_is_line_end(byte);
}

/* ---- the name ---- */

struct name {
    char text[NAME_BACK_BYTES + NAME_ON_BYTES + 1];
    int before;  /* the byte before it */
    size_t back; /* how many bytes of it are before the place */
    size_t end;  /* where it ends */
    bool column; /* the value is the next column of a table */
};

/* Where the name around the place ends, and whether anything follows that a name can have. */
static enum redact_verdict find_end(const struct redact_view *view, size_t *ret_end)
{
    int byte = 0;
    size_t end = 0;
    while (end <= NAME_ON_BYTES && is_name_byte(byte = redact_peek(view, end)))
        end++;
    *ret_end = end;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return end <= NAME_ON_BYTES && byte > 0 && strchr(after_name, byte) ? REDACT_YES : REDACT_NO;
}

static void read_name(const struct redact_view *view, size_t end, struct name *name)
{
    size_t back = 0;
    while (back < NAME_BACK_BYTES && is_name_byte(redact_back(view, back + 1)))
        back++;
    int first = back > 0 ? redact_back(view, back) : 0;
    if (redact_back(view, back + 1) == '\\' && first > 0 && strchr("nrt", first))
        back--; /* \nPIN=1 */
    for (size_t i = 0; i < back; i++)
        name->text[i] = (char)redact_back(view, back - i);
    memcpy(name->text + back, view->text, end);
    name->text[back + end] = '\0';
    name->before = redact_back(view, back + 1);
    name->back = back;
    name->end = end;
    name->column = false;
}

/* -p, --password: and then a blank and the value. */
static bool is_option(const struct name *name)
{
    return name->text[0] == '-' && name->text[1] != '\0';
}

/* secret.c, and "--password." at the end of a sentence. */
static bool is_file(const struct redactor *redactor, const struct name *name)
{
    enum { EXTENSION_MAX_BYTES = 4 };
    const char *dot = strrchr(name->text, '.');
    return dot && strlen(dot + 1) <= EXTENSION_MAX_BYTES &&
           redact_name_class(redactor, dot + 1) == REDACT_NAME_PLAIN && strcmp(dot, ".key") != 0;
}

/* pass and pwd by themselves. */
static bool is_common_word(const struct name *name)
{
    return strcasecmp(name->text, "pass") == 0 || strcasecmp(name->text, "pwd") == 0;
}

/* The field before the one before the distance is this word; *distance moves before that. */
static bool follows_field(const struct redact_view *view, const char *word, size_t *distance)
{
    size_t at = *distance, len = strlen(word);
    for (int field = 0; field < 2; field++) {
        while (at < REDACT_BACK_BYTES && redact_back(view, at + 1) <= ' ')
            at++;
        while (field == 0 && at < REDACT_BACK_BYTES && redact_back(view, at + 1) > ' ')
            at++;
    }
    for (size_t i = len; i > 0; i--, at++)
        if (at >= REDACT_BACK_BYTES || redact_back(view, at + 1) != (unsigned char)word[i - 1])
            return false;
    *distance = at;
    return true;
}

/* The word stands at the distance, and is the first of its line. */
static bool begins_line(const struct redact_view *view, const char *word, size_t distance)
{
    while (distance < REDACT_BACK_BYTES / 2 && redact_back(view, distance + 1) <= ' ')
        distance++;
    for (size_t i = strlen(word); i > 0; i--, distance++)
        if (distance >= REDACT_BACK_BYTES ||
            redact_back(view, distance + 1) != (unsigned char)word[i - 1])
            return false;
    return distance < REDACT_BACK_BYTES && redact_is_line_end(redact_back(view, distance + 1));
}

/* machine x login y password z, on one line or on several: a .netrc. login and account may be
 * missing, and default stands for machine x. */
static bool is_netrc(const struct redact_view *view, const struct name *name)
{
    size_t distance = name->back;
    if (strcmp(name->text, "password") != 0)
        return false;
    while (follows_field(view, "login", &distance) || follows_field(view, "account", &distance))
        ;
    bool has_login = distance > name->back;
    if (begins_line(view, "default", distance))
        return true;
    return follows_field(view, "machine", &distance) &&
           (has_login || begins_line(view, "", distance));
}

/* ---- between name and value ---- */

/* As many as there are where what was escaped is escaped again. */
static size_t pass_backslashes(const struct redact_view *view, size_t at)
{
    size_t end = at + BACKSLASHES_MAX;
    while (at < end && redact_peek(view, at) == '\\')
        at++;
    return at;
}

/* \" or " after a name, and ] of conf["name"]. */
static size_t pass_closing(const struct redact_view *view, size_t at)
{
    size_t quote = pass_backslashes(view, at);
    if (redact_is_quote(redact_peek(view, quote)))
        at = quote;
    if (redact_is_quote(redact_peek(view, at)))
        at++;
    if (redact_peek(view, at) == ']')
        at++;
    return at;
}

/* = : := => += and blanks; not == or ::, which are code, nor a URL's ://. */
static enum redact_verdict pass_equals(const struct redact_view *view, size_t *at)
{
    size_t i = redact_pass_blanks(view, *at, BLANKS_BEFORE_MAX);
    int first = redact_peek(view, i);
    int second = redact_peek(view, i + 1);
    if (first == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (first == '\\')
        return redact_peek(view, pass_backslashes(view, i)) == REDACT_PEEK_MORE ? REDACT_MORE
                                                                                : REDACT_NO;
    if (first != '=' && first != ':' && first != '+')
        return REDACT_NO;
    if (second == REDACT_PEEK_MORE)
        return REDACT_MORE;
    bool two = first == '=' ? second == '>' : second == '=';
    if (second == first || (first == ':' && second == '/') || (first == '+' && !two))
        return REDACT_NO;
    *at = redact_pass_blanks(view, i + (two ? 2 : 1), BLANKS_AFTER_MAX);
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/*
 * The second half of a pair: `name: DB_PASSWORD` and `value: x`, on the same line or the next, as
 * in lists of variables. *at is after the name and its quote.
 */
static enum redact_verdict pass_pair(const struct redact_view *view, size_t *at)
{
    size_t i = *at, end = *at + PAIR_BLANKS_MAX;
    int byte;
    while (i < end && ((byte = redact_peek(view, i)) == ' ' || byte == '\t' || byte == '\n' ||
                       byte == '\r' || byte == ','))
        i++;
    if (i == *at)
        return redact_peek(view, i) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    if (redact_is_quote(redact_peek(view, i)))
        i++;
    enum redact_verdict verdict = redact_word_at(view, i, "value");
    if (verdict != REDACT_YES)
        return verdict;
    *at = i + strlen("value");
    if (redact_is_quote(redact_peek(view, *at)))
        ++*at;
    return pass_equals(view, at);
}

/* --password x, and .netrc: a blank, and no other option. */
static enum redact_verdict pass_option(const struct redact_view *view, const struct name *name,
                                       size_t *at)
{
    if (!redact_is_blank(redact_peek(view, *at)) || !(is_option(name) || is_netrc(view, name)))
        return REDACT_NO;
    *at = redact_pass_blanks(view, *at, BLANKS_AFTER_MAX);
    int byte = redact_peek(view, *at);
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : byte == '-' ? REDACT_NO : REDACT_YES;
}

/* PASSWORD 'x', as in SQL. */
static enum redact_verdict pass_sql(const struct redact_view *view, const struct name *name,
                                    size_t *at)
{
    size_t len = strlen(name->text), word_len = strlen("password");
    if (!redact_is_blank(redact_peek(view, *at)) || len < word_len ||
        strcasecmp(name->text + len - word_len, "password") != 0)
        return REDACT_NO;
    *at = redact_pass_blanks(view, *at, BLANKS_AFTER_MAX);
    int byte = redact_peek(view, *at);
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : redact_is_quote(byte) ? REDACT_YES : REDACT_NO;
}

/* <password, <db:password */
static bool is_tag(const struct redact_view *view, const struct name *name)
{
    size_t distance = name->back + 1, end = distance + TAG_PREFIX_BYTES;
    if (name->before == ':')
        do
            distance++;
        while (distance < end && redact_is_word(redact_back(view, distance)));
    int before = redact_back(view, distance + 1);
    return redact_back(view, distance) == '<' && !redact_is_alnum(before) && before != '/';
}

/* <property name="db.password">, <entry key="db.password"> */
static bool is_property(const struct redact_view *view, const struct name *name)
{
    static const char *const tags[] = {"<property name=\"", "<entry key=\"", "<param name=\"",
                                       "<string name=\""};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        size_t len = strlen(tags[i]), same = 0;
        while (same < len &&
               redact_back(view, name->back + 1 + same) == (unsigned char)tags[i][len - 1 - same])
            same++;
        if (same == len)
            return true;
    }
    return false;
}

/* The value of the key that was just named, in a property list: <key>password</key><string>x */
static enum redact_verdict pass_key(const struct redact_view *view, const struct name *name,
                                    size_t *at)
{
    static const char closing[] = "</key>", opening[] = "<string>";
    if (name->before != '>')
        return REDACT_NO;
    enum redact_verdict verdict = redact_bytes_at(view, *at, closing);
    if (verdict != REDACT_YES)
        return verdict;
    size_t i = *at + strlen(closing), end = i + PAIR_BLANKS_MAX;
    while (i < end &&
           (redact_is_blank(redact_peek(view, i)) || redact_is_line_end(redact_peek(view, i))))
        i++;
    verdict = redact_bytes_at(view, i, opening);
    *at = i + strlen(opening);
    bool more = verdict == REDACT_YES && redact_peek(view, *at) == REDACT_PEEK_MORE;
    return more ? REDACT_MORE : verdict;
}

/* <password>x, <password type="y">x, <password><![CDATA[x]]> and <property name="password">x */
static enum redact_verdict pass_tag(const struct redact_view *view, const struct name *name,
                                    size_t *at)
{
    static const char data[] = "<![CDATA[";
    size_t end = *at + TAG_MAX_BYTES;
    int byte = redact_peek(view, *at);
    if (byte == '<')
        return pass_key(view, name, at);
    bool opens = byte == '"' ? is_property(view, name)
                             : is_tag(view, name) && (byte == '>' || redact_is_blank(byte));
    if (!opens)
        return REDACT_NO;
    while (*at < end && (byte = redact_peek(view, *at)) != '>' && byte >= ' ' && byte != '<')
        ++*at;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (byte != '>' || view->text[*at - 1] == '/')
        return REDACT_NO;
    enum redact_verdict verdict = redact_bytes_at(view, ++*at, data);
    *at += verdict == REDACT_YES ? strlen(data) : 0;
    bool more = verdict == REDACT_MORE || redact_peek(view, *at) == REDACT_PEEK_MORE;
    return more ? REDACT_MORE : REDACT_YES;
}

/* Only blanks, and the frame of a table, stand before the name on its line. */
static bool begins_row(const struct redact_view *view, const struct name *name)
{
    size_t distance = name->back + 1, end = distance + BLANKS_AFTER_MAX;
    int byte;
    while ((redact_is_blank(byte = redact_back(view, distance)) || byte == '|') && distance < end)
        distance++;
    return redact_is_line_end(byte);
}

/* The second column of a table: DB_PASSWORD    x, and | password | x |. Names of packages, images
 * and pods stand in tables, too; they have a dash or a dot. */
static enum redact_verdict pass_column(const struct redact_view *view, const struct name *name,
                                       size_t *at)
{
    size_t i = redact_pass_blanks(view, *at, BLANKS_BEFORE_MAX);
    int byte = redact_peek(view, i);
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    bool wide = i > *at + 1 || redact_peek(view, *at) == '\t';
    if (i == *at || (byte != '|' && !wide) || strpbrk(name->text, "-.") || !begins_row(view, name))
        return REDACT_NO;
    *at = byte == '|' ? redact_pass_blanks(view, i + 1, BLANKS_AFTER_MAX) : i;
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* password: | and the value on the next line. */
static enum redact_verdict pass_block(const struct redact_view *view, size_t *at)
{
    size_t i = *at;
    int byte = redact_peek(view, i);
    if (byte != '|' && byte != '>')
        return REDACT_NO;
    i++;
    i += redact_peek(view, i) == '-' || redact_peek(view, i) == '+';
    i += redact_peek(view, i) == '\r';
    size_t line = i + 1;
    if (redact_peek(view, i) != '\n')
        return redact_peek(view, i) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    i = redact_pass_blanks(view, line, BLANKS_BEFORE_MAX);
    if (redact_peek(view, i) == REDACT_PEEK_MORE)
        return REDACT_MORE;
    *at = i;
    return i > line ? REDACT_YES : REDACT_NO;
}

/* ---- the value ---- */

/* An opening quote decides where the value will end. */
static enum redact_verdict pass_quote(const struct redact_view *view, size_t *at,
                                      enum redact_run *ret_run)
{
    if (redact_peek(view, *at) == '[' && redact_is_quote(redact_peek(view, *at + 1)))
        ++*at; /* the first of a list */
    int byte = redact_peek(view, *at);
    *ret_run = REDACT_RUN_VALUE;
    if (byte == '\\') {
        size_t quote = pass_backslashes(view, *at);
        int next = redact_peek(view, quote);
        if (next == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (next == '"') {
            *at = quote + 1;
            *ret_run = REDACT_RUN_ESCAPED;
        }
    } else if (redact_is_quote(byte)) {
        *at += 1;
        *ret_run = byte == '"'    ? REDACT_RUN_DOUBLE
                   : byte == '\'' ? REDACT_RUN_SINGLE
                                  : REDACT_RUN_BACK;
    }
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* *at moves behind a scheme and its blanks, when one of them is there. */
static enum redact_verdict pass_scheme(const struct redact_view *view, size_t *at)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        enum redact_verdict verdict = redact_word_at(view, *at, schemes[i]);
        if (verdict == REDACT_NO)
            continue;
        if (verdict == REDACT_YES)
            *at = redact_pass_blanks(view, *at + strlen(schemes[i]), BLANKS_AFTER_MAX);
        return verdict;
    }
    return REDACT_NO;
}

static bool ends_value(enum redact_run run, int byte)
{
    if (byte < 0 || redact_is_line_end(byte))
        return true;
    switch (run) {
    case REDACT_RUN_DOUBLE:
        return byte == '"';
    case REDACT_RUN_SINGLE:
        return byte == '\'';
    case REDACT_RUN_BACK:
        return byte == '`';
    case REDACT_RUN_ESCAPED:
        return byte == '"';
    case REDACT_RUN_TAG:
        return byte == '<';
    case REDACT_RUN_LINE:
        return redact_is_quote(byte);
    case REDACT_RUN_BARE:
        return byte <= ' ';
    case REDACT_RUN_REST:
        return false;
    default:
        return !redact_is_value(byte);
    }
}

static enum redact_verdict take_sample(const struct redact_view *view, size_t at,
                                       enum redact_run run, struct redact_sample *sample)
{
    int byte;
    sample->len = 0;
    while (!ends_value(run, byte = redact_peek(view, at + sample->len))) {
        if (sample->len == REDACT_SAMPLE_BYTES)
            break;
        sample->text[sample->len++] = (char)byte;
    }
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    sample->cut = sample->len == REDACT_SAMPLE_BYTES && !ends_value(run, byte);
    while (run == REDACT_RUN_ESCAPED && sample->len > 0 && sample->text[sample->len - 1] == '\\')
        sample->len--;
    sample->text[sample->len] = '\0';
    sample->plain = run == REDACT_RUN_VALUE;
    sample->next = byte;
    return REDACT_YES;
}

/* More words follow, or the name is one of a function rather than of a setting. */
static bool is_sentence(const struct redact_view *view, const struct name *name, size_t at)
{
    enum { WORDS_OF_A_SETTING = 3 };
    size_t end = at, joints = 0;
    if (view->text[name->end] != ':')
        return false;
    if (at == name->end + 1)
        return true; /* input-password:focus, of a style sheet */
    for (const char *byte = name->text; *byte; byte++)
        joints += *byte == '_';
    while (redact_is_value(redact_peek(view, end)) && end - at < REDACT_SAMPLE_BYTES)
        end++;
    return joints >= WORDS_OF_A_SETTING ||
           (redact_is_blank(redact_peek(view, end)) && redact_is_alnum(redact_peek(view, end + 1)));
}

/* The byte after the value at `at`, or after the blank that follows it. */
static int after_value(const struct redact_view *view, size_t at)
{
    size_t end = at;
    while (redact_is_value(redact_peek(view, end)) && end - at < REDACT_SAMPLE_BYTES)
        end++;
    int byte = redact_peek(view, end);
    return redact_is_blank(byte) ? redact_peek(view, end + 1) : byte;
}

/* The sign between name and value, which has blanks around it; 0: it has none. */
static int spaced_sign(const struct redact_view *view, const struct name *name, size_t at)
{
    size_t sign = at;
    while (sign > name->end && redact_is_blank(view->text[sign - 1]))
        sign--;
    if (sign == at || sign == name->end)
        return 0;
    int byte = view->text[sign - 1];
    bool before = redact_is_blank(view->text[name->end]);
    return byte == ':' || (byte == '=' && before) ? byte : 0;
}

/* What the text around a plain value says about it. */
static void look_around(const struct redact_view *view, const struct name *name, size_t at,
                        struct redact_sample *sample)
{
    int sign = spaced_sign(view, name, at), after = after_value(view, at);
    bool own = strncmp(name->text, "self.", 5) == 0 || strncmp(name->text, "this.", 5) == 0;
    sample->sentence = is_sentence(view, name, at);
    /* name = value; or name = value ? … */
    sample->code = sign == '=' && (own || (after > 0 && strchr(";?)<>|&+*=", after)));
    sample->spaced = sign == '=' || (sign == ':' && after > 0 && strchr(",)]=", after));
}

/* DB_PASSWORD, as variables of a shell are named. */
static bool is_variable(const struct name *name)
{
    return strspn(name->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(name->text);
}

static bool is_alone(int before)
{
    return redact_is_blank(before) || redact_is_line_end(before);
}

/* NAME=value, or name=value that fills its line: the sample is then the whole value. */
static enum redact_verdict take_setting(const struct redact_view *view, const struct name *name,
                                        size_t at, enum redact_run run,
                                        struct redact_sample *sample)
{
    size_t value = name->end + 1;
    bool quoted = at == value + 1 && strchr("\"'", view->text[value]); /* `…` is a command */
    if (view->text[name->end] != '=' || (at != value && !quoted) ||
        (!is_alone(name->before) && !redact_is_quote(name->before)))
        return REDACT_NO;
    enum redact_verdict verdict =
        take_sample(view, at, run == REDACT_RUN_VALUE ? REDACT_RUN_BARE : run, sample);
    if (verdict != REDACT_YES)
        return verdict;
    char *closing = strchr(sample->text, name->before);
    if (run == REDACT_RUN_VALUE && redact_is_quote(name->before) && closing) {
        sample->len = (size_t)(closing - sample->text);
        sample->cut = false;
        *closing = '\0';
    }
    bool fills = redact_is_line_end(name->before) && !sample->cut &&
                 (quoted || sample->next < 0 || redact_is_line_end(sample->next));
    sample->plain = run == REDACT_RUN_VALUE;
    sample->setting = is_variable(name);
    sample->stated = sample->setting || fills;
    return sample->stated ? REDACT_YES : REDACT_NO;
}

/* The beginning of the value, and what the text around it says about it. */
static enum redact_verdict take_value(const struct redact_view *view, const struct name *name,
                                      enum redact_name_class class, size_t at, enum redact_run *run,
                                      struct redact_sample *sample)
{
    bool many_words = class == REDACT_NAME_COOKIE || class == REDACT_NAME_PHRASE;
    enum redact_verdict verdict = take_setting(view, name, at, *run, sample);
    bool setting = verdict == REDACT_YES && class != REDACT_NAME_PHRASE;
    if (!setting && verdict != REDACT_MORE) {
        *sample = (struct redact_sample){0};
        *run = many_words && *run == REDACT_RUN_VALUE ? REDACT_RUN_LINE : *run;
        verdict = take_sample(view, at, *run, sample);
    }
    if (verdict == REDACT_YES && !view->at_end && at + sample->len + 2 > view->len)
        verdict = REDACT_MORE; /* the sentence may go on */
    if (verdict != REDACT_YES)
        return verdict;
    if (*run == REDACT_RUN_VALUE && !setting)
        look_around(view, name, at, sample);
    if (many_words && setting && *run == REDACT_RUN_VALUE && strchr(sample->text, '='))
        *run = REDACT_RUN_LINE; /* name=value; name=value */
    bool member = name->before == '"' && view->text[name->end] == '"';
    sample->stated = sample->stated || (member && *run == REDACT_RUN_DOUBLE);
    return verdict;
}

/* What is left out: a value without quotes that is not one of a list goes on to the next blank. */
static enum redact_verdict cover(const struct redact_view *view, const struct name *name, size_t at,
                                 enum redact_run run, struct redact_find *ret_find)
{
    bool direct = view->text[name->end] == '=';
    bool enclosed = direct && (redact_is_quote(name->before) || name->before == ';');
    if (run == REDACT_RUN_VALUE && (enclosed || is_alone(name->before)))
        return redact_cover_bare(view, at, enclosed ? name->before : 0, ret_find);
    if (run == REDACT_RUN_ESCAPED)
        return redact_cover_escaped(view, at, ret_find);
    *ret_find = (struct redact_find){.from = at, .to = at, .run = run};
    return REDACT_YES;
}

/* Whether the value at `at` is a secret for this class, and what leaves it out. */
static enum redact_verdict judge(const struct redact_view *view, const struct name *name,
                                 enum redact_name_class class, size_t at, enum redact_run run,
                                 struct redact_find *ret_find)
{
    struct redact_sample sample = {0};
    if (class == REDACT_NAME_HEADER) {
        enum redact_verdict scheme = pass_scheme(view, &at);
        if (scheme == REDACT_MORE)
            return scheme;
        if (scheme == REDACT_YES)
            class = REDACT_NAME_STRONG;
    }
    enum redact_verdict verdict = take_value(view, name, class, at, &run, &sample);
    if (verdict != REDACT_YES)
        return verdict;
    if (name->column)
        class = REDACT_NAME_COLUMN;
    bool words = run == REDACT_RUN_REST && strchr(sample.text, ' ');
    /* <password>  the password to use: no element, but a placeholder. */
    bool usage = run == REDACT_RUN_TAG && redact_is_blank(sample.text[0]);
    /* undefined method `password=' */
    bool method = name->before == '`' && run == REDACT_RUN_SINGLE;
    if (sample.len == 0 || words || usage || method || !redact_sample_is_secret(class, &sample))
        return REDACT_NO;
    return cover(view, name, at, run, ret_find);
}

/* The ways without a sign between name and value; *at moves to the value, whose quote is at hand.
 */
static enum redact_verdict pass_gap(const struct redact_view *view, struct name *name,
                                    size_t closed, size_t *at)
{
    typedef enum redact_verdict way(const struct redact_view *view, const struct name *name,
                                    size_t *at);
    static way *const ways[] = {pass_option, pass_sql, pass_column};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        *at = name->end;
        enum redact_verdict verdict = ways[i](view, name, at);
        name->column = ways[i] == pass_column;
        if (verdict != REDACT_NO)
            return verdict;
    }
    name->column = false;
    *at = closed;
    return pass_pair(view, at);
}

/* The value that follows the name, in any of the ways; *at moves to it. */
static enum redact_verdict find_value(const struct redact_view *view, size_t end, struct name *name,
                                      size_t *at, enum redact_run *ret_run)
{
    size_t closed = pass_closing(view, end);
    *at = closed;
    enum redact_verdict verdict = pass_equals(view, at);
    if (verdict == REDACT_MORE)
        return verdict;
    read_name(view, end, name);
    if (verdict == REDACT_YES) {
        *ret_run = REDACT_RUN_REST;
        verdict = pass_block(view, at);
        return verdict == REDACT_NO ? pass_quote(view, at, ret_run) : verdict;
    }
    *at = end;
    *ret_run = REDACT_RUN_TAG;
    verdict = pass_tag(view, name, at);
    if (verdict != REDACT_NO)
        return verdict;
    verdict = pass_gap(view, name, closed, at);
    return verdict == REDACT_YES ? pass_quote(view, at, ret_run) : verdict;
}

static enum redact_verdict match_assignment(const struct redactor *redactor,
                                            const struct redact_pattern *pattern,
                                            const struct redact_view *view,
                                            struct redact_find *ret_find)
{
    struct name name;
    enum redact_run run = REDACT_RUN_NONE;
    int before = redact_back(view, 1);
    if (pattern->lead ? redact_to_lower(before) != pattern->lead
                      : pattern->len < INNER_BYTES && !is_text(before))
        return REDACT_NO;
    size_t at = 0, end;
    enum redact_verdict verdict = redact_word_at(view, 0, pattern->text);
    if (verdict == REDACT_YES)
        verdict = find_end(view, &end);
    if (verdict == REDACT_YES)
        verdict = find_value(view, end, &name, &at, &run);
    if (verdict != REDACT_YES)
        return verdict;
    /* "pass: test_2" and "pwd: not found" are no secrets. */
    if (run == REDACT_RUN_VALUE && view->text[at - 1] != '=' && is_common_word(&name))
        return REDACT_NO;
    enum redact_name_class class = redact_name_class(redactor, name.text);
    if (is_file(redactor, &name))
        return REDACT_NO;
    return class <= REDACT_NAME_QUIET ? REDACT_NO : judge(view, &name, class, at, run, ret_find);
}

/* ---- making ---- */

static void add(struct redactor *set, const char *text, size_t len, char lead,
                const struct redact_neighbours *neighbours)
{
    const struct redact_pattern pattern = {.matcher = match_assignment,
                                           .text = redact_set_keep(set, text, len),
                                           .len = (uint32_t)len,
                                           .lead = (unsigned char)lead};
    if (pattern.text)
        redact_set_add(set, pattern, neighbours);
}

/* A word of three letters with each byte that may follow. */
static void add_short(struct redactor *set, const char *word)
{
    struct redact_neighbours neighbours = {.before = is_text};
    char text[END_BYTES + 1];
    memcpy(text, word, END_BYTES);
    for (const char *after = after_short; *after; after++) {
        text[END_BYTES] = *after;
        add(set, text, sizeof text, '\0', &neighbours);
        neighbours.is_before = true;
    }
}

static bool may_follow_equals(int byte)
{
    return redact_is_value(byte) || redact_is_quote(byte);
}

/*
 * The last three letters of a word, its first as the byte before, and the two bytes that may
 * follow. So the word itself, which is common, is in no filter.
 */
static void add_common(struct redactor *set, const char *word)
{
    static const char *const pairs[] = {
        "\":", "\" ", "\"=", "\"]", "\",", "':",  "' ",  "'=",  "']",   "',",
        ": ",  ":\"", ":'",  ":\t", ":=",  "=>",  "] ",  "]=",  "\\\"", "\\'",
        "]:",  " =",  "\n ", "\n-", "  ",  " \t", "\t=", "\t ", "+=",
    };
    const struct redact_neighbours of_equals = {.after = may_follow_equals};
    char text[END_BYTES + 2];
    memcpy(text, word + 1, END_BYTES);
    text[END_BYTES] = '=';
    add(set, text, END_BYTES + 1, word[0], &of_equals);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        memcpy(text + END_BYTES, pairs[i], 2);
        add(set, text, sizeof text, word[0], NULL);
    }
}

/* A name that was set is found by its last letters, if it ends with some. */
static void add_setting(struct redactor *set, const char *glob)
{
    char end[INNER_BYTES + 1] = "";
    size_t len = strlen(glob), kept = 0;
    while (kept < INNER_BYTES && kept < len && is_name_byte((unsigned char)glob[len - 1 - kept]))
        kept++;
    for (size_t i = 0; i < kept; i++)
        end[i] = (char)redact_to_lower((unsigned char)glob[len - kept + i]);
    if (kept == INNER_BYTES)
        add(set, end, kept, '\0', NULL);
    else if (kept >= END_BYTES)
        add_short(set, end + kept - END_BYTES);
}

void redact_add_assignments(struct redactor *set)
{
    for (size_t i = 0; i < sizeof inner_letters / sizeof *inner_letters; i++)
        add(set, inner_letters[i], INNER_BYTES, '\0', NULL);
    for (size_t i = 0; i < sizeof short_words / sizeof *short_words; i++)
        add_short(set, short_words[i]);
    for (size_t i = 0; i < sizeof common_words / sizeof *common_words; i++)
        add_common(set, common_words[i]);
    const char *glob;
    for (size_t i = 0; (glob = redact_names_secret(set, i)) != NULL; i++)
        add_setting(set, glob);
}
