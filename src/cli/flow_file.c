/* See flow_file.h. */
#include "cli/flow_file.h"

#include "base/err.h"
#include "base/suggest.h"
#include "base/timetext.h"
#include "cli/flow_params.h"
#include "cli/flow_reader.h"
#include "cli/plan.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tend.h>
#include <unistd.h>

static const char stage_path[] = "stages[0]";

/* What a stage has beside the members of a plan. */
static const char *const stage_names[] = {"queue", "priority", "retry", NULL};

/* --- what is for flows of several stages --- */

static int not_yet(struct flow_reader *reader, const char *path)
{
    return flow_fault(reader, path,
                      "flows of several stages are not supported yet; give one stage with steps");
}

static int refuse_flow_members(struct flow_reader *reader, json_t *stage)
{
    static const char *const names[] = {"needs", "when",    "wait", "join",
                                        "each",  "breaker", "flow", "on_failure"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(stage, names[i]);
        char path[64];
        if (!value)
            continue;
        snprintf(path, sizeof path, "%s.%s", stage_path, names[i]);
        /* What a stage alone does anyway. */
        const char *text = json_string_value(value);
        if (strcmp(names[i], "on_failure") == 0 && text && strcmp(text, "fail") == 0)
            continue;
        return not_yet(reader, path);
    }
    json_object_del(stage, "on_failure");
    return 0;
}

/* --- the stage's own members, taken out of it --- */

static int take_queue(struct flow_reader *reader, json_t *stage, struct flow_job *ret)
{
    json_t *value = json_object_get(stage, "queue");
    if (!value)
        return 0;
    const char *queue = json_string_value(value);
    if (!queue || !*queue)
        return flow_fault(reader, "stages[0].queue", "must be the name of a queue");
    ret->queue = strdup(queue);
    json_object_del(stage, "queue");
    return ret->queue ? 0 : err_set(reader->err, TEND_ENOMEM, "out of memory");
}

static int take_priority(struct flow_reader *reader, json_t *stage, struct flow_job *ret)
{
    json_t *value = json_object_get(stage, "priority");
    if (!value)
        return 0;
    json_int_t priority = json_is_integer(value) ? json_integer_value(value) : -1;
    if (priority < 0 || priority > 9)
        return flow_fault(reader, "stages[0].priority", "must be a whole number from 0 to 9");
    ret->priority = (int)priority;
    json_object_del(stage, "priority");
    return 0;
}

static int retry_duration(struct flow_reader *reader, const char *path, json_t *value,
                          int64_t *ret_ms)
{
    struct err err;
    const char *text = json_string_value(value);
    if (!text)
        return flow_fault(reader, path, "must be a duration such as 2s");
    return duration_parse(text, ret_ms, &err) < 0 ? flow_fault(reader, path, "%s", err.text) : 0;
}

static int retry_member(struct flow_reader *reader, const char *name, json_t *value,
                        struct flow_job *ret)
{
    char path[128];
    snprintf(path, sizeof path, "%s.retry.%.60s", stage_path, name);
    if (strcmp(name, "backoff") == 0)
        return retry_duration(reader, path, value, &ret->backoff_ms);
    if (strcmp(name, "max") == 0)
        return retry_duration(reader, path, value, &ret->backoff_max_ms);
    if (strcmp(name, "attempts") == 0) {
        ret->max_attempts = json_is_integer(value) ? json_integer_value(value) : 0;
        return ret->max_attempts >= 1 && ret->max_attempts <= 1000000
                   ? 0
                   : flow_fault(reader, path, "must be a whole number from 1 to 1000000");
    }
    if (strcmp(name, "factor") == 0)
        return json_number_value(value) == 2.0
                   ? 0
                   : flow_fault(reader, path, "the wait doubles; only a factor of 2 can be had");
    return flow_unknown(reader, path, name,
                        (const char *const[]){"attempts", "backoff", "max", NULL});
}

static int take_retry(struct flow_reader *reader, json_t *stage, struct flow_job *ret)
{
    json_t *retry = json_object_get(stage, "retry");
    const char *name;
    json_t *value;
    if (!retry)
        return 0;
    if (!json_is_object(retry))
        return flow_fault(reader, "stages[0].retry",
                          "must have members such as attempts: 3 and backoff: 2s");
    json_object_foreach(retry, name, value)
    {
        int code = retry_member(reader, name, value, ret);
        if (code < 0)
            return code;
    }
    json_object_del(stage, "retry");
    return 0;
}

/* A stage of one step lends it its id; otherwise it is the stage's alone. */
static int take_id(struct flow_reader *reader, json_t *stage)
{
    json_t *id = json_object_get(stage, "id");
    if (id && !json_is_string(id))
        return flow_fault(reader, "stages[0].id", "must be text");
    if (json_object_get(stage, "steps"))
        json_object_del(stage, "id");
    return 0;
}

