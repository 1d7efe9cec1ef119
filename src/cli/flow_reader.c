/* See flow_reader.h. */
#include "cli/flow_reader.h"

#include "base/err.h"
#include "base/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

enum { LINE_SHOWN_BYTES = 100, SENTENCE_BYTES = 400, PATH_BYTES = 256 };

/* The line of the text, without the blanks around it. */
static void find_line(const char *text, size_t number, const char **ret_line, int *ret_bytes)
{
    for (size_t line = 1; line < number; line++) {
        const char *end = strchr(text, '\n');
        if (!end)
            break;
        text = end + 1;
    }
    text += strspn(text, " \t");
    size_t bytes = strcspn(text, "\r\n");
    *ret_line = text;
    *ret_bytes = (int)(bytes < LINE_SHOWN_BYTES ? bytes : LINE_SHOWN_BYTES);
}

int flow_fault_at(struct flow_reader *reader, int code, struct yaml_place place,
                  const char *sentence)
{
    const char *line;
    int bytes;
    if (place.line == 0)
        return err_set(reader->err, code, "%s: %s", reader->name, sentence);
    find_line(reader->text, place.line, &line, &bytes);
    return err_set(reader->err, code, "%s, line %zu, column %zu (%.*s): %s", reader->name,
                   place.line, place.column, bytes, line, sentence);
}

int flow_fault(struct flow_reader *reader, const char *path, const char *format, ...)
{
    char said[SENTENCE_BYTES];
    char sentence[SENTENCE_BYTES + PATH_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    snprintf(sentence, sizeof sentence, "%.120s%s%s", path, *path ? ": " : "", said);
    return flow_fault_at(reader, TEND_EINVAL, yaml_doc_find(reader->yaml, path), sentence);
}

int flow_plan_fault(struct flow_reader *reader, const char *base, const char *sentence)
{
    char path[PATH_BYTES];
    const char *colon = strstr(sentence, ": ");
    size_t len = colon ? (size_t)(colon - sentence) : 0;
    /* A sentence about the whole has no path, but may have a colon. */
    if (memchr(sentence, ' ', len))
        len = 0;
    snprintf(path, sizeof path, "%s%s%.*s", base, len ? "." : "", (int)len, sentence);
    return flow_fault_at(reader, TEND_EINVAL, yaml_doc_find(reader->yaml, path), sentence);
}

int flow_unknown(struct flow_reader *reader, const char *path, const char *name,
                 const char *const *names)
{
    char text[SUGGESTION_TEXT_BYTES];
    return flow_fault(reader, path, "there is no such member; %s",
                      suggestion_text(name, names, text));
}

bool flow_is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}
