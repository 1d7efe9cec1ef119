/* What an output repeats of the retry context is no evidence: SH-3. */
#include "core/quoted.h"
#include "unit/case.h"

#include <stdio.h>
#include <string.h>

static const char context[] = "{\n"
                              "  \"step\": {\n"
                              "    \"id\": \"build\"\n"
                              "  },\n"
                              "  \"failure\": {\n"
                              "    \"summary\": \"exit 1: ERROR: no widget\",\n"
                              "    \"line\": \"ERROR: no widget\"\n"
                              "  },\n"
                              "  \"changed_files\": [\n"
                              "    \"src/a.c\"\n"
                              "  ]\n"
                              "}\n";

static void check_left(const char *output, const char *left)
{
    struct buf out;
    buf_init(&out);
    quoted_drop(output, strlen(output), context, &out);
    check_str(out.data, left);
    buf_done(&out);
}

/* The context as tr and jq -c print it, with a blank for each newline, or none. */
static const char *in_one_line(char *out, char between)
{
    size_t len = 0;
    for (const char *at = context; *at; at++)
        if (*at != '\n' && (between || *at != ' '))
            out[len++] = *at;
        else if (*at == '\n' && between)
            out[len++] = between;
    out[len] = '\0';
    return out;
}

TEST(quoted, the_context_is_dropped_however_it_is_printed)
{
    char line[sizeof context];
    char output[2 * sizeof context];
    check_left(context, "");
    check_left("> {\n>   \"step\": {\n>     \"id\": \"build\"\n>   },\n> }\n", "");
    check_left("12:01 agent[7]: \"summary\": \"exit 1: ERROR: no widget\",\n", "");
    check_left("\t\"id\":\"build\"\r\n", "\n");
    snprintf(output, sizeof output, "told: %s\nERROR: no widget\n", in_one_line(line, ' '));
    check_left(output, "ERROR: no widget\n");
    snprintf(output, sizeof output, "%sERROR: no widget\n", in_one_line(line, '\0'));
    check_left(output, "ERROR: no widget\n");
}

TEST(quoted, what_only_has_words_in_common_with_the_context_stays)
{
    static const char *const own[] = {
        "ERROR: no widget\n",
        "exit 1: ERROR: no widget\n",
        "error: cannot open \"src/a.c\"\n",
        "error: unexpected }\n",
        "\n",
        "no end of line",
    };
    for (size_t i = 0; i < CASES(own); i++)
        check_left(own[i], own[i]);
    check_left("", "");
}
