/*
 * sqlgen: what each query takes and returns, as structs. The columns are read from the text: the
 * list of the outermost SELECT, or of RETURNING.
 */
#include "sqlgen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 1,
    GROUP_TEXT,
    GROUP_END
}; /* bytes around the text of a define: GROUP name GROUP_TEXT text GROUP_END */

/* The text with the defines put in, and marked. */
static void expand(struct text *out, const char *sql)
{
    for (const char *at = sql; *at != '\0';) {
        size_t len = strcspn(at, "{");
        text_add(out, at, len);
        at += len;
        if (*at == '\0')
            return;
        len = strcspn(at, "}");
        if (find_state(at + 1, len - 1) >= 0) {
            text_add(out, at, len + 1);
        } else {
            text_add(out, (const char[]){GROUP}, 1);
            text_add(out, at + 1, len - 1);
            text_add(out, (const char[]){GROUP_TEXT}, 1);
            expand(out, find_define(at + 1, len - 1)->text.data);
            text_add(out, (const char[]){GROUP_END}, 1);
        }
        at += len + 1;
    }
}

static bool is_word_byte(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

/* The first of the words outside of parentheses and quotes, of those that begin before end. */
static const char *find_word(const char *sql, const char *const *words)
{
    int depth = 0;
    bool quoted = false;
    for (const char *at = sql; *at != '\0' && depth >= 0; at++) {
        quoted ^= *at == '\'';
        depth += quoted ? 0 : (*at == '(') - (*at == ')');
        for (const char *const *word = words; depth == 0 && !quoted && *word != NULL; word++)
            if (after(at, *word) != NULL && !is_word_byte(at[strlen(*word)]) &&
                (at == sql || !is_word_byte(at[-1])))
                return at;
    }
    return NULL;
}

/* The list of what a statement returns, or NULL; it ends with *ret_end. */
static const char *column_list(const char *sql, const char **ret_end)
{
    static const char *const verbs[] = {"SELECT", "INSERT", "UPDATE", "DELETE", NULL};
    static const char *const returning[] = {"RETURNING", NULL};
    static const char *const ends[] = {"FROM", "WHERE", "UNION", "ORDER", "LIMIT", NULL};
    const char *verb = find_word(sql, verbs);
    const char *list;
    if (verb != NULL && (list = after(verb, "SELECT")) != NULL) {
        if (after(list, " DISTINCT") != NULL)
            list = after(list, " DISTINCT");
        if (after(list, " * FROM (") != NULL)
            return column_list(after(list, " * FROM ("), ret_end);
        *ret_end = find_word(list, ends);
    } else {
        list = verb == NULL ? NULL : find_word(verb, returning);
        if (list == NULL)
            return NULL;
        list += strlen("RETURNING");
        *ret_end = NULL;
    }
    if (*ret_end == NULL)
        *ret_end = list + strcspn(list, ";");
    return list;
}

static bool is_between(char byte)
{
    return isspace((unsigned char)byte) || byte == GROUP_END;
}

/* A define that is a whole item of the list: its length, else 0. */
static size_t group_length(const char *at, const char *end)
{
    if (*at != GROUP)
        return 0;
    int depth = 0;
    const char *close = at;
    for (; close < end; close++) {
        depth += (*close == GROUP) - (*close == GROUP_END);
        if (depth == 0)
            break;
    }
    const char *next = close + 1;
    while (next < end && is_between(*next))
        next++;
    return next >= end || *next == ',' ? (size_t)(close + 1 - at) : 0;
}

/* "j.id", "count(*) AS jobs": the last word, where it is a name. */
static void name_column(char *out, const struct query *query, const char *at, const char *end)
{
    while (end > at && is_between(end[-1]))
        end--;
    const char *name = end;
    while (name > at && is_word_byte(name[-1]))
        name--;
    while (at < name && (is_between(*at) || *at == GROUP))
        at++;
    const char *rest = name;
    while (rest > at && is_between(rest[-1]))
        rest--;
    bool is_alias = rest - at > 3 && strncmp(rest - 2, "AS", 2) == 0 && is_between(rest[-3]);
    bool is_plain = name_length(name) == (size_t)(end - name) && end > name &&
                    (at == name || (name[-1] == '.' && name_length(at) == (size_t)(name - 1 - at)));
    if (!is_alias && !is_plain) {
        fprintf(stderr, "query %s returns \"%.*s\", which has no name; add AS\n", query->name,
                (int)(end - at), at);
        exit(1);
    }
    snprintf(out, NAME_MAX_BYTES, "%.*s", (int)(end - name), name);
}

/* Reads a list of columns; at is in the text of the query, its defines marked. */
static void list_columns(struct columns *out, const struct query *query, const char *at,
                         const char *end)
{
    for (;; at++) {
        while (at < end && is_between(*at))
            at++;
        if (at >= end)
            return;
        if (out->count == COLUMNS_MAX)
            die("too many columns");
        struct column *column = &out->all[out->count++];
        size_t len = group_length(at, end);
        if (len > 0) {
            column->group = find_define(at + 1, name_length(at + 1));
            memcpy(column->name, column->group->name, sizeof column->name);
            at += len + strcspn(at + len, ",");
            continue;
        }
        const char *item = at;
        for (int depth = 0; at < end && (depth > 0 || *at != ','); at++)
            depth += (*at == '(') - (*at == ')');
        name_column(column->name, query, item, at);
    }
}

/* The columns that a variant of a query returns; none: it returns no rows. */
static void find_columns(struct columns *out, const struct query *query, const struct text *sql)
{
    struct text *text = calloc(1, sizeof *text);
    const char *end;
    expand(text, sql->data);
    const char *list = column_list(text->data, &end);
    *out = (struct columns){0};
    if (list != NULL)
        list_columns(out, query, list, end);
    free(text);
}

/* The columns of a group, one by one. */
static void list_group(struct columns *out, const struct query *query, const struct define *define)
{
    *out = (struct columns){0};
    list_columns(out, query, define->text.data, define->text.data + define->text.len);
}

/* With the columns of groups in place of the groups. */
static void flatten(struct columns *out, const struct query *query, const struct columns *columns)
{
    static struct columns group;
    out->count = 0;
    for (size_t i = 0; i < columns->count; i++) {
        group = (struct columns){.all = {columns->all[i]}, .count = 1};
        if (columns->all[i].group != NULL)
            list_group(&group, query, columns->all[i].group);
        if (out->count + group.count > COLUMNS_MAX)
            die("too many columns");
        memcpy(out->all + out->count, group.all, group.count * sizeof *group.all);
        out->count += group.count;
    }
}

static void put_names(const struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        fprintf(stderr, " %s", columns->all[i].name);
    fputs("\n", stderr);
}

/*
 * What a query returns: the same on both engines. One that returns nothing on SQLite is for db_each
 * or is not read. Where the variants spell the list out or use a define, the define makes the
 * struct.
 */
void read_columns(struct query *query)
{
    static struct columns other, other_flat;
    bool only_postgres = query->common.len == 0;
    struct columns *columns = &query->columns;
    find_columns(columns, query, only_postgres ? &query->postgres : &query->common);
    flatten(&query->flat, query, columns);
    if (only_postgres || query->postgres.len == 0 || columns->count == 0)
        return;
    find_columns(&other, query, &query->postgres);
    flatten(&other_flat, query, &other);
    bool same = query->flat.count == other_flat.count;
    for (size_t i = 0; same && i < other_flat.count; i++)
        same = strcmp(query->flat.all[i].name, other_flat.all[i].name) == 0;
    if (!same) {
        fprintf(stderr, "query %s returns other columns on PostgreSQL:\n   ", query->name);
        put_names(&query->flat);
        fputs("   ", stderr);
        put_names(&other_flat);
        exit(1);
    }
    if (other.count < columns->count)
        *columns = other;
}

/* A define that is a list of columns is a struct of its own, and a member of the rows that have it.
 */
static void write_group(FILE *out, const struct query *query, struct define *define)
{
    static struct columns columns;
    if (define->written)
        return;
    define->written = true;
    list_group(&columns, query, define);
    fprintf(out, "struct %s_columns {\n", define->name);
    for (size_t i = 0; i < columns.count; i++)
        fprintf(out, "    struct db_value %s;\n", columns.all[i].name);
    fputs("};\n\n", out);
}

static void write_row(FILE *out, const struct query *query)
{
    const struct columns *columns = &query->columns;
    for (size_t i = 0; i < columns->count; i++)
        if (columns->all[i].group != NULL)
            write_group(out, query, columns->all[i].group);
    fprintf(out, "struct %s_row {\n", query->name);
    for (size_t i = 0; i < columns->count; i++)
        if (columns->all[i].group != NULL)
            fprintf(out, "    struct %s_columns %s;\n", columns->all[i].name, columns->all[i].name);
        else
            fprintf(out, "    struct db_value %s;\n", columns->all[i].name);
    fprintf(
        out,
        "};\nstruct %s_rows {\n    union {\n        struct db_result result;\n        struct {\n"
        "            size_t count, columns;\n            const struct %s_row *at;\n        };\n"
        "    };\n};\n\n",
        query->name, query->name);
}

static void put_upper(FILE *out, const char *name)
{
    for (; *name != '\0'; name++)
        fputc(toupper((unsigned char)*name), out);
}

/* run_NAME and each_NAME: db_run and db_each with parameters and rows of the right type. */
static void write_calls(FILE *out, const struct query *query)
{
    bool rows = query->columns.count > 0;
    bool params = query->param_count > 0;
    fprintf(out, "static inline int run_%s(struct db_tx *tx, unsigned how", query->name);
    if (params)
        fprintf(out, ", struct %s_params params", query->name);
    if (rows)
        fprintf(out, ", struct %s_rows *ret", query->name);
    fputs(")\n{\n    return db_run(tx, Q_", out);
    put_upper(out, query->name);
    fprintf(out, ", how, %s, %s);\n}\n\n", params ? "DB_VALUES(&params)" : "NULL",
            rows ? "ret == NULL ? NULL : &ret->result" : "NULL");
    if (!params)
        return;
    fprintf(
        out,
        "static inline int each_%s(struct db_tx *tx, unsigned how, const struct %s_params *params,\n"
        "    size_t count, int64_t *ret_each)\n{\n    return db_each(tx, Q_",
        query->name, query->name);
    put_upper(out, query->name);
    fputs(", how, DB_VALUES(params), count, ret_each);\n}\n\n", out);
}

void write_types(FILE *out)
{
    fputs(
        "/*\n * Made by tools/sqlgen from src/store/sql: of each query its parameters and its rows, by name.\n"
        " *\n"
        " *     struct job_get_rows rows;\n"
        " *     run_job_get(tx, DB_LAST, (struct job_get_params){.id = db_int(id), .now = db_now(tx)}, &rows);\n"
        " *     if (rows.count > 0) ... db_num(rows.at[0].job.token)\n"
        " *\n"
        " * Parameters that are not given are NULL. The rows live in the arena of the transaction.\n */\n"
        "#ifndef STORE_QUERIES_H\n#define STORE_QUERIES_H\n\n#include \"store/db.h\"\n\n",
        out);
    for (size_t i = 0; i < query_count; i++) {
        struct query *query = queries[i];
        if (query->param_count > 0) {
            fprintf(out, "struct %s_params {\n", query->name);
            for (int p = 0; p < query->param_count; p++)
                fprintf(out, "    struct db_value %s;\n", query->params[p]);
            fputs("};\n\n", out);
        }
        if (query->columns.count > 0)
            write_row(out, query);
        write_calls(out, query);
    }
    fputs("#endif\n", out);
}

void write_names(FILE *out)
{
    fputs("/* Made by tools/sqlgen from src/store/sql. */\n#ifndef STORE_DB_QUERY_H\n"
          "#define STORE_DB_QUERY_H\n\nenum db_query {\n",
          out);
    for (size_t i = 0; i < query_count; i++) {
        fputs("    Q_", out);
        put_upper(out, queries[i]->name);
        fputs(",\n", out);
    }
    fputs("    DB_QUERIES\n};\n\n/* The states as the queries know them. */\nenum {\n", out);
    for (int i = 0; i < state_count; i++) {
        fputs("    SQL_", out);
        put_upper(out, states[i].name);
        fprintf(out, " = %d,\n", states[i].number);
    }
    fputs("};\n\n#endif\n", out);
}
