# What a worker in a script does: claim, start, heartbeat, phase, complete, fail, release.
load helper

@test "claim prints a line of JSON with lease and payload" {
    tend add -q mail -k welcome --payload '{"to": "ann"}' >/dev/null
    run -0 tend claim -q mail -w me
    [ "${#lines[@]}" = 1 ]
    json '.id == 1 and .lease == "\(.id):\(.token)" and .payload.to == "ann" and .kind == "welcome"'
    json '.state == "running" and .owner == "me" and .until_ms > .seen_at_ms'
}

# CL-4
@test "several are claimed at once, most urgent first" {
    for priority in 5 1 9 0; do tend add -p "$priority" >/dev/null; done
    run -0 tend claim -n 3
    [ "$(jq .priority <<<"$output" | tr '\n' ' ')" = '0 1 5 ' ]
}

@test "the lease lasts as long as --ttl says" {
    tend add >/dev/null
    run -0 tend claim --ttl 10m
    json '.until_ms - .seen_at_ms == 600000'
}

# CL-2
@test "nothing to claim is exit status 5, and the answer says why: empty" {
    tend migrate >/dev/null
    tend queue set mail --lease 1m >/dev/null
    fails 5 tend claim -q mail
    says 'queue "mail": it is empty'
    run --separate-stderr -5 tend claim -q mail --json
    output=$stderr
    json '.error.code == "EEMPTY" and .error.exit == 5 and .error.until_ms == null and .error.reason == "empty"'
}

# "it is empty" was all that was said.
@test "nothing to claim: the next job is due later, some run, some are held" {
    tend add --in 2h >/dev/null
    fails 5 tend claim
    [[ "$stderr" =~ 'queue "default": the next job is due in '(2h|1h) ]]
    run --separate-stderr -5 tend claim --json
    output=$stderr
    json '.error.reason == "scheduled" and .error.until_ms > 0'
    tend add -q mail >/dev/null
    tend claim -q mail >/dev/null
    fails 5 tend claim -q mail
    says 'queue "mail": 1 job is running'
    run --separate-stderr -5 tend claim -q mail --json
    output=$stderr
    json '.error.reason == "running" and .error.until_ms == null'
    tend add -q mail --in 2h >/dev/null
    id=$(tend add -q mail)
    tend hold "$id" >/dev/null
    fails 5 tend claim -q mail
    [[ "$stderr" =~ 'queue "mail": the next job is due in '(2h|1h 59m)', and 1 job is running; some jobs are held: '"'tend jobs -q mail -s held'"$ ]]
    id=$(tend add -q bulk)
    tend hold "$id" >/dev/null
    fails 5 tend claim -q bulk
    says "queue \"bulk\": it is empty; some jobs are held: 'tend jobs -q bulk -s held'"
}

@test "nothing to claim: there is no such queue, and which may be meant" {
    tend add -q mail >/dev/null
    fails 5 tend claim -q mial
    says 'claim: there is no queue "mial"; did you mean "mail"?'
    run --separate-stderr -5 tend claim -q mial --json
    output=$stderr
    json '.error.reason == "unknown_queue" and .error.code == "EEMPTY"'
}

@test "nothing to claim: paused, with the reason" {
    tend add >/dev/null
    tend queue set default --paused on --why 'provider is down' >/dev/null
    fails 5 tend claim
    says "paused: provider is down; 'tend queue set default --paused off'"
    run --separate-stderr -5 tend claim --json
    output=$stderr
    json '.error.code == "EPAUSED" and .error.reason == "paused" and .error.by == null and .error.why == "provider is down"'
}

@test "nothing to claim: a limit is reached, and which" {
    tend add >/dev/null
    tend add >/dev/null
    tend queue set default --concurrency 1 >/dev/null
    tend claim >/dev/null
    fails 5 tend claim
    says 'concurrency limit is reached; the next may start when one ends; the first lease ends in '
    [[ "$stderr" == *' unless it is renewed' ]]
    tend queue set default --concurrency none --rate 1/1h >/dev/null
    tend claim >/dev/null
    tend add >/dev/null
    run --separate-stderr -5 tend claim --json
    output=$stderr
    json '.error.code == "ELIMITED" and .error.reason == "limited" and .error.what == "rate" and .error.until_ms > 0'
    fails 5 tend claim
    says 'rate limit is reached; the next may start in '
    [[ "$stderr" =~ "may start in "(1h|59m) ]]
}

