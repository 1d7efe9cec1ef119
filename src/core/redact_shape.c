/*
 * Inside core/redact: tokens that are known by their shape. One row for each: what it begins with,
 * and what follows.
 *
 * The body is a row of classes with how often, and of literal text in quotes:
 *
 *     a{36}              36 letters and digits, or more
 *     w{22}'.'w{43}      22 of a word, a dot, 43 of a word or more
 *     d  digits          h  hex, small      x  hex           l  small letters and digits
 *     u  capitals and digits                a  letters and digits
 *     w  and _ -         t  and . ~ + / = %
 *
 *
 * A token goes on as long as its last class does, unless the row says EXACT: then what follows must
 * be no part of a word. Before a token stands no letter or digit.
 *
 * Most rows are asked where a word of REDACT_LONG_WORD_BYTES begins, and after each _ and - in it.
 * Those that are shorter, or whose beginning is no part of a word, are found by their beginning,
 * which then has three bytes at least.
 */
#include "core/redact_set.h"

enum flag {
    EXACT = 1,  /* it has this length and no other */
    MIXED = 2,  /* there must be digits and letters: the beginning alone is weak */
    STRICT = 4, /* there must be digits, capitals and small letters */
    KEEP = 8,   /* what it begins with says where the secret is, and stays */
    INNER = 16, /* letters may stand before it */
};

struct shape {
    const char *prefix;
    const char *body;
    unsigned flags;
};

