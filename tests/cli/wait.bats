# tend wait and tend add --wait: the exit status says whether the job is done.
load helper
load running
load terminal

# failing: a plan that ends the job at once
failing='{"run": "exit 65"}'

@test "wait exits with 0 when all are done, and prints nothing" {
    tend add -- true >/dev/null
    tend add -- true >/dev/null
    tend work --drain >/dev/null
    run -0 --separate-stderr tend wait 1 2
    [ -z "$output" ] && [ -z "$stderr" ]
}

@test "wait exits with 1 when one has failed or was cancelled, and says which" {
    tend add -- true >/dev/null
    tend add --payload "$failing" >/dev/null
    tend work --drain >/dev/null
    tend add >/dev/null
    id=$(tend jobs -n 1 --json | jq .id)
    tend cancel "$id" --why 'not needed' >/dev/null
    run -1 --separate-stderr tend wait 1 2 "$id"
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" = 2 ]
    [[ "${stderr_lines[0]}" == "tend: job 2 has failed, deterministic_contract: "*"exit 65" ]]
    [[ "${stderr_lines[1]}" == "tend: job $id was cancelled: not needed" ]]
}

@test "wait prints the results in the order of the ids, null where there is none" {
    tend add -k double --payload '{"n": 21}' >/dev/null
    tend add -- true >/dev/null
    tend add -k double --payload '{"n": 1}' >/dev/null
    tend work --drain --handler 'double=jq -c "{twice: (.n * 2)}"' >/dev/null
    run -0 tend wait 3 2 1 --result
    [ "$output" = $'{"twice":2}\nnull\n{"twice":42}' ]
    run -0 tend wait 1 --result
    [ "$output" = '{"twice":42}' ]
}

@test "wait with --json is an object per job" {
    tend add -k double --payload '{"n": 21}' >/dev/null
    tend add --payload "$failing" >/dev/null
    tend work --drain --handler 'double=jq -c "{twice: (.n * 2)}"' >/dev/null
    run -1 --separate-stderr tend wait 1 2 --json
    [ -z "$stderr" ]
    [ "$(jq -c . <<<"${lines[0]}")" = '{"id":1,"state":"done","error_class":null,"error_text":null,"result":{"twice":42}}' ]
    output=${lines[1]}
    json '.id == 2 and .state == "failed" and .error_class == "deterministic_contract" and .result == null'
}

# Symptom: a cancelled job had the error of an earlier life, and not why it was cancelled.
@test "an error from before a retry is told as such, or not at all" {
    tend add --payload "$failing" >/dev/null
    tend work --drain >/dev/null
    tend show 1 | grep -Eq '^  error class +deterministic_contract$'
    tend retry 1 >/dev/null
    tend show 1 | grep -Eq '^  last error +before the retry: deterministic_contract: .*exit 65$'
    run ! grep -E '^  error' <(tend show 1)
    tend cancel 1 --why 'not needed' >/dev/null
    run -1 tend wait 1 --json
    [ "$(jq -c . <<<"$output")" = '{"id":1,"state":"cancelled","error_class":null,"error_text":null,"why":"not needed","result":null}' ]
    tend show 1 | grep -Eq '^  last error +before the retry: '
}

@test "a job that is cancelled after a failure keeps its error, beside the reason" {
    tend add >/dev/null
    claim
    tend fail "$lease" --text 'server said 503' >/dev/null
    tend cancel 1 >/dev/null
    run -1 tend wait 1 --json
    json '.error_text == "server said 503" and .why == null and has("why")'
}

# Symptom: wait was silent about a job that is due in an hour.
@test "of a job that is due later, wait says when, once" {
    tend add --in 1h -- true >/dev/null
    "$TEND" wait 1 --timeout 7s >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    ended "$waiter"
    [ "$status" = 5 ]
    [ "$(grep -Ec '^tend: wait: job 1 is due in (1h|59m ?59s|59m)$' said)" = 1 ]
}

@test "wait sleeps until the job has ended, also after it is tried again" {
    tend add --max-attempts 2 --backoff 0s -k flaky >/dev/null
    "$TEND" wait 1 --result >result 2>notes 3>&- &
    waiter=$!
    started+=("$waiter")
    start_worker --handler 'flaky=[ -e been ] || { touch been; exit 75; }; echo "\"second\""'
    ended "$waiter"
    [ "$status" = 0 ]
    [ "$(cat result)" = '"second"' ]
}

# Symptom: a job that failed again and again was waited for without a word.
@test "each failure after which a job is tried again is told once" {
    tend add >/dev/null
    claim
    "$TEND" wait 1 >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true catches "$waiter"
    tend fail "$lease" --text 'exit 1.' --retry-in 600s >/dev/null
    until_true grep -q failed said
    tend hold 1 >/dev/null
    tend resume 1 >/dev/null
    tend cancel 1 >/dev/null
    ended "$waiter"
    grep -Eqx "tend: wait: job 1 failed \(exit 1\); it is tried again in (10m|9m ?59s|599s|600s)" said
    [ "$(grep -c failed said)" = 1 ]
}

