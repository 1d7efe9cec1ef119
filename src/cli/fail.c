/* How commands fail: exit statuses and sentences. See cli.h. */
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int exit_status_of(int code)
{
    switch (code) {
    case TEND_OK:
        return EXIT_DONE;
    case TEND_EINVAL:
    case TEND_ENOTADB: /* the URL names something that is no store */
        return EXIT_USAGE;
    case TEND_ENOTFOUND:
        return EXIT_NOT_FOUND;
    case TEND_ECONFLICT:
    case TEND_ESTATE:
    case TEND_ELEASELOST:
        return EXIT_REFUSED;
    case TEND_EEMPTY:
    case TEND_EPAUSED:
    case TEND_ELIMITED:
        return EXIT_NOTHING;
    case TEND_EUNREACHABLE:
    case TEND_EFULL: /* nothing was written, and nothing is wrong with what was asked */
    case TEND_EBUSY: /* of the store; for a held lock or a busy queue the command says its own */
        return EXIT_UNREACHABLE;
    case TEND_EINTERRUPTED:
        return signals_exit_status();
    default:
        return EXIT_FAILED;
    }
}

const char *error_name(int code)
{
    switch (code) {
#define X(name, value, text)                                                                       \
    case TEND_##name:                                                                              \
        return #name;
        TEND_ERRORS(X)
#undef X
    default:
        return "E?";
    }
}

/* Standard error is not buffered: what failed is seen even when the program ends right after. */
void cli_write_error(const struct buf *text)
{
    size_t done = 0;
    while (done < text->len) {
        ssize_t written = write(STDERR_FILENO, text->data + done, text->len - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        done += (size_t)written;
    }
}

static void report(struct cli *cli, int status, int code, const char *members, const char *sentence)
{
    struct buf line;
    buf_init(&line);
    if (cli->json) {
        json_open(&line, NULL, '{');
        json_open(&line, "error", '{');
        json_text(&line, "code", error_name(code));
        json_text(&line, "message", sentence);
        json_int(&line, "exit", status);
        if (members && *members)
            buf_printf(&line, ",%s", members);
        json_close(&line, '}');
        json_close(&line, '}');
    } else {
        buf_puts(&line, "tend: ");
        put_clean(&line, sentence);
    }
    buf_putc(&line, '\n');
    /* First what came before, so that a terminal shows both in order. */
    cli_flush(cli);
    cli_write_error(&line);
    buf_done(&line);
}

static int fail_with(struct cli *cli, int status, int code, const char *members, const char *format,
                     va_list args) __attribute__((format(printf, 5, 0)));
static int fail_with(struct cli *cli, int status, int code, const char *members, const char *format,
                     va_list args)
{
    char sentence[2048];
    if (vsnprintf(sentence, sizeof sentence, format, args) < 0)
        sentence[0] = '\0';
    report(cli, status, code, members, sentence);
    return status;
}

int cli_fail(struct cli *cli, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int status = fail_with(cli, exit_status_of(code), code, NULL, format, args);
    va_end(args);
    return status;
}

int cli_fail_as(struct cli *cli, int status, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_with(cli, status, code, NULL, format, args);
    va_end(args);
    return status;
}

int cli_fail_more(struct cli *cli, int status, int code, const char *members, const char *format,
                  ...)
{
    va_list args;
    va_start(args, format);
    fail_with(cli, status, code, members, format, args);
    va_end(args);
    return status;
}

int cli_fail_store(struct cli *cli, int code)
{
    /* Whoever pressed ^C knows. */
    if (code == TEND_EINTERRUPTED && signals_seen())
        return signals_exit_status();
    const char *sentence = cli->store ? tend_errmsg(cli->store) : "";
    return cli_fail(cli, code, "%s", *sentence ? sentence : tend_strerror(code));
}

void cli_note(struct cli *cli, const char *format, ...)
{
    if (cli->json)
        return;
    char sentence[2048];
    va_list args;
    va_start(args, format);
    if (vsnprintf(sentence, sizeof sentence, format, args) < 0)
        sentence[0] = '\0';
    va_end(args);
    struct buf line;
    buf_init(&line);
    buf_puts(&line, "tend: ");
    put_clean(&line, sentence);
    buf_putc(&line, '\n');
    cli_flush(cli);
    cli_write_error(&line);
    buf_done(&line);
}
