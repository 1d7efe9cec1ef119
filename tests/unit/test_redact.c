/* core/redact: nothing secret is stored (SH-15). */
#include "base/arena.h"
#include "base/rng.h"
#include "core/redact.h"
#include "unit/case.h"

#include <stdlib.h>
#include <string.h>

static const struct redact_variable environment[] = {
    {"SERVICE_TOKEN", "vQ7/x+Lm?2 \"k\\9<z"},
    {"DB_PASSWORD", "hunter2-and-more"},
    {"API_KEY", "p\xC3\xA4ssw\xC3\xB6rt&co"},
    {"DATABASE_URL", "postgres://tend:s3cr3tinurl@db.local/tend"},
    {"HOME", "/home/somebody"},
    {"AUTHOR", "Ada Lovelace"},
    {"USE_TOKENS", "false"},
};

static struct redactor *make(const struct redact_variable *variables, size_t count)
{
    struct redactor *redactor = NULL;
    const struct redact_known known = {.variables = variables, .variable_count = count};
    check_int(redactor_new(&known, &redactor, NULL), ==, 0);
    return redactor;
}

static void redact_pieces(const struct redactor *redactor, const char *text, size_t len,
                          const size_t *cuts, size_t cut_count, struct buf *out)
{
    struct redact_stream stream;
    redact_init(&stream, redactor);
    size_t from = 0;
    for (size_t i = 0; i <= cut_count; i++) {
        size_t to = i < cut_count ? cuts[i] : len;
        redact_feed(&stream, text + from, to - from, out);
        from = to;
    }
    redact_end(&stream, out);
    redact_done(&stream);
    check(!out->failed);
}

static void check_redacted(const struct redactor *redactor, const char *text, const char *expected)
{
    struct arena arena;
    arena_init(&arena);
    check_str(redact_text(redactor, &arena, text), expected);
    /* What is clean stays as it is, also what was made clean by us. */
    check_str(redact_text(redactor, &arena, expected), expected);
    arena_done(&arena);
    /* Cut in two at every place, and into single bytes, it comes out the same. */
    size_t len = strlen(text);
    struct buf out;
    buf_init(&out);
    size_t singles[8192];
    check_int(len, <, CASES(singles));
    for (size_t cut = 0; cut <= len; cut++) {
        buf_clear(&out);
        redact_pieces(redactor, text, len, &cut, 1, &out);
        check_str(out.data, expected);
        singles[cut] = cut;
    }
    buf_clear(&out);
    redact_pieces(redactor, text, len, singles, len, &out);
    check_str(out.data, expected);
    buf_done(&out);
}

TEST(redact, names_are_judged_word_by_word)
{
    static const char *const secret[] = {
        "GITHUB_TOKEN",    "token",          "npm_token",       "PGPASSWORD",
        "DB_PASSWORD",     "MYSQL_PWD",      "SMTP_PASS",       "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",  "apiKey",         "SSH_PRIVATE_KEY", "STRIPE_APIKEY",
        "BASIC_AUTH",      "CREDENTIALS",    "gcp-credential",  "ANSIBLE_VAULT_PASSPHRASE",
        "SECRET_KEY_BASE", "TOKEN_2",        "REDIS.PASSWORD",  "GITHUB_PAT",
        "SECRET_ID",       "ENCRYPTION_KEY",
    };
    static const char *const plain[] = {
        "AUTHOR",
        "GIT_AUTHOR_NAME",
        "TOKENIZERS_PARALLELISM",
        "PWD",
        "OLDPWD",
        "PATH",
        "HOME",
        "BYPASS",
        "COMPASS",
        "PASSWORD_FILE",
        "TOKEN_TYPE",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "KEYBOARD",
        "MONKEY",
        "CACHE_KEY",
        "SECRETARY",
        "",
        "_",
        "AUTH_URL",
    };
    for (size_t i = 0; i < CASES(secret); i++)
        check_case(redact_name_is_secret(NULL, secret[i]), secret[i]);
    for (size_t i = 0; i < CASES(plain); i++)
        check_case(!redact_name_is_secret(NULL, plain[i]), plain[i]);
}

