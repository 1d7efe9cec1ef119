/* core/state: the job state machine. */
#include "core/state.h"
#include "unit/case.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>

TEST(state, names_are_read_back)
{
    check_int(state_count(), ==, 7);
    for (int i = 0; i < state_count(); i++) {
        enum job_state state = JOB_NONE;
        check_int(state_parse(state_name((enum job_state)i), &state), ==, 0);
        check_int(state, ==, i);
    }
    enum job_state state = JOB_HELD;
    check_int(state_parse("none", &state), ==, TEND_EINVAL);
    check_int(state_parse("Pending", &state), ==, TEND_EINVAL);
    check_int(state_parse("", &state), ==, TEND_EINVAL);
    check_int(state_parse(NULL, &state), ==, TEND_EINVAL);
    check_int(state, ==, JOB_HELD);
    check_str(state_name(JOB_NONE), "none");
    check(state_name((enum job_state)7) == NULL);
    check(state_name((enum job_state) - 2) == NULL);
    check_str(move_name(MOVE_RELEASE_LATER), "release_later");
    check(move_name((enum job_move)JOB_MOVES) == NULL);
    check(move_name((enum job_move) - 1) == NULL);
}

TEST(state, every_verb_has_a_name_of_its_own_and_a_row)
{
    for (int verb = 0; verb < JOB_MOVES; verb++) {
        const struct state_row *row;
        int rows = 0;
        for (int from = JOB_NONE; from < JOB_STATES; from++)
            rows += state_move((enum job_state)from, (enum job_move)verb, &row) == 0;
        check_case(rows > 0, move_name((enum job_move)verb));
        for (int other = 0; other < verb; other++)
            check(strcmp(move_name((enum job_move)verb), move_name((enum job_move)other)) != 0);
    }
}

TEST(state, a_state_and_a_verb_lead_to_one_state)
{
    size_t rows;
    const struct state_row *table = state_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < i; j++)
            check(table[i].from != table[j].from || table[i].verb != table[j].verb);
        const struct state_row *found;
        check_int(state_move(table[i].from, table[i].verb, &found), ==, 0);
        check(found == &table[i]);
    }
}

TEST(state, only_a_running_job_has_a_lease_to_end)
{
    size_t rows;
    const struct state_row *table = state_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        const struct state_row *row = &table[i];
        check_case(row->lease_ends == (row->from == JOB_RUNNING), row->event);
        /* Fencing (RC-11): whoever is not the owner and ends a lease makes its token worthless. */
        check_case(row->bumps_token == (row->lease_ends && !row->by_owner), row->event);
        check_case(!row->by_owner || row->from == JOB_RUNNING, row->event);
        check_case(row->to != JOB_NONE, row->event);
        check_case((row->to == JOB_RUNNING) == (row->verb == MOVE_CLAIM), row->event);
        check_case(strncmp(row->event, "job.", 4) == 0, row->event);
    }
}

TEST(state, only_what_the_owner_reports_needs_its_token)
{
    /* RC-11; recovery, an operator's hold and a cancel must work without the owner. */
    size_t rows;
    const struct state_row *table = state_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        enum job_move verb = table[i].verb;
        bool owners = verb == MOVE_COMPLETE || verb == MOVE_FAIL || verb == MOVE_RETRY_LATER ||
                      verb == MOVE_RELEASE || verb == MOVE_RELEASE_LATER;
        check_case_int(table[i].by_owner, owners, move_name(verb));
    }
}

TEST(state, all_pairs_of_states_are_as_drawn)
{
    /* Rows: from; columns: to, in the order of the enum. */
    static const char *const drawn[] = {
        /* scheduled */ "SP.H..C",
        /* pending   */ "SPRH..C",
        /* running   */ "SP.HDFC",
        /* held      */ "SP....C",
        /* done      */ ".......",
        /* failed    */ ".P.....",
        /* cancelled */ "SP.....",
    };
    for (int from = 0; from < JOB_STATES; from++)
        for (int to = 0; to < JOB_STATES; to++)
            check_case_int(state_allows((enum job_state)from, (enum job_state)to),
                           drawn[from][to] != '.', state_name((enum job_state)from));
    for (int to = 0; to < JOB_STATES; to++)
        check_int(state_allows(JOB_NONE, (enum job_state)to), ==,
                  to == JOB_PENDING || to == JOB_SCHEDULED);
}

TEST(state, moves_that_are_not_in_the_table_are_refused)
{
    static const struct {
        enum job_state from;
        enum job_move verb;
    } cases[] = {
        {JOB_PENDING, MOVE_COMPLETE},   {JOB_SCHEDULED, MOVE_CLAIM}, {JOB_HELD, MOVE_CLAIM},
        {JOB_DONE, MOVE_REDRIVE},       {JOB_DONE, MOVE_CANCEL},     {JOB_RUNNING, MOVE_CLAIM},
        {JOB_HELD, MOVE_HOLD},          {JOB_PENDING, MOVE_RECOVER}, {JOB_FAILED, MOVE_CANCEL},
        {JOB_RUNNING, MOVE_REDRIVE},    {JOB_PENDING, MOVE_ADD},     {JOB_NONE, MOVE_CLAIM},
        {JOB_RUNNING, MOVE_RESCHEDULE},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        const struct state_row *row = NULL;
        check_case_int(state_move(cases[i].from, cases[i].verb, &row), TEND_ESTATE,
                       move_name(cases[i].verb));
        check(row == NULL);
    }
    const struct state_row *row = NULL;
    check_int(state_move((enum job_state)99, MOVE_CLAIM, &row), ==, TEND_EINVAL);
    check_int(state_move(JOB_PENDING, (enum job_move)99, &row), ==, TEND_EINVAL);
    check(row == NULL);
}

TEST(state, finished_states_are_those_without_a_future_of_their_own)
{
    for (int i = JOB_NONE; i < JOB_STATES; i++)
        check_int(state_is_finished((enum job_state)i), ==,
                  i == JOB_DONE || i == JOB_FAILED || i == JOB_CANCELLED);
}

/* One bit per row of the table that the comment in state.c lists. */
static uint64_t listed_rows(FILE *source)
{
    uint64_t seen = 0;
    char line[256];
    while (fgets(line, sizeof line, source)) {
        char from[32], to[32], verb[32];
        if (sscanf(line, " * %31[a-z] -> %31[a-z] [%31[a-z_]]", from, to, verb) != 3)
            continue;
        size_t rows, found = 0;
        const struct state_row *table = state_table(&rows);
        for (size_t i = 0; i < rows; i++) {
            if (strcmp(state_name(table[i].from), from) == 0 &&
                strcmp(state_name(table[i].to), to) == 0 &&
                strcmp(move_name(table[i].verb), verb) == 0) {
                seen |= UINT64_C(1) << i;
                found++;
            }
        }
        check_case(found == 1, line);
    }
    return seen;
}

TEST(state, the_list_in_the_comment_is_the_table)
{
    char path[4096];
    const char *root = getenv("TEND_SOURCE");
    check(root != NULL);
    snprintf(path, sizeof path, "%s/src/core/state.c", root);
    FILE *source = fopen(path, "r");
    check(source != NULL);
    uint64_t seen = listed_rows(source);
    fclose(source);
    size_t rows;
    state_table(&rows);
    check(seen == (UINT64_C(1) << rows) - 1);
}
