/* See signature_word.h. */
#include "core/signature_word.h"

#include <string.h>

enum {
    HEX_ID_BYTES = 6,      /* shorter runs of hexadecimal digits may be words */
    HEX_WORD_BYTES = 8,    /* ... also without a digit */
    RANDOM_ID_BYTES = 16,  /* letters and digits mixed: nobody types such names */
    NONCE_BYTES = 8,       /* of letters alone; shorter ones cannot be told from names */
    LONG_NONCE_BYTES = 10, /* where less is asked */
    FOLDER_PART_BYTES = 6, /* ... also after the dash of a folder's name, where chance is usual */
    POD_SUFFIX_BYTES = 5,  /* of a pod */
    POD_HASH_BYTES = 8,    /* of its template: up to POD_HASH_MOST */
    POD_HASH_MOST = 10,
};

enum letter_kind { LOWER, UPPER, DIGIT };

static enum letter_kind kind_of(char byte)
{
    return byte >= '0' && byte <= '9' ? DIGIT : byte >= 'A' && byte <= 'Z' ? UPPER : LOWER;
}

/* What a word is made of. */
struct makeup {
    size_t hexes, digits;
    size_t switches; /* between small letters, capitals and digits */
    size_t borders;  /* between letters and digits */
};

static struct makeup makeup_of(const char *word, size_t len)
{
    struct makeup made = {0};
    for (size_t i = 0; i < len; i++) {
        made.digits += kind_of(word[i]) == DIGIT;
        made.hexes += strchr("0123456789abcdefABCDEF", word[i]) != NULL;
        made.switches += i > 0 && kind_of(word[i]) != kind_of(word[i - 1]);
        made.borders += i > 0 && (kind_of(word[i]) == DIGIT) != (kind_of(word[i - 1]) == DIGIT);
    }
    return made;
}

/*
 * How strange it is that one letter follows another in English and in the names of programs: 0
 * (th, in) to 9 (never). Rows are the first letter, columns the second. Counted over manuals,
 * headers and sources; each step is about a factor of 2.5.
 */
static const char strangeness[26][27] = {
    "42224435353121526121334545", /* a */
    "34443446356245347335366556", /* b */
    "24342462362345146342356656", /* c */
    "23431455265445356334355658", /* d */
    "23213334364221434112434235", /* e */
    "35443367287356357344476759", /* f */
    "35452544377444357334466766", /* g */
    "26552677386555369454475957", /* h */
    "32222326564220236322536463", /* i */
    "47664778577766468767587989", /* j */
    "35652655386555458545576868", /* k */
    "25431456175255248533356736", /* l */
    "24542567275445328535367658", /* m */
    "25222315264453246521345645", /* n */
    "43234435454221338123233555", /* o */
    "26442554385355237233465647", /* p */
    "88877889699687889777389999", /* q */
    "14331435174333246322345636", /* r */
    "35241542264344335421254635", /* s */
    "25341452165345248223355535", /* t */
    "43443446375332539222667575", /* u */
    "36562667397656469556776778", /* v */
    "36553665396564468446687888", /* w */
    "57464576497657648654677567", /* x */
    "46565667597544539545576776", /* y */
    "46773776488667579767698966", /* z */
};

static size_t letter_index(char byte)
{
    return (size_t)(kind_of(byte) == UPPER ? byte - 'A' : byte - 'a');
}

/* Whether the mean strangeness, times ten, is so high. */
static bool is_strange(const char *word, size_t len, size_t tenths)
{
    size_t strange = 0;
    for (size_t i = 1; i < len; i++)
        strange += (size_t)(strangeness[letter_index(word[i - 1])][letter_index(word[i])] - '0');
    return strange * 10 >= (len - 1) * tenths;
}

/* Of random letters this finds nine in ten; of the names of functions it takes one in a hundred. */
static bool is_nonce_of_letters(const char *word, size_t len)
{
    return len >= NONCE_BYTES && is_strange(word, len, len >= LONG_NONCE_BYTES ? 35 : 38);
}

bool word_is_folder_part(const char *word, size_t len)
{
    static const char small[] = "abcdefghijklmnopqrstuvwxyz";
    return len >= FOLDER_PART_BYTES && strspn(word, small) >= len && is_strange(word, len, 40);
}

bool word_is_generated(const char *word, size_t len)
{
    struct makeup made = makeup_of(word, len);
    if (made.hexes == len && (len >= HEX_WORD_BYTES || (len >= HEX_ID_BYTES && made.digits > 0)))
        return true;
    if (len >= RANDOM_ID_BYTES && made.digits >= 2)
        return true;
    /* Xk29dQ, kd83jf02; not getX509Cert, log4j2, GitHub. */
    if (made.digits > 0)
        return (made.switches >= 4 && made.switches * 2 >= len) ||
               (made.borders >= 3 && made.digits >= 3 && len >= NONCE_BYTES);
    return (made.switches >= 4 && made.switches * 2 > len) || is_nonce_of_letters(word, len);
}

bool word_is_pod_part(const char *word, size_t len)
{
    bool fits = len == POD_SUFFIX_BYTES || (len >= POD_HASH_BYTES && len <= POD_HASH_MOST);
    return fits && strspn(word, "bcdfghjklmnpqrstvwxz0123456789") >= len;
}

bool word_is_error_code(const char *word, size_t len)
{
    size_t letters = 0;
    while (letters < len && kind_of(word[letters]) == UPPER)
        letters++;
    size_t digits = len - letters;
    for (size_t i = letters; i < len; i++)
        if (kind_of(word[i]) != DIGIT)
            return false;
    return letters >= 1 && letters <= 3 && digits >= 3 && digits <= 5;
}
