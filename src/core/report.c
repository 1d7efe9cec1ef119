/* See report.h. */
#include "core/report.h"

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "base/timetext.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tend.h>

static const double longest_seconds = 1e12;                        /* more is no duration */
static const int64_t longest_ms = INT64_C(365) * 24 * 3600 * 1000; /* more is taken as that */

int report_init(struct report *report, struct err *err)
{
    *report = (struct report){
        .outputs = json_object(),
        .progress_percent = -1,
        .retry_after_ms = -1,
        .waiting_ms = -1,
    };
    buf_init(&report->line);
    if (!report->outputs)
        return err_set(err, TEND_ENOMEM, "no memory for what the step reports");
    return 0;
}

void report_done(struct report *report)
{
    json_decref(report->outputs);
    json_decref(report->result);
    buf_done(&report->line);
    report->outputs = report->result = NULL;
}

__attribute__((format(printf, 2, 3))) static void warn(struct report *report, const char *format,
                                                       ...)
{
    report->changed |= REPORT_WARNING;
    if (report->warning_count++ >= REPORT_WARNINGS_MAX)
        return;
    struct report_warning *warning = &report->warnings[report->warning_count - 1];
    warning->line = report->line_number;
    va_list args;
    va_start(args, format);
    struct err cut; /* cuts between characters */
    err_vset(&cut, TEND_EINVAL, format, args);
    va_end(args);
    size_t len = utf8_floor(cut.text, strlen(cut.text), sizeof warning->text - 1);
    memcpy(warning->text, cut.text, len);
    warning->text[len] = '\0';
}

static void copy_text(char out[REPORT_TEXT_BYTES + 1], const char *text)
{
    text_plain(text, strlen(text), out, REPORT_TEXT_BYTES + 1);
}

/* ---- values ---- */

/* A duration, or a number of seconds; -1 when it is neither. */
static int64_t text_duration_ms(const char *text)
{
    char seconds[64];
    int64_t ms;
    if (duration_parse(text, &ms, NULL) == 0)
        return ms;
    if (strspn(text, "0123456789.") != strlen(text))
        return -1;
    int len = snprintf(seconds, sizeof seconds, "%ss", text);
    if (len >= (int)sizeof seconds || duration_parse(seconds, &ms, NULL) < 0)
        return -1;
    return ms;
}

static int64_t duration_ms(const json_t *value)
{
    if (json_is_string(value))
        return text_duration_ms(json_string_value(value));
    if (!json_is_number(value))
        return -1;
    double seconds = json_number_value(value);
    return seconds >= 0 && seconds <= longest_seconds ? (int64_t)(seconds * 1000.0 + 0.5) : -1;
}

/* What a store takes, and nobody waits for longer. */
static int64_t shorten(struct report *report, const char *key, int64_t ms)
{
    if (ms <= longest_ms)
        return ms;
    warn(report, "%s is longer than 365 days: it is taken as 365 days", key);
    return longest_ms;
}

/* 0 to 100, a fraction and a % sign allowed; -1 when it is something else. */
static int text_percent(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    size_t len = digits;
    if (text[len] == '.')
        len += 1 + strspn(text + len + 1, "0123456789");
    if (text[len] == '%')
        len++;
    if (digits == 0 || digits > 3 || text[len] != '\0')
        return -1;
    int percent = 0;
    for (size_t i = 0; i < digits; i++)
        percent = percent * 10 + (text[i] - '0');
    bool fraction = strcspn(text, "123456789") < len && strpbrk(text + digits, "123456789");
    return percent < 100 || (percent == 100 && !fraction) ? percent : -1;
}

static int percent(const json_t *value)
{
    if (json_is_string(value))
        return text_percent(json_string_value(value));
    double number = json_is_number(value) ? json_number_value(value) : -1.0;
    return number >= 0.0 && number <= 100.0 ? (int)number : -1;
}

/* ---- keys ---- */

static void set_progress(struct report *report, const json_t *value, const char *text)
{
    int number = percent(value);
    if (number < 0) {
        warn(report, "progress must be a number from 0 to 100");
        return;
    }
    report->progress_percent = number;
    copy_text(report->progress_text, text);
    report->changed |= REPORT_PROGRESS;
}

