# tend logs.
load helper
load running

run_all() {
    "$TEND" work --drain "$@" >work.log 2>&1
}

@test "standard output goes to standard output, and standard error to standard error" {
    id=$(tend add -- sh -c 'echo out; echo err >&2; printf "no end"')
    run_all
    run --separate-stderr -0 tend logs "$id"
    [ "$output" = $'out\nno end' ]
    [ "$stderr" = err ]
}

@test "attempts and steps can be chosen, and are told apart" {
    id=$(tend add --max-attempts 1 --payload '{"steps": [{"id": "a", "run": "echo from a"},
        {"id": "b", "run": "echo from b $TEND_STEP_ATTEMPT; [ $TEND_STEP_ATTEMPT = 2 ] || exit 75"}]}')
    run_all
    run -0 tend logs "$id"
    [ "$output" = $'from a\nfrom b 1\nfrom b 2' ]
    run -0 tend logs "$id" --step b
    [ "$output" = $'from b 1\nfrom b 2' ]
    run -0 tend logs "$id" --attempt 2
    [ "$output" = 'from b 1' ]
    run -0 tend logs "$id" --attempt 3 --step a
    [[ "$output" == *"has no output"* ]]
    run --separate-stderr -0 tend logs "$id" -v
    [ "${#stderr_lines[@]}" = 3 ]
    [[ "${stderr_lines[2]}" == '== 3: step b, attempt 2 (soft_reset), '*', succeeded' ]]
    run -0 tend logs "$id" --json
    [ "$(jq -c '[.number, .step_id, .attempt, .stream, .text]' <<<"$output" | tail -n 1)" = \
        '[3,"b",2,"stdout","from b 2\n"]' ]
}

@test "each line behind its time" {
    id=$(tend add -- sh -c 'echo one; echo two')
    run_all
    run -0 tend logs "$id" --timestamps
    [ "${#lines[@]}" = 2 ]
    [[ "${lines[1]}" =~ ^2[0-9-]+T[0-9:.]+Z\ two$ ]]
}

@test "no such job, attempt or step; no output" {
    tend add -- true >/dev/null
    fails 3 tend logs 99
    fails 3 tend logs 1 --attempt 4
    says "no attempt 4"
    fails 3 tend logs 1 --step nothing
    says "no step nothing"
    fails 2 tend logs x
    fails 2 tend logs
    fails 2 tend logs 1 --attempt 0
    fails 0 tend logs 1
    says "has no output"
}

# SH-16
@test "with -f lines are shown while the step still runs, and it ends with the job" {
    id=$(tend add --payload "$(jq -n --arg run "echo early; $(gated one)" '{$run}')")
    start_worker
    "$TEND" logs -f "$id" >followed 2>&1 3>&- &
    follower=$!
    started+=("$follower")
    until_true grep -q early followed
    [ "$(state_of "$id")" = running ]
    touch gate
    ended "$follower"
    [ "$status" = 0 ]
    [ "$(cat followed)" = $'early\none is through' ]
}

# It was mute for as long as the job waited.
@test "-f says that the job waits for its retry and until when, and goes on" {
    id=$(tend add --backoff 1h --payload '{"run": "echo early; [ -e go ] || exit 75", "attempts": 1}')
    start_worker
    "$TEND" logs -f "$id" >followed 2>said 3>&- &
    follower=$!
    started+=("$follower")
    until_true grep -q "job $id waits for its retry, which comes in .*, after: step step-1, attempt 1 of 1: exit 75" said
    touch go
    tend control "$id" retry_step >/dev/null
    ended "$follower"
    [ "$status" = 0 ]
    [ "$(cat followed)" = $'early\nearly' ]
    [ "$(wc -l <said)" = 1 ]
}

@test "-f says that the job is held" {
    id=$(tend add -- true)
    tend hold "$id" --why 'let me look' >/dev/null
    "$TEND" logs -f "$id" 2>said 3>&- &
    follower=$!
    started+=("$follower")
    until_true grep -q "job $id is held: let me look" said
    tend cancel "$id" >/dev/null
    ended "$follower"
    [ "$status" = 0 ]
}

@test "-f of one attempt ends with it, and of a finished job at once" {
    id=$(tend add --max-attempts 1 --payload "$(jq -n --arg run "$(gated one)" \
        '{steps: [{id: "a", run: "echo a"}, {id: "b", $run}]}')")
    start_worker
    until_true test -s one.pid
    run -0 tend logs -f "$id" --attempt 1
    [ "$output" = a ]
    touch gate
    until_true has_state "$id" 'done'
    run -0 tend logs -f "$id"
    [ "$output" = $'a\none is through' ]
}

@test "-f is ended by a signal with 128 + its number" {
    id=$(tend add --payload "$(jq -n --arg run "echo early; $(gated one)" '{$run}')")
    start_worker
    "$TEND" logs -f "$id" >followed 3>&- &
    follower=$!
    started+=("$follower")
    until_true grep -q early followed
    kill -TERM "$follower"
    ended "$follower"
    [ "$status" = 143 ]
}

# It stayed until the step wrote something else.
@test "-f ends when its reader has gone" {
    id=$(tend add --payload "$(jq -n --arg run "echo early; $(gated one)" '{$run}')")
    start_worker
    run -141 timeout 30 bash -c 'set -o pipefail; "$0" logs -f "$1" | head -n 1' "$TEND" "$id"
    [ "$output" = early ]
    [ "$(state_of "$id")" = running ]
}

# SH-15, SH-16
@test "secrets are not shown, and the middle of very long output is left out" {
    id=$(API_TOKEN=s3cr3t-value-123 tend add --payload '{"env": {"API_TOKEN": "s3cr3t-value-123"},
        "run": "echo token is $API_TOKEN; seq 400000; echo the end"}')
    run_all
    run -0 tend logs "$id"
    [[ "$output" != *s3cr3t* ]]
    [[ "${lines[0]}" == "token is "* ]]
    [ "${lines[-1]}" = 'the end' ]
    grep -q 'left out …]' <<<"$output"
    [ "${#lines[@]}" -lt 400000 ]
}

@test "on a terminal colours of the output stay, and nothing else steers it" {
    id=$(tend add -- printf '\033[31mred\033[0m \033[2Jcleared\r\n\001\n')
    run_all
    run -0 script -qec "'$TEND' logs $id" /dev/null
    [[ "$output" == *$'\033[31mred\033[0m ^[[2Jcleared'* ]]
    [[ "$output" == *'^A'* ]]
    [[ "$output" == *"== 1: step step-1, attempt 1"* ]]
    run -0 script -qec "'$TEND' --no-color logs $id" /dev/null
    [[ "$output" == *'red ^[[2Jcleared'* ]]
}
