/*
 * Inside core/redact: sentences, commands and lines of configuration in which a secret has its
 * place. One row for each.
 *
 *     %s  the secret, which may be in quotes      %n  the name of a secret, after any / and :
 *     %w  a word, up to a blank                   %u  the same, up to a slash
 *     %d  digits                                  %*  anything on this line
 *
 * Letters of either case are alike. A blank stands for one or more, and \n for the end of a line
 * with blank lines and blanks after it. What follows %s must follow the secret, too.
 */
#include "core/redact_set.h"

enum {
    BLANKS_MAX = 8,
    WORD_MAX_BYTES = 128,
    LINE_MAX_BYTES = 256,
    SURE_MIN_BYTES = 4,
    RANDOM_MIN_BYTES = 16,
};

enum flag {
    SURE = 1,    /* whatever stands there, but for placeholders */
    RANDOM = 2,  /* only what looks like made by chance */
    LONG = 4,    /* and is long */
    CODE = 8,    /* only digits */
    START = 16,  /* the row begins its line */
    TO_AT = 32,  /* the secret may end at @ */
    OF_NAME = 64 /* as the class of the name wants it */
};

struct phrase {
    const char *form;
    unsigned flags;
};

static const struct phrase phrases[] = {
    /* sentences */
    {"password for %w: %s", RANDOM},
    {"password for user %w: %s", RANDOM},
    {"password is generated for %w: %s", SURE},
    {"password is %s", RANDOM},
    {"password for the %*:\n%s", RANDOM},
    {"use the following password %*:\n%s", RANDOM},
    {"with password %s", RANDOM},
    {"invalid token %s", RANDOM | LONG},
    {"authtoken saved: %s", RANDOM},
    {"unseal key %d: %s", LONG},
    {"recovery key %d: %s", LONG},
    {"signing key: %s", LONG},
    {"encryption key: %s", LONG},
    {"master key: %s", LONG},
    {"secret key: %s", LONG},
    {"private key: %s", LONG},
    {"api key: %s", LONG},
    {"one-time code: %s", CODE},
    {"verification code: %s", CODE},
    /* configuration */
    {"requirepass %s", SURE | START},
    {"masterauth %s", SURE | START},
    {"config set requirepass %s", SURE},
    {"config set masterauth %s", SURE},
    {"enable secret %d %s", SURE | START},
    {"enable password %d %s", SURE | START},
    {"username %w secret %d %s", SURE | START},
    {"username %w password %d %s", SURE | START},
    {"snmp-server community %s", SURE | START},
    {"set password = password(%s", SURE},
    {"set password for %w = password(%s", SURE},
    {"auth login %s", LONG | START},
    {"auth plain %s", LONG | START},
    /* commands */
    {"aws configure set %n %s", OF_NAME},
    {"npm config set %n %s", OF_NAME},
    {"yarn config set %n %s", OF_NAME},
    {"pip config set %n %s", OF_NAME},
    {"htpasswd -b %w %w %s", SURE},
    {"htpasswd -cb %w %w %s", SURE},
    {"htpasswd -bc %w %w %s", SURE},
    {"htpasswd -bb %w %w %s", SURE},
    {"htpasswd -nb %w %s", SURE},
    {"htpasswd -bn %w %s", SURE},
    {"htpasswd -nbb %w %s", SURE},
    {"htpasswd -bbn %w %s", SURE},
    {"net use %w %w %s /user:", SURE},
    {"net use %w %s /user:", SURE},
    {"net use %w %w /user:%w %s", SURE},
    {"net use %w /user:%w %s", SURE},
    {"rclone config %* pass %s", SURE},
    {"rclone config %* password %s", SURE},
    {"rclone obscure %s", SURE},
    {"expdp %u/%s", SURE | TO_AT},
    {"impdp %u/%s", SURE | TO_AT},
    {"-dsonar.login=%s", RANDOM},
    {"echo %s | sudo -s", SURE},
    {"echo -n %s | sudo -s", SURE},
    {"echo %s | %* --password-stdin", SURE},
    {"echo -n %s | %* --password-stdin", SURE},
    {"echo %s | %* login", RANDOM},
    {"printf %s | %* --password-stdin", SURE},
    {"echo %w:%s | %*chpasswd", SURE},
    {"echo %s | %*passwd --stdin", SURE},
    {"cargo login %s", RANDOM},
    {"vault kv put %*value=%s", SURE},
    {"mc alias set %w %w %w %s", SURE},
    {"mc config host add %w %w %w %s", SURE},
    {"nmcli %* password %s", SURE},
    {"nmcli %* wifi-sec.psk %s", SURE},
};

