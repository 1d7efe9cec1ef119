/* The pieces of an attempt's output as text, for logs.c. */
#ifndef CLI_LOGS_TEXT_H
#define CLI_LOGS_TEXT_H

#include <stdbool.h>
#include <tend.h>

struct cli;

struct logs_text {
    struct cli *cli;
    bool terminal;   /* both streams go to standard output, made safe */
    bool stamps;     /* each line behind its time */
    bool in_line[3]; /* per stream: the last piece did not end its line */
    int last_stream; /* of the piece before; -1: none */
};

void logs_text_init(struct logs_text *text, struct cli *cli, bool stamps);

/* One piece, with a note before it where something is left out. */
void logs_text_piece(struct logs_text *text, const struct tend_output *piece);

/* A line of ours between pieces: what comes now is of this attempt. with_state: as it is known now.
 */
void logs_text_header(struct logs_text *text, const struct tend_attempt *attempt, bool with_state);

/* Ends a line of standard output that is not ended: something else follows. */
void logs_text_break(struct logs_text *text);

#endif
