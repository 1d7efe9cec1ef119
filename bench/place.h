/*
 * Where a store of a case lies: a file in the folder of the run, or a schema in its database. A
 * case may have several, told apart by name.
 */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include "bench/bench.h"

struct place {
    enum engine engine;
    const char *root; /* the folder, or the URL of the database */
    const char *name; /* "tend", "raw": small letters only */
};

enum { PLACE_URL_BYTES = 1024 };

struct place place_of(const struct bench *bench, const struct bench_case *what, const char *name);

/* The URL by which tend opens it. */
int place_url(const struct place *place, char out[PLACE_URL_BYTES]);
/* The file of a place on SQLite. */
void place_path(const struct place *place, char out[PLACE_URL_BYTES]);
/* The schema of a place on PostgreSQL. */
void place_schema(const struct place *place, char out[64]);

/* Nothing is there afterwards. */
int place_clear(const struct place *place);

#endif