@test "nothing to claim: busy, held by whom" {
    tend add >/dev/null
    tend add >/dev/null
    tend queue set default --serial on >/dev/null
    tend claim -w ann >/dev/null
    run --separate-stderr -5 tend claim -w bob --json
    output=$stderr
    json '.error.code == "EBUSY" and .error.by == "ann" and .error.until_ms > 0'
    fails 5 tend claim -w bob
    says 'held by ann and expires in '
    [[ "$stderr" == *' unless it is renewed' ]]
}

@test "claim does not make a store" {
    fails 3 tend claim
    says 'there is no store here (.tend/tend.db)'
    [ ! -e .tend ]
}

@test "claim waits for a job, and for so long only" {
    tend migrate >/dev/null
    fails 5 tend claim --wait=50ms
    "$TEND" claim --wait >claimed 3>&- &
    until_true tend add
    wait $!
    [ "$(jq .id claimed)" = 1 ]
}

@test "a waiting claim ends by a signal with 128 + its number" {
    tend migrate >/dev/null
    "$TEND" claim --wait 3>&- &
    waiter=$!
    until_true grep -qx tend "/proc/$waiter/comm" # before, it is the shell that gets the signal
    kill -TERM $waiter
    status=0
    wait $waiter || status=$?
    [ "$status" = 143 ]
}

@test "a lease tied to a process ends with it" {
    tend add >/dev/null
    sleep 1000 3>&- &
    holder=$!
    claim --while-pid $holder
    fails 5 tend claim
    kill -KILL $holder
    wait $holder || true
    run --separate-stderr -0 tend claim
    json '.id == 1'
    # RC-7: nothing is recovered silently.
    [[ "$stderr" == *"job 1 recovered"* ]]
    fails 4 tend complete "$lease"
}

has_worker() {
    [ "$("$TEND" workers --json | jq -r .name)" = bob ]
}

@test "a claim that waits for a process ends with it, and takes nothing for the dead" {
    tend migrate >/dev/null
    sleep 1000 3>&- &
    holder=$!
    "$TEND" claim -w bob --while-pid $holder --wait 2>said 3>&- &
    waiter=$!
    until_true has_worker
    kill -KILL $holder
    wait $holder || true
    status=0
    wait $waiter || status=$?
    [ "$status" = 4 ] || { cat said; false; }
    grep -q "process $holder has ended; nothing was claimed for it" said
    tend add >/dev/null
    claim
}

# It was answered "1 extended", although the next claim got the job.
@test "a lease whose process has ended is not extended" {
    tend add >/dev/null
    sleep 1000 3>&- &
    holder=$!
    lease=$(tend claim -w bob --while-pid $holder | jq -r .lease)
    tend heartbeat "$lease"
    kill -KILL $holder
    wait $holder || true
    run --separate-stderr -4 tend heartbeat "$lease"
    [[ "$stderr" == *"$lease is no longer held"* ]]
}

# It was answered "1 completed", and the result was dropped.
@test "completing again with another result is refused and says what stands" {
    tend add >/dev/null
    claim
    tend complete "$lease" --result 1
    run -0 tend complete "$lease" --result 1
    run --separate-stderr -4 tend complete "$lease" --result 2
    [[ "$stderr" == *"job 1 is done with another result, which stays"* ]]
    run --separate-stderr -4 tend complete "$lease" --result 2 --json
    json '.leases[0].code == "ECONFLICT"'
    run -0 tend show 1 --json
    json ".job.result == 1"
}

# The lease of ten minutes became one of 60 s.
@test "a heartbeat without --ttl keeps the length of the lease" {
    tend add >/dev/null
    claim --ttl 10m
    tend heartbeat "$lease" >/dev/null
    [ "$(sqlite3 .tend/tend.db "SELECT alarm_at - seen_at FROM job WHERE id = 1")" = 600000 ]
}

