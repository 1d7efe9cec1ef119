/*
 * What the way an attempt ended says by itself: SH-5, second kind of evidence.
 *
 * Exit codes by sysexits.h, 126 and 127 by the shell, 128+n as the signal n. What is not in a table
 * decides nothing and is left to the text.
 */
#include "core/classify_rules.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 }; /* of a shell, for its command */

struct number_row {
    int number;
    enum failure_class class;
    const char *meaning;
};

/* 70 (a mistake inside the program) is missing on purpose: it may be anything. */
static const struct number_row exit_codes[] = {
    {64, CLASS_DETERMINISTIC_CONTRACT, "it was called wrongly (EX_USAGE)"},
    {65, CLASS_DETERMINISTIC_CONTRACT, "its input is wrong (EX_DATAERR)"},
    {66, CLASS_DETERMINISTIC_CONTRACT, "its input is not there (EX_NOINPUT)"},
    {67, CLASS_DETERMINISTIC_CONTRACT, "the addressee is unknown (EX_NOUSER)"},
    {68, CLASS_DETERMINISTIC_CONTRACT, "the host is unknown (EX_NOHOST)"},
    /* Services come back. */
    {69, CLASS_TRANSIENT_RUNTIME, "a service is not available (EX_UNAVAILABLE)"},
    /* "Cannot fork" and the like: a matter of the machine at that moment. */
    {71, CLASS_TRANSIENT_RUNTIME, "the operating system failed (EX_OSERR)"},
    {72, CLASS_DETERMINISTIC_CONTRACT, "a system file is missing (EX_OSFILE)"},
    {73, CLASS_DETERMINISTIC_CONTRACT, "an output file cannot be made (EX_CANTCREAT)"},
    /* Files on a network, a full disk: another attempt or another machine may do. */
    {74, CLASS_TRANSIENT_RUNTIME, "reading or writing failed (EX_IOERR)"},
    {75, CLASS_TRANSIENT_RUNTIME, "it asks to be tried again (EX_TEMPFAIL)"},
    {76, CLASS_TRANSIENT_RUNTIME, "the other side answered nonsense (EX_PROTOCOL)"},
    {77, CLASS_DETERMINISTIC_POLICY, "it lacks a permission (EX_NOPERM)"},
    {78, CLASS_DETERMINISTIC_CONTRACT, "its configuration is wrong (EX_CONFIG)"},
    {EXIT_NOT_EXECUTABLE, CLASS_DETERMINISTIC_CONTRACT, "the command cannot be executed"},
    {EXIT_NOT_FOUND, CLASS_DETERMINISTIC_CONTRACT, "the command does not exist"},
};

static const struct number_row signals[] = {
    {SIGHUP, CLASS_TRANSIENT_RUNTIME, "it was interrupted (HUP)"},
    {SIGINT, CLASS_TRANSIENT_RUNTIME, "it was interrupted (INT)"},
    {SIGQUIT, CLASS_TRANSIENT_RUNTIME, "it was interrupted (QUIT)"},
    /* The machine lacks what the program needs, and will next time. */
    {SIGILL, CLASS_DETERMINISTIC_CONTRACT, "it does not run on this processor (ILL)"},
    {SIGABRT, CLASS_TRANSIENT_RUNTIME, "it gave up (ABRT)"},
    {SIGBUS, CLASS_TRANSIENT_RUNTIME, "it crashed (BUS)"},
    {SIGFPE, CLASS_TRANSIENT_RUNTIME, "it crashed (FPE)"},
    {SIGKILL, CLASS_TRANSIENT_RUNTIME, "it was killed (KILL)"},
    {SIGSEGV, CLASS_TRANSIENT_RUNTIME, "it crashed (SEGV)"},
    {SIGPIPE, CLASS_TRANSIENT_RUNTIME, "nobody read what it wrote (PIPE)"},
    {SIGALRM, CLASS_TRANSIENT_RUNTIME, "its own alarm went off (ALRM)"},
    {SIGTERM, CLASS_TRANSIENT_RUNTIME, "it was stopped (TERM)"},
    /* Limits that somebody has set meet the same work again. */
    {SIGXCPU, CLASS_DETERMINISTIC_POLICY, "it used more processor time than allowed (XCPU)"},
    {SIGXFSZ, CLASS_DETERMINISTIC_POLICY, "it wrote a larger file than allowed (XFSZ)"},
    {SIGSYS, CLASS_DETERMINISTIC_POLICY, "it made a system call that is not allowed (SYS)"},
};

static const struct number_row start_errors[] = {
    {ENOENT, CLASS_DETERMINISTIC_CONTRACT, "the command or its folder does not exist"},
    {ENOTDIR, CLASS_DETERMINISTIC_CONTRACT, "the command or its folder does not exist"},
    /* As 126, which a shell makes of it. */
    {EACCES, CLASS_DETERMINISTIC_CONTRACT, "the command cannot be executed"},
    {ENOEXEC, CLASS_DETERMINISTIC_CONTRACT, "the command cannot be executed"},
    {EISDIR, CLASS_DETERMINISTIC_CONTRACT, "the command is a folder"},
    {ELOOP, CLASS_DETERMINISTIC_CONTRACT, "the command is a symbolic link to itself"},
    {ENAMETOOLONG, CLASS_DETERMINISTIC_CONTRACT, "the command's name is too long"},
    {E2BIG, CLASS_DETERMINISTIC_CONTRACT, "arguments and environment are too long"},
    {EINVAL, CLASS_DETERMINISTIC_CONTRACT, "the command cannot be executed"},
    {EPERM, CLASS_DETERMINISTIC_POLICY, "starting the command is not permitted"},
};

