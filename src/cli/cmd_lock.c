/*
 * tend lock: named locks for scripts.
 *
 * The holder is a name, so -w must be given: a default would let two scripts of one user share a
 * lock without knowing. The command ends and the lock goes on, by its time or by --while-pid.
 */
#include "base/timetext.h"
#include "cli/cli.h"
#include "cli/json_out.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *owner;
    int64_t ttl_ms, wait_ms, while_pid, token;
} args = {.ttl_ms = TEND_LOCK_TTL_MS};

#define OWNER_OPTION                                                                               \
    OPTION("owner", 'w', "OWNER", OPTION_TEXT,                                                     \
           "who holds it; use a name per process, as $(hostname):$$", &args.owner,                 \
           .required = true)

#define TOKEN_OPTION                                                                               \
    OPTION("token", 0, "N", OPTION_INT, "only the lock that was acquired with this token",         \
           &args.token, .min = 1, .max = INT64_MAX)

static const struct option acquire_options[] = {
    OWNER_OPTION,
    OPTION("ttl", 0, "DURATION", OPTION_DURATION, "how long it is held: 1ms to 366d (default 300s)",
           &args.ttl_ms),
    OPTION("wait", 0, "DURATION", OPTION_WAIT,
           "wait while somebody else holds it; without a duration for ever; also --wait DURATION",
           &args.wait_ms),
    OPTION("while-pid", 0, "PID", OPTION_INT,
           "the lock, and the wait for it, end with this process", &args.while_pid, .min = 1,
           .max = INT32_MAX),
    OPTION("token", 0, "N", OPTION_INT,
           "only refresh, and only the lock that was acquired with this token", &args.token,
           .min = 1, .max = INT64_MAX),
    OPTION_END,
};

static const struct option release_options[] = {OWNER_OPTION, TOKEN_OPTION, OPTION_END};

static const struct option extend_options[] = {
    OWNER_OPTION,
    TOKEN_OPTION,
    OPTION("ttl", 0, "DURATION", OPTION_DURATION, "from now: 1ms to 366d (default 300s)",
           &args.ttl_ms),
    OPTION_END,
};

/* --- the process a lock is tied to --- */

/* NULL: it is tied to none, or that is not known. */
static const struct tend_worker *find_holder(const struct tend_workers *workers,
                                             const struct tend_lock *lock)
{
    for (size_t i = 0; workers && lock->worker_id != TEND_UNSET && i < workers->count; i++)
        if (workers->items[i].id == lock->worker_id)
            return &workers->items[i];
    return NULL;
}

static bool is_dead(const struct tend_worker *holder)
{
    return holder && holder->alive == 0;
}

static void lock_json(struct buf *out, const char *key, const struct tend_lock *lock,
                      const struct tend_worker *holder)
{
    json_lock(out, key, lock, holder ? holder->pid : TEND_UNSET, is_dead(holder));
}

/* One that is held when it is looked at may be over when that is told. */
static const char *end_text(const struct tend_lock *lock, int64_t now_ms,
                            char out[DURATION_TEXT_BYTES])
{
    return lock->expired ? relative_text(lock->expires_at_ms, now_ms, out)
                         : coming_text(lock->expires_at_ms, now_ms, out);
}

static void print_lock(struct cli *cli, const struct tend_lock *lock,
                       const struct tend_worker *holder)
{
    bool over = lock->expired || is_dead(holder);
    if (cli->json) {
        lock_json(&cli->out, NULL, lock, holder);
        buf_putc(&cli->out, '\n');
        return;
    }
    char when[DURATION_TEXT_BYTES];
    buf_printf(&cli->out, "lock \"%s\" %s held by %s, token %" PRId64, lock->name,
               over ? "was" : "is", lock->owner, lock->token);
    if (is_dead(holder) && !lock->expired)
        buf_printf(&cli->out, ", whose process %" PRId64 " has ended\n", holder->pid);
    else
        buf_printf(&cli->out, ", %s %s\n", lock->expired ? "expired" : "expires",
                   end_text(lock, cli_now_ms(cli), when));
}

/* The caller holds it itself, but not for the process it is asked for. */
static bool is_own_by_time(const struct tend_lock *lock)
{
    return args.while_pid > 0 && lock->worker_id == TEND_UNSET && lock->job_id == TEND_UNSET &&
           strcmp(lock->owner, args.owner) == 0;
}

