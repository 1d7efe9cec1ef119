/* Places, and plain libpq. See place.h, postgres.h. */
#include "bench/place.h"
#include "bench/postgres.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct place place_of(const struct bench *bench, const struct bench_case *what, const char *name)
{
    bool postgres = what->engine == ENGINE_POSTGRES;
    return (struct place){
        .engine = what->engine,
        .root = postgres ? bench->postgres : bench->folder,
        .name = name,
    };
}

void place_path(const struct place *place, char out[PLACE_URL_BYTES])
{
    snprintf(out, PLACE_URL_BYTES, "%s/%s.db", place->root, place->name);
}

void place_schema(const struct place *place, char out[64])
{
    snprintf(out, 64, "tend_bench_%s", place->name);
}

int place_url(const struct place *place, char out[PLACE_URL_BYTES])
{
    char schema[64];
    int len;
    place_schema(place, schema);
    if (place->engine == ENGINE_SQLITE)
        len = snprintf(out, PLACE_URL_BYTES, "sqlite:%s/%s.db", place->root, place->name);
    else
        len = snprintf(out, PLACE_URL_BYTES, "%s%ctend_schema=%s", place->root,
                       strchr(place->root, '?') == NULL ? '?' : '&', schema);
    return len < PLACE_URL_BYTES ? 0 : bench_fail("the URL of the store is too long");
}

/* The database and the files tend and SQLite keep beside it. */
static int clear_files(const struct place *place)
{
    static const char *const endings[] = {"",      "-wal",  "-shm",    "-journal",
                                          "-bell", "-lock", "-workers"};
    char path[PLACE_URL_BYTES];
    char file[PLACE_URL_BYTES + 16];
    place_path(place, path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(file, sizeof file, "%s%s", path, endings[i]);
        unlink(file);
    }
    return 0;
}

int place_clear(const struct place *place)
{
    char sql[160];
    char schema[64];
    PGconn *pg;
    if (place->engine == ENGINE_SQLITE)
        return clear_files(place);
    place_schema(place, schema);
    snprintf(sql, sizeof sql, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE",
             schema);
    if (postgres_connect(&pg, place) < 0)
        return -1;
    int rc = postgres_run(pg, sql);
    PQfinish(pg);
    return rc;
}

int postgres_expect(PGconn *pg, PGresult *result, ExecStatusType wanted, const char *what)
{
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == wanted)
        return 0;
    const char *message = PQerrorMessage(pg);
    return bench_fail("PostgreSQL, %s: %.*s", what, (int)strcspn(message, "\n"), message);
}

int postgres_run(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    bool rows = PQresultStatus(result) == PGRES_TUPLES_OK;
    return postgres_expect(pg, result, rows ? PGRES_TUPLES_OK : PGRES_COMMAND_OK, sql);
}

int postgres_connect(PGconn **ret, const struct place *place)
{
    char sql[128];
    char schema[64];
    PGconn *pg = PQconnectdb(place->root);
    place_schema(place, schema);
    snprintf(sql, sizeof sql, "SET search_path = %s; SET synchronous_commit = on", schema);
    int rc = PQstatus(pg) == CONNECTION_OK
                 ? postgres_run(pg, sql)
                 : bench_fail("PostgreSQL cannot be reached: %.*s",
                              (int)strcspn(PQerrorMessage(pg), "\n"), PQerrorMessage(pg));
    if (rc < 0)
        PQfinish(pg);
    else
        *ret = pg;
    return rc;
}

int bench_reach_postgres(const char *url)
{
    const struct place anywhere = {.engine = ENGINE_POSTGRES, .root = url, .name = "tend"};
    PGconn *pg;
    if (postgres_connect(&pg, &anywhere) < 0)
        return -1;
    PQfinish(pg);
    return 0;
}
