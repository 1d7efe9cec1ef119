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
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUERIES_MAX = 400,
    DEFINES_MAX = 80,
    PARAMS_MAX = 40,
    COLUMNS_MAX = 60,
    STATES_MAX = 16,
    TEXT_MAX = 16384,
    NAME_MAX_BYTES = 64
};
enum part { PART_NONE, PART_DEFINE, PART_COMMON, PART_EACH, PART_MANY, PART_POSTGRES };
enum dialect { SQLITE, POSTGRES };

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

static struct query *queries[QUERIES_MAX];
static size_t query_count;
static struct define *defines[DEFINES_MAX];
static size_t define_count;
static struct state {
    char name[NAME_MAX_BYTES];
    int number;
} states[STATES_MAX];
static int state_count;

static const char *file_name;
static int line_number;

static void die(const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file_name, line_number, what);
    exit(1);
}

static void text_add(struct text *text, const char *piece, size_t len)
{
    if (text->len + len + 1 > TEXT_MAX)
        die("text is too long");
    memcpy(text->data + text->len, piece, len);
    text->len += len;
    text->data[text->len] = '\0';
}

static size_t name_length(const char *text)
{
    size_t len = 0;
    while (islower((unsigned char)text[len]) || isdigit((unsigned char)text[len]) ||
           text[len] == '_')
        len++;
    return len;
}

/* Returns what comes after the name. */
static const char *take_name(char *out, const char *from)
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

static bool writes(const char *sql)
{
    if (strstr(sql, "INSERT INTO") != NULL || strstr(sql, "DELETE FROM") != NULL)
        return true;
    for (const char *at = sql; (at = strstr(at, "UPDATE ")) != NULL; at++)
        if (at - sql < 4 || (strncmp(at - 4, "FOR ", 4) != 0 && strncmp(at - 4, "KEY ", 4) != 0))
            return true;
    return false;
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
static const char *after(const char *line, const char *prefix)
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

/* Writes one byte of a C string literal. */
static void put_byte(FILE *out, char byte)
{
    if (byte == '\n')
        fputs("\\n\"\n    \"", out);
    else if (byte == '"' || byte == '\\')
        fprintf(out, "\\%c", byte);
    else
        fputc(byte, out);
}

static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        put_byte(out, *text);
}

static struct define *find_define(const char *name, size_t len)
{
    for (size_t i = 0; i < define_count; i++)
        if (strlen(defines[i]->name) == len && strncmp(defines[i]->name, name, len) == 0)
            return defines[i];
    die("an unknown define is used in braces");
    return NULL;
}

static int find_state(const char *name, size_t len)
{
    for (int i = 0; i < state_count; i++)
        if (strlen(states[i].name) == len && strncmp(states[i].name, name, len) == 0)
            return states[i].number;
    return -1;
}

/* The number of a parameter; "found" is the first column of the row that "-- each:" is run for. */
static int find_param(struct query *query, const char *name, size_t len)
{
    for (int i = 0; i < query->param_count; i++)
        if (strlen(query->params[i]) == len && strncmp(query->params[i], name, len) == 0) {
            query->used[i] = true;
            return i + 1;
        }
    if (len == strlen("found") && strncmp(name, "found", len) == 0)
        return query->param_count + 1;
    fprintf(stderr, "query %s has no parameter \"%.*s\"\n", query->name, (int)len, name);
    exit(1);
}

/* now(:now) and now_each(:now); returns how much was read, 0 when there is none here. */
static size_t put_now(FILE *out, struct query *query, const char *at, enum dialect dialect)
{
    const char *name = after(at, "now_each(:");
    bool each = name != NULL;
    if (!each && (name = after(at, "now(:")) == NULL)
        return 0;
    size_t len = name_length(name);
    int number = find_param(query, name, len);
    if (name[len] != ')')
        return 0;
    if (dialect == SQLITE)
        fprintf(out, "?%d", number);
    else if (each)
        fprintf(out, "(SELECT coalesce(($%d::bigint[])[1], store_clock()))", number);
    else
        fprintf(out, "(SELECT coalesce($%d::bigint, store_clock()))", number);
    return (size_t)(name + len + 1 - at);
}

