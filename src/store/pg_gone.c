/*
 * Whether the store is still the one that was opened. A schema can be dropped and made anew under
 * an open handle: connections live on, and statements find the new tables. What was given out
 * before fits nothing there (tokens begin at random, queue/generation.c), but whoever holds it
 * should be told, and a worker of the old store must not go on in the new one, where it is not
 * registered.
 *
 * A store is known by its table "store": the server's number of it, and the token base that is its
 * row. It is another one when both differ. A new generation after a restore has another base; a
 * copy by logical replication has another number; both are the same store. The question goes along
 * where it costs nothing: when a connection is made, when the keeper has a new session, with every
 * look at the liveness locks; and it is asked when the server misses a table.
 *
 * Invariant: gone stays gone. No call on the handle succeeds after it was noticed.
 */
#include "store/pg_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <tend.h>

void pg_gone_write_sql(struct pg_db *db)
{
    snprintf(db->identity_sql, sizeof db->identity_sql,
             "SELECT '\"%s\".store'::regclass::oid || ' ' || token_base FROM \"%s\".store",
             db->url.schema, db->url.schema);
}

bool pg_gone(const struct pg_db *db)
{
    return __atomic_load_n(&db->gone, __ATOMIC_RELAXED);
}

int pg_gone_say(struct pg_db *db, struct err *err)
{
    __atomic_store_n(&db->gone, true, __ATOMIC_RELAXED);
    return err_set(err, TEND_EUNREACHABLE,
                   "the store in schema '%s' of PostgreSQL at %s was dropped or replaced while it "
                   "was open; restart this program, which then opens the one that is there",
                   db->url.schema, db->url.where);
}

int pg_gone_check(struct pg_db *db, const char *identity, struct err *err)
{
    if (pg_gone(db))
        return pg_gone_say(db, err);
    char *end;
    long long table = strtoll(identity, &end, 10);
    long long token_base = strtoll(end, NULL, 10);
    bool there = *end == ' ';
    if (there && db->identity.table == 0)
        db->identity = (struct pg_identity){.table = table, .token_base = token_base};
    if (there && (db->identity.table == table || db->identity.token_base == token_base))
        return 0;
    return pg_gone_say(db, err);
}

int pg_gone_missing(struct pg_db *db, struct err *err)
{
    PGresult *result;
    struct err why;
    if (err->code != TEND_ENOTADB || db->identity.table == 0)
        return err->code;
    int rc = pg_db_ask(db, -1, db->identity_sql, &result, &why);
    if (rc == TEND_ENOTADB)
        return pg_gone_say(db, err);
    if (rc < 0)
        return err->code;
    if (pg_gone_check(db, PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "", &why) < 0)
        *err = why;
    PQclear(result);
    return err->code;
}
