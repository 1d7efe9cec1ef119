/* What attempts write, piece by piece, as their worker has captured and redacted it. */
#include "base/text.h"
#include "core/state.h"
#include "queue/lease.h"
#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>
#include <string.h>

struct append_call {
    struct tend_lease lease;
    int64_t number;
    const struct tend_output *pieces;
    size_t count;
    int64_t *changed;
};

/* As the stores take it: neither bytes that are no UTF-8, nor NUL, which PostgreSQL has no room
 * for. */
static struct db_value clean_piece(struct arena *arena, const struct tend_output *piece)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const char *text = piece->text != NULL ? piece->text : "";
    size_t len = piece->text != NULL ? piece->text_bytes : 0;
    if (utf8_valid(text, len) && memchr(text, '\0', len) == NULL)
        return db_text_n(text, len);
    char *clean = arena_alloc(arena, len * (sizeof replacement - 1) + 1);
    if (clean == NULL)
        return db_null();
    char *end = clean;
    for (size_t at = 0; at < len;) {
        size_t sequence = text[at] == '\0' ? 0 : utf8_sequence(text + at, len - at);
        end = sequence == 0 ? stpcpy(end, replacement) : mempcpy(end, text + at, sequence);
        at += sequence == 0 ? 1 : sequence;
    }
    return db_text_n(clean, (size_t)(end - clean));
}

static int append_body(struct db_tx *tx, void *arg)
{
    struct append_call *call = arg;
    struct arena *arena = db_arena(tx);
    struct output_add_params *params = arena_alloc(arena, call->count * sizeof *params);
    if (params == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu pieces of output",
                       call->count);
    for (size_t i = 0; i < call->count; i++) {
        const struct tend_output *piece = &call->pieces[i];
        params[i] = (struct output_add_params){
            .job_id = db_int(call->lease.id),
            .token = db_int(call->lease.token),
            .number = db_int(call->number),
            .seq = db_int(piece->seq),
            .at = db_int_or_null(piece->at_ms),
            .stream = db_int(piece->stream),
            .dropped_bytes = db_int(piece->dropped_bytes),
            .text = clean_piece(arena, piece),
            .now = db_now(tx),
        };
        if (params[i].text.type == DB_NULL)
            return err_set(db_err(tx), TEND_ENOMEM, "out of memory with %zu bytes of output",
                           piece->text_bytes);
    }
    return each_output_add(tx, DB_LAST, params, call->count, call->changed);
}

static int check_pieces(tend *t, int64_t number, const struct tend_output *pieces, size_t count)
{
    if (number < 1)
        return handle_fail(t, TEND_EINVAL, "%lld is no number of an attempt; they count from 1",
                           (long long)number);
    for (size_t i = 0; i < count; i++)
        if (pieces[i].seq < 1 || pieces[i].dropped_bytes < 0 || pieces[i].stream < 0 ||
            pieces[i].stream > 2)
            return handle_fail(t, TEND_EINVAL,
                               "piece %zu of the output cannot be: seq %lld must be 1 or more, "
                               "stream %d 0 to 2, bytes dropped %lld 0 or more",
                               i + 1, (long long)pieces[i].seq, pieces[i].stream,
                               (long long)pieces[i].dropped_bytes);
    return 0;
}

int tend_output_append(tend *t, struct tend_lease lease, int64_t number,
                       const struct tend_output *pieces, size_t count)
{
    struct append_call call = {.lease = lease, .number = number, .pieces = pieces, .count = count};
    int rc = check_pieces(t, number, pieces, count);
    if (rc < 0 || count == 0)
        return rc;
    call.changed = calloc(count, sizeof *call.changed);
    if (call.changed == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory with %zu pieces of output", count);
    rc = handle_write(t, append_body, &call);
    int64_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= call.changed[i];
    free(call.changed);
    /* Held and nothing new: the same call went through before. */
    return rc < 0 ? rc : lease_verdict(t, &lease, &any, LEASE_LOOK);
}

struct discard_call {
    struct tend_lease lease;
    int64_t number, from_seq, to_seq, bytes;
    int64_t gone; /* 0: there was nothing, or the lease is not held */
};

/* Only what is really deleted is noted, so that a repeated call counts nothing twice. */
static int discard_body(struct db_tx *tx, void *arg)
{
    struct discard_call *call = arg;
    const struct output_discard_params range = {.job_id = db_int(call->lease.id),
                                                .token = db_int(call->lease.token),
                                                .number = db_int(call->number),
                                                .from_seq = db_int(call->from_seq),
                                                .before_seq = db_int(call->to_seq)};
    const struct output_note_discard_params note = {.job_id = range.job_id,
                                                    .token = range.token,
                                                    .number = range.number,
                                                    .seq = range.before_seq,
                                                    .dropped_bytes = db_int(call->bytes)};
    call->gone = 0;
    int rc = each_output_discard(tx, 0, &range, 1, &call->gone);
    return rc < 0 || call->gone == 0 ? rc : each_output_note_discard(tx, DB_LAST, &note, 1, NULL);
}

int tend_output_discard(tend *t, struct tend_lease lease, int64_t number, int64_t from_seq,
                        int64_t to_seq, int64_t bytes)
{
    struct discard_call call = {
        .lease = lease, .number = number, .from_seq = from_seq, .to_seq = to_seq, .bytes = bytes};
    int rc = handle_write(t, discard_body, &call);
    return rc < 0 ? rc : lease_verdict(t, &lease, &call.gone, LEASE_LOOK);
}

/* --- reading --- */

struct outputs_box {
    struct tend_outputs outputs; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_outputs_free(struct tend_outputs *outputs)
{
    struct outputs_box *box = (struct outputs_box *)outputs;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

struct read_call {
    struct outputs_box *box;
    int64_t job_id, after_number, after_seq;
    size_t limit;
};

static struct tend_output read_piece(const struct output_read_row *row)
{
    return (struct tend_output){
        .number = db_num(row->number),
        .seq = db_num(row->seq),
        .at_ms = db_num(row->at),
        .stream = (int)db_num(row->stream),
        .dropped_bytes = db_num(row->dropped_bytes),
        .text = db_str(row->text),
        .text_bytes = row->text.bytes,
    };
}

static int read_body(struct db_tx *tx, void *arg)
{
    struct read_call *call = arg;
    struct output_read_rows rows;
    const struct output_read_params params = {.job_id = db_int(call->job_id),
                                              .after_number = db_int(call->after_number),
                                              .after_seq = db_int(call->after_seq),
                                              .limit = db_int(page_limit(call->limit))};
    int rc = run_output_read(tx, DB_LAST, params, &rows);
    if (rc < 0)
        return rc;
    struct tend_output *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while reading output");
    for (size_t i = 0; i < rows.count; i++)
        items[i] = read_piece(&rows.at[i]);
    call->box->outputs = (struct tend_outputs){.count = rows.count, .items = items};
    return 0;
}

int tend_output_read(tend *t, int64_t job_id, int64_t after_number, int64_t after_seq, size_t limit,
                     struct tend_outputs **ret)
{
    struct read_call call = {.box = calloc(1, sizeof *call.box),
                             .job_id = job_id,
                             .after_number = after_number,
                             .after_seq = after_seq,
                             .limit = limit};
    if (call.box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while reading output");
    arena_init(&call.box->arena);
    int rc = db_read(t->db, &call.box->arena, read_body, &call, handle_err(t));
    if (rc < 0)
        tend_outputs_free(&call.box->outputs);
    else
        *ret = &call.box->outputs;
    return rc;
}