/* The worker's own variables: little is lost when too many of them are secret. */
TEST(redact, names_of_variables_are_judged_broadly)
{
    static const char *const secret[] = {
        "GITHUB_TOKEN",
        "PASSKEY",
        "PASSES",
        "SEEDS",
        "SALTS",
        "PINS",
        "GLOBAL_SEED",
        "TEST_SEED",
        "SEED_PHRASE",
        "COOKIEJAR_VALUE",
        "CREDENTIALSX",
        "PROJECT_KEY",
        "NODE_KEY",
        "STORE_KEY",
        "CONFIG_KEY",
        "STATE_KEY",
        "JOB_KEY",
        "REGISTRY_KEY",
        "HASH_KEY",
        "LOCK_KEY",
        "KEY",
        "UNSEAL_KEYS",
        "ENCRYPTION_KEYS",
        "STRIPE_KEY_LIVE",
        "SSHKEY",
        "HMACKEY",
        "DB_PW",
        "LDAP_BIND_PW",
        "DOCKER_AUTH_CONFIG",
        "OTP",
        "PASS_DB",
        "DB_PASS_STAGING",
        "MYSQL_PASS_1",
        "dbPass",
        "CARD_PIN",
    };
    static const char *const plain[] = {
        "PATH",          "PWD",           "OLDPWD",        "HOME",         "EDITOR",
        "SSH_AUTH_SOCK", "PUBLIC_KEY",    "CACHE_KEY",     "PRIMARY_KEY",  "MONKEY",
        "KEYBOARD",      "COMPASS_HOME",  "PING",          "SSH_KEY_PATH", "PASSWORD_FILE",
        "BYPASS",        "PASSENGER_ENV", "COOKIE_DOMAIN", "XAUTHORITY",   "TYPING",
    };
    for (size_t i = 0; i < CASES(secret); i++)
        check_case(redact_variable_is_secret(NULL, secret[i]), secret[i]);
    for (size_t i = 0; i < CASES(plain); i++)
        check_case(!redact_variable_is_secret(NULL, plain[i]), plain[i]);
    static const struct redact_variable variables[] = {{"PROJECT_KEY", "aProjectsOwn"}};
    struct redactor *redactor = make(variables, 1);
    check_redacted(redactor, "it is aProjectsOwn.", "it is [redacted].");
    redactor_free(redactor);
    const struct redact_known known = {
        .variables = variables, .variable_count = 1, .harmless_names = "PROJECT_*"};
    check_int(redactor_new(&known, &redactor, NULL), ==, 0);
    check_redacted(redactor, "it is aProjectsOwn.", "it is aProjectsOwn.");
    redactor_free(redactor);
}

TEST(redact, values_that_say_nothing_are_not_looked_for)
{
    static const char *const plain[] = {
        "",         "1",     "true",    "false", "12345", "4096000", "/usr/bin/pass", "./token.txt",
        "disabled", "FALSE", "       ",
    };
    static const char *const secret[] = {
        "hunter",
        "12345678",
        "/Zm9vYmFyYmF6",
        "a b c d e f",
    };
    for (size_t i = 0; i < CASES(plain); i++)
        check_case(!redact_value_is_secret(plain[i]), plain[i]);
    for (size_t i = 0; i < CASES(secret); i++)
        check_case(redact_value_is_secret(secret[i]), secret[i]);
}

