/*
 * YAML (and so JSON) as a JSON tree that knows where each of its parts stands in the text.
 *
 * Types by the core schema of YAML 1.2: null, true and false, whole numbers, numbers; everything
 * else is text, and so is a number with a leading zero. Not all of YAML: one document, no tags, no
 * merge keys. Aliases are followed, within bounds, so that no file of a few lines becomes
 * gigabytes. (What begins with yaml_doc is ours; yaml_free, for one, is the parser library's.)
 */
#ifndef CLI_YAML_H
#define CLI_YAML_H

#include <jansson.h>
#include <stddef.h>

struct err;
struct yaml_doc;

/* A place in the text, both from 1; line 0: none. */
struct yaml_place {
    size_t line, column;
};

/*
 * text is borrowed until yaml_doc_free and ends with a NUL. 0; TEND_EINVAL with the sentence in err
 * and the place in *ret_place; TEND_ENOMEM.
 */
int yaml_doc_read(const char *text, size_t bytes, struct yaml_doc **ret,
                  struct yaml_place *ret_place, struct err *err);
void yaml_doc_free(struct yaml_doc *yaml);

/* The whole document; borrowed. */
json_t *yaml_doc_json(const struct yaml_doc *yaml);

/* Where "stages[0].steps[2].timeout" stands, or the deepest part of the path that is there. */
struct yaml_place yaml_doc_find(const struct yaml_doc *yaml, const char *path);

#endif
