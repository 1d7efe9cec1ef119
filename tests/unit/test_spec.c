/* What a payload says a job has to do: SH-1, SH-17. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/spec.h"
#include "unit/case.h"

#include <stdlib.h>
#include <string.h>
#include <tend.h>

static struct arena arena;

static struct job_plan parse(const char *payload)
{
    struct job_plan plan;
    struct err err = {0};
    int code = spec_parse(payload, strlen(payload), &arena, &plan, &err);
    if (code != SPEC_PLAN)
        test_fail(__FILE__, __LINE__, "'%s' is %d: %s", payload, code, err.text);
    test_count_check();
    return plan;
}

TEST(spec, a_payload_without_anything_to_do_is_no_plan)
{
    static const char *const payloads[] = {
        "",
        "null",
        "17",
        "\"run\"",
        "[]",
        "[\"run\",{\"run\":\"x\"}]",
        "{}",
        "{\"to\":\"ann\"}",
        "{\"objective\":\"x\",\"timeout\":true}",
        "{\"data\":{\"run\":\"make\"},\"list\":[{\"steps\":[]}]}",
        "{\"a\":\"run\",\"b\":\"steps\"}",
        "{\"list\":[\"a\",\"run\",\"steps\"],\"data\":{\"a\":1,\"run\":\"x\"}}",
        "{\"n\":99999999999999999999999999,\"n\":1e999,\"z\":\"\\u0000\"}",
        " \n{ \"a\\\"\" : \"{\\\"run\\\":1}\" }",
    };
    for (size_t i = 0; i < CASES(payloads); i++) {
        struct job_plan plan;
        struct err err = {0};
        check_case_int(spec_parse(payloads[i], strlen(payloads[i]), &arena, &plan, &err), SPEC_NONE,
                       payloads[i]);
    }
    struct job_plan plan;
    check_int(spec_parse(NULL, 0, &arena, &plan, NULL), ==, SPEC_NONE);
    arena_done(&arena);
}

TEST(spec, the_length_given_is_the_end_of_the_payload)
{
    struct job_plan plan;
    static const char text[] = {'{', '}', '"', 'r', 'u', 'n'};
    check_int(spec_parse(text, 2, &arena, &plan, NULL), ==, SPEC_NONE);
    arena_done(&arena);
}

TEST(spec, the_short_form_is_a_plan_of_one_step)
{
    struct job_plan plan = parse("{\"run\":\"make -j2\"}");
    check_int(plan.step_count, ==, 1);
    check_str(plan.steps[0].id, "step-1");
    check_int(plan.steps[0].kind, ==, STEP_RUN);
    check_str(plan.steps[0].run, "make -j2");
    check(plan.objective == NULL && plan.workspace_repo == NULL && plan.steps[0].title == NULL);
    check_int(plan.steps[0].budgets.step_timeout_ms, ==, TEND_UNSET);

    plan = parse("{\"exec\":[\"make\",\"-j2\",\"\"],\"id\":\"b\",\"timeout\":\"15m\","
                 "\"step_max_attempts\":5,\"env\":{\"A\":\"1\"},\"cwd\":\"lib\","
                 "\"objective\":\"o\",\"workspace\":{\"repo\":\".\"}}");
    check_str(plan.steps[0].id, "b");
    check_int(plan.steps[0].kind, ==, STEP_EXEC);
    check_int(plan.steps[0].argc, ==, 3);
    check_str(plan.steps[0].argv[1], "-j2");
    check_str(plan.steps[0].argv[2], "");
    check(plan.steps[0].argv[3] == NULL);
    check_str(plan.steps[0].cwd, "lib");
    check_str(plan.objective, "o");
    check_str(plan.workspace_repo, ".");
    check(plan.workspace_ref == NULL);
    struct budgets budgets = budget_merge(&plan.steps[0].budgets, &plan.budgets, NULL, NULL);
    check_int(budgets.step_timeout_ms, ==, 900000);
    check_int(budgets.step_max_attempts, ==, 5);
    check_int(plan.env.count, ==, 1);

    plan = parse("{\"sleep\":\"1m5s\"}");
    check_int(plan.steps[0].kind, ==, STEP_SLEEP);
    check_int(plan.steps[0].sleep_ms, ==, 65000);
    arena_done(&arena);
}

TEST(spec, the_long_form_has_everything)
{
    struct job_plan plan = parse(
        "{\"objective\":\"ship it\",\"workspace\":{\"repo\":\"https://x.org/r.git\",\"ref\":\"main\"},"
        "\"env\":{\"CI\":\"1\",\"PORT\":8080,\"ON\":true},\"step_timeout_seconds\":600,"
        "\"job_self_heal_max_resets\":2,\"steps\":["
        "{\"id\":\"build\",\"title\":\"Build\",\"instructions\":\"do\",\"run\":\"make\","
        "\"timeout\":\"15m\",\"idle_timeout\":\"5m\",\"attempts\":7,\"grace\":\"5s\","
        "\"no_progress_limit\":3,\"env\":{\"X\":\"y\"},\"cwd\":\"a/../b\"},"
        "{\"exec\":[\"true\"],\"step_timeout_seconds\":0.5},"
        "{\"http\":{\"url\":\"http://127.0.0.1/x\"}},"
        "{\"sleep\":\"0\"}],"
        "\"classify\":[{\"match\":\"quota \\\\d+\",\"class\":\"deterministic_policy\"}]}");
    check_str(plan.objective, "ship it");
    check_str(plan.workspace_repo, "https://x.org/r.git");
    check_str(plan.workspace_ref, "main");
    check_int(plan.env.count, ==, 3);
    check_str(plan.env.items[1].name, "PORT");
    check_str(plan.env.items[1].value, "8080");
    check_str(plan.env.items[2].value, "true");
    check_int(plan.budgets.step_timeout_ms, ==, 600000);
    check_int(plan.budgets.job_self_heal_max_resets, ==, 2);
    check_int(plan.rules.count, ==, 1);
    check_str(plan.rules.items[0].match, "quota \\d+");
    check_int(plan.rules.items[0].class, ==, CLASS_DETERMINISTIC_POLICY);
    check_int(plan.step_count, ==, 4);
    const struct step_plan *build = &plan.steps[0];
    check_str(build->title, "Build");
    check_str(build->instructions, "do");
    check_int(build->budgets.step_timeout_ms, ==, 900000);
    check_int(build->budgets.step_idle_timeout_ms, ==, 300000);
    check_int(build->budgets.step_max_attempts, ==, 7);
    check_int(build->budgets.step_grace_ms, ==, 5000);
    check_int(build->budgets.step_no_progress_limit, ==, 3);
    check_str(build->env.items[0].value, "y");
    check_str(plan.steps[1].id, "step-2");
    check_int(plan.steps[1].budgets.step_timeout_ms, ==, 500);
    check_int(plan.steps[2].kind, ==, STEP_HTTP);
    check_int(plan.steps[3].kind, ==, STEP_SLEEP);
    check(spec_find_step(&plan, "step-3") == &plan.steps[2]);
    check(spec_find_step(&plan, "step-1") == NULL);
    check_str(step_kind_name(plan.steps[2].kind), "http");
    arena_done(&arena);
}

TEST(spec, http_steps_have_sensible_defaults)
{
    struct job_plan plan = parse("{\"http\":{\"url\":\"http://a/\"}}");
    struct http_plan *http = plan.steps[0].http;
    check_str(http->method, "GET");
    check_int(http->expect_count, ==, 1);
    check_int(http->expect[0].low, ==, 200);
    check_int(http->expect[0].high, ==, 299);
    check_int(http->max_response_bytes, ==, 1 << 20);
    check(!http->follow_redirects && http->body == NULL);

    plan = parse("{\"http\":{\"url\":\"HTTPS://a\",\"body\":{\"ok\":[1,true]},"
                 "\"headers\":{\"X-A\":\"b c\",\"X-N\":5},\"expect\":[201,\"3xx\"],"
                 "\"max_response_bytes\":10,\"follow_redirects\":true}}");
    http = plan.steps[0].http;
    check_str(http->method, "POST");
    check_str(http->body, "{\"ok\":[1,true]}");
    check_int(http->body_bytes, ==, strlen(http->body));
    check(http->body_is_json && http->follow_redirects);
    check_int(http->headers.count, ==, 2);
    check_str(http->headers.items[1].value, "5");
    check_int(http->expect[0].high, ==, 201);
    check_int(http->expect[1].low, ==, 300);
    check_int(http->expect[1].high, ==, 399);
    check_int(http->max_response_bytes, ==, 10);

    plan =
        parse("{\"http\":{\"method\":\"put\",\"url\":\"http://a\",\"body\":\"x\",\"expect\":204}}");
    http = plan.steps[0].http;
    check_str(http->method, "PUT");
    check_str(http->body, "x");
    check(!http->body_is_json);
    check_int(http->expect[0].low, ==, 204);
    arena_done(&arena);
}

TEST(spec, secrets_are_named_and_not_given)
{
    struct job_plan plan =
        parse("{\"env\":{\"A\":{\"env\":\"DEPLOY_TOKEN\"},\"B\":\"plain\"},"
              "\"steps\":[{\"run\":\"x\",\"env\":{\"C\":{\"file\":\"/run/secrets/c\"}}},"
              "{\"http\":{\"url\":\"http://a\",\"body\":{\"file\":\"/run/body\"},"
              "\"headers\":{\"Authorization\":{\"env\":\"API_TOKEN\",\"prefix\":\"Bearer \"}}}}]}");
    const struct named_text *text = &plan.env.items[0];
    check(text->value == NULL);
    check_int(text->secret->place, ==, SECRET_IN_ENV);
    check_str(text->secret->name, "DEPLOY_TOKEN");
    check_str(text->secret->prefix, "");
    check(plan.env.items[1].secret == NULL);
    check_str(plan.env.items[1].value, "plain");
    text = &plan.steps[0].env.items[0];
    check_int(text->secret->place, ==, SECRET_IN_FILE);
    check_str(text->secret->name, "/run/secrets/c");
    const struct http_plan *http = plan.steps[1].http;
    check_str(http->headers.items[0].secret->prefix, "Bearer ");
    check(http->body == NULL && spec_has_body(http));
    check_str(http->method, "POST");
    check_str(http->body_secret->name, "/run/body");
    arena_done(&arena);
}

static int look_up(void *context, const struct secret_name *secret, const char **ret)
{
    struct arena *values = context;
    if (strcmp(secret->name, "MISSING") == 0)
        return TEND_ENOTFOUND;
    *ret = arena_printf(values, "%s<%s>", secret->prefix, secret->name);
    return 0;
}

TEST(spec, secrets_inside_a_json_body_are_put_in_place)
{
    struct job_plan plan =
        parse("{\"http\":{\"url\":\"http://a\",\"body\":{\"a\":[1,{\"$env\":\"X\"}],"
              "\"b\":{\"c\":{\"$file\":\"/y\",\"prefix\":\"p-\"},\"env\":\"prod\"}}}}");
    const struct http_plan *http = plan.steps[0].http;
    const char *body;
    check(http->body_names_secrets && http->body_is_json && http->body_secret == NULL);
    check_contains(http->body, "{\"$env\":\"X\"}");
    check_int(spec_fill_body(http, &arena, look_up, &arena, &body), ==, 0);
    check_str(body, "{\"a\":[1,\"<X>\"],\"b\":{\"c\":\"p-</y>\",\"env\":\"prod\"}}");

    plan = parse("{\"http\":{\"url\":\"http://a\",\"body\":[{\"$env\":\"MISSING\"}]}}");
    check_int(spec_fill_body(plan.steps[0].http, &arena, look_up, &arena, &body), ==,
              TEND_ENOTFOUND);
    arena_done(&arena);
}

/* Only an object of env, file and prefix alone, with texts, names a body. */
TEST(spec, a_json_body_that_has_an_env_among_others_is_sent_as_it_is)
{
    static const char *const bodies[] = {
        "{\"env\":\"prod\",\"ref\":\"main\"}",
        "{\"env\":{\"A\":\"b\"}}",
        "{\"file\":7}",
        "{\"prefix\":\"x\"}",
        "[{\"env\":\"prod\"}]",
    };
    for (size_t i = 0; i < CASES(bodies); i++) {
        struct job_plan plan =
            parse(arena_printf(&arena, "{\"http\":{\"url\":\"http://a\",\"body\":%s}}", bodies[i]));
        check_str(plan.steps[0].http->body, bodies[i]);
        check(!plan.steps[0].http->body_names_secrets && plan.steps[0].http->body_is_json);
    }
    arena_done(&arena);
}