TEST(redact, a_known_value_is_found_in_every_form)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"is vQ7/x+Lm?2 \"k\\9<z here", "is [redacted] here"},
        /* base64 -w0 of the value, and with one and two bytes before it */
        {"b64 dlE3L3grTG0/MiAia1w5PHo= end", "b64 [redacted]o= end"},
        {"b64 eHZRNy94K0xtPzIgImtcOTx6 end", "b64 eH[redacted] end"},
        {"b64 eHh2UTcveCtMbT8yICJrXDk8eg== end", "b64 eHh[redacted]g== end"},
        {"b64 dlE3L3grTG0_MiAia1w5PHo end", "b64 [redacted]o end"},
        /* wrapped, as base64 does it by itself */
        {"b64 dlE3L3gr\nTG0/MiAi\r\na1w5PHo= end", "b64 [redacted]o= end"},
        {"b64 dlE\n3L3grTG0/MiAia1w5PHo= end", "b64 dlE\n3[redacted]o= end"},
        {"?t=vQ7%2Fx%2BLm%3F2%20%22k%5C9%3Cz&u=1", "?t=[redacted]&u=1"},
        {"?t=vQ7%2fx%2bLm%3f2%20%22k%5c9%3cz&u=1", "?t=[redacted]&u=1"},
        {"?t=vQ7/x%2BLm%3F2%20%22k%5C9%3Cz&u=1", "?t=[redacted]&u=1"},
        {"?t=vQ7%2Fx%2BLm%3F2+%22k%5C9%3Cz&u=1", "?t=[redacted]&u=1"},
        {"{\"a\":\"vQ7/x+Lm?2 \\\"k\\\\9<z\"}", "{\"a\":\"[redacted]\"}"},
        {"{\"a\":\"vQ7\\/x+Lm?2 \\\"k\\\\9<z\"}", "{\"a\":\"[redacted]\"}"},
        {"{\"a\":\"vQ7/x+Lm?2 \\\"k\\\\9\\u003cz\"}", "{\"a\":\"[redacted]\"}"},
        {"p\xC3\xA4ssw\xC3\xB6rt&co", "[redacted]"},
        {"p\\u00e4ssw\\u00f6rt&co", "[redacted]"},
        {"p\\u00e4ssw\\u00f6rt\\u0026co", "[redacted]"},
        {"p%C3%A4ssw%C3%B6rt%26co", "[redacted]"},
        {"of a URL: s3cr3tinurl!", "of a URL: [redacted]!"},
        {"twice hunter2-and-morehunter2-and-more.", "twice [redacted]."},
        {"Xhunter2-and-moreX", "X[redacted]X"},
        /* not the values of harmless variables */
        {"/home/somebody Ada Lovelace false", "/home/somebody Ada Lovelace false"},
        {"hunter2-and-mor", "hunter2-and-mor"},
        {"hunter2-and-mhunter2-and-more", "hunter2-and-m[redacted]"},
    };
    struct redactor *redactor = make(environment, CASES(environment));
    for (size_t i = 0; i < CASES(cases); i++)
        check_redacted(redactor, cases[i].text, cases[i].expected);
    redactor_free(redactor);
}

TEST(redact, a_secret_found_inside_another_match_is_left_out_as_a_whole)
{
    /* The assignment alone would end at the blank and show the rest. */
    static const struct redact_variable variables[] = {{"PASSWORD", "three words long"}};
    struct redactor *redactor = make(variables, 1);
    check_redacted(redactor, "password=three words long, ok", "password=[redacted], ok");
    check_redacted(redactor, "password=xthree words long", "password=[redacted]");
    redactor_free(redactor);
}

TEST(redact, tokens_are_known_by_their_shape)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"ghp_0123456789abcdefABCDEF0123456789abcd", "[redacted]"},
        {"x=gho_0123456789abcdefABCDEF0123456789abcd.", "x=[redacted]."},
        {"github_pat_11ABCDEFG0abcdefghij_KLMNOPQRSTUVWXYZ x", "[redacted] x"},
        {"glpat-abcDEF123456_7890xyz", "[redacted]"},
        {"key AKIAIOSFODNN7EXAMPLE,", "key [redacted],"},
        {"ASIAIOSFODNN7EXAMPLE", "[redacted]"},
        {"xoxb-123456789012-abcdef", "[redacted]"},
        {"sk-ant-api03-abcdefghijklmnop", "[redacted]"},
        {"sk-proj-abcdefghijklmnopqrstuvw9", "[redacted]"},
        {"sk_live_abcdefghijklmnop1234", "[redacted]"},
        {"npm_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"},
        {"AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"},
        {"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [redacted] end"},
        {"'eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn'", "'[redacted]'"},
        {"curl -H 'Bearer abc123def456'", "curl -H 'Bearer [redacted]'"},
        {"BEARER  abcdefghijklmnopqrst", "BEARER  [redacted]"},
        {"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"},
        {"{'Authorization': 'Bearer x', 'A': 'b'}",
         "{'Authorization': 'Bearer [redacted]', 'A': 'b'}"},
        {"authorization=abcd1234efgh", "authorization=[redacted]"},
        {"https://me:pa@ss:w@host:80/x@y", "https://me:[redacted]@host:80/x@y"},
        {"redis://:topsecret@127.0.0.1", "redis://:[redacted]@127.0.0.1"},
        {"https://0123456789abcdef0123456789abcdef01234567@github.com/a",
         "https://[redacted]@github.com/a"},
    };
    struct redactor *redactor = make(NULL, 0);
    for (size_t i = 0; i < CASES(cases); i++)
        check_redacted(redactor, cases[i].text, cases[i].expected);
    redactor_free(redactor);
}