/* Who holds the lock that was not acquired, in words. */
static void put_holder(struct buf *out, const struct tend_lock *lock,
                       const struct tend_worker *holder)
{
    bool same_name = strcmp(lock->owner, args.owner) == 0;
    char waited[DURATION_TEXT_BYTES];
    buf_printf(out, "lock \"%s\" is %sheld by %s", lock->name, args.wait_ms > 0 ? "still " : "",
               lock->owner);
    if (args.token > 0 && same_name && lock->token != args.token)
        buf_printf(out, " under token %" PRId64 ", not %" PRId64 ",", lock->token, args.token);
    else if (holder && same_name) /* the name is not enough */
        buf_printf(out, " for process %" PRId64 " alone", holder->pid);
    else if (is_own_by_time(lock))
        buf_printf(out, " by its time, not for process %" PRId64 ",", args.while_pid);
    if (args.wait_ms > 0)
        buf_printf(out, " after %s", duration_text(args.wait_ms, waited));
}

static int held_by_other(struct cli *cli, const struct tend_lock *lock)
{
    char when[DURATION_TEXT_BYTES];
    struct tend_workers *workers = NULL;
    struct buf members, who;
    buf_init(&members);
    buf_init(&who);
    tend_worker_list(cli->store, &workers); /* without it the sentence says less */
    const struct tend_worker *holder = find_holder(workers, lock);
    lock_json(&members, "lock", lock, holder);
    put_holder(&who, lock, holder);
    bool by_time = is_own_by_time(lock);
    int status = cli_fail_more(cli, EXIT_REFUSED, TEND_EBUSY, members.data, "%s and expires %s%s",
                               who.data, coming_text(lock->expires_at_ms, cli_now_ms(cli), when),
                               args.wait_ms > 0 || args.token > 0 ? ""
                               : by_time ? "; release it, or wait for it with --wait"
                                         : "; wait for it with --wait");
    tend_workers_free(workers);
    buf_done(&members);
    buf_done(&who);
    return status;
}

static int run_acquire(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct tend_lock_request request;
    tend_lock_request_init(&request);
    request.name = argv[0];
    request.owner = args.owner;
    request.ttl_ms = args.ttl_ms;
    request.wait_ms = args.wait_ms;
    request.while_pid = args.while_pid;
    request.token = args.token;
    request.flags = args.while_pid ? 0 : TEND_CLAIM_BY_TIME;
    if (args.wait_ms != 0)
        signals_interrupt(cli->store);
    struct tend_lock lock = {.token = 0};
    int code = tend_lock_acquire(cli->store, &request, &lock);
    if (code == TEND_ELEASELOST)
        return cli_fail(cli, code,
                        "lock \"%s\" with token %" PRId64
                        " is no longer held; without --token it is acquired anew",
                        request.name, request.token);
    if (code == TEND_EBUSY && lock.token != 0) /* else it is the store that cannot be written */
        return held_by_other(cli, &lock);
    if (code < 0)
        return cli_fail_store(cli, code);
    const struct tend_worker process = {.pid = args.while_pid, .alive = 1};
    if (!cli->json && lock.expires_at_ms < cli_now_ms(cli)) /* a very short one */
        lock.expired = 1;
    print_lock(cli, &lock, args.while_pid ? &process : NULL);
    cli_did(cli, "lock \"%s\" was acquired under token %" PRId64 ", but the answer", lock.name,
            lock.token);
    return EXIT_DONE;
}

static bool is_free(const struct tend_lock *lock)
{
    return lock->expired && lock->job_id == TEND_UNSET; /* else until the job is taken back */
}

/* Why a lock cannot be released or extended, in words; held: what tend_lock_get said. */
static void put_reason(struct cli *cli, struct buf *out, const char *name, int held,
                       const struct tend_lock *lock)
{
    char span[DURATION_TEXT_BYTES];
    int64_t over_ms = held ? cli_now_ms(cli) - lock->expires_at_ms : 0;
    if (!held)
        buf_printf(out, "nobody holds lock \"%s\"", name);
    else if (is_free(lock))
        buf_printf(out, "lock \"%s\" of %s had expired %s before; it is free", name, lock->owner,
                   span_text(over_ms > 0 ? over_ms : 0, span));
    else if (args.token > 0 && lock->token != args.token)
        buf_printf(out, "lock \"%s\" is held by %s under token %" PRId64 ", not %" PRId64, name,
                   lock->owner, lock->token, args.token);
    else if (strcmp(lock->owner, args.owner) != 0)
        buf_printf(out, "lock \"%s\" is held by %s, not by %s", name, lock->owner, args.owner);
    else
        buf_printf(out, "lock \"%s\" is held with job %" PRId64 " and ends with its lease", name,
                   lock->job_id);
}