static void set_waiting(struct report *report, const json_t *value, const char *text)
{
    int64_t ms = duration_ms(value);
    if (ms < 0) {
        warn(report, "waiting must be a duration such as 10m, or 0");
        return;
    }
    report->waiting_ms = shorten(report, "waiting", ms);
    copy_text(report->waiting_text, text);
    report->changed |= REPORT_WAITING;
}

static void set_retry_after(struct report *report, const json_t *value)
{
    int64_t ms = duration_ms(value);
    if (ms < 0) {
        warn(report, "retry_after must be a duration such as 30s, or a number of seconds");
        return;
    }
    report->retry_after_ms = shorten(report, "retry_after", ms);
    report->changed |= REPORT_RETRY_AFTER;
}

static void set_class(struct report *report, const json_t *value)
{
    const char *name = json_is_string(value) ? json_string_value(value) : "";
    enum failure_class class = failure_class_parse(name);
    if (class == CLASS_NONE) {
        warn(report, "class must be one of %s, %s, %s, %s, %s",
             failure_class_name(CLASS_TRANSIENT_RUNTIME),
             failure_class_name(CLASS_STUCK_NO_PROGRESS),
             failure_class_name(CLASS_DETERMINISTIC_CONTRACT),
             failure_class_name(CLASS_DETERMINISTIC_POLICY),
             failure_class_name(CLASS_DETERMINISTIC_REPO));
        return;
    }
    report->class = class;
    report->changed |= REPORT_CLASS;
}

static bool output_name_ok(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    size_t len = strlen(name);
    size_t first = strspn(name, letters) > 0;
    return first > 0 && len <= NAME_MAX_BYTES &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-") == len;
}

static size_t cost(const char *name, const json_t *value)
{
    return value ? strlen(name) + json_dumpb(value, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT) : 0;
}

/* Levels of objects and arrays; what is read has JSON_DEPTH_MAX at most. */
static int depth(json_t *value)
{
    int deepest = 0;
    size_t index;
    const char *key;
    json_t *inner;
    json_array_foreach(value, index, inner)
    {
        int levels = depth(inner);
        deepest = levels > deepest ? levels : deepest;
    }
    json_object_foreach(value, key, inner)
    {
        int levels = depth(inner);
        deepest = levels > deepest ? levels : deepest;
    }
    return json_is_array(value) || json_is_object(value) ? deepest + 1 : 0;
}

/* 0 or TEND_ENOMEM. */
static int set_output(struct report *report, const char *name, json_t *value)
{
    if (!output_name_ok(name)) {
        warn(report,
             "the name of an output must be a letter or _, then letters, digits, _ . - (at most "
             "%d)",
             NAME_MAX_BYTES);
        return 0;
    }
    const json_t *former = json_object_get(report->outputs, name);
    if (!former && json_object_size(report->outputs) >= REPORT_OUTPUTS_MAX) {
        warn(report, "%s is left out: there are %d outputs already", name, REPORT_OUTPUTS_MAX);
        return 0;
    }
    if (depth(value) > REPORT_OUTPUT_DEPTH) {
        warn(report, "%s is left out: it is nested deeper than %d levels", name,
             REPORT_OUTPUT_DEPTH);
        return 0;
    }
    size_t bytes = report->output_bytes - cost(name, former) + cost(name, value);
    if (bytes > REPORT_OUTPUT_BYTES) {
        warn(report, "%s is left out: all outputs together may have %d bytes", name,
             REPORT_OUTPUT_BYTES);
        return 0;
    }
    if (json_object_set(report->outputs, name, value) < 0)
        return TEND_ENOMEM;
    report->output_bytes = bytes;
    report->changed |= REPORT_OUTPUT;
    return 0;
}

static bool is_timed_key(const char *key)
{
    return strcmp(key, "progress") == 0 || strcmp(key, "waiting") == 0;
}

/* text: what goes with progress or waiting. 0 or TEND_ENOMEM. */
static int set_key(struct report *report, const char *key, json_t *value, const char *text)
{
    if (strcmp(key, "progress") == 0) {
        set_progress(report, value, text);
    } else if (strcmp(key, "waiting") == 0) {
        set_waiting(report, value, text);
    } else if (strcmp(key, "retry_after") == 0) {
        set_retry_after(report, value);
    } else if (strcmp(key, "class") == 0) {
        set_class(report, value);
    } else if (strcmp(key, "result") == 0) {
        json_decref(report->result);
        report->result = json_incref(value);
        report->changed |= REPORT_RESULT;
    } else {
        return set_output(report, key, value);
    }
    return 0;
}