@test "wait for a job of a script that completes it" {
    tend add >/dev/null
    claim
    "$TEND" wait 1 >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    tend complete "$lease" >/dev/null
    ended "$waiter"
    [ "$status" = 0 ]
}

@test "wait gives up after --timeout with exit status 5" {
    tend add >/dev/null
    fails 5 tend wait 1 --timeout 50ms
    says 'wait: job 1 is still pending after 50ms'
    tend add >/dev/null
    tend claim >/dev/null
    fails 5 tend wait 1 2 --timeout 0
    says 'wait: 2 of 2 jobs have not ended: 1 running, 2 pending'
    tend cancel 1 >/dev/null
    fails 5 tend wait 1 2 --timeout 1ms
    says 'wait: 1 of 2 jobs has not ended within 1ms: 2 pending'
    run -5 --separate-stderr tend wait 2 --timeout 1ms --json
    output=$stderr
    json '.error.code == "EEMPTY" and .error.exit == 5'
}

@test "an id that is given twice is one job" {
    tend add >/dev/null
    tend add >/dev/null
    fails 5 tend wait 1 2 1 --timeout 0
    says 'wait: 2 of 2 jobs have not ended: 1 pending, 2 pending'
    fails 5 tend wait 1 1 --timeout 0
    says 'wait: job 1 is pending'
}

@test "wait for a job that is not there is exit status 3" {
    tend add >/dev/null
    fails 3 tend wait 7
    says "wait: there is no job 7; 'tend jobs' lists those that are"
    fails 3 tend wait 1 7 --timeout 1h
    fails 2 tend wait
    fails 2 tend wait x
    fails 3 tend wait 1 --store missing.db
}

@test "a held job is waited for, which is said once" {
    tend add -- true >/dev/null
    tend hold 1 >/dev/null
    "$TEND" wait 1 >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -q held said
    tend resume 1 >/dev/null
    tend work --drain >/dev/null
    ended "$waiter"
    [ "$status" = 0 ]
    [ "$(cat said)" = "tend: wait: job 1 is held and waited for; 'tend resume 1' lets it go on" ]
}

@test "a job that was deleted counts as it ended" {
    tend queue set default --keep-done 1ms --keep-failed 1ms >/dev/null
    good=$(tend add -- true)
    bad=$(tend add --payload "$failing")
    tend work --drain >/dev/null
    is_deleted() {
        tend purge >/dev/null
        [ -z "$(tend jobs --json)" ]
    }
    until_true is_deleted
    run -0 --separate-stderr tend wait "$good"
    [ "$stderr" = "tend: wait: job $good was done and then deleted; its result is gone" ]
    run -3 --separate-stderr tend wait "$good" --result
    run -1 --separate-stderr tend wait "$good" "$bad"
    [[ "$stderr" == *"tend: wait: job $bad has failed and was then deleted" ]]
    run -0 tend wait "$good" --json
    json '.state == "done" and .deleted and .result == null'
}

@test "a signal ends the wait and leaves the job alone" {
    tend add >/dev/null
    for signal in INT TERM; do
        (trap - INT; exec "$TEND" wait 1) >said 2>&1 3>&- &
        waiter=$!
        started+=("$waiter")
        until_true catches "$waiter"
        kill -"$signal" "$waiter"
        ended "$waiter"
        [ "$status" = $((128 + $(kill -l "$signal"))) ]
        [ ! -s said ]
    done
    [ "$(state_of 1)" = pending ]
}

# catches PID: it catches SIGINT (bit 2 of the mask), so its wait has begun
catches() {
    local mask
    mask=$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status")
    [ $((0x$mask & 2)) != 0 ]
}

@test "on a terminal a line shows what is waited for" {
    tend add >/dev/null
    tend add >/dev/null
    tend claim >/dev/null
    run on_terminal 80 "$TEND wait 1 2 --timeout 50ms"
    [[ "$output" == *'waiting for 2 of 2 jobs: 1 running, 2 pending'* ]]
    run on_terminal 40 "$TEND wait 1 2 --timeout 50ms"
    [[ "$output" == *'waiting for 2 of 2 jobs: 1 running, 2'* && "$output" != *'2 p'*'tend:'*'waiting'* ]]
    run on_terminal 80 "$TEND wait 1 2 --timeout 50ms --json"
    [[ "$output" != *waiting* ]]
}

# Symptom: without a worker the wait was silent for ever.
@test "after a second it is said once that no worker is there" {
    tend add -q mail -- true >/dev/null
    run -5 --separate-stderr tend wait 1 --timeout 2500ms
    [ "${#stderr_lines[@]}" = 2 ]
    [ "${stderr_lines[0]}" = "tend: wait: job 1 waits: no worker is there for queue \"mail\"; 'tend work -q mail' in another terminal runs it" ]
    run -5 --separate-stderr tend add -k send --wait --timeout 1500ms
    [[ "${stderr_lines[0]}" == *'no worker is there for queue "default"'*"'tend claim -q default' takes it, or 'tend work -q default --handler send=COMMAND' runs it" ]]
    run -5 --separate-stderr tend wait 1 --timeout 1500ms --json
    [ "${#stderr_lines[@]}" = 1 ]
}

