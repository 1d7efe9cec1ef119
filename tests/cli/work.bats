# tend work, and tend add of what it runs.
load helper
load running

# --- tend add ---

@test "a command is of kind shell, or of the kind that is given" {
    tend add -k report -- make >/dev/null
    run -0 tend jobs --kind report --json
    json '.payload == {"exec": ["make"]}'
    tend add -- make >/dev/null
    run -0 tend jobs --kind shell --json
    json '.payload == {"exec": ["make"]}'
    fails 2 tend add --payload '{}' -- make
    says "leave out --payload"
}

@test "a plan without a kind gets that of its first step" {
    tend add --payload '{"run": "make"}' >/dev/null
    tend add --payload '{"http": {"url": "http://127.0.0.1:1/"}}' >/dev/null
    tend add --payload '{"steps": [{"sleep": "1s"}, {"run": "x"}]}' >/dev/null
    tend add -k mine --payload '{"http": {"url": "http://127.0.0.1:1/"}}' >/dev/null
    [ "$(tend jobs --oldest --json | jq -r .kind | tr '\n' ' ')" = 'shell http sleep mine ' ]
}

@test "a plan with a mistake is refused with its place, data is not looked at" {
    fails 2 tend add --payload '{"run": "x", "timeoutt": 1}'
    says 'timeoutt: there is no such member; did you mean "timeout"?'
    fails 2 tend add --payload '{"steps": [{"run": "x"}, {"run": "x", "timeout": "soon"}]}'
    says 'steps[1].timeout'
    fails 2 tend add -k http --payload '{"http": {"url": "ftp://x"}}'
    says 'http.url'
    [ ! -e .tend ]
    tend add --payload '{"runn": "x"}' >/dev/null
    tend add -k mine --payload '{"run": 5}' >/dev/null
}

# --- running ---

@test "drain runs what is there and ends" {
    tend add -- sh -c 'echo hello' >/dev/null
    tend add --payload '{"run": "exit 65"}' >/dev/null
    tend add -q other -- true >/dev/null
    run -0 tend work --drain
    [[ "$output" == *"job 1 is done"* ]]
    [[ "$output" == *"job 2: step step-1, attempt 1 of 3: exit 65"*"job 2 has failed"* ]]
    [ "$(grep -c 'exit 65' <<<"$output")" = 1 ]
    [ "${lines[-1]}" = '1 done, 1 failed, 0 tried again later, 0 held, 0 given back' ]
    [ "$(tend jobs --oldest --json | jq -r .state | tr '\n' ' ')" = 'done failed pending ' ]
}

# explain said only when such a job is due again, never that no worker can run it.
@test "explain repeats why a worker gave a job back" {
    tend add -k odd --payload '{"rows": 5}' >/dev/null
    run -1 tend work --drain
    run -0 tend explain 1
    [[ "$output" == "job 1 is scheduled. Worker "*" cannot run it: it has no handler for kind 'odd', and the payload is no plan. It is offered again in "* ]]
    [[ "$output" == *"'tend work -q default --handler odd=COMMAND' runs it." ]]
    run -0 tend explain 1 --json
    json '.reason == "no_handler" and (.given_back | contains("the payload is no plan"))'
}

@test "with --json every event is an object" {
    tend add -- true >/dev/null
    run -0 tend work --drain --json
    [ "$(jq -r .event <<<"$output" | tr '\n' ' ')" = 'note job_begins step job_ends end ' ]
    [ "$(jq -c 'select(.event == "job_ends") | [.job_id, .state]' <<<"$output")" = '[1,"done"]' ]
    [ "$(jq -c 'select(.event == "step") | .state' <<<"$output")" = '"succeeded"' ]
    [ "$(jq -c 'select(.event == "end") | [.done, .failed]' <<<"$output")" = '[1,0]' ]
}

@test "several queues are worked on" {
    tend add -q a -- true >/dev/null
    tend add -q b -- true >/dev/null
    tend add -q c -- true >/dev/null
    run -0 tend work --drain -q a -q b
    [[ "$output" == *"working on the queues a, b"* ]]
    [ "$(tend jobs --oldest --json | jq -r .state | tr '\n' ' ')" = 'done done pending ' ]
}

@test "a command that does not exist fails for good, and says so" {
    id=$(tend add -- no-such-command --flag)
    tend work --drain >/dev/null
    run -0 tend show "$id" --json
    json '.job.state == "failed" and .job.error_class == "deterministic_contract"'
    json '.job.error_text | contains("no-such-command")'
    json '.attempts | length == 1'
}

