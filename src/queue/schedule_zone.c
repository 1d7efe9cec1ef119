#include "queue/schedule_zone.h"

#include "base/err.h"
#include "base/zone_file.h"

#include <string.h>
#include <tend.h>

static const char hex_digits[] = "0123456789abcdef";

static char *to_hex(const struct buf *bytes, struct arena *arena)
{
    char *hex = arena_alloc(arena, 2 * bytes->len + 1);
    for (size_t i = 0; hex != NULL && i < bytes->len; i++) {
        hex[2 * i] = hex_digits[(unsigned char)bytes->data[i] >> 4];
        hex[2 * i + 1] = hex_digits[(unsigned char)bytes->data[i] & 15];
    }
    if (hex != NULL)
        hex[2 * bytes->len] = '\0';
    return hex;
}

/* Up to what is no hexadecimal: the file is checked anyway. */
static void from_hex(const char *hex, struct buf *out)
{
    for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
        const char *high = strchr(hex_digits, hex[0]);
        const char *low = strchr(hex_digits, hex[1]);
        if (high == NULL || low == NULL)
            return;
        buf_putc(out, (char)((high - hex_digits) << 4 | (low - hex_digits)));
    }
}

static int parse(const struct buf *bytes, struct arena *arena, const struct zone **ret,
                 struct err *err)
{
    struct zone *zone = arena_alloc(arena, sizeof *zone);
    if (zone == NULL || bytes->failed)
        return err_set(err, TEND_ENOMEM, "out of memory while reading a time zone");
    int rc = zone_parse(bytes->data, bytes->len, arena, zone, err);
    if (rc == 0)
        *ret = zone;
    return rc;
}

static int load_from_system(const char *timezone, struct arena *arena, struct schedule_zone *ret,
                            struct err *err)
{
    struct buf bytes;
    buf_init(&bytes);
    int rc = zone_file_read(timezone, &bytes, err);
    if (rc == 0) {
        rc = parse(&bytes, arena, &ret->zone, err);
        if (rc == TEND_EINVAL)
            err_set(err, rc, "time zone '%s' of this machine cannot be used: %s", timezone,
                    err->text);
    }
    if (rc == 0 && (ret->copy = to_hex(&bytes, arena)) == NULL)
        rc = err_set(err, TEND_ENOMEM, "out of memory while reading a time zone");
    buf_done(&bytes);
    return rc;
}

static int load_from_copy(const char *kept, struct arena *arena, struct schedule_zone *ret)
{
    struct buf bytes;
    buf_init(&bytes);
    from_hex(kept, &bytes);
    int rc = parse(&bytes, arena, &ret->zone, NULL);
    ret->copy = kept;
    buf_done(&bytes);
    return rc;
}

int schedule_zone_load(const char *timezone, const char *kept, struct arena *arena,
                       struct schedule_zone *ret, struct err *err)
{
    struct err why = {0};
    *ret = (struct schedule_zone){0};
    if (timezone == NULL)
        return 0;
    int rc = load_from_system(timezone, arena, ret, &why);
    if (rc == 0 || (kept != NULL && load_from_copy(kept, arena, ret) == 0))
        return 0;
    return err_set(err, rc == TEND_ENOMEM ? rc : TEND_EINVAL, "%s", why.text);
}
