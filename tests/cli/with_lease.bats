# Commands under a lease: 'tend with-lease' and 'tend claim --exec' (LS-2, LS-3).
load helper
load running

# lease_of_new …: adds a job and claims it; $lease is its lease
lease_of_new() {
    tend add -q q "$@" >/dev/null
    claim -q q
}

# A shell line that starts a child and waits; their ids are in the files shell and child.
nested='echo $$ >shell; sleep 1000 & echo $! >child; wait'

teardown() {
    end_started
    [ ! -s child ] || kill -KILL "$(cat shell)" "$(cat child)" 2>/dev/null || true
}

# start …: the command in the background; $started_pid is its id, $log what it says
start() {
    rm -f shell child
    "$TEND" "$@" >log 2>&1 3>&- &
    started_pid=$!
    started+=("$started_pid")
    until_true test -s child
}

tree_is_gone() {
    is_gone "$(cat shell)" && is_gone "$(cat child)"
}

@test "a command that succeeds completes its job, and has its output for itself" {
    lease_of_new -k greet
    run -0 tend with-lease "$lease" -- sh -c 'echo "$TEND_JOB_ID $TEND_QUEUE $TEND_KIND $TEND_LEASE"; cat' <<<input
    [ "$output" = "$id q greet $lease"$'\n'"input" ]
    [ "$(state_of "$id")" = 'done' ]
}

# A mistyped command failed the job for good, as if the job had named it.
@test "claim --exec: a command that is not there gives the job back" {
    tend add -q q >/dev/null
    tend add -q q >/dev/null
    run -2 --separate-stderr tend claim -q q --exec ./typo
    says 'job 1: given back: the shell cannot start the command: exit 127'
    run -2 --separate-stderr tend claim -q q --exec /dev/null
    says 'job 2: given back: the shell cannot start the command: exit 126'
    for id in 1 2; do
        run -0 tend show "$id" --json
        json '.job.state == "scheduled" and .job.attempts == 0'
    done
}

# Symptom: a command that had its effect and then missed a tool was given back, and had its effect again and again.
@test "claim --exec: a command that misses a tool of its own has failed" {
    tend add -q q >/dev/null
    run -1 tend claim -q q --exec 'echo effect >>effects; no-such-tool'
    [ "$(state_of 1)" = failed ]
    [ "$(wc -l <effects)" = 1 ]
}

@test "claim --exec gives the payload to its command" {
    tend add -q q --payload '{"to": "ann"}' >/dev/null
    run -0 tend claim -q q --exec 'jq -r .to'
    [ "$output" = ann ]
    [ "$(state_of 1)" = 'done' ]
    fails 5 tend claim -q q --exec true
    says 'nothing to claim'
}

@test "what a command prints can be the job's result, without secrets" {
    lease_of_new
    MY_TOKEN=abcdef123456 run -0 tend with-lease "$lease" --result-from-stdout -- \
        sh -c 'echo "{\"said\": \"$MY_TOKEN\", \"n\": 1}"'
    [ -z "$output" ]
    run -0 tend show "$id" --json
    json '.job.result == {"said": "[redacted]", "n": 1}'
    tend add -q q >/dev/null
    run -0 tend claim -q q --result-from-stdout --exec 'echo plain words'
    [ "$(tend show 4 --json | jq -r .job.result)" = 'plain words' ]
}

@test "claim: what goes only with --exec is refused without it, and claims nothing" {
    tend add -q q >/dev/null
    fails 2 tend claim -q q --grace 5s
    fails 2 tend claim -q q --result-from-stdout
    [ "$(state_of 1)" = pending ]
}

@test "SH-15: a command under a lease loses what the payload names from its result" {
    tend add -q q --env-from LICENCE -- true >/dev/null
    LICENCE='plain words' run -0 tend claim -q q --result-from-stdout --exec 'echo "it is $LICENCE"'
    run -0 tend wait 1 --result
    [ "$output" = '"it is [redacted]"' ]
}

