# tend add: one job.
load helper

@test "add prints the id and makes the store on first use" {
    [ ! -e .tend ]
    run -0 --separate-stderr tend add
    [ "$output" = 1 ]
    [ "$stderr" = "tend: made store $(pwd -P)/.tend/tend.db" ]
    [ -f .tend/tend.db ]
    run -0 --separate-stderr tend add
    [ "$output" = 2 ]
    [ -z "$stderr" ]
}

@test "with --json the outcome is told" {
    run -0 tend add --json
    json '. == {"id": 1, "outcome": "added"}'
}

@test "every option reaches the job" {
    tend add -q mail -k welcome -p 2 --unique ann --subject v1 --key ann@x --tag a --tag 'b "c"' \
        --workspace /srv --max-attempts 7 --max-crashes 4 --backoff 1s --backoff-max 1m --lease 2m \
        --payload '{"to":  "ann",
 "n": 12345678901234567890}' >/dev/null
    run -0 tend show 1 --json
    json '.job | [.queue, .kind, .priority, .unique_key, .subject, .concurrency_key, .workspace]
          == ["mail", "welcome", 2, "ann", "v1", "ann@x", "/srv"]'
    json '.job.tags == ["a", "b \"c\""]'
    json '.job | [.max_attempts, .max_crashes, .backoff_ms, .backoff_max_ms, .lease_ms]
          == [7, 4, 1000, 60000, 120000]'
    # Digits no number type holds are kept, since nobody reads them as a number.
    [[ "$output" == *'"n": 12345678901234567890'* ]]
    json '.job.state == "pending"'
}

@test "a payload comes from the command line, a file or standard input" {
    echo '[1, 2]' >payload.json
    tend add --payload @payload.json >/dev/null
    echo '"text"' | tend add --payload - >/dev/null
    tend add --payload null >/dev/null
    run -0 tend jobs --oldest --json
    [ "$(jq -c .payload <<<"$output")" = $'[1,2]\n"text"\nnull' ]
}

@test "a broken payload is refused with line and column, and no store is made" {
    fails 2 tend add --payload '{"a": }'
    says "line 1, column 7: a value is expected here"
    printf '{\n "a": 1\n "b": 2}' >payload.json
    fails 2 tend add --payload @payload.json
    says "payload.json is not JSON: line 3, column 2"
    fails 2 tend add --payload @missing.json
    says "missing.json"
    fails 2 tend add --payload @ # "cannot open : No such file or directory"
    says "add: --payload: a file name is missing after @"
    [ ! -e .tend ]
}

@test "a command becomes a job with a plan" {
    tend add -q build -- make -j2 'say "hi"' >/dev/null
    run -0 tend show 1 --json
    json '.job.kind == "shell" and .job.payload == {"exec": ["make", "-j2", "say \"hi\""]}'
}

@test "a command without -- is refused: it could be a slip" {
    fails 2 tend add make report
    says 'tend add -- make'
    [ ! -e .tend ]
}

@test "nothing behind -- is refused: a variable may have been empty" {
    fails 2 tend add --
    says 'add: a command is missing after --'
    fails 2 tend add --payload '{"run": "x"}' --
    [ ! -e .tend ]
}

@test "what excludes each other is refused" {
    fails 2 tend add --in 5m --at now
    fails 2 tend add --payload '{}' -- make
    fails 2 tend add --batch - -- make
    fails 2 tend add --subject x
    fails 2 tend add --payload - --batch - <<<'{}'
    [ ! -e .tend ]
}

@test "a job of later is scheduled" {
    tend add --in 1h >/dev/null
    tend add --at 2199-01-01 >/dev/null
    tend add --at 2001-01-01 >/dev/null
    [ "$(tend jobs --oldest --json | jq -r .state)" = $'scheduled\nscheduled\npending' ]
}

# CL-7
@test "one live job per key: the same subject refreshes, another is refused with the id" {
    tend add --unique k --subject v1 >/dev/null
    run -0 tend add --unique k --subject v1 --json
    json '. == {"id": 1, "outcome": "refreshed"}'
    fails 4 tend add --unique k --subject v2
    says "job 1"
    run --separate-stderr -4 tend add --unique k --subject v2 --json
    output=$stderr
    json '.error.code == "ECONFLICT" and .error.id == 1 and .error.exit == 4'
    claim
    tend complete "$lease" >/dev/null
    run -0 tend add --unique k --subject v2 --json
    json '.outcome == "added" and .id > 1'
}