TEST(spec, what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *payload, *sentence;
    } cases[] = {
        {"{\"run\":", "the payload is not JSON, line 1, column 8"},
        {"{\"run\":17}", "run: must be text in double quotes"},
        {"{\"run\":\"\"}", "run: must not be empty"},
        {"{\"run\":\"a\\u0000b\"}", "holds \\u0000"},
        {"{\"run\":\"a\",\"run\":\"b\"}", "duplicate object key"},
        {"{\"run\":\"a\",\"exec\":[\"b\"]}", "run and exec cannot stand together"},
        {"{\"run\":\"a\",\"timout\":\"5s\"}",
         "timout: there is no such member; did you mean \"timeout\"?"},
        {"{\"run\":\"a\",\"workspce\":{}}", "did you mean \"workspace\"?"},
        {"{\"run\":\"a\",\"colour\":1}", "colour: there is no such member"},
        {"{\"run\":\"a\",\"timeout\":15}", "timeout: \"15\" must be a duration such as 15m"},
        {"{\"run\":\"a\",\"timeout\":true}", "timeout: must be a number or a duration"},
        {"{\"run\":\"a\",\"step_max_attempts\":0}",
         "step_max_attempts: \"0\" must be a whole number from 1 to 1000"},
        {"{\"run\":\"a\",\"step_max_attempts\":1e999}", "cannot be read"},
        {"{\"exec\":[]}", "exec: must be a list of texts"},
        {"{\"exec\":\"make\"}", "exec: must be a list of texts"},
        {"{\"exec\":[\"\"]}", "exec[0]: must not be empty"},
        {"{\"exec\":[\"a\",5]}", "exec[1]: must be text"},
        {"{\"sleep\":5}", "sleep: must be a duration such as \"5s\""},
        {"{\"sleep\":\"366d\"}", "up to 365d"},
        {"{\"steps\":[{\"sleep\":\"5s\",\"timeout\":\"1s\"}]}",
         "steps[0]: timeout has no meaning for sleep"},
        {"{\"sleep\":\"5s\",\"idle_timeout\":\"1s\"}", "idle_timeout has no meaning for sleep"},
        {"{\"steps\":{}}", "steps: must be a list of steps"},
        /* Symptom: such a job was added, and done at once with nothing run. */
        {"{\"steps\":[]}", "steps: there is nothing to do; at least one step is needed"},
        {"{\"steps\":[7]}", "steps[0]: must be an object"},
        {"{\"steps\":[{}]}", "steps[0]: there is nothing to do"},
        {"{\"steps\":[{\"id\":\"a\",\"run\":\"x\"},{\"title\":\"t\"}]}",
         "steps[1]: there is nothing to do; one of run, exec, http and sleep is needed"},
        {"{\"steps\":[{\"run\":\"x\",\"http\":{\"url\":\"http://a\"}}]}",
         "steps[0]: run and http cannot stand together; a step does one thing"},
        {"{\"steps\":[],\"run\":\"x\"}", "run: cannot stand beside steps"},
        {"{\"steps\":[],\"timeout\":\"5s\"}",
         "timeout: belongs to a step; for every step write \"step_timeout_seconds\""},
        {"{\"steps\":[{\"run\":\"x\",\"job_self_heal_max_resets\":1}]}",
         "steps[0].job_self_heal_max_resets: belongs to the job"},
        {"{\"steps\":[],\"title\":\"t\"}", "title: there is no such member"},
        {"{\"steps\":[{\"run\":\"a\"},{\"run\":\"a\"},{\"run\":\"a\"},"
         "{\"run\":\"a\",\"timeout\":\"soon\"}]}",
         "steps[3].timeout: \"soon\" must be a duration"},
        {"{\"steps\":[{\"rnu\":\"x\"}]}", "steps[0].rnu: there is no such member; did you mean"},
        {"{\"steps\":[{\"id\":\"a\",\"run\":\"x\"},{\"run\":\"x\"},{\"id\":\"a\",\"run\":\"y\"}]}",
         "steps[2].id: \"a\" is the id of steps[0] already"},
        {"{\"steps\":[{\"id\":\"step-2\",\"run\":\"x\"},{\"run\":\"x\"}]}",
         "steps[1].id: \"step-2\" is the id of steps[0] already"},
        {"{\"steps\":[{\"id\":\"\",\"run\":\"x\"}]}", "steps[0].id: must be 1 to 128"},
        {"{\"steps\":[{\"id\":\"a b\",\"run\":\"x\"}]}", "steps[0].id: must be 1 to 128"},
        {"{\"steps\":[{\"id\":\"../x\",\"run\":\"x\"}]}", "steps[0].id: must be 1 to 128"},
        {"{\"run\":\"x\",\"cwd\":\"/etc\"}", "cwd: \"/etc\" leads out of the workspace"},
        {"{\"run\":\"x\",\"cwd\":\"..\"}", "leads out of the workspace"},
        {"{\"run\":\"x\",\"cwd\":\"a/./../../b\"}", "leads out of the workspace"},
        {"{\"run\":\"x\",\"cwd\":\"\"}", "cwd: must not be empty"},
        {"{\"run\":\"x\",\"env\":[]}", "env: must be an object of names and texts"},
        {"{\"run\":\"x\",\"env\":{\"A=B\":\"1\"}}", "env.A=B: is not a name"},
        {"{\"run\":\"x\",\"env\":{\"\":\"1\"}}", "is not a name"},
        {"{\"run\":\"x\",\"env\":{\"A\":null}}", "env.A: must be text, a whole number"},
        {"{\"run\":\"x\",\"workspace\":\".\"}", "workspace: must be an object"},
        {"{\"run\":\"x\",\"workspace\":{}}", "workspace: repo is missing"},
        {"{\"run\":\"x\",\"workspace\":{\"repo\":\"\"}}", "workspace.repo: must not be empty"},
        {"{\"run\":\"x\",\"workspace\":{\"repo\":\"--upload-pack=x\"}}",
         "workspace.repo: must not begin with a minus sign"},
        {"{\"run\":\"x\",\"workspace\":{\"repo\":\".\",\"ref\":\"-x\"}}",
         "workspace.ref: must not"},
        {"{\"run\":\"x\",\"workspace\":{\"repo\":\".\",\"ref\":\"a\\nb\"}}", "control characters"},
        {"{\"run\":\"x\",\"workspace\":{\"rep\":\".\"}}", "did you mean \"repo\"?"},
        {"{\"http\":\"http://a\"}", "http: must be an object"},
        {"{\"http\":{}}", "http: url is missing"},
        {"{\"http\":{\"url\":\"ftp://a\"}}", "http.url: must be a URL that begins with http://"},
        {"{\"http\":{\"url\":\"http://\"}}", "http.url: must be a URL"},
        {"{\"http\":{\"url\":\"http://a b\"}}", "http.url: must be a URL"},
        {"{\"http\":{\"url\":\"http://a\",\"method\":\"GE T\"}}", "http.method: must be a method"},
        {"{\"http\":{\"url\":\"http://a\",\"headers\":{\"A B\":\"x\"}}}",
         "http.headers.A B: is not a name"},
        {"{\"http\":{\"url\":\"http://a\",\"headers\":{\"A\":\"x\\r\\ny\"}}}",
         "http.headers.A: must be one line"},
        {"{\"run\":\"x\",\"env\":{\"A\":[]}}",
         "env.A: must be text, a whole number, true or false, or the name of a secret: "
         "{\"env\": NAME} or {\"file\": PATH}"},
        {"{\"run\":\"x\",\"env\":{\"A\":{}}}", "env.A: needs env or file"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"prefix\":\"x\"}}}", "env.A: needs env or file"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"evn\":\"B\"}}}",
         "env.A.evn: there is no such member; did you mean \"env\"?"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"env\":5}}}",
         "env.A.env: must be the name of a variable of the worker"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"env\":\"$B\"}}}", "env.A.env: must be the name"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"env\":\"1B\"}}}", "env.A.env: must be the name"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"env\":\"\"}}}", "env.A.env: must be the name"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"file\":\"x\"}}}",
         "env.A.file: must be the absolute path of a file"},
        {"{\"run\":\"x\",\"env\":{\"A\":{\"env\":\"B\",\"file\":\"/b\"}}}",
         "env.A: env and file cannot be given together"},
        {"{\"steps\":[{\"http\":{\"url\":\"http://a\",\"headers\":{\"A\":{\"env\":\"B\","
         "\"prefix\":\"x\\ny\"}}}}]}",
         "steps[0].http.headers.A.prefix: must be one line"},
        {"{\"http\":{\"url\":\"http://a\",\"body\":{\"env\":\"a b\"}}}",
         "http.body.env: must be the name of a variable"},
        {"{\"http\":{\"url\":\"http://a\",\"body\":{\"$env\":\"A\"}}}",
         "http.body: for the whole body write {\"env\": …} or {\"file\": …}"},
        {"{\"http\":{\"url\":\"http://a\",\"body\":{\"a\":[0,{\"$env\":\"A\",\"x\":1}]}}}",
         "http.body.a[1].x: there is no such member"},
        {"{\"http\":{\"url\":\"http://a\",\"body\":{\"a\":{\"$file\":\"b\"}}}}",
         "http.body.a.$file: must be the absolute path"},
        {"{\"http\":{\"url\":\"http://a\",\"expect\":[]}}", "http.expect: must name at least one"},
        {"{\"http\":{\"url\":\"http://a\",\"expect\":[200,\"6xx\"]}}",
         "http.expect[1]: must be a status from 100 to 599"},
        {"{\"http\":{\"url\":\"http://a\",\"expect\":99}}", "http.expect: must be a status"},
        {"{\"http\":{\"url\":\"http://a\",\"max_response_bytes\":-1}}",
         "http.max_response_bytes: must be a whole number of bytes from 0 to 1073741824"},
        {"{\"http\":{\"url\":\"http://a\",\"follow_redirects\":1}}", "must be true or false"},
        {"{\"http\":{\"url\":\"http://a\",\"methd\":\"GET\"}}", "did you mean \"method\"?"},
        {"{\"run\":\"x\",\"classify\":{}}", "classify: must be a list of at most 50 rules"},
        {"{\"run\":\"x\",\"classify\":[1]}", "classify[0]: must be an object"},
        {"{\"run\":\"x\",\"classify\":[{\"match\":\"a\"}]}", "classify[0]: class is missing"},
        {"{\"run\":\"x\",\"classify\":[{\"class\":\"transient_runtime\"}]}",
         "classify[0]: match is missing"},
        {"{\"run\":\"x\",\"classify\":[{\"match\":\"a\",\"class\":\"bad\"}]}",
         "classify[0].class: \"bad\" must be transient_runtime"},
        {"{\"steps\":[{\"run\":\"x\",\"classify\":[{\"match\":\"fine\",\"class\":\"transient_runtime\"},"
         "{\"match\":\"a(b\",\"class\":\"transient_runtime\"}]}]}",
         "steps[0].classify[1].match: \"a(b\" is no regular expression: "},
        {"{\"run\":\"x\",\"objective\":5}", "objective: must be text"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct job_plan plan = {.step_count = 77};
        struct err err = {0};
        check_case_int(spec_parse(cases[i].payload, strlen(cases[i].payload), &arena, &plan, &err),
                       TEND_EINVAL, cases[i].payload);
        check_contains(err.text, cases[i].sentence);
        check_int(plan.step_count, ==, 77);
        check_int(spec_parse(cases[i].payload, strlen(cases[i].payload), &arena, &plan, NULL), ==,
                  TEND_EINVAL);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

TEST(spec, folders_below_the_workspace_are_allowed)
{
    static const char *const fine[] = {"a",    "a/b", "./a", "a/..", "a/../b",
                                       "a//b", ".",   "..a", "a/."};
    for (size_t i = 0; i < CASES(fine); i++) {
        char *payload = arena_printf(&arena, "{\"run\":\"x\",\"cwd\":\"%s\"}", fine[i]);
        check_str(parse(payload).steps[0].cwd, fine[i]);
    }
    arena_done(&arena);
}

TEST(spec, ids_of_128_characters_are_allowed_and_129_are_not)
{
    char id[STEP_ID_BYTES + 2];
    memset(id, 'x', sizeof id - 1);
    id[STEP_ID_BYTES] = '\0';
    check_str(parse(arena_printf(&arena, "{\"run\":\"x\",\"id\":\"%s\"}", id)).steps[0].id, id);
    id[STEP_ID_BYTES] = 'x';
    id[STEP_ID_BYTES + 1] = '\0';
    char *payload = arena_printf(&arena, "{\"run\":\"x\",\"id\":\"%s\"}", id);
    struct job_plan plan;
    check_int(spec_parse(payload, strlen(payload), &arena, &plan, NULL), ==, TEND_EINVAL);
    arena_done(&arena);
}

/* A comparison of every id with every other would take hours here. */
TEST(spec, ten_thousand_steps_and_many_times_more_are_read)
{
    static const int counts[] = {10000, 100000};
    for (size_t i = 0; i < CASES(counts); i++) {
        struct buf payload;
        buf_init(&payload);
        buf_puts(&payload, "{\"steps\":[");
        for (int step = 0; step < counts[i]; step++)
            buf_printf(&payload, "%s{\"id\":\"tpl:%d\",\"run\":\"true\"}", step > 0 ? "," : "",
                       step);
        buf_puts(&payload, "]}");
        struct job_plan plan = parse(payload.data);
        check_int(plan.step_count, ==, counts[i]);
        check_str(plan.steps[9999].id, "tpl:9999");
        buf_done(&payload);
        arena_done(&arena);
    }
}

/* A stage of a flow file is never data: a mistyped "run" is a mistake. */
TEST(spec, what_must_be_a_plan_is_refused_with_what_was_probably_meant)
{
    static const char *const more[] = {"queue", "retry", NULL};
    static const struct {
        const char *payload, *sentence;
    } cases[] = {
        {"{\"rum\":\"x\"}", "rum: there is no such member; did you mean \"run\"?"},
        {"{\"run\":\"x\",\"quue\":\"x\"}",
         "quue: there is no such member; did you mean \"queue\"?"},
        {"{\"steps\":[],\"retrry\":1}", "retrry: there is no such member; did you mean \"retry\"?"},
        {"{\"run\":\"x\",\"colour\":1}", "colour: there is no such member; there are id, title, "},
        {"{}", "there is nothing to do; one of run, exec, http and sleep is needed, or steps"},
        {"[]", "there is nothing to do"},
        {"{", "the payload is not JSON"},
    };
    for (size_t i = 0; i < CASES(cases); i++) {
        struct job_plan plan;
        struct err err = {0};
        const char *payload = cases[i].payload;
        check_case_int(spec_parse_plan(payload, strlen(payload), more, &arena, &plan, &err),
                       TEND_EINVAL, payload);
        check_contains(err.text, cases[i].sentence);
    }
    struct job_plan plan;
    check_int(spec_parse_plan("{\"run\":\"x\"}", 11, NULL, &arena, &plan, NULL), ==, SPEC_PLAN);
    check_int(plan.step_count, ==, 1);
    arena_done(&arena);
}

TEST(spec, a_plan_that_is_misspelt_is_known_by_its_member)
{
    static const struct {
        const char *payload, *member, *meant;
        bool certain;
    } cases[] = {
        {"{\"command\":\"make\"}", "command", "run", false},
        {"{\"command\":[\"make\"]}", "command", "exec", false},
        {"{\"n\":[1,{\"run\":2}], \"cmd\" : \"make\"}", "cmd", "run", false},
        {"{\"Run\":\"make\"}", "Run", "run", true},
        {"{\"STEPS\":[]}", "STEPS", "steps", true},
        {"{\"Http\":{}}", "Http", "http", true},
        {"{\"step\":[{\"run\":\"x\"}]}", "step", "steps", false},
    };
    static const char *const data[] = {
        "{\"run\":\"make\"}", /* a plan */
        "{\"to\":\"ann\"}",
        "{\"command\":{\"name\":\"x\"}}", /* not what a plan has */
        "{\"html\":\"<b>\"}",
        "{\"x\":{\"command\":\"make\"}}",
        "[\"command\", \"make\"]",
        "\"command\"",
        "{\"command\":",
        "",
        "{}",
    };
    struct spec_slip slip;
    for (size_t i = 0; i < CASES(cases); i++) {
        const char *payload = cases[i].payload;
        check_case_int(spec_find_slip(payload, strlen(payload), &slip), true, payload);
        check_str(slip.member, cases[i].member);
        check_str(slip.meant, cases[i].meant);
        check_int(slip.certain, ==, cases[i].certain);
    }
    for (size_t i = 0; i < CASES(data); i++)
        check_case_int(spec_find_slip(data[i], strlen(data[i]), &slip), false, data[i]);
}
