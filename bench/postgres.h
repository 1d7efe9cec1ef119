/*
 * What the measurements need of a PostgreSQL server besides the two sides: a throw-away one where none was
 * given, schemas of their own, and statements without an answer.
 *
 * Everything the benchmark makes on a server lives in schemas whose names begin with tend_bench_; it
 * drops them again.
 */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include <libpq-fe.h>
#include <stddef.h>
#include <sys/types.h>

/* A server of our own. */
struct bench_server {
    char folder[256];
    char url[512];
    pid_t pid;
};

/* 0; 1 when no server is installed; -1 after bench_fail. */
int bench_server_start(struct bench_server *server, const char *folder);
/* Ends it and removes its folder; also after a start that failed. */
void bench_server_stop(struct bench_server *server);

/* tend's URL for the schema of that name on the server. */
void bench_postgres_url(const char *server, const char *name, char *out, size_t size);

/* A connection whose search_path is the schema of that name; NULL after bench_fail. */
PGconn *bench_postgres_connect(const char *server, const char *name);
/* Statements without an answer; 0 or -1 after bench_fail. */
int bench_postgres_exec(PGconn *conn, const char *sql);
/* Drops all schemas of the benchmark. */
int bench_postgres_clear(const char *server);

#endif