/* An answer of "no" says who holds the lock instead. before: as it was, or NULL; one that had
 * expired by then may have been cleaned up since. */
static int answer_no(struct cli *cli, const char *member, const char *name,
                     const struct tend_lock *before)
{
    struct tend_lock lock;
    struct buf why;
    struct buf *out = &cli->out;
    int held = tend_lock_get(cli->store, name, &lock);
    if (held < 0)
        return cli_fail_store(cli, held);
    buf_init(&why);
    bool cleaned = !held && before && cli_now_ms(cli) >= before->expires_at_ms;
    if (cleaned) {
        lock = *before;
        lock.expired = 1;
    }
    put_reason(cli, &why, name, held || cleaned, &lock);
    if (cli->json) {
        json_open(out, NULL, '{');
        json_text(out, "name", name);
        json_bool(out, member, false);
        bool is_held = held && !is_free(&lock);
        json_text(out, "owner", is_held ? lock.owner : NULL);
        json_int_or_null(out, "token", is_held ? lock.token : TEND_UNSET);
        json_text(out, "why", why.data);
        json_close(out, '}');
        buf_putc(out, '\n');
    } else {
        buf_printf(out, "false: %s\n", why.data);
    }
    buf_done(&why);
    return EXIT_REFUSED;
}

static void answer_yes(struct cli *cli, const char *member, const char *name)
{
    cli_did(cli, "lock \"%s\" was %s, but the answer", name, member);
    if (!cli->json) {
        buf_printf(&cli->out, "lock \"%s\" %s\n", name, member);
        return;
    }
    json_open(&cli->out, NULL, '{');
    json_text(&cli->out, "name", name);
    json_bool(&cli->out, member, true);
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
}

static int64_t token_given(void)
{
    return args.token > 0 ? args.token : TEND_UNSET;
}

static int run_release(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct tend_lock before;
    int held = tend_lock_get(cli->store, argv[0], &before);
    int released =
        held < 0 ? held : tend_lock_release_token(cli->store, argv[0], args.owner, token_given());
    if (released < 0)
        return cli_fail_store(cli, released);
    if (released == 0)
        return answer_no(cli, "released", argv[0], held ? &before : NULL);
    answer_yes(cli, "released", argv[0]);
    return EXIT_DONE;
}

static int run_extend(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    int extended =
        tend_lock_extend_token(cli->store, argv[0], args.owner, token_given(), args.ttl_ms);
    if (extended < 0)
        return cli_fail_store(cli, extended);
    if (extended == 0)
        return answer_no(cli, "extended", argv[0], NULL);
    answer_yes(cli, "extended", argv[0]);
    return EXIT_DONE;
}

static int run_show(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    struct tend_lock lock;
    struct tend_workers *workers = NULL;
    int held = tend_lock_get(cli->store, argv[0], &lock);
    if (held > 0 && lock.worker_id != TEND_UNSET) {
        int code = tend_worker_list(cli->store, &workers);
        held = code < 0 ? code : held;
    }
    if (held < 0)
        return cli_fail_store(cli, held);
    if (held) {
        print_lock(cli, &lock, find_holder(workers, &lock));
        tend_workers_free(workers);
        return EXIT_DONE;
    }
    if (cli->json) {
        json_open(&cli->out, NULL, '{');
        json_text(&cli->out, "name", argv[0]);
        json_bool(&cli->out, "held", false);
        json_text(&cli->out, "owner", NULL);
        json_close(&cli->out, '}');
        buf_putc(&cli->out, '\n');
    } else {
        buf_printf(&cli->out, "nobody holds lock \"%s\"\n", argv[0]);
    }
    return EXIT_NOTHING;
}

