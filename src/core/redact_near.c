/*
 * Inside core/redact: the filter that nearly all text is passed by with, a bit for each hash of
 * four bytes.
 *
 * It must be small to be quick, so that one text in a hundred meets a bit by chance. Where that is
 * a text that logs are full of, such as an indented line, everything becomes half as fast. So the
 * hash is chosen when the filter is made: one by which the commonest texts meet nothing.
 */
#include "core/redact_set.h"

static const uint32_t factors[] = {
    0x9E3779B1u, 0x6F24753Bu, 0x888EEDCFu, 0xCD9C4009u, 0xB2A2DE59u, 0x85EBCA6Bu, 0xC2B2AE35u,
    0x27D4EB2Fu, 0x165667B1u, 0xD3A2646Du, 0xFD7046C5u, 0xB55A4F09u, 0xA66E233Bu, 0x5BCE3617u,
};

static const char *const common[] = {
    "    ", "\n   ", "\n\n  ", ";\n  ", "\n * ", "----", "====", "****", "....", "0000", "####",
    "++++", " the",  "the ",   "and ",  " and",  "ing ", "tion", "ion ", " of ", " to ", " in ",
    "for ", " for",  " is ",   "test",  "retu",  "etur", "turn", "incl", "nclu", "clud", "lude",
    "cons", "onst",  "stat",   "self",  "name",  "type", "file", "src/", "/src", "/usr", "usr/",
    "/lib", "lib/",  "/bin",   "home",  "/tmp",  "http", "ttps", "com/", "linu", "inux", "-lin",
    "nux-", "x86_",  "86_6",   "6_64",  "_64-",  "-gnu", ".so.", ".c.o", "erro", "rror", "warn",
    "arni", "info",  " 0x0",   "-rw-",  "rw-r",  "w-r-", "-r--", "r--r", "root", "oot ", "node",
    "ode_", "modu",  "odul",   "dule",  "pack",  "acka", "ckag", "vers", "ersi", "rsio", "sion",
    "buil", "uild",  "comp",   "ompi",  "mpil",  "sing", "from", " fro", "lib.", "ject", "obje",
    "bjec", "unit",  "able",   "ment",  "ated",  "this", "that", "with", " wit",
};

void redact_near_add(struct redactor *set, const unsigned char *bytes)
{
    uint32_t gram = redact_gram(bytes);
    buf_append(&set->near_grams, &gram, sizeof gram);
}

static void fill(struct redactor *set, uint32_t factor)
{
    memset(set->near, 0, sizeof set->near);
    set->near_factor = factor;
    for (size_t at = 0; at < set->near_grams.len; at += sizeof(uint32_t)) {
        uint32_t gram;
        memcpy(&gram, set->near_grams.data + at, sizeof gram);
        uint32_t slot = (gram * factor) >> REDACT_NEAR_SHIFT;
        set->near[slot >> 6] |= UINT64_C(1) << (slot & 63);
    }
}

static size_t met_by_common(const struct redactor *set)
{
    size_t met = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        met += redact_is_near(set->near, set->near_factor, redact_gram(common[i]));
    return met;
}

void redact_near_finish(struct redactor *set)
{
    enum { FACTORS = sizeof factors / sizeof *factors };
    size_t best = 0, least = SIZE_MAX;
    set->failed = set->failed || set->near_grams.failed;
    for (size_t i = 0; i < FACTORS && least > 0; i++) {
        fill(set, factors[i]);
        size_t met = met_by_common(set);
        if (met < least) {
            least = met;
            best = i;
        }
    }
    fill(set, factors[best]);
    buf_done(&set->near_grams);
}
