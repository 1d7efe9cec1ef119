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

static int totals_body(struct db_tx *tx, void *arg)
{
    struct totals_box *box = arg;
    struct db_result rows;
    int rc = db_run(tx, Q_STEP_TOTALS, DB_LAST, NULL, &rows);
    if (rc < 0)
        return rc;
    struct tend_step_total *items = arena_alloc(db_arena(tx), (rows.rows + 1) * sizeof *items);
    if (items == NULL)
        return err_set(db_err(tx), TEND_ENOMEM, "out of memory while counting attempts");
    for (size_t i = 0; i < rows.rows; i++)
        items[i] = (struct tend_step_total){
            .failure_class = db_string(&rows, i, 0),
            .strategy = db_string(&rows, i, 1),
            .outcome = db_string(&rows, i, 2),
            .count = db_number(&rows, i, 3),
            .duration_ms = db_number(&rows, i, 4),
            .idle_timeouts = db_number(&rows, i, 5),
            .wall_timeouts = db_number(&rows, i, 6),
            .no_progress = db_number(&rows, i, 7),
        };
    box->totals = (struct tend_step_totals){.count = rows.rows, .items = items};
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