/* What SQLite needs as one parameter more, and PostgreSQL knows by itself; as put_now. */
static size_t put_built_in(FILE *out, const struct query *query, const char *at,
                           enum dialect dialect)
{
    static const struct {
        const char *text, *postgres;
        int behind; /* the last parameter */
    } all[] = {
        {"token_base()", "(SELECT token_base FROM store WHERE id = 1)", 2},
        {"next_event()", "next_event()", 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (after(at, all[i].text) == NULL)
            continue;
        if (dialect == POSTGRES)
            put_text(out, all[i].postgres);
        else
            fprintf(out, "?%d", query->param_count + all[i].behind);
        return strlen(all[i].text);
    }
    return 0;
}

/* "given.token", a column of the table that "-- many:" reads its rows from; as put_now. */
static size_t put_given(FILE *out, struct query *query, const char *at)
{
    const char *name = after(at, "given.");
    size_t len = name == NULL ? 0 : name_length(name);
    if (len == 0 || (len == strlen("event") && strncmp(name, "event", len) == 0))
        return 0;
    bool found = strncmp(name, "found", len) == 0 && len == strlen("found");
    fprintf(out, "given.p%d", found ? 1 : find_param(query, name, len));
    return (size_t)(name + len - at);
}

static void put_pieces(FILE *out, struct query *query, const char *sql, enum dialect dialect);

/* "{name}": a state's number, or the text of a define. Returns how much was read. */
static size_t put_braces(FILE *out, struct query *query, const char *at, enum dialect dialect)
{
    size_t len = strcspn(at, "}");
    int state = find_state(at + 1, len - 1);
    if (state >= 0)
        fprintf(out, "%d", state);
    else
        put_pieces(out, query, find_define(at + 1, len - 1)->text.data, dialect);
    return len + 1;
}

static void put_pieces(FILE *out, struct query *query, const char *sql, enum dialect dialect)
{
    for (const char *at = sql; *at != '\0';) {
        size_t len;
        bool word_begins = at == sql || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (*at == '{') {
            at += put_braces(out, query, at, dialect);
        } else if (word_begins && ((len = put_now(out, query, at, dialect)) > 0 ||
                                   (len = put_built_in(out, query, at, dialect)) > 0 ||
                                   (len = put_given(out, query, at)) > 0)) {
            at += len;
        } else if (*at == ':' && at[1] == ':') { /* a cast */
            fputs("::", out);
            at += 2;
        } else if (*at == ':' && (len = name_length(at + 1)) > 0) {
            fprintf(out, dialect == SQLITE ? "?%d" : "$%d", find_param(query, at + 1, len));
            at += len + 1;
        } else if (*at == ';') {
            at++;
        } else {
            put_byte(out, *at++);
        }
    }
}

static void check_params(const struct query *query)
{
    for (int i = 0; i < query->param_count; i++)
        if (!query->used[i]) {
            fprintf(stderr, "query %s does not use its parameter \"%s\"\n", query->name,
                    query->params[i]);
            exit(1);
        }
}

static void put_sql(FILE *out, struct query *query, const char *sql, enum dialect dialect)
{
    fputs("\n    \"", out);
    put_pieces(out, query, sql, dialect);
    fputs("\"", out);
}

/* A part that only SQLite has. */
static void put_sql_or_null(FILE *out, struct query *query, const struct text *part)
{
    if (part->len > 0)
        put_sql(out, query, part->data, SQLITE);
    else
        fputs(" NULL", out);
    fputs(",", out);
}

/* --- columns: what a query returns, as a struct --- */

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
static void read_columns(struct query *query)
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

static void write_types(FILE *out)
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

static void write_names(FILE *out)
{
    fputs("/* Made by tools/sqlgen from src/store/sql. */\n#ifndef STORE_DB_QUERY_H\n"
          "#define STORE_DB_QUERY_H\n\nenum db_query {\n",
          out);
    for (size_t i = 0; i < query_count; i++) {
        fputs("    Q_", out);
        put_upper(out, queries[i]->name);
        fputs(",\n", out);
    }
    fputs("    DB_QUERIES\n};\n\n#endif\n", out);
}

/* For SQLite, of a query that only PostgreSQL has: takes the parameters, returns nothing. */
static void put_nothing(FILE *out, const struct query *query)
{
    fputs("\n    \"SELECT 0", out);
    for (int i = 1; i <= query->param_count; i++)
        fprintf(out, ", ?%d", i);
    fputs(" WHERE 0\"", out);
}

static void write_queries(FILE *out)
{
    fputs("/* Made by tools/sqlgen from src/store/sql. */\n#include \"store/db_engine.h\"\n\n"
          "const struct db_query_text db_query_texts[DB_QUERIES] = {\n",
          out);
    for (size_t i = 0; i < query_count; i++) {
        struct query *query = queries[i];
        const char *postgres = query->postgres.len > 0 ? query->postgres.data : query->common.data;
        bool changes = writes(postgres) || writes(query->each.data) || writes(query->common.data);
        fprintf(out, "    {\"%s\", \"%s\",", query->name, query->doing[changes]);
        if (query->common.len > 0)
            put_sql(out, query, query->common.data, SQLITE);
        else
            put_nothing(out, query);
        fputs(",", out);
        put_sql_or_null(out, query, &query->each);
        put_sql_or_null(out, query, &query->many);
        put_sql(out, query, postgres, POSTGRES);
        fprintf(out, ",\n     %d, \"", query->param_count);
        for (size_t c = 0; c < query->flat.count; c++)
            fprintf(out, "%s%s", c == 0 ? "" : " ", query->flat.all[c].name);
        fputs("\"},\n", out);
        check_params(query);
    }
    fputs("};\n", out);
}

/*
 * The migrations whose names end in suffix, in the order given, each with the FNV-1a hash of its
 * file. The hash is of the exact text: to tell that a file was edited, not to keep anybody out.
 */
static void write_migrations(FILE *out, const char *dialect, char **paths, int count)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%s.sql", dialect);
    fprintf(out, "\nconst struct db_migration db_migrations_%s[] = {\n", dialect);
    for (int i = 0; i < count; i++) {
        if (strstr(paths[i], suffix) == NULL)
            continue;
        FILE *file = fopen(paths[i], "r");
        file_name = paths[i];
        line_number = 0;
        if (file == NULL)
            die("cannot be opened");
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        fputs("    {\"", out);
        for (int byte; (byte = fgetc(file)) != EOF;) {
            put_byte(out, (char)byte);
            hash = (hash ^ (unsigned char)byte) * UINT64_C(0x100000001b3);
        }
        fprintf(out, "\", \"%016" PRIx64 "\"},\n", hash);
        fclose(file);
    }
    fputs("    {NULL, NULL},\n};\n", out);
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