@test "a handler gets the payload and what it prints is the result" {
    id=$(tend add -k double --payload '{"n":  21}')
    tend add -k text --payload '"plain"' >/dev/null
    run -0 tend work --drain --handler 'double=tee seen | jq -c "{twice: (.n * 2)}"' --handler 'text=cat'
    [ "$(cat seen)" = '{"n":  21}' ]
    run -0 tend show "$id" --json
    json '.job.state == "done" and .job.result == {"twice": 42}'
}

# Every job of the kind failed for good: the shell's "not found" was taken for the job's fault.
@test "a handler that is not there is refused before a job is claimed" {
    tend add -k resize >/dev/null
    fails 2 tend work --drain --handler resize=nosuchprogram
    says 'there is no such command here'
    [ "$(state_of 1)" = pending ]
    run -0 tend work --drain --handler 'resize=x=1; exit 0'
}

@test "a job of a kind without a handler is given back, and says what is missing" {
    tend add -k mail --payload '{"to": "ann"}' >/dev/null
    run -1 --separate-stderr tend work --drain
    says "work: no job could be run here, for want of a handler or of a job's folder"
    run -0 tend show 1 --json
    json '.job.state == "scheduled" and .job.attempts == 0'
    json ".job.changed_why == \"it has no handler for kind 'mail', and the payload is no plan\""
}

# Each job failed for good: the shell's "not found" was taken for the job's fault.
@test "a handler whose command is missing gives its jobs back, and says which" {
    tend add -k welcome --payload '{"to": "ann"}' >/dev/null
    tend add -k welcome --payload '{"to": "bob"}' >/dev/null
    run -1 --separate-stderr tend work --drain --handler welcome=./send-welcme
    says "work: no job could be run here, for want of a handler or of a job's folder"
    [ "$(grep -c 'no handler for kind .welcome. that can be started: "./send-welcme" ended with 127' <<<"$output$stderr")" = 1 ]
    run -0 tend show 1 --json
    json '.job.state == "scheduled" and .job.attempts == 0'
    run -0 tend explain 2
    [[ "$output" == *"cannot run it: it has no handler for kind 'welcome' that can be started"* ]]
}

at_once() {
    [ "$(find . -name '*.pid' | wc -l)" = "$1" ]
}

# WF-7
@test "no more steps of a kind run at once than its limit" {
    for name in a b c; do tend add --payload "$(jq -n --arg run "$(gated $name)" '{$run}')" >/dev/null; done
    tend add --payload '{"sleep": "0s"}' >/dev/null
    start_worker --limit shell=2
    until_true at_once 2
    # One full kind never delays another.
    until_true has_state "$(tend jobs --kind sleep --json | jq .id)" 'done'
    at_once 2
    touch gate
    until_true at_once 3
    kill -TERM "$worker"
    ended "$worker"
    [ "$status" = 0 ]
}

@test "a handler's kind can have a limit" {
    tend add -k mail >/dev/null
    run -0 tend work --handler mail=true --limit mail=1 --drain
    [ "${lines[-1]%%,*}" = '1 done' ]
}

# is_there NAME: such a worker is registered
is_there() {
    tend workers --json | jq -r .name | grep -qx "$1"
}

