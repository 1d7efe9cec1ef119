/* See spec.h: the payload as a whole. */
#include "core/spec.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "core/heal.h"
#include "core/spec_read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <tend.h>

/* ---- is it a plan? ---- */

/* Index of the closing quote of the string whose opening quote is at `at`. */
static size_t string_end(const char *text, size_t at)
{
    for (at++; text[at] != '"'; at++)
        if (text[at] == '\\')
            at++;
    return at;
}

static const char *const keys_of_plan[] = {"steps", "run", "exec", "http", "sleep"};

static bool is_key_of_plan(const char *key, size_t len)
{
    for (size_t i = 0; i < sizeof keys_of_plan / sizeof *keys_of_plan; i++)
        if (strlen(keys_of_plan[i]) == len && memcmp(keys_of_plan[i], key, len) == 0)
            return true;
    return false;
}

/* Looks at a member: its name, and where its value begins. True: that is enough. */
typedef bool look_at_member(void *arg, const char *name, size_t len, const char *value);

/* What comes behind the name that ends with the quote at `end`. */
static const char *value_behind(const char *text, size_t end)
{
    const char *at = text + end + 1;
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r' || *at == ':')
        at++;
    return at;
}

/*
 * Looks at the members of the outermost object without building anything: payloads that are data
 * may be large, and may hold what a plan must not (numbers of any size, doubled members). The text
 * is known to be JSON. A key written with escapes is not recognised. Returns whether one was
 * enough.
 */
static bool any_member(const char *text, size_t bytes, look_at_member *look, void *arg)
{
    int depth = 0;
    bool object = false;
    bool key_next = false;
    for (size_t at = 0; at < bytes; at++) {
        switch (text[at]) {
        case '{':
        case '[':
            depth++;
            if (depth == 1)
                object = text[at] == '{';
            key_next = object && depth == 1;
            break;
        case '}':
        case ']':
            depth--;
            break;
        case ',':
            key_next = object && depth == 1;
            break;
        case '"': {
            size_t end = string_end(text, at);
            if (key_next && look(arg, text + at + 1, end - at - 1, value_behind(text, end)))
                return true;
            key_next = false;
            at = end;
            break;
        }
        }
    }
    return false;
}

static bool makes_a_plan(void *arg, const char *name, size_t len, const char *value)
{
    (void)arg;
    (void)value;
    return is_key_of_plan(name, len);
}

static bool is_plan(const char *text, size_t bytes)
{
    return any_member(text, bytes, makes_a_plan, NULL);
}

/* ---- was it meant as a plan? ---- */

/* Words of other tools, and those of a plan by the case of their letters. */
static const struct {
    const char *word, *meant;
} near_words[] = {
    {"command", "run"}, {"cmd", "run"},      {"script", "run"}, {"shell", "run"},
    {"bash", "run"},    {"sh", "run"},       {"argv", "exec"},  {"step", "steps"},
    {"tasks", "steps"}, {"stages", "steps"},
};

/* What kind of value each has. */
static bool value_fits(const char *meant, char first)
{
    return strcmp(meant, "run") == 0 || strcmp(meant, "sleep") == 0 ? first == '"'
           : strcmp(meant, "http") == 0                             ? first == '{'
                                                                    : first == '[';
}

static bool looks_like_a_plan(void *arg, const char *name, size_t len, const char *value)
{
    struct spec_slip *slip = arg;
    if (len >= sizeof slip->member)
        return false;
    memcpy(slip->member, name, len);
    slip->member[len] = '\0';
    slip->meant = NULL;
    for (size_t i = 0; i < sizeof keys_of_plan / sizeof *keys_of_plan; i++)
        if (strcasecmp(slip->member, keys_of_plan[i]) == 0)
            slip->meant = keys_of_plan[i];
    slip->certain = slip->meant != NULL;
    for (size_t i = 0; slip->meant == NULL && i < sizeof near_words / sizeof *near_words; i++)
        if (strcasecmp(slip->member, near_words[i].word) == 0)
            slip->meant = near_words[i].meant;
    if (slip->meant != NULL && strcmp(slip->meant, "run") == 0 && *value == '[')
        slip->meant = "exec";
    return slip->meant != NULL && value_fits(slip->meant, *value);
}