# Only a payload that is a plan was looked at.
@test "SH-15: a payload that is not a plan names secrets, too, at any depth" {
    printf 'words of a file\n' >words
    export SEC='top secret words'
    local payload id
    for payload in '{"env":{"A":{"env":"SEC"}}}' '{"to":"x","headers":{"Authorization":{"env":"SEC","prefix":"Bearer "}}}' \
        '[[{"$env":"SEC"}, {"env":"NOT_THERE"}, {"file":"/not/there"}, {"env":5}, {"env":"a b"}]]' \
        "{\"to\":\"x\",\"env\":{\"env\":\"SEC\"},\"key\":{\"\$file\":\"$PWD/words\"}}"; do
        id=$(tend add -q q --payload "$payload")
        tend claim -q q --result-from-stdout --exec 'echo "it is $SEC"'
        run -0 tend wait "$id" --result
        [ "$output" = '"it is [redacted]"' ]
    done
    id=$(tend add -q q --payload "$payload")
    tend claim -q q --result-from-stdout --exec 'echo "it is $(cat words)"'
    run -0 tend wait "$id" --result
    [ "$output" = '"it is [redacted]"' ]
}

# The job was completed without a result, and nobody said so.
@test "what a command prints in another encoding is a result, too" {
    tend add -q q >/dev/null
    run -0 tend claim -q q --result-from-stdout --exec 'printf "caf\351\n"'
    run -0 tend wait 1 --result
    [ "$output" = $'"caf\xef\xbf\xbd"' ]
}

@test "a setting of the redactor that cannot be used is said before the command starts" {
    tend add -q q >/dev/null
    claim -q q
    TEND_REDACT="$(head -c 5000 /dev/zero | tr '\0' x)" fails 2 tend with-lease "$lease" --result-from-stdout -- touch begun
    says TEND_REDACT
    [ ! -e begun ]
}

@test "the exit status says whether the job is tried again, by the classes of steps" {
    lease_of_new
    run -1 tend with-lease "$lease" -- sh -c 'exit 75'
    [[ "$output" == "tend: job $id failed (transient_runtime): exit 75: it asks to be tried again"*"; tried again in "* ]]
    [ "$(state_of "$id")" = scheduled ]
    lease_of_new
    run -1 tend with-lease "$lease" -- sh -c 'exit 77'
    [[ "$output" == *"failed (deterministic_policy)"*"it is not tried again" ]]
    [ "$(state_of "$id")" = failed ]
    lease_of_new
    run -1 tend with-lease "$lease" -- sh -c 'exit 3'
    [ "$(tend show "$id" --json | jq -r .job.error_text)" = 'exit 3' ]
    lease_of_new
    run -1 tend with-lease "$lease" -- sh -c 'kill -SEGV $$'
    [[ "$output" == *"signal 11: it crashed"* ]]
}

# The lease of a shell worker ended while its command still ran, and the job ran twice.
@test "LS-2: the lease is kept for as long as the command runs" {
    tend add -q q >/dev/null
    claim -q q --ttl 2s
    # Four signs of life, each seen in the store.
    run -0 tend with-lease "$lease" -- bash -c '
        until [ "$(sort -u seen 2>/dev/null | wc -l)" -ge 4 ]; do
            "$0" show "$TEND_JOB_ID" --json | jq .job.seen_at_ms >>seen
            sleep 0.1
        done' "$TEND"
    [ "$(state_of "$id")" = 'done' ]
    [ "$(tend events --job "$id" --json | jq -r .what | tr '\n' ' ')" = 'job.added job.claimed job.completed ' ]
}

@test "a command whose job is cancelled is stopped with all it has started" {
    lease_of_new
    start with-lease "$lease" -- sh -c "trap 'echo asked >asked' TERM; $nested"
    tend cancel "$id" --why 'no longer wanted' >/dev/null
    ended "$started_pid"
    [ "$status" = 4 ]
    tree_is_gone
    [ "$(cat asked)" = asked ]
    grep -q '^tend: job [0-9]* was cancelled by .*: no longer wanted; the command was stopped' log
}

@test "a command whose lease is lost is killed with all it has started" {
    lease_of_new
    start with-lease "$lease" -- sh -c "trap '' TERM; $nested"
    tend heal --older-than 0s >/dev/null
    ended "$started_pid"
    [ "$status" = 4 ]
    tree_is_gone
    grep -q 'the lease is lost; the command was killed' log
}

@test "LS-3: a signal is passed on, and the job is given back free of charge" {
    lease_of_new
    start with-lease "$lease" -- sh -c "trap 'echo heard >heard; exit 9' INT; $nested"
    kill -INT "$started_pid"
    ended "$started_pid"
    [ "$status" = 130 ]
    [ "$(cat heard)" = heard ]
    tree_is_gone
    run -0 tend show "$id" --json
    json '.job.state == "pending" and .job.attempts == 0 and .job.crashes == 0'
    grep -q 'given back: its worker was stopped by SIGINT' log
}

