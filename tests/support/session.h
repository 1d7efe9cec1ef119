/* Sessions of a test's own on the PostgreSQL server, beside those of tend. The test ends them with
 * PQfinish. */
#ifndef TEND_TEST_SESSION_H
#define TEND_TEST_SESSION_H

#include "support/store.h"

#include <libpq-fe.h>

/* In the schema of the store. */
PGconn *session_open(void);
/* One or more statements, which must succeed. */
void session_run(PGconn *pg, const char *sql);

#endif