/* A colour ends with a letter, and hid the token after it. */
TEST(redact, colours_do_not_hide_a_secret)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"\x1B[32mghp_0123456789abcdefABCDEF0123456789abcd\x1B[0m ok",
         "\x1B[32m[redacted]\x1B[0m ok"},
        {"password: \x1B[33mhunter2xYz9\x1B[0m", "password: \x1B[33m[redacted]\x1B[0m"},
        {"\x1B[34;1m\"token\"\x1B[0m\x1B[1;39m:\x1B[0m \x1B[0;32m\"abcdefgh12\"\x1B[0m",
         "\x1B[34;1m\"token\"\x1B[0m\x1B[1;39m:\x1B[0m \x1B[0;32m\"[redacted]\"\x1B[0m"},
        /* explain leaves sequences out, and would join the halves */
        {"pw \x1B[1mhunter2-\x1B[0mand-more.", "pw \x1B[1m[redacted]\x1B[0m."},
        {"pw hunter2-\x1B(B\x1B[mand-more", "pw [redacted]\x1B(B\x1B[m"},
        {"pw hunter2-\x1B]8;;x\aand-more", "pw [redacted]\x1B]8;;x\a"},
        /* a link has a text of its own */
        {"\x1B]8;;https://me:s3same@host/\x1B\\here\x1B]8;;\x1B\\",
         "\x1B]8;;https://me:[redacted]@host/\x1B\\here\x1B]8;;\x1B\\"},
        /* what moves the cursor stays in the text, and is a boundary */
        {"abc\x1B[2;5HAKIAIOSFODNN7EXAMPLE", "abc\x1B[2;5H[redacted]"},
        /* what is not a sequence, or does not end */
        {"\x1B", "\x1B"},
        {"\x1B[", "\x1B["},
        {"a\x1B]0;title\nb", "a\x1B]0;title\nb"},
        {"\x1B[1mplain\x1B[0m", "\x1B[1mplain\x1B[0m"},
    };
    struct redactor *redactor = make(environment, CASES(environment));
    for (size_t i = 0; i < CASES(cases); i++)
        check_redacted(redactor, cases[i].text, cases[i].expected);
    redactor_free(redactor);
}

TEST(redact, endless_colours_are_held_in_bounded_memory)
{
    struct redactor *redactor = make(NULL, 0);
    struct redact_stream stream;
    struct buf out;
    redact_init(&stream, redactor);
    buf_init(&out);
    redact_feed(&stream, "ghp_", 4, &out);
    for (int i = 0; i < 200000; i++)
        redact_feed(&stream, "\x1B[0m", 4, &out);
    check_int(stream.sequences.cap, <, 256 * 1024);
    redact_feed(&stream, "\x1B]", 2, &out);
    for (int i = 0; i < 100000; i++)
        redact_feed(&stream, "abcd ", 5, &out);
    check_int(stream.raw.cap, <, 64 * 1024);
    redact_end(&stream, &out);
    check(!out.failed);
    redact_done(&stream);
    buf_done(&out);
    redactor_free(redactor);
}

