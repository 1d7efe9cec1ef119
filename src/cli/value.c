/* Values of options: text from the command line into the type its row asks for. See parse.h. */
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/parse.h"
#include "cli/redacted.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int bad_value(struct cli *cli, const struct option *option, const char *sentence)
{
    return cli_fail(cli, TEND_EINVAL, "%s%s--%s: %s", cli->path, path_colon(cli), option->name,
                    sentence);
}

static int store_int(struct cli *cli, const struct option *option, const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    bool whole = end != value && *end == '\0' && !isspace((unsigned char)*value);
    if (!whole || errno || number < option->min || number > option->max) {
        struct err err;
        err_set(&err, TEND_EINVAL, "\"%s\" is not a whole number from %" PRId64 " to %" PRId64,
                value, option->min, option->max);
        return bad_value(cli, option, err.text);
    }
    *(int64_t *)option->target = number;
    return EXIT_DONE;
}

/* Walks words with a separator between; NULL at the end. */
static const char *next_word(const char *words, char separator, size_t *ret_len)
{
    if (!words || !*words)
        return NULL;
    const char *end = strchrnul(words, separator);
    *ret_len = (size_t)(end - words);
    return words;
}

static const char *skip_word(const char *word, size_t len)
{
    return word[len] ? word + len + 1 : word + len;
}

static int store_choice(struct cli *cli, const struct option *option, const char *value)
{
    size_t len;
    for (const char *word = option->choices; (word = next_word(word, '|', &len));
         word = skip_word(word, len)) {
        if (strlen(value) == len && memcmp(word, value, len) == 0) {
            *(const char **)option->target = value;
            return EXIT_DONE;
        }
    }
    struct err err;
    err_set(&err, TEND_EINVAL, "\"%s\" is not one of %s", value, option->choices);
    return bad_value(cli, option, err.text);
}

static int bad_state(struct cli *cli, const struct option *option, const char *name)
{
    struct suggestion near;
    suggestion_init(&near, name);
    struct buf all;
    buf_init(&all);
    for (int state = 0; state < TEND_STATE_COUNT; state++) {
        suggestion_offer(&near, tend_state_name(state));
        buf_printf(&all, "%s%s", state ? ", " : "", tend_state_name(state));
    }
    struct err err;
    if (near.best)
        err_set(&err, TEND_EINVAL, "\"%s\" is not a state; did you mean %s?", name, near.best);
    else
        err_set(&err, TEND_EINVAL, "\"%s\" is not a state; there are %s", name, all.data);
    buf_done(&all);
    return bad_value(cli, option, err.text);
}

/* "pending,held": also several --state options add up. */
static int store_states(struct cli *cli, const struct option *option, const char *value)
{
    size_t len;
    unsigned states = 0;
    for (const char *word = value; (word = next_word(word, ',', &len));
         word = skip_word(word, len)) {
        char name[32] = "";
        if (len < sizeof name)
            memcpy(name, word, len);
        int state = tend_state_parse(name);
        if (state < 0)
            return bad_state(cli, option, *name ? name : value);
        states |= 1u << state;
    }
    if (states == 0)
        return bad_state(cli, option, value);
    *(unsigned *)option->target |= states;
    return EXIT_DONE;
}

static int store_list(struct cli *cli, const struct option *option, const char *value)
{
    struct text_list *list = option->target;
    const char **items = reallocarray(list->items, list->count + 1, sizeof *items);
    if (!items)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    list->items = items;
    list->items[list->count++] = value;
    return EXIT_DONE;
}

static int check_document(struct cli *cli, const struct option *option, const char *source,
                          const struct buf *text)
{
    struct json_fault fault;
    if (json_check(text->data, text->len, &fault) == 0)
        return EXIT_DONE;
    return cli_fail(cli, TEND_EINVAL, "%s: --%s: %s is not JSON: line %zu, column %zu: %s",
                    cli->path, option->name, source, fault.line, fault.column, fault.reason);
}

static int store_document(struct cli *cli, const struct option *option, const char *value)
{
    struct buf text;
    buf_init(&text);
    struct err err;
    const char *source = "the value";
    int code = 0;
    if (strcmp(value, "-") == 0) {
        source = "standard input";
        code = input_read("-", &text, &err);
    } else if (strcmp(value, "@") == 0) {
        code = err_set(&err, TEND_EINVAL, "a file name is missing after @");
    } else if (value[0] == '@') {
        source = value + 1;
        code = input_read(value + 1, &text, &err);
    } else {
        buf_puts(&text, value);
    }
    int status = code < 0 ? cli_fail_as(cli, EXIT_USAGE, code, "%s: --%s: %s", cli->path,
                                        option->name, err.text)
                          : check_document(cli, option, source, &text);
    size_t bytes = text.len;
    char *taken = status == EXIT_DONE ? buf_take(&text) : NULL;
    buf_done(&text);
    if (status != EXIT_DONE)
        return status;
    if (!taken)
        return cli_fail(cli, TEND_ENOMEM, "out of memory");
    struct document *document = option->target;
    free(document->text);
    *document =
        (struct document){.text = taken, .bytes = bytes, .from_stdin = strcmp(value, "-") == 0};
    return option->redacted ? redacted_document(cli, option->name, document) : EXIT_DONE;
}

/* A number without its unit is taken too, so that it is refused with the reason. */
bool option_wait_takes(const char *word)
{
    int64_t ms;
    return word && isdigit((unsigned char)*word) &&
           (duration_parse(word, &ms, NULL) == 0 || word[strspn(word, "0123456789")] == '\0');
}

int option_store(struct cli *cli, const struct option *option, const char *value)
{
    struct err err;
    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)option->target = true;
        return EXIT_DONE;
    case OPTION_TEXT:
        if (option->redacted)
            return redacted_text(cli, option->name, value, option->target);
        *(const char **)option->target = value;
        return EXIT_DONE;
    case OPTION_LIST:
        return store_list(cli, option, value);
    case OPTION_CHOICE:
        return store_choice(cli, option, value);
    case OPTION_STATES:
        return store_states(cli, option, value);
    case OPTION_INT:
        return store_int(cli, option, value);
    case OPTION_WAIT:
        if (!value) {
            *(int64_t *)option->target = -1;
            return EXIT_DONE;
        }
        __attribute__((fallthrough));
    case OPTION_DURATION:
        if (duration_parse(value, option->target, &err) < 0)
            return bad_value(cli, option, err.text);
        return EXIT_DONE;
    case OPTION_TIME:
        if (time_parse(value, clock_wall_ms(), option->target, &err) < 0)
            return bad_value(cli, option, err.text);
        return EXIT_DONE;
    case OPTION_JSON:
        return store_document(cli, option, value);
    }
    return EXIT_USAGE;
}