@test "a command that does not hear a signal is killed after its grace" {
    lease_of_new
    start with-lease "$lease" --grace 100ms -- sh -c "trap '' TERM; $nested"
    kill -TERM "$started_pid"
    ended "$started_pid"
    [ "$status" = 143 ]
    tree_is_gone
}

@test "a command that ends well although it was stopped has done its job" {
    lease_of_new
    start with-lease "$lease" -- sh -c "trap 'exit 0' TERM; $nested"
    kill -TERM "$started_pid"
    ended "$started_pid"
    [ "$status" = 0 ]
    [ "$(state_of "$id")" = 'done' ]
}

@test "RC-13: when claim --exec is killed, its command ends and the job is free at once" {
    tend add -q q >/dev/null
    start claim -q q --exec "$nested"
    kill -KILL "$started_pid"
    wait "$started_pid" || true
    until_true tree_is_gone
    run --separate-stderr -0 tend claim -q q
    json '.id == 1'
}

@test "a command that cannot be started costs the job nothing" {
    lease_of_new
    run -2 tend with-lease "$lease" -- no-such-command
    [[ "$output" == *"given back: no command 'no-such-command' in PATH"* ]]
    run -0 tend show "$id" --json
    json '.job.state == "scheduled" and .job.attempts == 0'
}

@test "nothing is started under a lease that is not held" {
    lease_of_new
    tend complete "$lease" >/dev/null
    fails 4 tend with-lease "$lease" -- touch started
    says 'has ended: its owner has completed the job'
    [ ! -e started ]
    fails 3 tend with-lease 999:1 -- true
    fails 2 tend with-lease "$lease"
    says 'the command to run'
    fails 2 tend with-lease "$lease" "$lease" -- true
    fails 2 tend claim -q q --exec true -n 2
    says '--exec works on one job'
}

@test "an end that the store could not be told is told to the caller, with what to do" {
    tend add -q q >/dev/null
    claim -q q --ttl 300ms
    fails 69 tend with-lease "$lease" -- mv .tend away
    says "the command has succeeded, but the store could not be told: "
    says "'tend complete $lease' tells it"
}

@test "when with-lease is killed, its command ends with all it has started" {
    lease_of_new
    start with-lease "$lease" -- sh -c "$nested"
    kill -KILL "$started_pid"
    wait "$started_pid" || true
    until_true tree_is_gone
}

# kill_together PID: tend with its helpers, none of which has the time to clean up after another
kill_together() {
    local nursery minder
    nursery=$(pgrep -P "$1")
    minder=$(pgrep -P "$nursery")
    kill -STOP "$1" "$nursery" "$minder"
    kill -KILL "$1" "$nursery" "$minder"
    wait "$1" || true
}

# A shell line that leaves the file beside when the orphan lives; one that nobody has waited for yet does not.
looks='! grep -qs "^State:[[:blank:]]*[^ZX[:blank:]]" /proc/$(cat child)/status || touch beside; touch ran'

# orphan_of ARG…: runs tend under whose lease a process hides as well as it can, and kills tend; its id is in the file child
orphan_of() {
    start "$@" "env -i setsid /bin/sh -c 'echo \$\$ >shell; echo \$\$ >child; exec sleep 1000' & sleep 1000"
    kill_together "$started_pid"
    ! is_gone "$(cat child)"
}

# Symptom: the next run of the job went on beside what the first had left.
@test "RC-14: what is left of a command under a lease is gone before the job runs again" {
    tend add -q q >/dev/null
    orphan_of claim -q q --exec
    until_true tend claim -q q --exec "$looks"
    [ -e ran ]
    [ ! -e beside ]
}

# works_on ID: whether the job is done once a worker has drained its queue
works_on() {
    tend work -q q --drain >/dev/null 2>&1
    [ "$(state_of "$1")" = 'done' ]
}

@test "RC-14: 'tend work' ends what is left of a command under a lease, too" {
    tend add -q q -- sh -c "$looks" >/dev/null
    claim -q q --ttl 500ms
    orphan_of with-lease "$lease" -- sh -c
    until_true works_on "$id"
    [ -e ran ]
    [ ! -e beside ]
}

@test "RC-14: what a worker has left of a step is gone before a command under a lease runs" {
    tend add -q q -- sh -c "env -i setsid /bin/sh -c 'echo \$\$ >shell; echo \$\$ >child; exec sleep 1000' & sleep 1000" >/dev/null
    start work -q q
    kill_together "$started_pid"
    ! is_gone "$(cat child)"
    until_true tend claim -q q --exec "$looks"
    [ ! -e beside ]
}

