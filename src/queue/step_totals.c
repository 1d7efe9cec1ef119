/*
 * Figures of steps (SH-14): the same that a worker sends to a StatsD server, of all workers and of
 * all time.
 *
 * Not counted while attempts end, which would make all workers write one row: the attempts are
 * counted when somebody asks, and those of a job that is deleted go into step_total in the same
 * transaction.
 */
#include "queue/handle.h"
#include "queue/row.h"
#include "store/queries.h"

#include <stdlib.h>

struct totals_box {
    struct tend_step_totals totals; /* first: a pointer to it is a pointer to its box */
    struct arena arena;
};

void tend_step_totals_free(struct tend_step_totals *totals)
{
    struct totals_box *box = (struct totals_box *)totals;
    if (box == NULL)
        return;
    arena_done(&box->arena);
    free(box);
}

static struct tend_step_total read_total(const struct step_totals_row *row)
{
    return (struct tend_step_total){
        .failure_class = db_str(row->failure_class),
        .strategy = db_str(row->strategy),
        .outcome = db_str(row->outcome),
        .count = db_num(row->summed.attempts),
        .duration_ms = db_num(row->summed.duration_ms),
        .idle_timeouts = db_num(row->summed.idle_timeouts),
        .wall_timeouts = db_num(row->summed.wall_timeouts),
        .no_progress = db_num(row->summed.no_progress),
    };
}

static int totals_body(struct db_tx *tx, void *arg)
{
    struct totals_box *box = arg;
    struct step_totals_rows rows;
    int rc = run_step_totals(tx, DB_LAST, &rows);
    if (rc < 0)
        return rc;
    struct tend_step_total *items = arena_alloc(db_arena(tx), (rows.count + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while counting attempts");
    for (size_t i = 0; i < rows.count; i++)
        items[i] = read_total(&rows.at[i]);
    box->totals = (struct tend_step_totals){.count = rows.count, .items = items};
    return 0;
}

int tend_step_totals(tend *t, struct tend_step_totals **ret)
{
    struct totals_box *box = calloc(1, sizeof *box);
    if (box == NULL)
        return handle_fail(t, TEND_ENOMEM, "out of memory while counting attempts");
    arena_init(&box->arena);
    int rc = db_read(t->db, &box->arena, totals_body, box, handle_err(t));
    if (rc < 0)
        tend_step_totals_free(&box->totals);
    else
        *ret = &box->totals;
    return rc;
}