@test "heartbeat keeps leases and names those that are lost" {
    tend add >/dev/null
    tend add >/dev/null
    claim
    first=$lease
    claim
    run -0 tend heartbeat "$first" "$lease" --ttl 10m
    [ "$output" = $'1 extended\n2 extended' ]
    tend cancel 1 >/dev/null
    run --separate-stderr -4 tend heartbeat "$first" "$lease"
    [ "$output" = '2 extended' ]
    [[ "$stderr" == *"the lease $first is no longer held"* ]]
    run --separate-stderr -4 tend heartbeat "$first" "$lease" --json
    json '[.leases[].ok] == [false, true] and .leases[0].code == "ELEASELOST"'
    output=$stderr
    json '.error.code == "ELEASELOST" and .error.exit == 4'
    json '.error.message | startswith("heartbeat: 1 of 2 leases is refused because: ")'
    run --separate-stderr -4 tend heartbeat "$first" --json
    output=$stderr
    json '.error.message | startswith("heartbeat: 1 of 1 lease is refused because: ")'
}

# SH-12
@test "heartbeat tells what is asked of a job until it is answered" {
    tend add --payload '{"steps": [{"id": "build", "run": "make"}, {"id": "test", "run": "make test"}]}' >/dev/null
    claim
    run -0 tend heartbeat "$lease" --json
    json '.leases[0].liveControl == {paused: false, takeover: false, recovery: null}'
    tend control 1 resume_from_step --step build --reason 'wrong branch' >/dev/null
    tend control 1 pause >/dev/null
    run -0 tend heartbeat "$lease" --json
    json '.leases[0].liveControl | .paused and (.takeover | not)'
    json '.leases[0].liveControl.recovery | .action == "resume_from_step" and .stepId == "build"
          and .reason == "wrong branch" and (.updatedAt | test("^2.*T.*Z$"))'
    control=$(jq .leases[0].liveControl.recovery.id <<<"$output")
    run -0 tend heartbeat "$lease"
    [[ "$output" == *"1 is asked to resume_from_step build, by "*"(control $control): wrong branch"* ]]
    run -0 tend show 1 --json
    json '[.controls[].taken_at_ms] | all'

    run -0 tend heartbeat "$lease" --done "$control" --outcome 'went back' --json
    json '.leases[0].liveControl.recovery.action == "pause"'
    run -0 tend show 1 --json
    json '.controls[0].outcome == "went back" and .controls[1].outcome == null'
    tend hold 1 >/dev/null
    run -0 tend show 1 --json
    json '.controls[1].outcome == "the job was held"'
}

@test "heartbeat --done needs one lease and a control of its job" {
    tend add >/dev/null
    claim
    fails 2 tend heartbeat "$lease" 2:1 --done 1
    fails 2 tend heartbeat "$lease" --outcome x
    fails 2 tend heartbeat "$lease" --done 0
    fails 3 tend heartbeat "$lease" --done 99
    says "no control 99"
}

@test "complete keeps the result; a repeated complete is answered as the first" {
    tend add >/dev/null
    claim
    run -0 tend complete "$lease" --result '{"pages": 4}'
    [ "$output" = '1 completed' ]
    run -0 tend show 1 --json
    json '.job.state == "done" and .job.result.pages == 4'
    tend complete "$lease" >/dev/null
    fails 2 tend complete "$lease" --result '{'
    says "line 1, column 2"
}

# RC-11
@test "a wrong token is refused by every command, and changes nothing" {
    tend add >/dev/null
    claim
    wrong=$id:$((token + 5))
    for command in start heartbeat complete fail release; do
        fails 4 tend "$command" "$wrong"
        says "lease"
    done
    fails 4 tend phase "$wrong" testing
    [ "$(state_of 1)" = running ]
    fails 4 tend complete 99:1
    says 'there is no job 99'
}

@test "a malformed lease is bad usage" {
    tend add >/dev/null
    for lease in 1 1: :1 1:x x:1 1:2:3 -1:1 0:1 '1: 2' 99999999999999999999:1 ''; do
        fails 2 tend complete -- "$lease"
        says "give ID:TOKEN"
    done
}

@test "fail tries again by the backoff, by --retry-in, or never" {
    tend add --max-attempts 3 --backoff 10s >/dev/null
    claim
    run -0 tend fail "$lease" --text 'server said 503' --class transient_runtime
    [[ "$output" == "1 failed; tried again in "* ]]
    run -0 tend show 1 --json
    json '.job.state == "scheduled" and .job.attempts == 1 and .job.error_text == "server said 503"'
    tend add >/dev/null
    claim
    run -0 tend fail "$lease" --retry-in 1h --json
    json ".state == \"scheduled\" and .due_at_ms > 0 and .id == $id"
    tend add >/dev/null
    claim
    run -0 tend fail "$lease" --final
    [[ "$output" == "$id failed for good"* ]]
    [ "$(state_of "$id")" = failed ]
    fails 2 tend fail "$lease" --final --retry-in 1s
}