static const struct shape shapes[] = {
    /* version control, packages, continuous integration */
    {"ghp_", "a{20}", 0},
    {"gho_", "a{20}", 0},
    {"ghu_", "a{20}", 0},
    {"ghs_", "a{20}", 0},
    {"ghr_", "a{20}", 0},
    {"github_pat_", "w{20}", 0},
    {"glpat-", "w{16}", 0},
    {"gldt-", "w{16}", 0},
    {"glft-", "w{16}", 0},
    {"glsoat-", "w{16}", 0},
    {"glrt-", "w{16}", 0},
    {"glrtr-", "w{16}", 0},
    {"glcbt-", "w{16}", 0},
    {"glptt-", "w{16}", 0},
    {"glimt-", "w{16}", 0},
    {"glagent-", "w{16}", 0},
    {"gloas-", "w{16}", 0},
    {"glffct-", "w{16}", 0},
    {"GR1348941", "w{20}", 0},
    {"ATBB", "a{32}", 0},
    {"npm_", "a{30}", 0},
    {"pypi-", "w{32}", MIXED},
    {"rubygems_", "h{40}", 0},
    {"dckr_pat_", "w{24}", 0},
    {"dckr_oat_", "w{24}", 0},
    {"CLOJARS_", "l{60}", 0},
    {"AKCp", "a{64}", 0},
    {"cmVmdGtu", "w{50}", 0},
    {"CCIPAT_", "w{30}", 0},
    {"CCIPRJ_", "w{30}", 0},
    {"bkua_", "h{40}", 0},
    {"sgp_", "h{40}", 0},
    {"sgp_", "w{16}'_'h{40}", 0},
    {"sqp_", "h{40}", 0},
    {"sqa_", "h{40}", 0},
    {"squ_", "h{40}", 0},
    {"API-", "u{26}", EXACT | MIXED},
    {"PMAK-", "h{24}'-'h{34}", 0},
    {"pul-", "h{40}", 0},
    {"ico-", "a{32}", MIXED},
    {".atlasv1.", "w{60}", INNER},
    {"CFPAT-", "w{40}", 0},
    /* clouds */
    {"AKIA", "u{16}", 0},
    {"ASIA", "u{16}", 0},
    {"ABIA", "u{16}", 0},
    {"ACCA", "u{16}", 0},
    {"ABSK", "t{100}", 0},
    {"FwoGZXIvYXdz", "t{60}", 0},
    {"IQoJb3JpZ2luX2Vj", "t{60}", 0},
    {"amzn.mws.", "w{36}", 0},
    {"AIza", "w{30}", 0},
    {"GOCSPX-", "w{24}", 0},
    {"ya29.", "w{20}", 0},
    {"1//0", "w{40}", 0},
    {"7Q~", "t{31}", INNER | MIXED},
    {"8Q~", "t{31}", INNER | MIXED},
    {"LTAI", "a{16}", MIXED},
    {"AKID", "a{28}", MIXED},
    {"AQVN", "w{35}", 0},
    {"dop_v1_", "h{32}", 0},
    {"doo_v1_", "h{32}", 0},
    {"dor_v1_", "h{32}", 0},
    {"HRKU-", "w{30}", 0},
    {"fo1_", "w{40}", 0},
    {"fm1r_", "t{60}", 0},
    {"fm2_", "t{60}", 0},
    {"sbp_", "h{40}", 0},
    {"sb_secret_", "w{20}", 0},
    {"nfp_", "w{36}", 0},
    {"rnd_", "a{28}", MIXED},
    {"v1.0-", "h{24}'-'h{100}", 0},
    {"akab-", "l{16}'-'l{16}", 0},
    {"tskey-", "w{20}", MIXED},
    {"ddp_", "a{36}", 0},
    {"dnkey-", "w{40}", 0},
    {"hvs.", "w{24}", 0},
    {"K10", "h{64}'::server:'w{16}", 0},
    {"K10", "h{64}'::node:'w{16}", 0},
    {"hvb.", "w{24}", 0},
    {"hvr.", "w{24}", 0},
    {"AGE-SECRET-KEY-1", "u{40}", 0},
    {"ops_eyJ", "t{60}", 0},
    {"dp.pt.", "a{30}", 0},
    {"dp.st.", "t{30}", 0},
    {"dp.ct.", "a{30}", 0},
    {"dp.sa.", "a{30}", 0},
    {"dp.scim.", "a{30}", 0},
    {"dp.audit.", "a{30}", 0},
    {"pscale_tkn_", "t{30}", 0},
    {"pscale_oauth_", "t{30}", 0},
    {"pscale_pw_", "t{30}", 0},
    {"dapi", "h{32}", 0},
    {"napi_", "l{40}", 0},
    {"mdb_sa_sk_", "w{30}", 0},
    /* mail, chat, telephone */
    {"xoxa-", "w{10}", 0},
    {"xoxb-", "w{10}", 0},
    {"xoxc-", "w{10}", 0},
    {"xoxd-", "t{10}", 0},
    {"xoxe-", "w{10}", 0},
    {"xoxe.xoxp-", "w{10}", 0},
    {"xoxe.xoxb-", "w{10}", 0},
    {"xoxo-", "w{10}", 0},
    {"xoxp-", "w{10}", 0},
    {"xoxr-", "w{10}", 0},
    {"xoxs-", "w{10}", 0},
    {"xapp-", "w{10}", 0},
    {"xwfp-", "w{10}", 0},
    {"hooks.slack.com/services/", "t{20}", KEEP},
    {"hooks.slack.com/workflows/", "t{20}", KEEP},
    {"hooks.slack.com/triggers/", "t{20}", KEEP},
    {"webhooks/", "d{15}'/'w{40}", KEEP | INNER},
    {".webhook.office.com/", "t{20}'@'t{30}", KEEP | INNER},
    {"hooks.zapier.com/hooks/catch/", "t{8}", KEEP},
    {"/bot/v2/hook/", "w{30}", KEEP},
    {"key-", "h{32}", EXACT},
    {"xkeysib-", "h{32}", 0},
    {"xsmtpsib-", "h{32}", 0},
    /* money and shops */
    {"sk_live_", "a{16}", 0},
    {"sk_test_", "a{16}", 0},
    {"sk_prod_", "a{16}", 0},
    {"rk_live_", "a{16}", 0},
    {"rk_test_", "a{16}", 0},
    {"rk_prod_", "a{16}", 0},
    {"whsec_", "t{16}", MIXED},
    {"rzp_live_", "a{14}", 0},
    {"rzp_test_", "a{14}", 0},
    {"sq0atp-", "w{20}", 0},
    {"sq0csp-", "w{20}", 0},
    {"EAAA", "w{56}", MIXED},
    {"shpat_", "x{32}", 0},
    {"shpca_", "x{32}", 0},
    {"shppa_", "x{32}", 0},
    {"shpss_", "x{32}", 0},
    {"shptka_", "x{32}", 0},
    {"$production$", "l{8}'$'h{32}", KEEP | INNER},
    {"$sandbox$", "l{8}'$'h{32}", KEEP | INNER},
    {"access-sandbox-", "w{36}", 0},
    {"access-development-", "w{36}", 0},
    {"access-production-", "w{36}", 0},
    {"FLWSECK-", "w{20}", 0},
    {"FLWSECK_TEST-", "w{12}", 0},
    {"EZAK", "a{54}", 0},
    {"EZTK", "a{54}", 0},
    {"shippo_live_", "h{40}", 0},
    {"shippo_test_", "h{40}", 0},
    {"duffel_live_", "w{40}", 0},
    {"duffel_test_", "w{40}", 0},
    {"live_", "w{30}", STRICT},
    {"live_", "h{35}", EXACT | MIXED}, /* Lob */
    {"test_", "h{35}", EXACT | MIXED},
    /* models */
    {"sk-", "w{21}", MIXED},
    {"api_org_", "a{34}", 0},
    {"gsk_", "a{40}", 0},
    {"xai-", "a{60}", 0},
    {"pplx-", "a{40}", 0},
    {"nvapi-", "w{40}", 0},
    {"lsv2_pt_", "w{32}", 0},
    {"lsv2_sk_", "w{32}", 0},
    {"pcsk_", "w{40}", 0},
    /* everything else that people work with */
    {"secret_", "a{40}", STRICT},
    {"ntn_", "a{40}", 0},
    {"lin_api_", "a{32}", 0},
    {"lin_oauth_", "a{32}", 0},
    {"ATATT3", "t{60}", 0},
    {"ATCTT3", "t{60}", 0},
    {"ATTA", "h{64}", 0},
    {"pat.", "w{20}'.'h{20}'.'a{16}", 0},
    {"figd_", "w{36}", 0},
    {"NRAK-", "u{20}", 0},
    {"NRII-", "w{20}", 0},
    {"NRJS-", "h{16}", 0},
    {"NRRA-", "h{40}", 0},
    {"sntrys_", "t{40}", 0},
    {"sntryu_", "h{40}", 0},
    {"glsa_", "w{32}", 0},
    {"glc_", "t{32}", 0},
    {"eyJrIjoi", "t{60}", 0},
    {"dt0c01.", "u{24}'.'u{40}", 0},
    {"tfp_", "t{50}", 0},
    {"rdme_", "l{60}", 0},
    {"pnu_", "a{36}", 0},
    {"tvly-", "w{20}", MIXED},
    {"ddo_", "a{36}", 0},
    {"tk-us-", "w{40}", 0},
    {"aio_", "a{28}", EXACT | STRICT},
    {"p8e-", "l{32}", MIXED},
    {"fio-u-", "w{60}", 0},
    {"ion_", "a{42}", STRICT},
    {"zpka_", "a{30}", 0},
    {"waka_", "w{36}", 0},
    {"nyk_v0_", "a{30}", 0},
    {"sl.u.", "w{60}", 0},
    {"sdk-", "h{8}'-'h{4}'-'h{4}'-'h{4}'-'h{12}", EXACT},
    {"api-", "h{8}'-'h{4}'-'h{4}'-'h{4}'-'h{12}", EXACT},
    {"xkeyo-", "w{30}", 0},
    {"pat-na1-", "h{8}'-'h{4}'-'h{4}'-'h{4}'-'h{12}", EXACT},
    {"pat-eu1-", "h{8}'-'h{4}'-'h{4}'-'h{4}'-'h{12}", EXACT},
    {"sk.eyJ", "w{40}'.'w{20}", 0},
    {"phx_", "a{40}", 0},
    {"sha256~", "w{40}", 0},
    {"hcaik_", "l{50}", 0},
    {"hcbik_", "l{50}", 0},
    {"csk-", "l{40}", MIXED},
    {"xnd_production_", "w{30}", 0},
    {"xnd_development_", "w{30}", 0},
    {"secret-live-", "w{30}", MIXED},
    {"secret-test-", "w{30}", STRICT},
    {"endr+", "a{16}", MIXED},
    {"vcp_", "a{24}", MIXED},
    {"vca_", "a{24}", MIXED},
    {"vck_", "a{24}", MIXED},
    /* signatures of links and requests that anybody may follow */
    {"X-Amz-Security-Token=", "t{20}", KEEP},
    {"X-Amz-Credential=", "t{16}", KEEP},
    {"sig=", "t{30}", KEEP | MIXED},
    {"code_verifier=", "t{40}", KEEP | MIXED},
    {"nature=", "t{27}", KEEP | MIXED | INNER},
    {"nse=\"", "h{32}", KEEP | INNER}, /* response="…" of Digest */
    {"ttp -a ", "w{1,32}':'t{4}", KEEP | INNER},
    {"zip -P ", "t{4}", KEEP},
    {"zip -r -P ", "t{4}", KEEP},
    {"ttps -a ", "w{1,32}':'t{4}", KEEP | INNER},
    {"IDENTIFIED BY '", "t{1}", KEEP},
    {"identified by '", "t{1}", KEEP},
    {"-passin pass:", "t{1}", KEEP},
    {"-passout pass:", "t{1}", KEEP},
    {"-pass pass:", "t{1}", KEEP},
    {"\"d\":\"", "w{40}", KEEP | STRICT}, /* the private part of a JSON Web Key */
    {"\"d\": \"", "w{40}", KEEP | STRICT},
    /* no beginning, or a short one */
    {"SK", "h{32}", EXACT | MIXED},                        /* Twilio */
    {"00", "w{40}", EXACT | STRICT},                       /* Okta */
    {"EAA", "a{80}", STRICT},                              /* Facebook */
    {"hf_", "a{30}", 0},                                   /* Hugging Face */
    {"y0_", "w{50}", STRICT},                              /* Yandex */
    {"re_", "a{8}'_'a{20}", MIXED},                        /* Resend */
    {"sk_", "h{48}", EXACT},                               /* ElevenLabs */
    {"r8_", "w{36}", MIXED},                               /* Replicate */
    {"md-", "w{22}", EXACT | STRICT},                      /* Mandrill */
    {"oy2", "l{43}", EXACT | MIXED},                       /* NuGet */
    {"cio", "a{32}", EXACT | STRICT},                      /* crates.io */
    {"pk_", "d{6,10}'_'u{32}", 0},                         /* ClickUp */
    {"A3-", "u{6}'-'u{6}'-'u{5}'-'u{5}'-'u{5}'-'u{5}", 0}, /* 1Password */
};