@test "bad names are refused by one sentence" {
    fails 2 tend add -q ''
    fails 2 tend add -q $'a\nb'
    fails 2 tend add --tag $'t\xff'
    fails 2 tend add -k $'k\xff'
    fails 2 tend add -- echo $'\xff'
    fails 2 tend add -q "$(printf 'x%.0s' {1..300})"
}

# The job was added, and nobody was told.
# Symptom: "delay (ms) is 3599999996400000; it must be from 0 to 31622400000000".
@test "values out of range are told as they are written, with the range, before a store is made" {
    fails 2 tend add --in 999999999h
    says "add: the delay is 41666666d 15h; it must be a duration from 0s to 366000d"
    fails 2 tend add --lease 0s
    says "add: the lease is 0s; it must be a duration from 100ms to 366d"
    fails 2 tend add --at @-5
    says "add: the due time is 1969-12-31T23:59:55.000Z; it must be a time from 1970-01-01T00:00:00.000Z to 9999-12-31"
    fails 2 tend add --batch /dev/null --lease 367d
    says "add: the lease is 367d; it must be a duration from 100ms to 366d"
    [ ! -e .tend ]
}

# Symptom: it was added, and done at once with nothing run.
@test "a plan without a step is refused" {
    fails 2 tend add --payload '{"steps": []}'
    says "add: --payload: steps: there is nothing to do; at least one step is needed"
    [ ! -e .tend ]
}

@test "an id that cannot be written is told on standard error" {
    tend migrate >/dev/null 2>&1
    run -1 bash -c '"$0" add >/dev/full' "$TEND"
    [ "$output" = 'tend: job 1 was added, but its id could not be written to standard output: No space left on device' ]
    run -1 bash -c '"$0" add >&-' "$TEND"
    [[ "$output" == *"job 2 was added, but its id could not be written"* ]]
    run -1 bash -c 'echo "{}" | "$0" add --batch - >/dev/full' "$TEND"
    [[ "$output" == *"jobs were added: 1, but their ids could not be written"* ]]
    run -1 bash -c '"$0" cancel 1 >/dev/full' "$TEND"
    [[ "$output" == *"1 job was cancelled, but the answer could not be written"* ]]
    [ "$(state_of 1)" = cancelled ]
    run -1 bash -c '"$0" lock acquire l -w me >/dev/full' "$TEND"
    [[ "$output" == *'lock "l" was acquired under token'* ]]
}

# Held and running jobs answered "refreshed", and the new payload was dropped.
@test "submitting under the key of a held job refreshes it, of a running one runs once more" {
    tend add --unique main --subject s --payload 1 >/dev/null
    tend hold 1 --why looking >/dev/null
    run -0 tend add --unique main --subject s --payload 2 --json
    json '. == {"id": 1, "outcome": "refreshed"}'
    run --separate-stderr -0 tend add --unique main --subject s --payload 2
    [ "$output" = 1 ]
    [[ "$stderr" == *"job 1 had this key already and took over what was submitted; it is held until 'tend resume 1'" ]]
    fails 4 tend add --unique main
    says "is taken by job 1 for another subject ('s' there, none here)"
    run -0 tend show 1 --json
    json '.job.state == "held" and .job.payload == 2 and .job.changed_why == "looking"'
    tend resume 1 >/dev/null
    claim
    run --separate-stderr -0 tend add --unique main --subject s --payload 3
    [ "$output" = 1 ]
    [[ "$stderr" == *"job 1 is running under this key; what was submitted runs when that has ended"* ]]
    run -0 tend add --unique main --subject s --payload 4 --json
    json '. == {"id": 1, "outcome": "again"}'
    run -0 tend add --unique main --subject s --payload 5 --if-running keep --json
    json '. == {"id": 1, "outcome": "unchanged"}'
    run --separate-stderr -0 tend add --unique main --subject s --payload 5 --if-running keep
    [[ "$stderr" == *"nothing was changed"* ]]
    run -0 tend explain 1
    [[ "$output" == *"A newer submission under its key waits for its end."* ]]
    run -0 tend show 1 --json
    json '.job.followed and .job.payload == 2'
    tend complete "$lease" >/dev/null
    claim
    [ "$id" != 1 ]
    [ "$(jq .payload <<<"$job")" = 4 ]
    [ "$(jq -r .unique_key <<<"$job")" = main ]
    fails 2 tend add --if-running keep
    fails 2 tend add --unique x --if-running later
    echo '{"unique": "main", "subject": "s", "if_running": "keep"}' >line
    run -0 tend add --batch line --json
    json '.outcome == "unchanged"'
    echo '{"unique": "main", "if_running": "never"}' >line
    fails 2 tend add --batch line
    says '"again" or "keep"'
}

