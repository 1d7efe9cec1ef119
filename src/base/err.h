/*
 * An error as it travels up: a code for the program, a sentence for the person.
 *
 * Not a log: whoever handles the error decides whether anybody sees it. Invariants: text is
 * always NUL-terminated and never ends in the middle of a UTF-8 sequence.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

struct err {
    int code; /* negative TEND_E… code, 0 when nothing went wrong */
    char text[512];
};

void err_clear(struct err *err);

/*
 * Sets code and sentence and returns the code, so that callers write `return err_set(…)`.
 * err may be NULL when the caller wants the code alone. The format's arguments may point into
 * err->text, so that a sentence can be wrapped into a longer one.
 */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int err_vset(struct err *err, int code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/*
 * What to do when a call has failed with this errno because this process or machine has no
 * descriptors or memory left; NULL: it failed for another reason. It says nothing about what the
 * call was made on. The code of such a failure is TEND_ENOMEM.
 */
const char *err_lack(int problem);

#endif