# end_by_hand COMMAND…: what with-lease left of a job, which this ends by hand, is gone before the job runs again
end_by_hand() {
    rm -f ran child shell
    tend add -q q >/dev/null
    claim -q q
    orphan_of with-lease "$lease" -- sh -c
    tend "$@" "$lease"
    tend claim -q q --exec "$looks"
    [ -e ran ]
    [ ! -e beside ]
}

# Symptom: it ran beside the next run of the job.
@test "RC-14: what is left of a command is gone also when its lease was ended by hand" {
    end_by_hand release
    end_by_hand fail --retry-in 0s
}

# in_copy …: tend in a copy of the store as it was while its jobs ran
in_copy() {
    (cd copy && timeout 60 "$TEND" "$@") >>copy.log 2>&1 3>&-
}

# copy_says COUNT: so often it was said that an earlier run lives
copy_says() {
    [ "$(grep -c 'has not ended yet: its worker lives' copy.log)" -ge "$1" ]
}

# Symptom: signal 9 for production. Attempts and leases have the same names in both stores.
@test "a run on a copy of a store leaves the processes of the original alone" {
    tend add -q a --lease 2s -- sh -c "echo \$\$ >$PWD/step; exec sleep 1000" >/dev/null
    tend add -q b --lease 2s >/dev/null
    start_worker -q a
    start claim -q b --exec "$nested"
    until_true test -s step
    mkdir copy
    cp -r .tend copy/.tend
    rm -rf copy/.tend/run
    sleep 2.5
    in_copy claim -q b --wait 10s --exec true || true
    in_copy work -q a --drain || true
    cat copy.log
    copy_says 2
    run ! grep -q 'ended .* process' copy.log
    kill -0 "$(cat step)"
    kill -0 "$(cat child)"
}

# Symptom: three calls without descriptors left their leases to expire, and healthy work was quarantined.
@test "BY-9: what tend lacks to start a command costs the job nothing" {
    local descriptors lacking=0
    for descriptors in {8..30}; do
        tend add -q "q$descriptors" >/dev/null
        claim -q "q$descriptors"
        (ulimit -n "$descriptors" && exec "$TEND" with-lease "$lease" --result-from-stdout -- true) >log 2>&1 && continue
        ! grep -qE '^tend: (no event descriptor|opening the store|.* cannot be opened)' log || continue
        lacking=$((lacking + 1))
        run -0 tend show "$id" --json
        json '.job.state == "scheduled" and .job.attempts == 0 and .job.crashes == 0'
    done
    [ "$lacking" -gt 1 ]
}

# Symptom: nobody could write for longer than the lease; the command had succeeded, and ran again.
@test "BY-9: an end is told for as long as nobody can write, however short the lease" {
    tend add -q q >/dev/null
    claim -q q --ttl 3s
    "$TEND" with-lease "$lease" -- sh -c 'touch runs; until test -e locked; do sleep 0.02; done' >log 2>&1 3>&- &
    started_pid=$!
    started+=("$started_pid")
    until_true test -e runs
    # Longer than a call waits for the store, too.
    sqlite3 .tend/tend.db 'PRAGMA busy_timeout = 5000' 'BEGIN IMMEDIATE' '.shell touch locked; sleep 32' 'COMMIT' >/dev/null 3>&-
    ended "$started_pid"
    [ "$status" = 0 ]
    [ "$(state_of "$id")" = 'done' ]
    [ "$(tend show "$id" --json | jq .job.crashes)" = 0 ]
}

# codes ENDING: the exit codes with this ending in the table of docs/steps.md
codes() {
    sed -n "s/^| \([0-9, ]*\) | .* | $1 |\$/\1/p" "$TEND_SOURCE/docs/steps.md" | tr -d ,
}

# Symptom: README, queue.md, steps.md and the help had lists of their own, each another.
@test "exit codes end a job as docs/steps.md says" {
    [ "$(codes 'fails for good' | wc -w)" = 11 ]
    for code in $(codes 'fails for good') $(codes 'is tried again') 1; do
        tend add >/dev/null
        claim
        run -1 tend with-lease "$lease" -- sh -c "exit $code"
        state=$(state_of "$id")
        case " $(codes 'fails for good' | tr '\n' ' ') " in
        *" $code "*) [ "$state" = failed ] ;;
        *) [ "$state" = scheduled ] ;;
        esac || { echo "exit $code: $state"; return 1; }
    done
}