/* Known by what stands just before, which stays. They are asked at the beginning of a long word. */
struct inner_shape {
    char before;        /* the byte just before it */
    const char *behind; /* and what stands before that, as a body */
    struct shape shape;
};

static const struct inner_shape inner_shapes[] = {
    {'.', "'SG.'w{16,32}", {"", "w{32}", MIXED}},    /* SendGrid */
    {'.', "'1000.'h{32}", {"", "h{32}", EXACT}},     /* Zoho */
    {'.', "w{23,28}'.'w{6}", {"", "w{27}", STRICT}}, /* Discord */
    {':', "d{6,12}", {"AA", "w{33}", 0}},            /* Telegram */
    {':', "'bot'd{6,12}", {"AA", "w{33}", 0}},
    {'.', "'pat'a{14}", {"", "h{64}", EXACT}},      /* Airtable */
    {'.', "'s'", {"", "a{24,26}", EXACT | STRICT}}, /* Vault */
    {'.', "'sl'", {"", "w{60}", MIXED}},            /* Dropbox */
    {'.', "'t1'", {"", "w{40}'.'w{60}", 0}},        /* Yandex */
    {'!', "'00D'a{12}", {"", "t{60}", 0}},          /* Salesforce */
    {'!', "'00D'a{15}", {"", "t{60}", 0}},
    {':', "h{24}", {"", "h{64}", EXACT}},        /* Ghost */
    {':', "'1/'d{12,20}", {"", "h{32}", EXACT}}, /* Asana */
};

