# tend run: flow files of one stage.
load helper
load running

flow() {
    cat >"${1:-flow.yaml}"
}

@test "a flow is run to its end, and its exit status is 0" {
    flow <<'END'
flow: greet
params: {name: world, how-often: 2}
env: {GREETING: hello, OTHER: flow}
stages:
  - id: talk
    priority: 3
    env: {OTHER: stage}
    retry: {attempts: 4, backoff: 2s, factor: 2, max: 1m}
    step_timeout_seconds: 60
    steps:
      - id: say
        run: echo "$GREETING $TEND_PARAM_NAME $TEND_PARAM_HOW_OFTEN $OTHER"
      - exec: [sh, -c, 'echo "answer=42" >>$TEND_OUTPUT']
END
    run -0 tend run flow.yaml --param name=you
    [[ "$output" == *"step say is done"*"job 1 is done, "* ]]
    [ "$(grep -c 'job 1 is done' <<<"$output")" = 1 ]
    run -0 tend logs 1
    [ "$output" = 'hello you 2 stage' ]
    run -0 tend show 1 --json
    json '.job | .state == "done" and .kind == "shell" and .priority == 3 and .queue == "run"'
    json '.job | [.max_attempts, .backoff_ms, .backoff_max_ms] == [4, 2000, 60000]'
    json '.job.payload.step_timeout_seconds == 60 and (.job.payload | has("id") | not)'
    json '.checkpoints[-1].outputs == {"answer": "42"} or .checkpoints[-1].outputs == {"answer": 42}'
}

@test "a flow that fails: exit status 1 and what to look at" {
    flow <<'END'
stages:
  - id: only
    run: echo broken; exit 65
END
    run --separate-stderr -1 tend run flow.yaml
    [[ "$stderr" == *"job 1 has failed, deterministic_contract: step only, attempt 1 of 3: exit 65"*"'tend logs 1'"* ]]
    run -1 tend run flow.yaml --json
    [ "$(jq -r .event <<<"$output" | tr '\n' ' ')" = 'added job_begins output step job_ends end ' ]
    [ "$(jq -c 'select(.event == "output") | [.job_id > 1, .step_id, .stream, .text]' <<<"$output")" = '[true,"only","stdout","broken\n"]' ]
    [ "$(jq -c 'select(.event == "end") | [.state, .error_class]' <<<"$output")" = '["failed","deterministic_contract"]' ]
}

@test "however few descriptors there are, it ends and says what is lacking" {
    echo 'stages: [{run: "true"}]' >flow.yaml
    end_without_descriptors 10 24 run ../flow.yaml
}

