/*
 * What the tests of the store suite share: a fresh store for each test on the engine named by
 * TEND_TEST_STORE (sqlite, the default, or postgres), a clock that only the test moves, short words
 * for what most tests do, processes that can be killed, and the database itself behind tend's back.
 *
 * Every test is a process with a folder of its own (test.h); its store is named after its process
 * group, so that processes it forks find the same one. Whatever these functions return lives until
 * the test ends. A call that must succeed and does not fails the test.
 */
#ifndef TEND_TEST_STORE_H
#define TEND_TEST_STORE_H

#include "support/test.h"

#include <stdint.h>
#include <sys/types.h>
#include <tend.h>

#define SECOND_MS 1000LL
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

/* How long a test waits for what another thread or process does before it gives up. */
#define PATIENCE_MS 30000

/* --- the store --- */

bool store_is_postgres(void);
const char *store_url(void);
const char *store_path(void); /* the file of an SQLite store */

/* A handle with the fake clock, and one with the real one. Closed when the test ends, if not
 * before. */
tend *store_open(const char *name);
tend *store_open_real(const char *name);
/* As store_open; a write waits for others for busy_ms. */
tend *store_open_busy(const char *name, int64_t busy_ms);
tend *store_open_with(const struct tend_options *options);
void store_close(tend *t);

/* The options store_open uses. */
struct tend_options store_options(const char *name);

/* Lines a handle opened by store_open has logged, all in one text, over all handles. */
const char *store_log(void);

/* --- the clock, shared by all processes of the test --- */

#define CLOCK_START_MS 1700000000000LL /* 2023-11-14 22:13:20 UTC */

int64_t clock_now(void);
void clock_advance(int64_t ms); /* backwards when negative */
void clock_set(int64_t ms);
int64_t clock_read(void *unused); /* for struct tend_options */

/* --- checks with the handle's sentence when they fail --- */

#define check_rc(t, actual, expected)                                                              \
    store_check_rc(__FILE__, __LINE__, #actual, (t), (actual), (expected))
#define check_ok(t, actual) check_rc(t, actual, 0)
int store_check_rc(const char *file, int line, const char *what, tend *t, int actual, int expected);

/* --- jobs --- */

struct tend_job_spec spec_for(const char *queue);
int64_t add_one(tend *t, const char *queue);
int64_t add_spec(tend *t, const struct tend_job_spec *spec);
void add_number(tend *t, const char *queue, size_t count);

const struct tend_job *job_of(tend *t, int64_t id);
int state_of(tend *t, int64_t id);

/* The names of a job's events in order: "job.added job.claimed". */
const char *events_of(tend *t, int64_t id);
const struct tend_event *last_event_of(tend *t, int64_t id);
/* How many events of this name the store has. */
int64_t count_events(const char *what);

/* --- claims --- */

struct tend_claim claim_for(const char *queue);
/* Exactly one job must come. */
struct tend_lease claim_one(tend *t, const char *queue);
struct tend_lease claim_as(tend *t, const char *queue, const char *owner);
struct tend_lease claim_with(tend *t, const struct tend_claim *claim);
/* Up to count; how many came. leases may be NULL. */
size_t claim_many(tend *t, const char *queue, size_t count, struct tend_lease *leases);
/* Nothing must come; the answer's code. */
struct tend_none claim_none(tend *t, const char *queue);

struct tend_lease lease_of(const struct tend_job *job);

void set_queue(tend *t, const char *queue, const char *setting, const char *value);
struct tend_recovery recover_now(tend *t);
/*
 * RC-3: readers call nothing expired. They did where the next writer was to move leases and locks,
 * and nobody would take one.
 */
void check_nothing_announced(tend *t, int64_t running_id);
/* How many it changed. */
int64_t act_on_all(tend *t, enum tend_action action, const struct tend_filter *filter,
                   const char *by, const char *why);

/* --- processes --- */

struct helper {
    pid_t pid;
    int read_fd, write_fd; /* to the other side */
};

/* Forks a process that runs body and ends; it must open handles of its own. */
struct helper helper_start(void (*body)(struct helper *parent, void *arg), void *arg);
void helper_say(struct helper *other, int64_t number);
int64_t helper_hear(struct helper *other);
/* Ends it with SIGKILL and waits until it is gone. */
void helper_kill(struct helper *helper);
/* Waits until it has ended by itself, with status 0. */
void helper_join(struct helper *helper);

/* --- the database itself --- */

/* Statements; printf's format. */
void sql_exec(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* False when the database refuses. */
bool sql_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t sql_int(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* All rows as text: columns parted by "|", rows by newlines. */
const char *sql_rows(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Everything in the store but the workers: equal texts, nothing has changed. */
const char *store_snapshot(void);

/* Makes every change of a job from one state to another fail inside the database. */
void sql_forbid_move(int from_state, int to_state);
/* Refuses new jobs for which the condition on NEW holds, inside the database; until
 * sql_allow_jobs. */
void sql_forbid_jobs(const char *condition);
void sql_allow_jobs(void);

/* Another program that keeps everybody from writing to the table, or on SQLite to the store, until
 * it is told to end. */
struct helper sql_lock_start(const char *table);
void sql_lock_end(struct helper *locker);

/* A text that lives until the test ends. */
char *keep_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What store.c and store_sql.c share. */
const char *store_schema(void);
void store_sql_close(void);

#endif