static const struct number_row statuses[] = {
    {401, CLASS_DETERMINISTIC_POLICY, "the server wants credentials"},
    {403, CLASS_DETERMINISTIC_POLICY, "the server forbids it"},
    {407, CLASS_DETERMINISTIC_POLICY, "the proxy wants credentials"},
    {408, CLASS_TRANSIENT_RUNTIME, "the server ran out of patience"},
    {409, CLASS_TRANSIENT_RUNTIME, "the server's state is in the way for now"},
    {423, CLASS_TRANSIENT_RUNTIME, "it is locked for now"},
    {425, CLASS_TRANSIENT_RUNTIME, "the server asks to try again"},
    {429, CLASS_TRANSIENT_RUNTIME, "the server asks for patience"},
    {451, CLASS_DETERMINISTIC_POLICY, "the server may not serve it"},
    {501, CLASS_DETERMINISTIC_CONTRACT, "the server cannot do this"},
    {505, CLASS_DETERMINISTIC_CONTRACT, "the server speaks another version of HTTP"},
    {511, CLASS_DETERMINISTIC_POLICY, "the network wants credentials"},
};

struct named_row {
    const char *name;
    enum failure_class class;
    const char *meaning;
};

static const struct named_row troubles[] = {
    [HTTP_NOT_RESOLVED] = {"resolve", CLASS_TRANSIENT_RUNTIME, "the host's name was not resolved"},
    [HTTP_NOT_CONNECTED] = {"connect", CLASS_TRANSIENT_RUNTIME, "there was no connection"},
    [HTTP_TIMED_OUT] = {"timeout", CLASS_TRANSIENT_RUNTIME, "the answer did not come in time"},
    [HTTP_BROKEN_OFF] = {"broken", CLASS_TRANSIENT_RUNTIME, "the connection broke off"},
    [HTTP_BAD_CERTIFICATE] = {"certificate", CLASS_DETERMINISTIC_POLICY,
                              "the server's certificate is not trusted"},
    [HTTP_BAD_URL] = {"url", CLASS_DETERMINISTIC_CONTRACT, "the URL cannot be used"},
    [HTTP_ANSWER_TOO_LARGE] = {"size", CLASS_DETERMINISTIC_CONTRACT,
                               "the answer is larger than allowed"},
    [HTTP_REDIRECTED_TOO_OFTEN] = {"redirects", CLASS_DETERMINISTIC_CONTRACT,
                                   "the server redirects without end"},
    [HTTP_OTHER_TROUBLE] = {"other", CLASS_TRANSIENT_RUNTIME, "the request failed"},
};

/* Those that have no number. */
static const struct named_row plain_endings[] = {
    [ENDED_WALL_TIMEOUT] = {"timeout.wall", CLASS_TRANSIENT_RUNTIME, "it took too long"},
    [ENDED_IDLE_TIMEOUT] = {"timeout.idle", CLASS_TRANSIENT_RUNTIME, "it was silent for too long"},
    [ENDED_OUT_OF_MEMORY] = {"memory", CLASS_TRANSIENT_RUNTIME,
                             "it was killed because memory ran out"},
    [ENDED_INTERRUPTED] = {"interrupted", CLASS_TRANSIENT_RUNTIME, "it was stopped from outside"},
    [ENDED_PATCH_REFUSED] = {"repo.patch", CLASS_DETERMINISTIC_REPO,
                             "the patch of an earlier step does not apply"},
    [ENDED_NOT_A_REPOSITORY] = {"repo.missing", CLASS_DETERMINISTIC_REPO,
                                "the workspace is no git repository"},
    [ENDED_REF_MISSING] = {"repo.ref", CLASS_DETERMINISTIC_REPO,
                           "the repository does not have this ref"},
    [ENDED_BAD_PLAN] = {"plan", CLASS_DETERMINISTIC_CONTRACT, "what to do cannot be understood"},
    [ENDED_NO_SECRET] = {"secret", CLASS_DETERMINISTIC_POLICY,
                         "the worker does not have a secret that the plan names"},
};

/* A shell tells SIGHUP by it, git a wrong option, and that is more frequent: left to the text. */
enum { GIT_USAGE_EXIT = 129 };

#define ROWS(table) (sizeof(table) / sizeof *(table))

static const struct number_row *find(const struct number_row *table, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].number == number)
            return &table[i];
    return NULL;
}

static bool decide(struct classification *ret, const char *prefix, int number,
                   enum failure_class class, const char *meaning)
{
    snprintf(ret->rule, sizeof ret->rule, "%s.%d", prefix, number);
    ret->class = class;
    ret->meaning = meaning;
    return true;
}