/* A form and the text, as far as they are the same. */
struct walk {
    const struct redact_view *view;
    const struct redactor *redactor;
    size_t at;
    size_t secret; /* where it begins; 0: not met */
    size_t end;    /* and ends */
    enum redact_name_class class;
};

static bool in_word(int byte)
{
    return byte > ' ';
}

static bool in_part(int byte)
{
    return byte > ' ' && byte != '/';
}

/* One byte or more that belong; YES, and walk->at moves. */
static enum redact_verdict pass_bytes(struct walk *walk, bool (*belongs)(int), char until)
{
    size_t start = walk->at;
    int byte = 0;
    while (walk->at - start < WORD_MAX_BYTES && belongs(byte = redact_peek(walk->view, walk->at)) &&
           byte != until)
        walk->at++;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return walk->at > start && walk->at - start < WORD_MAX_BYTES ? REDACT_YES : REDACT_NO;
}

/* //registry.example.org/:_authToken */
static enum redact_verdict pass_name(struct walk *walk)
{
    char name[WORD_MAX_BYTES + 1];
    size_t start = walk->at;
    enum redact_verdict verdict = pass_bytes(walk, in_word, '\0');
    if (verdict != REDACT_YES)
        return verdict;
    for (size_t i = start; i < walk->at; i++)
        if (strchr("/:.", walk->view->text[i]))
            start = i + 1;
    memcpy(name, walk->view->text + start, walk->at - start);
    name[walk->at - start] = '\0';
    walk->class = redact_name_class(walk->redactor, name);
    return walk->class > REDACT_NAME_QUIET ? REDACT_YES : REDACT_NO;
}

