/*
 * Inside core/redact: what stands between the name of a secret and its value. See redact_assign.c.
 */
#include "core/redact_assign.h"

#include <strings.h>

enum {
    BLANKS_BEFORE_MAX = 40, /* settings are often aligned */
    BLANKS_AFTER_MAX = 32,
    PAIR_BLANKS_MAX = 40,
    BACKSLASHES_MAX = 7, /* escaped three times */
    TAG_PREFIX_BYTES = 24,
    TAG_MAX_BYTES = 160,
};

/* ---- the name ---- */

static void read_name(const struct redact_view *view, size_t end, struct redact_name *name)
{
    size_t back = 0;
    while (back < REDACT_NAME_BACK_BYTES && redact_is_name_byte(redact_back(view, back + 1)))
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
static bool is_option(const struct redact_name *name)
{
    return name->text[0] == '-' && name->text[1] != '\0';
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
static bool is_netrc(const struct redact_view *view, const struct redact_name *name)
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

/* The type of a variable, and then its value: token: string = "x". *at moves behind the sign. */
static enum redact_verdict pass_type(const struct redact_view *view, size_t *at)
{
    static const char *const types[] = {"string", "str", "&str", "&'static str"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        enum redact_verdict verdict = redact_word_at(view, *at, types[i]);
        size_t sign = redact_pass_blanks(view, *at + strlen(types[i]), BLANKS_AFTER_MAX);
        int byte = redact_peek(view, sign);
        if (verdict == REDACT_MORE || (verdict == REDACT_YES && byte == REDACT_PEEK_MORE))
            return REDACT_MORE;
        if (verdict == REDACT_NO || byte != '=')
            continue;
        size_t value = redact_pass_blanks(view, sign + 1, BLANKS_AFTER_MAX);
        int first = redact_peek(view, value);
        if (redact_is_quote(first))
            *at = value;
        return first == REDACT_PEEK_MORE ? REDACT_MORE
               : redact_is_quote(first)  ? REDACT_YES
                                         : REDACT_NO; /* code */
    }
    return REDACT_NO;
}

/* = : := => += and blanks; not == or ::, which are code, nor a URL's ://. */
enum redact_verdict redact_pass_equals(const struct redact_view *view, size_t *at)
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
    if (redact_peek(view, *at) == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return first == ':' && pass_type(view, at) == REDACT_MORE ? REDACT_MORE : REDACT_YES;
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
    static const char *const words[] = {"value", "parametervalue"};
    bool long_word = redact_to_lower(redact_peek(view, i)) == 'p';
    enum redact_verdict verdict = redact_word_at(view, i, words[long_word]);
    if (verdict != REDACT_YES)
        return verdict;
    *at = i + strlen(words[long_word]);
    if (redact_is_quote(redact_peek(view, *at)))
        ++*at;
    return redact_pass_equals(view, at);
}

/* --password x, and .netrc: a blank, and no other option. */
static enum redact_verdict pass_option(const struct redact_view *view,
                                       const struct redact_name *name, size_t *at)
{
    if (!redact_is_blank(redact_peek(view, *at)) || !(is_option(name) || is_netrc(view, name)))
        return REDACT_NO;
    *at = redact_pass_blanks(view, *at, BLANKS_AFTER_MAX);
    int byte = redact_peek(view, *at);
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : byte == '-' ? REDACT_NO : REDACT_YES;
}

/* PASSWORD 'x', as in SQL. */
static enum redact_verdict pass_sql(const struct redact_view *view, const struct redact_name *name,
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

/* The text right before the name is this. */
static bool follows_text(const struct redact_view *view, const struct redact_name *name,
                         const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (redact_back(view, name->back + 1 + i) != (unsigned char)text[len - 1 - i])
            return false;
    return true;
}

/* "x" of letters and digits: many macros with such names hold names of ciphers and sentences. */
static enum redact_verdict is_plain_string(const struct redact_view *view, size_t at)
{
    size_t end = at + 1;
    int byte = redact_peek(view, at);
    if (byte == '"')
        while (redact_is_alnum(byte = redact_peek(view, end)) ||
               strchr("+/=", byte > 0 ? byte : 'x'))
            if (end++ - at > REDACT_SAMPLE_BYTES * 2)
                return REDACT_NO;
    return byte == REDACT_PEEK_MORE      ? REDACT_MORE
           : byte == '"' && end > at + 1 ? REDACT_YES
                                         : REDACT_NO;
}

/* #define API_KEY "x", and the variables of fish and csh. */
static enum redact_verdict pass_define(const struct redact_view *view,
                                       const struct redact_name *name, size_t *at)
{
    static const char *const setters[] = {"set -gx ", "set -x ", "set -Ux ", "setenv "};
    bool macro = follows_text(view, name, "#define "), set = false;
    for (size_t i = 0; i < sizeof setters / sizeof *setters; i++)
        set = set || follows_text(view, name, setters[i]);
    if (!redact_is_blank(redact_peek(view, *at)) || !(macro || set))
        return REDACT_NO;
    *at = redact_pass_blanks(view, *at, BLANKS_AFTER_MAX);
    if (redact_peek(view, *at) == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return macro ? is_plain_string(view, *at) : REDACT_YES;
}

/* password -> x, password == x: mostly code, so that the value must look made by chance. */
static enum redact_verdict pass_arrow(const struct redact_view *view,
                                      const struct redact_name *name, size_t *at)
{
    (void)name;
    size_t sign = redact_pass_blanks(view, *at, BLANKS_BEFORE_MAX);
    int first = redact_peek(view, sign), second = redact_peek(view, sign + 1);
    if (first == REDACT_PEEK_MORE || ((first == '-' || first == '=') && second == REDACT_PEEK_MORE))
        return REDACT_MORE;
    bool is_sign = (first == '-' && second == '>') || (first == '=' && second == '=');
    int after = redact_peek(view, sign + 2);
    if (sign == *at || !is_sign || !(redact_is_blank(after) || after == REDACT_PEEK_MORE))
        return REDACT_NO;
    *at = redact_pass_blanks(view, sign + 2, BLANKS_AFTER_MAX);
    return redact_peek(view, *at) == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* <password, <db:password */
static bool is_tag(const struct redact_view *view, const struct redact_name *name)
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
static bool is_property(const struct redact_view *view, const struct redact_name *name)
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
static enum redact_verdict pass_key(const struct redact_view *view, const struct redact_name *name,
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
static enum redact_verdict pass_tag(const struct redact_view *view, const struct redact_name *name,
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
static bool begins_row(const struct redact_view *view, const struct redact_name *name)
{
    size_t distance = name->back + 1, end = distance + BLANKS_AFTER_MAX;
    int byte;
    while ((redact_is_blank(byte = redact_back(view, distance)) || byte == '|') && distance < end)
        distance++;
    return redact_is_line_end(byte);
}

/* The second column of a table: DB_PASSWORD    x, and | password | x |. Names of packages, images
 * and pods stand in tables, too; they have a dash or a dot. */
static enum redact_verdict pass_column(const struct redact_view *view,
                                       const struct redact_name *name, size_t *at)
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

/* string(24) "x", as PHP writes it: *at moves to the quote. */
static enum redact_verdict pass_php(const struct redact_view *view, size_t *at)
{
    static const char opening[] = "string(";
    size_t digits = *at + strlen(opening), end = digits;
    enum redact_verdict verdict = redact_bytes_at(view, *at, opening);
    if (verdict != REDACT_YES)
        return verdict;
    while (redact_is_digit(redact_peek(view, end)) && end - digits < BLANKS_AFTER_MAX)
        end++;
    verdict = redact_bytes_at(view, end, ") \"");
    if (verdict == REDACT_YES)
        *at = end + 2;
    return verdict;
}

/* Line ends and blanks, as in "password": [ and the value on the next line. */
size_t redact_pass_white(const struct redact_view *view, size_t at)
{
    size_t end = at + PAIR_BLANKS_MAX;
    while (at < end &&
           (redact_is_blank(redact_peek(view, at)) || redact_is_line_end(redact_peek(view, at))))
        at++;
    return at;
}

/*
 * What may stand between the sign and the quote of a value: the bracket of a list, the letter of
 * some kind of string, the constructor of some option. *at moves to the quote; where there is none,
 * it stays.
 */
static enum redact_verdict pass_wrapper(const struct redact_view *view, size_t *at)
{
    static const char *const wrappers[] = {"[",     "b",       "@",         "Some(",
                                           "Just(", "$(echo ", "$(echo -n "};
    bool arrow = redact_is_line_end(redact_peek(view, *at)) && view->text[*at - 1] == '>';
    size_t start = arrow ? redact_pass_white(view, *at) : *at, quote = 0;
    if (redact_peek(view, start) == REDACT_PEEK_MORE)
        return REDACT_MORE;
    enum redact_verdict verdict = pass_php(view, &start);
    if (verdict != REDACT_NO || arrow) {
        *at = verdict == REDACT_YES ? start : *at;
        return verdict == REDACT_MORE ? REDACT_MORE : REDACT_YES;
    }
    for (size_t i = 0; quote == 0 && i < sizeof wrappers / sizeof *wrappers; i++) {
        verdict = redact_bytes_at(view, start, wrappers[i]);
        size_t end = start + strlen(wrappers[i]);
        end = verdict == REDACT_YES && i == 0 ? redact_pass_white(view, end) : end;
        if (verdict == REDACT_MORE ||
            (verdict == REDACT_YES && redact_peek(view, end) == REDACT_PEEK_MORE))
            return REDACT_MORE;
        bool command = wrappers[i][0] == '$';
        if (verdict == REDACT_YES && (command || redact_is_quote(redact_peek(view, end))))
            quote = end;
    }
    *at = quote > 0 ? quote : *at;
    return REDACT_YES;
}

/* An opening quote decides where the value will end. */
static enum redact_verdict pass_quote(const struct redact_view *view, size_t *at,
                                      enum redact_run *ret_run)
{
    if (pass_wrapper(view, at) == REDACT_MORE)
        return REDACT_MORE;
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

/* The ways without a sign between name and value; *at moves to the value, whose quote is at hand.
 */
static enum redact_verdict pass_gap(const struct redact_view *view, struct redact_name *name,
                                    size_t closed, size_t *at)
{
    typedef enum redact_verdict way(const struct redact_view *view, const struct redact_name *name,
                                    size_t *at);
    static way *const ways[] = {pass_option, pass_sql, pass_define, pass_arrow, pass_column};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        *at = name->end;
        enum redact_verdict verdict = ways[i](view, name, at);
        name->column = ways[i] == pass_column || ways[i] == pass_arrow || ways[i] == pass_define;
        if (verdict != REDACT_NO)
            return verdict;
    }
    name->column = false;
    *at = closed;
    return pass_pair(view, at);
}

/* The value that follows the name, in any of the ways; *at moves to it. */
enum redact_verdict redact_find_value(const struct redact_view *view, size_t end,
                                      struct redact_name *name, size_t *at,
                                      enum redact_run *ret_run)
{
    size_t closed = pass_closing(view, end);
    *at = closed;
    enum redact_verdict verdict = redact_pass_equals(view, at);
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