bool spec_find_slip(const char *payload, size_t bytes, struct spec_slip *ret)
{
    if (bytes == 0 || json_check(payload, bytes, NULL) != 0 || is_plan(payload, bytes))
        return false;
    return any_member(payload, bytes, looks_like_a_plan, ret);
}

/* ---- steps ---- */

static int read_steps_step(struct reader *reader, const struct place *place, json_t *object,
                           struct step_plan *step)
{
    if (!json_is_object(object))
        return spec_fault(reader, place, "must be an object such as {\"run\": \"make\"}");
    const char *name;
    json_t *value;
    step->budgets = budget_none();
    json_object_foreach(object, name, value)
    {
        struct place here = {.parent = place, .name = name};
        int code = spec_step_member(reader, &here, value, step);
        if (code < 0)
            return code;
        if (code == SPEC_KNOWN)
            continue;
        if (budget_find(name))
            return spec_fault(reader, &here, "belongs to the job, beside steps");
        const char *names[SPEC_STEP_NAMES];
        spec_step_names(names);
        return spec_unknown(reader, &here, names);
    }
    return spec_step_check(reader, place, object);
}

static int read_steps(struct reader *reader, const struct place *place, json_t *value,
                      struct job_plan *plan)
{
    if (!json_is_array(value))
        return spec_fault(reader, place, "must be a list of steps");
    size_t count = json_array_size(value);
    plan->steps = arena_zalloc(reader->arena, (count + 1) * sizeof *plan->steps);
    if (!plan->steps)
        return spec_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        struct place here = {.parent = place, .index = i};
        int code = read_steps_step(reader, &here, json_array_get(value, i), &plan->steps[i]);
        if (code < 0)
            return code;
    }
    plan->step_count = count;
    return 0;
}

struct named_step {
    const char *id;
    size_t index;
};

static int compare_ids(const void *a, const void *b)
{
    const struct named_step *one = a;
    const struct named_step *two = b;
    int order = strcmp(one->id, two->id);
    /* Of the same id the first step first, so that the second is the one that is refused. */
    return order != 0 ? order : (one->index > two->index) - (one->index < two->index);
}

static int refuse_id(struct reader *reader, const struct named_step *first,
                     const struct named_step *second)
{
    struct place steps = {.name = "steps"};
    struct place step = {.parent = &steps, .index = second->index};
    struct place id = {.parent = &step, .name = "id"};
    return spec_fault(reader, &id, "\"%s\" is the id of steps[%zu] already", second->id,
                      first->index);
}

/* Gives an id to those that have none, and refuses two of the same. Sorted, not compared each with
 * each: there may be many. */
static int name_steps(struct reader *reader, struct job_plan *plan)
{
    size_t count = plan->step_count;
    struct named_step *sorted = arena_alloc(reader->arena, (count + 1) * sizeof *sorted);
    if (!sorted)
        return spec_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        struct step_plan *step = &plan->steps[i];
        if (!step->id)
            step->id = arena_printf(reader->arena, "step-%zu", i + 1);
        if (!step->id)
            return spec_no_memory(reader);
        sorted[i] = (struct named_step){.id = step->id, .index = i};
    }
    qsort(sorted, count, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1].id, sorted[i].id) == 0)
            return refuse_id(reader, &sorted[i - 1], &sorted[i]);
    return 0;
}

/* ---- the job ---- */

/* Handed to git as an argument: it must not look like an option. */
static int read_git_name(struct reader *reader, const struct place *place, json_t *value,
                         const char **ret)
{
    const char *text = json_string_value(value);
    if (text && text[0] == '-')
        return spec_fault(reader, place, "must not begin with a minus sign");
    for (const char *at = text; at && *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F)
            return spec_fault(reader, place, "must not hold control characters");
    return spec_full_text(reader, place, value, ret);
}