/* A path that is a folder here is meant from here, wherever the worker is. */
static int fix_repo(struct flow_reader *reader, json_t *stage)
{
    json_t *workspace = json_object_get(stage, "workspace");
    const char *repo = json_string_value(json_object_get(workspace, "repo"));
    char path[PATH_MAX];
    if (!repo || repo[0] == '/' || strstr(repo, "://") || !realpath(repo, path))
        return 0;
    json_t *absolute = json_string(path);
    if (!absolute)
        return flow_fault(reader, "stages[0].workspace.repo", "the folder's name is not UTF-8");
    json_object_set_new(workspace, "repo", absolute);
    return 0;
}

/* --- the whole --- */

/* The one stage; a copy that the caller lets go. */
static int find_stage(struct flow_reader *reader, json_t *root, json_t **ret)
{
    static const char *const names[] = {"flow", "params", "env", "stages", NULL};
    const char *name;
    json_t *value;
    if (!json_is_object(root))
        return flow_fault(reader, "", "a flow file has members, the first of them flow: NAME");
    json_object_foreach(root, name, value)
    {
        if (!flow_is_one_of(name, names))
            return flow_unknown(reader, name, name, names);
    }
    json_t *title = json_object_get(root, "flow");
    if (title && !json_is_string(title))
        return flow_fault(reader, "flow", "must be text");
    json_t *stages = json_object_get(root, "stages");
    if (!json_is_array(stages) || json_array_size(stages) == 0)
        return flow_fault(reader, "stages",
                          "a flow needs a list of stages: \"stages:\" and below it "
                          "\"- id: …\" with steps");
    if (json_array_size(stages) > 1)
        return not_yet(reader, "stages[1]");
    if (!json_is_object(json_array_get(stages, 0)))
        return flow_fault(reader, stage_path, "a stage has members such as id and steps");
    *ret = json_deep_copy(json_array_get(stages, 0));
    return *ret ? 0 : err_set(reader->err, TEND_ENOMEM, "out of memory");
}

static int take_members(struct flow_reader *reader, json_t *stage, struct flow_job *ret)
{
    int code = refuse_flow_members(reader, stage);
    if (code == 0)
        code = take_queue(reader, stage, ret);
    if (code == 0)
        code = take_priority(reader, stage, ret);
    if (code == 0)
        code = take_retry(reader, stage, ret);
    if (code == 0)
        code = take_id(reader, stage);
    return code == 0 ? fix_repo(reader, stage) : code;
}

/* What is left of the stage is the payload; its sentence begins with its place. */
static int make_payload(struct flow_reader *reader, json_t *stage, struct flow_job *ret)
{
    struct err err;
    ret->payload = json_dumps(stage, JSON_COMPACT);
    if (!ret->payload)
        return err_set(reader->err, TEND_ENOMEM, "out of memory");
    ret->payload_bytes = strlen(ret->payload);
    int code = plan_kind(ret->payload, ret->payload_bytes, stage_names, &ret->kind, &err);
    if (code == TEND_EINVAL)
        return flow_plan_fault(reader, stage_path, err.text);
    return code < 0 ? err_set(reader->err, code, "%s", err.text) : 0;
}

static int read_flow(struct flow_reader *reader, const struct text_list *params,
                     struct flow_job *ret)
{
    json_t *root = yaml_doc_json(reader->yaml);
    json_t *stage = NULL;
    int code = find_stage(reader, root, &stage);
    if (code == 0)
        code = take_members(reader, stage, ret);
    if (code == 0)
        code = flow_params_apply(reader, root, stage, params);
    if (code == 0)
        code = make_payload(reader, stage, ret);
    json_decref(stage);
    return code;
}

int flow_file_read(const char *name, const char *text, size_t bytes, const struct text_list *params,
                   struct flow_job *ret, struct err *err)
{
    *ret = (struct flow_job){.kind = "",
                             .priority = TEND_PRIORITY_DEFAULT,
                             .max_attempts = TEND_UNSET,
                             .backoff_ms = TEND_UNSET,
                             .backoff_max_ms = TEND_UNSET};
    struct flow_reader reader = {.name = name, .text = text, .err = err};
    struct yaml_place place;
    struct err fault;
    int code = yaml_doc_read(text, bytes, &reader.yaml, &place, &fault);
    if (code < 0)
        return flow_fault_at(&reader, code, place, fault.text);
    code = read_flow(&reader, params, ret);
    yaml_doc_free(reader.yaml);
    return code;
}

void flow_job_done(struct flow_job *job)
{
    free(job->payload);
    free(job->queue);
}