/* The letter or digit before the token is the end of an escape. */
TEST(redact, a_token_after_an_escape_is_found)
{
    static const char *const before[] = {
        "\\n",        "\\r", "\\t",   "\\b",     "\\f",   "\\\\n",  "%3D",
        "%22",        "%20", "%2522", "\\u0022", "\\x22", "\\012",  "^[[32m",
        "\\u001b[1m", "=",   "\\e[K", "\\033[m", "%0a",   "a%0Ab_",
    };
    static const char *const tokens[] = {
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    };
    struct redactor *redactor = make(NULL, 0);
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < CASES(before) * CASES(tokens) * 20; i++) {
        const char *text =
            arena_printf(&arena, "%.*s%s", (int)(i % 20), "a line of text here:", before[i / 80]);
        check_redacted(redactor, arena_printf(&arena, "%s%s", text, tokens[i / 20 % 4]),
                       arena_printf(&arena, "%s[redacted]", text));
    }
    /* but not in the middle of a word */
    check_redacted(redactor, "xghp_0123456789abcdefABCDEF0123456789abcd",
                   "xghp_0123456789abcdefABCDEF0123456789abcd");
    arena_done(&arena);
    redactor_free(redactor);
}

/* A cut just before the word was long enough let the token pass. */
TEST(redact, a_token_is_found_wherever_the_text_before_it_ends)
{
    struct redactor *redactor = make(NULL, 0);
    struct arena arena;
    arena_init(&arena);
    for (int before = 0; before < 40; before++)
        check_redacted(redactor,
                       arena_printf(&arena, "%*s,ghp_0123456789abcdefABCDEF01234567", before, ""),
                       arena_printf(&arena, "%*s,[redacted]", before, ""));
    arena_done(&arena);
    redactor_free(redactor);
}

TEST(redact, assignments_lose_their_value)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"password=hunter2", "password=[redacted]"},
        {"DB_PASSWORD=x y", "DB_PASSWORD=[redacted] y"},
        {"{\"password\": \"with blank\", \"a\": 1}", "{\"password\": \"[redacted]\", \"a\": 1}"},
        {"{\\\"secret\\\":\\\"abc\\\"}", "{\\\"secret\\\":\\\"[redacted]\\\"}"},
        {"passwd : 'it\\'s me' rest", "passwd : '[redacted]' rest"},
        {"?api_key=12345&b=c", "?api_key=[redacted]&b=c"},
        {"X-Api-Key: abc", "X-Api-Key: [redacted]"},
        {"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"},
        {"SECRET_KEY_BASE := abc", "SECRET_KEY_BASE := [redacted]"},
        {"conf['password'] = `abc`", "conf['password'] = `[redacted]`"},
        {"client_secret => abc;", "client_secret => [redacted];"},
        {"access_token=abcdefgh12", "access_token=[redacted]"},
        {"token: Bearer 0123456789", "token: Bearer [redacted]"},
        {"password=", "password="},
        {"password: ", "password: "},
        {"password=\"\"", "password=\"\""},
        {"password=\nnext", "password=\nnext"},
        {"password: required", "password: required"},
        {"password=None", "password=None"},
    };
    struct redactor *redactor = make(NULL, 0);
    for (size_t i = 0; i < CASES(cases); i++)
        check_redacted(redactor, cases[i].text, cases[i].expected);
    redactor_free(redactor);
}

TEST(redact, ordinary_text_is_left_alone)
{
    static const char *const cases[] = {
        "",
        "a",
        "error: unexpected token: endfunction in line 5",
        "tokens: 123456789, max_tokens=4096, tokenizer=gpt2abc12345",
        "Bearer authentication failed: bearer of bad news",
        "authorization: denied",
        "task-force-of-nature-and-more-words-9",
        "sk-learn-is-a-library-for-python",
        "npm_config_user_agent npm_package_scripts_build",
        "https://example.org:8080/a?b=c@d http://user@host/",
        "std::secret::value password == other",
        "secret://vault/path",
        "eyJhbGciOiJIUzI1NiJ9 eyJ",
        "---------------------------------------------",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "passed 12 tests, 3 passing; access denied; private: yes",
        "p\xC3\xA4ss \xFF\xFE stray bytes",
        "[redacted] and password=[redacted]",
    };
    struct redactor *redactor = make(environment, CASES(environment));
    for (size_t i = 0; i < CASES(cases); i++)
        check_redacted(redactor, cases[i], cases[i]);
    redactor_free(redactor);
}