/* Up to the secret's end: its quote, or a blank. */
static enum redact_verdict pass_secret(struct walk *walk)
{
    int quote = redact_peek(walk->view, walk->at), byte = 0;
    bool quoted = redact_is_quote(quote);
    walk->at += quoted;
    walk->secret = walk->at;
    while (walk->at - walk->secret < WORD_MAX_BYTES) {
        byte = redact_peek(walk->view, walk->at);
        if (quoted ? byte == quote || byte < ' ' : byte <= ' ')
            break;
        walk->at++;
    }
    walk->end = walk->at;
    walk->at += quoted && byte == quote;
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

/* Anything up to the text that follows in the form. */
static enum redact_verdict pass_anything(struct walk *walk, const char *next)
{
    char literal[WORD_MAX_BYTES];
    size_t len = strcspn(next, "%"), end = walk->at + LINE_MAX_BYTES;
    memcpy(literal, next, len);
    literal[len] = '\0';
    for (; walk->at < end; walk->at++) {
        enum redact_verdict verdict = redact_word_at(walk->view, walk->at, literal);
        int byte = redact_peek(walk->view, walk->at);
        if (verdict != REDACT_NO)
            return verdict;
        if (byte < 0 || redact_is_line_end(byte))
            return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_NO;
    }
    return REDACT_NO;
}

/* Blank lines, and the blanks before the first text. */
static enum redact_verdict pass_lines(struct walk *walk)
{
    size_t end = walk->at + BLANKS_MAX;
    int byte;
    while (redact_is_blank(byte = redact_peek(walk->view, walk->at)) || redact_is_line_end(byte))
        if (walk->at++ == end)
            return REDACT_NO;
    return byte == REDACT_PEEK_MORE ? REDACT_MORE : REDACT_YES;
}

static enum redact_verdict pass_letter(struct walk *walk, int letter)
{
    int byte = redact_peek(walk->view, walk->at);
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (letter == ' ') {
        walk->at = redact_pass_blanks(walk->view, walk->at, BLANKS_MAX);
        return redact_is_blank(byte) ? REDACT_YES : REDACT_NO;
    }
    walk->at++;
    if (redact_to_lower(byte) != letter)
        return REDACT_NO;
    return letter == '\n' ? pass_lines(walk) : REDACT_YES;
}

/* The part of the form that begins with this letter after %; next is what follows it. */
static enum redact_verdict pass_part(struct walk *walk, char letter, const char *next)
{
    switch (letter) {
    case 's':
        return pass_secret(walk);
    case 'n':
        return pass_name(walk);
    case 'd':
        return pass_bytes(walk, redact_is_digit, '\0');
    case 'u':
        return pass_bytes(walk, in_part, '\0');
    case '*':
        return pass_anything(walk, next);
    default:
        return pass_bytes(walk, in_word, *next == ' ' ? '\0' : *next);
    }
}

static enum redact_verdict pass_form(struct walk *walk, const char *form)
{
    enum redact_verdict verdict = REDACT_YES;
    while (*form && verdict == REDACT_YES) {
        if (*form == '%') {
            verdict = pass_part(walk, form[1], form + 2);
            form += 2;
        } else {
            verdict = pass_letter(walk, *form++);
        }
    }
    return verdict;
}

static bool is_secret(const struct walk *walk, unsigned flags)
{
    struct redact_sample sample = {
        .stated = true, .setting = flags & (SURE | OF_NAME), .next = REDACT_PEEK_END};
    size_t len = walk->end - walk->secret;
    sample.cut = len > REDACT_SAMPLE_BYTES;
    sample.len = sample.cut ? REDACT_SAMPLE_BYTES : len;
    memcpy(sample.text, walk->view->text + walk->secret, sample.len);
    enum redact_name_class class = flags & OF_NAME ? walk->class
                                   : flags & SURE  ? REDACT_NAME_STRONG
                                   : flags & CODE  ? REDACT_NAME_PIN
                                                   : REDACT_NAME_COLUMN;
    size_t least = flags & LONG ? RANDOM_MIN_BYTES : SURE_MIN_BYTES;
    return sample.len >= least && redact_sample_is_secret(class, &sample);
}

static bool begins_line(const struct redact_view *view)
{
    size_t distance = 1;
    while (distance < BLANKS_MAX && redact_is_blank(redact_back(view, distance)))
        distance++;
    return redact_is_line_end(redact_back(view, distance));
}

static enum redact_verdict match_phrase(const struct redactor *redactor,
                                        const struct redact_pattern *pattern,
                                        const struct redact_view *view,
                                        struct redact_find *ret_find)
{
    const struct phrase *phrase = &phrases[pattern->option];
    struct walk walk = {.view = view, .redactor = redactor};
    if (redact_is_joined(view, 1) || (phrase->flags & START && !begins_line(view)))
        return REDACT_NO;
    enum redact_verdict verdict = pass_form(&walk, phrase->form);
    if (verdict != REDACT_YES)
        return verdict;
    const unsigned char *at = memchr(view->text + walk.secret, '@', walk.end - walk.secret);
    if (phrase->flags & TO_AT && at)
        walk.end = (size_t)(at - view->text);
    if (!is_secret(&walk, phrase->flags))
        return REDACT_NO;
    bool goes_on = walk.end - walk.secret >= WORD_MAX_BYTES;
    *ret_find = (struct redact_find){
        .from = walk.secret, .to = walk.end, .run = goes_on ? REDACT_RUN_BARE : REDACT_RUN_NONE};
    return REDACT_YES;
}

void redact_add_phrases(struct redactor *set)
{
    for (uint32_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        redact_set_add(set,
                       (struct redact_pattern){.matcher = match_phrase,
                                               .text = phrases[i].form,
                                               .len = (uint32_t)strcspn(phrases[i].form, "%"),
                                               .option = i},
                       NULL);
}