static const struct column columns[] = {
    {"NAME", COLUMN_WIDE},   {"OWNER", COLUMN_WIDE},   {"TOKEN", COLUMN_RIGHT},
    {"SINCE", COLUMN_RIGHT}, {"EXPIRES", COLUMN_LEFT}, {"JOB", COLUMN_LEFT},
};

static int print_table(struct cli *cli, const struct tend_locks *locks,
                       const struct tend_workers *workers)
{
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof *columns);
    int64_t now_ms = cli_now_ms(cli);
    char when[DURATION_TEXT_BYTES];
    for (size_t i = 0; i < locks->count; i++) {
        const struct tend_lock *lock = &locks->items[i];
        bool dead = is_dead(find_holder(workers, lock));
        table_cell(&table, COLOR_NONE, "%s", lock->name);
        table_cell(&table, COLOR_NONE, "%s", lock->owner);
        table_number(&table, COLOR_NONE, lock->token);
        table_cell(&table, COLOR_DIM, "%s", relative_text(lock->acquired_at_ms, now_ms, when));
        end_text(lock, now_ms, when);
        if (lock->expired)
            table_cell(&table, COLOR_RED, "expired %s", when);
        else if (dead)
            table_cell(&table, COLOR_RED, "its process has ended");
        else
            table_cell(&table, COLOR_NONE, "%s", when);
        table_number(&table, COLOR_NONE, lock->job_id);
    }
    int status = table_print(&table, cli);
    table_done(&table);
    return status;
}

static int run_ls(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct tend_locks *locks = NULL;
    struct tend_workers *workers = NULL;
    int code = tend_lock_list(cli->store, &locks);
    if (code >= 0)
        code = tend_worker_list(cli->store, &workers);
    int status = code < 0 ? cli_fail_store(cli, code) : EXIT_DONE;
    for (size_t i = 0; code >= 0 && cli->json && i < locks->count; i++) {
        lock_json(&cli->out, NULL, &locks->items[i], find_holder(workers, &locks->items[i]));
        buf_putc(&cli->out, '\n');
    }
    if (code >= 0 && !cli->json)
        status = print_table(cli, locks, workers);
    tend_locks_free(locks);
    tend_workers_free(workers);
    return status;
}

static const struct command acquire = {
    .name = "acquire",
    .form = "NAME",
    .text = "take a lock, or refresh one's own",
    .about =
        "Exit status 4 when somebody else holds it, or with --token when that lock is no longer held. The token only grows: whatever the lock guards can "
        "refuse a token below the last it has seen. With --while-pid the holder is that process: even another "
        "caller with the same --owner is refused.",
    .examples = "tend lock acquire deploy -w $(hostname):$$ --while-pid $$ --wait=10m",
    .options = acquire_options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_MADE,
    .run = run_acquire,
};

static const struct command release = {
    .name = "release",
    .form = "NAME",
    .text = "give a lock back",
    .about =
        "Only its holder can release it. When it has expired, nobody holds it, or somebody else does, nothing changes: false is printed on "
        "standard output, without an error, and the exit status is 4. "
        "With --token, which acquire prints, a lock that the same owner has taken anew since is left alone.",
    .options = release_options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_release,
};

static const struct command extend = {
    .name = "extend",
    .form = "NAME",
    .text = "hold a lock for longer, from now",
    .about =
        "When it has expired, nobody holds it, somebody else does, or its process has ended, nothing changes: false is "
        "printed on standard output, without an error, and the exit status is 4.",
    .options = extend_options,
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_extend,
};

static const struct command show = {
    .name = "show",
    .form = "NAME",
    .text = "who holds a lock; exit status 5 when nobody does",
    .about =
        "A lock that has expired, or whose process (--while-pid) has ended, is still shown until somebody takes it or "
        "cleans it up, with its last holder, as one that was held (\"held\": false in JSON); the exit status is then 0.",
    .args_min = 1,
    .args_max = 1,
    .store = STORE_EXISTING,
    .run = run_show,
};

static const struct command ls = {
    .name = "ls",
    .aliases = "list",
    .text = "list the locks, also those that expired and were not cleaned up yet",
    .store = STORE_EXISTING,
    .run = run_ls,
};

static const struct command *const subcommands[] = {&acquire, &release, &extend, &show, &ls, NULL};

const struct command cmd_lock = {
    .name = "lock",
    .group = "Operation",
    .text = "named locks with an owner and an end",
    .subcommands = subcommands,
};