# Symptom: "…Stop.; 'tend logs 1' shows its output", also of a job without any.
@test "logs are named where there are any, behind no full stop" {
    tend add --payload '{"run": "echo make: Stop.; exit 65"}' >/dev/null
    tend work --drain >/dev/null
    run -1 --separate-stderr tend wait 1
    [[ "$stderr" == *"make: Stop; 'tend logs 1' shows its output" ]]
    id=$(tend add -q hand)
    claim -q hand
    tend fail "$lease" --final --text 'It is wrong.' >/dev/null
    run -1 --separate-stderr tend wait "$id"
    [[ "$stderr" == *": It is wrong" ]]
}

# --- add --wait ---

@test "add --wait ends as the job does, and prints its id first" {
    tend migrate >/dev/null
    start_worker
    run -0 --separate-stderr tend add --wait -- true
    [ "$(state_of "$output")" = 'done' ] && [ -z "$stderr" ]
    run -1 --separate-stderr tend add --wait --payload "$failing"
    id=$output
    [[ "$stderr" == "tend: job $id has failed, deterministic_contract: "* ]]
    run -0 --separate-stderr tend add --wait --json -- true
    [ "${#lines[@]}" = 2 ]
    [ "$(jq -c '[.outcome, .state]' <<<"$output" | tr '\n' ' ')" = '["added",null] [null,"done"] ' ]
}

@test "add --wait --result prints the result alone" {
    tend migrate >/dev/null
    start_worker --handler 'double=jq -c "{twice: (.n * 2)}"'
    run -0 --separate-stderr tend add --wait --result -k double --payload '{"n": 4}'
    [ "$output" = '{"twice":8}' ] && [ -z "$stderr" ]
}

@test "add --wait gives up after --timeout, and the job stays" {
    tend migrate >/dev/null
    run -5 --separate-stderr tend add --wait --timeout 50ms
    [ "$output" = 1 ]
    [ "$stderr" = 'tend: add: job 1 is still pending after 50ms' ]
    [ "$(state_of 1)" = pending ]
}

@test "add --wait: ^C leaves the job alone and says its id" {
    tend migrate >/dev/null
    (trap - INT; exec "$TEND" add --wait) >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -qx 1 said
    until_true catches "$waiter"
    kill -INT "$waiter"
    ended "$waiter"
    [ "$status" = 130 ]
    [ "$(sed 1d said)" = "tend: add: job 1 goes on without you; 'tend wait 1' waits for it again" ]
    [ "$(state_of 1)" = pending ]
}

@test "add --wait: what does not fit is refused before anything is added" {
    fails 2 tend add --result
    says 'add: --result is about waiting; give --wait too'
    fails 2 tend add --timeout 1s
    says 'add: --timeout is about waiting'
    fails 2 tend add --wait --batch -
    says "'tend wait ID…' waits for those of a batch"
    [ ! -e .tend ]
    tend add --unique k --subject a >/dev/null
    fails 4 tend add --unique k --subject b --wait
}

# The exit status was that of the job that was running, while what was submitted failed a second later.
@test "add --wait under the key of a running job exits as what was submitted does" {
    tend add --unique k >/dev/null
    claim
    "$TEND" add --unique k --wait --payload "$failing" >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -qx 1 said
    tend complete "$lease" >/dev/null
    until_true grep -q 'what was submitted is job' said
    follower=$(tend jobs -n 1 --json | jq .id)
    grep -qx "tend: add: job 1 is done; what was submitted is job $follower and waited for" said
    tend work --drain >/dev/null
    ended "$waiter"
    [ "$status" = 1 ]
    grep -q "^tend: job $follower has failed, deterministic_contract: " said
}

@test "add --wait under the key of a running job that is tried again ends with this job" {
    tend add --unique k >/dev/null
    claim
    "$TEND" add --unique k --wait --json --payload "$failing" >said 2>notes 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -q again said
    tend release "$lease" >/dev/null
    claim
    tend add --unique k >/dev/null # a submission of somebody else, which becomes another job
    tend complete "$lease" --result 7 >/dev/null
    ended "$waiter"
    [ "$status" = 0 ]
    [ "$(jq -sc 'map([.id, .outcome, .result])' said)" = '[[1,"again",null],[1,null,7]]' ]
}

@test "add --wait: --timeout is for the running job and for what follows it" {
    tend add --unique k >/dev/null
    claim
    tend add --unique k --payload 2 >/dev/null
    "$TEND" add --unique k --wait --timeout 3s >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -qx 1 said
    tend complete "$lease" >/dev/null
    ended "$waiter"
    [ "$status" = 5 ]
    grep -q "^tend: add: job [0-9]* is still pending after 3s$" said
}

@test "add --wait --if-running keep says whose result it is" {
    tend add --unique k >/dev/null
    claim
    "$TEND" add --unique k --if-running keep --wait >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -q 'not of what was submitted' said
    tend complete "$lease" >/dev/null
    ended "$waiter"
    [ "$status" = 0 ]
}