/* Those without any beginning, known by what stands after so many bytes. */
struct bare_shape {
    size_t at;
    const char *mark;
    struct shape shape;
};

static const struct bare_shape bare_shapes[] = {
    {32, "-us", {"", "h{32}'-us'd{1,2}", EXACT}},    /* Mailchimp */
    {32, "-", {"", "h{32}'-'h{8}'-'h{8}", EXACT}},   /* Mailgun */
    {36, "_mmk", {"", "a{6}'_'a{29}'_mmk'", EXACT}}, /* MaxMind */
    {76, "AZDO", {"", "a{76}'AZDO'a{4}", EXACT}},    /* Azure DevOps */
};

enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    PARTS_MAX = 8,
    SHAPE_MAX_BYTES = 512,
    MIXED_WITHIN_BYTES = 64,
    JWT_HEADER_MIN_BYTES = 8,
    JWT_HEADER_MAX_BYTES = 1024,
    JWT_REST_MIN_BYTES = 8,
};
_Static_assert((int)SHAPES <= (int)REDACT_SHAPES_MAX, "room for every row");

/* ---- the language of bodies ---- */

static bool is_hex(int byte)
{
    return redact_is_digit(byte) || (byte >= 'a' && byte <= 'f');
}

static bool is_any_hex(int byte)
{
    return is_hex(byte) || (byte >= 'A' && byte <= 'F');
}

