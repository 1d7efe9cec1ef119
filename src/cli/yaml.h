/*
 * YAML (and so JSON) as a JSON tree that knows where each of its parts stands in the text.
 *
 * Types by the core schema of YAML 1.2: null, true and false, whole numbers, numbers; everything
 * else is text, and so is a number with a leading zero. Not all of YAML: one document, no tags, no
 * merge keys. Aliases are followed, within bounds, so that no file of a few lines becomes
 * gigabytes.
 */
#ifndef CLI_YAML_H
#define CLI_YAML_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct yaml;

/* A place in the text, both from 1; line 0: none. */
struct yaml_place {
    size_t line, column;
};

/*
 * text is borrowed until yaml_free and ends with a NUL. 0; TEND_EINVAL with the sentence in err and
 * the place in *ret_place; TEND_ENOMEM.
 */
int yaml_read(const char *text, size_t bytes, struct yaml **ret, struct yaml_place *ret_place,
              struct err *err);
void yaml_free(struct yaml *yaml);

/* The whole document; borrowed. */
json_t *yaml_json(const struct yaml *yaml);

/* Where "stages[0].steps[2].timeout" stands, or the deepest part of the path that is there. */
struct yaml_place yaml_find(const struct yaml *yaml, const char *path);

#endif
