/* See asking.h. */
#include "cli/asking.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/timetext.h"
#include "cli/cli.h"
#include "queue/handle.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    AWAY_MS = 1000, /* without an answer for so long, the store is away */
    AGAIN_MS = 500, /* after a failure that may pass */
    LEAVE_MS = 100, /* so long the last answer is waited for at the end */
    SENTENCE_BYTES = 1024,
};

struct asking {
    struct cli *cli;
    int key_fd;
    int reader_fd; /* standard output where it can lose its reader; else -1 */
    asking_away *away;
    void *away_arg;
    int64_t end_ms;   /* monotonic: see asking_end_at; INT64_MAX: never */
    int64_t since_ms; /* wall time of the first question without an answer; 0: it is there */
    bool noted;       /* on standard error, that it is away */
    int answer_fd;    /* readable: the question was answered */
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    asking_question *question; /* NULL: none is open */
    void *question_arg;
    bool over;
    int code; /* the last answer */
    char sentence[SENTENCE_BYTES];
};

/* --- the thread that asks --- */

static void answer(struct asking *asking, int code)
{
    uint64_t one = 1;
    pthread_mutex_lock(&asking->mutex);
    asking->code = code;
    snprintf(asking->sentence, sizeof asking->sentence, "%s",
             code < 0 ? tend_errmsg(asking->cli->store) : "");
    asking->question = NULL;
    pthread_mutex_unlock(&asking->mutex);
    ssize_t ignored = write(asking->answer_fd, &one, sizeof one); /* it cannot be full */
    (void)ignored;
}

static void *body(void *arg)
{
    struct asking *asking = arg;
    for (;;) {
        pthread_mutex_lock(&asking->mutex);
        while (!asking->question && !asking->over)
            pthread_cond_wait(&asking->changed, &asking->mutex);
        asking_question *question = asking->question;
        pthread_mutex_unlock(&asking->mutex);
        if (!question)
            return NULL;
        answer(asking, question(asking->cli->store, asking->question_arg));
    }
}

/* --- the one that waits --- */

enum news { NEWS_NONE, NEWS_ANSWER, NEWS_END };

static bool key_ends(const struct asking *asking)
{
    char key;
    ssize_t got = read(asking->key_fd, &key, 1);
    return got == 0 || (got == 1 && (key == 'q' || key == 'Q'));
}