@test "the output of the steps is shown, each before the line about its end" {
    flow <<'END'
stages:
  - steps:
      - {id: one, run: 'echo first; printf "no end"'}
      - {id: two, run: 'echo second; echo trouble >&2; exit 65'}
END
    run --separate-stderr -1 tend run flow.yaml
    sed -E 's/^[0-9T:.-]+Z //; s/ \([0-9.]+m?s\)//' <<<"$output" >said
    [ "$(head -n 5 said)" = "job 1 begins
first
no end
job 1: step one is done
second" ]
    [[ "${lines[5]}" == *"job 1: step two, attempt 1 of 3: exit 65: trouble"* ]]
    [[ "$stderr" == *"== 2: step two, attempt 1, "*$'\ntrouble\n'*"job 1 has failed"* ]]
}

output_is() {
    grep -qx "$1" run.log
}

@test "output is shown while a step runs" {
    flow <<END
stages: [{run: "echo waiting; $(gated one)"}]
END
    "$TEND" run flow.yaml >run.log 2>&1 3>&- &
    runner=$!
    started+=("$runner")
    until_true output_is waiting
    [ "$(state_of 1)" = running ]
    touch gate
    ended "$runner"
    [ "$status" = 0 ]
    output_is 'one is through'
}

@test "runs share a queue, and each takes its own job" {
    flow own.yaml <<END
stages: [{run: "$(gated own)"}]
END
    echo 'stages: [{run: echo quick}]' >quick.yaml
    "$TEND" run own.yaml >run.log 2>&1 3>&- &
    runner=$!
    started+=("$runner")
    until_true test -s own.pid
    kill -INT "$runner"
    ended "$runner"
    left=$(tend jobs --json | jq .id)
    touch gate # whoever took it would be done with it at once
    run -0 tend run quick.yaml
    run -0 tend run quick.yaml
    [ "$(state_of "$left")" = pending ]
    run -0 tend queues --json
    json '.name == "run" and .jobs.done == 2 and .jobs.pending == 1'
}

@test "a retry after the backoff is waited for" {
    flow <<'END'
stages:
  - run: '[ -e mark ] || { touch mark; exit 75; }; echo better'
    attempts: 1
    retry: {attempts: 2, backoff: 100ms, max: 100ms}
END
    run -0 tend run flow.yaml
    [[ "$output" == *"is tried again in "*"is done"* ]]
}

@test "a flow is JSON as well, and comes from standard input" {
    run -0 tend run - <<<'{"stages": [{"run": "echo from json"}]}'
    run -0 tend logs 1
    [ "$output" = 'from json' ]
}

@test "detached, it waits for a worker" {
    flow <<'END'
stages: [{id: a, run: echo hi}]
END
    run -0 --separate-stderr tend run flow.yaml --detach
    [ "$output" = 1 ]
    run -0 tend jobs --json
    json '.queue == "default" and .state == "pending" and .kind == "shell"'
    sed -i 's/id: a/id: a, queue: builds/' flow.yaml
    run -0 tend run flow.yaml -d --json
    json '.queue == "builds" and .id > 1'
}

@test "a stage with a queue is run by its workers, and followed" {
    flow <<'END'
stages: [{queue: builds, steps: [{run: echo one}, {run: echo two >&2}]}]
END
    tend migrate >/dev/null
    start_worker -q builds
    run --separate-stderr -0 tend run flow.yaml
    [ "${lines[0]}" = one ]
    [[ "${lines[-1]}" == *" is done, "* ]]
    [[ "$stderr" == *"is in the queue builds"*two* ]]
    flow <<'END'
stages: [{queue: builds, run: exit 65}]
END
    run -1 tend run flow.yaml
    [[ "$output" == *"has failed"* ]]
}

@test "a cancelled run has exit status 1" {
    flow <<END
stages: [{run: "$(gated one)"}]
END
    "$TEND" run flow.yaml >run.log 2>&1 3>&- &
    runner=$!
    started+=("$runner")
    until_true test -s one.pid
    tend control "$(tend jobs --json | jq .id)" cancel --reason enough >/dev/null
    ended "$runner"
    [ "$status" = 1 ]
    grep -q 'was cancelled: enough' run.log
    is_gone "$(cat one.pid)"
}

@test "an interrupt gives the job back, and --resume goes on where it was" {
    flow <<END
stages:
  - steps:
      - {id: a, run: "echo tried >>$PWD/first"}
      - {id: b, run: "$(gated one)"}
END
    "$TEND" run flow.yaml >run.log 2>&1 3>&- &
    runner=$!
    started+=("$runner")
    until_true test -s one.pid
    kill -INT "$runner"
    ended "$runner"
    [ "$status" = 130 ]
    is_gone "$(cat one.pid)"
    id=$(tend jobs --json | jq .id)
    grep -q 'stopping at once' run.log
    grep -q "tend run --resume $id" run.log
    [ "$(state_of "$id")" = pending ]
    touch gate
    run -0 tend run --resume "$id"
    [ "$(wc -l <first)" = 1 ]
    fails 4 tend run --resume "$id"
    says "is done"
    other=$(tend add -- true)
    fails 4 tend run --resume "$other"
    says "queue default"
    fails 3 tend run --resume 99
    fails 2 tend run --resume x
    fails 2 tend run --resume "$id" flow.yaml
}

@test "workspaces that are paths are meant from here" {
    git init -q -b main repo
    git -C repo -c user.name=a -c user.email=a@b commit -q --allow-empty -m start
    flow <<'END'
stages: [{workspace: {repo: repo, ref: main}, run: pwd; touch new}]
END
    run -0 tend run flow.yaml
    run -0 tend show 1 --json
    json ".job.payload.workspace.repo == \"$PWD/repo\""
    [ ! -e repo/new ]
}

# bad TEXT SENTENCE: a flow file with this text is refused with this sentence and makes no store
bad() {
    printf '%b' "$1" >bad.yaml
    fails 2 tend run bad.yaml
    says "$2"
}

@test "mistakes are told with file, line, column and the line itself" {
    bad 'stages:\n - id: a\n   steps:\n    - run: x\n      timeoutt: 5s\n' \
        'run: bad.yaml, line 5, column 7 (timeoutt: 5s): steps[0].timeoutt: there is no such member; did you mean "timeout"?'
    bad 'stages:\n - id: a\n   steps:\n    - rum: x\n' \
        'run: bad.yaml, line 4, column 7 (- rum: x): steps[0].rum: there is no such member; did you mean "run"?'
    bad 'stages:\n - id: a\n   rum: x\n' \
        'run: bad.yaml, line 3, column 4 (rum: x): rum: there is no such member; did you mean "run"?'
    bad 'stages:\n - run: x\n   quue: x\n' 'line 3, column 4 (quue: x): quue: there is no such member; did you mean "queue"?'
    bad '? a:\t:\n' 'line 1, column 6 (? a:'
    bad 'stages:\n\t- run: x\n' 'line 2, column 1 (- run: x): found character that cannot start any token (blanks indent, not tabs;'
    bad 'name: x\nstages:\n - run: x\n' 'line 1, column 1 (name: x): name: there is no such member; there are flow, params, env, stages'
    bad 'stages:\n - steps: [{shell: x}]\n' 'steps[0].shell: there is no such member; there are id, title, instructions, run, exec, http, sleep, '
    bad 'stages:\n - run: "x\n' 'bad.yaml, line 2, column 9 (- run: "x): found unexpected end of stream while scanning a quoted scalar'
    bad 'stages:\n - run: x\n   run: y\n' 'line 3, column 4 (run: y): this name is there twice'
    bad 'stage: []\n' 'did you mean "stages"?'
    bad 'stages:\n - run: x\n   retry: {attempts: 0}\n' 'line 3, column 12'
    bad 'stages:\n - run: x\n   retry: {backoff: soon}\n' 'not a duration'
    bad 'stages:\n - run: x\n   retry: {factor: 3}\n' 'factor of 2'
    bad 'stages:\n - run: x\n   retry: {attempt: 3}\n' 'did you mean "attempts"?'
    bad 'stages:\n - run: x\n   retry: 3\n' 'line 3'
    bad 'stages:\n - run: x\n   queue: [a]\n' 'name of a queue'
    bad 'stages:\n - run: x\n   priority: 10\n' '0 to 9'
    bad 'stages:\n - id: 5\n   run: x\n' 'must be text'
    bad 'stages:\n - id: x\n' 'nothing to do'
    bad 'stages: []\n' 'a flow needs a list of stages'
    bad 'stages:\n - just text\n' 'a stage has members'
    bad 'flow: x\n' 'a flow needs a list of stages'
    bad 'just text' 'a flow file has members'
    bad '' 'nothing in it'
    bad 'stages:\n - run: x\n---\nstages: []\n' 'second document'
    bad 'stages:\n - run: caf\xff\n' 'line 2, column 12'
    bad 'stages:\n - run: x\n   title: \xc3\xa9 a\x01b\n' 'line 3, column 14 (title: é a'
    says 'control characters are not allowed'
    bad 'stages:\n - run: !!str x\n' 'line 2, column 9 (- run: !!str x): tags'
    bad 'stages:\n - run: *x\n' 'line 2, column 9 (- run: *x): there is no anchor of this name'
    bad 'stages:\n - {[run]: x}\n' 'a name must be a plain text'
    bad 'stages:\n - run: x\n   env: [1]\n' 'names and values'
    bad 'env: 5\nstages:\n - run: x\n' 'line 1'
    fails 2 tend run missing.yaml
    says missing.yaml
    fails 2 tend run .
    fails 2 tend run
    fails 2 tend run a b
    [ ! -e .tend ]
}

@test "what belongs to flows of several stages is not supported yet, and says so" {
    for member in 'needs: [a]' 'when: outputs.a.b' 'wait: {signal: go}' 'join: any' 'each: [1]' \
        'breaker: {}' 'on_failure: tolerate'; do
        bad "stages:\n - run: x\n   $member\n" 'flows of several stages are not supported yet'
        says 'line 3, column 4'
    done
    bad 'stages:\n - run: x\n - run: y\n' 'line 3, column 4'
    says 'not supported yet'
}

@test "no file of a few lines becomes gigabytes" {
    {
        echo 'a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]'
        for pair in ab bc cd de ef fg gh hi; do
            n=${pair:0:1}
            echo "${pair:1}: &${pair:1} [*$n, *$n, *$n, *$n, *$n, *$n, *$n, *$n, *$n]"
        done
    } >bad.yaml
    fails 2 tend run bad.yaml
    says 'too large'
    echo 'a: &a [*a]' >bad.yaml
    fails 2 tend run bad.yaml
    printf 'a: %s%s\n' "$(printf '[%.0s' {1..200})" "$(printf ']%.0s' {1..200})" >bad.yaml
    fails 2 tend run bad.yaml
}

@test "aliases are followed" {
    flow <<'END'
env: &vars {WORD: twice}
stages:
  - env: *vars
    steps: [{run: &cmd "echo $WORD"}, {run: *cmd}]
END
    run -0 tend run flow.yaml
    run -0 tend logs 1
    [ "$output" = $'twice\ntwice' ]
}

@test "parameters: what is needed, what is known, what they are called" {
    flow <<'END'
params: {version: null, on: true, number: 1.5}
stages: [{run: 'echo $TEND_PARAM_VERSION $TEND_PARAM_ON $TEND_PARAM_NUMBER'}]
END
    fails 2 tend run flow.yaml
    says 'line 1'
    says '--param version=VALUE'
    fails 2 tend run flow.yaml --param versoin=1
    says 'did you mean version?'
    fails 2 tend run flow.yaml --param version
    says 'NAME=VALUE'
    [ ! -e .tend ]
    tend run flow.yaml --param version=1 --param version='2 = two' >/dev/null
    run -0 tend logs 1
    [ "$output" = '2 = two true 1.5' ]
    bad 'params: {a-b: 1, a_b: 2}\nstages:\n - run: x\n' 'TEND_PARAM_A_B'
    bad 'params: {"a b": 1}\nstages:\n - run: x\n' 'letters, digits'
    bad 'params: {a: [1]}\nstages:\n - run: x\n' 'must be text'
    bad 'params: 5\nstages:\n - run: x\n' 'names and values'
    echo 'stages: [{run: x}]' >flow.yaml
    fails 2 tend run flow.yaml --param a=1
    says 'has no parameter "a"'
}

@test "on a terminal it is drawn, and the last line says how it ended" {
    flow <<'END'
stages: [{steps: [{id: first, run: echo working; sleep 0.4}, {id: second, run: 'true'}]}]
END
    TERM=xterm run -0 script -qec "stty cols 90 rows 24; '$TEND' run flow.yaml" /dev/null
    [[ "$output" == *"1/2 first"*"working"* ]]
    [[ "${lines[-1]}" == *"job 1 is done, "* ]]
}

@test "on a terminal the end of a failed step's output is shown" {
    flow <<'END'
stages: [{id: a, run: 'seq 100 150; printf broken; exit 65'}]
END
    TERM=xterm run -1 script -qec "stty cols 90 rows 24; '$TEND' run flow.yaml" /dev/null
    said=$(tr -d '\r' <<<"$output")
    [[ "$said" == *"== 1: step a, attempt 1, "*", failed"*$'\n132\n133\n'*$'\n150\nbroken\ntend: job 1 has failed'* ]]
    [[ "$said" != *$'\n131\n'* ]]
}

# Symptom: of a done job, commands were advised that are refused.
@test "--resume of a job that has ended says what brings it back" {
    flow <<'END'
stages: [{steps: [{id: first, run: 'true'}, {id: second, run: 'test -e go || exit 65'}]}]
END
    run -1 tend run flow.yaml
    fails 4 tend run --resume 1
    says "run: job 1 has failed; 'tend retry 1' brings it back, then 'tend run --resume 1' goes on with it"
    touch go
    tend retry 1 >/dev/null
    tend run --resume 1 >/dev/null
    fails 4 tend run --resume 1
    says "run: job 1 is done, nothing is left to resume; 'tend control 1 resume_from_step --step STEP' makes a new job"
    tend control 1 resume_from_step --step second >/dev/null
    id=$(tend jobs -n 1 --json | jq .id)
    run -0 tend run --resume "$id"
    [[ "$output" == *"job $id is done"* && "$output" != *"step first"* ]]
}

# Symptom: the header of a step that has succeeded said that it is running.
@test "the header before a step's output does not name a state" {
    flow <<'END'
stages: [{id: a, run: echo hello}]
END
    run -0 --separate-stderr tend run flow.yaml
    [[ "$stderr" =~ "== 1: step a, attempt 1, "[-0-9T:.]+Z$ ]]
}