@test "a worker has the name it is given" {
    tend migrate >/dev/null
    start_worker --name night-shift
    until_true is_there night-shift
    id=$(tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')")
    until_true test -s one.pid
    run -0 tend show "$id" --json
    json '.job.owner == "night-shift"'
    kill -TERM "$worker"
    until_true log_says 'what runs is waited for'
    kill -TERM "$worker"
    ended "$worker"
    run -0 tend show "$id" --json
    json '.job.changed_why == "worker night-shift was told to stop"'
    json '.attempts[0].summary == "worker night-shift was told to stop"'
    run -0 tend events --json
    [ "$(jq -r 'select(.what == "task.step.attempt.failed") | .why' <<<"$output")" = 'worker night-shift was told to stop' ]
}

@test "a job runs in the folder it names, meant from where it was added" {
    mkdir -p here/below there
    (cd here && tend --store sqlite:../s.db add --workspace . -- sh -c 'pwd; echo "$TEND_WORKSPACE"' >/dev/null)
    tend --store sqlite:s.db add --workspace here --payload '{"run": "pwd", "cwd": "below"}' >/dev/null
    tend --store sqlite:s.db add -k mail --workspace here >/dev/null
    (cd there && run -0 tend --store sqlite:../s.db work --drain --handler mail=pwd)
    for id in $(tend --store sqlite:s.db jobs --oldest --json | jq .id); do
        tend --store sqlite:s.db logs "$id"
    done >said
    [ "$(cat said)" = "$PWD/here
$PWD/here
$PWD/here/below
$PWD/here" ]
}

# It failed for good on the first worker, although another machine may have the folder.
@test "a job whose folder is not there is given back, and the worker says which and what to do" {
    id=$(tend add --workspace "$PWD/not/there" -- pwd)
    run -1 tend work --drain
    [[ "$output" == *"job $id is given back: its folder \"$PWD/not/there\" cannot be entered on "*": No such file or directory. It was added by "* ]]
    [[ "$output" == *". Make the folder, start a worker where it is, or cancel the job and add it again with --workspace FOLDER or --no-folder"* ]]
    run -0 tend show "$id" --json
    json '.job.state == "scheduled" and .job.attempts == 0 and .attempts == []'
    run -0 tend explain "$id"
    [[ "$output" == *"gave it back: its folder \"$PWD/not/there\""* ]]
    # The advice was cut in the middle of a word.
    [[ "$output" == *"add it again with --workspace FOLDER or --no-folder."* ]]
    [[ "$(tend jobs)" == *", given back: its folder "* ]]
    # One that could run a job has done its work.
    tend add -- true >/dev/null
    tend work --drain >/dev/null
    # One without processes needs none.
    id=$(tend add --workspace /not/there --payload '{"sleep": "1ms"}')
    tend work --drain >/dev/null
    [ "$(state_of "$id")" = 'done' ]
}

# It said so again for every job, every 30 s.
@test "a worker says once that a folder is not there" {
    tend add --workspace "$PWD/not/there" -- true >/dev/null
    tend add --workspace "$PWD/not/there" -- true >/dev/null
    tend add --workspace "$PWD/nor/this" -- true >/dev/null
    run -1 tend work --drain
    [ "$(grep -c '/not/there" cannot be entered' <<<"$output")" = 1 ]
    [ "$(grep -c '/nor/this" cannot be entered' <<<"$output")" = 1 ]
    [[ "$output" == *' 0 held, 3 given back'* && "$output" != *begins* ]]
}

@test "a command runs in the folder in which it was added" {
    mkdir -p here/below elsewhere
    tend migrate >/dev/null
    cd here/below
    id=$(tend add -- sh -c 'pwd; echo "$TEND_WORKSPACE"')
    other=$(tend add --no-folder -- pwd)
    third=$(tend add --workspace '' -- pwd)
    data=$(tend add -k mail --payload '{"run": "pwd"}')
    cd ../../elsewhere
    tend work --drain --handler mail=pwd >/dev/null
    run -0 tend logs "$id"
    [ "$output" = "$HOME/here/below
$HOME/here/below" ]
    for job in "$other" "$third" "$data"; do
        [ "$(tend logs "$job")" = "$HOME/elsewhere" ]
    done
    fails 2 tend add --workspace x --no-folder -- true
    says 'add: --workspace and --no-folder exclude each other'
}

@test "the command of a schedule runs in the folder in which it was given" {
    mkdir here elsewhere
    tend migrate >/dev/null
    (cd here && tend schedule add tick '@every 1s' -- sh -c "pwd >>$HOME/where" >/dev/null)
    run -0 tend schedule ls --json
    json ".workspace == \"$HOME/here\""
    cd elsewhere
    start_worker
    until_true test -s "$HOME/where"
    tend schedule rm tick >/dev/null
    [ "$(sort -u "$HOME/where")" = "$HOME/here" ]
}

@test "variables of a command: values with --env, names of the worker's with --env-from" {
    id=$(tend add --env GREETING='hello world' --env EMPTY= --env-from API_TOKEN,OTHER --env-from THIRD \
        -- sh -c 'echo "$GREETING/$EMPTY/${#API_TOKEN}/$OTHER/$THIRD"')
    run -0 tend show "$id" --json
    json '.job.payload.env == {GREETING: "hello world", EMPTY: "", API_TOKEN: {env: "API_TOKEN"},
        OTHER: {env: "OTHER"}, THIRD: {env: "THIRD"}}'
    API_TOKEN=sesame-open-4711 OTHER=a THIRD=b tend work --drain >/dev/null
    run -0 tend logs "$id"
    [ "$output" = 'hello world//16/a/b' ]
    run -1 grep -rq sesame-open-4711 .tend
}

# SH-15
@test "a secret is not taken by its value" {
    fails 2 tend add --env API_TOKEN=sesame-open-4711 -- true
    says 'add: --env API_TOKEN=… looks like a secret'
    says 'set API_TOKEN where the worker runs, and give --env-from API_TOKEN'
    [[ "$stderr" != *sesame* ]]
    fails 2 tend schedule add x @daily --env API_TOKEN=sesame-open-4711 -- true
    says 'schedule add: --env API_TOKEN=… looks like a secret'
    [ ! -e .tend ]
    while IFS="|" read -r options sentence; do
        # shellcheck disable=SC2086
        fails 2 tend add $options -- true
        says "$sentence"
    done <<'END'
--env X|--env: "X" is not of the form NAME=VALUE; --env-from X takes it from the worker's environment
--env =x|"" is not the name of a variable
--env 1X=x|"1X" is not the name of a variable
--env A=1 --env A=2|the variable A is given twice
--env A=1 --env-from B,A|the variable A is given twice
--env-from A,,B|"" is not the name of a variable
--env-from A=1|"A=1" is not the name of a variable
END
    fails 2 tend add --env A=1
    says 'add: --env is for a command after --; a payload has its own "env"'
    fails 2 tend add --env-from A --payload '{"run": "true"}'
}

@test "bad options are refused before anything is done" {
    tend migrate >/dev/null
    while IFS="|" read -r option sentence; do
        # shellcheck disable=SC2086
        fails 2 tend work --drain $option
        says "$sentence"
    done <<'END'
-c 0|--concurrency: "0" is not a whole number from 1
-c x|--concurrency: "x" is not a whole number
--limit shell|--limit: "shell" is not of the form KIND=N
--limit =3|--limit: "=3" is not of the form KIND=N
--limit shell=0|--limit: "0" is not a whole number from 1
--limit shell=2x|--limit: "2x" is not a whole number
--limit shel=2|--limit: no step here is of kind "shel"; there are shell, http, sleep and those with a --handler; did you mean "shell"?
--limit resize=2 --handler mail=true|no step here is of kind "resize"
--handler x|--handler: "x" is not of the form KIND=COMMAND
--handler x=|--handler: "x=" is not of the form KIND=COMMAND
--handler =x|--handler: "=x" is not of the form KIND=COMMAND
--stop-after soon|--stop-after: "soon" is not a duration
--statsd nowhere|host:port
END
    fails 2 tend work --handler a=true --handler a=false
    says "two commands"
    fails 2 tend work extra
    fails 2 tend work --drain --name ''
    says "'' cannot name a worker; give 1 to 200 bytes of UTF-8 text"
    fails 2 tend work --drain --name "$(printf 'a%.0s' {1..300})"
    TEND_STEP_TIMEOUT_SECONDS=x fails 2 tend work --drain
    says TEND_STEP_TIMEOUT_SECONDS
}

@test "a store that is not there, or out of reach" {
    fails 3 tend work --drain
    [ ! -e .tend ]
    fails 69 tend work --drain --store 'postgresql://127.0.0.1:1/nowhere'
}

@test "a folder that cannot be made" {
    tend migrate >/dev/null
    touch file
    fails 1 tend work --drain --folder file/below
    says "--folder"
}

# --- what a worker lacks ---

# BY-9. Symptom: ten of twelve jobs were charged an attempt, or failed, before their commands had started.
@test "a worker with too few descriptors runs as many jobs as it can, and charges none for the others" {
    for _ in {1..12}; do
        echo '{"payload": {"run": "sleep 0.2"}}'
    done | tend add --batch - >/dev/null
    (ulimit -n 40 && exec "$TEND" work -c 12 --drain >work.log 2>&1 3>&-)
    [ "$(grep -c 'this worker cannot run jobs now: .*ulimit -n' work.log)" = 1 ]
    log_says 'this worker can run jobs again'
    tail -n 1 work.log | grep -q '^12 done, 0 failed, 0 tried again later'
    [ "$(tend jobs --state done --json | jq -s 'map(.attempts == 1) | all')" = true ]
}

@test "a worker that cannot write its folder ends --drain with a sentence, and charges nothing" {
    tend add -- true
    ln -s /sys run # where not even root can
    run --separate-stderr -1 tend work --drain --folder run --name sick
    says 'this worker cannot run jobs: making folder '
    says ' --folder'
    # Four tries. A claim that was under way when the first try failed may bring the job once more.
    [[ "${lines[-1]}" == '0 done, 0 failed, 0 tried again later, 0 held, '[45]' given back' ]]
    [ "$(tend jobs --json | jq .attempts)" = 0 ]
}

# Symptom: where already registering found no descriptor, --drain asked whether /proc is mounted, every half second for
# ever.
@test "however few descriptors there are, --drain ends and says what is lacking, and a worker that stays waits for more" {
    end_without_descriptors 10 24 work --drain
    few=$(grep -l 'cannot claim jobs' ./*.log | head -n 1)
    tend add -- true >/dev/null
    (ulimit -Sn "$(basename "$few" .log)" && exec "$TEND" work >work.log 2>&1 3>&- 4>&- 5>&- 6>&-) &
    worker=$!
    started+=("$worker")
    until_true log_says 'this worker cannot claim jobs now: .*ulimit -n.*; it tries again in 1s'
    prlimit --pid "$worker" --nofile=1000:
    until_true log_says 'this worker can run jobs again'
    until_true has_state 1 'done'
    kill -TERM "$worker"
    ended "$worker"
    [ "$status" = 0 ]
    [ "$(grep -c 'cannot claim' work.log)" = 1 ]
}

# --- stopping ---

# LS-6
@test "TERM: nothing more is begun, what runs is waited for, the exit status is 0" {
    first=$(tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')")
    start_worker -c 1
    until_true test -s one.pid
    second=$(tend add -- true)
    kill -TERM "$worker"
    until_true log_says 'stopping; what runs is waited for'
    touch gate
    ended "$worker"
    [ "$status" = 0 ]
    [ "$(state_of "$first")" = 'done' ]
    [ "$(state_of "$second")" = pending ]
    run -0 tend logs "$first"
    [ "$output" = 'one is through' ]
}

# A mask is inherited. Symptom: only SIGKILL ended such a worker.
@test "TERM ends a worker that was started with TERM blocked" {
    tend add -- true >/dev/null
    env --block-signal=TERM "$TEND" work >work.log 2>&1 3>&- &
    worker=$!
    started+=("$worker")
    until_true grep -q 'working on' work.log
    kill -TERM "$worker"
    until_true is_gone "$worker"
    ended "$worker"
    [ "$status" = 0 ]
}

# Symptom: the worker killed its own attempt as what "a dead worker left", and told of a lack of memory.
@test "a job that is retried right after its cancel waits for its attempt, which its worker ends" {
    step="if [ -s $PWD/first ]; then ! kill -0 \$(cat $PWD/first) || touch $PWD/beside; exit 0; fi"
    id=$(tend add --payload "$(jq -n --arg run "$step; trap '' TERM; echo \$\$ >$PWD/first; while :; do sleep 0.05; done" \
        '{$run, grace: "6s"}')")
    start_worker
    until_true test -s first
    tend cancel "$id"
    tend retry "$id"
    until_true has_state "$id" 'done'
    cat work.log
    [ ! -e beside ]
    run ! log_says 'left of job'
    run ! log_says 'tend did not send'
    log_says 'was taken away\|is cancelled'
}

# Symptom: "attempt 2 of 3 follows", of a run that was over.
@test "how an attempt ended is not told when its lease is lost" {
    step="if [ -e $PWD/first ]; then exit 0; fi; touch $PWD/first"
    id=$(tend add --payload "$(jq -n --arg run "$step; cd $PWD; '$TEND' cancel 1; '$TEND' retry 1; exit 1" '{$run}')")
    start_worker -c 1
    until_true has_state "$id" 'done'
    cat work.log
    log_says 'was taken away'
    run ! log_says 'attempt 1 of 3: exit 1'
}

# LS-6, RC-14
@test "a second signal: the job is pending again, no attempt burned, nothing of it runs" {
    id=$(tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')")
    start_worker --stop-after 1h
    until_true test -s one.pid
    kill -TERM "$worker"
    until_true log_says 'stopping; what runs is waited for'
    kill -INT "$worker"
    until_true log_says 'is given back: worker .* was told to stop'
    # Said before it is done, so not as if it were.
    log_says 'stopping at once; what runs is being ended, then given back'
    ended "$worker"
    [ "$status" = 0 ]
    is_gone "$(cat one.pid)"
    run -0 tend show "$id" --json
    json '.job.state == "pending" and .job.attempts == 0 and .job.crashes == 0'
    json '[.attempts[].state] == ["stopped"]'
    tail -n 1 work.log | grep -q '1 given back'
}

@test "what is waited for is waited for so long only" {
    id=$(tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')")
    start_worker --stop-after 100ms
    until_true test -s one.pid
    kill -TERM "$worker"
    ended "$worker"
    [ "$status" = 0 ]
    is_gone "$(cat one.pid)"
    [ "$(state_of "$id")" = pending ]
}

attempts_of() {
    tend show "$1" --json | jq '.attempts | length'
}

@test "settings that have changed count for the next job, and a hangup changes nothing else" {
    tend migrate >/dev/null
    start_worker
    id=$(tend add --payload '{"run": "exit 75"}')
    until_true has_state "$id" scheduled
    [ "$(attempts_of "$id")" -gt 1 ]
    tend queue set default --step-max-attempts 1 >/dev/null
    kill -HUP "$worker"
    until_true log_says SIGHUP
    id=$(tend add --payload '{"run": "exit 75"}')
    until_true has_state "$id" scheduled
    [ "$(attempts_of "$id")" = 1 ]
    kill -INT "$worker"
    ended "$worker"
    [ "$status" = 0 ]
}

@test "a worker whose reader has gone stops" {
    tend add -- true >/dev/null
    run timeout 20 bash -c 'set -o pipefail; "$0" work | head -n 1' "$TEND"
    [ "$status" = 141 ]
    [ "$(tend jobs --state running --json)" = '' ]
}

# A worker that never had to wait never deleted anything.
@test "a worker that is never idle purges too" {
    id=$(tend add)
    tend cancel "$id" >/dev/null
    tend queue set default --keep-done 0s >/dev/null
    tend work --drain >/dev/null
    fails 3 tend show "$id"
}

# BY-8
@test "steps and handlers of a schedule's job know the time it was named for" {
    script='echo "$TEND_SCHEDULE $TEND_NOMINAL_TIME $TEND_NOMINAL_TIME_MS" >>seen'
    tend schedule add tick '@every 1s' -- sh -c "$script" >/dev/null
    TEND_SCHEDULE=other TEND_NOMINAL_TIME=other start_worker --handler "mine=${script/seen/handled}"
    until_true test -s seen
    tend schedule add tick '@every 1s' -k mine >/dev/null
    until_true test -s handled
    tend schedule rm tick >/dev/null
    grep -Eq '^tick [0-9-]+T[0-9:]+[.]000Z [0-9]+000$' handled
    id=$(tend jobs --oldest --json -s done | jq -r .id | head -n 1)
    run -0 tend show "$id" --json
    json '.job.schedule == "tick" and .job.nominal_at_ms % 1000 == 0'
    nominal=$(jq .job.nominal_at_ms <<<"$output")
    [ "$(head -n 1 seen)" = "tick $(date -u -d "@$((nominal / 1000))" +%Y-%m-%dT%H:%M:%S.000Z) $nominal" ]
    run -0 tend show "$id"
    [[ "$output" == *'run of'* ]]
    # A job that nobody has scheduled has none, whatever the worker's own environment says.
    tend add -- sh -c "echo \"none:\$TEND_SCHEDULE:\$TEND_NOMINAL_TIME:\" >alone" >/dev/null
    until_true test -s alone
    [ "$(cat alone)" = none::: ]
}

# --- telling others ---

has_packet() {
    grep -q -- "$1" packets
}

# SH-14
@test "metrics are sent to a StatsD server" {
    start_listener udp
    port=$(head -n 1 packets)
    tend add --max-attempts 1 --payload '{"run": "[ $TEND_STEP_ATTEMPT = 2 ] || exit 75"}' >/dev/null
    TEND_STATSD=127.0.0.1:$port tend work --drain >/dev/null
    until_true has_packet 'task.self_heal.recovered_total:1|c'
    has_packet 'task.self_heal.attempts_total:1|c|#class:transient_runtime,strategy:soft_reset,outcome:retried'
    has_packet 'task.step.duration_seconds:[0-9.]*|h|#outcome:succeeded'
    tend add -- no-such-command >/dev/null
    tend work --drain --statsd "127.0.0.1:$port" >/dev/null
    until_true has_packet 'class:deterministic_contract,strategy:none,outcome:failed'
}

# A name without an address kept the worker from starting.
@test "a StatsD server whose name is not found keeps nobody from working" {
    tend add -- true >/dev/null
    start_worker --statsd no-such-host.invalid:8125
    until_true has_state 1 done
}

# What came by StatsD, as Prometheus would say it: NAME{TAG="VALUE",…} NUMBER.
statsd_figures() {
    grep -E '^task[.]' packets |
        sed -E 's/duration_seconds:[^|]*[|]h/duration_seconds_count|c/; s/:1[|]c/|c/; s/[|]c([|]#(.*))?$/{\2}/' |
        sed -E 's/([{,])([a-z]+):([a-z_]+)/\1\2="\3"/g; s/[{][}]$//' | tr . _ | sort | uniq -c |
        awk '{print $2, $1}'
}

prometheus_figures() {
    tend stats --prometheus | grep -E '^task_' | grep -Ev '^task_step_duration_seconds_sum| 0$' | sort
}

same_figures() {
    [ "$(statsd_figures | sort)" = "$(prometheus_figures)" ]
}

figure() {
    prometheus_figures | grep -Fxq -- "$1" || { prometheus_figures; echo "missing: $1"; return 1; }
}

# Runs a job that is paused at its retry boundary, and goes on.
run_with_pause() {
    local id
    id=$(tend add --payload "{\"run\": \"touch $PWD/begun; until [ -e $PWD/go ]; do sleep 0.02; done; [ \$TEND_STEP_ATTEMPT = 2 ] || exit 75\"}")
    start_worker
    until_true test -e begun
    tend control "$id" pause >/dev/null
    until_true eval "tend show $id | grep -q 'its worker knows'"
    touch go
    until_true has_state "$id" held
    tend control "$id" resume >/dev/null
    until_true has_state "$id" done
    kill -TERM "$worker"
    ended "$worker"
}

# SH-14: all seven names, and the same figures from both. Symptom: a job paused at a retry counted as exhausted; A/B/A/B
# was no lack of progress.
@test "StatsD and Prometheus have the same figures" {
    start_listener udp
    TEND_STATSD=127.0.0.1:$(head -n 1 packets)
    export TEND_STATSD
    run_with_pause
    tend add --max-attempts 1 --payload '{"run": "sleep 60", "timeout": "100ms", "attempts": 1}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "sleep 60", "idle_timeout": "100ms", "attempts": 1}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "echo class=transient_runtime >> $TEND_OUTPUT; sleep 60", "idle_timeout": "500ms", "attempts": 1}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "echo error: the same >&2; exit 75"}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "echo error: three >&2; exit 75", "step_no_progress_limit": 3, "attempts": 9}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "echo x >> abab; case $(wc -l < abab) in 1|3) echo error: one;; *) echo error: other;; esac >&2; exit 75", "attempts": 9}' >/dev/null
    tend add --payload '{"run": "exit 65"}' >/dev/null
    tend add -- true >/dev/null
    tend work --drain >/dev/null
    until_true same_figures
    figure 'task_self_heal_recovered_total 1'
    figure 'task_self_heal_exhausted_total 6'
    figure 'task_step_idle_timeout_total 2'
    figure 'task_step_wall_timeout_total 1'
    figure 'task_step_no_progress_total 3'
    figure 'task_step_duration_seconds_count{outcome="succeeded"} 2'
    figure 'task_step_duration_seconds_count{outcome="failed"} 16'
    figure 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="recovered"} 1'
    figure 'task_self_heal_attempts_total{class="stuck_no_progress",strategy="none",outcome="exhausted"} 3'
}

# The number of UDP sockets a process has.
udp_sockets() {
    local fd inode count=0
    for fd in /proc/"$1"/fd/*; do
        inode=$(readlink "$fd" | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
        if [ -n "$inode" ] && cat /proc/net/udp /proc/net/udp6 | awk '{print $10}' | grep -qx "$inode"; then
            count=$((count + 1))
        fi
    done
    echo $count
}

has_udp_socket() {
    [ "$(udp_sockets "$worker")" = 1 ]
}

# SH-14
@test "without a StatsD server nothing is sent" {
    start_listener udp
    port=$(head -n 1 packets)
    tend migrate >/dev/null
    start_worker
    [ "$(udp_sockets "$worker")" = 0 ]
    id=$(tend add -- true)
    until_true has_state "$id" done
    kill -TERM "$worker"
    ended "$worker"
    start_worker --statsd "127.0.0.1:$port"
    until_true has_udp_socket # once its name has been looked up
    id=$(tend add -- true)
    until_true has_packet 'task.step.duration_seconds'
    [ "$(grep -c duration_seconds packets)" = 1 ]
}

@test "systemd is told: ready, status, watchdog, stopping; the steps are not in its way" {
    for name in "unix:$PWD/notify" "unix:@tend-test-$$"; do
        start_listener "$name"
        id=$(tend add --payload '{"run": "echo socket=$NOTIFY_SOCKET dog=$WATCHDOG_USEC"}')
        export NOTIFY_SOCKET=${name#unix:} WATCHDOG_USEC=200000
        start_worker
        unset NOTIFY_SOCKET WATCHDOG_USEC
        until_true has_packet READY=1
        until_true has_packet 'STATUS=0 running, 1 done, 0 failed'
        until_true has_packet WATCHDOG=1
        kill -TERM "$worker"
        ended "$worker"
        has_packet STOPPING=1
        run -0 tend logs "$id"
        [ "$output" = 'socket= dog=' ]
        kill "$listener"
    done
}

@test "a watchdog that waits for another process is left alone" {
    tend migrate >/dev/null
    start_listener "unix:$PWD/notify"
    NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=20000 WATCHDOG_PID=1 start_worker
    until_true has_packet READY=1
    id=$(tend add -- sleep 0.2)
    until_true has_state "$id" 'done'
    ! has_packet WATCHDOG=1
}

# --- on a terminal ---

@test "on a terminal each running step has a line, and what ended scrolls above" {
    tend add --payload '{"steps": [{"id": "talk", "title": "Talking",
        "run": "echo progress=40 half way >>$TEND_OUTPUT; printf \"last\\033[31m line\\n\"; sleep 0.5"},
        {"id": "end", "run": "exit 65"}]}' >/dev/null
    TERM=xterm run -0 script -qec "stty cols 100 rows 30; '$TEND' work --drain" /dev/null
    [[ "$output" == *"Talking"*"40%"*"half way"*"last"*"line"* ]]
    [[ "$output" == *"1 running"* ]]
    [[ "$output" == *"job 1 has failed"* ]]
    # The cursor comes back, and the output of a step does not steer the terminal.
    [[ "$output" == *$'\033[?25h'* ]]
    [[ "$output" != *$'last\033[31m'* ]]
}

@test "a terminal that cannot move its cursor gets plain lines" {
    tend add -- true >/dev/null
    TERM=dumb run -0 script -qec "'$TEND' work --drain" /dev/null
    [[ "$output" == *"job 1 is done"* ]]
    [[ "$output" != *$'\033'* ]]
}

# SH-6. Symptom: nothing said that a step waits between two attempts.
@test "a step that pauses says so, and until when; what is wrong with its report can be seen" {
    id=$(tend add --payload '{"run": "echo nonsense >> $TEND_OUTPUT; exit 75", "pause": "50s", "pause_max": "50s"}')
    start_worker
    until_true eval "tend show $id | grep -Eq '^step step-1 waits before attempt 2, which begins in [0-9]+s'"
    grep -Eq 'attempt 2 of 3 follows in [0-9]+s' work.log
    tend show "$id" | grep -q 'attempt 1, step step-1: line 1 of TEND_OUTPUT: neither key=value nor a JSON object'
    tend logs "$id" 2>&1 | grep -q 'warning: line 1 of TEND_OUTPUT'
    run -0 tend show --json "$id"
    json '.attempts[0] | .next_at_ms > .ended_at_ms and .retryable == null and (.warnings | length) == 1'
    kill -TERM "$worker"
    kill -TERM "$worker"
    ended "$worker"
}

# Symptom: 'tend jobs' of a newer tend changed the schema under a worker of an older one, which then called no hooks.
@test "while an older worker runs, no command changes the schema; a worker notices when it was changed, and ends" {
    export TEND_RECOVERY_INTERVAL_MS=200
    tend add -- true >/dev/null
    start_worker --name old-timer
    until_true eval '[ "$(tend jobs --state done --json | jq -s length)" = 1 ]'
    version=$(sqlite3 .tend/tend.db 'PRAGMA user_version')
    sqlite3 .tend/tend.db "PRAGMA user_version = $((version - 1))"
    fails 4 tend jobs
    says "old-timer (pid $worker on "
    says "stop them and run 'tend migrate'"
    fails 4 tend migrate
    sqlite3 .tend/tend.db "PRAGMA user_version = $((version + 1))"
    status=0
    wait "$worker" || status=$?
    [ "$status" = 1 ]
    grep -q 'use a newer tend' work.log
}

# Symptom: a worker for a misspelt queue waited for ever, and said nothing.
@test "a queue that is not there yet is said at the start" {
    tend add -q mail -- true >/dev/null
    run -0 tend work -q mial -q mail -q new --drain
    [[ "$output" == *'there is no queue "mial" yet; did you mean "mail"?'* ]]
    [[ "$output" == *"there is no queue \"new\" yet; 'tend queues' lists them"* ]]
    [[ "$output" != *'no queue "mail"'* ]]
    run -0 tend work --drain
    [[ "$output" != *'no queue'* ]]
}

@test "--drain says which jobs stay because their queue is paused" {
    tend add -q mail -- true >/dev/null
    tend add -q mail -- true >/dev/null
    tend queue set mail --paused on --why 'provider is down' >/dev/null
    run -0 --separate-stderr tend work -q mail --drain
    [ "$stderr" = "tend: work: 2 jobs stay in the queue mail, which is paused: provider is down; 'tend queue set mail --paused off' lets it go on" ]
}

@test "--drain waits for jobs that a rate keeps back, and says so once" {
    for _ in 1 2 3; do
        tend add -q mail -- true >/dev/null
    done
    tend queue set mail --rate 1/2s >/dev/null
    run -0 tend work -q mail --drain
    [[ "$output" == *"--drain waits for the queue mail: job "*" is due. Its queue has used up its rate; the next job is handed out in "* ]]
    [ "$(grep -c -- '--drain waits' <<<"$output")" = 1 ]
    [ "${lines[-1]}" = '3 done, 0 failed, 0 tried again later, 0 held, 0 given back' ]
}
