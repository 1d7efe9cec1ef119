/* An empty store between two histories: faster than a new one. */
#include "sim.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn static void give_up(const char *what, const char *text)
{
    fprintf(stderr, "sim: %s: %s\n", what, text);
    _exit(2);
}

static void wipe_sqlite(const char *path)
{
    static sqlite3 *sqlite;
    if (sqlite == NULL && sqlite3_open(path, &sqlite) != SQLITE_OK)
        give_up("opening the store", path);
    char *text = NULL;
    if (sqlite3_exec(
            sqlite,
            "PRAGMA synchronous = OFF; BEGIN IMMEDIATE;"
            "DELETE FROM job; DELETE FROM event; DELETE FROM lock; DELETE FROM queue;"
            "DELETE FROM worker; DELETE FROM schedule; DELETE FROM sqlite_sequence; COMMIT",
            NULL, NULL, &text) != SQLITE_OK)
        give_up("emptying the store", text);
}

static void run_postgres(PGconn *connection, const char *sql)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        give_up("emptying the store", PQerrorMessage(connection));
    PQclear(result);
}

/* The URL as libpq knows it, and the schema named in it. */
static PGconn *connect_postgres(const char *url)
{
    char server[1024];
    char sql[256];
    const char *schema = strstr(url, SCHEMA_IN_URL);
    if (schema == NULL)
        give_up("no schema in the URL", url);
    snprintf(server, sizeof server, "%.*s", (int)(schema - url), url);
    PGconn *connection = PQconnectdb(server);
    snprintf(sql, sizeof sql, "SET search_path = %s", schema + strlen(SCHEMA_IN_URL));
    run_postgres(connection, sql);
    return connection;
}

static void wipe_postgres(const char *url)
{
    static PGconn *connection;
    if (connection == NULL)
        connection = connect_postgres(url);
    run_postgres(connection, "TRUNCATE job, event, lock, queue, worker, schedule RESTART IDENTITY");
    run_postgres(connection, "ALTER SEQUENCE event_id RESTART");
}

void drop_store(const char *url)
{
    char sql[256];
    PGconn *connection = connect_postgres(url);
    snprintf(sql, sizeof sql, "SET client_min_messages = warning; DROP SCHEMA %s CASCADE",
             strstr(url, SCHEMA_IN_URL) + strlen(SCHEMA_IN_URL));
    run_postgres(connection, sql);
    PQfinish(connection);
}

void wipe_store(const char *url)
{
    if (strncmp(url, "sqlite:", strlen("sqlite:")) == 0)
        wipe_sqlite(url + strlen("sqlite:"));
    else
        wipe_postgres(url);
}