static int read_workspace(struct reader *reader, const struct place *place, json_t *value,
                          struct job_plan *plan)
{
    static const char *const names[] = {"repo", "ref", NULL};
    if (!json_is_object(value))
        return spec_fault(reader, place, "must be an object {\"repo\": …, \"ref\": …}");
    const char *name;
    json_t *text;
    json_object_foreach(value, name, text)
    {
        struct place here = {.parent = place, .name = name};
        bool repo = strcmp(name, "repo") == 0;
        if (!repo && strcmp(name, "ref") != 0)
            return spec_unknown(reader, &here, names);
        int code =
            read_git_name(reader, &here, text, repo ? &plan->workspace_repo : &plan->workspace_ref);
        if (code < 0)
            return code;
    }
    return plan->workspace_repo ? 0 : spec_fault(reader, place, "repo is missing");
}

static int read_retry_classes(struct reader *reader, const struct place *place, json_t *value,
                              struct job_plan *plan)
{
    unsigned classes;
    if (!json_is_string(value) || !retry_classes_parse(json_string_value(value), &classes))
        return spec_fault(reader, place,
                          "must be failure classes with commas between them, such as \"%s\", or "
                          "\"none\"",
                          RETRY_CLASSES_DEFAULT);
    return spec_text(reader, place, value, &plan->retry_classes);
}

/* Members of a job, its budgets, which come from their own table, and those of the caller. */
enum { JOB_NAMES = 32 };
static const char *const job_names[] = {"steps",    "objective", "workspace",     "env",
                                        "classify", "notify",    "retry_classes", NULL};

/* SPEC_KNOWN, SPEC_UNKNOWN or negative. */
static int read_job_member(struct reader *reader, const struct place *place, json_t *value,
                           struct job_plan *plan)
{
    const char *name = place->name;
    const struct budget_row *budget = budget_find(name);
    int code;
    if (strcmp(name, "steps") == 0)
        code = read_steps(reader, place, value, plan);
    else if (strcmp(name, "objective") == 0)
        code = spec_text(reader, place, value, &plan->objective);
    else if (strcmp(name, "workspace") == 0)
        code = read_workspace(reader, place, value, plan);
    else if (strcmp(name, "env") == 0)
        code = spec_env(reader, place, value, &plan->env);
    else if (strcmp(name, "classify") == 0)
        code = spec_rules(reader, place, value, &plan->rules);
    else if (strcmp(name, "notify") == 0) /* of a hook's job: for its command, in TEND_INPUT */
        code = json_is_object(value) ? 0 : spec_fault(reader, place, "must be an object");
    else if (strcmp(name, "retry_classes") == 0)
        code = read_retry_classes(reader, place, value, plan);
    else if (budget && strcmp(budget->name, name) == 0)
        code = spec_budget(reader, place, value, &plan->budgets);
    else
        return SPEC_UNKNOWN;
    return code < 0 ? code : SPEC_KNOWN;
}

static int refuse_job_member(struct reader *reader, const struct place *place, bool short_form)
{
    const char *names[SPEC_STEP_NAMES + JOB_NAMES] = {NULL};
    const struct budget_row *budget = budget_find(place->name);
    /* "timeout" of a job of many steps could be meant for each or for all of them together. */
    if (budget && budget->short_name && strcmp(budget->short_name, place->name) == 0)
        return spec_fault(reader, place, "belongs to a step; for every step write \"%s\"",
                          budget->name);
    if (short_form)
        spec_step_names(names);
    size_t count = 0;
    while (names[count])
        count++;
    for (size_t i = 0; job_names[i]; i++)
        names[count++] = job_names[i];
    size_t rows;
    const struct budget_row *table = budget_table(&rows);
    for (size_t i = 0; i < rows; i++)
        names[count++] = table[i].name;
    const char *const *more = reader->more_names;
    for (; more && *more && count + 1 < sizeof names / sizeof *names; more++)
        names[count++] = *more;
    names[count] = NULL;
    return spec_unknown(reader, place, names);
}