static bool is_small(int byte)
{
    return redact_is_digit(byte) || redact_is_lower(byte);
}

static bool is_capital(int byte)
{
    return redact_is_digit(byte) || redact_is_upper(byte);
}

typedef bool byte_class(int byte);

static byte_class *class_of(char letter)
{
    switch (letter) {
    case 'd':
        return redact_is_digit;
    case 'h':
        return is_hex;
    case 'x':
        return is_any_hex;
    case 'l':
        return is_small;
    case 'u':
        return is_capital;
    case 'a':
        return redact_is_alnum;
    case 'w':
        return redact_is_word;
    default:
        return redact_is_token;
    }
}

static unsigned read_number(const char **body)
{
    unsigned number = 0;
    for (; redact_is_digit(**body); ++*body)
        number = number * 10 + (unsigned)(**body - '0');
    return number;
}

/* One part of a body: a class with how often, or literal text. */
struct part {
    byte_class *class; /* NULL: literal */
    unsigned min, max;
    const char *literal;
    size_t literal_len;
};

static struct part next_part(const char **body)
{
    struct part part = {0};
    char letter = *(*body)++;
    if (letter == '\'') {
        part.literal = *body;
        part.literal_len = strcspn(*body, "'");
        *body += part.literal_len + 1;
        return part;
    }
    part.class = class_of(letter);
    ++*body; /* the brace */
    part.min = part.max = read_number(body);
    if (**body == ',') {
        ++*body;
        part.max = read_number(body);
    }
    ++*body;
    return part;
}

struct seen {
    bool digit, upper, lower;
};

static void see(struct seen *seen, int byte)
{
    seen->digit = seen->digit || redact_is_digit(byte);
    seen->upper = seen->upper || redact_is_upper(byte);
    seen->lower = seen->lower || redact_is_lower(byte);
}

