/*
 * What a spec of a job may say: checked before the store is asked, so that bad input changes
 * nothing, and without a store for those who have none yet. What is given as NULL or TEND_UNSET has
 * a default, which is right.
 */
#include "base/json.h"
#include "base/text.h"
#include "base/timetext.h"
#include "queue/add.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Line, column and reason; 0 or TEND_EINVAL. */
static int check_json(const char *what, const char *text, size_t bytes, struct err *err)
{
    struct json_fault fault;
    if (json_check(text, bytes, &fault) == 0)
        return 0;
    return err_set(err, TEND_EINVAL, "the %s is not valid JSON: line %zu, column %zu: %s", what,
                   fault.line, fault.column, fault.reason);
}

int add_check_json(tend *t, const char *what, const char *text, size_t bytes)
{
    struct err err;
    int rc = check_json(what, text, bytes, &err);
    return rc < 0 ? handle_fail(t, rc, "%s", err.text) : 0;
}

#define BACKOFF_MOST_MS (INT64_C(366) * 24 * 3600 * 1000)
#define MEMBER(name) #name, offsetof(struct tend_job_spec, name)

enum number_form { FORM_COUNT, FORM_SPAN, FORM_TIME };

static const struct number_rule {
    const char *member;
    size_t offset;
    const char *what; /* its subject in a sentence */
    enum number_form form;
    int64_t low, high;
} number_rules[] = {
    {MEMBER(due_at_ms), "the due time", FORM_TIME, 0, TIME_MAX_MS},
    {MEMBER(delay_ms), "the delay", FORM_SPAN, 0, 10 * SPAN_MOST_MS},
    {MEMBER(max_attempts), "the number of attempts", FORM_COUNT, 1, 1000000},
    {MEMBER(max_crashes), "the number of crashes", FORM_COUNT, 1, 1000000},
    {MEMBER(backoff_ms), "the backoff", FORM_SPAN, 0, BACKOFF_MOST_MS},
    {MEMBER(backoff_max_ms), "the longest backoff", FORM_SPAN, 0, BACKOFF_MOST_MS},
    {MEMBER(lease_ms), "the lease", FORM_SPAN, LEASE_LEAST_MS, LEASE_MOST_MS},
};

static int refuse_number(const struct number_rule *rule, int64_t value, struct err *err)
{
    char given[TIME_TEXT_BYTES];
    char low[TIME_TEXT_BYTES];
    char high[TIME_TEXT_BYTES];
    char range[DURATION_RANGE_BYTES];
    switch (rule->form) {
    case FORM_SPAN:
        return err_set(err, TEND_EINVAL, "%s is %s; it must be %s", rule->what,
                       duration_text(value, given),
                       duration_range_text(rule->low, rule->high, range));
    case FORM_TIME:
        return err_set(err, TEND_EINVAL, "%s is %s; it must be a time from %s to %s", rule->what,
                       time_text(value, given), time_text(rule->low, low),
                       time_text(rule->high, high));
    case FORM_COUNT:
        break;
    }
    return err_set(err, TEND_EINVAL, "%s is %lld; it must be a number from %lld to %lld",
                   rule->what, (long long)value, (long long)rule->low, (long long)rule->high);
}

static int check_numbers(const struct tend_job_spec *spec, const char **member, struct err *err)
{
    static const struct number_rule priority = {MEMBER(priority), "the priority", FORM_COUNT, 0, 9};
    *member = priority.member;
    if (spec->priority < priority.low || spec->priority > priority.high)
        return refuse_number(&priority, spec->priority, err);
    for (size_t i = 0; i < sizeof number_rules / sizeof *number_rules; i++) {
        const struct number_rule *rule = &number_rules[i];
        int64_t value = *(const int64_t *)(const void *)((const char *)spec + rule->offset);
        *member = rule->member;
        if (value != TEND_UNSET && (value < rule->low || value > rule->high))
            return refuse_number(rule, value, err);
    }
    return 0;
}

static int check_tags(const char *text, struct err *err)
{
    int rc = check_json("list of tags", text, strlen(text), err);
    if (rc < 0)
        return rc;
    json_error_t error;
    json_t *tags = json_loads(text, JSON_DECODE_ANY, &error);
    if (tags == NULL && json_no_memory(&error))
        return err_set(err, TEND_ENOMEM, "out of memory while reading the tags");
    bool strings = json_is_array(tags);
    for (size_t i = 0; strings && i < json_array_size(tags); i++)
        strings = json_is_string(json_array_get(tags, i));
    json_decref(tags);
    return strings
               ? 0
               : err_set(err, TEND_EINVAL, "tags must be a JSON array of strings, not %.80s", text);
}

static int check_names(const struct tend_job_spec *spec, const char **member, struct err *err)
{
    /* Kind and subject may be empty; an empty key is rather a variable nobody has set. */
    const struct {
        const char *member, *what, *text;
        bool may_be_empty;
    } names[] = {{"queue", "queue", spec->queue, false},
                 {"kind", "kind", spec->kind, true},
                 {"unique_key", "unique key", spec->unique_key, false},
                 {"subject", "subject", spec->subject, true},
                 {"concurrency_key", "concurrency key", spec->concurrency_key, false},
                 {"by", "submitter", spec->by, false},
                 {"hook", "hook", spec->hook, false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = names[i].text;
        if (text == NULL || (text[0] == '\0' && names[i].may_be_empty))
            continue;
        *member = names[i].member;
        int rc = name_check(names[i].what, text, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* *member: the one at fault. */
static int check_spec(const struct tend_job_spec *spec, const char **member, struct err *err)
{
    int rc;
    if ((rc = check_names(spec, member, err)) < 0 || (rc = check_numbers(spec, member, err)) < 0)
        return rc;
    *member = "payload";
    size_t bytes;
    const char *payload = add_payload(spec, &bytes);
    if ((rc = check_json("payload", payload, bytes, err)) < 0)
        return rc;
    *member = "workspace";
    if (spec->workspace != NULL && !utf8_valid(spec->workspace, strlen(spec->workspace)))
        return err_set(err, TEND_EINVAL, "the workspace is not valid UTF-8 text");
    *member = "if_running";
    if (spec->if_running != TEND_IF_RUNNING_AGAIN && spec->if_running != TEND_IF_RUNNING_KEEP)
        return err_set(err, TEND_EINVAL,
                       "%d is no choice for a job that is running; give TEND_IF_RUNNING_AGAIN or "
                       "TEND_IF_RUNNING_KEEP",
                       (int)spec->if_running);
    *member = "tags";
    return spec->tags == NULL ? 0 : check_tags(spec->tags, err);
}

int tend_job_spec_check(const struct tend_job_spec *spec, struct tend_spec_fault *ret)
{
    struct err err;
    const char *member = NULL;
    int rc = check_spec(spec, &member, &err);
    if (rc < 0 && ret != NULL) {
        ret->member = member;
        snprintf(ret->text, sizeof ret->text, "%s", err.text);
    }
    return rc;
}
