/* What the parts of sqlgen share: the queries as read from the files. */
#ifndef TOOLS_SQLGEN_H
#define TOOLS_SQLGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    QUERIES_MAX = 400,
    DEFINES_MAX = 80,
    PARAMS_MAX = 40,
    COLUMNS_MAX = 60,
    STATES_MAX = 16,
    TEXT_MAX = 16384,
    NAME_MAX_BYTES = 64
};

struct text {
    char data[TEXT_MAX];
    size_t len;
};

struct define {
    char name[NAME_MAX_BYTES];
    struct text text;
    bool written; /* as a struct */
};

struct columns {
    struct column {
        char name[NAME_MAX_BYTES];
        struct define *group; /* or NULL */
    } all[COLUMNS_MAX];
    size_t count;
};

struct query {
    char name[NAME_MAX_BYTES];
    char doing[2][NAME_MAX_BYTES]; /* what a sentence says of it: if it reads, if it writes */
    char params[PARAMS_MAX][NAME_MAX_BYTES]; /* in the order of their numbers, from 1 */
    bool used[PARAMS_MAX];
    int param_count;
    struct text common, each, many, postgres;
    struct columns columns;
    struct columns flat; /* those in groups one by one */
};

extern struct query *queries[QUERIES_MAX];
extern size_t query_count;
extern struct state {
    char name[NAME_MAX_BYTES];
    int number;
} states[STATES_MAX];
extern int state_count;

/* --- sqlgen.c: reading --- */

/* Where the file that is being read has a mistake; for messages. */
extern const char *file_name;
extern int line_number;
_Noreturn void die(const char *what);

void text_add(struct text *text, const char *piece, size_t len);
size_t name_length(const char *text);
const char *take_name(char *out, const char *from); /* returns what comes after the name */
/* If line begins with prefix, the rest of it. */
const char *after(const char *line, const char *prefix);
struct define *find_define(const char *name, size_t len);
int find_state(const char *name, size_t len); /* its number, or -1 */

/* --- sqlgen_texts.c --- */

void write_queries(FILE *out);
void write_migrations(FILE *out, const char *dialect, char **paths, int count);

/* --- sqlgen_types.c --- */

/* What a query returns, into query->columns and query->flat. */
void read_columns(struct query *query);
void write_names(FILE *out);
void write_types(FILE *out);

#endif
