/* See err.h. */
#include "base/err.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char ellipsis[] = "\xE2\x80\xA6";

void err_clear(struct err *err)
{
    err->code = 0;
    err->text[0] = '\0';
}

int err_vset(struct err *err, int code, const char *format, va_list args)
{
    if (!err)
        return code;
    /* Formatted aside: the arguments may be the old text. */
    char text[sizeof err->text];
    int len = vsnprintf(text, sizeof text, format, args);
    if (len < 0)
        text[0] = '\0';
    if (len >= (int)sizeof text) {
        size_t keep = utf8_floor(text, sizeof text - 1, sizeof text - sizeof ellipsis);
        memcpy(text + keep, ellipsis, sizeof ellipsis);
    }
    err->code = code;
    memcpy(err->text, text, sizeof text);
    return code;
}

int err_set(struct err *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err_vset(err, code, format, args);
    va_end(args);
    return code;
}

const char *err_lack(int problem)
{
    switch (problem) {
    case EMFILE:
        return "raise the limit of open files of this process (ulimit -n)";
    case ENFILE:
        return "raise the limit of open files of this machine (fs.file-max)";
    case ENOMEM:
        return "free some memory";
    default:
        return NULL;
    }
}