static int read_job(struct reader *reader, json_t *object, struct job_plan *plan)
{
    bool short_form = json_object_get(object, "steps") == NULL;
    const char *name;
    json_t *value;
    plan->budgets = budget_none();
    if (short_form) {
        plan->steps = arena_zalloc(reader->arena, sizeof *plan->steps);
        if (!plan->steps)
            return spec_no_memory(reader);
        plan->steps->budgets = budget_none();
        plan->step_count = 1;
    }
    json_object_foreach(object, name, value)
    {
        struct place here = {.name = name};
        int code = read_job_member(reader, &here, value, plan);
        if (code == SPEC_UNKNOWN && short_form)
            code = spec_step_member(reader, &here, value, plan->steps);
        if (code == SPEC_UNKNOWN && is_key_of_plan(name, strlen(name)))
            code = spec_fault(reader, &here, "cannot stand beside steps; make it one of them");
        if (code == SPEC_UNKNOWN)
            code = refuse_job_member(reader, &here, short_form);
        if (code < 0)
            return code;
    }
    const struct place steps = {.name = "steps"};
    int code = short_form ? spec_step_check(reader, NULL, object) : 0;
    if (plan->step_count == 0)
        code = spec_fault(reader, &steps, "there is nothing to do; at least one step is needed");
    return code < 0 ? code : name_steps(reader, plan);
}

static int refuse_json(struct reader *reader, const json_error_t *error)
{
    if (json_no_memory(error))
        return spec_no_memory(reader);
    const char *reason = json_error_code(error) == json_error_null_character
                             ? "a text holds \\u0000, which no command can be given"
                             : error->text;
    return spec_fault(reader, NULL, "what the job has to do cannot be read, line %d, column %d: %s",
                      error->line, error->column, reason);
}

static int check_json(struct reader *reader, const char *payload, size_t bytes)
{
    struct json_fault fault;
    if (json_check(payload, bytes, &fault) == 0)
        return 0;
    return spec_fault(reader, NULL, "the payload is not JSON, line %zu, column %zu: %s", fault.line,
                      fault.column, fault.reason);
}

/* The payload is known to be JSON. */
static int read_plan(struct reader *reader, const char *payload, size_t bytes, struct job_plan *ret)
{
    json_error_t error;
    json_t *object = json_loadb(payload, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!object)
        return refuse_json(reader, &error);
    struct job_plan plan = {0};
    int code = read_job(reader, object, &plan);
    json_decref(object);
    if (code < 0)
        return code;
    *ret = plan;
    return SPEC_PLAN;
}

int spec_parse(const char *payload, size_t bytes, struct arena *arena, struct job_plan *ret,
               struct err *err)
{
    struct reader reader = {.arena = arena, .err = err};
    if (bytes == 0)
        return SPEC_NONE;
    int code = check_json(&reader, payload, bytes);
    if (code < 0)
        return code;
    return is_plan(payload, bytes) ? read_plan(&reader, payload, bytes, ret) : SPEC_NONE;
}

int spec_parse_plan(const char *payload, size_t bytes, const char *const *more_names,
                    struct arena *arena, struct job_plan *ret, struct err *err)
{
    struct reader reader = {.arena = arena, .err = err, .more_names = more_names};
    int code = check_json(&reader, payload, bytes);
    return code < 0 ? code : read_plan(&reader, payload, bytes, ret);
}

const char *spec_job_kind(const struct job_plan *plan)
{
    switch (plan->steps[0].kind) {
    case STEP_HTTP:
        return "http";
    case STEP_SLEEP:
        return "sleep";
    case STEP_RUN:
    case STEP_EXEC:
        break;
    }
    return "shell";
}

const struct step_plan *spec_find_step(const struct job_plan *plan, const char *id)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (strcmp(plan->steps[i].id, id) == 0)
            return &plan->steps[i];
    return NULL;
}