static const char body[] = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";

TEST(redact, a_private_key_is_left_out_to_its_end)
{
    struct redactor *redactor = make(NULL, 0);
    struct buf text;
    buf_init(&text);
    buf_printf(&text, "a\n-----BEGIN RSA PRIVATE KEY-----\n%s%s-----END RSA PRIVATE KEY-----\nb",
               body, body);
    check_redacted(redactor, text.data, "a\n---[redacted]\nb");
    buf_clear(&text);
    buf_printf(&text, "\"-----BEGIN PRIVATE KEY-----\\n%.64s\\n-----END PRIVATE KEY-----\\n\"",
               body);
    check_redacted(redactor, text.data, "\"---[redacted]\\n\"");
    /* two of them without anything between */
    buf_clear(&text);
    buf_printf(&text,
               "-----BEGIN PGP PRIVATE KEY BLOCK-----\n%s-----END PGP PRIVATE KEY BLOCK-----"
               "-----BEGIN PRIVATE KEY-----%s-----END PRIVATE KEY-----.",
               body, body);
    check_redacted(redactor, text.data, "---[redacted]---[redacted].");
    buf_done(&text);
    redactor_free(redactor);
}

TEST(redact, a_key_that_never_ends_is_dropped_in_bounded_memory)
{
    struct redactor *redactor = make(NULL, 0);
    struct redact_stream stream;
    struct buf out;
    redact_init(&stream, redactor);
    buf_init(&out);
    static const char begin[] = "-----BEGIN PRIVATE KEY-----\n";
    redact_feed(&stream, begin, strlen(begin), &out);
    for (int i = 0; i < 100000; i++)
        redact_feed(&stream, body, strlen(body), &out);
    check_int(stream.held.cap, <, 16384);
    redact_end(&stream, &out);
    check_str(out.data, "---[redacted]");
    redact_done(&stream);
    buf_done(&out);
    redactor_free(redactor);
}

TEST(redact, a_mention_of_a_key_does_not_swallow_the_log)
{
    struct redactor *redactor = make(NULL, 0);
    struct buf text;
    struct arena arena;
    arena_init(&arena);
    buf_init(&text);
    buf_puts(&text, "file does not begin with -----BEGIN PRIVATE KEY-----\n");
    for (int i = 0; i < 40; i++)
        buf_printf(&text, "line %d of the log\n", i);
    check_str(redact_text(redactor, &arena, text.data), text.data);
    arena_done(&arena);
    buf_done(&text);
    redactor_free(redactor);
}

TEST(redact, a_token_that_never_ends_is_dropped_in_bounded_memory)
{
    static const char *const beginnings[] = {
        "ghp_", "password=", "secret: \"", "Bearer ", "eyJhbGciOiJIUzI1NiJ9.", "sk-1",
    };
    struct redactor *redactor = make(NULL, 0);
    char block[4096];
    memset(block, 'a', sizeof block);
    for (size_t i = 0; i < CASES(beginnings); i++) {
        struct redact_stream stream;
        struct buf out;
        redact_init(&stream, redactor);
        buf_init(&out);
        redact_feed(&stream, beginnings[i], strlen(beginnings[i]), &out);
        for (int n = 0; n < 500; n++)
            redact_feed(&stream, block, sizeof block, &out);
        redact_end(&stream, &out);
        check_case(out.len < 64, beginnings[i]);
        check_contains(out.data, "[redacted]");
        redact_done(&stream);
        buf_done(&out);
    }
    redactor_free(redactor);
}

TEST(redact, what_cannot_become_a_secret_is_not_held_back)
{
    struct redactor *redactor = make(environment, CASES(environment));
    struct redact_stream stream;
    struct buf out;
    redact_init(&stream, redactor);
    buf_init(&out);
    redact_feed(&stream, "Done.\n", 6, &out);
    check_str(out.data, "Done.\n");
    redact_feed(&stream, "see hunt", 8, &out);
    check_str(out.data, "Done.\nsee ");
    redact_feed(&stream, "ing\n", 4, &out);
    check_str(out.data, "Done.\nsee hunting\n");
    redact_end(&stream, &out);
    redact_done(&stream);
    buf_done(&out);
    redactor_free(redactor);
}

