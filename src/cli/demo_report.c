/*
 * How a demo ended: judged by the events, told to people or to machines. See demo.h.
 *
 * The live view has added up the events as they came. What is told here comes from a second reading
 * of all of them from the first, and from the states the store itself shows.
 */
#include "base/timetext.h"
#include "cli/demo.h"
#include "cli/json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* --- the verdict --- */

static void judge_jobs(const struct demo_ledger *ledger, struct demo_verdict *verdict)
{
    int64_t first_lost = 0, first_twice = 0;
    for (int i = 0; i < DEMO_JOBS; i++) {
        int completed = ledger->jobs[i].completed;
        if (completed == 0 && verdict->lost++ == 0)
            first_lost = ledger->first_id + i;
        if (completed > 1 && verdict->twice++ == 0)
            first_twice = ledger->first_id + i;
    }
    if (verdict->lost > 0)
        buf_printf(&verdict->wrong, "%d jobs were never completed; the first is job %" PRId64 "\n",
                   verdict->lost, first_lost);
    if (verdict->twice > 0)
        buf_printf(&verdict->wrong,
                   "%d jobs were completed more than once; the first is job %" PRId64 "\n",
                   verdict->twice, first_twice);
    if (ledger->strange > 0)
        buf_printf(&verdict->wrong, "%d events tell of jobs what should not have happened\n",
                   ledger->strange);
}

static void judge_takeover(const struct demo_ledger *ledger, struct demo_verdict *verdict)
{
    if (ledger->victim < 0) {
        buf_puts(&verdict->wrong, "no worker was killed: too few were left\n");
        return;
    }
    int held = demo_ledger_held(ledger, ledger->victim);
    if (held == 0)
        buf_puts(&verdict->wrong, "the worker held no job when it was killed\n");
    else if (ledger->taken_over < held)
        buf_printf(&verdict->wrong, "%d of the %d jobs of the killed worker were not taken over\n",
                   held - ledger->taken_over, held);
}

/* A kill from outside is somebody trying it out; any other end of a worker is a fault. */
static void judge_workers(const struct demo_crew *crew, struct demo_verdict *verdict)
{
    for (int i = 0; i < DEMO_WORKERS; i++) {
        const struct demo_member *member = &crew->members[i];
        int how = member->wait_status;
        if (member->state != MEMBER_MISSING || (WIFEXITED(how) && WEXITSTATUS(how) == 0) ||
            (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL))
            continue;
        char words[200];
        demo_crew_last_words(crew, member, words, sizeof words);
        buf_printf(&verdict->wrong, "%s (pid %d) ended with %s %d%s%s\n", member->name,
                   (int)member->pid, WIFEXITED(how) ? "status" : "signal",
                   WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how), *words ? ": " : "", words);
    }
}

static int count_done(struct cli *cli, int64_t *ret_done)
{
    struct tend_stats *stats;
    int code = tend_stats(cli->store, &stats);
    if (code < 0)
        return code;
    *ret_done = 0;
    for (size_t i = 0; i < stats->count; i++)
        *ret_done += stats->items[i].jobs[TEND_DONE];
    tend_stats_free(stats);
    return 0;
}

int demo_judge(struct cli *cli, const struct demo_crew *crew, struct demo_ledger *ledger,
               struct demo_verdict *ret)
{
    struct demo_ledger again;
    demo_ledger_init(&again, ledger->first_id);
    if (ledger->victim >= 0)
        demo_ledger_killed(&again, ledger->victim, ledger->killed_at_ms);
    int64_t done = 0;
    int code = demo_ledger_read(&again, cli->store);
    if (code == 0)
        code = count_done(cli, &done);
    if (code < 0)
        return cli_fail_store(cli, code);
    *ledger = again;
    judge_jobs(ledger, ret);
    if (done != DEMO_JOBS)
        buf_printf(&ret->wrong, "the store shows %" PRId64 " jobs as done, not %d\n", done,
                   DEMO_JOBS);
    judge_takeover(ledger, ret);
    judge_workers(crew, ret);
    return EXIT_DONE;
}

/* --- for people --- */

