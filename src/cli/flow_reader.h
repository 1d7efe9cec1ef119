/* How the readers of a flow file say what is wrong, and where. */
#ifndef CLI_FLOW_READER_H
#define CLI_FLOW_READER_H

#include "cli/yaml.h"

#include <stdbool.h>

struct err;

struct flow_reader {
    const char *name; /* of the file */
    const char *text;
    struct yaml_doc *yaml;
    struct err *err;
};

/* TEND_EINVAL: "FILE, line 3, column 5 (THE LINE): PATH: …". */
int flow_fault(struct flow_reader *reader, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a sentence about a place that is known. */
int flow_fault_at(struct flow_reader *reader, int code, struct yaml_place place,
                  const char *sentence);
/* The same for a sentence of spec_parse, which begins with a path below `base`. */
int flow_plan_fault(struct flow_reader *reader, const char *base, const char *sentence);
/* The same for a member that nobody knows. */
int flow_unknown(struct flow_reader *reader, const char *path, const char *name,
                 const char *const *names);

/* names ends with NULL. */
bool flow_is_one_of(const char *name, const char *const *names);

#endif