TEST(redact, long_and_many_lined_values_are_found_in_pieces)
{
    struct buf value, text;
    buf_init(&value);
    buf_init(&text);
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 3000; i++)
        buf_putc(&value, (char)('A' + rng_below(&rng, 26)));
    struct redact_variable variables[] = {
        {"BIG_SECRET", value.data},
        {"KEY_SECRET", "first line of it\nsecond line of it\r\nx\nfourth line"},
    };
    struct redactor *redactor = make(variables, CASES(variables));
    buf_printf(&text, "<%s>", value.data);
    check_redacted(redactor, text.data, "<[redacted]>");
    check_redacted(redactor, "a second line of it b\nfourth line\nx",
                   "a [redacted] b\n[redacted]\nx");
    check_redacted(redactor, "first line of it\\nsecond line of it", "[redacted]\\n[redacted]");
    redactor_free(redactor);
    buf_done(&value);
    buf_done(&text);
}

/* Pieces of which the property tests make texts. */
static const char *const fragments[] = {
    "hunter2-and-more",
    "hunter2-",
    "and-more",
    "vQ7/x+Lm?2 \"k\\9<z",
    "dlE3L3grTG0/MiAia1w5PHo=",
    "vQ7%2Fx%2BLm%3F2%20%22k%5C9%3Cz",
    "s3cr3tinurl",
    " ",
    "\n",
    "=",
    ":",
    "\"",
    "'",
    "\\",
    "-",
    "--",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "password",
    "token",
    "Bearer ",
    "Authorization: Basic ",
    "eyJhbGciOiJIUzI1NiJ9",
    ".",
    "abcdefgh12345678",
    "ghp_",
    "sk-",
    "://",
    "user:pass@host",
    "@",
    "plain words in a row",
    "\xC3\xA4",
    "\xFF",
    "p\xC3\xA4ssw\xC3\xB6rt&co",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTU",
    "npm_",
    "_key",
    "AKIA",
    "IOSFODNN7EXAMPLE",
    "\x1B[32m",
    "\x1B",
    "[0m",
    "\x1B]8;;",
    "\x1B\\",
    "\a",
    "\\n",
    "%22",
};

TEST(redact, any_cutting_of_any_text_gives_the_same)
{
    struct redactor *redactor = make(environment, CASES(environment));
    struct rng rng;
    rng_seed(&rng, 15);
    struct buf text, whole, pieces;
    buf_init(&text);
    buf_init(&whole);
    buf_init(&pieces);
    for (int round = 0; round < 20000; round++) {
        size_t cuts[600] = {0};
        buf_clear(&text);
        buf_clear(&whole);
        buf_clear(&pieces);
        for (uint64_t n = rng_below(&rng, 14); n > 0; n--)
            buf_puts(&text, fragments[rng_below(&rng, CASES(fragments))]);
        redact_pieces(redactor, text.data, text.len, cuts, 0, &whole);
        size_t count = 0;
        uint64_t step = 1 + rng_below(&rng, 40);
        for (size_t at = 0; at < text.len && count < CASES(cuts); count++) {
            cuts[count] = at;
            at += rng_below(&rng, step + 1);
        }
        redact_pieces(redactor, text.data, text.len, cuts, count, &pieces);
        check_str(pieces.data, whole.data);
        check_case(!strstr(whole.data, "hunter2-and-more"), text.data);
        check_case(!strstr(whole.data, "vQ7/x+Lm?2 \"k\\9<z"), text.data);
        check_case(!strstr(whole.data, "vQ7%2Fx%2BLm"), text.data);
        check_case(!strstr(whole.data, "dlE3L3grTG0"), text.data);
        check_case(!strstr(whole.data, "s3cr3tinurl"), text.data);
    }
    buf_done(&text);
    buf_done(&whole);
    buf_done(&pieces);
    redactor_free(redactor);
}
