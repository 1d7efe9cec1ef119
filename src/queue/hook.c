/* Hooks are set, listed and removed. What they do: hook_call.c. */
#include "queue/hook.h"

#include "base/buf.h"
#include "base/text.h"
#include "core/spec.h"
#include "queue/event.h"
#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>
#include <string.h>

const struct hook_word hook_words[] = {
    {HOOK_FAILED, "failed"},
    {HOOK_POISON, "poison"},
    {HOOK_EXHAUSTED, "exhausted"},
    {0, NULL},
};

static unsigned bit_of(const char *word, size_t len)
{
    for (const struct hook_word *known = hook_words; known->word != NULL; known++)
        if (strlen(known->word) == len && memcmp(known->word, word, len) == 0)
            return known->bit;
    return 0;
}

unsigned hook_read_words(const char *words)
{
    unsigned bits = 0;
    for (const char *at = words;; at++) {
        size_t len = strcspn(at, ",");
        unsigned bit = bit_of(at, len);
        if (bit == 0)
            return 0;
        bits |= bit;
        at += len;
        if (*at == '\0')
            return bits;
    }
}

static const char *write_words(struct arena *arena, unsigned bits)
{
    const char *words = NULL;
    for (const struct hook_word *known = hook_words; known->word != NULL; known++)
        if ((bits & known->bit) != 0)
            words = words == NULL ? known->word : arena_printf(arena, "%s,%s", words, known->word);
    return words;
}

/* --- setting --- */

struct put_call {
    const struct tend_hook *hook;
    const char *by;
    int64_t removed;
};

static const char *queue_of(const struct tend_hook *hook)
{
    return hook->queue != NULL       ? hook->queue
           : hook->for_queue != NULL ? hook->for_queue
                                     : "default";
}

static int check_plan(const char *payload, struct err *err)
{
    struct arena arena;
    struct job_plan plan;
    arena_init(&arena);
    int rc = spec_parse_plan(payload, strlen(payload), NULL, &arena, &plan, err);
    arena_done(&arena);
    return rc < 0 ? rc : 0;
}

int hook_check(const struct tend_hook *hook, struct err *err)
{
    int rc = name_check("hook", hook->name != NULL ? hook->name : "", err);
    if (rc == 0 && (hook->on == NULL || hook_read_words(hook->on) == 0))
        rc = err_set(err, TEND_EINVAL,
                     "a hook cannot be for '%.80s'; give failed, poison or exhausted, with commas "
                     "between",
                     hook->on != NULL ? hook->on : "");
    if (rc == 0 && hook->for_queue != NULL)
        rc = name_check("queue", hook->for_queue, err);
    if (rc == 0 && hook->queue != NULL)
        rc = name_check("queue", hook->queue, err);
    if (rc == 0 && hook->workspace != NULL && !utf8_valid(hook->workspace, strlen(hook->workspace)))
        rc = err_set(err, TEND_EINVAL, "the workspace is not valid UTF-8 text");
    return rc < 0 ? rc : check_plan(hook->payload != NULL ? hook->payload : "{}", err);
}

static int put_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct tend_hook *hook = call->hook;
    const struct hook_put_params params = {
        .name = db_text(hook->name),
        .on_what = db_text(write_words(db_arena(tx), hook_read_words(hook->on))),
        .for_queue = db_text(hook->for_queue),
        .queue = db_text(queue_of(hook)),
        .payload = db_text(hook->payload),
        .workspace = db_text(hook->workspace),
        .now = db_now(tx),
        .who = db_text(call->by),
    };
    int rc = each_hook_put(tx, DB_LATER, &params, 1, NULL);
    if (rc < 0)
        return rc;
    const struct event_note event = {
        .who = call->by, .what = "hook.set", .why = hook->name, .queue = hook->for_queue};
    return event_add(tx, &event, DB_LAST);
}

int tend_hook_put(tend *t, const struct tend_hook *hook, const char *by)
{
    struct put_call call = {.hook = hook, .by = handle_owner(t, by)};
    int rc = hook_check(hook, handle_err(t));
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    return rc < 0 ? rc : handle_write(t, put_body, &call);
}

/* --- removing --- */

static int remove_body(struct db_tx *tx, void *arg)
{
    struct put_call *call = arg;
    const struct hook_remove_params params = {.name = db_text(call->hook->name)};
    int rc = each_hook_remove(tx, 0, &params, 1, &call->removed);
    if (rc < 0 || call->removed == 0)
        return rc;
    const struct event_note event = {
        .who = call->by, .what = "hook.removed", .why = call->hook->name};
    return event_add(tx, &event, DB_LAST);
}

int tend_hook_remove(tend *t, const char *name, const char *by)
{
    const struct tend_hook hook = {.name = name};
    struct put_call call = {.hook = &hook, .by = handle_owner(t, by)};
    int rc = handle_check_name(t, "hook", name);
    if (rc == 0 && by != NULL)
        rc = handle_check_name(t, "person or program", by);
    if (rc == 0)
        rc = handle_write(t, remove_body, &call);
    if (rc < 0 || call.removed != 0)
        return rc;
    return handle_fail(t, TEND_ENOTFOUND, "there is no hook '%s'; 'tend notify ls' lists them",
                       name);
}

/* --- listing --- */

struct hooks_box {
    struct tend_hooks hooks; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_hooks_free(struct tend_hooks *hooks)
{
    struct hooks_box *box = (struct hooks_box *)hooks;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static struct tend_hook read_hook(const struct hook_list_row *row)
{
    return (struct tend_hook){
        .name = db_str(row->name),
        .on = db_str(row->on_what),
        .for_queue = db_str(row->for_queue),
        .queue = db_str(row->queue),
        .payload = db_str(row->payload),
        .workspace = db_str(row->workspace),
        .at_ms = db_num(row->at),
        .by = db_str(row->who),
    };
}

static int list_body(struct db_tx *tx, void *arg)
{
    struct hooks_box *box = arg;
    struct hook_list_rows rows;
    int rc = run_hook_list(tx, DB_LAST, &rows);
    if (rc < 0)
        return rc;
    struct tend_hook *items = arena_alloc(&box->arena, (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while listing hooks");
    for (size_t i = 0; i < rows.count; i++)
        items[i] = read_hook(&rows.at[i]);
    box->hooks = (struct tend_hooks){.count = rows.count, .items = items};
    return 0;
}

int tend_hook_list(tend *t, struct tend_hooks **ret)
{
    struct hooks_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while listing hooks");
    arena_init(&box->arena);
    int rc = db_read(t->db, &box->arena, list_body, box, handle_err(t));
    if (rc < 0)
        tend_hooks_free(&box->hooks);
    else
        *ret = &box->hooks;
    return rc;
}
