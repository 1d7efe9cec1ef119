/* The end of a failed attempt's output: see logs_print_tail. */
#include "cli/cli.h"
#include "cli/logs.h"

enum { TAIL_SHOWN_LINES = 20, TAIL_PIECES = 200, TAIL_PAGE = 1000 };

/* Where the last lines begin; the end of the very last one does not count. */
static void find_tail(const struct tend_output *pieces, size_t count, size_t *ret_piece,
                      size_t *ret_at)
{
    int ends = 0;
    bool is_last = true;
    *ret_piece = *ret_at = 0;
    for (size_t i = count; i-- > 0;) {
        for (size_t at = pieces[i].text_bytes; at-- > 0; is_last = false) {
            if (pieces[i].text[at] != '\n' || is_last || ++ends < TAIL_SHOWN_LINES)
                continue;
            *ret_piece = i;
            *ret_at = at + 1;
            return;
        }
    }
}

static void put_tail(struct cli *cli, const struct tend_attempt *attempt,
                     const struct tend_outputs *pieces)
{
    struct logs_text text;
    size_t first, begin;
    size_t count = 0;
    while (count < pieces->count && pieces->items[count].number == attempt->number)
        count++;
    if (count == 0)
        return;
    find_tail(pieces->items, count, &first, &begin);
    logs_text_init(&text, cli, false);
    logs_text_header(&text, attempt, true);
    for (size_t i = first; i < count; i++) {
        struct tend_output piece = pieces->items[i];
        if (i == first && begin > 0) {
            piece.text += begin;
            piece.text_bytes -= begin;
            piece.dropped_bytes = 0;
        }
        logs_text_piece(&text, &piece);
    }
    logs_text_break(&text);
}

/* The number of the attempt's last piece, 0: it has none. */
static int64_t last_seq(struct cli *cli, int64_t job_id, int64_t number)
{
    struct tend_outputs *pieces;
    int64_t last = 0;
    bool more = true;
    while (more && tend_output_read(cli->store, job_id, number, last, TAIL_PAGE, &pieces) >= 0) {
        more = pieces->count == TAIL_PAGE;
        for (size_t i = 0; i < pieces->count; i++) {
            if (pieces->items[i].number == number)
                last = pieces->items[i].seq;
            else
                more = false;
        }
        tend_outputs_free(pieces);
    }
    return last;
}

static const struct tend_attempt *last_failed(const struct tend_attempts *attempts)
{
    for (size_t i = attempts->count; i > 0; i--)
        if (attempts->items[i - 1].state == TEND_ATTEMPT_FAILED)
            return &attempts->items[i - 1];
    return NULL;
}

void logs_print_tail(struct cli *cli, int64_t job_id)
{
    struct tend_attempts *attempts;
    struct tend_outputs *pieces;
    if (tend_attempts(cli->store, job_id, &attempts) < 0)
        return; /* 'tend logs' has it all */
    const struct tend_attempt *attempt = last_failed(attempts);
    int64_t last = attempt ? last_seq(cli, job_id, attempt->number) : 0;
    int64_t before = last > TAIL_PIECES ? last - TAIL_PIECES : 0;
    if (last > 0 &&
        tend_output_read(cli->store, job_id, attempt->number, before, TAIL_PIECES, &pieces) >= 0) {
        put_tail(cli, attempt, pieces);
        tend_outputs_free(pieces);
    }
    tend_attempts_free(attempts);
    cli_flush(cli);
}