static enum redact_verdict pass_class(const struct redact_view *view, const struct part *part,
                                      unsigned most, size_t *at, struct seen *seen)
{
    unsigned count = 0;
    int byte = 0;
    while (count < most && part->class(byte = redact_peek(view, *at))) {
        see(seen, byte);
        count++;
        ++*at;
    }
    if (count < most && byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    return count >= part->min ? REDACT_YES : REDACT_NO;
}

static enum redact_verdict pass_literal(const struct redact_view *view, const struct part *part,
                                        size_t *at)
{
    for (size_t i = 0; i < part->literal_len; i++, ++*at) {
        int byte = redact_peek(view, *at);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (byte != (unsigned char)part->literal[i])
            return REDACT_NO;
    }
    return REDACT_YES;
}

static bool is_mixed_enough(unsigned flags, const struct seen *seen)
{
    bool letter = seen->upper || seen->lower;
    if (flags & STRICT)
        return seen->digit && seen->upper && seen->lower;
    return !(flags & MIXED) || (seen->digit && letter);
}

/* What goes on after the part of a token that was looked at. */
static enum redact_run run_of(byte_class *class)
{
    return class == redact_is_token ? REDACT_RUN_TOKEN : REDACT_RUN_WORD;
}

/* How much of a part is looked at. w{16}'.' takes 22 and a dot, too; of the last part its least is
 * enough, or as much as may show that it is mixed. */
static unsigned most_of(const struct shape *shape, const struct part *part, bool last)
{
    if (shape->flags & EXACT || part->max > part->min)
        return part->max;
    if (!last)
        return SHAPE_MAX_BYTES;
    bool must_mix = shape->flags & (MIXED | STRICT) && part->min < MIXED_WITHIN_BYTES;
    return must_mix ? MIXED_WITHIN_BYTES : part->min;
}

/* The body of a row, from *at on. */
static enum redact_verdict match_body(const struct shape *shape, const struct redact_view *view,
                                      size_t *at, enum redact_run *ret_run)
{
    const char *body = shape->body;
    struct seen seen = {0};
    byte_class *class = NULL;
    enum redact_verdict verdict = REDACT_YES;
    while (*body && verdict == REDACT_YES) {
        struct part part = next_part(&body);
        unsigned most = most_of(shape, &part, *body == '\0');
        verdict =
            part.class ? pass_class(view, &part, most, at, &seen) : pass_literal(view, &part, at);
        class = part.class ? part.class : class;
    }
    if (verdict != REDACT_YES)
        return verdict;
    *ret_run = run_of(class);
    if (shape->flags & EXACT) {
        int next = redact_peek(view, *at);
        if (next == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (redact_is_word(next))
            return REDACT_NO;
        *ret_run = REDACT_RUN_NONE;
    }
    return is_mixed_enough(shape->flags, &seen) ? REDACT_YES : REDACT_NO;
}

/* The shape at the place, whose prefix is there. */
static enum redact_verdict find_shape(const struct shape *shape, const struct redact_view *view,
                                      struct redact_find *ret_find)
{
    size_t prefix_len = strlen(shape->prefix);
    size_t at = prefix_len;
    enum redact_run run = REDACT_RUN_NONE;
    enum redact_verdict verdict = match_body(shape, view, &at, &run);
    *ret_find =
        (struct redact_find){.from = shape->flags & KEEP ? prefix_len : 0, .to = at, .run = run};
    return verdict;
}

static enum redact_verdict match_shape(const struct redactor *redactor,
                                       const struct redact_pattern *pattern,
                                       const struct redact_view *view, struct redact_find *ret_find)
{
    const struct shape *shape = &shapes[pattern->option];
    (void)redactor;
    if (!(shape->flags & INNER) && redact_is_joined(view, 1))
        return REDACT_NO;
    enum redact_verdict verdict = redact_bytes_at(view, 0, shape->prefix);
    return verdict == REDACT_YES ? find_shape(shape, view, ret_find) : verdict;
}

/* ---- long words ---- */

/* Bytes of the class before the place, from the distance on: as many as there are, up to max. */
static bool pass_class_back(const struct redact_view *view, const struct part *part,
                            size_t *distance)
{
    unsigned count = 0;
    while (count < part->max && part->class(redact_back(view, *distance + 1))) {
        count++;
        ++*distance;
    }
    return count >= part->min;
}

static bool pass_literal_back(const struct redact_view *view, const struct part *part,
                              size_t *distance)
{
    for (size_t i = part->literal_len; i > 0; i--, ++*distance)
        if (redact_back(view, *distance + 1) != (unsigned char)part->literal[i - 1])
            return false;
    return true;
}

/* What must stand before the place does, and no letter or digit before that. */
static bool is_preceded(const struct inner_shape *inner, const struct redact_view *view)
{
    struct part parts[PARTS_MAX];
    size_t count = 0, distance = 1;
    for (const char *behind = inner->behind; *behind && count < PARTS_MAX;)
        parts[count++] = next_part(&behind);
    while (count > 0) {
        const struct part *part = &parts[--count];
        if (!(part->class ? pass_class_back(view, part, &distance)
                          : pass_literal_back(view, part, &distance)))
            return false;
    }
    return !redact_is_joined(view, distance + 1);
}

/* The least that a row is long, as far as it is part of one word. */
static size_t word_bytes_of(const struct shape *shape)
{
    const char *body = shape->body;
    size_t bytes = 0;
    for (const char *at = shape->prefix; *at; at++, bytes++)
        if (!redact_is_word((unsigned char)*at))
            return 0;
    while (*body) {
        struct part part = next_part(&body);
        if (part.class == redact_is_token ||
            (part.literal && part.literal[0] != '-' && part.literal[0] != '_'))
            break;
        bytes += part.class ? part.min : part.literal_len;
    }
    return bytes;
}

/* Whether it is found because a long word begins. */
static bool is_of_words(const struct shape *shape)
{
    return word_bytes_of(shape) >= REDACT_LONG_WORD_BYTES;
}

/* What was found in a word so far. */
struct word_finds {
    struct redact_find *items;
    size_t count;
    bool decided;
};

static void ask_row(const struct shape *shape, const struct redact_view *word,
                    struct word_finds *finds)
{
    struct redact_find find = {0};
    enum redact_verdict verdict = redact_bytes_at(word, 0, shape->prefix);
    if (verdict == REDACT_YES)
        verdict = find_shape(shape, word, &find);
    if (verdict == REDACT_MORE)
        finds->decided = false;
    if (verdict == REDACT_YES && finds->count < REDACT_WORD_FINDS)
        finds->items[finds->count++] = find;
}

static unsigned word_group(unsigned char first, unsigned char second)
{
    return (first * 67u + second) % REDACT_WORD_GROUPS;
}

/* Whether the mark of a row without a beginning is there, or is still to come. */
static bool has_mark(const struct bare_shape *bare, const unsigned char *text, size_t len)
{
    return len <= bare->at || text[bare->at] == (unsigned char)bare->mark[0];
}

static bool may_be_bare(const unsigned char *text, size_t len)
{
    for (size_t i = 0; i < sizeof bare_shapes / sizeof *bare_shapes; i++)
        if (has_mark(&bare_shapes[i], text, len))
            return true;
    return false;
}

bool redact_may_be_token(const struct redactor *set, const unsigned char *text, size_t len,
                         int before)
{
    return len < 2 || redact_in_filter(set->word_groups, word_group(text[0], text[1])) ||
           before == '.' || before == ':' || before == '!' || may_be_bare(text, len);
}

size_t redact_ask_word(const struct redactor *set, const struct redact_view *word,
                       struct redact_find items[REDACT_WORD_FINDS], bool *ret_decided)
{
    struct word_finds finds = {.items = items, .decided = true};
    int before = redact_back(word, 1);
    if (word->len < 2) {
        *ret_decided = word->at_end;
        return 0;
    }
    uint16_t row = set->word_rows[word_group(word->text[0], word->text[1])];
    for (; row != 0; row = set->word_next[row - 1])
        ask_row(&shapes[row - 1], word, &finds);
    for (size_t i = 0; i < sizeof inner_shapes / sizeof *inner_shapes; i++)
        if (inner_shapes[i].before == before && is_preceded(&inner_shapes[i], word))
            ask_row(&inner_shapes[i].shape, word, &finds);
    for (size_t i = 0; i < sizeof bare_shapes / sizeof *bare_shapes; i++)
        if (has_mark(&bare_shapes[i], word->text, word->len))
            ask_row(&bare_shapes[i].shape, word, &finds);
    *ret_decided = finds.decided;
    return finds.count;
}

static void add_to_words(struct redactor *set, uint16_t row)
{
    const char *prefix = shapes[row].prefix;
    unsigned group = word_group((unsigned char)prefix[0], (unsigned char)prefix[1]);
    uint16_t *list = &set->word_rows[group];
    set->word_groups[group >> 6] |= UINT64_C(1) << (group & 63);
    set->word_next[row] = *list;
    *list = row + 1;
}

/* ---- JSON Web Tokens ---- */

/* The first member of the header, in base64: {"alg, {"typ, {"kid, {"enc, {"zip, {"cty, {"jku,
 * {"x5t,
 * {"crit, {"ver. */
static const char *const jwt_beginnings[] = {
    "eyJhbG", "eyJ0eX", "eyJraW", "eyJlbm", "eyJ6aX",
    "eyJjdH", "eyJqa3", "eyJ4NX", "eyJjcm", "eyJ2ZX",
};

/* A header, a dot, and more. */
static enum redact_verdict match_jwt(const struct redactor *redactor,
                                     const struct redact_pattern *pattern,
                                     const struct redact_view *view, struct redact_find *ret_find)
{
    (void)redactor;
    if (redact_is_joined(view, 1))
        return REDACT_NO;
    enum redact_verdict verdict = redact_bytes_at(view, 0, pattern->text);
    if (verdict != REDACT_YES)
        return verdict;
    size_t at = pattern->len;
    int byte;
    while (redact_is_word(byte = redact_peek(view, at)) && at <= JWT_HEADER_MAX_BYTES)
        at++;
    if (byte == REDACT_PEEK_MORE)
        return REDACT_MORE;
    if (byte != '.' || at < JWT_HEADER_MIN_BYTES)
        return REDACT_NO;
    for (size_t end = at + 1 + JWT_REST_MIN_BYTES; at < end; at++) {
        byte = redact_peek(view, at);
        if (byte == REDACT_PEEK_MORE)
            return REDACT_MORE;
        if (!redact_is_word(byte) && byte != '.')
            return REDACT_NO;
    }
    *ret_find = (struct redact_find){.run = REDACT_RUN_TOKEN};
    return REDACT_YES;
}

/* ---- making ---- */

static bool is_no_alnum(int byte)
{
    return !redact_is_alnum(byte);
}

void redact_add_shapes(struct redactor *set)
{
    for (uint16_t i = 0; i < SHAPES; i++) {
        const char *body = shapes[i].body;
        if (is_of_words(&shapes[i])) {
            add_to_words(set, i);
            continue;
        }
        const struct redact_neighbours neighbours = {
            .before = strlen(shapes[i].prefix) == REDACT_GRAM_BYTES || shapes[i].flags & INNER
                          ? NULL
                          : is_no_alnum,
            .after = next_part(&body).class,
        };
        const struct redact_pattern pattern = {.matcher = match_shape,
                                               .text = shapes[i].prefix,
                                               .len = (uint32_t)strlen(shapes[i].prefix),
                                               .option = i};
        redact_set_add(set, pattern, &neighbours);
    }
    for (size_t i = 0; i < sizeof jwt_beginnings / sizeof *jwt_beginnings; i++)
        redact_set_add(set,
                       (struct redact_pattern){.matcher = match_jwt,
                                               .text = jwt_beginnings[i],
                                               .len = (uint32_t)strlen(jwt_beginnings[i])},
                       NULL);
}
