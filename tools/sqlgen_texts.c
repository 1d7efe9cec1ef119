/* sqlgen: the texts of the queries, as each engine gets them, and the migrations. */
#include "sqlgen.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum dialect { SQLITE, POSTGRES };

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

static bool writes(const char *sql)
{
    if (strstr(sql, "INSERT INTO") != NULL || strstr(sql, "DELETE FROM") != NULL)
        return true;
    for (const char *at = sql; (at = strstr(at, "UPDATE ")) != NULL; at++)
        if (at - sql < 4 || (strncmp(at - 4, "FOR ", 4) != 0 && strncmp(at - 4, "KEY ", 4) != 0))
            return true;
    return false;
}

/* For SQLite, of a query that only PostgreSQL has: takes the parameters, returns nothing. */
static void put_nothing(FILE *out, const struct query *query)
{
    fputs("\n    \"SELECT 0", out);
    for (int i = 1; i <= query->param_count; i++)
        fprintf(out, ", ?%d", i);
    fputs(" WHERE 0\"", out);
}

void write_queries(FILE *out)
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
void write_migrations(FILE *out, const char *dialect, char **paths, int count)
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