/* What is written has a reader that can go away. */
static int find_reader(void)
{
    struct stat info;
    bool can_go =
        fstat(STDOUT_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
    return can_go ? STDOUT_FILENO : -1;
}

/* The command ends as after a write to a closed pipe, although it has nothing to write now. */
static void lose_reader(struct asking *asking)
{
    asking->cli->out_errno = EPIPE;
    tend_interrupt(asking->cli->store);
}

static enum news wait_for_news(struct asking *asking, int64_t timeout_ms)
{
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    if (until_ms > asking->end_ms)
        until_ms = asking->end_ms;
    for (;;) {
        struct pollfd fds[] = {{.fd = asking->answer_fd, .events = POLLIN},
                               {.fd = asking->key_fd, .events = POLLIN},
                               {.fd = asking->reader_fd, .events = 0}};
        int64_t left_ms = until_ms - clock_mono_ms();
        int ready = signals_poll(fds, 3, left_ms > 0 ? (int)left_ms : 0);
        if (signals_seen() || (ready > 0 && fds[1].revents && key_ends(asking)))
            return NEWS_END;
        if (ready <= 0 && clock_mono_ms() >= asking->end_ms) {
            tend_interrupt(asking->cli->store);
            return NEWS_END;
        }
        if (ready > 0 && (fds[2].revents & (POLLERR | POLLHUP)) != 0) {
            lose_reader(asking);
            return NEWS_END;
        }
        uint64_t count;
        if (ready > 0 && fds[0].revents &&
            read(asking->answer_fd, &count, sizeof count) == (ssize_t)sizeof count)
            return NEWS_ANSWER;
        if (left_ms <= 0)
            return NEWS_NONE;
    }
}

static void note_away(struct asking *asking, const char *why)
{
    struct cli *cli = asking->cli;
    char since[TIME_TEXT_BYTES];
    if (!asking->noted)
        cli_note(cli, "%s: the store is away since %s%s%s; going on when it is back", cli->path,
                 time_text(asking->since_ms / 1000 * 1000, since), *why ? ": " : "", why);
    asking->noted = true;
}

static void tell_away(struct asking *asking, int64_t asked_ms, const char *why)
{
    if (asking->since_ms == 0)
        asking->since_ms = asked_ms;
    if (asking->away)
        asking->away(asking->away_arg, asking->since_ms, why);
    else
        note_away(asking, why);
}

static void tell_back(struct asking *asking)
{
    asking->since_ms = 0;
    if (asking->noted)
        cli_note(asking->cli, "%s: the store is back", asking->cli->path);
    asking->noted = false;
}

/* A store that was deleted or replaced while it was open does not come back. */
static bool may_pass(const struct asking *asking, int code)
{
    return code == TEND_EBUSY || (code == TEND_EUNREACHABLE && !db_gone(asking->cli->store->db));
}

/* Asks once. */
static int ask_once(struct asking *asking, asking_question *question, void *arg, int64_t takes_ms)
{
    int64_t asked_ms = clock_wall_ms();
    int64_t patient_until_ms = clock_mono_ms() + takes_ms + AWAY_MS;
    char why[SENTENCE_BYTES]; /* of the time before, still true */
    memcpy(why, asking->sentence, sizeof why);
    pthread_mutex_lock(&asking->mutex);
    asking->question_arg = arg;
    asking->question = question;
    pthread_cond_signal(&asking->changed);
    pthread_mutex_unlock(&asking->mutex);
    for (;;) {
        enum news news = wait_for_news(asking, AWAY_MS);
        if (news == NEWS_END)
            return TEND_EINTERRUPTED;
        if (news == NEWS_ANSWER)
            break;
        if (clock_mono_ms() >= patient_until_ms)
            tell_away(asking, asked_ms, why);
    }
    if (may_pass(asking, asking->code))
        tell_away(asking, asked_ms, asking->sentence);
    else if (asking->code >= 0 && takes_ms == 0)
        tell_back(asking);
    return asking->code;
}

int asking_ask_patiently(struct asking *asking, asking_question *question, void *arg,
                         int64_t takes_ms)
{
    for (;;) {
        int code = ask_once(asking, question, arg, takes_ms);
        if (!may_pass(asking, code))
            return code;
        if (asking_pause(asking, AGAIN_MS) < 0)
            return TEND_EINTERRUPTED;
    }
}

int asking_ask(struct asking *asking, asking_question *question, void *arg)
{
    return asking_ask_patiently(asking, question, arg, 0);
}

int asking_pause(struct asking *asking, int64_t ms)
{
    return wait_for_news(asking, ms) == NEWS_END ? TEND_EINTERRUPTED : 0;
}

int asking_fail(const struct asking *asking, int code)
{
    if (code != TEND_EINTERRUPTED)
        return cli_fail(asking->cli, code, "%s", asking->sentence);
    return asking->cli->out_errno ? EXIT_FAILED : signals_exit_status();
}

/* --- its life --- */

struct asking *asking_new(struct cli *cli, int key_fd, asking_away *away, void *away_arg)
{
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking) {
        cli_fail(cli, TEND_ENOMEM, "out of memory");
        return NULL;
    }
    *asking = (struct asking){.cli = cli,
                              .key_fd = key_fd,
                              .reader_fd = find_reader(),
                              .away = away,
                              .away_arg = away_arg,
                              .end_ms = INT64_MAX,
                              .answer_fd = -1};
    pthread_mutex_init(&asking->mutex, NULL);
    pthread_cond_init(&asking->changed, NULL);
    asking->answer_fd = eventfd(0, EFD_CLOEXEC);
    int failed = asking->answer_fd < 0 ? errno : thread_start(&asking->thread, 0, body, asking);
    if (failed) {
        cli_fail(cli, TEND_ENOMEM, "a thread cannot be started: %s", strerror(failed));
        if (asking->answer_fd >= 0)
            close(asking->answer_fd);
        free(asking);
        return NULL;
    }
    signals_interrupt(cli->store);
    return asking;
}

void asking_end_at(struct asking *asking, int64_t end_ms)
{
    asking->end_ms = end_ms;
}

bool asking_is_late(const struct asking *asking)
{
    return !signals_seen() && asking->cli->out_errno == 0 && clock_mono_ms() >= asking->end_ms;
}

static bool is_asking(struct asking *asking)
{
    pthread_mutex_lock(&asking->mutex);
    bool open = asking->question != NULL;
    pthread_mutex_unlock(&asking->mutex);
    return open;
}

void asking_free(struct asking *asking)
{
    struct pollfd answered = {.fd = asking->answer_fd, .events = POLLIN};
    for (int64_t until_ms = clock_mono_ms() + LEAVE_MS;
         is_asking(asking) && clock_mono_ms() < until_ms;)
        poll(&answered, 1, LEAVE_MS);
    asking->cli->store_left = is_asking(asking) || asking->since_ms != 0;
    if (is_asking(asking))
        return;
    pthread_mutex_lock(&asking->mutex);
    asking->over = true;
    pthread_cond_signal(&asking->changed);
    pthread_mutex_unlock(&asking->mutex);
    pthread_join(asking->thread, NULL);
    close(asking->answer_fd);
    pthread_cond_destroy(&asking->changed);
    pthread_mutex_destroy(&asking->mutex);
    free(asking);
}
