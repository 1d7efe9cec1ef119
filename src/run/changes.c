/* See changes.h. */
#include "run/changes.h"

#include "base/arena.h"
#include "queue/handle.h"

#include <string.h>

enum {
    FILES_MAX_BYTES = 256 * 1024, /* of the names of files */
};

const char *changes_files(const struct workspace_change *change, const struct redactor *redactor,
                          struct arena *arena)
{
    struct buf json;
    buf_init(&json);
    buf_putc(&json, '[');
    for (size_t i = 0; i < change->file_count && json.len < FILES_MAX_BYTES; i++) {
        const char *name = handle_clean_text(arena, change->files[i].path);
        if (name != NULL && redactor != NULL)
            name = redact_text(redactor, arena, name);
        if (name == NULL)
            json.failed = true;
        else {
            if (i > 0)
                buf_putc(&json, ',');
            buf_json_string(&json, name, strlen(name));
        }
    }
    buf_putc(&json, ']');
    const char *text = json.failed ? NULL : arena_strndup(arena, json.data, json.len);
    buf_done(&json);
    return text;
}

void changes_redact(const struct buf *patch, const struct redactor *redactor, size_t most_bytes,
                    struct buf *out, int64_t *ret_dropped)
{
    struct redact_stream stream;
    size_t fed = patch->len;
    if (fed > most_bytes + CHANGES_MARGIN_BYTES)
        fed = most_bytes + CHANGES_MARGIN_BYTES;
    redact_init(&stream, redactor);
    redact_feed(&stream, patch->data, fed, out);
    redact_end(&stream, out);
    redact_done(&stream);
    size_t len = out->len;
    if (len > most_bytes) {
        len = most_bytes;
        while (len > 0 && out->data[len - 1] != '\n')
            len--;
    }
    *ret_dropped = (int64_t)(patch->len - fed + out->len - len);
    out->len = len;
    if (out->cap > 0)
        out->data[len] = '\0';
}