/* ---- lines ---- */

static int take_object(struct report *report, json_t *object)
{
    const json_t *timed = json_object_get(object, "progress");
    if (!timed)
        timed = json_object_get(object, "waiting");
    const char *text = timed ? json_string_value(json_object_get(object, "text")) : NULL;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (text && strcmp(key, "text") == 0)
            continue;
        if (set_key(report, key, value, text ? text : "") < 0)
            return TEND_ENOMEM;
    }
    return 0;
}

static int take_json(struct report *report, const char *line, size_t len)
{
    struct json_fault fault;
    /* Checked first: that bounds the depth, and does not go by recursion. */
    if (json_check(line, len, &fault) < 0) {
        warn(report, "not a JSON object: %s (column %zu)", fault.reason, fault.column);
        return 0;
    }
    json_error_t error;
    json_t *object = json_loadb(line, len, JSON_DECODE_ANY, &error);
    if (!object) {
        if (json_no_memory(&error))
            return TEND_ENOMEM;
        warn(report, "not a JSON object: %s (column %d)", error.text, error.column);
        return 0;
    }
    int r = take_object(report, object);
    json_decref(object);
    return r;
}

static size_t blanks(const char *text)
{
    return strspn(text, " \t");
}

/* line is a string without NUL or stray bytes, and is cut up. */
static int take_pair(struct report *report, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals) {
        warn(report, "neither key=value nor a JSON object");
        return 0;
    }
    *equals = '\0';
    char *given = equals + 1;
    const char *text = "";
    if (is_timed_key(line)) {
        given += blanks(given);
        char *end = given + strcspn(given, " \t");
        text = end + blanks(end);
        *end = '\0';
    } else if (strcmp(line, "class") == 0 || strcmp(line, "retry_after") == 0) {
        given += blanks(given);
        given[strcspn(given, " \t")] = '\0';
    }
    json_t *value = json_string(given);
    if (!value)
        return TEND_ENOMEM;
    int r = set_key(report, line, value, text);
    json_decref(value);
    return r;
}

static int take_line(struct report *report)
{
    report->line_number++;
    if (report->line_too_long) {
        warn(report, "the line is longer than %d bytes", REPORT_LINE_BYTES);
        report->line_too_long = false;
        return 0;
    }
    struct buf *line = &report->line;
    while (line->len > 0 && line->data[line->len - 1] == '\r')
        line->len--;
    struct buf clean;
    buf_init(&clean);
    utf8_clean(&clean, line->data, line->len, true);
    int r = 0;
    if (clean.failed)
        r = TEND_ENOMEM;
    else if (clean.data[blanks(clean.data)] == '{')
        r = take_json(report, clean.data, clean.len);
    else if (clean.data[blanks(clean.data)] != '\0')
        r = take_pair(report, clean.data);
    buf_done(&clean);
    return r;
}

static void gather(struct report *report, const char *bytes, size_t len)
{
    if (report->line_too_long)
        return;
    if (len > REPORT_LINE_BYTES - report->line.len) {
        report->line_too_long = true;
        buf_done(&report->line);
        return;
    }
    buf_append(&report->line, bytes, len);
}

int report_feed(struct report *report, const void *bytes, size_t len, struct err *err)
{
    const char *at = bytes;
    const char *end = at + len;
    int r = 0;
    while (at < end && r == 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        gather(report, at, (size_t)((newline ? newline : end) - at));
        if (report->line.failed)
            r = TEND_ENOMEM;
        else if (newline)
            r = take_line(report);
        if (newline)
            buf_clear(&report->line);
        at = newline ? newline + 1 : end;
    }
    return r < 0 ? err_set(err, r, "no memory for what the step reports") : 0;
}

int report_end(struct report *report, struct err *err)
{
    if (report->line.len == 0 && !report->line_too_long)
        return 0;
    return report_feed(report, "\n", 1, err);
}

int report_again(struct report *report, struct err *err)
{
    int r = report_end(report, err);
    report->line_number = 0;
    return r;
}