static void put_finding(struct cli *cli, bool good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_finding(struct cli *cli, bool good, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    enum color color = good ? COLOR_GREEN : COLOR_RED;
    buf_printf(&cli->out, "  %s%s%s ", color_on(cli, color), good ? "✔" : "✖",
               color_off(cli, color));
    put_clean(&cli->out, text);
    buf_putc(&cli->out, '\n');
}

static void put_good_end(struct cli *cli, const struct demo_crew *crew,
                         const struct demo_ledger *ledger)
{
    char jobs[DEMO_NUMBER_BYTES], events[DEMO_NUMBER_BYTES];
    char first[DURATION_TEXT_BYTES], last[DURATION_TEXT_BYTES];
    put_finding(cli, true, "each of the %s jobs was completed exactly once (%s events read)",
                demo_number(DEMO_JOBS, jobs), demo_number(ledger->events, events));
    put_finding(cli, true, "the %d jobs of %s were taken over: first after %s, last after %s",
                ledger->taken_over, crew->members[ledger->victim].name,
                span_text(ledger->first_taken_at_ms - ledger->killed_at_ms, first),
                span_text(ledger->last_taken_at_ms - ledger->killed_at_ms, last));
    put_finding(cli, true, "nothing was lost, and nobody waited for a lease to run out");
}

static void put_bad_end(struct cli *cli, const struct demo_verdict *verdict)
{
    for (const char *at = verdict->wrong.data; *at;) {
        const char *end = strchrnul(at, '\n');
        put_finding(cli, false, "%.*s", (int)(end - at), at);
        at = *end ? end + 1 : end;
    }
}

/* With the program's name as the reader has called it, so that the lines can be copied. */
static void put_what_next(struct cli *cli)
{
    char add[400], help[400];
    snprintf(add, sizeof add, "%s add -q mail --payload '{\"to\": \"ann\"}'",
             program_invocation_name);
    snprintf(help, sizeof help, "%s help", program_invocation_name);
    const char *on = color_on(cli, COLOR_BOLD);
    const char *off = color_off(cli, COLOR_BOLD);
    buf_printf(&cli->out,
               "\nThe store of the demo is gone again. Now try it with your own:\n"
               "  %s%s%s   # a job, on disk\n"
               "  %s%-*s%s   # all the rest\n",
               on, add, off, on, (int)strlen(add), help, off);
}

void demo_report_text(struct cli *cli, const struct demo_crew *crew,
                      const struct demo_ledger *ledger, const struct demo_verdict *verdict)
{
    buf_putc(&cli->out, '\n');
    if (verdict->wrong.len > 0) {
        put_bad_end(cli, verdict);
        return;
    }
    put_good_end(cli, crew, ledger);
    put_what_next(cli);
}

/* --- for machines --- */

/* A time as the distance from the kill. */
static void put_after_kill(struct buf *out, const char *key, const struct demo_ledger *ledger,
                           int64_t at_ms)
{
    bool known = at_ms != TEND_UNSET && ledger->killed_at_ms != TEND_UNSET;
    json_int_or_null(out, key, known ? at_ms - ledger->killed_at_ms : TEND_UNSET);
}

static void put_workers(struct buf *out, const struct demo_crew *crew,
                        const struct demo_ledger *ledger)
{
    json_open(out, "workers", '[');
    for (int i = 0; i < DEMO_WORKERS; i++) {
        json_open(out, NULL, '{');
        json_text(out, "name", crew->members[i].name);
        json_int(out, "pid", crew->members[i].pid);
        json_bool(out, "killed", i == ledger->victim);
        json_int(out, "completed", ledger->accounts[i].completed);
        json_int(out, "taken_over", ledger->accounts[i].taken_over);
        json_close(out, '}');
    }
    json_close(out, ']');
}

static void put_takeover(struct buf *out, const struct demo_crew *crew,
                         const struct demo_ledger *ledger)
{
    json_open(out, "takeover", '{');
    json_text(out, "killed", ledger->victim < 0 ? NULL : crew->members[ledger->victim].name);
    json_int_or_null(out, "killed_at_ms", ledger->killed_at_ms);
    json_int(out, "held", ledger->victim < 0 ? 0 : demo_ledger_held(ledger, ledger->victim));
    json_text(out, "noticed_by",
              ledger->noticed_by < 0 ? NULL : crew->members[ledger->noticed_by].name);
    put_after_kill(out, "noticed_after_ms", ledger, ledger->noticed_at_ms);
    put_after_kill(out, "first_started_after_ms", ledger, ledger->first_taken_at_ms);
    put_after_kill(out, "last_started_after_ms", ledger, ledger->last_taken_at_ms);
    json_open(out, "jobs", '[');
    for (int i = 0; i < DEMO_JOBS; i++) {
        const struct demo_job *job = &ledger->jobs[i];
        if (!job->orphaned)
            continue;
        json_open(out, NULL, '{');
        json_int(out, "id", ledger->first_id + i);
        json_text(out, "taken_by", job->taken_by < 0 ? NULL : crew->members[job->taken_by].name);
        put_after_kill(out, "started_after_ms", ledger, job->taken_at_ms);
        json_close(out, '}');
    }
    json_close(out, ']');
    json_close(out, '}');
}

void demo_report_json(struct cli *cli, const struct demo_crew *crew,
                      const struct demo_ledger *ledger, const struct demo_verdict *verdict)
{
    struct buf *out = &cli->out;
    bool timed = ledger->began_at_ms != TEND_UNSET && ledger->ended_at_ms != TEND_UNSET;
    json_open(out, NULL, '{');
    json_bool(out, "ok", verdict->wrong.len == 0);
    json_int(out, "jobs", DEMO_JOBS);
    json_int(out, "completed_once", DEMO_JOBS - verdict->lost - verdict->twice);
    json_int(out, "lost", verdict->lost);
    json_int(out, "completed_twice", verdict->twice);
    json_int(out, "events", ledger->events);
    json_int_or_null(out, "elapsed_ms",
                     timed ? ledger->ended_at_ms - ledger->began_at_ms : TEND_UNSET);
    put_workers(out, crew, ledger);
    put_takeover(out, crew, ledger);
    json_open(out, "wrong", '[');
    for (const char *at = verdict->wrong.data; *at;) {
        char sentence[400];
        int len = (int)strcspn(at, "\n");
        snprintf(sentence, sizeof sentence, "%.*s", len, at);
        json_text(out, NULL, sentence);
        at += len + (at[len] == '\n');
    }
    json_close(out, ']');
    json_close(out, '}');
    buf_putc(out, '\n');
}