# Such a job was never run, and nobody said why.
@test "a payload that looks like a misspelt plan is added with a hint" {
    run --separate-stderr -0 tend add --payload '{"command": "make"}'
    [ "$output" = 1 ]
    [[ "$stderr" == *'the payload is data, as "command" makes no plan; did you mean "run"? As it is, no worker runs the job, only '"'tend claim' takes it"* ]]
    run --separate-stderr -0 tend add -k build --payload '{"Run": "make"}'
    [[ "$stderr" == *'did you mean "run"?'* ]]
    run --separate-stderr -0 tend add -k build --payload '{"command": "make"}'
    [ -z "$stderr" ]
}

# Symptom: nobody can run such a job, and the advice was a handler for its kind.
# Not before a worker has met one: 'tend claim' is for such jobs.
@test "a job that is data without a kind gets a true hint from a worker, and then from add" {
    run --separate-stderr -0 tend add --payload '{"to": "ann"}'
    [ -z "$(grep -v 'made store' <<<"$stderr")" ]
    run -1 tend work --name w1 --drain
    [[ "$output" == *"is given back: this worker has no handler for jobs without a kind"*"'tend claim' takes it, or cancel it and add it with --kind KIND; further jobs without a kind are given back too; this is said only once"* ]]
    run --separate-stderr -0 tend add
    [[ "$stderr" == *"worker w1 has just given back a job without a kind"*"'tend claim' takes it"* ]]
}

@test "a tag may have a comma, but is not empty" {
    tend add --tag a,b >/dev/null
    [ "$(tend jobs --tag a,b --json | jq .id)" = 1 ]
    fails 2 tend add --tag ''
    says 'add: a tag cannot be empty'
}

@test "a kind that a worker has just given back is added with a hint" {
    tend add -k mail --payload '{"to": "ann"}' >/dev/null
    run -1 tend work --name w1 --drain >/dev/null
    run --separate-stderr -0 tend add -k mail --payload '{"to": "ben"}'
    [[ "$stderr" == *"worker w1 has just given back a job of this kind"*"'tend work --handler mail=COMMAND' runs them"* ]]
    run --separate-stderr -0 tend add -k other --payload '{"to": "ben"}'
    [ -z "$stderr" ]
    run --separate-stderr -0 tend add -q elsewhere -k mail --payload '{"to": "ben"}'
    [[ "$stderr" != *"given back"* ]]
}

# Symptom: with --max-attempts 1 a command ran twice, as its step has attempts of its own.
@test "--attempts 1 --max-attempts 1 runs a command once, whatever it ends with" {
    id=$(tend add --attempts 1 --max-attempts 1 -- sh -c 'echo x >>runs; exit 1')
    TEND_STEP_PAUSE_SECONDS=0 tend work --drain >/dev/null
    [ "$(cat runs)" = x ]
    [ "$(state_of "$id")" = failed ]
    run -0 tend show "$id" --json
    json '.job.payload.attempts == 1'
    run -0 tend explain "$id"
    [[ "$output" == "job $id has failed ("*"; the queue has tried the job 1 time: step step-1, attempt 1 of 1: exit 1"* ]]
    fails 2 tend add --attempts 1 --payload '{}'
    says 'add: --attempts is for a command after --'
    fails 2 tend add --attempts 0 -- true
}

# Symptom: unexpected argument "5s"; give the command after --.
@test "--wait takes no time, and says which option does" {
    for form in '--wait 5s' --wait=5s; do
        fails 2 tend add $form -- true
        says '--wait of add takes no time; give --timeout 5s'
    done
}
