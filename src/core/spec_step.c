/* One step of a plan: its members and what it does. */
#include "base/arena.h"
#include "base/timetext.h"
#include "core/spec_read.h"

#include <string.h>

static const char *const kind_names[] = {"run", "exec", "http", "sleep"};
enum { KINDS = sizeof kind_names / sizeof *kind_names };

#define LONGEST_SLEEP_MS (INT64_C(365) * 24 * 3600 * 1000)

const char *step_kind_name(enum step_kind kind)
{
    return kind_names[kind];
}

static int read_id(struct reader *reader, const struct place *place, json_t *value,
                   struct step_plan *step)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.:-";
    const char *id = json_string_value(value);
    if (!id || id[0] == '\0' || strlen(id) > STEP_ID_BYTES || id[strspn(id, allowed)] != '\0')
        return spec_fault(reader, place, "must be 1 to %d of the characters A-Z a-z 0-9 _ . : -",
                          STEP_ID_BYTES);
    return spec_text(reader, place, value, &step->id);
}

static int read_title(struct reader *reader, const struct place *place, json_t *value,
                      struct step_plan *step)
{
    return spec_text(reader, place, value, &step->title);
}

static int read_instructions(struct reader *reader, const struct place *place, json_t *value,
                             struct step_plan *step)
{
    return spec_text(reader, place, value, &step->instructions);
}

static int read_run(struct reader *reader, const struct place *place, json_t *value,
                    struct step_plan *step)
{
    step->kind = STEP_RUN;
    return spec_full_text(reader, place, value, &step->run);
}

static int read_exec(struct reader *reader, const struct place *place, json_t *value,
                     struct step_plan *step)
{
    size_t count = json_array_size(value);
    if (count == 0)
        return spec_fault(reader, place, "must be a list of texts: the command and its arguments");
    const char **argv = arena_zalloc(reader->arena, (count + 1) * sizeof *argv);
    if (!argv)
        return spec_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        struct place here = {.parent = place, .index = i};
        json_t *text = json_array_get(value, i);
        int code = i == 0 ? spec_full_text(reader, &here, text, &argv[i])
                          : spec_text(reader, &here, text, &argv[i]);
        if (code < 0)
            return code;
    }
    step->kind = STEP_EXEC;
    step->argv = argv;
    step->argc = count;
    return 0;
}

static int read_http(struct reader *reader, const struct place *place, json_t *value,
                     struct step_plan *step)
{
    step->kind = STEP_HTTP;
    return spec_http(reader, place, value, &step->http);
}

static int read_sleep(struct reader *reader, const struct place *place, json_t *value,
                      struct step_plan *step)
{
    const char *text = json_string_value(value);
    int64_t ms;
    if (!text || duration_parse(text, &ms, NULL) < 0 || ms > LONGEST_SLEEP_MS)
        return spec_fault(reader, place, "must be a duration such as \"5s\", up to 365d");
    step->kind = STEP_SLEEP;
    step->sleep_ms = ms;
    return 0;
}

static int read_env(struct reader *reader, const struct place *place, json_t *value,
                    struct step_plan *step)
{
    return spec_env(reader, place, value, &step->env);
}

/* Whether the path, followed name by name, is ever above where it began. Links are not seen. */
static bool leaves(const char *path)
{
    int depth = 0;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 2 && memcmp(path, "..", 2) == 0)
            depth--;
        else if (len > 1 || (len == 1 && path[0] != '.'))
            depth++;
        if (depth < 0)
            return true;
        path += len;
        path += *path == '/';
    }
    return false;
}

static int read_cwd(struct reader *reader, const struct place *place, json_t *value,
                    struct step_plan *step)
{
    const char *path = json_string_value(value);
    if (path && (path[0] == '/' || leaves(path)))
        return spec_fault(reader, place,
                          "\"%.60s\" leads out of the workspace; give a path below it", path);
    return spec_full_text(reader, place, value, &step->cwd);
}

static int read_classify(struct reader *reader, const struct place *place, json_t *value,
                         struct step_plan *step)
{
    return spec_rules(reader, place, value, &step->rules);
}

/* The job's budget has no meaning for one step; the others may also be called by their short
 * names. */
static int read_budget(struct reader *reader, const struct place *place, json_t *value,
                       struct step_plan *step)
{
    return spec_budget(reader, place, value, &step->budgets);
}

static const struct {
    const char *name;
    int (*read)(struct reader *reader, const struct place *place, json_t *value,
                struct step_plan *step);
} members[] = {
    {"id", read_id},
    {"title", read_title},
    {"instructions", read_instructions},
    {"run", read_run},
    {"exec", read_exec},
    {"http", read_http},
    {"sleep", read_sleep},
    {"env", read_env},
    {"cwd", read_cwd},
    {"classify", read_classify},
    {"attempts", read_budget},
    {"timeout", read_budget},
    {"idle_timeout", read_budget},
    {"no_progress_limit", read_budget},
    {"grace", read_budget},
    {"pause", read_budget},
    {"pause_max", read_budget},
    {"step_max_attempts", read_budget},
    {"step_timeout_seconds", read_budget},
    {"step_idle_timeout_seconds", read_budget},
    {"step_no_progress_limit", read_budget},
    {"step_grace_seconds", read_budget},
    {"step_pause_seconds", read_budget},
    {"step_pause_max_seconds", read_budget},
};
enum { MEMBERS = sizeof members / sizeof *members };
_Static_assert((int)MEMBERS < (int)SPEC_STEP_NAMES, "room for the names of all members");

int spec_step_member(struct reader *reader, const struct place *place, json_t *value,
                     struct step_plan *step)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (strcmp(members[i].name, place->name) != 0)
            continue;
        int code = members[i].read(reader, place, value, step);
        return code < 0 ? code : SPEC_KNOWN;
    }
    return SPEC_UNKNOWN;
}

void spec_step_names(const char *ret_names[SPEC_STEP_NAMES])
{
    for (int i = 0; i < MEMBERS; i++)
        ret_names[i] = members[i].name;
    ret_names[MEMBERS] = NULL;
}

/* It takes as long as it says, and is silent all the while. */
static int check_sleep(struct reader *reader, const struct place *place, json_t *object)
{
    static const char *const limits[] = {"timeout", "idle_timeout", "step_timeout_seconds",
                                         "step_idle_timeout_seconds"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (json_object_get(object, limits[i]))
            return spec_fault(reader, place,
                              "%s has no meaning for sleep, which takes as long as it says; "
                              "leave it out",
                              limits[i]);
    return 0;
}

int spec_step_check(struct reader *reader, const struct place *place, json_t *object)
{
    const char *found = NULL;
    for (int i = 0; i < KINDS; i++) {
        if (!json_object_get(object, kind_names[i]))
            continue;
        if (found)
            return spec_fault(reader, place,
                              "%s and %s cannot stand together; a step does one thing", found,
                              kind_names[i]);
        found = kind_names[i];
    }
    if (!found)
        return spec_fault(reader, place,
                          "there is nothing to do; one of run, exec, http and sleep is needed%s",
                          place ? "" : ", or steps");
    return strcmp(found, "sleep") == 0 ? check_sleep(reader, place, object) : 0;
}