# LS-3
# They were answered as the first call, and dropped.
@test "a fail or release repeated otherwise is refused and says what stands" {
    tend add >/dev/null
    claim
    tend fail "$lease" --text a --retry-in 1h >/dev/null
    run -0 tend fail "$lease" --text a --retry-in 1h
    fails 4 tend fail "$lease" --final --text a
    says "job 1 was failed under lease $lease before, otherwise than asked now: a; it is scheduled, due "
    fails 4 tend fail "$lease" --retry-in 2h
    [ "$(state_of 1)" = scheduled ]
    tend add >/dev/null
    claim
    tend release "$lease" >/dev/null
    run -0 tend release "$lease"
    fails 4 tend release "$lease" --delay 1h
    says "job $id was released before, with other options; it is pending"
}

@test "release gives back free of charge, at once or later" {
    tend add >/dev/null
    claim
    run -0 tend release "$lease" --why 'going home'
    [ "$output" = '1 released' ]
    run -0 tend show 1 --json
    json '.job.state == "pending" and .job.attempts == 0 and .job.crashes == 0'
    json '.events[-1].why == "going home"'
    claim
    tend release "$lease" --delay 1h >/dev/null
    [ "$(state_of 1)" = scheduled ]
}

# LS-1
@test "an unstarted lease is started by start" {
    tend add >/dev/null
    claim --unstarted
    run -0 tend show 1 --json
    json '.job.started_at_ms == null'
    run -0 tend start "$lease"
    [ "$output" = '1 started' ]
    run -0 tend show 1 --json
    json '.job.started_at_ms > 0'
}

@test "phase says where a job is" {
    tend add >/dev/null
    claim
    run -0 tend phase "$lease" rebasing
    [ "$output" = '1 is now rebasing' ]
    run -0 tend phase "$lease" testing --json
    json '.phase == "testing"'
    run -0 tend jobs
    [[ "$output" == *testing* ]]
}

@test "jobs whose line nobody could read are given back" {
    tend add >/dev/null
    run -1 bash -c '"$0" claim >/dev/full' "$TEND"
    [[ "$output" == *"1 job was claimed and given back, because the leases could not be written to standard output: No space left on device"* ]]
    [ "$(state_of 1)" = pending ]
    mkfifo pipe
    true <pipe &
    exec 9>pipe
    wait $!
    run -141 bash -c '"$0" claim >&9' "$TEND"
    [ -z "$output" ]
    [ "$(state_of 1)" = pending ]
}

# CL-3
@test "many claimers at once: every job is handed out once" {
    seq 60 | sed 's/.*/{"payload":&}/' | tend add --batch - >/dev/null
    for worker in 1 2 3 4 5 6; do
        while "$TEND" claim -w "worker $worker" 2>/dev/null; do :; done >"claimed.$worker" 3>&- &
    done
    wait
    cat claimed.* | jq .id >ids
    [ "$(wc -l <ids)" = 60 ]
    [ "$(sort -un ids | wc -l)" = 60 ]
}

# Symptom: 'tend claim' had printed the lease and then died of a signal; the script took it for failed
# and dropped a job that it held.
@test "a signal after the answer does not change the exit status" {
    mkfifo answer
    tend migrate >/dev/null
    answered() {
        "$TEND" "$@" >answer 3>&- &
        local pid=$!
        read -r line <answer
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid"
        [ -n "$line" ]
    }
    for i in {1..30}; do
        answered add
        answered claim
        tend add -q other >/dev/null
        answered claim --wait=5s -q other
        answered lock acquire "lock$i" -w me
    done
}

# Symptom: the documentation said that such a class ends the job.
@test "fail with a class that another attempt cannot mend notes that only --final ends the job" {
    tend add >/dev/null
    claim
    run -0 --separate-stderr tend fail "$lease" --class deterministic_contract --retry-in 0s
    [[ "$output" == '1 failed; tried again '* ]]
    [ "$stderr" = 'tend: fail: the class deterministic_contract does not end the job, it is tried again; --final ends it' ]
    claim
    run -0 --separate-stderr tend fail "$lease" --class deterministic_contract --final
    [[ "$output" == '1 failed for good'* && -z "$stderr" ]]
}
