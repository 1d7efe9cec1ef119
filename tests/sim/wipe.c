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

static void wipe_postgres(const char *url)
{
    static PGconn *connection;
    if (connection == NULL)
        connection = PQconnectdb(url);
    PGresult *result =
        PQexec(connection, "TRUNCATE job, event, lock, queue, worker, schedule RESTART IDENTITY");
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        give_up("emptying the store", PQerrorMessage(connection));
    PQclear(result);
}

void wipe_store(const char *url)
{
    if (strncmp(url, "sqlite:", strlen("sqlite:")) == 0)
        wipe_sqlite(url + strlen("sqlite:"));
    else
        wipe_postgres(url);
}
