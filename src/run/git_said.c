/* See git.h: what git said on standard error, and what follows from it. Always in English:
 * LC_ALL=C. */
#include "run/git.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/timetext.h"

#include <stdio.h>
#include <string.h>
#include <tend.h>

#define PATIENCE_MS 5000
#define LONGEST_PAUSE_MS 400

bool git_said(const struct git_outcome *outcome, const char *text)
{
    return strstr(outcome->log, text) != NULL;
}

bool git_lost_race(const struct git_outcome *outcome)
{
    if (outcome->end != GIT_FAILED)
        return false;
    bool lock_file = git_said(outcome, ".lock': File exists") ||
                     git_said(outcome, "cannot lock ref") ||
                     git_said(outcome, "could not lock config file");
    /*
     * Git reads the entries of all worktrees of a repository, and fails on one that another process
     * is just making or taking away, in ways that differ by the moment; so does their folder, which
     * goes with the last of them.
     */
    bool worktree = (git_said(outcome, "worktrees/") || git_said(outcome, "/worktrees'")) &&
                    !git_said(outcome, "not a git repository");
    return lock_file || worktree;
}

int git_run_patiently(const struct git_call *call, struct git_outcome *ret_outcome, struct err *err)
{
    struct git_outcome own = {0};
    struct git_outcome *outcome = ret_outcome != NULL ? ret_outcome : &own;
    struct rng rng;
    int64_t started_ms = clock_mono_ms();
    rng_seed_random(&rng);
    for (int64_t pause_ms = 10;;
         pause_ms = pause_ms * 2 < LONGEST_PAUSE_MS ? pause_ms * 2 : LONGEST_PAUSE_MS) {
        int rc = git_run(call, outcome, err);
        if (rc == 0 || !git_lost_race(outcome))
            return rc;
        int64_t waited_ms = clock_mono_ms() - started_ms;
        if (waited_ms >= PATIENCE_MS) {
            char line[300];
            char span[DURATION_TEXT_BYTES];
            git_telling_line(outcome, line, sizeof line);
            return err_set(err, TEND_EBUSY, "git %s was kept out for %s by another git process: %s",
                           call->args[0], span_text(waited_ms, span), line);
        }
        int64_t jittered_ms = pause_ms / 2 + (int64_t)rng_below(&rng, (uint64_t)pause_ms);
        if ((rc = git_pause(call->limits, jittered_ms, err)) < 0)
            return rc;
    }
}

struct line {
    const char *text;
    size_t len;
};

static bool begins(struct line line, const char *word)
{
    size_t len = strlen(word);
    return line.len >= len && strncmp(line.text, word, len) == 0;
}

/* The last that is fatal, else the first error, else the last line that is none of git's advice. */
static struct line find_telling(const char *log)
{
    struct line fatal = {0};
    struct line error = {0};
    struct line other = {0};
    for (const char *at = log; *at != '\0';) {
        struct line line = {at, strcspn(at, "\n\r")};
        if (begins(line, "fatal: "))
            fatal = line;
        else if ((begins(line, "error: ") || begins(line, "git: '")) && error.text == NULL)
            error = line; /* git: 'remote-x' is not a git command */
        else if (line.len > 0 && !begins(line, "hint:"))
            other = line;
        at += line.len;
        at += strspn(at, "\n\r");
    }
    return fatal.text != NULL ? fatal : error.text != NULL ? error : other;
}

void git_telling_line(const struct git_outcome *outcome, char *out, size_t size)
{
    struct line line = find_telling(outcome->log);
    size_t skip = begins(line, "fatal: ") || begins(line, "error: ") ? 7 : 0;
    size_t len = line.len - skip;
    if (line.text == NULL || size == 0)
        len = 0;
    else if (len > size - 1)
        len = utf8_floor(line.text + skip, len, size - 1);
    if (len > 0)
        memcpy(out, line.text + skip, len);
    if (size > 0)
        out[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
            out[i] = ' ';
    git_mask_urls(out);
}

void git_mask_urls(char *text)
{
    for (char *at = strstr(text, "://"); at != NULL; at = strstr(at, "://")) {
        at += 3;
        size_t authority = strcspn(at, "/ \t\n'\"");
        char *sign = memrchr(at, '@', authority);
        if (sign == NULL)
            continue;
        /* `ssh://git@host` has no secret in it; a name before http may be a token. */
        bool web = at - text >= 7 && (strncmp(at - 7, "http://", 7) == 0 ||
                                      (at - text >= 8 && strncmp(at - 8, "https://", 8) == 0));
        bool secret = web || memchr(at, ':', (size_t)(sign - at)) != NULL;
        if (!secret || sign == at)
            continue;
        *at = '*';
        memmove(at + 1, sign, strlen(sign) + 1);
    }
}
