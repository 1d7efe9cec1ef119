/* base/err: code and sentence. */
#include "base/err.h"
#include "base/text.h"
#include "unit/case.h"

#include <errno.h>
#include <string.h>

TEST(err, sets_code_and_sentence_and_returns_the_code)
{
    struct err err;
    err_clear(&err);
    check_int(err.code, ==, 0);
    check_str(err.text, "");
    check_int(err_set(&err, -7, "job %d is %s", 5, "gone"), ==, -7);
    check_int(err.code, ==, -7);
    check_str(err.text, "job 5 is gone");
}

TEST(err, without_a_place_for_it_only_the_code_is_returned)
{
    check_int(err_set(NULL, -3, "nobody reads %s", "this"), ==, -3);
}

TEST(err, knows_what_a_process_or_machine_lacks)
{
    check_contains(err_lack(EMFILE), "ulimit -n");
    check_contains(err_lack(ENFILE), "fs.file-max");
    check_contains(err_lack(ENOMEM), "memory");
    check(err_lack(0) == NULL);
    check(err_lack(EACCES) == NULL);
    check(err_lack(EIO) == NULL);
}

TEST(err, a_sentence_can_be_wrapped_into_a_longer_one)
{
    struct err err;
    err_set(&err, -1, "disk full");
    err_set(&err, -2, "cannot add: %s", err.text);
    check_str(err.text, "cannot add: disk full");
}

TEST(err, long_sentences_end_in_an_ellipsis_and_stay_utf8)
{
    char text[2000];
    /* Shifted by one byte each round, so that the cut falls on every byte of a character. */
    for (size_t shift = 0; shift < 8; shift++) {
        memset(text, 'x', shift);
        for (size_t at = shift; at + 4 < sizeof text; at += 4)
            memcpy(text + at, "\xF0\x9F\x98\x80", 5);
        struct err err;
        err_set(&err, -1, "%s", text);
        size_t len = strlen(err.text);
        check_int(len, <, sizeof err.text);
        check_int(len, >=, sizeof err.text - 5);
        check(utf8_valid(err.text, len));
        check_str(err.text + len - 3, "\xE2\x80\xA6");
    }
}

TEST(err, a_sentence_that_just_fits_is_not_cut)
{
    struct err err;
    char text[sizeof err.text + 1];
    memset(text, 'x', sizeof text);
    text[sizeof err.text - 1] = '\0';
    err_set(&err, -1, "%s", text);
    check_str(err.text, text);
    text[sizeof err.text - 1] = 'x';
    text[sizeof err.text] = '\0';
    err_set(&err, -1, "%s", text);
    check_int(strlen(err.text), ==, sizeof err.text - 1);
    check_str(err.text + sizeof err.text - 4, "\xE2\x80\xA6");
}
