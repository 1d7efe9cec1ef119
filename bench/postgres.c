#include "bench/postgres.h"
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "tend_bench_"

void bench_postgres_url(const char *server, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%ctend_schema=" PREFIX "%s", server,
             strchr(server, '?') != NULL ? '&' : '?', name);
}

int bench_postgres_exec(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return 0;
    return bench_fail("PostgreSQL, %.60s: %s", sql, PQerrorMessage(conn));
}

PGconn *bench_postgres_connect(const char *server, const char *name)
{
    PGconn *conn = PQconnectdb(server);
    char path[128];
    snprintf(path, sizeof path, "SET client_min_messages = warning; SET search_path = " PREFIX "%s",
             name);
    if (PQstatus(conn) != CONNECTION_OK)
        bench_fail("PostgreSQL: %s", PQerrorMessage(conn));
    else if (bench_postgres_exec(conn, path) == 0)
        return conn;
    PQfinish(conn);
    return NULL;
}

int bench_postgres_clear(const char *server)
{
    PGconn *conn = bench_postgres_connect(server, "raw");
    if (conn == NULL)
        return -1;
    int rc = bench_postgres_exec(
        conn, "DO $$ DECLARE name text; BEGIN"
              " FOR name IN SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '" PREFIX "')"
              " LOOP EXECUTE format('DROP SCHEMA %I CASCADE', name); END LOOP; END $$");
    PQfinish(conn);
    return rc;
}
