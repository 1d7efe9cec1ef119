/*
 * Turns sql/<noun>.sql and the migrations into C: an enum of query names and the table of their
 * texts.
 *
 *     sqlgen header OUT queries.sql...
 *     sqlgen source OUT queries.sql... -- migration.sql...
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

enum { QUERIES_MAX = 400, DEFINES_MAX = 40, TEXT_MAX = 16384, NAME_MAX_BYTES = 64 };
enum part { PART_NONE, PART_DEFINE, PART_COMMON, PART_EACH, PART_MANY, PART_POSTGRES };
enum dialect { SQLITE, POSTGRES };

struct text {
    char data[TEXT_MAX];
    size_t len;
};

struct query {
    char name[NAME_MAX_BYTES];
    char doing[2][NAME_MAX_BYTES]; /* what a sentence says of it: if it reads, if it writes */
    struct text common, each, many, postgres;
    int params;
};

struct define {
    char name[NAME_MAX_BYTES];
    struct text text;
};

static struct query *queries[QUERIES_MAX];
static size_t query_count;
static struct define *defines[DEFINES_MAX];
static size_t define_count;

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

static void take_name(char *out, const char *from)
{
    size_t len = strcspn(from, " \t\r\n");
    if (len == 0 || len >= NAME_MAX_BYTES)
        die("a name is missing or too long");
    memcpy(out, from, len);
    out[len] = '\0';
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

static struct query *begin_query(const char *name)
{
    struct query *query = calloc(1, sizeof *query);
    if (query == NULL || query_count == QUERIES_MAX)
        die("too many queries");
    take_name(query->name, name);
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
            query = begin_query(rest);
            part = PART_COMMON;
            if (doing[0][0] == '\0')
                die("the file does not say what its queries do");
            memcpy(query->doing, doing, sizeof doing);
        } else if ((rest = after(line, "-- doing: ")) != NULL) {
            take_doing(doing, rest);
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

static const struct define *find_define(const char *name, size_t len)
{
    for (size_t i = 0; i < define_count; i++)
        if (strlen(defines[i]->name) == len && strncmp(defines[i]->name, name, len) == 0)
            return defines[i];
    die("an unknown define is used in braces");
    return NULL;
}

/* Parameters of a query, those in its defines too. */
static void count_params(struct query *query, const char *sql)
{
    for (const char *at = sql; *at != '\0'; at++) {
        int number = *at == '$' ? (int)strtol(at + 1, NULL, 10) : 0;
        if (number > query->params)
            query->params = number;
        if (*at == '{')
            count_params(query, find_define(at + 1, strcspn(at, "}") - 1)->text.data);
    }
}

/* now($3) and now_each($3); returns how much was read, 0 when there is none here. */
static size_t put_now(FILE *out, const char *at, enum dialect dialect)
{
    const char *digits = after(at, "now_each($");
    bool each = digits != NULL;
    if (!each && (digits = after(at, "now($")) == NULL)
        return 0;
    char *end;
    int number = (int)strtol(digits, &end, 10);
    if (end == digits || *end != ')')
        return 0;
    if (dialect == SQLITE)
        fprintf(out, "?%d", number);
    else if (each)
        fprintf(out, "(SELECT coalesce(($%d::bigint[])[1], store_clock()))", number);
    else
        fprintf(out, "(SELECT coalesce($%d::bigint, store_clock()))", number);
    return (size_t)(end + 1 - at);
}

static void put_pieces(FILE *out, const struct query *query, const char *sql, enum dialect dialect)
{
    for (const char *at = sql; *at != '\0';) {
        size_t len;
        const char *rest;
        bool word_begins = at == sql || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (*at == '{') {
            len = strcspn(at, "}");
            put_pieces(out, query, find_define(at + 1, len - 1)->text.data, dialect);
            at += len + 1;
        } else if (word_begins && (len = put_now(out, at, dialect)) > 0) {
            at += len;
        } else if (word_begins && (rest = after(at, "token_base()")) != NULL) {
            if (dialect == POSTGRES)
                put_text(out, "(SELECT token_base FROM store WHERE id = 1)");
            else
                fprintf(out, "?%d", query->params + 2);
            at = rest;
        } else if (word_begins && (rest = after(at, "next_event()")) != NULL) {
            if (dialect == POSTGRES)
                put_text(out, "next_event()");
            else
                fprintf(out, "?%d", query->params + 3);
            at = rest;
        } else if (dialect == SQLITE && *at == '$') {
            int number = (int)strtol(at + 1, NULL, 10);
            fprintf(out, "?%d", number == 0 ? query->params + 1 : number);
            for (at++; isdigit((unsigned char)*at); at++)
                ;
        } else if (*at == ';') {
            at++;
        } else {
            put_byte(out, *at++);
        }
    }
}

static void put_sql(FILE *out, const struct query *query, const char *sql, enum dialect dialect)
{
    fputs("\n    \"", out);
    put_pieces(out, query, sql, dialect);
    fputs("\"", out);
}

/* A part that only SQLite has. */
static void put_sql_or_null(FILE *out, const struct query *query, const struct text *part)
{
    if (part->len > 0)
        put_sql(out, query, part->data, SQLITE);
    else
        fputs(" NULL", out);
    fputs(",", out);
}

static void write_header(FILE *out)
{
    fputs("/* Made by tools/sqlgen from src/store/sql. */\n#ifndef STORE_DB_QUERY_H\n"
          "#define STORE_DB_QUERY_H\n\nenum db_query {\n",
          out);
    for (size_t i = 0; i < query_count; i++) {
        fputs("    Q_", out);
        for (const char *at = queries[i]->name; *at != '\0'; at++)
            fputc(toupper((unsigned char)*at), out);
        fputs(",\n", out);
    }
    fputs("    DB_QUERIES\n};\n\n#endif\n", out);
}

static void write_queries(FILE *out)
{
    fputs("/* Made by tools/sqlgen from src/store/sql. */\n#include \"store/db_engine.h\"\n\n"
          "const struct db_query_text db_query_texts[DB_QUERIES] = {\n",
          out);
    for (size_t i = 0; i < query_count; i++) {
        struct query *query = queries[i];
        count_params(query, query->common.data);
        count_params(query, query->each.data);
        count_params(query, query->many.data);
        count_params(query, query->postgres.data);
        const char *postgres = query->postgres.len > 0 ? query->postgres.data : query->common.data;
        bool changes = writes(postgres) || writes(query->each.data) || writes(query->common.data);
        fprintf(out, "    {\"%s\", \"%s\",", query->name, query->doing[changes]);
        put_sql(out, query, query->common.data, SQLITE);
        fputs(",", out);
        put_sql_or_null(out, query, &query->each);
        put_sql_or_null(out, query, &query->many);
        put_sql(out, query, postgres, POSTGRES);
        fprintf(out, ",\n     %d},\n", query->params);
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
    if (argc < 4 || (strcmp(argv[1], "header") != 0 && strcmp(argv[1], "source") != 0)) {
        fputs("usage: sqlgen header|source OUT queries.sql... [-- migration.sql...]\n", stderr);
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
    if (strcmp(argv[1], "header") == 0) {
        write_header(out);
    } else {
        char **paths = argv + (at < argc ? at + 1 : argc);
        int count = at < argc ? argc - at - 1 : 0;
        write_queries(out);
        write_migrations(out, "sqlite", paths, count);
        write_migrations(out, "postgres", paths, count);
    }
    return fclose(out) == 0 ? 0 : 1;
}
