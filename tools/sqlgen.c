/*
 * Turns sql/<noun>.sql and the migrations into C:
 *
 *     sqlgen names OUT queries.sql...                        the enum of query names
 *     sqlgen types OUT queries.sql...                        structs and calls for each query
 *     sqlgen texts OUT queries.sql... -- migration.sql...    the table of their texts, and the
 * migrations
 *
 * What the files may contain is told on top of src/store/sql/job.sql. Runs at build time only; any
 * mistake in a file ends the build with its name and line.
 */
#include "sqlgen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum part { PART_NONE, PART_DEFINE, PART_COMMON, PART_EACH, PART_MANY, PART_POSTGRES };

struct query *queries[QUERIES_MAX];
size_t query_count;
static struct define *defines[DEFINES_MAX];
static size_t define_count;
struct state states[STATES_MAX];
int state_count;

const char *file_name;
int line_number;

_Noreturn void die(const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file_name, line_number, what);
    exit(1);
}

void text_add(struct text *text, const char *piece, size_t len)
{
    if (text->len + len + 1 > TEXT_MAX)
        die("text is too long");
    memcpy(text->data + text->len, piece, len);
    text->len += len;
    text->data[text->len] = '\0';
}

size_t name_length(const char *text)
{
    size_t len = 0;
    while (islower((unsigned char)text[len]) || isdigit((unsigned char)text[len]) ||
           text[len] == '_')
        len++;
    return len;
}

/* Returns what comes after the name. */
const char *take_name(char *out, const char *from)
{
    size_t len = name_length(from);
    if (len == 0 || len >= NAME_MAX_BYTES)
        die("a name is missing or too long");
    memcpy(out, from, len);
    out[len] = '\0';
    return from + len;
}

/* The parameters of a query, "(id, token)"; they may go on in the next lines, "--     now)". */
static void take_params(struct query *query, const char *from, FILE *file)
{
    static char line[2048];
    if (*from != '(')
        return;
    do {
        from += 1 + strspn(from + 1, " -\r\n");
        if (*from == '\0') {
            if (fgets(line, sizeof line, file) == NULL)
                die("the list of parameters has no end");
            line_number++;
            from = line + strspn(line, "- ");
        }
        if (query->param_count == PARAMS_MAX)
            die("too many parameters");
        from = take_name(query->params[query->param_count++], from);
    } while (*from == ',');
    if (*from != ')')
        die("the list of parameters has no end");
}

/* The states of one thing, numbered from 0. */
static void take_states(const char *from)
{
    for (int number = 0; *from != '\0'; from += strspn(from, " \r\n")) {
        if (state_count == STATES_MAX)
            die("too many states");
        states[state_count].number = number++;
        from = take_name(states[state_count++].name, from);
    }
}

/* "reading jobs | changing jobs": for queries that read and that write; or one for both. */
static void take_doing(char out[2][NAME_MAX_BYTES], const char *from)
{
    for (int i = 0; i < 2; i++) {
        size_t len = strcspn(from, "|\r\n");
        size_t end = len;
        while (end > 0 && from[end - 1] == ' ')
            end--;
        if (end == 0 || end >= NAME_MAX_BYTES)
            die("what is being done is missing or too long");
        memcpy(out[i], from, end);
        out[i][end] = '\0';
        if (from[len] == '|')
            from += len + 1 + strspn(from + len + 1, " ");
    }
}

static struct query *begin_query(const char *name, FILE *file)
{
    struct query *query = calloc(1, sizeof *query);
    if (query == NULL || query_count == QUERIES_MAX)
        die("too many queries");
    take_params(query, take_name(query->name, name), file);
    for (size_t i = 0; i < query_count; i++)
        if (strcmp(queries[i]->name, query->name) == 0)
            die("a query of this name exists already");
    queries[query_count++] = query;
    return query;
}

static struct define *begin_define(const char *name)
{
    struct define *define = calloc(1, sizeof *define);
    if (define == NULL || define_count == DEFINES_MAX)
        die("too many defines");
    take_name(define->name, name);
    defines[define_count++] = define;
    return define;
}

/* If line begins with prefix, the rest of it. */
const char *after(const char *line, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(line, prefix, len) == 0 ? line + len : NULL;
}

static void read_queries(const char *path)
{
    FILE *file = fopen(path, "r");
    file_name = path;
    line_number = 0;
    if (file == NULL)
        die("cannot be opened");

    enum part part = PART_NONE;
    struct query *query = NULL;
    struct define *define = NULL;
    char doing[2][NAME_MAX_BYTES] = {"", ""};
    char line[2048];
    const char *rest;
    while (fgets(line, sizeof line, file) != NULL) {
        line_number++;
        if ((rest = after(line, "-- name: ")) != NULL) {
            query = begin_query(rest, file);
            part = PART_COMMON;
            if (doing[0][0] == '\0')
                die("the file does not say what its queries do");
            memcpy(query->doing, doing, sizeof doing);
        } else if ((rest = after(line, "-- doing: ")) != NULL) {
            take_doing(doing, rest);
        } else if ((rest = after(line, "-- states: ")) != NULL) {
            take_states(rest);
        } else if ((rest = after(line, "-- define: ")) != NULL) {
            define = begin_define(rest);
            part = PART_DEFINE;
        } else if (after(line, "-- each:") != NULL) {
            if (query == NULL)
                die("no query to go with");
            part = PART_EACH;
        } else if (after(line, "-- many:") != NULL) {
            if (query == NULL)
                die("no query to go with");
            part = PART_MANY;
        } else if (after(line, "-- dialect: postgres") != NULL) {
            if (query == NULL)
                die("no query to go with");
            part = PART_POSTGRES;
        } else if (after(line, "--") != NULL || part == PART_NONE) {
            continue;
        } else if (part == PART_DEFINE) {
            text_add(&define->text, line, strlen(line));
        } else {
            struct text *into = part == PART_COMMON ? &query->common
                                : part == PART_EACH ? &query->each
                                : part == PART_MANY ? &query->many
                                                    : &query->postgres;
            text_add(into, line, strlen(line));
        }
    }
    fclose(file);
}

struct define *find_define(const char *name, size_t len)
{
    for (size_t i = 0; i < define_count; i++)
        if (strlen(defines[i]->name) == len && strncmp(defines[i]->name, name, len) == 0)
            return defines[i];
    die("an unknown define is used in braces");
    return NULL;
}

int find_state(const char *name, size_t len)
{
    for (int i = 0; i < state_count; i++)
        if (strlen(states[i].name) == len && strncmp(states[i].name, name, len) == 0)
            return states[i].number;
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 4 || (strcmp(argv[1], "names") != 0 && strcmp(argv[1], "types") != 0 &&
                     strcmp(argv[1], "texts") != 0)) {
        fputs("usage: sqlgen names|types|texts OUT queries.sql... [-- migration.sql...]\n", stderr);
        return 2;
    }
    int at = 3;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        read_queries(argv[at]);

    FILE *out = fopen(argv[2], "w");
    if (out == NULL) {
        perror(argv[2]);
        return 1;
    }
    for (size_t i = 0; i < query_count; i++)
        read_columns(queries[i]);
    if (strcmp(argv[1], "names") == 0) {
        write_names(out);
    } else if (strcmp(argv[1], "types") == 0) {
        write_types(out);
    } else {
        char **paths = argv + (at < argc ? at + 1 : argc);
        int count = at < argc ? argc - at - 1 : 0;
        write_queries(out);
        write_migrations(out, "sqlite", paths, count);
        write_migrations(out, "postgres", paths, count);
    }
    return fclose(out) == 0 ? 0 : 1;
}