static bool by_exit_code(int code, struct classification *ret)
{
    const struct number_row *row = find(exit_codes, ROWS(exit_codes), code);
    if (!row && code > 128 && code != GIT_USAGE_EXIT)
        row = find(signals, ROWS(signals), code - 128);
    return row && decide(ret, "exit", code, row->class, row->meaning);
}

static bool by_signal(int number, struct classification *ret)
{
    const struct number_row *row = find(signals, ROWS(signals), number);
    return decide(ret, "signal", number, row ? row->class : CLASS_TRANSIENT_RUNTIME,
                  row ? row->meaning : "it was ended by a signal");
}

/* What is not in the table (no memory, too many processes, a file being written) passes. */
static bool by_start_error(int number, struct classification *ret)
{
    const struct number_row *row = find(start_errors, ROWS(start_errors), number);
    const char *name = strerrorname_np(number);
    snprintf(ret->rule, sizeof ret->rule, "start.%s", name ? name : "unknown");
    ret->class = row ? row->class : CLASS_TRANSIENT_RUNTIME;
    ret->meaning = row ? row->meaning : "the command could not be started for now";
    return true;
}

static bool by_status(int status, struct classification *ret)
{
    const struct number_row *row = find(statuses, ROWS(statuses), status);
    if (row)
        return decide(ret, "http", status, row->class, row->meaning);
    if (status >= 500)
        return decide(ret, "http", status, CLASS_TRANSIENT_RUNTIME, "the server failed");
    if (status >= 400)
        return decide(ret, "http", status, CLASS_DETERMINISTIC_CONTRACT,
                      "the server does not accept the request");
    return decide(ret, "http", status, CLASS_DETERMINISTIC_CONTRACT,
                  "the status is not among those expected");
}

/* Some servers tell a limit for requests by 403. */
static bool by_limited_status(int status, struct classification *ret)
{
    return status == 403 ? decide(ret, "http", status, CLASS_TRANSIENT_RUNTIME,
                                  "the server asks for patience")
                         : by_status(status, ret);
}

/* A request does not look at the workspace, so what may pass there lies outside of it. */
static bool lies_outside(struct ending ending, enum failure_class class)
{
    if (ending.kind == ENDED_EXIT)
        return ending.number == EX_UNAVAILABLE || ending.number == EX_PROTOCOL;
    bool http = ending.kind == ENDED_HTTP_STATUS || ending.kind == ENDED_HTTP_LIMITED ||
                ending.kind == ENDED_HTTP_TRANSPORT;
    return http && failure_class_retryable(class);
}

static bool decide_ending(struct ending ending, struct classification *ret)
{
    switch (ending.kind) {
    case ENDED_EXIT:
        return by_exit_code(ending.number, ret);
    case ENDED_SIGNAL:
        return by_signal(ending.number, ret);
    case ENDED_NOT_STARTED:
        return by_start_error(ending.number, ret);
    case ENDED_HTTP_STATUS:
        return by_status(ending.number, ret);
    case ENDED_HTTP_LIMITED:
        return by_limited_status(ending.number, ret);
    default:
        break;
    }
    bool http = ending.kind == ENDED_HTTP_TRANSPORT;
    size_t known =
        (size_t)ending.number < ROWS(troubles) ? (size_t)ending.number : (size_t)HTTP_OTHER_TROUBLE;
    const struct named_row *row = http ? &troubles[known] : &plain_endings[ending.kind];
    snprintf(ret->rule, sizeof ret->rule, "%s%s", http ? "http." : "", row->name);
    ret->class = row->class;
    ret->meaning = row->meaning;
    return true;
}

bool classify_ending(struct ending ending, struct classification *ret)
{
    if (!decide_ending(ending, ret))
        return false;
    ret->outside = lies_outside(ending, ret->class);
    return true;
}

bool ending_is_no_command(struct ending ending)
{
    return ending.kind == ENDED_EXIT &&
           (ending.number == EXIT_NOT_EXECUTABLE || ending.number == EXIT_NOT_FOUND);
}

const char *ending_text(struct ending ending, char out[ENDING_TEXT_BYTES])
{
    const char *name;
    switch (ending.kind) {
    case ENDED_EXIT:
        snprintf(out, ENDING_TEXT_BYTES, "exit %d", ending.number);
        return out;
    case ENDED_SIGNAL:
        snprintf(out, ENDING_TEXT_BYTES, "signal %d", ending.number);
        return out;
    case ENDED_NOT_STARTED:
        name = strerrorname_np(ending.number);
        snprintf(out, ENDING_TEXT_BYTES, "not started: %s", name ? name : "unknown");
        return out;
    case ENDED_HTTP_STATUS:
    case ENDED_HTTP_LIMITED:
        snprintf(out, ENDING_TEXT_BYTES, "http %d", ending.number);
        return out;
    default:
        break;
    }
    /* The rule that each of the others has is its name. */
    struct classification only;
    classify_ending(ending, &only);
    snprintf(out, ENDING_TEXT_BYTES, "%s", only.rule);
    return out;
}
