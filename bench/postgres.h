/* Plain libpq, for the bare side and for what is done to a server beside the measurements; see
 * place.c. */
#ifndef BENCH_POSTGRES_H
#define BENCH_POSTGRES_H

#include "bench/place.h"

#include <libpq-fe.h>

/* A connection in the schema of the place. 0, or -1 after bench_fail; as the others. */
int postgres_connect(PGconn **ret, const struct place *place);
/* Statements without an answer, or with one that is not looked at. */
int postgres_run(PGconn *pg, const char *sql);
/* Clears the result; fails when it is not of the status wanted. */
int postgres_expect(PGconn *pg, PGresult *result, ExecStatusType wanted, const char *what);

#endif
